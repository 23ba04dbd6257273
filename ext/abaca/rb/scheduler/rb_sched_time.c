/* Scheduler#timeout_after, for Timeout.timeout. The loop delivers the exception through the
 * fiber's wait, so it neither hits another fiber nor comes after the block. */
#include "rb/scheduler/rb_scheduler.h"

typedef struct timed_block {
  ab_loop *loop;
  ab_timeout timeout;
  VALUE duration;
} timed_block;

static VALUE run_timed(VALUE arg) {
  return rb_yield(((timed_block *)arg)->duration);
}

static VALUE end_timed(VALUE arg) {
  timed_block *block = (timed_block *)arg;
  ab_heap_cancel(&block->loop->timeouts, &block->timeout.timer);
  return Qnil;
}

/* Timeout::Error, loaded now: a loop that fires a timer could not wait for a loading fiber. */
static VALUE default_exception(void) {
  ID timeout = rb_intern("Timeout"), error = rb_intern("Error");
  if (!rb_const_defined(rb_cObject, timeout) ||
      !rb_const_defined_at(rb_const_get(rb_cObject, timeout), error))
    rb_require("timeout");
  return rb_const_get_at(rb_const_get(rb_cObject, timeout), error);
}

/* @!method timeout_after(duration, exception = Timeout::Error, message = "execution expired")
 * Yields `duration`. Raises `exception` in the block if it waits after `duration` seconds.
 * Returns the block's value. Creates no object before the time is over. */
static VALUE sched_timeout_after(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 3);
  rb_need_block();
  ab_loop *loop = ab__loop_get(self);
  bool forked = ab__loop_forked(loop);
  if (!forked) ab__loop_check(loop);
  ab_nsec duration;
  if (!ab__timeout_of(argv[0], &duration)) return rb_yield(argv[0]);
  timed_block block = {.loop = loop, .duration = argv[0]};
  ab_timeout *timeout = &block.timeout;
  /* The loop raises through the wait of this fiber or of one that it resumed. */
  timeout->fiber = rb_fiber_current();
  timeout->exception = argc > 1 && !NIL_P(argv[1]) ? argv[1] : default_exception();
  timeout->message = argc > 2 ? argv[2] : Qnil;
  if (AB_UNLIKELY(forked))
    return ab__in_forked_child("timeout_after", 3,
                               (VALUE[]){argv[0], timeout->exception, timeout->message});
  ab_heap_node_init(&timeout->timer);
  if (ab_heap_arm(&loop->timeouts, &timeout->timer, ab__deadline_after(duration)) != AB_OK)
    rb_memerror();
  VALUE result = rb_ensure(run_timed, (VALUE)&block, end_timed, (VALUE)&block);
  RB_GC_GUARD(self);
  return result;
}

void ab__init_sched_time(VALUE klass) {
  rb_define_method(klass, "timeout_after", sched_timeout_after, -1);
}
