/* Holds back requests that could only wait for a pool of the application's, for example of database
 * connections: there a request keeps a fiber and all that it has built up, and neither
 * queue_timeout nor max_queue count. So a request of a route that has lately waited for a pool is
 * not taken while as many others wait for that pool as it has connections; other routes pass it.
 *
 * The application reports how many wait (ab_engine_pool_load), and the route of a request that
 * begins to (ab_engine_pool_wait). Routes are those of route_stats. Internal to engine/, as is
 * everything with two underscores. */
#ifndef AB_ENGINE_HOLD_H
#define AB_ENGINE_HOLD_H

#include "base/list.h"
#include "engine/engine.h"

/* Pools that requests wait for at one time; beyond this number nothing is held back. */
#define AB_HOLD_POOLS 16
/* Pairs of a route and a pool that it has waited for. The oldest are forgotten. */
#define AB_HOLD_MARKS 1024
/* For this long a route that has waited is held back. */
#define AB_HOLD_LATELY (10 * AB_NSEC_PER_SEC)
/* For this long a request that was let go counts as waiting: it may not be at its pool yet. */
#define AB_HOLD_WAY AB_NSEC_PER_MS

typedef struct ab_hold_pool {
  uint64_t id; /* 0: the place is free */
  uint32_t size, waiters;
  uint32_t let_go; /* requests that are on their way, ... */
  ab_nsec since;   /* ... the first of them since then */
  ab_list held;    /* exchanges that are held back, oldest first */
} ab_hold_pool;

typedef struct ab_hold_mark {
  uint64_t key; /* of route and pool; 0: none */
  ab_nsec at;   /* when a request of it has waited last */
} ab_hold_mark;

typedef struct ab_hold {
  uint64_t seed;
  uint32_t used; /* of the places for pools */
  ab_hold_pool pools[AB_HOLD_POOLS];
  ab_hold_mark marks[AB_HOLD_MARKS];
} ab_hold;

/* All of these with the lock held, and while engine->hold. */

/* The exchange whose request is the next one that was held back and may go; NULL: none may. */
ab_exchange *ab__hold_next(const ab_engine *engine);
/* Holds back, if it has to be, the parsed first of engine->requests. False if it may go. */
bool ab__hold_back(ab_exchange *exchange);
/* A request that was held back is taken. */
void ab__hold_let_go(ab_exchange *exchange);
/* ... or has ended without that. */
void ab__hold_drop(ab_exchange *exchange);
/* The newest of those that are held back; NULL: none is. */
ab_exchange *ab__hold_newest(const ab_engine *engine);
/* When more may go without further notice; 0: never. */
ab_nsec ab__hold_deadline(const ab_engine *engine);

#endif
