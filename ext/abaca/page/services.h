/* What is at the other end of a descriptor, by its address: a database, a cache, a server of HTTP,
 * or anything else. */
#ifndef AB_PAGE_SERVICES_H
#define AB_PAGE_SERVICES_H

#include "base/mem.h"
#include "page/row.h"

/* One that the settings name. */
typedef struct ab_service_rule {
  ab_addr addr;  /* family 0: any address with that port */
  char *path;    /* of a unix socket, NUL-terminated; NULL: it is none */
  uint8_t state; /* AB_STATE_DB, _CACHE, _HTTP or _IO */
} ab_service_rule;

/* They come before what is known of usual ports. */
typedef struct ab_services {
  ab_service_rule *rules;
  size_t count;
} ab_services;

/* AB_STATE_IO: nothing is known of it. `services` may be NULL. */
enum ab_state ab_services_of_addr(const ab_services *services, const ab_addr *addr);
enum ab_state ab_services_of_path(const ab_services *services, const char *path, size_t len);

/* Asks the kernel for the peer of a descriptor; *addr has family 0 unless that has an address. The
 * peer of a connection that is being made counts. Returns false where there is none to be had, at
 * the moment. */
bool ab_services_ask(const ab_services *services, int fd, enum ab_state *state, ab_addr *addr);

#endif
