/* Exchanges as Ruby sees them: waiting for the engine, and Abaca::Exchange, the handle through
 * which the app (as rack.hijack and abaca.client) and lib/abaca/stream.rb reach a request. */
#include <ruby.h>

#include "rb/server/rb_response.h"

VALUE ab_error_class(const char *name) {
  return rb_const_get(rb_path2class("Abaca"), rb_intern(name));
}

/* --- waiting --- */

static VALUE wait_for_client(VALUE arg) {
  ab_exchange *exchange = (ab_exchange *)arg;
  exchange->runner->host->wait(exchange, exchange->wait_kind);
  return Qnil;
}

static VALUE client_moved(VALUE arg) {
  ab_slow_end((ab_exchange *)arg);
  return Qnil;
}

void ab_exchange_wait(ab_exchange *exchange, enum ab_wait_kind kind) {
  exchange->wait_kind = (uint8_t)kind;
  if (kind != AB_WAIT_BLOCK && ab_slow_begin(exchange)) {
    /* Its own fiber is here, so that it does not end meanwhile. */
    rb_ensure(wait_for_client, (VALUE)exchange, client_moved, (VALUE)exchange);
  } else {
    exchange->runner->host->wait(exchange, kind);
  }
}

void ab_exchange_wake(ab_exchange *exchange) {
  VALUE handle = exchange->handle;
  if (AB_LIKELY(ab_list_empty(&exchange->waits))) return; /* always so while there is no handle */
  while (exchange && exchange->runner->host->wake_one(exchange)) {
    exchange = ab_exchange_or_null(handle);
  }
}

/* --- Abaca::Exchange --- */

static const rb_data_type_t exchange_type = {
    .wrap_struct_name = "Abaca::Exchange",
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

/* With its own things set at once the env's table is looked up once. */
static void build_env(ab_exchange *exchange, const ab_env_own *own) {
  ab_server *server = exchange->server;
  if (!exchange->request) {
    ab_env_set_own(&server->env, exchange->env, own);
    return;
  }
  exchange->env = ab_env_build(&server->env, exchange->conn, exchange->request, own);
  exchange->request = NULL;
  ab_seat_has_read(&exchange->runner->seat);
}

void ab_exchange_begin(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  void *mark = ab_exchange_mark(exchange);
  exchange->handle = rb_data_typed_object_wrap(server->exchange_class, mark, &exchange_type);
  exchange->finished = rb_ary_new_capa(0);
  exchange->replied = rb_ary_new_capa(0);
  build_env(exchange, &(ab_env_own){exchange->handle, exchange->finished, exchange->replied});
  if (NIL_P(server->hints_class)) return;
  VALUE hints = rb_class_new_instance(1, &exchange->handle, server->hints_class);
  rb_hash_aset(exchange->env, rb_str_new_cstr("rack.early_hints"), hints);
}

/* Other fibers may still wait for room in a stream that they were given. They are woken, and find
 * the handle empty. */
void ab_exchange_forget(ab_exchange *exchange) {
  if (!NIL_P(exchange->handle)) RTYPEDDATA_DATA(exchange->handle) = NULL;
  ab_exchange_forget_input(exchange);
  if (AB_LIKELY(ab_list_empty(&exchange->waits))) return;
  while (exchange->runner->host->wake_one(exchange)) continue;
  while (ab_list_shift(&exchange->waits)) continue;
}

ab_exchange *ab_exchange_or_null(VALUE self) {
  return ab_exchange_at(rb_check_typeddata(self, &exchange_type));
}

ab_exchange *ab_exchange_own(ab_exchange *exchange) {
  return exchange && !ab_server_forked(exchange->server) ? exchange : NULL;
}

void ab_exchange_check_own(const ab_exchange *exchange) {
  if (AB_UNLIKELY(ab_server_forked(exchange->server)))
    rb_raise(rb_eIOError, "the request belongs to the process that forked this one");
}

ab_exchange *ab_exchange_of(VALUE self) {
  ab_exchange *exchange = ab_exchange_or_null(self);
  if (!exchange) rb_raise(rb_eIOError, "the request is over: its stream is closed");
  ab_exchange_check_own(exchange);
  return exchange;
}

static ab_exchange *own_or_null(VALUE self) {
  return ab_exchange_own(ab_exchange_or_null(self));
}

static ab_exchange *stream_of(VALUE self) {
  ab_exchange *exchange = ab_exchange_of(self);
  if (!exchange->streams || exchange->closed) rb_raise(rb_eIOError, "not opened for writing");
  return exchange;
}

/* call-seq: write(*objects) -> Integer
 *
 * Sends pieces of a streamed response, each as its to_s; waits while the client is slow to read.
 *
 * Returns their length in octets. Raises IOError after #close, after the request and when its
 * response is no stream; PeerError when the client has gone. */
static VALUE exchange_write(int argc, VALUE *argv, VALUE self) {
  size_t total = 0;
  for (int i = 0; i < argc; i++) {
    VALUE string = rb_obj_as_string(argv[i]);
    ab_response_content(stream_of(self), string);
    total += (size_t)RSTRING_LEN(string);
  }
  return SIZET2NUM(total);
}

/* call-seq: flush -> nil
 *
 * Sends at once what the socket takes of what was written. Raises as #write does. */
static VALUE exchange_flush(VALUE self) {
  ab_exchange *exchange = stream_of(self);
  ab_engine_lock(exchange->server->engine);
  ab_conn_flush(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
  return Qnil;
}

/* call-seq: close -> nil
 *
 * Ends a streamed response. Idempotent. */
static VALUE exchange_close(VALUE self) {
  ab_exchange *exchange = own_or_null(self);
  if (!exchange || !exchange->streams || exchange->closed) return Qnil;
  exchange->closed = true;
  ab_exchange_wake(exchange);
  return Qnil;
}

/* call-seq: closed? -> true or false */
static VALUE exchange_closed_p(VALUE self) {
  ab_exchange *exchange = own_or_null(self);
  return !exchange || !exchange->streams || exchange->closed ? Qtrue : Qfalse;
}

/* call-seq: gone? -> true or false
 *
 * Whether nobody is there any more to take the response: the connection was reset or has failed, or
 * the request is over. A peer that has only ended its own side counts as there until it has
 * answered our question by a reset (docs/deadlines.md, `half_close`). */
static VALUE exchange_gone_p(VALUE self) {
  ab_exchange *exchange = own_or_null(self);
  return !exchange || ab_cancel_gone(exchange) ? Qtrue : Qfalse;
}

/* call-seq: request_timeout = seconds or nil
 *
 * Gives the request so many seconds from now on, in place of what `request_timeout` has left; nil
 * lets it take as long as it wants, an event stream say.
 *
 * Raises IOError after the request, ArgumentError for what is no time, RangeError. */
static VALUE exchange_set_request_timeout(VALUE self, VALUE seconds) {
  ab_exchange_of(self);
  ab_nsec time = NIL_P(seconds) ? 0 : ab_seconds(seconds, "request_timeout: seconds or nil");
  ab_cancel_set_time(ab_exchange_of(self), time);
  return seconds;
}

/* call-seq: on_gone { ... } -> nil
 *
 * Has the block called once, when the client goes before it has its response: on a fiber of its
 * own, after the blocks given before; at once when the client has gone already. What it raises is
 * logged.
 *
 * Raises IOError after the request. */
static VALUE exchange_on_gone(VALUE self) {
  rb_need_block();
  VALUE block = rb_block_proc();
  ab_cancel_on_gone(ab_exchange_of(self), block);
  return Qnil;
}

/* call-seq: closing? -> true or false
 *
 * Whether the server is stopping, and waits for this request; also true once the request is over.
 */
static VALUE exchange_closing_p(VALUE self) {
  ab_exchange *exchange = own_or_null(self);
  return !exchange || exchange->server->draining ? Qtrue : Qfalse;
}

/* call-seq: on_shutdown { ... } -> nil
 *
 * Has the block called once, when the server begins to stop before the request is over: on a fiber
 * of its own, after the blocks given before; at once when it is stopping already. What it raises is
 * logged.
 *
 * Raises IOError after the request. */
static VALUE exchange_on_shutdown(VALUE self) {
  rb_need_block();
  VALUE block = rb_block_proc();
  ab_cancel_on_shutdown(ab_exchange_of(self), block);
  return Qnil;
}

void ab_init_exchange(VALUE mAbaca) {
  VALUE cExchange = rb_define_class_under(mAbaca, "Exchange", rb_cObject);
  rb_undef_alloc_func(cExchange);
  rb_undef_method(CLASS_OF(cExchange), "new");
  rb_define_method(cExchange, "call", ab_exchange_hijack, 0);
  rb_define_method(cExchange, "inform", ab_exchange_inform, 2);
  rb_define_method(cExchange, "write", exchange_write, -1);
  rb_define_method(cExchange, "flush", exchange_flush, 0);
  rb_define_method(cExchange, "close", exchange_close, 0);
  rb_define_method(cExchange, "closed?", exchange_closed_p, 0);
  rb_define_method(cExchange, "request_timeout=", exchange_set_request_timeout, 1);
  rb_define_method(cExchange, "gone?", exchange_gone_p, 0);
  rb_define_method(cExchange, "on_gone", exchange_on_gone, 0);
  rb_define_method(cExchange, "closing?", exchange_closing_p, 0);
  rb_define_method(cExchange, "on_shutdown", exchange_on_shutdown, 0);
  ab_init_deadline(cExchange);
}
