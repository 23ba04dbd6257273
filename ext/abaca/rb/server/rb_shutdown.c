/* The end of a server, in stages:
 *
 *   serving --> retired --> draining --> forced --> given up
 *
 * retired   not ready any more, says the health path; everything else goes on for shutdown_delay
 * draining  nothing new is accepted; requests in flight are waited for, for shutdown_timeout
 * forced    fibers get an exception where they wait; who has not come to the app yet gets a 503
 * given up  what runs all the same is not waited for any more
 *
 * It begins when somebody says so, or when nobody has come for idle_timeout.
 * Every stage may be the last one, and `halt` goes to the fourth at once. */
#include "rb/server/rb_spare.h"

/* When the app is done, what was said last gets this long to reach its client. */
#define LAST_WORDS AB_NSEC_PER_SEC

VALUE ab_shutdown_exception(void) {
  VALUE message = rb_str_new_cstr("the server is shutting down");
  return rb_class_new_instance(1, &message, ab_error_class("Shutdown"));
}

static VALUE interrupt_others(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  VALUE exception = ab_shutdown_exception();
  server->home.host->interrupt_others(&server->home, exception);
  ab_crew_interrupt_others(server, exception);
  return Qnil;
}

/* Tells every request. */
static void note_all(ab_server *server, unsigned news) {
  ab_list_each (node, next, &server->exchanges) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    if (!exchange->over) ab_cancel_note(exchange, news);
  }
}

static ab_nsec shorter(ab_nsec a, ab_nsec b) {
  return a < b ? a : b;
}

static void retire(ab_server *server, ab_nsec now) {
  server->retired = true;
  ab_nsec silent = ab_engine_retire(server->engine);
  if (server->shutdown_timeout) silent = shorter(silent, server->shutdown_timeout);
  server->stage_end = now + (silent > server->shutdown_delay ? silent : server->shutdown_delay);
}

static void drain(ab_server *server, ab_nsec now) {
  server->draining = true;
  server->stage_end = server->shutdown_timeout ? now + server->shutdown_timeout : 0;
  ab_engine_drain(server->engine, now);
  note_all(server, AB_NEWS_CLOSING);
}

static VALUE report_forced(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  uint32_t waiting = stats.waiting + stats.gathering;
  if (stats.in_app == 0 && waiting == 0) return Qnil;
  return rb_funcall(server->log, rb_intern("broken_off"), 2, UINT2NUM(stats.in_app),
                    UINT2NUM(waiting));
}

static void force(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_pulse_leave(&runner->seat.pulse);
  ab_server_quietly(report_forced, (VALUE)server);
  server->forced = true;
  server->stage_end = now + AB_CANCEL_GRACE;
  ab_engine_refuse(server->engine, now);
  note_all(server, AB_NEWS_SHUTDOWN);
  ab_cancel_run(server, now);
  ab_server_quietly(interrupt_others, (VALUE)server);
}

void ab_shutdown_interrupt_threads(ab_server *server, ab_nsec now) {
  ab_list_each (node, next, &server->exchanges) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    bool on_thread = exchange->runner->host->mode == AB_MODE_THREAD;
    if (on_thread && !exchange->over) ab_cancel_note(exchange, AB_NEWS_SHUTDOWN);
  }
  ab_cancel_run(server, now);
}

/* One that is still there, and was not abandoned yet. */
static ab_exchange *next_to_abandon(ab_server *server) {
  ab_list_each (node, next, &server->exchanges) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
    if (!exchange->over && !exchange->abandoned) return exchange;
  }
  return NULL;
}

/* What has a complete head gets an answer, even if the app has none. */
static void abandon_all(ab_server *server) {
  /* The log may let other threads run: each is looked for anew. */
  for (ab_exchange *exchange; (exchange = next_to_abandon(server));) {
    ab_cancel_abandon(exchange, 503);
  }
}

static void give_up(ab_runner *runner) {
  ab_server *server = runner->server;
  server->given_up = true;
  ab_pulse_leave(&runner->seat.pulse);
  abandon_all(server);
  ab_engine_abort(server->engine);
}

void ab_shutdown_hasten(ab_server *server, VALUE (*run_on)(VALUE)) {
  if (ab_server_forked(server)) return;
  server->halt_requested = 1;
  /* A thread that is being killed runs no more app code. */
  int state = !RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eException));
  if (!state) rb_protect(run_on, (VALUE)server, &state);
  if (state) server->given_up = true;
}

void ab_shutdown_break_off(ab_server *server) {
  ab_engine_refuse(server->engine, ab_clock_monotonic());
  abandon_all(server);
}

/* Fibers that the app started beside its requests hold a stop up only for a while. */
static void hurry(ab_server *server, ab_nsec now) {
  if (!server->stage_end || server->stage_end > now + AB_CANCEL_GRACE) {
    server->stage_end = now + AB_CANCEL_GRACE;
  }
}

/* While draining. */
static void wait_for_requests(ab_runner *runner, const ab_engine_stats *stats, ab_nsec now) {
  ab_server *server = runner->server;
  if (stats->connections == 0 && stats->in_app == 0) hurry(server, now);
  bool late = server->stage_end && now >= server->stage_end;
  if (late || server->halt_requested) force(runner, now);
}

/* While forced. */
static void wait_for_fibers(ab_runner *runner, const ab_engine_stats *stats, ab_nsec now) {
  ab_server *server = runner->server;
  if (now >= server->stage_end) {
    give_up(runner);
  } else if (stats->in_app == 0 && !server->last_words) {
    server->last_words = now + LAST_WORDS;
  } else if (stats->in_app == 0 && stats->connections > 0 && now >= server->last_words) {
    ab_engine_abort(server->engine);
  }
}

/* --- idle_timeout --- */

void ab_shutdown_begin(ab_server *server, ab_nsec now) {
  server->idle_look = server->idle_timeout ? now + server->idle_timeout : 0;
}

bool ab_shutdown_idle_due(const ab_server *server, ab_nsec now) {
  return server->idle_look && server->idle_look <= now;
}

static VALUE report_idle(VALUE arg) {
  const ab_server *server = (const ab_server *)arg;
  VALUE seconds = DBL2NUM((double)server->idle_timeout / (double)AB_NSEC_PER_SEC);
  return rb_funcall(server->log, rb_intern("idle"), 1, seconds);
}

/* Each look says when the next one can find anything: nothing is done for a request. */
static void look_whether_idle(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_nsec since = ab_engine_idle_since(server->engine);
  server->idle_look = (since ? since : now) + server->idle_timeout;
  if (!ab_shutdown_idle_due(server, now)) return;
  server->idle_look = 0;
  server->stop_requested = 1;
  ab_pulse_leave(&runner->seat.pulse);
  ab_server_quietly(report_idle, (VALUE)server);
}

/* --- stages --- */

void ab_shutdown_turn(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  if (AB_UNLIKELY(ab_shutdown_idle_due(server, now))) look_whether_idle(runner, now);
  if (AB_LIKELY(!server->stop_requested && !server->halt_requested)) return;
  if (server->given_up) return;
  server->idle_look = 0;
  if (!server->retired) retire(server, now);
  if (!server->draining && (now >= server->stage_end || server->halt_requested)) drain(server, now);
  if (!server->draining) return;
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  if (!server->forced) wait_for_requests(runner, &stats, now);
  if (server->forced) wait_for_fibers(runner, &stats, now);
}

ab_nsec ab_shutdown_deadline(const ab_server *server) {
  if (!server->retired && server->idle_look) return server->idle_look;
  bool speaks = server->last_words && server->last_words < server->stage_end;
  return speaks && ab_engine_get_stats(server->engine).connections > 0 ? server->last_words
                                                                       : server->stage_end;
}

bool ab_shutdown_done(void *ctx) {
  ab_server *server = ctx;
  if (!server->draining) return false;
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  if (stats.connections > 0) return false;
  return server->given_up || (stats.in_app == 0 && ab_crew_quiet(server));
}

/* Fibers that would not end even by an exception do not keep the server. */
bool ab_shutdown_given_up(void *ctx) {
  return ((ab_server *)ctx)->given_up && ab_shutdown_done(ctx);
}

/* --- methods --- */

static VALUE request_end(ab_server *server, volatile sig_atomic_t *flag) {
  *flag = 1;
  if (server->running) ab_poller_wakeup(server->poller);
  return Qnil;
}

/* call-seq: stop -> nil
 *
 * Graceful; any thread and any trap handler may call it. */
static VALUE server_stop(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  return server ? request_end(server, &server->stop_requested) : Qnil;
}

/* call-seq: halt -> nil
 *
 * Forced; any thread and any trap handler may call it. */
static VALUE server_halt(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  return server ? request_end(server, &server->halt_requested) : Qnil;
}

static const struct {
  const char *name;
  enum ab_health which;
} paths[] = {{"readiness", AB_HEALTH_READY}, {"liveness", AB_HEALTH_LIVE}};

/* Beyond a human life it does not matter how long. */
#define LIFETIME 3e9

static ab_nsec time_of(VALUE seconds) {
  if (NIL_P(seconds)) return 0;
  double number = NUM2DBL(seconds);
  return (ab_nsec)((number < LIFETIME ? number : LIFETIME) * (double)AB_NSEC_PER_SEC);
}

void ab_shutdown_init(ab_server *server, VALUE options) {
  VALUE timeout = ab_server_option(options, "shutdown_timeout");
  /* 0 is for ever: a timeout of 0 is one of a nanosecond. */
  server->shutdown_timeout = NIL_P(timeout) ? 0 : time_of(timeout) + 1;
  server->idle_timeout = time_of(ab_server_option(options, "idle_timeout"));
  server->shutdown_delay = time_of(ab_server_option(options, "shutdown_delay"));
  for (size_t i = 0; i < AB_ARRAY_LEN(paths); i++) {
    VALUE path = ab_server_option(options, paths[i].name);
    if (NIL_P(path)) continue;
    int error = ab_engine_set_health(server->engine, paths[i].which, StringValuePtr(path),
                                     (size_t)RSTRING_LEN(path));
    if (error) rb_memerror();
    RB_GC_GUARD(path);
  }
}

void ab_init_shutdown(VALUE cEngine) {
  rb_define_method(cEngine, "stop", server_stop, 0);
  rb_define_method(cEngine, "halt", server_halt, 0);
}
