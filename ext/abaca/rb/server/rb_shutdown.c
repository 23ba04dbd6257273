/* The end of a server: first requests in flight are waited for, then fibers get an exception where
 * they wait, and at last nothing is waited for any more. */
#include "rb/server/rb_server.h"

/* After a forced shutdown the fibers get this long to end. */
#define FORCE_GRACE (5 * AB_NSEC_PER_SEC)

static VALUE force_shutdown(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  VALUE message = rb_str_new_cstr("the server is shutting down");
  VALUE exception = rb_class_new_instance(1, &message, ab_error_class("Shutdown"));
  server->home.host->interrupt_all(&server->home, exception);
  return Qnil;
}

static void begin_drain(ab_server *server, ab_nsec now) {
  server->draining = true;
  server->drain_deadline = server->shutdown_timeout ? now + server->shutdown_timeout : 0;
  ab_engine_drain(server->engine);
}

void ab_shutdown_turn(ab_server *server, ab_nsec now) {
  if (AB_LIKELY(!server->stop_requested && !server->halt_requested)) return;
  if (!server->draining) begin_drain(server, now);
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  bool served = stats.connections == 0 && stats.in_app == 0;
  /* Fibers that the app started beside its requests hold a stop up only for a while. */
  if (served && !server->forced &&
      (!server->drain_deadline || server->drain_deadline > now + FORCE_GRACE)) {
    server->drain_deadline = now + FORCE_GRACE;
  }
  bool late = server->drain_deadline && now >= server->drain_deadline;
  if (!server->forced && (late || server->halt_requested)) {
    server->forced = true;
    server->drain_deadline = now + FORCE_GRACE;
    ab_engine_abort(server->engine, true);
    ab_server_quietly(force_shutdown, (VALUE)server);
  } else if (server->forced && !server->given_up && (late || stats.in_app == 0)) {
    server->given_up = late;
    ab_engine_abort(server->engine, false);
  }
}

bool ab_shutdown_done(void *ctx) {
  ab_server *server = ctx;
  if (!server->draining) return false;
  ab_engine_stats stats = ab_engine_get_stats(server->engine);
  return stats.connections == 0 && (stats.in_app == 0 || server->given_up);
}

/* Fibers that would not end even by an exception do not keep the server. */
bool ab_shutdown_given_up(void *ctx) {
  return ((ab_server *)ctx)->given_up && ab_shutdown_done(ctx);
}

/* --- methods --- */

static VALUE request_end(VALUE self, volatile sig_atomic_t *flag) {
  ab_server *server = ab_server_of(self);
  *flag = 1;
  if (server->running) ab_poller_wakeup(server->poller);
  return Qnil;
}

/* call-seq: stop -> nil
 *
 * Graceful; any thread and any trap handler may call it. */
static VALUE server_stop(VALUE self) {
  return request_end(self, &ab_server_of(self)->stop_requested);
}

/* call-seq: halt -> nil
 *
 * Forced; any thread and any trap handler may call it. */
static VALUE server_halt(VALUE self) {
  return request_end(self, &ab_server_of(self)->halt_requested);
}

void ab_init_shutdown(VALUE cEngine) {
  rb_define_method(cEngine, "stop", server_stop, 0);
  rb_define_method(cEngine, "halt", server_halt, 0);
}
