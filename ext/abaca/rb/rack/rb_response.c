/* The triplet that an app returns, and the server's answers in its place (Rack SPEC). */
#include "rb/rack/rb_response.h"

#include "rb/rack/rb_sight.h"
#include "rb/rack/rb_timing.h"

/* 200, "200", or what converts (Rack SPEC, "The Status"). Of 100 to 199, which cannot be a final
 * status (RFC 9110 15.2), only 101 is one for an app to give. */
static int parse_status(VALUE status) {
  long number = 0;
  if (FIXNUM_P(status)) {
    number = FIX2LONG(status);
  } else if (RB_TYPE_P(status, T_STRING)) {
    const char *digits = RSTRING_PTR(status);
    bool three = RSTRING_LEN(status) == 3;
    for (int i = 0; three && i < 3; i++) three = digits[i] >= '0' && digits[i] <= '9';
    if (three) number = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
  } else if (rb_respond_to(status, rb_intern("to_i"))) {
    VALUE converted = rb_funcall(status, rb_intern("to_i"), 0);
    if (FIXNUM_P(converted)) number = FIX2LONG(converted);
  }
  if (number != 101 && (number < 200 || number > 999)) {
    ab_response_refuse("the status is not one of 200 to 999", status);
  }
  return (int)number;
}

/* The body has to be closed, whatever becomes of the response. Only an Array without methods of its
 * own is known to need none. */
static void take_body(ab_call *call, VALUE result) {
  if (RARRAY_LEN(result) < 3) return;
  call->body = RARRAY_AREF(result, 2);
  call->body_open = !RB_TYPE_P(call->body, T_ARRAY) || CLASS_OF(call->body) != rb_cArray;
}

void ab_response_write(ab_call *call) {
  VALUE result = call->result;
  if (!RB_TYPE_P(result, T_ARRAY)) {
    VALUE array = call->hijacked ? Qnil : rb_check_array_type(result);
    if (call->hijacked) return;
    if (NIL_P(array)) ab_response_refuse("it is not an Array", result);
    result = call->result = array;
  }
  take_body(call, result);
  if (AB_UNLIKELY(call->hijacked)) return; /* there is no client to answer */
  if (RARRAY_LEN(result) != 3) ab_response_refuse("it has not three members", result);
  call->status = parse_status(RARRAY_AREF(result, 0));
  ab_timing_allow(call);
  VALUE headers = call->headers = ab_lines_hash(RARRAY_AREF(result, 1));
  ab_body_write(call, headers, call->body);
  RB_GC_GUARD(headers);
  RB_GC_GUARD(result);
}

void ab_response_close_body(ab_call *call) {
  call->yields = false; /* also when its each has raised */
  if (!call->body_open) return;
  call->body_open = false;
  if (rb_respond_to(call->body, rb_intern("close"))) {
    rb_funcall(call->body, rb_intern("close"), 0);
  }
}

void ab_response_error(ab_call *call, int status) {
  if (call->head_sent) return;
  ab_engine *engine = call->rack->engine;
  call->status = status;
  call->headers = Qnil;
  ab_engine_lock(engine);
  ab_runner_pass_time(call->runner);
  size_t content = 0;
  call->head_sent = call->complete =
      ab_exchange_answer_error(call->exchange, status, &content) == AB_OK;
  ab_engine_unlock(engine);
  call->body_sent = content;
  if (call->head_sent) ab_sight_answers(call);
}

void ab_response_last(ab_call *call, int status) {
  ab_engine_lock(call->rack->engine);
  ab_exchange_close_after(call->exchange);
  ab_engine_unlock(call->rack->engine);
  ab_response_error(call, status);
}
