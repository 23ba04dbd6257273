/* What is at the other end of a descriptor: by rules, by usual ports and paths, by asking. */
#include "page/services.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

static ab_addr v4(uint8_t last, uint16_t port) {
  return (ab_addr){.family = 4, .bytes = {127, 0, 0, last}, .port = port};
}

static enum ab_state of_path(const ab_services *services, const char *path) {
  return ab_services_of_path(services, path, strlen(path));
}

CHECK_CASE(usual_ports_are_known) {
  const struct {
    uint16_t port;
    enum ab_state state;
  } ports[] = {
      {5432, AB_STATE_DB},  {3306, AB_STATE_DB},    {1433, AB_STATE_DB},     {1521, AB_STATE_DB},
      {27017, AB_STATE_DB}, {6379, AB_STATE_CACHE}, {11211, AB_STATE_CACHE}, {80, AB_STATE_HTTP},
      {443, AB_STATE_HTTP}, {8080, AB_STATE_HTTP},  {5433, AB_STATE_IO},     {0, AB_STATE_IO},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(ports); i++) {
    ab_addr addr = v4(1, ports[i].port);
    CHECK_INT(ports[i].state, ab_services_of_addr(NULL, &addr));
  }
}

CHECK_CASE(rules_come_first_and_name_a_host_or_any) {
  ab_service_rule rules[] = {
      {.addr = v4(2, 5432), .state = AB_STATE_HTTP},
      {.addr = {.port = 7000}, .state = AB_STATE_CACHE},
      {.addr = {.family = 6, .bytes = {[15] = 1}, .port = 9000}, .state = AB_STATE_DB},
  };
  const ab_services services = {.rules = rules, .count = AB_ARRAY_LEN(rules)};
  ab_addr named = v4(2, 5432), other = v4(3, 5432), any = v4(9, 7000), same_bytes = v4(0, 9000);
  ab_addr v6 = {.family = 6, .bytes = {[15] = 1}, .port = 9000};
  CHECK_INT(AB_STATE_HTTP, ab_services_of_addr(&services, &named));
  CHECK_INT(AB_STATE_DB, ab_services_of_addr(&services, &other));
  CHECK_INT(AB_STATE_CACHE, ab_services_of_addr(&services, &any));
  CHECK_INT(AB_STATE_DB, ab_services_of_addr(&services, &v6));
  CHECK_INT(AB_STATE_IO, ab_services_of_addr(&services, &same_bytes));
  v6.bytes[15] = 2;
  CHECK_INT(AB_STATE_IO, ab_services_of_addr(&services, &v6));
}

CHECK_CASE(paths_tell) {
  char own[] = "/run/pool.sock";
  ab_service_rule rules[] = {{.path = own, .state = AB_STATE_DB}};
  const ab_services services = {.rules = rules, .count = 1};
  CHECK_INT(AB_STATE_DB, of_path(NULL, "/var/run/postgresql/.s.PGSQL.5432"));
  CHECK_INT(AB_STATE_DB, of_path(NULL, "/run/mysqld/mysqld.sock"));
  CHECK_INT(AB_STATE_CACHE, of_path(NULL, "/run/redis/redis.sock"));
  CHECK_INT(AB_STATE_IO, of_path(NULL, "/run/pool.sock"));
  CHECK_INT(AB_STATE_IO, of_path(NULL, ""));
  CHECK_INT(AB_STATE_DB, of_path(&services, "/run/pool.sock"));
  CHECK_INT(AB_STATE_IO, of_path(&services, "/run/pool.soc"));
  CHECK_INT(AB_STATE_IO, of_path(&services, "/run/pool.sock2"));
}

/* A path is no rule for a port, though its address has port 0. */
CHECK_CASE(a_path_is_no_port) {
  char own[] = "/run/pool.sock";
  ab_service_rule rules[] = {{.path = own, .state = AB_STATE_DB}};
  const ab_services services = {.rules = rules, .count = 1};
  ab_addr addr = v4(1, 0);
  CHECK_INT(AB_STATE_IO, ab_services_of_addr(&services, &addr));
}

static int listener(int family, uint16_t *port) {
  struct sockaddr_storage name = {.ss_family = (sa_family_t)family};
  socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  if (family == AF_INET) {
    ((struct sockaddr_in *)&name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  int fd = socket(family, SOCK_STREAM, 0);
  CHECK_INT(0, bind(fd, (struct sockaddr *)&name, len));
  CHECK_INT(0, listen(fd, 1));
  CHECK_INT(0, getsockname(fd, (struct sockaddr *)&name, &len));
  *port = ntohs(family == AF_INET ? ((struct sockaddr_in *)&name)->sin_port
                                  : ((struct sockaddr_in6 *)&name)->sin6_port);
  return fd;
}

CHECK_CASE(a_connection_tells_its_peer) {
  uint16_t port;
  int server = listener(AF_INET, &port), fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in name = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  enum ab_state state = AB_STATE_DB;
  ab_addr addr = {.family = 6};
  CHECK(!ab_services_ask(NULL, fd, &state, &addr)); /* it is not connected */
  CHECK_INT(AB_STATE_IO, state);
  CHECK_INT(0, addr.family);
  CHECK_INT(0, connect(fd, (struct sockaddr *)&name, sizeof(name)));
  ab_service_rule rule = {.addr = {.port = port}, .state = AB_STATE_CACHE};
  const ab_services services = {.rules = &rule, .count = 1};
  CHECK(ab_services_ask(&services, fd, &state, &addr));
  CHECK_INT(AB_STATE_CACHE, state);
  CHECK_INT(4, addr.family);
  CHECK_INT(port, addr.port);
  CHECK_INT(127, addr.bytes[0]);
  close(fd);
  close(server);
}

/* On a socket of IPv6 an address of IPv4 is one of IPv4. */
CHECK_CASE(a_mapped_address_is_of_ipv4) {
  uint16_t port;
  int server = listener(AF_INET, &port), fd = socket(AF_INET6, SOCK_STREAM, 0);
  if (fd >= 0) {
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    name.sin6_addr.s6_addr[10] = name.sin6_addr.s6_addr[11] = 0xff;
    name.sin6_addr.s6_addr[12] = 127;
    name.sin6_addr.s6_addr[15] = 1;
    CHECK_INT(0, connect(fd, (struct sockaddr *)&name, sizeof(name)));
    enum ab_state state;
    ab_addr addr;
    CHECK(ab_services_ask(NULL, fd, &state, &addr));
    CHECK_INT(4, addr.family);
    CHECK_INT(1, addr.bytes[3]);
    close(fd);
  }
  close(server);
}

CHECK_CASE(a_unix_socket_tells_its_path) {
  char folder[] = "/tmp/abaca-services-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof(name.sun_path), "%s/redis.sock", folder);
  int server = socket(AF_UNIX, SOCK_STREAM, 0), fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_INT(0, bind(server, (struct sockaddr *)&name, sizeof(name)));
  CHECK_INT(0, listen(server, 1));
  CHECK_INT(0, connect(fd, (struct sockaddr *)&name, sizeof(name)));
  enum ab_state state;
  ab_addr addr;
  CHECK(ab_services_ask(NULL, fd, &state, &addr));
  CHECK_INT(AB_STATE_CACHE, state);
  CHECK_INT(0, addr.family);
  close(fd);
  close(server);
  unlink(name.sun_path);
  rmdir(folder);
}

CHECK_CASE(what_has_no_peer_is_io) {
  int pipes[2], pair[2];
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  enum ab_state state;
  ab_addr addr;
  CHECK(!ab_services_ask(NULL, pipes[0], &state, &addr));
  CHECK_INT(AB_STATE_IO, state);
  CHECK(ab_services_ask(NULL, pair[0], &state, &addr)); /* its peer has no name */
  CHECK_INT(AB_STATE_IO, state);
  CHECK(!ab_services_ask(NULL, -1, &state, &addr));
  for (int i = 0; i < 2; i++) {
    close(pipes[i]);
    close(pair[i]);
  }
}

CHECK_MAIN()
