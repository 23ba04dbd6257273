/* Abaca::Exchange, by which the app and lib/abaca/stream.rb reach a request. It is rack.hijack,
 * abaca.client and abaca.deadline in one, so that no request pays for what it does not use. */
#include "rb/rack/rb_call.h"
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
  ab_call_flush(stream_of(self));
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

static VALUE given_block(void) {
  rb_need_block();
  return rb_block_proc();
}

/* Calls the block if what it waits for has happened already. */
static VALUE call_or_keep(VALUE *blocks, VALUE block, bool now, int argc, const VALUE *argv) {
  if (now) {
    rb_proc_call_with_block(block, argc, argv, Qnil);
  } else {
    if (NIL_P(*blocks)) *blocks = rb_ary_new();
    rb_ary_push(*blocks, block);
  }
  return Qnil;
}

/* Looks at the socket itself: a fiber that only computes gives the engine no turn in which it could
 * have noticed. Of one that the app has taken over we know nothing. */
static bool has_gone(const ab_call *call) {
  if (!NIL_P(call->io)) return false;
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  bool gone = ab_exchange_look(call->exchange);
  ab_engine_unlock(engine);
  return gone;
}

/* call-seq: gone? -> true or false
 *
 * Whether the client can no longer take the response: the connection was reset or has failed, or
 * the request is over. A peer that has only ended its own side counts as there until it has
 * answered our question by a reset (docs/deadlines.md, `half_close`). */
static VALUE exchange_gone_p(VALUE self) {
  ab_call *call = own_or_null(self);
  return !call || has_gone(call) ? Qtrue : Qfalse;
}

/* call-seq: on_gone { ... } -> nil
 *
 * Has the block called once, when the client goes before it has its response: on a fiber of its
 * own, after the blocks given before; at once when the client has gone already. What it raises
 * is logged. Raises IOError after the request. */
static VALUE exchange_on_gone(VALUE self) {
  VALUE block = given_block();
  ab_call *call = ab_call_of(self);
  return call_or_keep(&call->on_gone, block, has_gone(call), 0, NULL);
}

/* call-seq: closing? -> true or false
 *
 * Whether the server is stopping and waits for this request; also true after the request. */
static VALUE exchange_closing_p(VALUE self) {
  ab_call *call = own_or_null(self);
  return !call || call->rack->draining ? Qtrue : Qfalse;
}

/* call-seq: on_shutdown { ... } -> nil
 *
 * Has the block called once, when the server begins to stop before the request is over: on a
 * fiber of its own, after the blocks given before; at once when it is stopping already. What it
 * raises is logged. Raises IOError after the request. */
static VALUE exchange_on_shutdown(VALUE self) {
  VALUE block = given_block();
  ab_call *call = ab_call_of(self);
  return call_or_keep(&call->on_shutdown, block, call->rack->draining, 0, NULL);
}

/* Seconds as a time; those that no clock counts are very long. `what` is for the message. */
static ab_nsec seconds_of(VALUE seconds, const char *what) {
  double time = NUM2DBL(seconds);
  if (!(time > 0)) {
    rb_raise(rb_eArgError, "%s is needed, not %" PRIsVALUE, what, rb_inspect(seconds));
  }
  return time < (double)UINT32_MAX ? (ab_nsec)(time * (double)AB_NSEC_PER_SEC)
                                   : ab_limit_nsec(UINT32_MAX);
}

static void change_time(ab_call *call, void (*change)(ab_exchange *exchange, ab_nsec time),
                        ab_nsec time) {
  ab_rack *rack = call->rack;
  ab_engine_lock(rack->engine);
  ab_runner_pass_time(call->runner);
  change(call->exchange, time);
  ab_engine_unlock(rack->engine);
  call->news &= ~(unsigned)AB_EVENT_DEADLINE;
  call->overdue = 0;
  ab_rack_tell_leader(rack); /* whatever waits may have to wait shorter */
}

/* call-seq: request_timeout = seconds or nil
 *
 * Gives the request this many seconds from now on, in place of what `request_timeout` has left;
 * nil removes the limit, for an event stream for example. Raises IOError after the request,
 * ArgumentError for anything but a time, RangeError. */
static VALUE exchange_set_request_timeout(VALUE self, VALUE seconds) {
  ab_call_of(self);
  ab_nsec time = NIL_P(seconds) ? 0 : seconds_of(seconds, "request_timeout: seconds or nil");
  change_time(ab_call_of(self), ab_exchange_set_time, time);
  return seconds;
}

/* call-seq: remaining -> Float or nil
 *
 * Seconds until the request's time is over, 0.0 once it is; nil without a limit. Raises IOError
 * after the request. */
static VALUE exchange_remaining(VALUE self) {
  ab_call *call = ab_call_of(self);
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  bool over = ab_exchange_news(call->exchange) & AB_EVENT_DEADLINE;
  ab_nsec deadline = ab_exchange_deadline(call->exchange), now = ab_clock_monotonic();
  ab_engine_unlock(engine);
  if (!over && !deadline) return Qnil;
  return ab_float_seconds(!over && deadline > now ? deadline - now : 0);
}

/* call-seq: add_time(seconds) -> Float or nil
 *
 * Adds to the request's time, or gives it a new deadline from now on when the old one has
 * passed. A request without a deadline stays without one. Returns what #remaining then is.
 * Raises IOError after the request, ArgumentError or TypeError for what is not a positive
 * number. */
static VALUE exchange_add_time(VALUE self, VALUE seconds) {
  ab_call_of(self);
  ab_nsec time = seconds_of(seconds, "add_time: a positive number of seconds");
  change_time(ab_call_of(self), ab_exchange_add_time, time);
  return exchange_remaining(self);
}

/* call-seq: on_cancel { |exception| ... } -> nil
 *
 * Has the block called once, when the server ends the request's work: on a fiber of its own,
 * before the exception is raised where the request waits, and also if it does not wait. At once
 * when that has happened already. What it raises is logged. Raises IOError after the request. */
static VALUE exchange_on_cancel(VALUE self) {
  VALUE block = given_block();
  ab_call *call = ab_call_of(self);
  VALUE cancelled = call->cancelled;
  return call_or_keep(&call->on_cancel, block, !NIL_P(cancelled), 1, &cancelled);
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
  rb_define_method(cExchange, "remaining", exchange_remaining, 0);
  rb_define_method(cExchange, "add_time", exchange_add_time, 1);
  rb_define_method(cExchange, "on_cancel", exchange_on_cancel, 0);
}
