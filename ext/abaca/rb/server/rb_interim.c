/* Interim responses that the app asks for: early hints and the like (RFC 9110 15.2, RFC 8297).
 * "100 Continue" and "101 Switching Protocols" are not among them: the one is sent when the body is
 * asked for, the other is a response of its own. */
#include "http1/write.h"
#include "rb/server/rb_response.h"

static int interim_status(VALUE status) {
  long number = NUM2LONG(status);
  if (number < 102 || number > 199) {
    rb_raise(rb_eArgError, "the status of an interim response is one of 102 to 199, not %ld",
             number);
  }
  return (int)number;
}

/* HTTP/1.0 knows none (RFC 9110 15.2), and behind the final head it is too late. */
static bool can_inform(ab_exchange *exchange) {
  if (exchange->http_1_0 || exchange->head_sent) return false;
  ab_engine_lock(exchange->server->engine);
  bool gone = ab_conn_gone(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
  return !gone;
}

/* call-seq: inform(status, headers) -> true or false
 *
 * Sends an interim response with status 102 to 199, for instance 103 with Link fields (RFC 8297).
 * A value may be an Array, or have lines: each becomes a field line of its own.
 *
 * Returns false, and sends nothing, when the client speaks HTTP/1.0 or has gone, or the response
 * has begun. Raises ArgumentError for another status, AppError for a field that cannot be sent or
 * that no interim response may have, IOError after the request. */
VALUE ab_exchange_inform(VALUE self, VALUE status, VALUE headers) {
  ab_exchange_of(self);
  int number = interim_status(status);
  VALUE fields = ab_lines_plain_hash(ab_exchange_of(self), AB_SECTION_INTERIM, headers);
  ab_exchange *exchange = ab_exchange_of(self); /* that was the app's code, and may have waited */
  if (!can_inform(exchange)) return Qfalse;
  ab_lines lines = ab_lines_begin(exchange, AB_SECTION_INTERIM);
  char line[AB_STATUS_LINE_MAX];
  char *end = ab_write_status_line(line, number);
  if (ab_lines_put(&lines, line, (size_t)(end - line))) ab_lines_put_fields(&lines, fields);
  if (!lines.problem) ab_lines_put(&lines, "\r\n", 2);
  ab_lines_check(&lines);
  ab_engine_lock(exchange->server->engine);
  int error = ab_conn_write(exchange->conn, exchange->runner->scratch, lines.used);
  if (!error) ab_conn_flush(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
  RB_GC_GUARD(fields);
  if (error == AB_EPEER) return Qfalse;
  if (error) ab_response_raise(error);
  ab_response_wait(exchange, ab_conn_want_room);
  return Qtrue;
}
