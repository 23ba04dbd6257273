/* Holding requests back that could only wait. An application has pools of its own, of connections
 * to a database for instance. A request that finds one empty waits there, with a fiber and all that
 * it has built up, where neither queue_timeout nor max_queue count. So a request of a route that
 * has lately waited for a pool is not taken while as many others wait for that pool as it has
 * connections. It waits where all requests do; those of other routes pass it.
 *
 * Whoever knows the pools tells how many wait (ab_engine_pool_load), and of which route the request
 * is that begins to (ab_engine_pool_wait). A route is the ledger's: what the path looks like.
 * Internal to engine/, as all that has two underscores.
 */
#ifndef AB_ENGINE_HOLD_H
#define AB_ENGINE_HOLD_H

#include "base/list.h"
#include "engine/engine.h"

/* Pools that requests wait for at one time; of more than these nothing is held back. */
#define AB_HOLD_POOLS 16
/* Pairs of a route and a pool that it has waited for. The oldest are forgotten. */
#define AB_HOLD_MARKS 1024
/* For so long a route that has waited is held back. */
#define AB_HOLD_LATELY (10 * AB_NSEC_PER_SEC)
/* A request that was let go needs a while to get to its pool. For so long it counts as one that
 * waits there, lest all are let go before the first one gets there. */
#define AB_HOLD_WAY AB_NSEC_PER_MS

typedef struct ab_hold_pool {
  uint64_t id; /* 0: the place is free */
  uint32_t size, waiters;
  uint32_t let_go; /* requests that are on their way, ... */
  ab_nsec since;   /* ... the first of them since then */
  ab_list held;    /* connections that are held back, oldest first */
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

/* The connection whose request is the next one that was held back and may go; NULL: none may. */
ab_conn *ab__hold_next(const ab_engine *engine);
/* Holds the request of the connection back if it has to be: parsed, and first of engine->requests.
 * Returns false when it may go. */
bool ab__hold_back(ab_conn *conn);
/* A request that was held back is taken. */
void ab__hold_let_go(ab_conn *conn);
/* ... or has ended without that. */
void ab__hold_drop(ab_conn *conn);
/* The one that came last of those that are held back; NULL: none is. */
ab_conn *ab__hold_newest(const ab_engine *engine);
/* When more may go without another word; 0: never. */
ab_nsec ab__hold_deadline(const ab_engine *engine);

#endif
