/* Runs ready fibers from the root fiber, and timers. */
#include "rb/scheduler/rb_scheduler.h"

#define CHAIN_LENGTH   32             /* fibers that may run before the loop has its turn */
#define RETRY_INTERVAL AB_NSEC_PER_MS /* after an exception could not be delivered */

static VALUE dispatch_switch_to(VALUE fiber) {
  return rb_fiber_transfer(fiber, 0, NULL);
}

/* Unlike the function on 3.1, the method refuses a fiber that has resumed another or yielded. */
static VALUE switch_to_stray(VALUE fiber) {
  return rb_funcall(fiber, rb_intern("transfer"), 0);
}

/* Thread#kill arrived in a fiber that could not unwind; this one can. */
static void go_on_with_kill(ab_loop *loop) {
  int state = loop->fatal;
  loop->fatal = 0;
  rb_jump_tag(state);
}

/* Ruby refuses a fiber that waits for a partner (which switches to it) and one without a stack. */
static bool was_refused(ab_loop *loop, VALUE fiber) {
  return NIL_P(loop->parker) && rb_obj_is_kind_of(rb_errinfo(), ab__fiber_error()) &&
         RTEST(rb_fiber_alive_p(fiber));
}

/* Runs the fiber from the root fiber, by switcher(arg). Its waits are charged to `carrier`. */
static bool dispatch(ab_loop *loop, VALUE fiber, VALUE carrier, VALUE (*switcher)(VALUE),
                     VALUE arg) {
  int state;
  loop->parker = Qnil;
  loop->current = fiber;
  loop->carrier = carrier;
  loop->dirty = true;
  ab__loop_away(loop);
  rb_protect(switcher, arg, &state);
  ab__loop_back(loop);
  /* Fibers may have handed over to others meanwhile. */
  VALUE last = loop->current;
  loop->carrier = loop->current = Qnil;
  if (AB_UNLIKELY(state && last == fiber && was_refused(loop, fiber))) {
    rb_set_errinfo(Qnil);
    if (AB_UNLIKELY(loop->work != NULL)) ab__loop_runs(loop, NULL);
    return false;
  }
  /* A sibling gave control back, by Fiber#raise or a transfer. Only the loop can run this fiber. */
  if (AB_UNLIKELY(last != loop->parker)) ab__loop_leave_behind(loop, last);
  if (AB_UNLIKELY(loop->work != NULL)) ab__loop_runs(loop, NULL);
  RB_GC_GUARD(last);
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
  if (AB_UNLIKELY(loop->fatal != 0)) go_on_with_kill(loop);
  if (AB_UNLIKELY(!NIL_P(loop->forward))) ab__loop_raise_forwarded(loop);
  return true;
}

static bool enter(ab_loop *loop, VALUE fiber, VALUE (*switcher)(VALUE), VALUE arg) {
  volatile VALUE root = loop->root;
  if (!loop->running) loop->root = rb_fiber_current();
  bool entered = dispatch(loop, fiber, fiber, switcher, arg);
  if (!loop->running) ab__loop_restore_root(loop, root);
  return entered;
}

bool ab__loop_enter(ab_loop *loop, VALUE fiber) {
  return enter(loop, fiber, dispatch_switch_to, fiber);
}

static VALUE switch_to_new(VALUE arg) {
  ab_loop *loop = (ab_loop *)arg;
  ab_first_switch_enter(&loop->first_switch, loop->current);
  return Qnil;
}

bool ab__loop_enter_new(ab_loop *loop, VALUE fiber) {
  return enter(loop, fiber, switch_to_new, (VALUE)loop);
}

static void run_stray(ab_loop *loop, ab_waiter *stray) {
  VALUE fiber = stray->fiber;
  bool alive = RTEST(rb_fiber_alive_p(fiber));
  if (alive && stray->work) ab__work_go_on(loop, stray);
  ab__loop_drop_stray(loop, stray);
  if (alive) dispatch(loop, fiber, fiber, switch_to_stray, fiber);
  RB_GC_GUARD(fiber);
}

void ab__loop_run_ready(ab_loop *loop) {
  /* Also some that become ready meanwhile: fibers that wake each other come back less often. */
  loop->chain = loop->ready_count > CHAIN_LENGTH ? loop->ready_count : CHAIN_LENGTH;
  bool ours = false;
  while (!ab_list_empty(&loop->ready) && ab__loop_may_run_more(loop)) {
    loop->chain--;
    ab_waiter *waiter = AB_CONTAINER_OF(loop->ready.next, ab_waiter, link);
    if (AB_UNLIKELY(waiter->kind == AB_WAIT_STRAY)) {
      run_stray(loop, waiter);
      continue;
    }
    VALUE fiber = waiter->fiber, carrier = waiter->carrier;
    if (AB_UNLIKELY(fiber == loop->root)) {
      /* The loop runs on this fiber, which stays listed: the turn must not end in a wait. */
      if (ours) break;
      ours = true;
      ab_list_remove(&waiter->link);
      ab_list_append(&loop->ready, &waiter->link);
      continue;
    }
    /* Off the list at once: the fiber need not come back here. */
    waiter->dispatched = true;
    ab__loop_forget(loop, waiter);
    dispatch(loop, fiber, carrier, dispatch_switch_to, fiber);
    RB_GC_GUARD(fiber);
  }
  /* A fiber that is run from elsewhere (a new fiber, a request) comes back here at once. */
  loop->chain = 0;
}

static VALUE build_exception(VALUE arg) {
  const ab_timeout *timeout = (const ab_timeout *)arg;
  VALUE argv[2] = {timeout->exception, timeout->message};
  if (NIL_P(argv[1]) && RB_TYPE_P(argv[0], T_CLASS)) argv[1] = rb_str_new_cstr("execution expired");
  return rb_make_exception(NIL_P(argv[1]) ? 1 : 2, argv);
}

/* Created here, raised in the fiber. An error in the code of its class replaces it. */
static void fire_timeout(ab_loop *loop, ab_timeout *timeout) {
  int state;
  VALUE exception = rb_protect(build_exception, (VALUE)timeout, &state);
  if (state) {
    exception = rb_errinfo();
    if (!rb_obj_is_kind_of(exception, rb_eException)) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
  }
  if (ab__loop_interrupt(loop, timeout->fiber, exception)) return;
  /* It is about to run, or has an exception on its way. Arming reuses the slot: it cannot fail. */
  if (ab_heap_arm(&loop->timeouts, &timeout->timer, loop->now + RETRY_INTERVAL) != AB_OK)
    rb_memerror();
}

void ab__loop_run_timers(ab_loop *loop) {
  ab_heap_node *node;
  while ((node = ab_heap_due(&loop->timers, loop->now)))
    ab__loop_make_ready(loop, AB_CONTAINER_OF(node, ab_waiter, timer), AB_WAKE_TIMEOUT);
  while ((node = ab_heap_due(&loop->timeouts, loop->now))) {
    ab_timeout *timeout = AB_CONTAINER_OF(node, ab_timeout, timer);
    timeout->task ? timeout->task(loop, timeout) : fire_timeout(loop, timeout);
  }
}
