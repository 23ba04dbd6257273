/* The app's pools of connections: how many they have, who waits, and how long that took. A pool's
 * name is in the page once; pools of the same name share a record. */
#ifndef AB_PAGE_POOLS_H
#define AB_PAGE_POOLS_H

#include "page/cells.h"

#define AB_PAGE_POOLS     16
#define AB_PAGE_POOL_NAME 64

/* The name is written once, the rest by one thread at a time. */
typedef struct ab_page_pool {
  char name[AB_PAGE_POOL_NAME]; /* cut off, not terminated */
  uint32_t name_len;
  uint32_t pending; /* now: checkouts that have begun, and not ended */
  /* As they were looked at last, about each second. */
  uint32_t most; /* connections that there may be; 0: any number, or it is not known */
  uint32_t used;
  uint32_t idle;
  uint32_t reserved;
  uint64_t timeouts; /* checkouts that ended without a connection, by the pool's own time */
  ab_cells waits;    /* of those that got one */
  uint8_t padding[48];
} ab_page_pool;

_Static_assert(offsetof(ab_page_pool, timeouts) == 88 && offsetof(ab_page_pool, waits) == 96 &&
                   sizeof(ab_page_pool) == 25 * 64,
               "pools fill cache lines");

/* The record of that name, a new one if need be; NULL if there are too many. `used`, in the page:
 * how many have names. One thread at a time. The name is cut off, within no character of UTF-8. */
ab_page_pool *ab_page_pool_find(ab_page_pool *pools, uint32_t count, uint32_t *used, ab_view name);

/* A checkout begins, ... */
static inline void ab_page_pool_enter(ab_page_pool *pool) {
  AB_ADD(pool->pending, 1);
}

/* ... and ends. What has begun before the record was cleared is not counted. */
static inline void ab_page_pool_leave(ab_page_pool *pool) {
  if (AB_LIKELY(pool->pending > 0)) AB_PUT(pool->pending, pool->pending - 1);
}

/* What a look at the pools of that name has found. */
static inline void ab_page_pool_show(ab_page_pool *pool, uint32_t most, uint32_t used,
                                     uint32_t idle) {
  AB_PUT(pool->most, most);
  AB_PUT(pool->used, used);
  AB_PUT(pool->idle, idle);
}

/* The process that had them is no more: counters stay. */
void ab__page_pool_forget(ab_page_pool *pool);

/* --- reading --- */

/* How many have names. */
uint32_t ab_page_pools_used(const uint32_t *used, uint32_t count);
/* Copies the name; returns its length, AB_PAGE_POOL_NAME at most. */
uint32_t ab_page_pool_name(const ab_page_pool *pool, char name[AB_PAGE_POOL_NAME]);

#endif
