/* Abaca::Exchange, the handle through which the app (as rack.hijack and abaca.client) and
 * lib/abaca/stream.rb reach a request. */
#include "rb/rack/rb_handle.h"

#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_deadline.h"
#include "rb/rack/rb_response.h"

static ab_call *own_or_null(VALUE self) {
  return ab_call_own(ab_call_or_null(self));
}

static ab_call *stream_of(VALUE self) {
  ab_call *call = ab_call_of(self);
  if (!call->streams || call->closed) rb_raise(rb_eIOError, "not opened for writing");
  return call;
}

/* call-seq: write(*objects) -> Integer
 *
 * Sends pieces of a streamed response, each as its to_s; waits while the client is slow to read.
 *
 * Returns their length in bytes. Raises IOError after #close, after the request and when its
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
  ab_call *call = stream_of(self);
  ab_engine_lock(call->rack->engine);
  ab_exchange_flush(call->exchange);
  ab_engine_unlock(call->rack->engine);
  return Qnil;
}

/* call-seq: close -> nil
 *
 * Ends a streamed response. Idempotent. */
static VALUE exchange_close(VALUE self) {
  ab_call *call = own_or_null(self);
  if (!call || !call->streams || call->closed) return Qnil;
  call->closed = true;
  ab_call_wake(call);
  return Qnil;
}

/* call-seq: closed? -> true or false */
static VALUE exchange_closed_p(VALUE self) {
  ab_call *call = own_or_null(self);
  return !call || !call->streams || call->closed ? Qtrue : Qfalse;
}

/* call-seq: gone? -> true or false
 *
 * Whether the client can no longer take the response: the connection was reset or has failed, or
 * the request is over. A peer that has only ended its own side counts as there until it has
 * answered our question by a reset (docs/deadlines.md, `half_close`). */
static VALUE exchange_gone_p(VALUE self) {
  ab_call *call = own_or_null(self);
  return !call || ab_cancel_gone(call) ? Qtrue : Qfalse;
}

/* call-seq: request_timeout = seconds or nil
 *
 * Gives the request this many seconds from now on, in place of what `request_timeout` has left; nil
 * removes the limit, for an event stream for example.
 *
 * Raises IOError after the request, ArgumentError for anything but a time, RangeError. */
static VALUE exchange_set_request_timeout(VALUE self, VALUE seconds) {
  ab_call_of(self);
  ab_nsec time = NIL_P(seconds) ? 0 : ab_seconds(seconds, "request_timeout: seconds or nil");
  ab_cancel_set_time(ab_call_of(self), time);
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
  ab_cancel_on_gone(ab_call_of(self), block);
  return Qnil;
}

/* call-seq: closing? -> true or false
 *
 * Whether the server is stopping, and waits for this request; also true once the request is over.
 */
static VALUE exchange_closing_p(VALUE self) {
  ab_call *call = own_or_null(self);
  return !call || call->rack->draining ? Qtrue : Qfalse;
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
  ab_cancel_on_shutdown(ab_call_of(self), block);
  return Qnil;
}

void ab_init_handle(VALUE mAbaca) {
  VALUE cExchange = ab_init_call(mAbaca);
  rb_define_method(cExchange, "call", ab_call_hijack, 0);
  rb_define_method(cExchange, "inform", ab_call_inform, 2);
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
