/* The head of a final response: status line, the app's fields, and those that say how the content
 * is delimited and what becomes of the connection (RFC 9112 4, 6, 9). */
#include <string.h>

#include "http1/write.h"
#include "rb/server/rb_response.h"

#define PUT(lines, literal) ab_lines_put(lines, literal, sizeof(literal) - 1)

/* A reset head must not remember what an earlier pass has found. */
static void put_fields(ab_lines *head, VALUE headers) {
  *head = ab_lines_begin(head->exchange, AB_SECTION_FINAL);
  char line[AB_STATUS_LINE_MAX];
  char *end = ab_write_status_line(line, head->exchange->status);
  if (ab_lines_put(head, line, (size_t)(end - line))) ab_lines_put_fields(head, headers);
}

VALUE ab_head_put(ab_lines *head, VALUE headers) {
  put_fields(head, headers);
  if (AB_UNLIKELY(head->odd)) {
    headers = ab_lines_plain(head, headers);
    put_fields(head, headers);
  }
  if (!head->problem && !head->has_date) {
    ab_lines_put(head, ab_engine_date(head->exchange->server->engine), AB_DATE_FIELD_LEN);
  }
  ab_lines_check(head);
  return headers;
}

static void put_length(ab_lines *head, uint64_t length) {
  static const char name[] = "Content-Length: ";
  char *field = ab_lines_room(head, sizeof(name) - 1 + AB_DECIMAL_MAX + 2);
  if (AB_UNLIKELY(!field)) return;
  memcpy(field, name, sizeof(name) - 1);
  char *end = ab_write_decimal(field + sizeof(name) - 1, length);
  memcpy(end, "\r\n", 2);
  head->used += (size_t)(end + 2 - field);
}

/* The names of trailers that are known already (RFC 9110 6.6.2). */
static int announce(VALUE name, VALUE value, VALUE arg) {
  (void)value;
  ab_lines *head = (ab_lines *)arg;
  if (!RB_TYPE_P(name, T_STRING) || !ab_is_token(RSTRING_PTR(name), (size_t)RSTRING_LEN(name))) {
    head->problem = "a trailer's name is not one";
  } else if (ab_lines_forbidden_trailer(name)) {
    head->problem = "a field that no trailer section may have";
  }
  if (head->problem) {
    head->problem_object = name;
    return ST_STOP;
  }
  if (head->has_trailer) PUT(head, ", ");
  head->has_trailer = true;
  return ab_lines_put(head, RSTRING_PTR(name), (size_t)RSTRING_LEN(name)) ? ST_CONTINUE : ST_STOP;
}

static void announce_trailers(ab_lines *head) {
  VALUE trailers = head->trailers;
  if (head->has_trailer || !RB_TYPE_P(trailers, T_HASH) || RHASH_EMPTY_P(trailers)) return;
  PUT(head, "Trailer: ");
  rb_hash_foreach(trailers, announce, (VALUE)head);
  PUT(head, "\r\n");
}

/* Without a length that anybody knows (RFC 9112 6.1, 6.3). */
static void put_unknown(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  if (exchange->http_1_0) {
    head->close = true; /* the end of the connection is the end of the content */
  } else if (!exchange->head_request || head->chunked) {
    exchange->chunked = !head->chunked;
    PUT(head, "Transfer-Encoding: chunked\r\n");
    if (exchange->chunked && !NIL_P(head->trailers)) announce_trailers(head);
  }
}

static void put_framing(ab_lines *head, uint64_t known) {
  ab_exchange *exchange = head->exchange;
  int status = exchange->status;
  exchange->no_content = exchange->head_request || status == 204 || status == 205 || status == 304;
  if (status == 204) return; /* neither field may be there (RFC 9110 8.6) */
  if (status == 205) {
    put_length(head, 0);
    return;
  }
  /* Only chunks leave room for trailers. */
  if (!NIL_P(head->trailers) && !exchange->http_1_0) known = UINT64_MAX;
  if (head->has_length || (known != UINT64_MAX && !head->chunked)) {
    uint64_t length = head->has_length ? head->length : known;
    /* A 304 describes what a 200 would have carried, which only the app can know. */
    if (status != 304 || head->has_length) put_length(head, length);
    exchange->has_length = true;
    exchange->body_left = length;
    return;
  }
  if (status != 304) put_unknown(head);
}

void ab_head_put_framing(ab_lines *head, uint64_t known) {
  if (AB_UNLIKELY(head->chunked)) {
    if (head->has_length) ab_response_refuse("Content-Length with Transfer-Encoding", Qnil);
    if (!NIL_P(head->trailers)) ab_response_refuse("abaca.trailers with Transfer-Encoding", Qnil);
  }
  put_framing(head, known);
  ab_lines_check(head);
}

/* Ends the head in the scratch buffer. [locked] */
static bool put_connection(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  if (head->close) ab_conn_close_after(exchange->conn);
  bool keep = ab_conn_keep_alive(exchange->conn);
  if (!keep) return PUT(head, "Connection: close\r\n\r\n");
  if (exchange->http_1_0) return PUT(head, "Connection: keep-alive\r\n\r\n");
  return PUT(head, "\r\n");
}

void ab_head_queue(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error = put_connection(head) ? AB_OK : AB_ENOMEM;
  if (!error) error = ab_conn_write(exchange->conn, exchange->runner->scratch, head->used);
  ab_engine_unlock(engine);
  if (error) ab_response_raise(error);
  exchange->head_sent = true;
}

void ab_head_answer(ab_lines *head, const char *content, size_t len) {
  ab_exchange *exchange = head->exchange;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error = put_connection(head) && ab_lines_put(head, content, len) ? AB_OK : AB_ENOMEM;
  if (!error) error = ab_conn_answer(exchange->conn, exchange->runner->scratch, head->used);
  ab_engine_unlock(engine);
  if (error) ab_response_raise(error);
  exchange->head_sent = true;
}
