/* Engine#run, #run_on_threads and #run_as_guest: one life of the server, from its engine on a
 * poller to the engine off it, as a client of a scheduler's loop or on threads alone. */
#include "rb/server/rb_server.h"

#include "rb/server/rb_gang.h"
#include "rb/server/rb_guest.h"
#include "rb/server/rb_helm_watch.h"
#include "rb/server/rb_hybrid.h"
#include "rb/server/rb_spare.h"
#include "rb/scheduler/rb_scheduler.h"

/* --- the client of the loop --- */

/* Raises what a thread's request has raised for the process. */
static void raise_forwarded(ab_server *server) {
  VALUE exception = ab_gang_forwarded(server->gang);
  if (!NIL_P(exception)) ab_stray_end_run(server, exception);
}

static bool server_turn(void *ctx, ab_nsec now) {
  ab_server *server = ctx;
  ab_crew_raise(server);
  ab_server_leads(&server->home);
  bool more = ab_server_turn(&server->home, now);
  if (server->gang) raise_forwarded(server);
  return more;
}

/* Others may have turned the engine while home waited for the GVL. */
static void server_woken(void *ctx) {
  ab_server_leads(&((ab_server *)ctx)->home);
}

static bool server_contended(void *ctx) {
  return ab_hybrid_contended(&((ab_server *)ctx)->home);
}

static bool server_shares(void *ctx) {
  const ab_server *server = ctx;
  return server->gang && ab_gang_works(server->gang);
}

static const ab_loop_client server_client = {
    .turn = server_turn,
    .deadline = ab_server_deadline,
    .done = ab_shutdown_done,
    .given_up = ab_shutdown_given_up,
    .woken = server_woken,
    .contended = server_contended,
    .shares = server_shares,
};

/* --- a run --- */

static VALUE run_loop_on(VALUE arg) {
  ab_loop_run(((ab_server *)arg)->home.loop);
  return Qnil;
}

static VALUE run_loop(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->gang) ab_gang_begin(server->gang);
  ab_stalls_begin(server);
  ab_stray_guard(server, run_loop_on, (VALUE)server);
  server->ended = true;
  return Qnil;
}

/* From here on the server is `host`'s, with its engine on the poller. */
static void begin_run(ab_server *server, const ab_host *host, ab_poller *poller) {
  ab_nsec now = ab_clock_monotonic();
  int error = ab_engine_attach(server->engine, poller, now);
  if (error == AB_ENOMEM) rb_memerror();
  if (error) rb_sys_fail("cannot watch the listeners");
  if (!server->fork_guard) server->fork_guard = ab_fork_page_init();
  server->owner = getpid();
  server->home.host = host;
  server->poller = poller;
  server->home.thread = rb_thread_current();
  ab_shutdown_begin(server, now);
  while (!ab_lead_take(&server->lead, &server->home.seat)) continue;
  server->running = true;
}

static void end_run(ab_server *server) {
  server->running = false;
  server->poller = NULL;
  if (ab_server_forked(server)) {
    ab_engine_abandon(server->engine); /* nobody knows what the standby was doing with it */
    return;
  }
  ab_shutdown_break_off(server);
  ab_engine_detach(server->engine);
  ab_server_take_released(server);
}

static void end_gang(ab_server *server) {
  if (server->gang) ab_gang_end(server->gang, server->ended && !server->given_up);
}

static void check_not_running(const ab_server *server) {
  if (server->running) rb_raise(rb_eRuntimeError, "the engine is running");
}

static VALUE run_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (!server->ended) ab_shutdown_hasten(server, run_loop_on);
  end_gang(server);
  int state = ab_crew_end(server, !server->ended || server->given_up);
  ab_loop_detach(server->home.loop);
  ab_histogram_join(&server->lag, ab_loop_lag(server->home.loop));
  ab_native_end(&server->home);
  ab_stalls_end(server);
  end_run(server);
  if (server->given_up) ab__loop_close(server->home.loop); /* nobody waits for its fibers */
  if (state) rb_jump_tag(state);
  return Qnil;
}

/* call-seq: run(scheduler, pool) -> nil
 *
 * Serves on the calling thread, whose scheduler must be `scheduler`, until the engine is stopped.
 */
static VALUE server_run(VALUE self, VALUE scheduler, VALUE pool) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  server->home.loop = ab_loop_of(scheduler);
  server->home.pool = ab_pool_of(pool);
  begin_run(server, &ab_host_native, ab_loop_poller(server->home.loop));
  ab_loop_attach(server->home.loop, &server_client, server);
  ab_native_begin(&server->home);
  rb_ensure(run_loop, self, run_ended, self);
  RB_GC_GUARD(scheduler);
  RB_GC_GUARD(pool);
  return Qnil;
}

static VALUE run_threads(VALUE self) {
  ab_server *server = ab_server_of(self);
  ab_stalls_begin_on_threads(server);
  ab_helm_watch_run(server->gang);
  return Qnil;
}

static VALUE threads_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  ab_poller *poller = server->poller;
  ab_stalls_end(server);
  end_run(server);
  ab_poller_fini(poller);
  return Qnil;
}

/* call-seq: run_on_threads -> nil
 *
 * Serves on the threads that it was made with, until the engine is stopped. The calling one keeps
 * watch. Raises what a request raised for the process (SystemExit, SignalException, NoMemoryError),
 * SystemCallError, ThreadError. */
static VALUE server_run_on_threads(VALUE self) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  if (!poller) rb_sys_fail("cannot make a poller");
  begin_run(server, &ab_host_thread, poller);
  rb_ensure(run_threads, self, threads_ended, self);
  return Qnil;
}

static VALUE run_guest_on(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  ab_guest_run(server->guest, &server_client, server);
  return Qnil;
}

static VALUE run_guest(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->gang) ab_gang_begin(server->gang);
  ab_stray_guard(server, run_guest_on, (VALUE)server);
  server->ended = true;
  return Qnil;
}

static VALUE guest_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (!server->ended) ab_shutdown_hasten(server, run_guest_on);
  end_gang(server);
  end_run(server);
  ab_guest_end(server->guest);
  return Qnil;
}

/* call-seq: run_as_guest(scheduler, max_fibers) -> true or false
 *
 * Serves on fibers of any Fiber::Scheduler, which must be the calling thread's, until the engine is
 * stopped. It occupies the calling fiber, which must be one of the scheduler's. Returns false when
 * fibers of the app may still end by themselves, true when their time is over. Raises what a
 * request's fiber raised for the process (SystemExit, SignalException, NoMemoryError). */
static VALUE server_run_as_guest(VALUE self, VALUE scheduler, VALUE max_fibers) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  if (server->guest) rb_raise(rb_eRuntimeError, "the engine was a guest before");
  server->guest = ab_guest_init(self, server, scheduler, NUM2SIZET(max_fibers));
  begin_run(server, &ab_host_guest, ab_guest_poller(server->guest));
  rb_ensure(run_guest, self, guest_ended, self);
  return server->forced ? Qtrue : Qfalse;
}

void ab_init_run(VALUE cEngine) {
  rb_define_method(cEngine, "run", server_run, 2);
  rb_define_method(cEngine, "run_on_threads", server_run_on_threads, 0);
  rb_define_method(cEngine, "run_as_guest", server_run_as_guest, 2);
}
