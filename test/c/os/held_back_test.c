/* Connections that the kernel holds back for a listener that defers, and how they are found. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "os/tcp.h"

/* A listener on any port of `family`'s loopback address, with or without TCP_DEFER_ACCEPT. */
static int listen_on(int family, bool defers, uint16_t *port) {
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
  socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
  int seconds = 30, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, address, len) != 0 || getsockname(fd, address, &len) != 0) abort();
  if (defers && setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) != 0)
    abort();
  if (listen(fd, 8) != 0) abort();
  *port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
  return fd;
}

static int connect_to(int listener) {
  struct sockaddr_storage address;
  socklen_t len = sizeof address;
  if (getsockname(listener, (struct sockaddr *)&address, &len) != 0) abort();
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) != 0) abort();
  return fd;
}

/* Waits for `held`; returns whether it came. */
static bool soon(uint16_t port, bool held) {
  for (int i = 0; i < 5000 && ab_os_tcp_holds_back(port) != held; i++) usleep(1000);
  return ab_os_tcp_holds_back(port) == held;
}

CHECK_CASE(a_silent_client_is_held_back_until_it_says_something) {
  CHECK_NEEDS(SOCKET_DIAGNOSTICS);
  CHECK_EMULATOR_LACKS("socket diagnostics");
  static const int families[] = {AF_INET, AF_INET6};
  for (size_t i = 0; i < AB_ARRAY_LEN(families); i++) {
    uint16_t port;
    int listener = listen_on(families[i], true, &port);
    CHECK(!ab_os_tcp_holds_back(port));
    int client = connect_to(listener);
    CHECK(soon(port, true));
    CHECK_INT(1, write(client, "G", 1));
    CHECK(soon(port, false));
    close(client);
    close(listener);
  }
}

CHECK_CASE(nobody_is_held_back_where_nothing_is_deferred) {
  CHECK_NEEDS(SOCKET_DIAGNOSTICS);
  CHECK_EMULATOR_LACKS("socket diagnostics");
  uint16_t port, other;
  int listener = listen_on(AF_INET, false, &port), deferring = listen_on(AF_INET, true, &other);
  int client = connect_to(listener), silent = connect_to(deferring);
  CHECK(soon(other, true));
  CHECK(!ab_os_tcp_holds_back(port));
  close(silent);
  close(client);
  close(deferring);
  close(listener);
}

CHECK_MAIN()
