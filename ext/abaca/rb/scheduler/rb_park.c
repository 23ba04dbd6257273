/* Parking and waking: the lists of waiters, and how a fiber leaves for the loop or the next one
 * that is ready. Results and exceptions are in the waiter, not in the value of a transfer, where
 * code that switches to a parked fiber (Fiber#raise, a stray transfer) could forge them. */
#include "rb/scheduler/rb_scheduler.h"

#include <stdlib.h>

/* Fibers hand over to each other for this long before the loop looks at timers and descriptors. */
#define CHAIN_TIME AB_NSEC_PER_MS

/* ---- the lists ---- */

ab_waiter *ab__loop_waiter(ab_loop *loop, VALUE fiber) {
  return ab_waiters_find(&loop->waiters, fiber);
}

void ab__loop_forget(ab_loop *loop, ab_waiter *waiter) {
  if (ab_list_empty(&waiter->link)) return;
  ab_list_remove(&waiter->link);
  if (waiter->wake == AB_WAKE_PENDING)
    loop->parked_count--;
  else
    loop->ready_count--;
  ab_waiters_remove(&loop->waiters, waiter->fiber);
}

void ab__loop_drop_stray(ab_loop *loop, ab_waiter *waiter) {
  ab__loop_forget(loop, waiter);
  free(waiter);
}

/* A fiber that was left behind has got control all the same: its work waits on. */
static void replace_stray(ab_loop *loop, ab_waiter *stray, ab_waiter *waiter) {
  waiter->work = stray->work;
  waiter->work_serial = stray->work_serial;
  ab__loop_drop_stray(loop, stray);
}

static void enlist(ab_loop *loop, ab_waiter *waiter, enum ab_wake wake) {
  ab_waiter *stray = ab__loop_waiter(loop, waiter->fiber);
  if (AB_UNLIKELY(stray != NULL)) replace_stray(loop, stray, waiter);
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

/* Only another thread can find the loop blocked. */
static inline void wake_loop(ab_loop *loop) {
  if (AB_LIKELY(loop->blocked != AB_BLOCKED)) return;
  loop->blocked = AB_WOKEN;
  ab_poller_wakeup(loop->poller);
}

void ab__loop_make_ready(ab_loop *loop, ab_waiter *waiter, enum ab_wake wake) {
  if (AB_UNLIKELY(waiter->work != NULL)) ab__work_woken(loop, waiter, wake);
  ab_heap_cancel(&loop->timers, &waiter->timer);
  ab_list_remove(&waiter->link);
  ab_list_append(&loop->ready, &waiter->link);
  loop->parked_count--;
  loop->ready_count++;
  waiter->wake = (uint8_t)wake;
  wake_loop(loop);
}

static bool is_parked(const ab_waiter *waiter) {
  return waiter->wake == AB_WAKE_PENDING && !ab_list_empty(&waiter->link);
}

void ab_loop_wake(ab_loop *loop, ab_waiter *waiter) {
  if (is_parked(waiter)) ab__loop_make_ready(loop, waiter, AB_WAKE_READY);
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
  wake_loop(loop);
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

bool ab__loop_may_run_more(ab_loop *loop) {
  if (loop->chain == 0) return false;
  /* The clock costs as much as a switch. */
  if (loop->chain % 8 == 0 && ab_clock_monotonic() - loop->now > CHAIN_TIME) loop->chain = 0;
  return loop->chain > 0;
}

static ab_waiter *next_in_chain(ab_loop *loop, VALUE fiber) {
  if (loop->current != fiber || ab_list_empty(&loop->ready) || !ab__loop_may_run_more(loop))
    return NULL;
  ab_waiter *next = AB_CONTAINER_OF(loop->ready.next, ab_waiter, link);
  bool plain = next->kind != AB_WAIT_STRAY && next->fiber != fiber && next->fiber != loop->root;
  return plain ? next : NULL;
}

static void hand_over(ab_loop *loop, VALUE fiber, VALUE carrier) {
  loop->parker = Qnil;
  loop->current = fiber;
  loop->carrier = carrier;
  ab__loop_away(loop);
  rb_fiber_transfer(fiber, 0, NULL);
}

static void run_next(ab_loop *loop, ab_waiter *next) {
  VALUE fiber = next->fiber, carrier = next->carrier;
  loop->chain--;
  next->dispatched = true;
  ab__loop_forget(loop, next);
  hand_over(loop, fiber, carrier);
  RB_GC_GUARD(fiber);
}

static VALUE park_switch(VALUE arg) {
  park *park = (struct park *)arg;
  ab_waiter *waiter = park->waiter, *next;
  if (!NIL_P(park->target)) {
    ab__loop_leave_behind(park->loop, park->loop->current);
    hand_over(park->loop, park->target, park->target);
  } else if ((next = next_in_chain(park->loop, waiter->fiber))) {
    run_next(park->loop, next);
  } else {
    ab__loop_leave(park->loop);
  }
  /* Control may not come from the loop; it goes back until the wait has ended. */
  while (waiter->wake == AB_WAKE_PENDING) ab__loop_leave(park->loop);
  return Qnil;
}

void ab__loop_leave_behind(ab_loop *loop, VALUE fiber) {
  if (NIL_P(fiber) || fiber == loop->parker) return;
  ab_loop_ready(loop, fiber);
  if (!loop->work) return;
  ab_waiter *stray = ab__loop_waiter(loop, fiber);
  if (stray && stray->kind == AB_WAIT_STRAY) ab__work_pause(loop, stray);
}

/* Fiber#raise or #kill brought us here: the fiber that ran before is left behind. Or there was
 * no stack for the new fiber, which must not run later. */
static void take_over(ab_loop *loop, const park *park) {
  volatile VALUE before = loop->current;
  bool awaited = before == park->target && !NIL_P(before) && ab_fiber_is_new(before);
  loop->carrier = park->waiter->carrier;
  loop->current = park->waiter->fiber;
  if (!awaited) ab__loop_leave_behind(loop, before);
  loop->parker = Qnil;
}

static VALUE park_end(VALUE arg) {
  park *park = (struct park *)arg;
  ab_heap_cancel(&park->loop->timers, &park->waiter->timer);
  ab__loop_forget(park->loop, park->waiter);
  if (AB_UNLIKELY(!park->waiter->dispatched)) take_over(park->loop, park);
  if (AB_UNLIKELY(park->waiter->work != NULL)) ab__work_go_on(park->loop, park->waiter);
  return Qnil;
}

static ab_waiter *carried_waiter(ab_loop *loop, VALUE fiber);

static bool park_is_alive(VALUE fiber) {
  return !NIL_P(fiber) && RTEST(rb_fiber_alive_p(fiber));
}

/* Does a fiber run on the loop's account, itself or through one that it resumed? While the loop
 * does not run, a carrier may be left over that has ended or waits again. */
static bool runs_on_loop(ab_loop *loop, VALUE fiber) {
  VALUE carrier = loop->carrier;
  if (AB_LIKELY(loop->running)) return true;
  if (!park_is_alive(carrier) || !park_is_alive(loop->root) || ab__loop_waiter(loop, carrier))
    return false;
  /* A fiber that runs itself carries no waiting one; this saves a look at all waiters. */
  return fiber == carrier || !carried_waiter(loop, carrier);
}

bool ab__loop_on_root(ab_loop *loop) {
  VALUE fiber = rb_fiber_current();
  return fiber == loop->root || !runs_on_loop(loop, fiber);
}

static VALUE turn_until_woken(VALUE arg) {
  park *park = (struct park *)arg;
  /* At least one turn: ab__loop_pass is ready at once. */
  park->loop->heedless = ab_clock_monotonic();
  do ab__loop_turn(park->loop);
  while (park->waiter->wake == AB_WAKE_PENDING);
  return Qnil;
}

void ab__loop_restore_root(ab_loop *loop, VALUE root) {
  if (park_is_alive(root)) loop->root = root;
}

static VALUE wait_on_root_end(VALUE arg) {
  park *park = (struct park *)arg;
  ab__loop_stopped((VALUE)park->loop);
  ab__loop_restore_root(park->loop, park->root);
  return Qnil;
}

/* A fiber that the loop did not start (resumed by the root fiber, or the main fiber after a fork
 * in a fiber) waits while the loop does not run. It runs the loop itself. */
static VALUE wait_on_root(VALUE arg) {
  park *park = (struct park *)arg;
  park->waiter->dispatched = true;
  park->root = park->loop->root;
  park->loop->root = rb_fiber_current();
  park->loop->running = true;
  return rb_ensure(turn_until_woken, arg, wait_on_root_end, arg);
}

static bool is_uninterruptible(const ab_waiter *waiter) {
  return waiter->kind == AB_WAIT_PREEMPTED || waiter->kind == AB_WAIT_REQUIRE;
}

static int park_on(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline, enum ab_wake wake,
                   VALUE target) {
  /* Keeps the loop alive as long as this stack. */
  volatile VALUE self = loop->self;
  waiter->fiber = rb_fiber_current();
  if (AB_UNLIKELY(!ab_list_empty(&loop->deferred)) && !is_uninterruptible(waiter)) {
    VALUE exception = ab__uninterrupted_deferred(loop, waiter->fiber);
    if (exception == AB_FIBER_KILLED)
      wake = AB_WAKE_READY; /* Ruby ends the fiber when it is switched to */
    else if (!NIL_P(exception))
      rb_exc_raise(exception);
  }
  bool on_root = ab__loop_on_root(loop);
  waiter->carrier = on_root || NIL_P(loop->carrier) ? waiter->fiber : loop->carrier;
  waiter->exception = Qnil;
  waiter->since = loop->now;
  waiter->dispatched = false;
  ab_list_init(&waiter->link);
  ab_heap_node_init(&waiter->timer);
  if (deadline != 0 && ab_heap_arm(&loop->timers, &waiter->timer, deadline) != AB_OK) rb_memerror();
  waiter->work = NULL;
  enlist(loop, waiter, wake);
  if (AB_UNLIKELY(waiter->work != NULL)) {
    ab__work_waits_on(loop, waiter);
  } else if (AB_UNLIKELY(loop->work != NULL)) {
    ab__work_pause(loop, waiter);
  }
  park park = {.loop = loop, .waiter = waiter, .target = target};
  VALUE (*wait)(VALUE) = on_root ? wait_on_root : park_switch;
  rb_ensure(wait, (VALUE)&park, park_end, (VALUE)&park);
  RB_GC_GUARD(self);
  if (AB_UNLIKELY(!NIL_P(waiter->exception))) rb_exc_raise(waiter->exception);
  return waiter->wake;
}

int ab_loop_park(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline) {
  if (AB_UNLIKELY(loop->running && rb_fiber_current() == loop->root))
    rb_raise(ab__fiber_error(), "only a fiber of the scheduler can wait in it");
  return park_on(loop, waiter, deadline, AB_WAKE_PENDING, Qnil);
}

static VALUE step_aside_for(VALUE arg) {
  park *park = (struct park *)arg;
  park_on(park->loop, park->waiter, 0, AB_WAKE_READY, park->target);
  return Qnil;
}

static bool try_to_transfer(ab_loop *loop, VALUE fiber, int *state) {
  ab_waiter waiter = {.kind = AB_WAIT_PASSING, .object = Qnil};
  park park = {.loop = loop, .waiter = &waiter, .target = fiber};
  rb_protect(step_aside_for, (VALUE)&park, state);
  if (AB_LIKELY(!*state)) return true;
  return !ab_first_switch_made_room(&loop->first_switch, fiber);
}

void ab_loop_transfer(ab_loop *loop, VALUE fiber) {
  if (ab__loop_on_root(loop)) {
    if (!ab__loop_enter_new(loop, fiber))
      rb_raise(ab__fiber_error(),
               "the fiber cannot be run: it waits for another one, or there is no "
               "memory for its stack");
    return;
  }
  int state;
  loop->first_switch.born++;
  while (!try_to_transfer(loop, fiber, &state)) continue;
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
}

void ab__loop_pass(ab_loop *loop) {
  ab_waiter waiter = {.kind = AB_WAIT_PASSING, .object = Qnil};
  park_on(loop, &waiter, 0, AB_WAKE_READY, Qnil);
}

void ab__loop_step_aside(ab_loop *loop, ab_waiter *waiter) {
  /* It had a quantum: time to look at timers and descriptors. */
  loop->chain = 0;
  park_on(loop, waiter, 0, AB_WAKE_READY, Qnil);
}

/* The wait of a fiber that `fiber` resumed, perhaps indirectly: what it raises comes up. */
static ab_waiter *carried_waiter(ab_loop *loop, VALUE fiber) {
  ab_list_each (node, tmp, &loop->parked) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (waiter->carrier == fiber) return waiter;
  }
  return NULL;
}

/* Neither a computation nor an extension's operation is interrupted in the middle. */
static bool may_end(const ab_waiter *waiter) {
  return NIL_P(waiter->exception) && !is_uninterruptible(waiter) &&
         waiter->kind != AB_WAIT_OPERATION;
}

bool ab__loop_interrupt(ab_loop *loop, VALUE fiber, VALUE exception) {
  ab_waiter *waiter = ab__loop_waiter(loop, fiber);
  /* A stray may only seem stranded, because the fiber that it resumed waits. */
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
