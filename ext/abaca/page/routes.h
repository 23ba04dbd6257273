/* Routes: names that frameworks give to groups of paths, and what their requests did. The names are
 * in the page once; a process knows them, and their numbers, by a table of its own. */
#ifndef AB_PAGE_ROUTES_H
#define AB_PAGE_ROUTES_H

#include "page/row.h"

/* Names, and the last one for all others. */
#define AB_PAGE_ROUTES         65
#define AB_PAGE_ROUTE_NAME     96
#define AB_PAGE_ROUTES_IN_MIND 128

/* The name is written once, the counters by one thread at a time. */
typedef struct ab_page_route {
  char name[AB_PAGE_ROUTE_NAME]; /* cut off, not terminated */
  uint32_t name_len;
  uint32_t reserved;
  uint64_t requests;
  uint64_t errors;     /* answered with 5xx, or not at all */
  uint64_t stalls;     /* that its requests have caused */
  uint64_t stall_time; /* nanoseconds */
  uint64_t sums[AB_STATE_COUNT];
  uint8_t padding[16];
} ab_page_route;

_Static_assert(offsetof(ab_page_route, requests) == 104 && offsetof(ab_page_route, sums) == 136 &&
                   sizeof(ab_page_route) == 320,
               "routes fill cache lines");

/* A process's table of the names in its slot. One thread at a time. */
typedef struct ab_page_routes {
  ab_page_route *routes; /* lent */
  uint32_t count;        /* the last one is that of all others */
  uint32_t most;         /* names, ... */
  uint32_t used;         /* ... and how many there are */
  uint32_t *shown;       /* lent; in the page: `used` */
  uint64_t *dropped;     /* lent; in the page: how often no name was left */
  struct {
    char text[AB_PAGE_ROUTE_NAME];
    uint32_t len;
  } names[AB_PAGE_ROUTES];
  struct {
    const void *key;
    uint32_t number;
  } in_mind[AB_PAGE_ROUTES_IN_MIND];
} ab_page_routes;

/* Over the routes of a slot that this process has claimed, AB_PAGE_ROUTES at most: it goes on with
 * the names that are there. No more than `most` are taken up. */
void ab_page_routes_over(ab_page_routes *self, ab_page_route *routes, uint32_t count, uint32_t most,
                         uint32_t *shown, uint64_t *dropped);
/* The number of a name. `key` tells it from others mostly, as an address does; it may become that
 * of another name, and may be NULL. The last number, if no further name is taken up. */
uint32_t ab_page_routes_find(ab_page_routes *self, const void *key, ab_view name);

/* A request of the route has ended. Its row is its thread's. */
void ab_page_route_add(ab_page_route *route, const ab_row *row, bool failed);
/* Adds the sums of a row that its thread has charged to sums in the page. */
void ab_row_add_sums(uint64_t sums[AB_STATE_COUNT], const ab_row *row);

/* How many names there are, and the bytes of one; what somebody may be writing. */
uint32_t ab_page_routes_used(const uint32_t *used, uint32_t count);
uint32_t ab_page_route_name(const ab_page_route *route, char name[AB_PAGE_ROUTE_NAME]);

#endif
