#include "engine/hold.h"

#include "engine/conn.h"
#include "engine/route_stats.h"

/* Places in which the mark of a pair may be. */
#define SET 4

int ab_engine_hold(ab_engine *engine, uint64_t seed) {
  if (engine->hold) return AB_OK;
  ab_hold *hold = ab_alloc_zero(&engine->mem, sizeof(*hold));
  if (!hold) return AB_ENOMEM;
  hold->seed = seed;
  for (size_t i = 0; i < AB_HOLD_POOLS; i++) ab_list_init(&hold->pools[i].held);
  __atomic_store_n(&engine->hold, hold, __ATOMIC_RELAXED); /* is_quiet looks without the lock */
  return AB_OK;
}

static ab_hold_pool *hold_find(ab_hold *hold, uint64_t id) {
  for (size_t i = 0; i < AB_HOLD_POOLS; i++) {
    if (hold->pools[i].id == id) return &hold->pools[i];
  }
  return NULL;
}

/* Those on their way will not come any more, or do not need the pool. */
static bool is_over(const ab_hold_pool *pool, ab_nsec now) {
  return now >= pool->since + AB_HOLD_WAY;
}

static bool hold_has_room(const ab_hold_pool *pool, ab_nsec now) {
  uint32_t coming = is_over(pool, now) ? 0 : pool->let_go;
  return (uint64_t)pool->waiters + coming < pool->size;
}

static void send_off(ab_hold_pool *pool, ab_nsec now) {
  if (is_over(pool, now)) pool->let_go = 0;
  if (pool->let_go++ == 0) pool->since = now;
}

/* The pool's place, which is assigned if needed. NULL: there is none. */
static ab_hold_pool *hold_place(ab_hold *hold, uint64_t id, bool needed) {
  ab_hold_pool *pool = hold_find(hold, id);
  if (pool || !needed) return pool;
  pool = hold_find(hold, 0);
  if (!pool) return NULL;
  pool->id = id;
  pool->let_go = pool->waiters = 0;
  hold->used++;
  return pool;
}

/* It gives up its place when no request waits for it. */
static void hold_leave(ab_hold *hold, ab_hold_pool *pool) {
  if (pool->waiters > 0 || !ab_list_empty(&pool->held)) return;
  pool->id = 0;
  hold->used--;
}

bool ab_engine_pool_load(ab_engine *engine, uint64_t id, uint32_t size, uint32_t waiters) {
  ab_hold_pool *pool = engine->hold ? hold_place(engine->hold, id, waiters > 0) : NULL;
  if (!pool) return false;
  uint32_t came = waiters > pool->waiters ? waiters - pool->waiters : 0;
  pool->let_go -= came < pool->let_go ? came : pool->let_go;
  pool->size = size > 0 ? size : 1;
  pool->waiters = waiters;
  bool go_on = !ab_list_empty(&pool->held) && hold_has_room(pool, engine->now);
  hold_leave(engine->hold, pool);
  return go_on;
}

static uint64_t key_of(const ab_hold *hold, uint64_t pool, ab_view path) {
  char text[AB_ROUTE_STATS_KEY_MAX];
  size_t len = ab__route_stats_key(path, text);
  return ab__route_stats_hash(hold->seed ^ pool * UINT64_C(0x9e3779b97f4a7c15), text, len) | 1;
}

static ab_hold_mark *set_of(ab_hold *hold, uint64_t key) {
  return &hold->marks[(key >> 1) % (AB_HOLD_MARKS / SET) * SET];
}

void ab_engine_pool_wait(ab_engine *engine, uint64_t id, ab_view path) {
  if (!engine->hold) return;
  uint64_t key = key_of(engine->hold, id, path);
  ab_hold_mark *set = set_of(engine->hold, key), *mark = set;
  for (ab_hold_mark *m = set; m < set + SET; m++) {
    if (m->key == key) {
      mark = m;
      break;
    }
    if (m->at < mark->at) mark = m;
  }
  *mark = (ab_hold_mark){key, engine->now};
}

static bool has_waited(ab_hold *hold, uint64_t id, ab_view path, ab_nsec now) {
  uint64_t key = key_of(hold, id, path);
  const ab_hold_mark *set = set_of(hold, key);
  for (const ab_hold_mark *m = set; m < set + SET; m++) {
    if (m->key == key) return now < m->at + AB_HOLD_LATELY;
  }
  return false;
}

ab_exchange *ab__hold_next(const ab_engine *engine) {
  for (size_t i = 0; engine->own_stats.held > 0 && i < AB_HOLD_POOLS; i++) {
    const ab_hold_pool *pool = &engine->hold->pools[i];
    if (ab_list_empty(&pool->held) || !hold_has_room(pool, engine->now)) continue;
    return AB_CONTAINER_OF(pool->held.next, ab_exchange, event_link);
  }
  return NULL;
}

bool ab__hold_back(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  ab_hold *hold = engine->hold;
  for (size_t i = 0; hold->used > 0 && i < AB_HOLD_POOLS; i++) {
    ab_hold_pool *pool = &hold->pools[i];
    if (pool->id == 0 || !has_waited(hold, pool->id, exchange->request->path, engine->now))
      continue;
    if (hold_has_room(pool, engine->now)) {
      send_off(pool, engine->now);
      continue;
    }
    ab_list_remove(&exchange->event_link);
    ab_list_append(&pool->held, &exchange->event_link);
    exchange->held = (uint8_t)(i + 1);
    exchange->stood = true;
    AB_NOW(engine, held, 1);
    return true;
  }
  return false;
}

static ab_hold_pool *hold_release(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  ab_hold_pool *pool = &engine->hold->pools[exchange->held - 1];
  ab_list_remove(&exchange->event_link);
  exchange->held = 0;
  AB_NOW(engine, held, -1u);
  return pool;
}

void ab__hold_let_go(ab_exchange *exchange) {
  ab_hold_pool *pool = hold_release(exchange);
  send_off(pool, exchange->conn->engine->now);
  hold_leave(exchange->conn->engine->hold, pool);
}

void ab__hold_drop(ab_exchange *exchange) {
  hold_leave(exchange->conn->engine->hold, hold_release(exchange));
}

ab_exchange *ab__hold_newest(const ab_engine *engine) {
  ab_exchange *newest = NULL;
  for (size_t i = 0; engine->hold && i < AB_HOLD_POOLS; i++) {
    const ab_list *held = &engine->hold->pools[i].held;
    if (ab_list_empty(held)) continue;
    ab_exchange *last = AB_CONTAINER_OF(held->prev, ab_exchange, event_link);
    if (!newest || last->arrived >= newest->arrived) newest = last;
  }
  return newest;
}

ab_nsec ab__hold_deadline(const ab_engine *engine) {
  ab_nsec due = 0;
  for (size_t i = 0; engine->own_stats.held > 0 && i < AB_HOLD_POOLS; i++) {
    const ab_hold_pool *pool = &engine->hold->pools[i];
    if (ab_list_empty(&pool->held) || pool->waiters >= pool->size) continue;
    if (hold_has_room(pool, engine->now)) continue; /* like any request, it waits to be taken */
    due = ab_earlier(due, pool->since + AB_HOLD_WAY);
  }
  return due;
}
