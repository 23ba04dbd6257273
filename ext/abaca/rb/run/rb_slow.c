/* Requests that wait for their clients: see rb_slow.h. */
#include "rb/run/rb_slow.h"

#include "rb/run/rb_thread_pool.h"

/* A client that has sent or taken nothing for this time may be closed when its request's place is
 * wanted; one that moves, only when the request has waited for the second time. */
#define STILL (50 * AB_NSEC_PER_MS)
#define SLOW  AB_NSEC_PER_SEC
/* Between two looks. */
#define LOOK (10 * AB_NSEC_PER_MS)
/* A place that is about to be left is counted on for this time. */
#define LEAVE_TIME (100 * AB_NSEC_PER_MS)
/* In one look. */
#define MOST_CLOSED 64

static void init_kind(ab_slow_kind *kind, unsigned places, uint64_t most) {
  ab_list_init(&kind->aside);
  ab_list_init(&kind->held);
  if (places > 1) kind->most = most < UINT32_MAX / 2 ? (unsigned)most : UINT32_MAX / 2;
}

void ab_slow_init(ab_run *run, unsigned fibers, unsigned threads) {
  uint64_t most = ab_engine_limits(run->rack.engine)->max_slow_clients;
  init_kind(&run->slow.fibers, fibers, most);
  init_kind(&run->slow.threads, threads, most);
}

static ab_slow_kind *slow_kind_of(const ab_call *call) {
  ab_slow *slow = &ab_run_of(call->rack)->slow;
  return call->runner->executor->mode == AB_MODE_THREAD ? &slow->threads : &slow->fibers;
}

/* --- what waits --- */

static void set_aside(ab_run *run, ab_slow_kind *kind) {
  while (kind->aside_count < kind->most && kind->held_count > 0) {
    ab_list *node = ab_list_shift(&kind->held);
    ab_list_append(&kind->aside, node);
    AB_CONTAINER_OF(node, ab_call, slow.link)->slow.state = AB_SLOW_ASIDE;
    kind->held_count--;
    kind->aside_count++;
  }
  ab_slow *slow = &run->slow;
  atomic_store(&slow->crowded, slow->fibers.held_count + slow->threads.held_count > 0);
  ab_engine_lock(run->rack.engine);
  ab_engine_set_aside(run->rack.engine, slow->fibers.aside_count + slow->threads.aside_count);
  ab_engine_unlock(run->rack.engine);
}

bool ab_slow_begin(ab_call *call) {
  ab_slow_kind *kind = slow_kind_of(call);
  if (kind->most == 0 || call->slow.state == AB_SLOW_LEAVING) return false;
  if (call->fiber != rb_fiber_current()) return false;
  call->slow.state = AB_SLOW_HELD;
  call->slow.since = ab_clock_monotonic();
  ab_list_append(&kind->held, &call->slow.link);
  kind->held_count++;
  set_aside(ab_run_of(call->rack), kind);
  return true;
}

void ab_slow_end(ab_call *call) {
  if (call->slow.state == AB_SLOW_LEAVING) return;
  ab_slow_kind *kind = slow_kind_of(call);
  if (call->slow.state == AB_SLOW_ASIDE) {
    kind->aside_count--;
  } else {
    kind->held_count--;
  }
  call->slow.state = AB_SLOW_NOT;
  ab_list_remove(&call->slow.link);
  set_aside(ab_run_of(call->rack), kind);
}

/* --- what goes --- */

/* Requests that wait for places of this kind, of which there are none. */
static size_t slow_wanted(const ab_run *run, const ab_slow_kind *kind) {
  if (kind == &run->slow.threads) return ab_thread_pool_wanted(run->threads);
  if (run->main.runner.executor->available(&run->main.runner)) return 0;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  return stats.waiting - stats.held;
}

/* [locked] When their clients were last seen to move. */
static void note_moves(const ab_list *list) {
  ab_list_each (node, next, list) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, slow.link);
    call->slow.moved = ab_exchange_moved(call->exchange);
  }
}

/* `still`: the client has not moved for longest; `slow`: the request has waited for longest. */
typedef struct slowest {
  ab_nsec now;
  ab_call *still, *slow;
} slowest;

static void find_slowest(slowest *found, const ab_list *list) {
  ab_list_each (node, next, list) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, slow.link);
    ab_nsec moved = call->slow.moved, since = call->slow.since;
    if (moved == 0) continue;
    bool still = found->now >= moved + STILL, slow = found->now >= since + SLOW;
    if (still && (!found->still || moved < found->still->slow.moved)) found->still = call;
    if (slow && (!found->slow || since < found->slow->slow.since)) found->slow = call;
  }
}

/* It has its place again until it ends. */
static void close_client(ab_call *call, ab_slow_kind *kind, ab_nsec now) {
  ab_run *run = ab_run_of(call->rack);
  ab_slow_end(call);
  call->slow.state = AB_SLOW_LEAVING;
  kind->leaving++;
  kind->dropped_at = now;
  run->slow.closed++;
  ab_engine_lock(run->rack.engine);
  ab_exchange_abandon(call->exchange, ab_call_finish(call));
  ab_engine_unlock(run->rack.engine);
}

static void slow_make_room(ab_run *run, ab_slow_kind *kind, ab_nsec now) {
  if (kind->held_count == 0) return;
  size_t count = slow_wanted(run, kind);
  if (now >= kind->dropped_at + LEAVE_TIME) kind->leaving = 0;
  count = count > kind->leaving ? count - kind->leaving : 0;
  if (count > MOST_CLOSED) count = MOST_CLOSED;
  if (count == 0) return;
  ab_engine_lock(run->rack.engine);
  note_moves(&kind->aside);
  note_moves(&kind->held);
  ab_engine_unlock(run->rack.engine);
  for (; count > 0; count--) {
    slowest found = {.now = now};
    find_slowest(&found, &kind->aside);
    find_slowest(&found, &kind->held);
    ab_call *victim = found.still ? found.still : found.slow;
    if (!victim) break;
    close_client(victim, kind, now);
  }
  ab_rack_tell_leader(&run->rack); /* clients that were closed are events of the engine */
}

void ab_slow_left(ab_call *call) {
  ab_slow_kind *kind = slow_kind_of(call);
  if (kind->leaving > 0) kind->leaving--;
}

static bool requests_wait(const ab_run *run) {
  if (run->threads && ab_thread_pool_has_jobs(run->threads)) return true;
  return ab_engine_get_stats(run->rack.engine).waiting > 0;
}

ab_nsec ab_slow_due(const ab_run *run) {
  const ab_slow *slow = &run->slow;
  if (AB_LIKELY(!atomic_load_explicit(&slow->crowded, memory_order_relaxed))) return 0;
  return requests_wait(run) ? atomic_load(&slow->looked) + LOOK : 0;
}

void ab_slow_look(ab_run *run, ab_nsec now) {
  ab_slow *slow = &run->slow;
  atomic_store(&slow->looked, now);
  slow_make_room(run, &slow->fibers, now);
  slow_make_room(run, &slow->threads, now);
}
