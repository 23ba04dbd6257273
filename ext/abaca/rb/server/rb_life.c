/* Engine#run, #run_spare, #run_on_threads, #run_as_guest and #end_out_of_band: one life of the
 * server. */
#include "rb/server/rb_server.h"

#include "rb/rack/rb_borrow.h"
#include "rb/run/rb_clock.h"
#include "rb/run/rb_guest.h"
#include "rb/run/rb_out_of_band.h"
#include "rb/run/rb_thread_pool.h"
#include "rb/run/rb_spare.h"
#include "rb/run/rb_stalls.h"
#include "rb/run/rb_turn.h"
#include "rb/scheduler/rb_scheduler.h"
#include "rb/server/rb_shutdown.h"

/* --- the client of the loop --- */

static bool server_turn(void *ctx, ab_nsec now) {
  ab_run *run = &((ab_server *)ctx)->run;
  ab_spares_raise(run);
  ab_turn_leads(&run->main);
  bool more = ab_turn_run(&run->main, now);
  if (run->threads) ab_thread_pool_raise(run->threads);
  return more;
}

static ab_nsec server_deadline(void *ctx) {
  return ab_turn_deadline(&((ab_server *)ctx)->run);
}

/* Others may have turned the engine while the main loop waited for the GVL. */
static void server_woken(void *ctx) {
  ab_turn_leads(&((ab_server *)ctx)->run.main);
}

static void server_rests(void *ctx) {
  ab_run *run = &((ab_server *)ctx)->run;
  ab_gate_rest(&run->rack.lead.gate, &run->main.runner.participant.contender);
}

static bool server_contended(void *ctx) {
  return ab_spares_contended(&((ab_server *)ctx)->run.main);
}

static ab_nsec server_lost(void *ctx) {
  return ab_turn_lost(&((ab_server *)ctx)->run.main);
}

static bool server_shares(void *ctx) {
  const ab_run *run = &((ab_server *)ctx)->run;
  return run->threads && ab_thread_pool_works(run->threads);
}

static const ab_loop_client server_client = {
    .turn = server_turn,
    .deadline = server_deadline,
    .done = ab_shutdown_done,
    .given_up = ab_shutdown_given_up,
    .rests = server_rests,
    .woken = server_woken,
    .contended = server_contended,
    .lost = server_lost,
    .shares = server_shares,
};

/* --- a run --- */

static VALUE run_loop_on(VALUE arg) {
  ab_loop_run(((ab_server *)arg)->run.main.loop);
  return Qnil;
}

static VALUE run_loop(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->run.threads) ab_thread_pool_begin(server->run.threads);
  ab_stalls_begin(&server->run);
  ab_stray_guard(&server->run, run_loop_on, (VALUE)server);
  server->ended = true;
  return Qnil;
}

static void begin_run(ab_server *server, const ab_executor *executor, ab_poller *poller) {
  ab_rack *rack = &server->run.rack;
  ab_runner *main = rack->main;
  ab_nsec now = ab_clock_monotonic();
  ab_server_check_slot(server);
  int error = ab_engine_attach(rack->engine, poller, now);
  if (error == AB_ENOMEM) rb_memerror();
  if (error) rb_sys_fail("cannot watch the listeners");
  if (!rack->fork_guard) rack->fork_guard = ab_fork_page_init();
  rack->owner = getpid();
  rack->poller = poller;
  main->executor = executor;
  main->thread = rb_thread_current();
  ab_server_enter_slot(server);
  ab_shutdown_begin(server, now);
  while (!ab_lead_take(&rack->lead, &main->participant)) continue;
  server->running = true;
}

static void end_run(ab_server *server) {
  ab_rack *rack = &server->run.rack;
  server->running = false;
  rack->poller = NULL;
  if (ab_rack_forked(rack)) {
    ab_engine_abandon(rack->engine); /* it is unknown what the standby was doing with it */
    return;
  }
  ab_shutdown_break_off(server);
  ab_engine_detach(rack->engine);
  ab_server_leave_slot(server);
  ab_borrow_reap(rack);
}

/* Did the run end by itself, with nothing left behind? */
static bool in_order(const ab_server *server) {
  return server->ended && !server->run.ending.given_up;
}

static void end_threads(const ab_server *server) {
  if (server->run.threads) ab_thread_pool_end(server->run.threads, in_order(server));
}

static void check_not_running(const ab_server *server) {
  if (server->running) rb_raise(rb_eRuntimeError, "the engine is running");
}

static VALUE run_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (!server->ended) ab_shutdown_hasten(server, run_loop_on);
  end_threads(server);
  ab_run *run = &server->run;
  ab_loop *loop = run->main.loop;
  int state = ab_spares_end(run, !in_order(server));
  ab_loop_detach(loop);
  ab_histogram_join(&run->lag, ab_loop_lag(loop));
  ab_native_end(&run->main);
  ab_stalls_end(run);
  end_run(server);
  if (run->ending.given_up) ab__loop_close(loop); /* nothing waits for its fibers */
  if (state) rb_jump_tag(state);
  return Qnil;
}

/* call-seq: run(scheduler, pool) -> nil
 *
 * Serves on the calling thread, whose scheduler must be `scheduler`, until the engine stops. */
static VALUE server_run(VALUE self, VALUE scheduler, VALUE pool) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  ab_driver *main = &server->run.main;
  main->loop = ab_loop_of(scheduler);
  main->pool = ab_pool_of(pool);
  begin_run(server, &ab_executor_native, ab_loop_poller(main->loop));
  ab_loop_attach(main->loop, &server_client, server);
  ab_native_begin(main);
  rb_ensure(run_loop, self, run_ended, self);
  RB_GC_GUARD(scheduler);
  RB_GC_GUARD(pool);
  return Qnil;
}

/* call-seq: run_spare(scheduler, pool) -> nil
 *
 * Serves on the calling thread, whose scheduler must be `scheduler`, while a fiber keeps the thread
 * of #run, which raises what concerns the process. Returns when the engine stops. */
static VALUE server_run_spare(VALUE self, VALUE scheduler, VALUE pool) {
  ab_spares_run(&ab_server_own(self)->run, scheduler, pool);
  RB_GC_GUARD(scheduler);
  RB_GC_GUARD(pool);
  return Qnil;
}

static VALUE run_threads(VALUE self) {
  ab_run *run = &ab_server_of(self)->run;
  ab_stalls_begin_on_threads(run);
  ab_thread_pool_run(run->threads);
  return Qnil;
}

static VALUE threads_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  ab_poller *poller = server->run.rack.poller;
  ab_stalls_end(&server->run);
  end_run(server);
  ab_poller_fini(poller);
  return Qnil;
}

/* call-seq: run_on_threads -> nil
 *
 * Serves on the engine's threads until it is stopped, and keeps watch. Raises what a request raised
 * for the process (SystemExit, SignalException, NoMemoryError), SystemCallError, ThreadError. */
static VALUE server_run_on_threads(VALUE self) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  if (!poller) rb_sys_fail("cannot make a poller");
  begin_run(server, &ab_executor_thread, poller);
  rb_ensure(run_threads, self, threads_ended, self);
  return Qnil;
}

static VALUE run_guest_on(VALUE arg) {
  ab_server *server = (ab_server *)arg;
  ab_guest_run(server->run.guest, &server_client, server);
  return Qnil;
}

static VALUE run_guest(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->run.threads) ab_thread_pool_begin(server->run.threads);
  ab_stray_guard(&server->run, run_guest_on, (VALUE)server);
  server->ended = true;
  return Qnil;
}

static VALUE guest_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
  ab_clock_detach(&server->run.main);
  if (!server->ended) ab_shutdown_hasten(server, run_guest_on);
  end_threads(server);
  end_run(server);
  ab_guest_end(server->run.guest);
  return Qnil;
}

/* call-seq: run_as_guest(scheduler, max_fibers) -> true or false
 *
 * Serves on fibers of the calling thread's Fiber::Scheduler until the engine is stopped. Occupies
 * the calling fiber, one of the scheduler's. Returns false when fibers of the app may still end by
 * themselves, true when their time is over. Raises what a request raised for the process. */
static VALUE server_run_as_guest(VALUE self, VALUE scheduler, VALUE max_fibers) {
  ab_server *server = ab_server_own(self);
  check_not_running(server);
  ab_run *run = &server->run;
  if (run->guest) rb_raise(rb_eRuntimeError, "the engine was a guest before");
  run->guest = ab_guest_init(run, scheduler, NUM2SIZET(max_fibers));
  begin_run(server, &ab_executor_guest, ab_guest_poller(run->guest));
  rb_ensure(run_guest, self, guest_ended, self);
  return run->ending.forced ? Qtrue : Qfalse;
}

/* call-seq: end_out_of_band -> nil
 *
 * What `out_of_band` has begun is over: requests are taken again. Any thread may call it. */
static VALUE server_end_out_of_band(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  if (server) ab_out_of_band_end(&server->run);
  return Qnil;
}

void ab_init_life(VALUE cEngine) {
  rb_define_method(cEngine, "run", server_run, 2);
  rb_define_method(cEngine, "run_spare", server_run_spare, 2);
  rb_define_method(cEngine, "run_on_threads", server_run_on_threads, 0);
  rb_define_method(cEngine, "run_as_guest", server_run_as_guest, 2);
  rb_define_method(cEngine, "end_out_of_band", server_end_out_of_band, 0);
}
