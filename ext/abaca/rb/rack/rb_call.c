/* A call's handle, and how fibers and threads wait for the call: see rb_call.h. */
#include "rb/rack/rb_call.h"

#include "rb/rack/rb_process.h"

static VALUE wait_for_client(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  call->runner->executor->wait(call, call->wait_kind);
  return Qnil;
}

static VALUE client_moved(VALUE arg) {
  ab_call *call = (ab_call *)arg;
  call->rack->hooks->goes_on(call);
  return Qnil;
}

void ab_call_wait(ab_call *call, enum ab_wait_kind kind) {
  call->wait_kind = (uint8_t)kind;
  if (kind != AB_WAIT_STREAM && call->rack->hooks->waits(call)) {
    /* Its own fiber is here, so that it does not end meanwhile. */
    rb_ensure(wait_for_client, (VALUE)call, client_moved, (VALUE)call);
  } else {
    call->runner->executor->wait(call, kind);
  }
}

void ab_call_wake(ab_call *call) {
  VALUE handle = call->handle;
  if (AB_LIKELY(ab_list_empty(&call->waits))) return; /* always so while there is no handle */
  while (call && call->runner->executor->wake_one(call)) {
    call = ab_call_or_null(handle);
  }
}

static const rb_data_type_t exchange_type = {
    .wrap_struct_name = "Abaca::Exchange",
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* With its own things set at once the env's table is looked up once. */
static void build_env(ab_call *call, const ab_env_own *own) {
  ab_rack *rack = call->rack;
  if (!call->head.request) {
    ab_env_set_own(&rack->env, call->env, own);
    return;
  }
  call->env = ab_env_build(&rack->env, call->exchange, call->head.request, own, NULL);
  ab_runner_has_read(call->runner, call->exchange, &call->head);
}

void ab_call_begin(ab_call *call) {
  ab_rack *rack = call->rack;
  void *mark = ab_call_mark(call);
  call->handle = rb_data_typed_object_wrap(rack->exchange_class, mark, &exchange_type);
  call->finished = rb_ary_new_capa(0);
  call->replied = rb_ary_new_capa(0);
  build_env(call, &(ab_env_own){.client = call->handle,
                                .finished = call->finished,
                                .after_reply = call->replied,
                                .now = call->started,
                                .stream = ab_exchange_is_stream(call->exchange)});
  if (NIL_P(rack->hints_class)) return;
  VALUE hints = rb_class_new_instance(1, &call->handle, rack->hints_class);
  rb_hash_aset(call->env, rb_str_new_cstr("rack.early_hints"), hints);
}

/* Fibers that still wait for room in a stream are woken, and find handle and input empty. */
void ab_call_forget(ab_call *call) {
  if (!NIL_P(call->handle)) RTYPEDDATA_DATA(call->handle) = NULL;
  if (!NIL_P(call->input)) RTYPEDDATA_DATA(call->input) = NULL;
  if (AB_LIKELY(ab_list_empty(&call->waits))) return;
  while (call->runner->executor->wake_one(call)) continue;
  while (ab_list_shift(&call->waits)) continue;
}

ab_call *ab_call_or_null(VALUE self) {
  return ab_call_at(rb_check_typeddata(self, &exchange_type));
}

ab_call *ab_call_own(ab_call *call) {
  return call && !ab_rack_forked(call->rack) ? call : NULL;
}

void ab_call_check_own(const ab_call *call) {
  if (AB_UNLIKELY(ab_rack_forked(call->rack)))
    rb_raise(rb_eIOError, "the request belongs to the process that forked this one");
}

ab_call *ab_call_of(VALUE self) {
  ab_call *call = ab_call_or_null(self);
  if (!call) rb_raise(rb_eIOError, "the request is over: its stream is closed");
  ab_call_check_own(call);
  return call;
}

VALUE ab_init_call(VALUE mAbaca) {
  VALUE cExchange = rb_define_class_under(mAbaca, "Exchange", rb_cObject);
  rb_undef_alloc_func(cExchange);
  rb_undef_method(CLASS_OF(cExchange), "new");
  return cExchange;
}

bool ab_call_gone(const ab_call *call) {
  ab_engine_lock(call->rack->engine);
  bool gone = ab_exchange_gone(call->exchange);
  ab_engine_unlock(call->rack->engine);
  return gone;
}

void ab_call_flush(const ab_call *call) {
  ab_engine_lock(call->rack->engine);
  ab_exchange_flush(call->exchange);
  ab_engine_unlock(call->rack->engine);
}

enum ab_finish ab_call_finish(const ab_call *call) {
  if (call->complete) return AB_FINISH_COMPLETE;
  bool framed = !call->head_sent || call->chunked || call->has_length;
  return framed ? AB_FINISH_BROKEN : AB_FINISH_RESET;
}

bool ab_call_end_exchange(ab_call *call) {
  ab_exchange *exchange = call->exchange;
  call->exchange = NULL;
  ab_runner_pass_time(call->runner);
  ab_exchange_finish(exchange, ab_call_finish(call));
  return ab_runner_must_tell(call->runner);
}

static VALUE write_app_error(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcall(argv[0], rb_intern("app_error"), 2, argv[1], argv[2]);
}

void ab_call_log_error(const ab_rack *rack, VALUE exception, VALUE env) {
  const VALUE argv[] = {rack->log, exception, env};
  ab_quietly(write_app_error, (VALUE)argv);
}
