/* What all slots have counted together: by route, by series, by pool, and as a whole. Slots have
 * numbers of their own for routes and pools, so that names decide what belongs together.
 *
 * A route or a series that was told apart once is from then on: while the tally lives, what it says
 * of one never falls, and what is too much for it is always counted among the others. Nor does what
 * no route has, though it is a difference: while a writer never rests, or sleeps within a write, it
 * may be too little by what is being counted, and is never too much. */
#ifndef AB_PAGE_TALLY_H
#define AB_PAGE_TALLY_H

#include "base/mem.h"
#include "page/page.h"

/* Series that are told apart: those of four slots at least. */
#define AB_TALLY_SERIES 2048
/* Pools of the app: what is too much is left out. */
#define AB_TALLY_POOLS 64

typedef struct ab_tally_totals {
  uint64_t ended, failed, stalls, stall_time;
  uint64_t sums[AB_STATE_COUNT];
  uint64_t missed, routes_dropped, series_dropped, pools_dropped;
  uint64_t gc_time, gc_minor, gc_major;
} ab_tally_totals;

/* A time is in nanoseconds. */
typedef struct ab_tally_route {
  char name[AB_PAGE_ROUTE_NAME];
  uint32_t name_len;
  uint64_t requests, errors, stalls, stall_time;
  uint64_t sums[AB_STATE_COUNT];
} ab_tally_route;

typedef struct ab_tally_series {
  ab_series_key key; /* its route is a number of the tally's */
  ab_cells cells;
  ab_exemplars exemplars;
} ab_tally_series;

/* There is nothing `now` without a process. */
typedef struct ab_tally_pool {
  char name[AB_PAGE_POOL_NAME];
  uint32_t name_len;
  uint64_t pending, most, used, idle; /* now */
  uint64_t timeouts;
  ab_cells waits;
} ab_tally_pool;

typedef struct ab_tally {
  const ab_mem *mem;
  ab_tally_totals totals;
  uint64_t routeless[AB_STATE_COUNT]; /* what of `totals.sums` is no route's */
  ab_tally_route *routes;             /* `names`, and the others at `most` */
  uint32_t names, most;
  ab_tally_series *series; /* the first ones, one for each kind, have what is not told apart */
  uint32_t series_count, series_room;
  uint16_t places[2 * AB_TALLY_SERIES]; /* by hash: number + 1 */
  ab_tally_pool *pools;                 /* AB_TALLY_POOLS; NULL while there are none */
  uint32_t pool_count;
  /* Of the slot that is being read. */
  ab_page_route *copy;
  uint32_t numbers[AB_PAGE_ROUTES]; /* its routes among ours */
} ab_tally;

/* `most` names of routes are told apart, AB_PAGE_ROUTES - 1 at most. AB_OK or AB_ENOMEM. */
int ab_tally_init(ab_tally *self, const ab_mem *mem, uint32_t most) AB_WARN_UNUSED;
void ab_tally_fini(ab_tally *self);
/* Counts anew. AB_OK, or AB_ENOMEM: then what it says is a part only. */
int ab_tally_take(ab_tally *self, const ab_page *page) AB_WARN_UNUSED;

#endif
