/* Jobs from Ruby, for the tests of the pool. PoolHooks::Scheduler and PoolHooks::FiberPool are the
 * classes under test; see extconf.rb.
 */
#include <ruby.h>

#include "io/timer.h"
#include "rb/scheduler/rb_loop.h"
#include "rb/pool/rb_pool.h"
#include "rb/scheduler/rb_scheduler.h"

static ab_loop *loop_of_thread(void) {
  VALUE fiber = rb_path2class("Fiber");
  return ab_loop_of(rb_funcall(fiber, rb_intern("scheduler"), 0));
}

static void call_proc(void *arg) {
  rb_proc_call((VALUE)arg, rb_ary_new());
}

/* start(pool, proc): the proc must be kept alive by the caller. */
static VALUE hook_start(VALUE self, VALUE pool, VALUE proc) {
  return ab_pool_start(ab_pool_of(pool), loop_of_thread(), call_proc, (void *)proc) ? Qtrue
                                                                                    : Qfalse;
}

static VALUE hook_available(VALUE self, VALUE pool) {
  return ab_pool_available(ab_pool_of(pool)) ? Qtrue : Qfalse;
}

static VALUE hook_busy(VALUE self, VALUE pool) {
  return SIZET2NUM(ab_pool_busy(ab_pool_of(pool)));
}

/* The further jobs are an Array of procs. */
static bool next_of_array(void *ctx, ab_job_fn *fn, void **arg) {
  VALUE proc = rb_ary_shift((VALUE)ctx);
  if (NIL_P(proc)) return false;
  *fn = call_proc;
  *arg = (void *)proc;
  return true;
}

static VALUE hook_next(VALUE self, VALUE pool, VALUE procs) {
  ab_pool_set_next(ab_pool_of(pool), NIL_P(procs) ? NULL : next_of_array, (void *)procs);
  return Qnil;
}

static void count_up(void *arg) {
  ++*(long *)arg;
}

static VALUE nanoseconds_each(ab_nsec start, long number, long count) {
  ab_nsec end = ab_clock_monotonic();
  if (count != number) rb_raise(rb_eRuntimeError, "%ld of %ld jobs ran", count, number);
  return DBL2NUM((double)(end - start) / (double)number);
}

/* Nanoseconds for a job that does nothing, over n of them. */
static VALUE hook_measure(VALUE self, VALUE pool, VALUE number) {
  ab_pool *p = ab_pool_of(pool);
  ab_loop *loop = loop_of_thread();
  long n = NUM2LONG(number), count = 0;
  ab_nsec start = ab_clock_monotonic();
  for (long i = 0; i < n; i++) ab_pool_start(p, loop, count_up, &count);
  return nanoseconds_each(start, n, count);
}

static VALUE body(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  count_up((void *)data);
  return Qnil;
}

/* The same with a new fiber for each. */
static VALUE hook_measure_fresh(VALUE self, VALUE number) {
  long n = NUM2LONG(number), count = 0;
  ab_nsec start = ab_clock_monotonic();
  for (long i = 0; i < n; i++) rb_fiber_resume(ab__fiber_new(body, (VALUE)&count), 0, NULL);
  return nanoseconds_each(start, n, count);
}

RUBY_FUNC_EXPORTED void Init_pool_hooks(void);

void Init_pool_hooks(void) {
  VALUE module = rb_define_module("PoolHooks");
  ab_init_scheduler(module);
  ab_init_fiber_pool(module);
  rb_define_module_function(module, "start", hook_start, 2);
  rb_define_module_function(module, "available?", hook_available, 1);
  rb_define_module_function(module, "busy", hook_busy, 1);
  rb_define_module_function(module, "next_jobs", hook_next, 2);
  rb_define_module_function(module, "measure", hook_measure, 2);
  rb_define_module_function(module, "measure_fresh", hook_measure_fresh, 1);
}
