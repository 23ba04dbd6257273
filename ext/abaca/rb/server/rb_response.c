/* The response writer's entry: the triplet that an app returns, and the answers that the server
 * gives in its place (Rack SPEC, "The Response"). */
#include "rb/server/rb_response.h"

#include <string.h>

#include "http1/write.h"

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
static void take_body(ab_exchange *exchange, VALUE result) {
  if (RARRAY_LEN(result) < 3) return;
  exchange->body = RARRAY_AREF(result, 2);
  exchange->body_open =
      !RB_TYPE_P(exchange->body, T_ARRAY) || CLASS_OF(exchange->body) != rb_cArray;
}

void ab_response_write(ab_exchange *exchange) {
  VALUE result = exchange->result;
  if (!RB_TYPE_P(result, T_ARRAY)) {
    VALUE array = exchange->hijacked ? Qnil : rb_check_array_type(result);
    if (exchange->hijacked) return;
    if (NIL_P(array)) ab_response_refuse("it is not an Array", result);
    result = exchange->result = array;
  }
  take_body(exchange, result);
  if (AB_UNLIKELY(exchange->hijacked)) return; /* nobody is there to be answered */
  if (RARRAY_LEN(result) != 3) ab_response_refuse("it has not three members", result);
  exchange->status = parse_status(RARRAY_AREF(result, 0));
  VALUE headers = exchange->headers = ab_lines_hash(RARRAY_AREF(result, 1));
  ab_lines head = {.exchange = exchange};
  ab_body_write(&head, headers, exchange->body);
  RB_GC_GUARD(headers);
  RB_GC_GUARD(result);
}

void ab_response_close_body(ab_exchange *exchange) {
  exchange->yields = false; /* also when its each has raised */
  if (!exchange->body_open) return;
  exchange->body_open = false;
  if (rb_respond_to(exchange->body, rb_intern("close"))) {
    rb_funcall(exchange->body, rb_intern("close"), 0);
  }
}

void ab_response_error(ab_exchange *exchange, int status) {
  if (exchange->head_sent) return;
  ab_engine *engine = exchange->server->engine;
  exchange->status = status;
  exchange->headers = Qnil;
  ab_engine_lock(engine);
  ab_server_pass_time(exchange->runner);
  enum ab_write_connection connection = !ab_conn_keep_alive(exchange->conn) ? AB_WRITE_CLOSE
                                        : exchange->http_1_0                ? AB_WRITE_KEEP_IN_1_0
                                                                            : AB_WRITE_KEEP;
  ab_view date = {ab_engine_date(engine), AB_DATE_FIELD_LEN};
  char text[AB_ERROR_MAX];
  size_t content;
  char *end = ab_write_error(text, status, date, connection, exchange->head_request, &content);
  exchange->head_sent = exchange->complete =
      ab_conn_write(exchange->conn, text, (size_t)(end - text)) == AB_OK;
  ab_engine_unlock(engine);
  exchange->body_sent = content;
}
