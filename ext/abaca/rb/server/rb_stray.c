/* Exceptions of others: somebody's Thread#raise in a thread of the server's, by who does not know
 * that it serves many requests (a watchdog, a Timeout of another thread's). Ruby raises them in
 * whatever the thread does next. In a fiber or a thread with a request that is the app's error like
 * any other. Everywhere else it is meant for nobody who is here, and comes out of whatever turned
 * the engine: then it is logged, and the engine goes on being turned.
 *
 * What the server itself raises to end its run passes, and so does what concerns the process.
 */
#include "rb/server/rb_server.h"

/* An error of our own that came back with every turn would look the same: more than this in a
 * second is none of somebody else's, and ends the run. */
#define MOST_STRAYS 1000

static VALUE write_stray(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcall(argv[0], rb_intern("stray"), 1, argv[1]);
}

static bool too_many(ab_server *server) {
  ab_nsec now = ab_clock_monotonic();
  if (now - server->strays_since > AB_NSEC_PER_SEC) {
    server->strays_since = now;
    server->strays = 0;
  }
  return ++server->strays > MOST_STRAYS;
}

static bool is_stray(ab_server *server, VALUE exception) {
  if (!RTEST(rb_obj_is_kind_of(exception, rb_eException)) || ab_server_is_fatal(exception))
    return false;
  if (RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError))) return false; /* ours, most likely */
  return !server->condemned && !ab_server_forked(server) && !too_many(server);
}

void ab_stray_end_run(ab_server *server, VALUE exception) {
  server->condemned = true;
  rb_exc_raise(exception);
}

static VALUE check_ints(VALUE unused) {
  (void)unused;
  rb_thread_check_ints();
  return Qnil;
}

/* Calls fn; returns false when a stray came out of it. */
static bool guarded(ab_server *server, VALUE (*fn)(VALUE), VALUE arg) {
  int state = 0;
  rb_protect(fn, arg, &state);
  if (AB_LIKELY(!state)) return true;
  VALUE argv[] = {server->log, rb_errinfo()};
  if (!is_stray(server, argv[1])) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  ab_server_quietly(write_stray, (VALUE)argv);
  RB_GC_GUARD(argv[1]);
  return false;
}

void ab_stray_guard(ab_server *server, VALUE (*fn)(VALUE), VALUE arg) {
  bool done;
  do {
    done = guarded(server, fn, arg);
    /* Those that came at the same time: Ruby raises one, and the others at some later point. */
    while (!guarded(server, check_ints, Qnil)) continue;
  } while (!done);
}
