/* The loop: parking, waking and dispatching of fibers, and the turns on the root fiber.
 *
 * Results and exceptions travel in the waiter, never in the value of a transfer: whoever switches
 * to a parked fiber by other means (Fiber#raise, a stray transfer) must not be able to forge them.
 */
#include "rb/scheduler/rb_scheduler.h"

#include <ruby/thread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork_page.h"

/* A kind of our own: a fiber that is ready without having parked; its waiter is from malloc. */
#define AB_WAIT_STRAY 0xff

enum ab_blocked { AB_RUNNING, AB_BLOCKED, AB_WOKEN };

/* How long a wait for a closed IO may go unnoticed where Ruby does not tell us (before 4.0). */
#define SWEEP_INTERVAL (100 * AB_NSEC_PER_MS)

/* How long a wait may rely on a registration that was not renewed for it, while the loop is busy.
 */
#define PROOF_DELAY (10 * AB_NSEC_PER_MS)

/* So many fibers may hand over to each other, for so long, before the loop looks at timers and
 * descriptors. */
#define CHAIN_LENGTH 32
#define CHAIN_TIME   AB_NSEC_PER_MS

/* An exception that cannot be delivered now is tried again after this time. */
#define RETRY_INTERVAL AB_NSEC_PER_MS

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
    if (timeout->chore) continue; /* marked by whoever owns it */
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
  rb_gc_mark(loop->self);
  rb_gc_mark(loop->thread);
  rb_gc_mark(loop->root);
  rb_gc_mark(loop->fiber_class);
  rb_gc_mark(loop->parker);
  rb_gc_mark(loop->carrier);
  rb_gc_mark(loop->current);
  rb_gc_mark(loop->forward);
}

static void close_poller(ab_loop *loop) {
  for (size_t i = 0; i < AB_POOLS; i++) {
    if (loop->pools[i]) ab_offload_fini(loop->pools[i]);
    loop->pools[i] = NULL;
  }
  if (loop->poller) ab_poller_fini(loop->poller);
  loop->poller = NULL;
}

/* Waiters on fibers' stacks are not touched: those fibers may be gone already. */
static void loop_free(void *ptr) {
  ab_loop *loop = ptr;
  ab__preempt_fini(loop);
  close_poller(loop);
  ab_heap_fini(&loop->timers);
  ab_heap_fini(&loop->timeouts);
  ab__fd_fini(loop);
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
    rb_raise(rb_eRuntimeError, "the scheduler belongs to the parent process: make a new one after "
                               "fork");
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

ab_nsec ab_loop_now(const ab_loop *loop) {
  return loop->now;
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

ab_offload *ab__loop_pool(ab_loop *loop, enum ab_pool_kind kind) {
  static const unsigned max_threads[AB_POOLS] = {
      [AB_POOL_NAMES] = 8, [AB_POOL_CHILDREN] = AB_CHILD_THREADS, [AB_POOL_FILES] = 4};
  if (!loop->pools[kind]) loop->pools[kind] = ab_offload_init(loop->poller, max_threads[kind]);
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

void ab_loop_set_pulse(ab_loop *loop, ab_pulse *pulse) {
  loop->pulse = pulse;
}

/* A fiber runs, or code of somebody else's on the root fiber. */
static void leave(ab_loop *loop) {
  if (loop->pulse) ab_pulse_leave(loop->pulse);
  if (AB_UNLIKELY(loop->watchdog != NULL)) ab_watchdog_begin(loop->watchdog);
}

static void come_back(ab_loop *loop) {
  if (loop->pulse) ab_pulse_return(loop->pulse);
  if (AB_UNLIKELY(loop->watchdog != NULL)) ab_watchdog_end(loop->watchdog);
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

/* ---- the lists ---- */

ab_waiter *ab__loop_waiter(ab_loop *loop, VALUE fiber) {
  return ab_waiters_find(&loop->waiters, fiber);
}

static void forget(ab_loop *loop, ab_waiter *waiter) {
  if (ab_list_empty(&waiter->link)) return;
  ab_list_remove(&waiter->link);
  if (waiter->wake == AB_WAKE_PENDING)
    loop->parked_count--;
  else
    loop->ready_count--;
  ab_waiters_remove(&loop->waiters, waiter->fiber);
}

static void drop_stray(ab_loop *loop, ab_waiter *waiter) {
  forget(loop, waiter);
  free(waiter);
}

/* Makes the waiter known to the loop, on the list that `wake` says. */
static void enlist(ab_loop *loop, ab_waiter *waiter, enum ab_wake wake) {
  ab_waiter *stray = ab__loop_waiter(loop, waiter->fiber);
  if (AB_UNLIKELY(stray != NULL)) drop_stray(loop, stray);
  /* First what can fail. */
  if (ab_waiters_put(&loop->waiters, waiter->fiber, waiter) != AB_OK) {
    ab_heap_cancel(&loop->timers, &waiter->timer);
    if (waiter->kind == AB_WAIT_STRAY) free(waiter);
    rb_memerror();
  }
  waiter->wake = (uint8_t)wake;
  if (wake == AB_WAKE_PENDING) {
    loop->parked_count++;
    ab_list_append(&loop->parked, &waiter->link);
  } else {
    loop->ready_count++;
    ab_list_append(&loop->ready, &waiter->link);
  }
}

static void make_ready(ab_loop *loop, ab_waiter *waiter, enum ab_wake wake) {
  ab_heap_cancel(&loop->timers, &waiter->timer);
  ab_list_remove(&waiter->link);
  ab_list_append(&loop->ready, &waiter->link);
  loop->parked_count--;
  loop->ready_count++;
  waiter->wake = (uint8_t)wake;
  /* Only another thread can find the loop blocked. */
  if (AB_UNLIKELY(loop->blocked == AB_BLOCKED)) {
    loop->blocked = AB_WOKEN;
    ab_poller_wakeup(loop->poller);
  }
}

static bool is_parked(const ab_waiter *waiter) {
  return waiter->wake == AB_WAKE_PENDING && !ab_list_empty(&waiter->link);
}

void ab_loop_wake(ab_loop *loop, ab_waiter *waiter) {
  if (is_parked(waiter)) make_ready(loop, waiter, AB_WAKE_READY);
}

void ab_loop_ready(ab_loop *loop, VALUE fiber) {
  if (ab__loop_waiter(loop, fiber) || !RTEST(rb_fiber_alive_p(fiber))) return;
  ab_waiter *stray = ab_alloc_zero(&ab_mem_libc, sizeof *stray);
  if (!stray) rb_memerror();
  ab_list_init(&stray->link);
  ab_heap_node_init(&stray->timer);
  stray->fiber = stray->carrier = fiber;
  stray->exception = stray->object = Qnil;
  stray->kind = AB_WAIT_STRAY;
  stray->since = loop->now;
  enlist(loop, stray, AB_WAKE_READY);
  if (loop->blocked == AB_BLOCKED) {
    loop->blocked = AB_WOKEN;
    ab_poller_wakeup(loop->poller);
  }
}

/* rb_eFiberError is not exported. */
static VALUE fiber_error(void) {
  return rb_path2class("FiberError");
}

/* ---- parking ---- */

typedef struct park {
  ab_loop *loop;
  ab_waiter *waiter;
  VALUE target;
  VALUE root; /* before the loop came to run on this fiber */
} park;

void ab__loop_leave(ab_loop *loop) {
  loop->parker = rb_fiber_current();
  rb_fiber_transfer(loop->root, 0, NULL);
}

/* False when it is time to look at timers and descriptors. */
static bool may_run_more(ab_loop *loop) {
  if (loop->chain == 0) return false;
  /* The clock costs as much as a switch. */
  if (loop->chain % 8 == 0 && ab_clock_monotonic() - loop->now > CHAIN_TIME) loop->chain = 0;
  return loop->chain > 0;
}

/* Whom the loop would run next, when the current fiber may hand over to it: one that the loop knows
 * to be where it put it, and not too many of them in a row, so that timers and descriptors get
 * their turn. Otherwise NULL. */
static ab_waiter *next_in_chain(ab_loop *loop, VALUE fiber) {
  if (loop->current != fiber || ab_list_empty(&loop->ready) || !may_run_more(loop)) return NULL;
  ab_waiter *next = AB_CONTAINER_OF(loop->ready.next, ab_waiter, link);
  bool plain = next->kind != AB_WAIT_STRAY && next->fiber != fiber && next->fiber != loop->root;
  return plain ? next : NULL;
}

/* Switches to a fiber on behalf of the loop. */
static void hand_over(ab_loop *loop, VALUE fiber, VALUE carrier) {
  loop->parker = Qnil;
  loop->current = fiber;
  loop->carrier = carrier;
  leave(loop);
  rb_fiber_transfer(fiber, 0, NULL);
}

static void run_next(ab_loop *loop, ab_waiter *next) {
  VALUE fiber = next->fiber, carrier = next->carrier;
  loop->chain--;
  next->dispatched = true;
  forget(loop, next);
  hand_over(loop, fiber, carrier);
  RB_GC_GUARD(fiber);
}

static VALUE park_switch(VALUE arg) {
  park *park = (struct park *)arg;
  ab_waiter *waiter = park->waiter, *next;
  if (!NIL_P(park->target))
    hand_over(park->loop, park->target, park->target);
  else if ((next = next_in_chain(park->loop, waiter->fiber)))
    run_next(park->loop, next);
  else
    ab__loop_leave(park->loop);
  /* Control may come from somebody else than the loop; it goes back until the wait has ended. */
  while (waiter->wake == AB_WAKE_PENDING) ab__loop_leave(park->loop);
  return Qnil;
}

static VALUE park_end(VALUE arg) {
  park *park = (struct park *)arg;
  ab_heap_cancel(&park->loop->timers, &park->waiter->timer);
  /* Fiber#raise brought us here: what runs now runs on our account. */
  if (!park->waiter->dispatched) park->loop->carrier = park->waiter->carrier;
  forget(park->loop, park->waiter);
  return Qnil;
}

static ab_waiter *carried_waiter(ab_loop *loop, VALUE fiber);

static bool is_alive(VALUE fiber) {
  return !NIL_P(fiber) && RTEST(rb_fiber_alive_p(fiber));
}

/* Does a fiber run on the loop's account, itself or through one that it resumed? While the loop
 * does not run, a carrier may be left over: Fiber#raise or #kill from the root fiber has run one,
 * and it has ended or waits again. Nor can anybody leave when there is no root fiber to go to. */
static bool has_left_home(ab_loop *loop, VALUE fiber) {
  VALUE carrier = loop->carrier;
  if (AB_LIKELY(loop->running)) return true;
  if (!is_alive(carrier) || !is_alive(loop->root) || ab__loop_waiter(loop, carrier)) return false;
  /* Who runs himself carries nobody that waits; else all who wait would have to be looked at. */
  return fiber == carrier || !carried_waiter(loop, carrier);
}

/* True on the root fiber, and on any fiber that the loop has not got to do with. */
bool ab__loop_at_home(ab_loop *loop) {
  VALUE fiber = rb_fiber_current();
  return fiber == loop->root || !has_left_home(loop, fiber);
}

static bool turn(ab_loop *loop);

static VALUE turn_until_woken(VALUE arg) {
  park *park = (struct park *)arg;
  /* At least one turn: ab__loop_pass is ready at once. */
  park->loop->heedless = ab_clock_monotonic();
  do turn(park->loop);
  while (park->waiter->wake == AB_WAKE_PENDING);
  return Qnil;
}

static VALUE run_end(VALUE arg) {
  ab_loop *loop = (ab_loop *)arg;
  ab__preempt_stop(loop);
  loop->running = false;
  loop->blocked = AB_RUNNING;
  return Qnil;
}

/* Who is the root for a while ends some day; parked fibers must not go to it then. */
static void restore_root(ab_loop *loop, VALUE root) {
  if (is_alive(root)) loop->root = root;
}

static VALUE home_end(VALUE arg) {
  park *park = (struct park *)arg;
  run_end((VALUE)park->loop);
  restore_root(park->loop, park->root);
  return Qnil;
}

/* A non-blocking fiber that the loop did not start wants to wait, while the loop does not run: one
 * that the root fiber has resumed, or the main fiber of a process that was forked in a fiber. There
 * is nobody to switch to, so it runs the loop itself. */
static VALUE wait_at_home(VALUE arg) {
  park *park = (struct park *)arg;
  park->waiter->dispatched = true;
  park->root = park->loop->root;
  park->loop->root = rb_fiber_current();
  park->loop->running = true;
  return rb_ensure(turn_until_woken, arg, home_end, arg);
}

static int park_on(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline, enum ab_wake wake,
                   VALUE target) {
  /* Keeps the loop alive as long as this stack. */
  volatile VALUE self = loop->self;
  waiter->fiber = rb_fiber_current();
  if (AB_UNLIKELY(!ab_list_empty(&loop->deferred)) && waiter->kind != AB_WAIT_PREEMPTED) {
    VALUE exception = ab__preempt_deferred(loop, waiter->fiber);
    if (!NIL_P(exception)) rb_exc_raise(exception);
  }
  bool home = ab__loop_at_home(loop);
  waiter->carrier = home || NIL_P(loop->carrier) ? waiter->fiber : loop->carrier;
  waiter->exception = Qnil;
  waiter->since = loop->now;
  waiter->dispatched = false;
  ab_list_init(&waiter->link);
  ab_heap_node_init(&waiter->timer);
  if (deadline != 0 && ab_heap_arm(&loop->timers, &waiter->timer, deadline) != AB_OK) rb_memerror();
  enlist(loop, waiter, wake);
  park park = {.loop = loop, .waiter = waiter, .target = target};
  VALUE (*wait)(VALUE) = home ? wait_at_home : park_switch;
  rb_ensure(wait, (VALUE)&park, park_end, (VALUE)&park);
  RB_GC_GUARD(self);
  if (AB_UNLIKELY(!NIL_P(waiter->exception))) rb_exc_raise(waiter->exception);
  return waiter->wake;
}

int ab_loop_park(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline) {
  if (AB_UNLIKELY(loop->running && rb_fiber_current() == loop->root))
    rb_raise(fiber_error(), "only a fiber of the scheduler can wait in it");
  return park_on(loop, waiter, deadline, AB_WAKE_PENDING, Qnil);
}

void ab__loop_pass(ab_loop *loop) {
  ab_waiter waiter = {.kind = AB_WAIT_SLEEP, .object = Qnil};
  park_on(loop, &waiter, 0, AB_WAKE_READY, Qnil);
}

void ab__loop_step_aside(ab_loop *loop, ab_waiter *waiter) {
  /* It had a quantum: time to look at timers and descriptors. */
  loop->chain = 0;
  park_on(loop, waiter, 0, AB_WAKE_READY, Qnil);
}

/* The wait of a fiber that `fiber` resumed, directly or not (an Enumerator's, say): what is raised
 * there comes up to it. */
static ab_waiter *carried_waiter(ab_loop *loop, VALUE fiber) {
  ab_list_each (node, tmp, &loop->parked) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (waiter->carrier == fiber) return waiter;
  }
  return NULL;
}

/* Neither a computation nor what an extension has in hand ends in the middle. */
static bool may_end(const ab_waiter *waiter) {
  return NIL_P(waiter->exception) && waiter->kind != AB_WAIT_PREEMPTED &&
         waiter->kind != AB_WAIT_OFFLOAD;
}

bool ab__loop_interrupt(ab_loop *loop, VALUE fiber, VALUE exception) {
  ab_waiter *waiter = ab__loop_waiter(loop, fiber);
  /* A stray may be one that only seems to be stranded, because the fiber it resumed waits. */
  if (!waiter || waiter->kind == AB_WAIT_STRAY) waiter = carried_waiter(loop, fiber);
  if (!waiter || !may_end(waiter)) return false;
  waiter->exception = exception;
  ab_loop_wake(loop, waiter);
  return true;
}

void ab__loop_interrupt_all(ab_loop *loop, VALUE exception) {
  ab_list_each (node, tmp, &loop->parked) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (!may_end(waiter)) continue;
    waiter->exception = exception;
    ab_loop_wake(loop, waiter);
  }
}

/* ---- dispatching ---- */

static VALUE switch_to(VALUE fiber) {
  return rb_fiber_transfer(fiber, 0, NULL);
}

/* The method refuses a fiber that has resumed another one or has yielded; on Ruby 3.1 the function
 * does not. */
static VALUE switch_to_stray(VALUE fiber) {
  return rb_funcall(fiber, rb_intern("transfer"), 0);
}

static void raise_forwarded(ab_loop *loop) {
  VALUE exception = loop->forward;
  loop->forward = Qnil;
  rb_exc_raise(exception);
}

/* Thread#kill arrived in a fiber that could not unwind; this one can. */
static void go_on_with_kill(ab_loop *loop) {
  int state = loop->fatal;
  loop->fatal = 0;
  rb_jump_tag(state);
}

/* Ruby says no to a fiber that has resumed another one or has yielded: it is not stranded, its
 * partner will switch to it. And to a new one when there is no stack. */
static bool was_refused(ab_loop *loop, VALUE fiber) {
  return NIL_P(loop->parker) && rb_obj_is_kind_of(rb_errinfo(), fiber_error()) &&
         RTEST(rb_fiber_alive_p(fiber));
}

/* Runs the fiber from the root fiber. `carrier` is whom its waits are accounted to. */
static bool dispatch(ab_loop *loop, VALUE fiber, VALUE carrier, VALUE (*switcher)(VALUE)) {
  int state;
  loop->parker = Qnil;
  loop->current = fiber;
  loop->carrier = carrier;
  loop->dirty = true;
  leave(loop);
  rb_protect(switcher, fiber, &state);
  come_back(loop);
  /* Fibers may have handed over to others meanwhile. */
  VALUE last = loop->current;
  loop->carrier = loop->current = Qnil;
  if (AB_UNLIKELY(state && last == fiber && was_refused(loop, fiber))) {
    rb_set_errinfo(Qnil);
    return false;
  }
  /* Control came back without the fiber having given it: a sibling that it raised in or switched to
   * did. Nobody else would switch to it again. */
  if (AB_UNLIKELY(last != loop->parker)) ab_loop_ready(loop, last);
  RB_GC_GUARD(last);
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
  if (AB_UNLIKELY(loop->fatal != 0)) go_on_with_kill(loop);
  if (AB_UNLIKELY(!NIL_P(loop->forward))) raise_forwarded(loop);
  return true;
}

bool ab__loop_enter(ab_loop *loop, VALUE fiber) {
  volatile VALUE root = loop->root;
  if (!loop->running) loop->root = rb_fiber_current();
  bool entered = dispatch(loop, fiber, fiber, switch_to);
  if (!loop->running) restore_root(loop, root);
  return entered;
}

void ab_loop_transfer(ab_loop *loop, VALUE fiber) {
  if (ab__loop_at_home(loop)) {
    if (!ab__loop_enter(loop, fiber))
      rb_raise(fiber_error(), "the fiber cannot be run: it waits for another one, or there is no "
                              "memory for its stack");
    return;
  }
  ab_waiter waiter = {.kind = AB_WAIT_SLEEP, .object = Qnil};
  park_on(loop, &waiter, 0, AB_WAKE_READY, fiber);
}

static void run_stray(ab_loop *loop, ab_waiter *stray) {
  VALUE fiber = stray->fiber;
  drop_stray(loop, stray);
  if (RTEST(rb_fiber_alive_p(fiber))) dispatch(loop, fiber, fiber, switch_to_stray);
  RB_GC_GUARD(fiber);
}

static void run_ready(ab_loop *loop) {
  /* All that are ready now, and of what becomes ready meanwhile so much that a few fibers that wake
   * each other need not come back here each time. */
  loop->chain = loop->ready_count > CHAIN_LENGTH ? loop->ready_count : CHAIN_LENGTH;
  bool home = false;
  while (!ab_list_empty(&loop->ready) && may_run_more(loop)) {
    loop->chain--;
    ab_waiter *waiter = AB_CONTAINER_OF(loop->ready.next, ab_waiter, link);
    if (AB_UNLIKELY(waiter->kind == AB_WAIT_STRAY)) {
      run_stray(loop, waiter);
      continue;
    }
    VALUE fiber = waiter->fiber, carrier = waiter->carrier;
    if (AB_UNLIKELY(fiber == loop->root)) {
      /* That is us: the loop runs on a fiber that waits (wait_at_home). It goes on after this turn,
       * and stays on the list until then, lest the turn ends in a wait. */
      if (home) break;
      home = true;
      ab_list_remove(&waiter->link);
      ab_list_append(&loop->ready, &waiter->link);
      continue;
    }
    /* Off the list at once: the fiber need not come back here. */
    waiter->dispatched = true;
    forget(loop, waiter);
    dispatch(loop, fiber, carrier, switch_to);
    RB_GC_GUARD(fiber);
  }
  /* Who is run from elsewhere (a new fiber, a request) comes back here at once. */
  loop->chain = 0;
}

static VALUE build_exception(VALUE arg) {
  const ab_timeout *timeout = (const ab_timeout *)arg;
  VALUE argv[2] = {timeout->exception, timeout->message};
  if (NIL_P(argv[1]) && RB_TYPE_P(argv[0], T_CLASS)) argv[1] = rb_str_new_cstr("execution expired");
  return rb_make_exception(NIL_P(argv[1]) ? 1 : 2, argv);
}

/* The exception is made here and raised in the fiber. An error of its class's own code takes its
 * place. */
static void fire_timeout(ab_loop *loop, ab_timeout *timeout) {
  int state;
  VALUE exception = rb_protect(build_exception, (VALUE)timeout, &state);
  if (state) {
    exception = rb_errinfo();
    if (!rb_obj_is_kind_of(exception, rb_eException)) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
  }
  if (ab__loop_interrupt(loop, timeout->fiber, exception)) return;
  /* It is about to run, or another exception is on its way to it: the block may still be there
   * afterwards. Failing to arm would lose it, so the old slot is reused: nothing else arms here. */
  if (ab_heap_arm(&loop->timeouts, &timeout->timer, loop->now + RETRY_INTERVAL) != AB_OK)
    rb_memerror();
}

static void run_timers(ab_loop *loop) {
  ab_heap_node *node;
  while ((node = ab_heap_due(&loop->timers, loop->now)))
    make_ready(loop, AB_CONTAINER_OF(node, ab_waiter, timer), AB_WAKE_TIMEOUT);
  while ((node = ab_heap_due(&loop->timeouts, loop->now))) {
    ab_timeout *timeout = AB_CONTAINER_OF(node, ab_timeout, timer);
    timeout->chore ? timeout->chore(loop, timeout) : fire_timeout(loop, timeout);
  }
}

/* ---- the turn ---- */

typedef struct blocking_wait {
  ab_poller *poller;
  ab_nsec timeout;
  ab_nsec ended; /* 0: it did not begin */
  ab_pulse *pulse;
} blocking_wait;

/* From here on it takes as long as it takes until we have the GVL again. */
static void *wait_without_gvl(void *arg) {
  blocking_wait *wait = arg;
  ab_poller_wait(wait->poller, wait->timeout);
  wait->ended = ab_clock_monotonic();
  if (wait->pulse) {
    atomic_store_explicit(&wait->pulse->starved, true, memory_order_relaxed);
    ab_pulse_leave(wait->pulse);
  }
  return NULL;
}

static void unblock_wait(void *arg) {
  ab_poller_wakeup(arg);
}

static ab_nsec earlier(ab_nsec a, ab_nsec b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

/* May an IO have been closed that a fiber waits for? By a fiber that has run since the last look,
 * or by another thread, at any time. */
static bool needs_sweep(const ab_loop *loop) {
  return AB_SCHEDULER_INTERFACE < 3 && loop->fd_waits > 0 && (loop->dirty || !rb_thread_alone());
}

static ab_nsec next_deadline(ab_loop *loop) {
  ab_nsec deadline = earlier(ab_heap_deadline(&loop->timers), ab_heap_deadline(&loop->timeouts));
  if (loop->client) deadline = earlier(deadline, loop->client->deadline(loop->client_ctx));
  if (needs_sweep(loop)) deadline = earlier(deadline, loop->swept + SWEEP_INTERVAL);
  return deadline;
}

/* Waits without the GVL. Whoever gets it meanwhile finds AB_BLOCKED and wakes the poller. A pending
 * interrupt keeps us from entering (INTR_FAIL), so its handler never runs between the look at the
 * ready list and the wait; one that comes later calls unblock_wait. */
static void block(ab_loop *loop) {
  ab_nsec deadline = next_deadline(loop), now = ab_clock_monotonic();
  if (deadline != 0 && deadline <= now) return;
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
  if (!pulse) return;
  atomic_store_explicit(&pulse->starved, false, memory_order_relaxed);
  ab_pulse_return(pulse);
  if (loop->client && loop->client->woken) loop->client->woken(loop->client_ctx);
}

static void deliver_events(ab_loop *loop) {
  ab_poller_lock(loop->poller);
  ab_poller_dispatch(loop->poller);
  ab_poller_unlock(loop->poller);
}

/* Collects events, and waits for them when there is nothing else to do. */
static void await_events(ab_loop *loop, bool busy) {
  bool idle = !busy && loop->ready_count == 0;
  /* To ask first spares giving up the GVL when something has happened. Where only other threads can
   * make it happen, they need the GVL for that. */
  bool ask = !idle || loop->client || loop->fd_waits > 0;
  if ((ask && ab_poller_wait(loop->poller, 0) > 0) || !idle) return;
  ab__fd_prove(loop, loop->now);
  /* A wait that could not be renewed is over. */
  if (loop->ready_count == 0) block(loop);
}

static bool is_finished(ab_loop *loop) {
  if (loop->client && loop->client->given_up(loop->client_ctx)) return true;
  if (loop->ready_count > 0 || loop->parked_count > 0) return false;
  return !loop->client || loop->client->done(loop->client_ctx);
}

/* Returns false when nothing is left to wait for. */
static bool turn(ab_loop *loop) {
  loop->now = ab_clock_monotonic();
  ab_histogram_add(&loop->lag, loop->now - loop->heedless);
  loop->heedless = loop->now;
  run_ready(loop);
  run_timers(loop);
  bool busy = loop->client && loop->client->turn(loop->client_ctx, loop->now);
  if (needs_sweep(loop) && loop->now - loop->swept >= SWEEP_INTERVAL) {
    loop->dirty = false;
    loop->swept = loop->now;
    ab__fd_sweep(loop);
  }
  for (size_t i = 0; i < AB_POOLS; i++)
    if (loop->pools[i]) ab_offload_reap(loop->pools[i]);
  if (is_finished(loop) && !busy) return false;
  ab__fd_prove(loop, loop->now - PROOF_DELAY);
  await_events(loop, busy);
  deliver_events(loop);
  /* A trap handler may take its time, and other threads may get the GVL. */
  if (loop->pulse) ab_pulse_leave(loop->pulse);
  rb_thread_check_ints();
  if (loop->pulse) ab_pulse_return(loop->pulse);
  return true;
}

static VALUE run_turns(VALUE arg) {
  ab_loop *loop = (ab_loop *)arg;
  ab__preempt_start(loop);
  loop->heedless = ab_clock_monotonic();
  /* Something that was forwarded while the loop did not run. */
  if (!NIL_P(loop->forward)) raise_forwarded(loop);
  while (turn(loop)) continue;
  return Qnil;
}

void ab__loop_check_idle(ab_loop *loop) {
  if (!ab__loop_at_home(loop))
    rb_raise(rb_eRuntimeError, "the scheduler cannot run on one of its fibers");
  if (loop->running) rb_raise(rb_eRuntimeError, "the scheduler runs already");
}

void ab_loop_run(ab_loop *loop) {
  ab__loop_check_idle(loop);
  volatile VALUE self = loop->self;
  loop->root = rb_fiber_current();
  loop->running = true;
  rb_ensure(run_turns, (VALUE)loop, run_end, (VALUE)loop);
  RB_GC_GUARD(self);
}

/* ---- fibers ---- */

VALUE ab__fiber_new(rb_block_call_func_t body, VALUE data) {
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  return rb_fiber_new_storage(body, data, Qnil);
#else
  /* rb_fiber_new makes a blocking fiber on Ruby 3.1. */
  return rb_block_call(rb_path2class("Fiber"), rb_intern("new"), 0, NULL, body, data);
#endif
}

static bool concerns_process(VALUE exception) {
  return rb_obj_is_kind_of(exception, rb_eSystemExit) || rb_obj_is_kind_of(exception, rb_eSignal) ||
         rb_obj_is_kind_of(exception, rb_eNoMemError);
}

static VALUE write_report(VALUE exception) {
  VALUE thread = rb_thread_current();
  if (!RTEST(rb_funcall(thread, rb_intern("report_on_exception"), 0))) return Qnil;
  VALUE text = rb_sprintf(
      "%" PRIsVALUE " terminated with exception (report_on_exception is true):\n"
      "%" PRIsVALUE,
      rb_inspect(rb_fiber_current()), rb_funcall(exception, rb_intern("full_message"), 0));
  return rb_io_write(rb_gv_get("$stderr"), text);
}

/* TAG_RAISE of eval_intern.h, as rb_protect reports it on every version. */
#define STATE_RAISE 6

bool ab__loop_ended(ab_loop *loop, int state) {
  if (state == 0) return true;
  VALUE exception = rb_errinfo();
  if (state != STATE_RAISE || !rb_obj_is_kind_of(exception, rb_eException)) return false;
  rb_set_errinfo(Qnil);
  if (concerns_process(exception)) {
    loop->forward = exception;
  } else {
    rb_protect(write_report, exception, &state);
    rb_set_errinfo(Qnil);
  }
  return true;
}
