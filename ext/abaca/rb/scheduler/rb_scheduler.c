/* Abaca::Scheduler: the hooks that park and wake fibers. Others are in rb_sched_*.c.
 * In a forked child the parent's scheduler may still be the thread's (Ruby before 4.0). There
 * the hooks block the thread, as plain Ruby does, and touch nothing of the parent's. */
#include "rb/scheduler/rb_scheduler.h"

/* ---- fiber ---- */

static VALUE call_block(VALUE block) {
  return rb_proc_call_with_block(block, 0, NULL, Qnil);
}

/* The body of a scheduled fiber; data: the block, or [block, scheduler] of another thread. */
static VALUE fiber_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  ab_child child = {.work = NULL};
  bool pair = RB_TYPE_P(data, T_ARRAY);
  VALUE scheduler = pair ? RARRAY_AREF(data, 1) : rb_fiber_scheduler_get();
  ab_loop *loop = ab__loop_get(scheduler);
  int state;
  ab__child_begins(loop, &child);
  VALUE result = rb_protect(call_block, pair ? RARRAY_AREF(data, 0) : data, &state);
  ab__child_ends(&child);
  if (!ab__loop_ended(loop, state)) rb_jump_tag(state);
  RB_GC_GUARD(scheduler);
  return state == 0 ? result : Qnil;
}

static VALUE new_fiber(const ab_loop *loop, int argc, const VALUE *argv, VALUE data) {
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  /* What Fiber.new does without options, without the call. */
  if (argc == 0) return rb_fiber_new_storage(fiber_main, data, Qtrue);
#endif
  return rb_block_call_kw(loop->fiber_class, rb_intern("new"), argc, argv, fiber_main, data,
                          rb_keyword_given_p());
}

/* @!method fiber(**options, &block)
 * Runs the block in a new non-blocking fiber until it first waits. Options: as for Fiber.new. */
static VALUE sched_fiber(int argc, VALUE *argv, VALUE self) {
  ab_loop *loop = ab_loop_of(self);
  rb_need_block();
  VALUE block = rb_block_proc();
  bool current = rb_fiber_scheduler_get() == self;
  VALUE data = current ? block : rb_ary_new_from_args(2, block, self);
  VALUE fiber = new_fiber(loop, argc, argv, data);
  loop->parent = current ? loop->work : NULL;
  ab_loop_transfer(loop, fiber);
  return fiber;
}

static VALUE make_switcher(VALUE self) {
  return ab_first_switch_make_switcher(&ab__loop_get(self)->first_switch);
}

/* ---- block, unblock, kernel_sleep, yield ---- */

/* In a forked child: what Ruby would do without a scheduler. */
static bool sleep_blocking(bool forever, ab_nsec timeout) {
  if (forever) {
    rb_thread_sleep_forever();
    return true;
  }
  ab_nsec deadline = ab__deadline_after(timeout);
  struct timeval tv = {.tv_sec = (time_t)(timeout / AB_NSEC_PER_SEC),
                       .tv_usec = (suseconds_t)(timeout % AB_NSEC_PER_SEC / 1000)};
  rb_thread_wait_for(tv);
  return ab_clock_monotonic() < deadline;
}

/* Parks for a time that the user gave. Returns false when it passed. */
static bool park_for(VALUE self, VALUE seconds, uint8_t kind, VALUE object) {
  ab_loop *loop = ab__loop_get(self);
  ab_nsec timeout = 0;
  bool forever = !ab__timeout_of(seconds, &timeout);
  if (AB_UNLIKELY(ab__loop_forked(loop))) return sleep_blocking(forever, timeout);
  ab__loop_check(loop);
  ab_waiter waiter = {.kind = kind, .object = object};
  if (AB_UNLIKELY(ab__latch_any(&loop->latches)) &&
      ab__latch_take(&loop->latches, &waiter, forever))
    return true;
  return ab_loop_park(loop, &waiter, forever ? 0 : ab__deadline_after(timeout)) == AB_WAKE_READY;
}

typedef struct load_wait {
  ab_loop *loop;
  ab_waiter waiter;
} load_wait;

static VALUE park_for_load(VALUE arg) {
  load_wait *wait = (load_wait *)arg;
  ab_loop_park(wait->loop, &wait->waiter, 0);
  return Qnil;
}

static void wait_for_load(ab_loop *loop, VALUE blocker) {
  load_wait wait = {.loop = loop, .waiter = {.kind = AB_WAIT_REQUIRE, .object = blocker}};
  if (AB_UNLIKELY(ab__latch_any(&loop->latches)) &&
      ab__latch_take(&loop->latches, &wait.waiter, true))
    return;
  wait.waiter.object = Qnil; /* hidden from Ruby code */
  do ab__uninterrupted(loop, &wait.waiter, park_for_load, (VALUE)&wait);
  while (wait.waiter.wake == AB_WAKE_PENDING);
}

/* Ruby's lock of a file that is being loaded, hidden from Ruby code. An exception that is raised
 * there while an encoding's converter is loaded does not come through. */
static bool is_load_lock(VALUE blocker) {
  return !RB_SPECIAL_CONST_P(blocker) && RBASIC_CLASS(blocker) == 0;
}

/* @!method block(blocker, timeout = nil)
 * Parks the current fiber until it is unblocked (true) or `timeout` seconds have passed (false). */
static VALUE sched_block(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 2);
  ab_loop *loop = ab__loop_get(self);
  if (AB_UNLIKELY(is_load_lock(argv[0])) && !ab__loop_forked(loop)) {
    ab__loop_check(loop);
    if (!ab__loop_on_root(loop)) {
      wait_for_load(loop, argv[0]);
      return Qtrue;
    }
  }
  VALUE timeout = argc == 2 ? argv[1] : Qnil;
  return park_for(self, timeout, AB_WAIT_BLOCK, argv[0]) ? Qtrue : Qfalse;
}

/* @!method unblock(blocker, fiber)
 * Wakes a fiber that #block or #kernel_sleep parked, or is about to park (rb_latch.c); one that
 * waits for something else is left alone. From any thread. */
static VALUE sched_unblock(VALUE self, VALUE blocker, VALUE fiber) {
  ab_loop *loop = ab__loop_get(self);
  if (AB_UNLIKELY(loop->closed)) return Qnil;
  if (AB_UNLIKELY(ab__loop_forked(loop))) {
    if (!NIL_P(loop->thread)) rb_thread_wakeup_alive(loop->thread);
    return Qnil;
  }
  ab__latch_wake(loop, blocker, fiber);
  return Qnil;
}

/* @!method kernel_sleep(duration = nil)
 * Parks the current fiber for `duration` seconds, or until it is unblocked when it is nil. */
static VALUE sched_kernel_sleep(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  VALUE duration = argc == 1 ? argv[0] : Qnil;
  if (duration == INT2FIX(0)) {
    ab_loop *loop = ab__loop_get(self);
    if (ab__loop_forked(loop)) return Qtrue;
    ab__loop_check(loop);
    ab__loop_pass(loop);
  } else {
    park_for(self, duration, AB_WAIT_SLEEP, Qnil);
  }
  return Qtrue;
}

/* @!method yield
 * Lets all other fibers that can run do so. Does nothing on a blocking fiber and on the loop's. */
static VALUE sched_yield_hook(VALUE self) {
  ab_loop *loop = ab__loop_get(self);
  if (loop->closed || ab__loop_forked(loop) || NIL_P(rb_fiber_scheduler_current())) return Qnil;
  ab__loop_check(loop);
  if (!loop->running || rb_fiber_current() != loop->root) ab__loop_pass(loop);
  return Qnil;
}

/* @!method fiber_interrupt(fiber, exception)
 * Makes the fiber's wait raise the exception. From any thread. False if it does not wait, or
 * must not be interrupted there; nil after `close`. */
static VALUE sched_fiber_interrupt(VALUE self, VALUE fiber, VALUE exception) {
  ab_loop *loop = ab__loop_get(self);
  if (loop->closed || ab__loop_forked(loop)) return Qnil;
  if (!rb_obj_is_kind_of(exception, rb_eException)) exception = rb_make_exception(1, &exception);
  return ab__loop_interrupt(loop, fiber, exception) ? Qtrue : Qfalse;
}

void ab_init_scheduler(VALUE mAbaca) {
  VALUE klass = rb_define_class_under(mAbaca, "Scheduler", rb_cObject);
  rb_define_method(klass, "fiber", sched_fiber, -1);
  rb_define_private_method(klass, "make_switcher", make_switcher, 0);
  rb_define_method(klass, "block", sched_block, -1);
  rb_define_method(klass, "unblock", sched_unblock, 2);
  rb_define_method(klass, "kernel_sleep", sched_kernel_sleep, -1);
  rb_define_method(klass, "yield", sched_yield_hook, 0);
  rb_define_method(klass, "fiber_interrupt", sched_fiber_interrupt, 2);
  ab__init_sched_life(klass);
  ab__init_sched_io(klass);
  ab__init_sched_time(klass);
  ab__init_sched_process(klass);
  ab__init_sched_fibers(klass);
  ab__init_preempt(klass);
}
