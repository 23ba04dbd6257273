/* The turns of a loop, on the root fiber. rb_park.c parks fibers, rb_dispatch.c runs them. */
#include "rb/scheduler/rb_scheduler.h"

#include <ruby/thread.h>

/* How long a wait for a closed IO may go unnoticed where Ruby does not tell us (before 4.0). */
#define SWEEP_INTERVAL (100 * AB_NSEC_PER_MS)

/* How long a busy loop lets a wait rely on a registration that was not renewed for it. */
#define PROOF_DELAY (10 * AB_NSEC_PER_MS)

typedef struct blocking_wait {
  ab_poller *poller;
  ab_nsec timeout;
  ab_nsec ended; /* 0: it did not begin */
  ab_pulse *pulse;
  ab_loop_line *line; /* of the loop, or NULL */
} blocking_wait;

/* From here on the time until we have the GVL again counts. */
static void *wait_without_gvl(void *arg) {
  blocking_wait *wait = arg;
  ab_poller_wait(wait->poller, wait->timeout);
  wait->ended = ab_clock_monotonic();
  if (wait->line) ab_loop_line_turn(wait->line, AB_LOOP_STATE_AWAY, AB_LOOP_NO_ROW, wait->ended, 0);
  if (wait->pulse) ab_pulse_starve(wait->pulse);
  return NULL;
}

static void unblock_wait(void *arg) {
  ab_poller_wakeup(arg);
}

/* May a fiber or a thread have closed an IO that a fiber waits for? */
static bool needs_sweep(const ab_loop *loop) {
  return AB_SCHEDULER_INTERFACE < 3 && loop->fd_waits > 0 && (loop->dirty || !rb_thread_alone());
}

static ab_nsec next_deadline(ab_loop *loop) {
  ab_nsec deadline = ab_earlier(ab_heap_deadline(&loop->timers), ab_heap_deadline(&loop->timeouts));
  if (loop->client) deadline = ab_earlier(deadline, loop->client->deadline(loop->client_ctx));
  if (needs_sweep(loop)) deadline = ab_earlier(deadline, loop->swept + SWEEP_INTERVAL);
  return deadline;
}

static bool shares(const ab_loop *loop) {
  const ab_loop_client *client = loop->client;
  return client && client->shares && client->shares(loop->client_ctx);
}

/* What the page shows of the loop. */
static void show(const ab_loop *loop, enum ab_loop_state state, ab_nsec now) {
  ab_loop_line *line = loop->sight.line;
  if (line) ab_loop_line_turn(line, state, AB_LOOP_NO_ROW, now, loop->sight.stall_after);
}

/* Since `heedless` the loop has not looked at events: it has run fibers, or `waited` for the GVL.
 */
static void count_lag(ab_loop *loop, ab_nsec now, bool waited) {
  const ab_loop_sight *sight = &loop->sight;
  ab_nsec time = now - loop->heedless, excused = loop->excused;
  loop->excused = 0;
  ab_histogram_add(&loop->lag, time);
  if (!sight->lag) return;
  ab_series_add(sight->lag, time);
  if (waited) {
    ab_series_add(sight->gvl, time);
  } else if (AB_UNLIKELY(time >= sight->stall_after + excused) && sight->stall_after) {
    sight->stalled(sight->ctx, time - excused);
  }
}

/* Waits without the GVL. A thread that gets it finds AB_BLOCKED and wakes the poller. INTR_FAIL:
 * no interrupt's handler runs between the check of the ready list and the wait; a later one
 * calls unblock_wait. False: no time to wait. */
static bool block(ab_loop *loop) {
  ab_nsec deadline = next_deadline(loop), now = ab_clock_monotonic();
  if (deadline != 0 && deadline <= now) return false;
  ab_pulse *pulse = loop->pulse;
  ab_nsec timeout = deadline == 0 ? AB_POLL_FOREVER : deadline - now;
  blocking_wait wait = {
      .poller = loop->poller, .timeout = timeout, .pulse = pulse, .line = loop->sight.line};
  count_lag(loop, now, false);
  show(loop, AB_LOOP_STATE_IDLE, now);
  int flags = RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE;
#ifdef RB_NOGVL_PENDING_INTR_FAIL
  flags |= RB_NOGVL_PENDING_INTR_FAIL;
#endif
  if (loop->client && loop->client->rests) loop->client->rests(loop->client_ctx);
  loop->blocked = AB_BLOCKED;
  rb_nogvl(wait_without_gvl, &wait, unblock_wait, loop->poller, flags);
  loop->blocked = AB_RUNNING;
  loop->heedless = wait.ended ? wait.ended : now;
  loop->polled = wait.ended;
  if (shares(loop)) ab_share_waited(&loop->share, loop->heedless);
  if (!pulse) return true;
  ab_pulse_feed(pulse);
  if (loop->client && loop->client->woken) loop->client->woken(loop->client_ctx);
  return true;
}

static void deliver_events(ab_loop *loop) {
  loop->delivers = true;
  loop->looked = 0;
  ab_poller_lock(loop->poller);
  ab_poller_dispatch(loop->poller);
  ab_poller_unlock(loop->poller);
  loop->delivers = false;
}

/* A thread that waits for the GVL may be about to make a fiber ready. If it has its turn before
 * the loop blocks, that takes no system call and no wait for the lock. (Before 3.3 such a thread
 * is already awake, and Ruby calls sched_yield.) True if there is something to do. */
static bool let_threads_work(const ab_loop *loop) {
#if RUBY_API_VERSION_CODE >= 30300
  if (loop->client || rb_thread_alone()) return false;
  rb_thread_schedule();
  return loop->ready_count > 0;
#else
  (void)loop;
  return false;
#endif
}

/* Collects events, and waits if there is nothing else to do. True if other threads had the GVL. */
static bool await_events(ab_loop *loop, bool busy) {
  bool idle = !busy && loop->ready_count == 0;
  loop->polled = 0;
  /* Asking may save giving up the GVL, unless only other threads can make something happen. */
  bool ask = !idle || loop->client || loop->fd_waits > 0;
  if ((ask && ab_poller_wait(loop->poller, 0) > 0) || !idle) return false;
  if (let_threads_work(loop)) return true;
  ab__fd_prove(loop, loop->now);
  /* A wait that could not be renewed is over. */
  return loop->ready_count == 0 && block(loop);
}

/* Runs trap handlers, and lets the client's threads have the GVL if the loop has not waited. */
static void let_others(ab_loop *loop, bool waited) {
  ab_pulse *pulse = loop->pulse;
  bool gives = !waited && shares(loop);
  int state = 0;
  if (pulse) {
    atomic_store_explicit(&pulse->starved, gives, memory_order_relaxed);
    ab_pulse_leave(pulse);
  }
  if (gives) {
    loop->gave_way = ab_clock_monotonic();
    show(loop, AB_LOOP_STATE_AWAY, loop->gave_way);
    state = ab_share_give_way(&loop->share);
    loop->had_way = ab_clock_monotonic();
  }
  if (pulse) atomic_store_explicit(&pulse->starved, false, memory_order_relaxed);
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
  rb_thread_check_ints();
  if (pulse) ab_pulse_return(pulse);
}

static bool is_finished(ab_loop *loop) {
  if (loop->client && loop->client->given_up(loop->client_ctx)) return true;
  if (loop->ready_count > 0 || loop->parked_count > 0) return false;
  return !loop->client || loop->client->done(loop->client_ctx);
}

bool ab__loop_turn(ab_loop *loop) {
  loop->now = ab_clock_monotonic();
  count_lag(loop, loop->now, loop->polled != 0);
  show(loop, AB_LOOP_STATE_BUSY, loop->now);
  if (loop->sight.line) ab_loop_line_tick(loop->sight.line);
  loop->heedless = loop->now;
  ab_collected_begin(&loop->collected);
  ab__loop_run_ready(loop);
  ab__loop_run_timers(loop);
  loop->begun = 0;
  bool busy = loop->client && loop->client->turn(loop->client_ctx, loop->now);
  if (needs_sweep(loop) && loop->now - loop->swept >= SWEEP_INTERVAL) {
    loop->dirty = false;
    loop->swept = loop->now;
    ab__fd_sweep(loop);
  }
  for (size_t i = 0; i < AB_POOLS; i++)
    if (loop->pools[i]) ab_blocking_reap(loop->pools[i]);
  if (is_finished(loop) && !busy) return false;
  ab__fd_prove(loop, loop->now - PROOF_DELAY);
  bool waited = await_events(loop, busy);
  deliver_events(loop);
  let_others(loop, waited);
  return true;
}

VALUE ab__loop_stopped(VALUE arg) {
  ab_loop *loop = (ab_loop *)arg;
  ab__preempt_stop(loop);
  loop->running = false;
  loop->blocked = AB_RUNNING;
  return Qnil;
}

static VALUE run_turns(VALUE arg) {
  ab_loop *loop = (ab_loop *)arg;
  ab__preempt_start(loop);
  loop->heedless = ab_clock_monotonic();
  ab__loop_leave_behind(loop, loop->current);
  /* Something was forwarded while the loop did not run. */
  if (!NIL_P(loop->forward)) ab__loop_raise_forwarded(loop);
  while (ab__loop_turn(loop)) continue;
  return Qnil;
}

void ab__loop_check_idle(ab_loop *loop) {
  if (!ab__loop_on_root(loop))
    rb_raise(rb_eRuntimeError, "the scheduler cannot run on one of its fibers");
  if (loop->running) rb_raise(rb_eRuntimeError, "the scheduler runs already");
}

void ab_loop_run(ab_loop *loop) {
  ab__loop_check_idle(loop);
  volatile VALUE self = loop->self;
  loop->root = rb_fiber_current();
  loop->running = true;
  rb_ensure(run_turns, (VALUE)loop, ab__loop_stopped, (VALUE)loop);
  RB_GC_GUARD(self);
}
