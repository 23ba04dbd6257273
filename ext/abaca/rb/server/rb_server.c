/* Abaca::Engine: the HTTP engine as a client of a scheduler's loop. It takes the engine's events
 * and starts a fiber for each request, which rb_serve.c serves. */
#include "rb/server/rb_server.h"

#include <string.h>

#include "rb/server/rb_gang.h"
#include "rb/server/rb_guest.h"
#include "rb/server/rb_helm_watch.h"
#include "rb/server/rb_hybrid.h"
#include "rb/server/rb_proxies.h"
#include "rb/server/rb_spare.h"
#include "rb/scheduler/rb_scheduler.h"

#define SCRATCH_SIZE 8192

/* --- the object --- */

/* As on a stack: every word that may be an object. */
static void mark_kept(const ab_server *server) {
  for (const ab_list *node = server->kept.next; node != &server->kept; node = node->next) {
    const ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, kept_link);
    const VALUE *words = (const VALUE *)(const void *)exchange;
    rb_gc_mark_locations(words, words + sizeof(*exchange) / sizeof(VALUE));
  }
}

static void server_mark(void *ptr) {
  ab_server *server = ptr;
  ab_env_mark(&server->env);
  if (server->guest) ab_guest_mark(server->guest);
  if (server->gang) ab_gang_mark(server->gang);
  rb_gc_mark(server->app);
  rb_gc_mark(server->log);
  rb_gc_mark(server->exchange_class);
  rb_gc_mark(server->hints_class);
  rb_gc_mark(server->home.thread);
  rb_gc_mark(server->stalls.records);
  rb_gc_mark(server->stalls.reporter);
  ab_crew_mark(&server->crew);
  rb_gc_mark(server->input_class);
  rb_gc_mark(server->rewindable_class);
  mark_kept(server);
  ab_list_each (node, next, &server->borrowed) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_borrow, link)->object);
  }
}

/* A server that runs is freed only when the process exits: objects are freed in any order then, the
 * scheduler perhaps first. In a forked child, where nobody knows what the standby was doing when it
 * was forked, the engine is left as it is. */
static void free_engine(ab_server *server) {
  if (server->owner && ab_server_forked(server)) return;
  if (server->running) {
    if (server->standby) ab_standby_stop(server->standby);
    ab_engine_abandon(server->engine);
  }
  ab_lead_fini(&server->lead);
  ab_engine_fini(server->engine);
}

static void server_free(void *ptr) {
  ab_server *server = ptr;
  if (server->engine) free_engine(server);
  server->engine = NULL;
  ab_crew_fini(&server->crew);
  for (ab_borrow *borrow = server->released; borrow; borrow = borrow->next) {
    if (borrow->fd >= 0) ab_fd_close(borrow->fd);
  }
  ab_list_each (node, next, &server->borrowed) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, ab_borrow, link));
  }
  /* Those of fibers that were given up stay: handles that the app has may point to them. */
  for (ab_list *node; (node = ab_list_shift(&server->spare_kept));) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, ab_exchange, kept_link));
  }
  while (server->spare) {
    ab_borrow *next = server->spare->next;
    ab_free(&ab_mem_libc, server->spare);
    server->spare = next;
  }
  ab_env_fini(&server->env);
  ab_guest_fini(server->guest);
  ab_gang_fini(server->gang);
  ab_ledger_fini(server->ledger);
  ab_routes_fini(&server->routes);
  ab_fork_page_fini(server->fork_guard);
  ab_free(&ab_mem_libc, server->home.scratch);
  xfree(server);
}

static size_t server_size(const void *ptr) {
  const ab_server *server = ptr;
  return sizeof(*server) + server->home.scratch_capacity + AB_NAME_SLOTS * sizeof(ab_name_entry);
}

static const rb_data_type_t server_type = {
    "Abaca::Engine", {server_mark, server_free, server_size, NULL, {0}}, NULL, NULL, 0};

static VALUE server_alloc(VALUE klass) {
  ab_server *server;
  VALUE self = TypedData_Make_Struct(klass, ab_server, &server_type, server);
  server->self = self;
  ab_list_init(&server->borrowed);
  ab_list_init(&server->cancels);
  ab_list_init(&server->attended);
  ab_list_init(&server->exchanges);
  ab_list_init(&server->kept);
  ab_list_init(&server->spare_kept);
  server->app = server->log = server->home.thread = Qnil;
  server->home.server = server;
  ab_seat_init(&server->home.seat);
  server->stalls.records = server->stalls.reporter = Qnil;
  ab_crew_init(&server->crew);
  server->exchange_class = server->hints_class = Qnil;
  server->input_class = server->rewindable_class = Qnil;
  return self;
}

ab_server *ab_server_of(VALUE self) {
  ab_server *server = rb_check_typeddata(self, &server_type);
  if (!server->engine) rb_raise(rb_eRuntimeError, "the engine has not been initialized");
  return server;
}

/* --- options --- */

VALUE ab_server_option(VALUE options, const char *name) {
  return rb_hash_aref(options, ID2SYM(rb_intern(name)));
}

static int set_limit(VALUE name, VALUE value, VALUE arg) {
  ab_limits *limits = (ab_limits *)arg;
  const char *wanted = rb_id2name(SYM2ID(name));
  const struct {
    const char *name;
    uint64_t *value;
  } table[] = {
#define AB_LIMIT_ENTRY(name, value, unit, text) {#name, &limits->name},
      AB_LIMITS(AB_LIMIT_ENTRY)
#undef AB_LIMIT_ENTRY
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    if (strcmp(table[i].name, wanted) != 0) continue;
    *table[i].value = NUM2ULL(value);
    return ST_CONTINUE;
  }
  rb_raise(rb_eArgError, "no limit is named %s", wanted);
}

void ab_server_set_limits(ab_limits *limits, VALUE given) {
  if (!NIL_P(given)) rb_hash_foreach(given, set_limit, (VALUE)limits);
}

static void set_if_given(VALUE hash, const char *key, VALUE value) {
  if (!NIL_P(value)) rb_hash_aset(hash, rb_str_new_cstr(key), value);
}

/* The part of the env that no request changes (Rack SPEC). */
static VALUE env_template(VALUE options) {
  VALUE env = rb_hash_new();
  VALUE script_name = ab_server_option(options, "script_name");
  VALUE version = rb_const_get(rb_path2class("Abaca"), rb_intern("VERSION"));
  VALUE version_1_3 = rb_ary_new_from_args(2, INT2FIX(1), INT2FIX(3));
  set_if_given(env, "SCRIPT_NAME", NIL_P(script_name) ? rb_str_new_cstr("") : script_name);
  set_if_given(env, "SERVER_SOFTWARE", rb_sprintf("Abaca/%" PRIsVALUE, version));
  set_if_given(env, "GATEWAY_INTERFACE", rb_str_new_cstr("CGI/1.2"));
  set_if_given(env, "rack.version", rb_obj_freeze(version_1_3));
  set_if_given(env, "rack.errors", ab_server_option(options, "errors"));
  if (RTEST(ab_server_option(options, "null_input"))) {
    set_if_given(env, "rack.input",
                 rb_const_get(rb_path2class("Abaca::NullInput"), rb_intern("INSTANCE")));
  }
  set_if_given(env, "rack.hijack?", Qtrue);
  set_if_given(env, "rack.url_scheme", ab_server_option(options, "url_scheme"));
  set_if_given(env, "rack.multithread", Qtrue);
  set_if_given(env, "rack.multiprocess",
               RTEST(ab_server_option(options, "multiprocess")) ? Qtrue : Qfalse);
  set_if_given(env, "rack.run_once", Qfalse);
  set_if_given(env, "abaca.outbox", rb_path2class("Abaca::Outbox"));
  set_if_given(env, "abaca.mode", ab_server_option(options, "mode"));
  return env;
}

/* Pairs of a pattern of paths and seconds. */
static void set_path_times(ab_server *server, VALUE pairs) {
  if (NIL_P(pairs)) return;
  Check_Type(pairs, T_ARRAY);
  long count = RARRAY_LEN(pairs);
  VALUE memory;
  ab_path_rule *rules = ALLOCV_N(ab_path_rule, memory, count);
  for (long i = 0; i < count; i++) {
    VALUE pair = rb_ary_entry(pairs, i), pattern = rb_ary_entry(pair, 0);
    Check_Type(pattern, T_STRING);
    rules[i] = (ab_path_rule){{RSTRING_PTR(pattern), (size_t)RSTRING_LEN(pattern)},
                              NUM2ULL(rb_ary_entry(pair, 1))};
  }
  int error = ab_engine_set_path_times(server->engine, rules, (size_t)count);
  ALLOCV_END(memory);
  RB_GC_GUARD(pairs);
  if (error) rb_memerror();
}

/* What options say about threads; without them no request runs on one. */
static void init_gang(ab_server *server, VALUE options) {
  VALUE threads = ab_server_option(options, "threads");
  if (NIL_P(threads)) return;
  Check_Type(threads, T_ARRAY);
  ab_gang_options gang = {
      .min = NUM2UINT(rb_ary_entry(threads, 0)),
      .max = NUM2UINT(rb_ary_entry(threads, 1)),
      .most = NUM2SIZET(ab_server_option(options, "max_waiting")),
      .clean = RTEST(ab_server_option(options, "clean_thread_locals")),
  };
  server->gang = ab_gang_init(server, &gang);
  ab_routes_init(&server->routes, ab_server_option(options, "routes"));
  server->mode = ab_mode_of(ab_server_option(options, "default_mode"));
  ab_hybrid_init(server, options);
  ab_server_gather_bodies(server, options);
}

static enum ab_half_close half_close_of(VALUE meaning) {
  if (meaning == ID2SYM(rb_intern("gone"))) return AB_HALF_CLOSE_GONE;
  return meaning == ID2SYM(rb_intern("answer")) ? AB_HALF_CLOSE_ANSWER : AB_HALF_CLOSE_ASK;
}

/* call-seq: new(app, options) -> Engine
 *
 * limits: Hash of the settings in LIMITS; log: an Abaca::Log; access_log: boolean; errors: the IO
 * for rack.errors; url_scheme, script_name: Strings; multiprocess: boolean; shutdown_timeout:
 * seconds or nil; shutdown_delay: seconds; readiness, liveness: paths or nil;
 * rack_release: "3.0.0"; trusted_proxies: Array of networks; rfc7239: whether their
 * field is Forwarded; client_field: the name, in lower case, of a field with the client's address,
 * or nil; remote_address: what REMOTE_ADDR always is, or nil;
 * early_hints, rewindable_input, null_input, cancel_on_disconnect: booleans; half_close: :ask,
 * :answer or :gone; max_queue: Integer or nil, which needs max_fibers; request_timeouts: Array of
 * [pattern, seconds];
 * mode: env["abaca.mode"] of requests that the leading thread runs, :fiber or :thread; threads:
 * [least, most] when requests may run on threads. Then also max_waiting, how many may wait for one;
 * clean_thread_locals, a boolean; routes, Array of [:thread, :fiber or :hybrid, pattern]; and
 * default_mode, of all other requests. With :hybrid in any of them hybrid_threshold, in seconds,
 * and hybrid_requests, the least number to judge by; and
 * max_body_memory_total, octets of bodies that are gathered for threads.
 *
 * Raises ArgumentError for an unknown limit or network, NoMemoryError. */
static VALUE server_initialize(VALUE self, VALUE app, VALUE options) {
  ab_server *server = rb_check_typeddata(self, &server_type);
  if (server->engine) rb_raise(rb_eRuntimeError, "already initialized");
  Check_Type(options, T_HASH);
  ab_limits limits = ab_limits_default();
  ab_server_set_limits(&limits, ab_server_option(options, "limits"));
  VALUE release = ab_server_option(options, "rack_release");
  long major = NIL_P(release) ? 3 : NUM2LONG(rb_Integer(rb_funcall(release, rb_intern("to_i"), 0)));

  server->app = app;
  /* A bare lambda is called without looking its `call` up. */
  server->app_is_proc = RTEST(rb_obj_is_proc(app)) && CLASS_OF(app) == rb_cProc;
  server->id_call = rb_intern("call");
  server->log = ab_server_option(options, "log");
  server->exchange_class = ab_error_class("Exchange");
  if (RTEST(ab_server_option(options, "early_hints")))
    server->hints_class = ab_error_class("EarlyHints");
  server->access_log = RTEST(ab_server_option(options, "access_log"));
  server->cancel_on_disconnect = RTEST(ab_server_option(options, "cancel_on_disconnect"));
  server->newline_values = major < 3;
  server->to_ary_closes = major >= 3;
  server->input_class = ab_error_class("Input");
  server->rewindable_class = ab_error_class("RewindableInput");
  server->rewindable_input = RTEST(ab_server_option(options, "rewindable_input"));
  ab_env_init(&server->env, env_template(options));
  VALUE field = ab_server_option(options, "client_field"),
        address = ab_server_option(options, "remote_address");
  if (!NIL_P(field)) field = rb_str_new_frozen(StringValue(field));
  ab_env_trust(&server->env, ab_nets_of(ab_server_option(options, "trusted_proxies")), field,
               RTEST(ab_server_option(options, "rfc7239")));
  if (!NIL_P(address)) ab_env_fix_peer(&server->env, StringValue(address));
  server->home.scratch = ab_alloc(&ab_mem_libc, SCRATCH_SIZE);
  server->home.scratch_capacity = server->home.scratch ? SCRATCH_SIZE : 0;
  server->engine = ab_engine_init(&ab_mem_libc, &limits, ab_server_release, server);
  if (!server->home.scratch || !server->engine) rb_memerror();
  if (ab_lead_init(&server->lead, server->engine) != AB_OK) {
    ab_engine_fini(server->engine);
    server->engine = NULL;
    rb_memerror();
  }
  ab_stalls_init(server, options);
  ab_shutdown_init(server, options);
  ab_engine_set_half_close(server->engine, half_close_of(ab_server_option(options, "half_close")),
                           server->cancel_on_disconnect);
  VALUE max_queue = ab_server_option(options, "max_queue"),
        max_fibers = ab_server_option(options, "max_fibers");
  if (!NIL_P(max_queue)) {
    ab_engine_set_queue(server->engine, NUM2UINT(max_fibers), NUM2UINT(max_queue));
  }
  set_path_times(server, ab_server_option(options, "request_timeouts"));
  init_gang(server, options);
  return self;
}

/* --- events --- */

/* True when the runner leads. Home always does, unless it is away: who stood in for it stops. */
static bool leads(ab_runner *runner) {
  ab_lead *lead = &runner->server->lead;
  if (AB_LIKELY(ab_lead_held(lead, &runner->seat))) return true;
  if (runner != &runner->server->home) return false;
  while (!ab_lead_take(lead, &runner->seat)) rb_thread_schedule();
  return true;
}

void ab_server_tell_leader(ab_server *server) {
  if (server->poller) ab_poller_wakeup(server->poller);
}

/* Is the request in next_request one for threads, and not taken by one of them? */
static bool goes_to_gang(ab_runner *runner) {
  const ab_server *server = runner->server;
  if (runner->host == &ab_host_thread) return false;
  const ab_path_rule *rule;
  enum ab_mode mode = ab_server_mode_of(server, runner->next_request->path, &rule);
  runner->next_route = (ab_route){0};
  if (mode == AB_MODE_HYBRID) return ab_hybrid_takes_thread(runner, rule);
  return mode == AB_MODE_THREAD;
}

enum news { NEWS_NONE, NEWS_EVENT, NEWS_REQUEST };

/* Takes one event of the engine. */
static enum news take_event(ab_runner *runner) {
  ab_server *server = runner->server;
  unsigned events = 0;
  const ab_request *request = NULL;
  ab_conn *conn =
      ab_engine_next(server->engine, runner->host->available(runner), &events, &request);
  if (!conn) return NEWS_NONE;
  if (events & AB_EVENT_REQUEST) {
    runner->next_conn = conn;
    runner->next_request = request;
    if (AB_LIKELY(!server->gang) || !goes_to_gang(runner)) return NEWS_REQUEST;
    ab_gang_take(server->gang, runner);
    return NEWS_EVENT;
  }
  ab_exchange *exchange = ab_conn_app(conn);
  if (exchange) {
    ab_cancel_note(exchange, events);
    ab_exchange_wake(exchange);
  } else if (server->gang) {
    ab_gang_event(server->gang, conn, events);
  }
  return NEWS_EVENT;
}

bool ab_server_next(ab_runner *runner) {
  while (AB_LIKELY(leads(runner))) {
    enum news news = take_event(runner);
    if (news == NEWS_EVENT) continue;
    if (news == NEWS_REQUEST) ab_seat_read(&runner->seat);
    return news == NEWS_REQUEST;
  }
  return false;
}

bool ab_server_take(ab_runner *runner) {
  enum news news;
  do news = take_event(runner);
  while (news == NEWS_EVENT);
  return news == NEWS_REQUEST;
}

static VALUE dispatch(VALUE arg) {
  ab_runner *runner = (ab_runner *)arg;
  while (ab_server_next(runner)) {
    if (AB_LIKELY(runner->host->start(runner))) continue;
    /* The kernel refused a fiber's stack although the limit was not reached. */
    ab_taken taken = ab_server_taken(runner);
    ab_server_refuse(runner, &taken, AB_REJECT_NO_FIBER);
  }
  return Qnil;
}

static VALUE dispatched(VALUE arg) {
  ((ab_runner *)arg)->dispatching = false;
  return Qnil;
}

static VALUE write_notice(VALUE arg) {
  const ab_server *server = ((void **)arg)[0];
  const ab_notice *notice = ((void **)arg)[1];
  char peer[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(&notice->peer, peer);
  VALUE text = rb_sprintf("%s has sent %s to an HTTP port: refused", len ? peer : "a local client",
                          notice->what);
  return rb_funcall(server->log, rb_intern("debug"), 1, text);
}

/* A spare loses the lead as soon as home wants it. */
static bool lost(ab_runner *runner) {
  return AB_UNLIKELY(runner != &runner->server->home) && !leads(runner);
}

void ab_server_tidy(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_server_take_released(server);
  for (ab_notice notice; ab_engine_next_notice(server->engine, &notice);) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_server_quietly(write_notice, (VALUE)(void *[]){server, &notice});
  }
  if (ab_hybrid_has_news(server)) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_hybrid_log(server);
  }
  if (ab_stalls_found(server)) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_stalls_log(server);
  }
  if (AB_UNLIKELY(ab_cancel_pending(server, now))) {
    ab_pulse_leave(&runner->seat.pulse);
    ab_cancel_run(server, now);
  }
}

bool ab_server_turn(ab_runner *runner, ab_nsec now) {
  ab_server *server = runner->server;
  ab_shutdown_turn(runner, now);
  if (AB_UNLIKELY(server->retired) && !leads(runner)) return false; /* the app was called */
  ab_engine_begin_turn(server->engine, now);
  bool batch, more;
  do {
    batch = ab_engine_step(server->engine);
    runner->dispatching = true;
    rb_ensure(dispatch, (VALUE)runner, dispatched, (VALUE)runner);
    if (lost(runner)) return false;
    more = ab_engine_end_step(server->engine);
  } while (batch);
  ab_server_tidy(runner, now);
  if (!leads(runner)) return false;
  /* Without a fiber to spare the kernel's queue and its back-pressure have to hold what comes. */
  ab_engine_pause(server->engine, !runner->host->available(runner));
  return more;
}

/* Raises what a thread's request has raised for the process. */
static void look_after_gang(ab_server *server, ab_nsec now) {
  VALUE exception = ab_gang_forwarded(server->gang);
  if (!NIL_P(exception)) rb_exc_raise(exception);
  server->gang_deadline = ab_gang_turn_away(server->gang, now);
}

static bool server_turn(void *ctx, ab_nsec now) {
  ab_server *server = ctx;
  ab_crew_raise(server);
  leads(&server->home);
  bool more = ab_server_turn(&server->home, now);
  if (server->gang) look_after_gang(server, now);
  return more;
}

static ab_nsec earlier(ab_nsec a, ab_nsec b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

ab_nsec ab_server_deadline(void *ctx) {
  ab_server *server = ctx;
  ab_nsec deadline = earlier(ab_engine_deadline(server->engine), ab_shutdown_deadline(server));
  deadline = earlier(earlier(deadline, server->cancel_retry), server->overdue);
  return earlier(deadline, server->gang_deadline);
}

/* Others may have turned the engine while home waited for the GVL. */
static void server_woken(void *ctx) {
  leads(&((ab_server *)ctx)->home);
}

static bool server_contended(void *ctx) {
  return ab_hybrid_contended(&((ab_server *)ctx)->home);
}

static const ab_loop_client server_client = {
    .turn = server_turn,
    .deadline = ab_server_deadline,
    .done = ab_shutdown_done,
    .given_up = ab_shutdown_given_up,
    .woken = server_woken,
    .contended = server_contended,
};

/* --- running --- */

static VALUE run_loop(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->gang) ab_gang_begin(server->gang);
  ab_stalls_begin(server);
  ab_loop_run(server->home.loop);
  server->ended = true;
  return Qnil;
}

/* From here on the server is `host`'s, with its engine on the poller. */
static void begin_run(ab_server *server, const ab_host *host, ab_poller *poller) {
  int error = ab_engine_attach(server->engine, poller, ab_clock_monotonic());
  if (error == AB_ENOMEM) rb_memerror();
  if (error) rb_sys_fail("cannot watch the listeners");
  if (!server->fork_guard) server->fork_guard = ab_fork_page_init();
  server->owner = getpid();
  server->home.host = host;
  server->poller = poller;
  server->home.thread = rb_thread_current();
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
  if (!server->ended) ab_shutdown_hasten(server);
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
  ab_server *server = ab_server_of(self);
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
  ab_server *server = ab_server_of(self);
  check_not_running(server);
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  if (!poller) rb_sys_fail("cannot make a poller");
  begin_run(server, &ab_host_thread, poller);
  rb_ensure(run_threads, self, threads_ended, self);
  return Qnil;
}

static VALUE run_guest(VALUE self) {
  ab_server *server = ab_server_of(self);
  if (server->gang) ab_gang_begin(server->gang);
  ab_guest_run(server->guest, &server_client, server);
  server->ended = true;
  return Qnil;
}

static VALUE guest_ended(VALUE self) {
  ab_server *server = ab_server_of(self);
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
  ab_server *server = ab_server_of(self);
  check_not_running(server);
  if (server->guest) rb_raise(rb_eRuntimeError, "the engine was a guest before");
  server->guest = ab_guest_init(self, server, scheduler, NUM2SIZET(max_fibers));
  begin_run(server, &ab_host_guest, ab_guest_poller(server->guest));
  rb_ensure(run_guest, self, guest_ended, self);
  return server->forced ? Qtrue : Qfalse;
}

void ab_init_server(VALUE mAbaca) {
  VALUE cEngine = rb_define_class_under(mAbaca, "Engine", rb_cObject);
  rb_define_alloc_func(cEngine, server_alloc);
  rb_define_method(cEngine, "initialize", server_initialize, 2);
  rb_define_method(cEngine, "run", server_run, 2);
  rb_define_method(cEngine, "run_on_threads", server_run_on_threads, 0);
  rb_define_method(cEngine, "run_as_guest", server_run_as_guest, 2);
  ab_init_listen(cEngine);
  ab_init_shutdown(cEngine);
  ab_init_stats(cEngine);
  ab_init_requests(cEngine);
  ab_init_proxies(cEngine);
  ab_init_spare(cEngine);
  ab_init_exchange(mAbaca);
  ab_init_input(mAbaca);
}
