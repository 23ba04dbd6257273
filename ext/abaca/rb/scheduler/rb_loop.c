/* What every file of the room uses: a loop's state and owner, time, native threads, and fibers
 * and how they end. Turns are in rb_loop_turn.c, new and close in rb_sched_life.c. */
#include "rb/scheduler/rb_scheduler.h"

#include <unistd.h>

#include "os/fork_page.h"

/* For how long a turn begins new work; the second limit applies if fibers are ready, too. */
#define BEGIN_TIME        AB_NSEC_PER_MS
#define BEGIN_TIME_BESIDE (AB_NSEC_PER_MS / 8)

ab_loop *ab__loop_or_null(VALUE scheduler) {
  return rb_typeddata_is_kind_of(scheduler, &ab__loop_type) ? RTYPEDDATA_DATA(scheduler) : NULL;
}

bool ab__loop_forked(const ab_loop *loop) {
  return ab_fork_page_forked(loop->fork_guard, loop->owner);
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

VALUE ab_loop_scheduler(const ab_loop *loop) {
  return loop->self;
}

const ab_histogram *ab_loop_lag(const ab_loop *loop) {
  return &loop->lag;
}

ab_blocking_pool *ab__loop_pool(ab_loop *loop, enum ab_pool_kind kind) {
  static const unsigned max_threads[AB_POOLS] = {[AB_POOL_NAMES] = AB_NAME_THREADS,
                                                 [AB_POOL_LOCAL_NAMES] = 1,
                                                 [AB_POOL_CHILDREN] = AB_CHILD_THREADS,
                                                 [AB_POOL_FILES] = 4};
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

/* ---- fibers ---- */

VALUE ab__fiber_error(void) {
  return rb_path2class("FiberError");
}

VALUE ab__fiber_new(rb_block_call_func_t body, VALUE data) {
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  return rb_fiber_new_storage(body, data, Qnil);
#else
  /* rb_fiber_new makes a blocking fiber on Ruby 3.1. */
  return rb_block_call(rb_path2class("Fiber"), rb_intern("new"), 0, NULL, body, data);
#endif
}

/* Ruby marks a fiber once it has switched to it, but may collect before: it creates a stack. */
void ab__fiber_run(rb_block_call_func_t body, VALUE data) {
  VALUE fiber = ab__fiber_new(body, data);
  rb_fiber_resume(fiber, 0, NULL);
  RB_GC_GUARD(fiber);
}

VALUE ab__in_forked_child(const char *hook, int argc, const VALUE *argv) {
  return rb_funcall_passing_block(rb_path2class("Abaca::Scheduler::Forked"), rb_intern(hook), argc,
                                  argv);
}

bool ab__loop_concerns_process(VALUE exception) {
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
  if (ab__loop_concerns_process(exception)) {
    loop->forward = exception;
  } else {
    rb_protect(write_report, exception, &state);
    rb_set_errinfo(Qnil);
  }
  return true;
}

void ab__loop_raise_forwarded(ab_loop *loop) {
  VALUE exception = loop->forward;
  loop->forward = Qnil;
  rb_exc_raise(exception);
}
