/* Exchanges as Ruby sees them: waiting for the engine, and Abaca::Exchange, the handle through
 * which lib/abaca/stream.rb reaches its request. */
#include <ruby.h>

#include "rb/rb_server.h"

VALUE ab_error_class(const char *name) {
  return rb_const_get(rb_path2class("Abaca"), rb_intern(name));
}

/* --- waiting --- */

void ab_exchange_wait(ab_exchange *exchange, enum ab_wait_kind kind) {
  exchange->server->host->wait(exchange, kind);
}

void ab_exchange_wake(ab_exchange *exchange) {
  exchange->server->host->wake(exchange);
}

/* --- Abaca::Exchange --- */

static const rb_data_type_t exchange_type = {"Abaca::Exchange",
                                             {NULL, NULL, NULL, NULL, {0}},
                                             NULL,
                                             NULL,
                                             RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

void ab_exchange_begin(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  exchange->handle = rb_data_typed_object_wrap(server->exchange_class, exchange, &exchange_type);
  exchange->finished = rb_ary_new_capa(0);
  exchange->replied = rb_ary_new_capa(0);
  ab_env_set_exchange(&server->env, exchange->env, exchange->handle, exchange->finished,
                      exchange->replied);
}

void ab_exchange_forget(ab_exchange *exchange) {
  if (!NIL_P(exchange->handle)) RTYPEDDATA_DATA(exchange->handle) = NULL;
  ab_exchange_forget_input(exchange);
  if (AB_LIKELY(ab_list_empty(&exchange->waits))) return;
  /* Fibers of the app's that wait although the request is over: they find that out. */
  ab_exchange_wake(exchange);
  while (ab_list_shift(&exchange->waits)) continue;
}

/* NULL once the request is over. */
static ab_exchange *exchange_or_null(VALUE self) {
  return rb_check_typeddata(self, &exchange_type);
}

static ab_exchange *exchange_of(VALUE self) {
  ab_exchange *exchange = exchange_or_null(self);
  if (!exchange) rb_raise(rb_eIOError, "the request is over: its stream is closed");
  return exchange;
}

/* call-seq: write(string) -> Integer
 *
 * Sends a piece of a streamed response; waits while the client is slow to read.
 *
 * Returns its length in octets. Raises IOError after #close or after the request, PeerError when
 * the client has gone. */
static VALUE exchange_write(VALUE self, VALUE string) {
  ab_exchange *exchange = exchange_of(self);
  StringValue(string);
  if (exchange->closed) rb_raise(rb_eIOError, "the stream is closed");
  ab_response_content(exchange, string);
  return LONG2NUM(RSTRING_LEN(string));
}

/* call-seq: close -> nil
 *
 * Ends a streamed response. Idempotent. */
static VALUE exchange_close(VALUE self) {
  ab_exchange *exchange = exchange_or_null(self);
  if (!exchange || exchange->closed) return Qnil;
  exchange->closed = true;
  ab_exchange_wake(exchange);
  return Qnil;
}

/* call-seq: closed? -> true or false */
static VALUE exchange_closed_p(VALUE self) {
  ab_exchange *exchange = exchange_or_null(self);
  return !exchange || exchange->closed ? Qtrue : Qfalse;
}

void ab_init_exchange(VALUE mAbaca) {
  VALUE cExchange = rb_define_class_under(mAbaca, "Exchange", rb_cObject);
  rb_undef_alloc_func(cExchange);
  rb_undef_method(CLASS_OF(cExchange), "new");
  rb_define_method(cExchange, "write", exchange_write, 1);
  rb_define_method(cExchange, "close", exchange_close, 0);
  rb_define_method(cExchange, "closed?", exchange_closed_p, 0);
}
