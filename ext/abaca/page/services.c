#include "page/services.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "os/bytes.h"
#include "os/sockets.h"

/* --- by address --- */

static enum ab_state usual(uint16_t port) {
  switch (port) {
  case 5432:  /* PostgreSQL */
  case 3306:  /* MySQL */
  case 1433:  /* SQL Server */
  case 1521:  /* Oracle */
  case 27017: /* MongoDB */
    return AB_STATE_DB;
  case 6379:  /* Redis */
  case 11211: /* memcached */
    return AB_STATE_CACHE;
  case 80:
  case 443:
  case 8080:
    return AB_STATE_HTTP;
  default:
    return AB_STATE_IO;
  }
}

static bool services_is_at(const ab_service_rule *rule, const ab_addr *addr) {
  if (rule->path || rule->addr.port != addr->port) return false;
  if (rule->addr.family == 0) return true;
  size_t len = addr->family == 4 ? 4 : 16;
  return rule->addr.family == addr->family && memcmp(rule->addr.bytes, addr->bytes, len) == 0;
}

enum ab_state ab_services_of_addr(const ab_services *services, const ab_addr *addr) {
  for (size_t i = 0; services && i < services->count; i++)
    if (services_is_at(&services->rules[i], addr)) return (enum ab_state)services->rules[i].state;
  return usual(addr->port);
}

/* --- by path --- */

static bool contains(const char *text, size_t len, const char *part) {
  return ab_os_find(text, len, part, strlen(part)) != NULL;
}

enum ab_state ab_services_of_path(const ab_services *services, const char *path, size_t len) {
  for (size_t i = 0; services && i < services->count; i++) {
    const ab_service_rule *rule = &services->rules[i];
    if (rule->path && strlen(rule->path) == len && memcmp(rule->path, path, len) == 0)
      return (enum ab_state)rule->state;
  }
  if (contains(path, len, ".s.PGSQL.") || contains(path, len, "mysqld.sock")) return AB_STATE_DB;
  return contains(path, len, "redis") ? AB_STATE_CACHE : AB_STATE_IO;
}

/* --- of a descriptor --- */

/* The kernel refuses to tell less than is asked for. */
static bool peer_being_made(int fd, struct sockaddr_storage *name, socklen_t len) {
  return ab_os_peer_being_made(fd, (struct sockaddr *)name, len);
}

/* getpeername knows nothing of a connection that is being made. */
static bool peer_name(int fd, struct sockaddr_storage *name, socklen_t *len) {
  *len = sizeof(*name);
  if (getpeername(fd, (struct sockaddr *)name, len) == 0) return true;
  if (errno != ENOTCONN || !peer_being_made(fd, name, sizeof(struct sockaddr_in))) return false;
  return name->ss_family == AF_INET ||
         (name->ss_family == AF_INET6 && peer_being_made(fd, name, sizeof(struct sockaddr_in6)));
}

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static ab_addr addr_of(const struct sockaddr_storage *name) {
  ab_addr addr = {.family = 0};
  if (name->ss_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)name;
    memcpy(addr.bytes, &in->sin_addr, 4);
    addr.port = ntohs(in->sin_port);
    addr.family = 4;
  } else if (name->ss_family == AF_INET6) {
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)name;
    bool v4 = memcmp(&in->sin6_addr, mapped, sizeof(mapped)) == 0;
    memcpy(addr.bytes, (const char *)&in->sin6_addr + (v4 ? 12 : 0), v4 ? 4 : 16);
    addr.port = ntohs(in->sin6_port);
    addr.family = v4 ? 4 : 6;
  }
  return addr;
}

bool ab_services_ask(const ab_services *services, int fd, enum ab_state *state, ab_addr *addr) {
  struct sockaddr_storage name;
  socklen_t len;
  *state = AB_STATE_IO;
  *addr = (ab_addr){.family = 0};
  if (!peer_name(fd, &name, &len)) return false;
  if (name.ss_family == AF_UNIX) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)&name;
    size_t start = offsetof(struct sockaddr_un, sun_path);
    size_t size = len > start ? (size_t)len - start : 0;
    *state = ab_services_of_path(services, un->sun_path, strnlen(un->sun_path, size));
    return true;
  }
  *addr = addr_of(&name);
  if (addr->family) *state = ab_services_of_addr(services, addr);
  return true;
}
