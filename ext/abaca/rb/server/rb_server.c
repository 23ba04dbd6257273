/* Abaca::Engine: the object, and the options that it is made with. rb_run.c runs it. */
#include "rb/server/rb_server.h"

#include <string.h>

#include "rb/server/rb_gang.h"
#include "rb/server/rb_guest.h"
#include "rb/server/rb_hybrid.h"
#include "rb/server/rb_proxies.h"
#include "rb/server/rb_spare.h"

/* --- the object --- */

/* As on a stack: every word that may be an object. */
static void mark_exchanges(const ab_server *server) {
  const ab_list *exchanges = &server->exchanges;
  for (const ab_list *node = exchanges->next; node != exchanges; node = node->next) {
    const ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, link);
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
  rb_gc_mark(server->plain_fields);
  rb_gc_mark(server->error_answers);
  rb_gc_mark(server->home.thread);
  ab_stalls_mark(&server->stalls);
  ab_crew_mark(&server->crew);
  rb_gc_mark(server->input_class);
  rb_gc_mark(server->rewindable_class);
  mark_exchanges(server);
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
  ab_exchange_free_spares(server);
  while (server->spare) {
    ab_borrow *next = server->spare->next;
    ab_free(&ab_mem_libc, server->spare);
    server->spare = next;
  }
  ab_env_fini(&server->env);
  ab_guest_fini(server->guest);
  ab_gang_fini(server->gang);
  ab_ledger_fini(server->ledger);
  ab_routes_fini(&server->streams);
  ab_routes_fini(&server->routes);
  ab_fork_page_fini(server->fork_guard);
  ab_free(&ab_mem_libc, server->home.scratch);
  xfree(server);
}

static size_t server_size(const void *ptr) {
  const ab_server *server = ptr;
  return sizeof(*server) + server->home.scratch_capacity + sizeof(ab_names);
}

static const rb_data_type_t server_type = {
    .wrap_struct_name = "Abaca::Engine",
    .function = {.dmark = server_mark, .dfree = server_free, .dsize = server_size},
};

static VALUE server_alloc(VALUE klass) {
  ab_server *server;
  VALUE self = TypedData_Make_Struct(klass, ab_server, &server_type, server);
  server->self = self;
  ab_list_init(&server->borrowed);
  ab_list_init(&server->cancels);
  ab_list_init(&server->attended);
  ab_list_init(&server->exchanges);
  ab_list_init(&server->spare_exchanges);
  server->app = server->log = server->home.thread = Qnil;
  server->home.server = server;
  ab_seat_init(&server->home.seat);
  server->stalls.records = server->stalls.reporter = Qnil;
  ab_crew_init(&server->crew);
  server->exchange_class = server->hints_class = Qnil;
  server->plain_fields = server->error_answers = Qnil;
  server->input_class = server->rewindable_class = Qnil;
  return self;
}

ab_server *ab_server_of(VALUE self) {
  ab_server *server = rb_check_typeddata(self, &server_type);
  if (!server->engine) rb_raise(rb_eRuntimeError, "the engine has not been initialized");
  return server;
}

ab_server *ab_server_own_or_null(VALUE self) {
  ab_server *server = ab_server_of(self);
  return server->owner && ab_server_forked(server) ? NULL : server;
}

ab_server *ab_server_own(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  if (!server) {
    rb_raise(rb_eRuntimeError, "the server belongs to the process that forked this one: make a new "
                               "one after fork");
  }
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

/* An Array of names, or true for every method. */
static void set_methods(ab_server *server, VALUE given) {
  if (NIL_P(given)) return;
  bool any = given == Qtrue;
  if (!any) Check_Type(given, T_ARRAY);
  long count = any ? 0 : RARRAY_LEN(given);
  VALUE memory;
  ab_view *names = ALLOCV_N(ab_view, memory, count);
  for (long i = 0; i < count; i++) {
    VALUE name = rb_ary_entry(given, i);
    Check_Type(name, T_STRING);
    names[i] = (ab_view){RSTRING_PTR(name), (size_t)RSTRING_LEN(name)};
  }
  const ab_methods methods = {.names = names, .count = (size_t)count, .any = any};
  int error = ab_engine_set_methods(server->engine, &methods);
  ALLOCV_END(memory);
  RB_GC_GUARD(given);
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
}

static enum ab_half_close half_close_of(VALUE meaning) {
  if (meaning == ID2SYM(rb_intern("gone"))) return AB_HALF_CLOSE_GONE;
  return meaning == ID2SYM(rb_intern("answer")) ? AB_HALF_CLOSE_ANSWER : AB_HALF_CLOSE_ASK;
}

/* call-seq: new(app, options) -> Engine
 *
 * limits: Hash of the settings in LIMITS; log: an Abaca::Log; plain_fields: an Abaca::PlainFields;
 * error_answers: an Abaca::ErrorAnswers or nil;
 * access_log: boolean; errors: the IO
 * for rack.errors; url_scheme, script_name: Strings; multiprocess: boolean; shutdown_timeout:
 * seconds or nil; shutdown_delay, idle_timeout: seconds; readiness, liveness: paths or nil;
 * rack_release: "3.0.0"; trusted_proxies: Array of networks; rfc7239: whether their
 * field is Forwarded; client_field: the name, in lower case, of a field with the client's address,
 * or nil; remote_address: what REMOTE_ADDR always is, or nil;
 * early_hints, rewindable_input, null_input, cancel_on_disconnect: booleans; half_close: :ask,
 * :answer or :gone; max_queue: Integer or nil, which needs max_fibers; request_timeouts: Array of
 * [pattern, seconds]; methods: Array of Strings, true for any, or nil for the registry's;
 * mode: env["abaca.mode"] of requests that the leading thread runs, :fiber or :thread; threads:
 * [least, most] when requests may run on threads. Then also max_waiting, how many may wait for one;
 * clean_thread_locals, a boolean; routes, Array of [:thread, :fiber or :hybrid, pattern]; and
 * default_mode, of all other requests. With :hybrid in any of them hybrid_threshold, in seconds,
 * and hybrid_requests, the least number to judge by;
 * max_body_memory_total, octets of bodies that are gathered, without which none is; stream_bodies,
 * Array of [true, pattern] of those that are not.
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
  server->plain_fields = ab_server_option(options, "plain_fields");
  server->error_answers = ab_server_option(options, "error_answers");
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
  server->home.scratch = ab_alloc(&ab_mem_libc, AB_SCRATCH_SIZE);
  server->home.scratch_capacity = server->home.scratch ? AB_SCRATCH_SIZE : 0;
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
  server->max_fibers = NIL_P(max_fibers) ? UINT32_MAX : NUM2UINT(max_fibers);
  if (!NIL_P(max_queue)) {
    ab_engine_set_queue(server->engine, NUM2UINT(max_fibers), NUM2UINT(max_queue));
  }
  set_path_times(server, ab_server_option(options, "request_timeouts"));
  set_methods(server, ab_server_option(options, "methods"));
  init_gang(server, options);
  ab_slow_init(server, server->max_fibers, server->gang ? ab_gang_most(server->gang) : 0);
  ab_server_gather_bodies(server, options);
  return self;
}

void ab_init_server(VALUE mAbaca) {
  VALUE cEngine = rb_define_class_under(mAbaca, "Engine", rb_cObject);
  rb_define_alloc_func(cEngine, server_alloc);
  rb_define_method(cEngine, "initialize", server_initialize, 2);
  ab_init_run(cEngine);
  ab_init_listen(cEngine);
  ab_init_shutdown(cEngine);
  ab_init_stats(cEngine);
  ab_init_requests(cEngine);
  ab_init_proxies(cEngine);
  ab_init_spare(cEngine);
  ab_init_hold(cEngine);
  ab_init_exchange(mAbaca);
  ab_init_input(mAbaca);
}
