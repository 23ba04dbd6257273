/* Abaca::Engine: the object, and the options that it is made with. rb_life.c runs it. */
#include "rb/server/rb_server.h"

#include <string.h>

#include "engine/turns.h"
#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_rack_setup.h"
#include "rb/server/rb_shutdown.h"

/* --- the object --- */

/* ab_rack_of finds the Rack side where the object's memory begins. */
_Static_assert(offsetof(ab_server, run) == 0 && offsetof(ab_run, rack) == 0,
               "an Abaca::Engine begins with its Rack side");

static void server_mark(void *ptr) {
  ab_server *server = ptr;
  ab_run_mark(&server->run);
  rb_gc_mark(server->slot);
}

/* A running server is freed only at process exit, in any order: the scheduler perhaps first. In a
 * forked child the engine is left as it is: what the standby was doing with it is unknown. */
static void free_engine(ab_server *server) {
  ab_rack *rack = &server->run.rack;
  if (rack->owner && ab_rack_forked(rack)) return;
  if (server->running) {
    if (rack->standby) ab_standby_stop(rack->standby);
    ab_engine_abandon(rack->engine);
  }
  ab_lead_fini(&rack->lead);
  ab_engine_fini(rack->engine);
}

static void server_free(void *ptr) {
  ab_server *server = ptr;
  if (server->run.rack.engine) free_engine(server);
  server->run.rack.engine = NULL;
  ab_run_fini(&server->run);
  if (server->page) ab_page_drop(server->page);
  xfree(server);
}

static size_t server_size(const void *ptr) {
  const ab_server *server = ptr;
  return sizeof(*server) + server->run.main.runner.scratch_capacity + sizeof(ab_names);
}

static const rb_data_type_t server_type = {
    .wrap_struct_name = "Abaca::Engine",
    .function = {.dmark = server_mark, .dfree = server_free, .dsize = server_size},
};

static VALUE server_alloc(VALUE klass) {
  ab_server *server;
  VALUE self = TypedData_Make_Struct(klass, ab_server, &server_type, server);
  ab_run_init(&server->run, self);
  server->slot = Qnil;
  server->run.stages = &ab_shutdown_stages;
  return self;
}

ab_server *ab_server_of(VALUE self) {
  ab_server *server = rb_check_typeddata(self, &server_type);
  if (!server->run.rack.engine) rb_raise(rb_eRuntimeError, "the engine has not been initialized");
  return server;
}

ab_server *ab_server_own_or_null(VALUE self) {
  ab_server *server = ab_server_of(self);
  const ab_rack *rack = &server->run.rack;
  return rack->owner && ab_rack_forked(rack) ? NULL : server;
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

/* Pairs of a pattern of paths and seconds. */
static void set_path_times(ab_engine *engine, VALUE pairs) {
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
  int error = ab_engine_set_path_times(engine, rules, (size_t)count);
  ALLOCV_END(memory);
  RB_GC_GUARD(pairs);
  if (error) rb_memerror();
}

/* An Array of names, or true for every method. */
static void set_methods(ab_engine *engine, VALUE given) {
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
  int error = ab_engine_set_methods(engine, &methods);
  ALLOCV_END(memory);
  RB_GC_GUARD(given);
  if (error) rb_memerror();
}

static enum ab_half_close half_close_of(VALUE meaning) {
  if (meaning == ID2SYM(rb_intern("gone"))) return AB_HALF_CLOSE_GONE;
  return meaning == ID2SYM(rb_intern("answer")) ? AB_HALF_CLOSE_ANSWER : AB_HALF_CLOSE_ASK;
}

/* The engine and its lead, or neither. Raises NoMemoryError. */
static void make_engine(ab_rack *rack, const ab_limits *limits) {
  ab_engine *engine = ab_engine_init(&ab_mem_libc, limits, ab_borrow_release, rack);
  if (!engine) rb_memerror();
  if (ab_lead_init(&rack->lead, &ab_engine_turns, engine) != AB_OK) {
    ab_engine_fini(engine);
    rb_memerror();
  }
  rack->engine = engine;
}

static void configure_engine(ab_engine *engine, VALUE options) {
  VALUE max_queue = ab_option(options, "max_queue");
  ab_engine_set_half_close(engine, half_close_of(ab_option(options, "half_close")),
                           RTEST(ab_option(options, "cancel_on_disconnect")));
  if (!NIL_P(max_queue)) {
    ab_engine_set_queue(engine, NUM2UINT(ab_option(options, "max_fibers")), NUM2UINT(max_queue));
  }
  set_path_times(engine, ab_option(options, "request_timeouts"));
  set_methods(engine, ab_option(options, "methods"));
}

/* call-seq: new(app, options) -> Engine
 *
 * limits: Hash of the settings in LIMITS; log: an Abaca::Log; plain_fields: an Abaca::PlainFields;
 * error_answers: an Abaca::ErrorAnswers or nil; access_log: an Abaca::AccessLog or nil;
 * multiprocess, early_hints, rewindable_input, null_input, cancel_on_disconnect: booleans; errors:
 * the IO for rack.errors;
 * url_scheme, script_name: Strings; rack_release: "3.0.0"; shutdown_timeout: seconds or nil;
 * shutdown_delay, idle_timeout: seconds; readiness, liveness: paths or nil; trusted_proxies: Array
 * of networks; rfc7239: whether their field is Forwarded; client_field: the lower-case name of a
 * field with the client's address, or nil; remote_address: what REMOTE_ADDR always is, or nil;
 * half_close: :ask, :answer or :gone; max_queue: Integer or nil, which needs max_fibers;
 * request_timeouts: Array of [pattern, seconds]; methods: Array of Strings, true for any, or nil
 * for the registry's; mode: env["abaca.mode"] of requests that the leading thread runs, :fiber or
 * :thread; threads: [least, most] when requests may run on threads. Then also max_waiting, how many
 * may wait for one; clean_thread_locals, a boolean; thread_begins and thread_ends, called on each
 * of them, or nil; routes, Array of [:thread, :fiber or :hybrid, pattern]; default_mode, of all
 * other requests. With :hybrid in any of them hybrid_threshold, in seconds, and hybrid_requests,
 * the least number to judge by; max_body_memory_total, bytes of bodies that are buffered, without
 * which none is; stream_bodies, Array of [true, pattern] of those that are not;
 * services: Array of [kind, address or nil, port] and [kind, path]; slow_after: seconds;
 * metrics_routes: Integer; metrics_ignore: Array of [true, pattern];
 * out_of_band: called after a request when the app has no other, from when on no request begins
 * until #end_out_of_band, or nil; slot: an Abaca::Page::Slot or nil; balance: whether connections
 * move between the servers in the slots of its page.
 *
 * Raises ArgumentError for an unknown limit or network, NoMemoryError. */
static VALUE server_initialize(VALUE self, VALUE app, VALUE options) {
  ab_server *server = rb_check_typeddata(self, &server_type);
  ab_rack *rack = &server->run.rack;
  if (rack->engine) rb_raise(rb_eRuntimeError, "already initialized");
  Check_Type(options, T_HASH);
  ab_limits limits = ab_limits_default();
  ab_server_set_limits(&limits, ab_option(options, "limits"));
  ab_rack_configure(rack, app, options);
  make_engine(rack, &limits);
  configure_engine(rack->engine, options);
  ab_shutdown_configure(server, options);
  ab_server_set_slot(server, ab_option(options, "slot"), RTEST(ab_option(options, "balance")));
  ab_run_configure(&server->run, options);
  ab_server_configure_sight(server, options);
  return self;
}

VALUE ab_init_server(VALUE mAbaca) {
  VALUE cEngine = rb_define_class_under(mAbaca, "Engine", rb_cObject);
  rb_define_alloc_func(cEngine, server_alloc);
  rb_define_method(cEngine, "initialize", server_initialize, 2);
  return cEngine;
}
