/* The end of a server, in stages, any of which may be the last. It begins when it is asked for, or
 * after idle_timeout without a request; `halt` goes to `forced` at once.
 *
 * retired   not ready any more, says the health path; all else goes on for shutdown_delay; skipped
 *           if another process continues with the listeners
 * draining  nothing new is accepted; requests in flight and connections that the app has taken over
 *           are waited for, for shutdown_timeout
 * forced    fibers get an exception where they wait; what has not come to the app yet gets a 503;
 *           connections that the app has taken over are shut down
 * given up  what runs all the same is not waited for any more */
#include "rb/server/rb_shutdown.h"

#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/run/rb_spare.h"

/* When the app is done, what was said last gets this long to reach its client. */
#define LAST_WORDS AB_NSEC_PER_SEC

static ab_shutdown *shutdown_of(const ab_run *run) {
  return &AB_CONTAINER_OF(run, ab_server, run)->shutdown;
}

static VALUE interrupt_others(VALUE run) {
  ab_spares_interrupt_others((ab_run *)run, ab_cancel_shutdown());
  return Qnil;
}

static void note_all(ab_rack *rack, unsigned news) {
  ab_list_each (node, next, &rack->calls) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (!call->over) ab_cancel_note(call, news);
  }
}

static ab_nsec shorter(ab_nsec a, ab_nsec b) {
  return a < b ? a : b;
}

static void retire(ab_run *run, ab_nsec now) {
  ab_shutdown *shutdown = shutdown_of(run);
  run->ending.retired = true;
  ab_server_say(AB_CONTAINER_OF(run, ab_server, run), AB_PAGE_DRAINING);
  shutdown->stage_end = now;
  if (shutdown->handed_over) return;
  ab_nsec silent = ab_engine_retire(run->rack.engine);
  if (shutdown->timeout) silent = shorter(silent, shutdown->timeout);
  shutdown->stage_end = now + (silent > shutdown->delay ? silent : shutdown->delay);
}

static void drain(ab_run *run, ab_nsec now) {
  ab_shutdown *shutdown = shutdown_of(run);
  /* Relaxed, as the next: the standby asks without Ruby's lock. Partner: wanted, in rb_stalls.c. */
  __atomic_store_n(&run->rack.draining, true, __ATOMIC_RELAXED);
  shutdown->stage_end = shutdown->timeout ? now + shutdown->timeout : 0;
  ab_engine_drain(run->rack.engine, now);
  note_all(&run->rack, AB_NEWS_CLOSING);
}

static VALUE report_forced(VALUE arg) {
  const ab_rack *rack = (const ab_rack *)arg;
  ab_figures stats = ab_engine_get_stats(rack->engine);
  uint32_t waiting = stats.waiting + stats.bodies.coming;
  if (stats.in_app == 0 && waiting == 0 && stats.taken_over == 0) return Qnil;
  return rb_funcall(rack->log, rb_intern("broken_off"), 3, UINT2NUM(stats.in_app),
                    UINT2NUM(waiting), UINT2NUM(stats.taken_over));
}

static void force(ab_driver *driver, ab_nsec now) {
  ab_run *run = driver->run;
  ab_rack *rack = &run->rack;
  ab_pulse_leave(&driver->runner.participant.pulse);
  ab_quietly(report_forced, (VALUE)rack);
  __atomic_store_n(&run->ending.forced, true, __ATOMIC_RELAXED);
  shutdown_of(run)->stage_end = now + AB_CANCEL_GRACE;
  ab_engine_refuse(rack->engine, now);
  note_all(rack, AB_NEWS_SHUTDOWN);
  ab_cancel_run(rack, now);
  ab_quietly(interrupt_others, (VALUE)run);
}

static ab_call *next_to_abandon(ab_rack *rack) {
  ab_list_each (node, next, &rack->calls) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (!call->over && !call->abandoned) return call;
  }
  return NULL;
}

/* What has a complete head gets an answer, even if the app has none. */
static void abandon_all(ab_rack *rack) {
  /* The log may let other threads run: each is looked for anew. */
  for (ab_call *call; (call = next_to_abandon(rack));) {
    ab_cancel_abandon(call, 503);
  }
}

static void give_up(ab_driver *driver) {
  ab_rack *rack = &driver->run->rack;
  driver->run->ending.given_up = true;
  ab_pulse_leave(&driver->runner.participant.pulse);
  abandon_all(rack);
  ab_engine_abort(rack->engine);
}

void ab_shutdown_hasten(ab_server *server, VALUE (*run_on)(VALUE)) {
  if (ab_rack_forked(&server->run.rack)) return;
  server->run.ending.halt_requested = 1;
  /* A thread that is being killed runs no more app code. */
  int state = !ab_is_exception(rb_errinfo());
  if (!state) rb_protect(run_on, (VALUE)server, &state);
  if (state) server->run.ending.given_up = true;
}

void ab_shutdown_break_off(ab_server *server) {
  ab_engine_refuse(server->run.rack.engine, ab_clock_monotonic());
  abandon_all(&server->run.rack);
}

/* Those that the app has taken over and not closed, too. */
static uint64_t open_connections(const ab_figures *stats) {
  return (uint64_t)stats->connections + stats->taken_over;
}

/* Fibers that the app started beside its requests hold a stop up only for a while. */
static void hurry(ab_shutdown *shutdown, ab_nsec now) {
  if (!shutdown->stage_end || shutdown->stage_end > now + AB_CANCEL_GRACE) {
    shutdown->stage_end = now + AB_CANCEL_GRACE;
  }
}

static void wait_for_requests(ab_driver *driver, const ab_figures *stats, ab_nsec now) {
  ab_shutdown *shutdown = shutdown_of(driver->run);
  if (open_connections(stats) == 0 && stats->in_app == 0) hurry(shutdown, now);
  bool late = shutdown->stage_end && now >= shutdown->stage_end;
  if (late || driver->run->ending.halt_requested) force(driver, now);
}

static void wait_for_fibers(ab_driver *driver, const ab_figures *stats, ab_nsec now) {
  ab_shutdown *shutdown = shutdown_of(driver->run);
  if (now >= shutdown->stage_end) {
    give_up(driver);
  } else if (stats->in_app == 0 && !shutdown->last_words) {
    shutdown->last_words = now + LAST_WORDS;
  } else if (stats->in_app == 0 && stats->connections > 0 && now >= shutdown->last_words) {
    ab_engine_abort(driver->run->rack.engine);
  }
}

/* --- idle_timeout --- */

void ab_shutdown_begin(ab_server *server, ab_nsec now) {
  ab_shutdown *shutdown = &server->shutdown;
  shutdown->idle_look = shutdown->idle_timeout ? now + shutdown->idle_timeout : 0;
}

static bool idle_due(const ab_run *run, ab_nsec now) {
  ab_nsec look = shutdown_of(run)->idle_look;
  return look && look <= now;
}

static VALUE report_idle(VALUE arg) {
  const ab_run *run = (const ab_run *)arg;
  VALUE seconds = ab_float_seconds(shutdown_of(run)->idle_timeout);
  return rb_funcall(run->rack.log, rb_intern("idle"), 1, seconds);
}

/* Each look says when the next one can find anything: nothing is done for a request. */
static void look_whether_idle(ab_driver *driver, ab_nsec now) {
  ab_run *run = driver->run;
  ab_shutdown *shutdown = shutdown_of(run);
  ab_nsec since = ab_engine_idle_since(run->rack.engine);
  shutdown->idle_look = (since ? since : now) + shutdown->idle_timeout;
  if (!idle_due(run, now)) return;
  shutdown->idle_look = 0;
  run->ending.stop_requested = 1;
  ab_pulse_leave(&driver->runner.participant.pulse);
  ab_quietly(report_idle, (VALUE)run);
}

/* --- stages --- */

static void take_turn(ab_driver *driver, ab_nsec now) {
  ab_run *run = driver->run;
  ab_ending *ending = &run->ending;
  ab_shutdown *shutdown = shutdown_of(run);
  if (AB_UNLIKELY(idle_due(run, now))) look_whether_idle(driver, now);
  if (AB_LIKELY(!ending->stop_requested && !ending->halt_requested)) return;
  if (ending->given_up) return;
  shutdown->idle_look = 0;
  if (!ending->retired) retire(run, now);
  bool over = now >= shutdown->stage_end || ending->halt_requested;
  if (!run->rack.draining && over) drain(run, now);
  if (!run->rack.draining) return;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  if (!ending->forced) wait_for_requests(driver, &stats, now);
  if (ending->forced) wait_for_fibers(driver, &stats, now);
}

static ab_nsec next_deadline(const ab_run *run) {
  const ab_shutdown *shutdown = shutdown_of(run);
  if (!run->ending.retired && shutdown->idle_look) return shutdown->idle_look;
  bool speaks = shutdown->last_words && shutdown->last_words < shutdown->stage_end;
  bool heard = speaks && ab_engine_get_stats(run->rack.engine).connections > 0;
  return heard ? shutdown->last_words : shutdown->stage_end;
}

static bool is_done(const ab_run *run) {
  if (!run->rack.draining) return false;
  ab_figures stats = ab_engine_get_stats(run->rack.engine);
  if (open_connections(&stats) > 0) return false;
  return run->ending.given_up || (stats.in_app == 0 && ab_spares_quiet(run));
}

bool ab_shutdown_done(void *server) {
  return is_done(&((const ab_server *)server)->run);
}

/* Fibers that would not end even by an exception do not keep the server. */
bool ab_shutdown_given_up(void *server) {
  const ab_run *run = &((const ab_server *)server)->run;
  return run->ending.given_up && is_done(run);
}

const ab_run_stages ab_shutdown_stages = {
    .turn = take_turn,
    .deadline = next_deadline,
    .due = idle_due,
    .second = ab_server_second,
    .done = is_done,
};

/* --- methods --- */

static VALUE request_end(ab_server *server, _Atomic bool *flag) {
  atomic_store(flag, true);
  if (server->running) ab_rack_tell_leader(&server->run.rack);
  return Qnil;
}

/* call-seq: stop -> nil
 *
 * Graceful; any thread and any trap handler may call it. */
static VALUE server_stop(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  return server ? request_end(server, &server->run.ending.stop_requested) : Qnil;
}

/* call-seq: hand_over -> nil
 *
 * As stop, but another process continues with the listeners; any thread may call it. */
static VALUE server_hand_over(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  if (!server) return Qnil;
  ab_engine_hand_over(server->run.rack.engine);
  server->shutdown.handed_over = true;
  return request_end(server, &server->run.ending.stop_requested);
}

/* call-seq: halt -> nil
 *
 * Forced; any thread and any trap handler may call it. */
static VALUE server_halt(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  return server ? request_end(server, &server->run.ending.halt_requested) : Qnil;
}

static const struct {
  const char *name;
  enum ab_health which;
} paths[] = {{"readiness", AB_HEALTH_READY}, {"liveness", AB_HEALTH_LIVE}};

/* Beyond a human life it does not matter how long. */
#define LIFETIME 3e9

static ab_nsec shutdown_time_of(VALUE seconds) {
  if (NIL_P(seconds)) return 0;
  double number = NUM2DBL(seconds);
  return (ab_nsec)((number < LIFETIME ? number : LIFETIME) * (double)AB_NSEC_PER_SEC);
}

void ab_shutdown_configure(ab_server *server, VALUE options) {
  ab_shutdown *shutdown = &server->shutdown;
  VALUE timeout = ab_option(options, "shutdown_timeout");
  /* 0 is for ever: a timeout of 0 is one of a nanosecond. */
  shutdown->timeout = NIL_P(timeout) ? 0 : shutdown_time_of(timeout) + 1;
  shutdown->idle_timeout = shutdown_time_of(ab_option(options, "idle_timeout"));
  shutdown->delay = shutdown_time_of(ab_option(options, "shutdown_delay"));
  for (size_t i = 0; i < AB_ARRAY_LEN(paths); i++) {
    VALUE path = ab_option(options, paths[i].name);
    if (NIL_P(path)) continue;
    int error = ab_engine_set_health(server->run.rack.engine, paths[i].which, StringValuePtr(path),
                                     (size_t)RSTRING_LEN(path));
    if (error) rb_memerror();
    RB_GC_GUARD(path);
  }
}

void ab_init_shutdown(VALUE cEngine) {
  rb_define_method(cEngine, "stop", server_stop, 0);
  rb_define_method(cEngine, "hand_over", server_hand_over, 0);
  rb_define_method(cEngine, "halt", server_halt, 0);
}
