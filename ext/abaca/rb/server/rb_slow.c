/* Who waits for a client, and which client goes when there are too many: see rb_slow.h. */
#include "rb/server/rb_slow.h"

#include "rb/server/rb_gang.h"

/* A client that has sent or taken nothing for so long may be closed when its request's place is
 * wanted; one that moves, only when the request has waited for the second time. */
#define STILL (50 * AB_NSEC_PER_MS)
#define SLOW  AB_NSEC_PER_SEC
/* Between two looks. */
#define LOOK (10 * AB_NSEC_PER_MS)
/* So long a place is counted on that is about to be left. */
#define LEAVE_TIME (100 * AB_NSEC_PER_MS)
/* In one look. */
#define MOST_CLOSED 64

static void init_kind(ab_slow_kind *kind, unsigned places, uint64_t most) {
  ab_list_init(&kind->aside);
  ab_list_init(&kind->held);
  if (places > 1) kind->most = most < UINT32_MAX / 2 ? (unsigned)most : UINT32_MAX / 2;
}

void ab_slow_init(ab_server *server, unsigned fibers, unsigned threads) {
  uint64_t most = ab_engine_limits(server->engine)->max_slow_clients;
  init_kind(&server->slow.fibers, fibers, most);
  init_kind(&server->slow.threads, threads, most);
}

static ab_slow_kind *kind_of(const ab_exchange *exchange) {
  ab_slow *slow = &exchange->server->slow;
  return exchange->runner->host->mode == AB_MODE_THREAD ? &slow->threads : &slow->fibers;
}

/* --- who waits --- */

/* Gives those their leave who have waited for longest, and tells the engine. */
static void set_aside(ab_server *server, ab_slow_kind *kind) {
  while (kind->aside_count < kind->most && kind->held_count > 0) {
    ab_list *node = ab_list_shift(&kind->held);
    ab_list_append(&kind->aside, node);
    AB_CONTAINER_OF(node, ab_exchange, slow_link)->slow = AB_SLOW_ASIDE;
    kind->held_count--;
    kind->aside_count++;
  }
  ab_slow *slow = &server->slow;
  atomic_store(&slow->crowded, slow->fibers.held_count + slow->threads.held_count > 0);
  ab_engine_lock(server->engine);
  ab_engine_set_aside(server->engine, slow->fibers.aside_count + slow->threads.aside_count);
  ab_engine_unlock(server->engine);
}

bool ab_slow_begin(ab_exchange *exchange) {
  ab_slow_kind *kind = kind_of(exchange);
  if (kind->most == 0 || exchange->slow == AB_SLOW_LEAVING) return false;
  if (exchange->fiber != rb_fiber_current()) return false;
  exchange->slow = AB_SLOW_HELD;
  exchange->slow_since = ab_clock_monotonic();
  ab_list_append(&kind->held, &exchange->slow_link);
  kind->held_count++;
  set_aside(exchange->server, kind);
  return true;
}

void ab_slow_end(ab_exchange *exchange) {
  if (exchange->slow == AB_SLOW_LEAVING) return;
  ab_slow_kind *kind = kind_of(exchange);
  if (exchange->slow == AB_SLOW_ASIDE) {
    kind->aside_count--;
  } else {
    kind->held_count--;
  }
  exchange->slow = AB_SLOW_NOT;
  ab_list_remove(&exchange->slow_link);
  set_aside(exchange->server, kind);
}

/* --- who goes --- */

/* Requests that wait for places of this kind, of which there are none. */
static size_t wanted(const ab_server *server, const ab_slow_kind *kind) {
  if (kind == &server->slow.threads) return ab_gang_wanted(server->gang);
  if (server->home.host->available(&server->home)) return 0;
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  return stats.waiting - stats.held;
}

/* [locked] When their clients were last seen to move. */
static void note_moves(const ab_list *list) {
  ab_list_each (node, next, list) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, slow_link);
    exchange->slow_moved = ab_conn_moved(exchange->conn);
  }
}

/* The slowest so far: whose client has not moved for longest, or else, if all of them move, who has
 * waited for longest. */
typedef struct slowest {
  ab_nsec now;
  ab_exchange *still, *slow;
} slowest;

static void find_slowest(slowest *found, const ab_list *list) {
  ab_list_each (node, next, list) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, slow_link);
    ab_nsec moved = exchange->slow_moved, since = exchange->slow_since;
    if (moved == 0) continue;
    bool still = found->now >= moved + STILL, slow = found->now >= since + SLOW;
    if (still && (!found->still || moved < found->still->slow_moved)) found->still = exchange;
    if (slow && (!found->slow || since < found->slow->slow_since)) found->slow = exchange;
  }
}

/* It has its place again until it ends. */
static void close_client(ab_exchange *exchange, ab_slow_kind *kind, ab_nsec now) {
  ab_server *server = exchange->server;
  ab_slow_end(exchange);
  exchange->slow = AB_SLOW_LEAVING;
  kind->leaving++;
  kind->dropped_at = now;
  server->slow.closed++;
  ab_engine_lock(server->engine);
  ab_conn_abandon(exchange->conn, ab_exchange_finish(exchange));
  ab_engine_unlock(server->engine);
}

static void make_room(ab_server *server, ab_slow_kind *kind, ab_nsec now) {
  if (kind->held_count == 0) return;
  size_t count = wanted(server, kind);
  if (now >= kind->dropped_at + LEAVE_TIME) kind->leaving = 0;
  count = count > kind->leaving ? count - kind->leaving : 0;
  if (count > MOST_CLOSED) count = MOST_CLOSED;
  if (count == 0) return;
  ab_engine_lock(server->engine);
  note_moves(&kind->aside);
  note_moves(&kind->held);
  ab_engine_unlock(server->engine);
  for (; count > 0; count--) {
    slowest found = {.now = now};
    find_slowest(&found, &kind->aside);
    find_slowest(&found, &kind->held);
    ab_exchange *victim = found.still ? found.still : found.slow;
    if (!victim) break;
    close_client(victim, kind, now);
  }
  ab_server_tell_leader(server); /* those who were closed are events of the engine */
}

void ab_slow_left(ab_exchange *exchange) {
  ab_slow_kind *kind = kind_of(exchange);
  if (kind->leaving > 0) kind->leaving--;
}

/* Requests that wait for anything. */
static bool requests_wait(const ab_server *server) {
  if (server->gang && ab_gang_has_jobs(server->gang)) return true;
  return ab_engine_get_stats(server->engine).waiting > 0;
}

ab_nsec ab_slow_due(const ab_server *server) {
  const ab_slow *slow = &server->slow;
  if (AB_LIKELY(!atomic_load_explicit(&slow->crowded, memory_order_relaxed))) return 0;
  return requests_wait(server) ? atomic_load(&slow->looked) + LOOK : 0;
}

void ab_slow_look(ab_server *server, ab_nsec now) {
  ab_slow *slow = &server->slow;
  atomic_store(&slow->looked, now);
  make_room(server, &slow->fibers, now);
  make_room(server, &slow->threads, now);
}
