/* The loop: its life, and the turns on the root fiber. How fibers park is in rb_park.c, how they
 * are run in rb_dispatch.c.
 */
#include "rb/scheduler/rb_scheduler.h"

#include <ruby/thread.h>
#include <unistd.h>

#include "base/fork_page.h"

/* How long a wait for a closed IO may go unnoticed where Ruby does not tell us (before 4.0). */
#define SWEEP_INTERVAL (100 * AB_NSEC_PER_MS)

/* How long a wait may rely on a registration that was not renewed for it, while the loop is
 * busy.
 */
#define PROOF_DELAY (10 * AB_NSEC_PER_MS)

/* For how long a turn begins new work of the client's; the second limit applies if fibers are ready
 * too, so that they get their turn (CHAIN_TIME in rb_park.c) sooner. */
#define BEGIN_TIME        AB_NSEC_PER_MS
#define BEGIN_TIME_BESIDE (AB_NSEC_PER_MS / 8)

/* ---- life ---- */

static void mark_waiters(ab_list *list) {
  ab_list_each (node, tmp, list) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    rb_gc_mark(waiter->fiber);
    rb_gc_mark(waiter->carrier);
    rb_gc_mark(waiter->exception);
    rb_gc_mark(waiter->object);
  }
}

/* A block of timeout_after that a fiber left by Fiber.yield is still in the heap: its fiber, and so
 * the stack that the block is on, must stay. */
static void mark_timeouts(const ab_heap *heap) {
  for (uint32_t i = 0; i < heap->count; i++) {
    const ab_timeout *timeout = AB_CONTAINER_OF(heap->entries[i].node, ab_timeout, timer);
    if (timeout->task) continue; /* marked by its owner */
    rb_gc_mark(timeout->fiber);
    rb_gc_mark(timeout->exception);
    rb_gc_mark(timeout->message);
  }
}

/* Everything is pinned: waiters hold fibers by address, and `waiters` is keyed by it. */
static void loop_mark(void *ptr) {
  ab_loop *loop = ptr;
  mark_waiters(&loop->ready);
  mark_waiters(&loop->parked);
  mark_timeouts(&loop->timeouts);
  ab__preempt_mark(loop);
  ab__uninterrupted_mark(loop);
  ab_latches_mark(&loop->latches);
  ab_callers_mark(&loop->callers);
  rb_gc_mark(loop->self);
  rb_gc_mark(loop->thread);
  rb_gc_mark(loop->root);
  rb_gc_mark(loop->fiber_class);
  rb_gc_mark(loop->own_class);
  rb_gc_mark(loop->parker);
  rb_gc_mark(loop->carrier);
  rb_gc_mark(loop->current);
  rb_gc_mark(loop->forward);
  ab_first_switch_mark(&loop->first_switch);
}

static void close_poller(ab_loop *loop) {
  for (size_t i = 0; i < AB_POOLS; i++) {
    if (loop->pools[i]) ab_blocking_fini(loop->pools[i]);
    loop->pools[i] = NULL;
  }
  if (loop->poller) ab_poller_fini(loop->poller);
  loop->poller = NULL;
}

/* Waiters on fibers' stacks are not touched: those fibers may be gone already. */
static void loop_free(void *ptr) {
  ab_loop *loop = ptr;
  ab__preempt_stop(loop);
  ab__uninterrupted_fini(loop);
  close_poller(loop);
  ab_heap_fini(&loop->timers);
  ab_heap_fini(&loop->timeouts);
  ab__fd_fini(loop);
  ab__occupancies_fini(loop);
  ab_latches_fini(&loop->latches);
  ab_waiters_fini(&loop->waiters);
  ab_fork_page_fini(loop->fork_guard);
  xfree(loop);
}

static size_t loop_size(const void *ptr) {
  const ab_loop *loop = ptr;
  return sizeof *loop + ab_waiters_size(&loop->waiters) +
         (size_t)(loop->timers.capacity + loop->timeouts.capacity) * sizeof(ab_heap_entry) +
         loop->fds.count * sizeof(void *);
}

static const rb_data_type_t loop_type = {
    .wrap_struct_name = "Abaca::Scheduler",
    .function = {.dmark = loop_mark, .dfree = loop_free, .dsize = loop_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE ab__loop_alloc(VALUE klass) {
  ab_loop *loop;
  VALUE self = TypedData_Make_Struct(klass, ab_loop, &loop_type, loop);
  ab_list_init(&loop->ready);
  ab_list_init(&loop->parked);
  ab_list_init(&loop->regions);
  ab_list_init(&loop->deferred);
  ab_list_init(&loop->unproven);
  ab_list_init(&loop->writes);
  ab_heap_init(&loop->timers, &ab_mem_libc);
  ab_heap_init(&loop->timeouts, &ab_mem_libc);
  loop->self = self;
  loop->thread = loop->root = loop->parker = loop->carrier = loop->current = loop->forward = Qnil;
  loop->fiber_class = rb_path2class("Fiber"); /* rb_cFiber is not exported */
  loop->own_class = klass;
  for (VALUE above; (above = rb_class_superclass(loop->own_class)) != rb_cObject;)
    loop->own_class = above;
  ab_first_switch_init(&loop->first_switch, self);
  loop->owner = getpid();
  loop->now = ab_clock_monotonic();
  loop->fork_guard = ab_fork_page_init();
  loop->poller = ab_poller_init(&ab_mem_libc);
  if (!loop->poller) rb_sys_fail("Abaca::Scheduler: poller");
  return self;
}

ab_loop *ab__loop_get(VALUE scheduler) {
  return rb_check_typeddata(scheduler, &loop_type);
}

ab_loop *ab__loop_or_null(VALUE scheduler) {
  return rb_typeddata_is_kind_of(scheduler, &loop_type) ? RTYPEDDATA_DATA(scheduler) : NULL;
}

bool ab__loop_forked(const ab_loop *loop) {
  return ab_fork_page_forked(loop->fork_guard, loop->owner);
}

void ab__loop_close(ab_loop *loop) {
  loop->closed = true;
  ab__preempt_stop(loop);
  close_poller(loop);
}

void ab__loop_check(ab_loop *loop) {
  if (AB_UNLIKELY(loop->closed)) rb_raise(rb_eRuntimeError, "the scheduler is closed");
  if (AB_UNLIKELY(ab__loop_forked(loop)))
    rb_raise(rb_eRuntimeError, "the scheduler belongs to the parent process: create a new one");
  VALUE thread = rb_thread_current();
  if (AB_UNLIKELY(loop->thread != thread)) {
    if (!NIL_P(loop->thread)) rb_raise(rb_eThreadError, "the scheduler belongs to another thread");
    loop->thread = thread;
  }
}

ab_loop *ab_loop_of(VALUE scheduler) {
  ab_loop *loop = ab__loop_get(scheduler);
  ab__loop_check(loop);
  return loop;
}

ab_poller *ab_loop_poller(ab_loop *loop) {
  return loop->poller;
}

VALUE ab_loop_root(const ab_loop *loop) {
  return loop->root;
}

VALUE ab_loop_scheduler(const ab_loop *loop) {
  return loop->self;
}

const ab_histogram *ab_loop_lag(const ab_loop *loop) {
  return &loop->lag;
}

ab_blocking_pool *ab__loop_pool(ab_loop *loop, enum ab_pool_kind kind) {
  static const unsigned max_threads[AB_POOLS] = {
      [AB_POOL_NAMES] = 8, [AB_POOL_CHILDREN] = AB_CHILD_THREADS, [AB_POOL_FILES] = 4};
  if (!loop->pools[kind]) loop->pools[kind] = ab_blocking_init(loop->poller, max_threads[kind]);
  return loop->pools[kind];
}

void ab_loop_attach(ab_loop *loop, const ab_loop_client *client, void *ctx) {
  if (loop->client) rb_raise(rb_eRuntimeError, "the scheduler already serves a server");
  loop->client = client;
  loop->client_ctx = ctx;
}

void ab_loop_detach(ab_loop *loop) {
  loop->client = NULL;
  loop->client_ctx = NULL;
}

bool ab_loop_idle(const ab_loop *loop) {
  return loop->ready_count == 0 && loop->parked_count == 0;
}

bool ab_loop_may_begin(ab_loop *loop) {
  if (AB_LIKELY(ab_loop_idle(loop))) return true;
  ab_nsec now = ab_clock_monotonic();
  if (loop->begun == 0) {
    loop->begun = now;
    return true;
  }
  return now - loop->begun < (loop->ready_count > 0 ? BEGIN_TIME_BESIDE : BEGIN_TIME);
}

void ab_loop_set_pulse(ab_loop *loop, ab_pulse *pulse) {
  loop->pulse = pulse;
}

/* ---- time ---- */

ab_nsec ab__deadline_after(ab_nsec timeout) {
  ab_nsec now = ab_clock_monotonic();
  return timeout < UINT64_MAX - now ? now + timeout : UINT64_MAX - 1;
}

bool ab__timeout_of(VALUE seconds, ab_nsec *timeout) {
  if (NIL_P(seconds)) return false;
  if (RB_FLOAT_TYPE_P(seconds)) {
    double value = RFLOAT_VALUE(seconds);
    if (value != value) rb_raise(rb_eArgError, "the timeout is not a number");
    if (value >= 9e9) return false; /* 285 years: infinite for a loop */
  }
  struct timespec ts = rb_time_timespec_interval(seconds);
  if (ts.tv_sec >= (time_t)9000000000) return false;
  *timeout = (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
  return true;
}

/* ---- the turn ---- */

typedef struct blocking_wait {
  ab_poller *poller;
  ab_nsec timeout;
  ab_nsec ended; /* 0: it did not begin */
  ab_pulse *pulse;
} blocking_wait;

/* From here on the time until we have the GVL again counts. */
static void *wait_without_gvl(void *arg) {
  blocking_wait *wait = arg;
  ab_poller_wait(wait->poller, wait->timeout);
  wait->ended = ab_clock_monotonic();
  if (wait->pulse) ab_pulse_starve(wait->pulse);
  return NULL;
}

static void unblock_wait(void *arg) {
  ab_poller_wakeup(arg);
}

/* May an IO that a fiber waits for have been closed? By a fiber that has run since the last check,
 * or by another thread, at any time. */
static bool needs_sweep(const ab_loop *loop) {
  return AB_SCHEDULER_INTERFACE < 3 && loop->fd_waits > 0 && (loop->dirty || !rb_thread_alone());
}

static ab_nsec next_deadline(ab_loop *loop) {
  ab_nsec deadline = ab_earlier(ab_heap_deadline(&loop->timers), ab_heap_deadline(&loop->timeouts));
  if (loop->client) deadline = ab_earlier(deadline, loop->client->deadline(loop->client_ctx));
  if (needs_sweep(loop)) deadline = ab_earlier(deadline, loop->swept + SWEEP_INTERVAL);
  return deadline;
}

/* Do other threads work for the client, and may they want the GVL? */
static bool shares(const ab_loop *loop) {
  const ab_loop_client *client = loop->client;
  return client && client->shares && client->shares(loop->client_ctx);
}

/* Waits without the GVL. A thread that gets it meanwhile finds AB_BLOCKED and wakes the poller. A
 * pending interrupt keeps us from entering (INTR_FAIL), so its handler never runs between the check
 * of the ready list and the wait; a later one calls unblock_wait. Returns false if there is no time
 * to wait. */
static bool block(ab_loop *loop) {
  ab_nsec deadline = next_deadline(loop), now = ab_clock_monotonic();
  if (deadline != 0 && deadline <= now) return false;
  ab_pulse *pulse = loop->pulse;
  ab_nsec timeout = deadline == 0 ? AB_POLL_FOREVER : deadline - now;
  blocking_wait wait = {.poller = loop->poller, .timeout = timeout, .pulse = pulse};
  ab_histogram_add(&loop->lag, now - loop->heedless);
  int flags = RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE;
#ifdef RB_NOGVL_PENDING_INTR_FAIL
  flags |= RB_NOGVL_PENDING_INTR_FAIL;
#endif
  loop->blocked = AB_BLOCKED;
  rb_nogvl(wait_without_gvl, &wait, unblock_wait, loop->poller, flags);
  loop->blocked = AB_RUNNING;
  loop->heedless = wait.ended ? wait.ended : now;
  if (shares(loop)) ab_share_waited(&loop->share, loop->heedless);
  if (!pulse) return true;
  ab_pulse_feed(pulse);
  if (loop->client && loop->client->woken) loop->client->woken(loop->client_ctx);
  return true;
}

static void deliver_events(ab_loop *loop) {
  ab_poller_lock(loop->poller);
  ab_poller_dispatch(loop->poller);
  ab_poller_unlock(loop->poller);
}

/* A thread that waits for the GVL may be about to make a fiber ready, above all one that a fiber
 * has just woken. If it has its turn before the loop blocks, that takes no system call and no wait
 * for the lock afterwards. The loop loses nothing, since it would have to give up the lock and ask
 * for it again. (Before 3.3 such a thread is already awake, and Ruby calls sched_yield.) Returns
 * whether there is something to do. */
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

/* Collects events, and waits for them if there is nothing else to do. Returns whether other threads
 * had the GVL meanwhile. */
static bool await_events(ab_loop *loop, bool busy) {
  bool idle = !busy && loop->ready_count == 0;
  /* A question first saves giving up the GVL if something has happened. Where only other threads
   * can make it happen, they need the GVL for that. */
  bool ask = !idle || loop->client || loop->fd_waits > 0;
  if ((ask && ab_poller_wait(loop->poller, 0) > 0) || !idle) return false;
  if (let_threads_work(loop)) return true;
  ab__fd_prove(loop, loop->now);
  /* A wait that could not be renewed is over. */
  return loop->ready_count == 0 && block(loop);
}

/* A trap handler may take its time, and other threads may get the GVL. The client's threads get it
 * where the loop would not wait for long. */
static void let_others(ab_loop *loop, bool waited) {
  ab_pulse *pulse = loop->pulse;
  bool gives = !waited && shares(loop);
  int state = 0;
  if (pulse) {
    atomic_store_explicit(&pulse->starved, gives, memory_order_relaxed);
    ab_pulse_leave(pulse);
  }
  if (gives) state = ab_share_give_way(&loop->share);
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
  ab_histogram_add(&loop->lag, loop->now - loop->heedless);
  loop->heedless = loop->now;
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
