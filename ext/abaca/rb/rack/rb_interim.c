/* Interim responses that the app asks for (RFC 9110 15.2, RFC 8297). 100 is sent when the body is
 * asked for, and 101 is a response of its own. */
#include "rb/rack/rb_response.h"

static int interim_status(VALUE status) {
  long number = NUM2LONG(status);
  if (number < 102 || number > 199) {
    rb_raise(rb_eArgError, "the status of an interim response is one of 102 to 199, not %ld",
             number);
  }
  return (int)number;
}

/* call-seq: inform(status, headers) -> true or false
 *
 * Sends an interim response with status 102 to 199, for instance 103 with Link fields (RFC
 * 8297). A value may be an Array, or have lines: each becomes a field line of its own. Returns
 * false, and sends nothing, when the client speaks HTTP/1.0 or has gone, or the response has
 * begun. Raises ArgumentError for another status, AppError for a field that cannot be sent or
 * that no interim response may have, IOError after the request. */
VALUE ab_call_inform(VALUE self, VALUE status, VALUE headers) {
  ab_call_of(self);
  int number = interim_status(status);
  VALUE fields = ab_lines_hash(headers);
  ab_lines lines = {.call = ab_call_of(self)}; /* that was the app's code, and may have waited */
  fields = ab_lines_fill(&lines, AB_SECTION_INTERIM, number, fields);
  ab_call *call = lines.call;
  /* HTTP/1.0 knows none (RFC 9110 15.2), and behind the final head it is too late. */
  if (call->http_1_0 || call->head_sent || ab_call_gone(call)) return Qfalse;
  ab_lines_room(&lines, AB_HEAD_END_MAX);
  ab_lines_check(&lines);
  ab_engine_lock(call->rack->engine);
  int error = ab_exchange_inform(call->exchange, call->runner->scratch, lines.used);
  ab_engine_unlock(call->rack->engine);
  RB_GC_GUARD(fields);
  if (error == AB_EPEER) return Qfalse;
  if (error) ab_response_raise(error);
  ab_response_wait(call, ab_exchange_want_room);
  return Qtrue;
}
