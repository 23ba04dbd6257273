/* Strays: exceptions that other code raises by Thread#raise in a thread of the server (a watchdog,
 * a Timeout). In a fiber or thread with a request that is the app's error like any other. Elsewhere
 * it is logged, and the engine goes on. What the server raises to end its run passes, and so does
 * what concerns the process. */
#include "rb/run/rb_run.h"

#include "rb/rack/rb_process.h"

/* More in a second are an error of our own that comes with every turn, and end the run. */
#define MOST_STRAYS 1000

static VALUE write_stray(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcall(argv[0], rb_intern("stray"), 1, argv[1]);
}

static bool too_many(ab_run *run) {
  ab_nsec now = ab_clock_monotonic();
  if (now - run->strays.since > AB_NSEC_PER_SEC) {
    run->strays.since = now;
    run->strays.count = 0;
  }
  return ++run->strays.count > MOST_STRAYS;
}

static bool is_stray(ab_run *run, VALUE exception) {
  if (!ab_is_exception(exception) || ab_is_fatal(exception)) return false;
  if (RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError))) return false; /* ours, most likely */
  return !run->strays.condemned && !ab_rack_forked(&run->rack) && !too_many(run);
}

void ab_stray_end_run(ab_run *run, VALUE exception) {
  run->strays.condemned = true;
  rb_exc_raise(exception);
}

static VALUE check_ints(VALUE unused AB_UNUSED) {
  rb_thread_check_ints();
  return Qnil;
}

/* Calls fn; returns false when a stray came out of it. */
static bool guarded(ab_run *run, VALUE (*fn)(VALUE), VALUE arg) {
  int state = 0;
  rb_protect(fn, arg, &state);
  if (AB_LIKELY(!state)) return true;
  VALUE argv[] = {run->rack.log, rb_errinfo()};
  if (!is_stray(run, argv[1])) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  ab_quietly(write_stray, (VALUE)argv);
  RB_GC_GUARD(argv[1]);
  return false;
}

void ab_stray_guard(ab_run *run, VALUE (*fn)(VALUE), VALUE arg) {
  bool done;
  do {
    done = guarded(run, fn, arg);
    /* Those that came at the same time: Ruby raises one, and the others at some later point. */
    while (!guarded(run, check_ints, Qnil)) continue;
  } while (!done);
}
