/* The response writer's entry: the triplet that an app returns, and the answers that the server
 * gives in its place (Rack SPEC, "The Response"). */
#include "rb/rb_response.h"

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

/* The body has to be closed, whatever becomes of the response. */
static void take_body(ab_exchange *exchange, VALUE result) {
  if (RARRAY_LEN(result) < 3) return;
  exchange->body = RARRAY_AREF(result, 2);
  exchange->body_open = !RB_TYPE_P(exchange->body, T_ARRAY);
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
  if (!exchange->body_open) return;
  exchange->body_open = false;
  if (rb_respond_to(exchange->body, rb_intern("close"))) {
    rb_funcall(exchange->body, rb_intern("close"), 0);
  }
}

void ab_response_error(ab_exchange *exchange, int status) {
  if (exchange->head_sent) return;
  ab_server *server = exchange->server;
  const char *phrase = ab_status_phrase(status);
  size_t length = strlen(phrase) + 5; /* "500 Internal Server Error\n" */
  char text[512], *p = ab_write_status_line(text, status);
  static const char type[] = "Content-Type: text/plain\r\nContent-Length: ";
  memcpy(p, type, sizeof(type) - 1);
  p = ab_write_decimal(p + sizeof(type) - 1, length);
  memcpy(p, "\r\n", 2);
  memcpy(p + 2, ab_engine_date(server->engine), AB_DATE_FIELD_LEN);
  p += 2 + AB_DATE_FIELD_LEN;

  exchange->status = status;
  exchange->headers = Qnil;
  ab_engine_lock(server->engine);
  static const char close[] = "Connection: close\r\n\r\n";
  static const char keep[] = "Connection: keep-alive\r\n\r\n";
  if (!ab_conn_keep_alive(exchange->conn)) {
    memcpy(p, close, sizeof(close) - 1);
    p += sizeof(close) - 1;
  } else if (exchange->http_1_0) {
    memcpy(p, keep, sizeof(keep) - 1);
    p += sizeof(keep) - 1;
  } else {
    memcpy(p, "\r\n", 2);
    p += 2;
  }
  if (!exchange->head_request) {
    p = ab_write_decimal(p, (uint64_t)status);
    *p++ = ' ';
    memcpy(p, phrase, length - 5);
    p += length - 5;
    *p++ = '\n';
    exchange->body_sent = length;
  }
  exchange->head_sent = exchange->complete =
      ab_conn_write(exchange->conn, text, (size_t)(p - text)) == AB_OK;
  ab_engine_unlock(server->engine);
}
