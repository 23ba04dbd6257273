/* The life of a server's Rack side: see rb_rack_setup.h. */
#include "rb/rack/rb_rack_setup.h"

#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_call.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_proxies.h"
#include "rb/rack/rb_sight.h"
#include "rb/rack/rb_tls_info.h"

void ab_runner_init_bare(ab_runner *runner, ab_rack *rack, const ab_executor *executor) {
  *runner = (ab_runner){.rack = rack, .executor = executor, .thread = Qnil};
  ab_participant_init(&runner->participant);
}

int ab_runner_init(ab_runner *runner, ab_rack *rack, const ab_executor *executor) {
  ab_runner_init_bare(runner, rack, executor);
  runner->scratch = ab_alloc(&ab_mem_libc, AB_SCRATCH_SIZE);
  if (!runner->scratch) return AB_ENOMEM;
  runner->scratch_capacity = AB_SCRATCH_SIZE;
  return AB_OK;
}

void ab_runner_fini(ab_runner *runner) {
  ab_free(&ab_mem_libc, runner->scratch);
}

void ab_rack_init(ab_rack *rack, VALUE self) {
  rack->self = self;
  rack->app = rack->log = Qnil;
  rack->exchange_class = rack->input_class = rack->rewindable_class = Qnil;
  rack->hints_class = rack->plain_fields = rack->error_answers = rack->access_log = Qnil;
  rack->timing_guard = Qnil;
  rack->tls_info_class = Qnil;
  ab_list_init(&rack->tls_infos);
  ab_list_init(&rack->calls);
  ab_list_init(&rack->spare_calls);
  ab_list_init(&rack->cancels);
  ab_list_init(&rack->attended);
  ab_list_init(&rack->borrowed);
}

/* As on a stack: every word that may be an object. */
static void mark_calls(const ab_list *calls) {
  for (const ab_list *node = calls->next; node != calls; node = node->next) {
    const ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    const VALUE *words = (const VALUE *)(const void *)call;
    rb_gc_mark_locations(words, words + sizeof(*call) / sizeof(VALUE));
  }
}

void ab_rack_mark(const ab_rack *rack) {
  ab_env_mark(&rack->env);
  rb_gc_mark(rack->app);
  rb_gc_mark(rack->log);
  rb_gc_mark(rack->exchange_class);
  rb_gc_mark(rack->input_class);
  rb_gc_mark(rack->rewindable_class);
  rb_gc_mark(rack->hints_class);
  rb_gc_mark(rack->plain_fields);
  rb_gc_mark(rack->error_answers);
  rb_gc_mark(rack->access_log);
  rb_gc_mark(rack->timing_guard);
  rb_gc_mark(rack->tls_info_class);
  ab_tls_info_mark(&rack->tls_infos);
  mark_calls(&rack->calls);
  ab_borrow_mark(rack);
  ab_sight_mark(rack);
}

/* Calls of fibers that were given up stay: handles that the app has may point to them. */
void ab_rack_fini(ab_rack *rack) {
  ab_sight_forget(rack);
  ab_tls_info_let_go(&rack->tls_infos);
  ab_borrow_fini(rack);
  ab_call_free_spares(rack);
  ab_env_fini(&rack->env);
  ab_fork_page_fini(rack->fork_guard);
}

static void set_if_given(VALUE hash, const char *key, VALUE value) {
  if (!NIL_P(value)) rb_hash_aset(hash, rb_str_new_cstr(key), value);
}

/* The part of the env that no request changes (Rack SPEC). */
static VALUE env_template(VALUE options) {
  VALUE env = rb_hash_new();
  VALUE script_name = ab_option(options, "script_name");
  VALUE version = rb_const_get(rb_path2class("Abaca"), rb_intern("VERSION"));
  VALUE version_1_3 = rb_ary_new_from_args(2, INT2FIX(1), INT2FIX(3));
  set_if_given(env, "SCRIPT_NAME", NIL_P(script_name) ? rb_str_new_cstr("") : script_name);
  set_if_given(env, "SERVER_SOFTWARE", rb_sprintf("Abaca/%" PRIsVALUE, version));
  set_if_given(env, "GATEWAY_INTERFACE", rb_str_new_cstr("CGI/1.2"));
  set_if_given(env, "rack.version", rb_obj_freeze(version_1_3));
  set_if_given(env, "rack.errors", ab_option(options, "errors"));
  if (RTEST(ab_option(options, "null_input"))) {
    set_if_given(env, "rack.input",
                 rb_const_get(rb_path2class("Abaca::NullInput"), rb_intern("INSTANCE")));
  }
  set_if_given(env, "rack.hijack?", Qtrue);
  set_if_given(env, "rack.url_scheme", ab_option(options, "url_scheme"));
  set_if_given(env, "rack.multithread", Qtrue);
  set_if_given(env, "rack.multiprocess",
               RTEST(ab_option(options, "multiprocess")) ? Qtrue : Qfalse);
  set_if_given(env, "rack.run_once", Qfalse);
  set_if_given(env, "abaca.outbox", rb_path2class("Abaca::Outbox"));
  set_if_given(env, "abaca.mode", ab_option(options, "mode"));
  return env;
}

static void configure_env(ab_env_builder *env, VALUE options) {
  ab_env_init(env, env_template(options));
  VALUE field = ab_option(options, "client_field"), address = ab_option(options, "remote_address");
  if (!NIL_P(field)) field = rb_str_new_frozen(StringValue(field));
  ab_env_trust(env, ab_nets_of(ab_option(options, "trusted_proxies")), field,
               RTEST(ab_option(options, "rfc7239")));
  if (!NIL_P(address)) ab_env_fix_peer(env, StringValue(address));
}

void ab_rack_configure(ab_rack *rack, VALUE app, VALUE options) {
  VALUE release = ab_option(options, "rack_release");
  long major = NIL_P(release) ? 3 : NUM2LONG(rb_Integer(rb_funcall(release, rb_intern("to_i"), 0)));
  rack->app = app;
  /* A bare lambda is called without looking its `call` up. */
  rack->app_is_proc = RTEST(rb_obj_is_proc(app)) && CLASS_OF(app) == rb_cProc;
  rack->id_call = rb_intern("call");
  rack->log = ab_option(options, "log");
  rack->exchange_class = ab_class("Exchange");
  rack->input_class = ab_class("Input");
  rack->tls_info_class = ab_class("TLSInfo");
  if (RTEST(ab_option(options, "early_hints"))) rack->hints_class = ab_class("EarlyHints");
  rack->plain_fields = ab_option(options, "plain_fields");
  rack->error_answers = ab_option(options, "error_answers");
  rack->access_log = ab_option(options, "access_log");
  rack->logs_times = RTEST(ab_option(options, "access_times"));
  VALUE timing = ab_option(options, "server_timing");
  rack->tells_timing = RTEST(timing);
  rack->timing_guard = timing == Qtrue ? Qnil : timing;
  rack->cancel_on_disconnect = RTEST(ab_option(options, "cancel_on_disconnect"));
  rack->rewindable_input = RTEST(ab_option(options, "rewindable_input"));
  /* This loads it, with Ruby's library for temporary folders: half a megabyte that most servers do
   * without. */
  if (rack->rewindable_input) rack->rewindable_class = ab_class("RewindableInput");
  rack->newline_values = major < 3;
  rack->to_ary_closes = major >= 3;
  configure_env(&rack->env, options);
}
