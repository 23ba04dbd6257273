/* HTTP/1 on a connection: bytes become exchanges, responses become bytes. All functions run with
 * the lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/conn.h"
#include "http1/sniff.h"

/* --- the head --- */

static bool read_head(ab_conn *conn) {
  if (conn->in_len > 0) {
    if (!ab__conn_read_behind(conn, AB_RECV_MIN)) return false;
  } else if (!ab__conn_fill(conn)) {
    bool idle = conn->state == AB_CONN_HEAD && !conn->readable;
    if (AB_UNLIKELY(conn->parting) && idle) ab__conn_leave(conn);
    return false;
  }
  conn->parsed = false;
  return true;
}

/* Parses the head at `in` into the arena. As ab_head_parse; AB_ENOMEM when the arena is full. */
static int parse(ab_conn *conn, const ab_head **result) {
  ab_engine *engine = conn->engine;
  if (ab_arena_left(&engine->arena) < engine->request_room) return AB_ENOMEM;
  ab_head *head = (ab_head *)(void *)ab_arena_top(&engine->arena);
  ab_field *fields = (ab_field *)(void *)(head + 1);
  int size = ab_head_parse(conn->in, conn->in_len, ab__conn_limits(conn), engine->methods,
                           &conn->progress, head, fields);
  if (size > 0) {
    ab_arena_take(&engine->arena, sizeof(*head) + head->request.field_count * sizeof(ab_field));
    *result = head;
  }
  return size;
}

/* The parsed form is lost when the connection was settled. */
static const ab_request *http1_recall(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  ab_head_progress untouched = conn->progress;
  conn->progress = (ab_head_progress){0};
  const ab_head *head;
  bool parsed = ab__engine_touch(conn) && parse(conn, &head) > 0;
  conn->progress = untouched;
  return parsed ? &head->request : NULL;
}

/* The head at `in` is complete: that is enough for the application, which reads the body itself,
 * unless it is to be buffered. */
static bool begin_request(ab_conn *conn, const ab_head *head) {
  conn->progress = (ab_head_progress){0};
  if (AB_UNLIKELY(conn->engine->answers) && ab__own_answer(conn, head)) {
    return conn->state == AB_CONN_HEAD;
  }
  conn->lingers = false;
  conn->turn_requests++;
  ab_exchange *exchange = ab__exchange_begin(conn, &head->request, &head->framing);
  if (!exchange) {
    ab__conn_fail_head(conn, AB_HTTP_NO_MEMORY, head->request.is_head);
    return false;
  }
  exchange->consume = head->size;
  return ab__exchange_admit(exchange, &head->framing);
}

static void refuse_head(ab_conn *conn, int error) {
  const char *sniffed = conn->served == 0 ? ab_sniff_protocol(conn->in, conn->in_len) : NULL;
  if (sniffed) ab__engine_notice(conn, sniffed);
  ab__conn_fail(conn, error);
}

/* When the arena is empty, and all others have had a turn. */
static bool wait_for_a_turn(ab_conn *conn) {
  ab__engine_ready(conn);
  return false;
}

static bool advance_head(ab_conn *conn) {
  /* A client's further requests stay in the socket until it reads its responses. */
  bool stands = conn->blocked || ab__load_waits(conn);
  if (stands && ab__conn_is_full(conn)) return false;
  if (conn->in_len > 0 && !conn->parsed) {
    if (AB_UNLIKELY(conn->proxied)) return ab__conn_read_proxy_header(conn);
    if (AB_UNLIKELY(conn->undecided)) return ab__http2.choose(conn);
    if (conn->turn_requests >= AB_TURN_REQUESTS) return wait_for_a_turn(conn);
    const ab_head *head;
    int size = parse(conn, &head);
    if (size > 0) return begin_request(conn, head);
    if (size == AB_ENOMEM) return wait_for_a_turn(conn);
    if (size != AB_AGAIN) {
      refuse_head(conn, size);
      return false;
    }
    conn->parsed = true;
  }
  return conn->readable && read_head(conn);
}

/* --- the body --- */

static bool buffer_body(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  int result = ab__buffer_look(exchange);
  if (result == AB_OK) {
    ab__exchange_queue(exchange);
  } else if (result != AB_AGAIN) {
    ab__conn_fail(conn, result);
  } else if (conn->readable) {
    exchange->request = NULL; /* its bytes may move */
    return ab__conn_read_behind(conn, ab__buffer_room(exchange));
  }
  return false;
}

static bool skip_body(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (conn->in_len == 0 && !(conn->readable && ab__conn_fill(conn))) return false;
  if (ab__exchange_skip(exchange)) {
    ab__conn_await_request(conn);
    return true;
  }
  if (!exchange->body->chunked) return true;
  ab__conn_close(conn); /* its end was here, and something else has come to light before it */
  return false;
}

static bool advance_exchange(ab_exchange *exchange) {
  if (exchange->state == AB_EXCHANGE_BUFFER) return buffer_body(exchange);
  if (exchange->state == AB_EXCHANGE_SKIP) return skip_body(exchange);
  bool told =
      exchange->state == AB_EXCHANGE_APP && exchange->wants_body && exchange->conn->readable;
  if (told) ab__exchange_tell_body(exchange, AB_OK);
  return false;
}

static bool http1_advance(ab_conn *conn) {
  return conn->state == AB_CONN_HEAD ? advance_head(conn) : advance_exchange(conn->exchange);
}

/* --- the end of the connection --- */

static void http1_drain(ab_conn *conn) {
  if (conn->state == AB_CONN_HEAD && conn->in_len == 0) ab__conn_hurry(conn);
}

static void http1_refuse(ab_conn *conn) {
  if (ab__conn_has(conn, AB_EXCHANGE_QUEUED) || ab__conn_has(conn, AB_EXCHANGE_BUFFER)) {
    ab__conn_reject_late(conn);
  } else if (ab__conn_has(conn, AB_EXCHANGE_SKIP)) {
    ab__conn_close(conn);
  } else if (conn->state == AB_CONN_HEAD) {
    if (conn->in_len > 0) {
      ab__conn_hurry(conn);
    } else {
      ab__conn_part(conn);
    }
  }
}

/* --- responses --- */

#define CHUNK_END_LEN (sizeof(AB_CHUNK_END) - 1)

static char *http1_put_framing(const ab_exchange *exchange, char *dst, ab_content *content) {
  return ab_write_framing(dst, content, exchange->answers_head, exchange->http_1_0);
}

static enum ab_write_connection connection_of(ab_exchange *exchange) {
  if (!ab__exchange_keeps(exchange)) return AB_WRITE_CLOSE;
  return exchange->http_1_0 ? AB_WRITE_KEEP_IN_1_0 : AB_WRITE_KEEP;
}

static int head(ab_exchange *exchange, char *text, size_t len, const ab_content *content,
                const char *whole, size_t count) {
  if (content->closes) ab_exchange_close_after(exchange);
  exchange->framed = content->chunked;
  char *end = ab_write_head_end(text + len, connection_of(exchange));
  if (!whole) return ab__conn_write(exchange->conn, text, (size_t)(end - text));
  memcpy(end, whole, count);
  return ab__conn_write_last(exchange->conn, text, (size_t)(end - text) + count);
}

static int write_interim(ab_exchange *exchange, char *text, size_t len) {
  char *end = ab_write_empty_line(text + len);
  return ab__conn_write(exchange->conn, text, (size_t)(end - text));
}

static int http1_inform(ab_exchange *exchange, char *text, size_t len) {
  int error = write_interim(exchange, text, len);
  if (!error) ab__conn_flush(exchange->conn);
  return error;
}

static int http1_switch_to(ab_exchange *exchange, char *text, size_t len) {
  ab_exchange_close_after(exchange); /* no HTTP follows, of the engine's own neither */
  return write_interim(exchange, text, len);
}

static int http1_write_continue(ab_conn *conn) {
  return ab__conn_write(conn, AB_CONTINUE, sizeof(AB_CONTINUE) - 1);
}

static int http1_write_error(ab_conn *conn, int status, enum ab_write_connection connection,
                             bool answers_head, size_t *content) {
  char text[AB_ERROR_MAX];
  ab_view date = {conn->engine->date, AB_DATE_FIELD_LEN};
  char *end = ab_write_error(text, status, date, connection, answers_head, content);
  return ab__conn_write(conn, text, (size_t)(end - text));
}

static int http1_answer_error(ab_exchange *exchange, int status, size_t *content) {
  return http1_write_error(exchange->conn, status, connection_of(exchange), exchange->answers_head,
                           content);
}

/* After a head that says how long a chunk is, nothing else may come, so what cannot be queued whole
 * is not begun: afterwards there is memory for this many slices of content, and for the end. */
static int http1_begin_piece(ab_exchange *exchange, uint64_t len, uint32_t slices) {
  ab_outbox *out = exchange->conn->out;
  char head[AB_CHUNK_HEAD_MAX];
  int error = ab_outbox_prepare(out, slices + 2, AB_CHUNK_HEAD_MAX + CHUNK_END_LEN);
  if (error) return error;
  return ab_outbox_write(out, head, (size_t)(ab_write_chunk_head(head, len) - head));
}

static int http1_end_piece(ab_exchange *exchange) {
  return ab_outbox_write(exchange->conn->out, AB_CHUNK_END, CHUNK_END_LEN);
}

static int http1_send_piece(ab_exchange *exchange, const char *ptr, size_t len) {
  char head[AB_CHUNK_HEAD_MAX];
  const struct iovec iov[] = {{head, (size_t)(ab_write_chunk_head(head, len) - head)},
                              {(char *)ptr, len},
                              {(char *)AB_CHUNK_END, CHUNK_END_LEN}};
  return ab__conn_send(exchange->conn, iov, 3);
}

static int http1_end_content(ab_exchange *exchange, const char *trailers, size_t len) {
  ab_outbox *out = exchange->conn->out;
  int error = ab_outbox_write(out, AB_LAST_CHUNK, sizeof(AB_LAST_CHUNK) - 1);
  if (!error && len > 0) error = ab_outbox_write(out, trailers, len);
  return error ? error : http1_end_piece(exchange);
}

/* --- the end of a response --- */

/* Whatever has begun since: if the head did not say that the connection ends, the peer may have
 * sent another request. */
static bool http1_keeps(ab_exchange *exchange, enum ab_finish how) {
  return how == AB_FINISH_COMPLETE && ab__exchange_keeps(exchange) &&
         exchange->body_error == AB_OK && ab__exchange_can_skip(exchange);
}

static void begin_skip(ab_exchange *exchange) {
  exchange->app = NULL;
  exchange->deadline = 0;
  exchange->expects = exchange->wants_body = exchange->wants_room = false;
  ab__engine_event(exchange, 0);
  ab__exchange_become(exchange, AB_EXCHANGE_SKIP);
}

static bool between_requests(const ab_conn *conn) {
  return conn->state == AB_CONN_HEAD || ab__conn_has(conn, AB_EXCHANGE_SKIP);
}

/* The next request may have come already, and what was written goes out. */
static void http1_go_on(ab_conn *conn) {
  if (conn->out && ab__conn_is_full(conn)) ab__conn_flush(conn);
  if (conn->state == AB_CONN_DEAD) return;
  if (conn->in_len > 0) {
    ab__conn_advance(conn); /* the next pipelined request */
  } else if (conn->readable) {
    ab__engine_ready(conn);
  }
  /* Responses to requests that came together leave together, at the latest when the turn ends. */
  if (!between_requests(conn)) return;
  if (conn->out) ab__conn_flush(conn);
  if (!between_requests(conn)) return;
  if (AB_UNLIKELY(conn->engine->draining)) {
    ab__conn_hurry(conn);
  } else {
    ab__conn_rearm(conn);
  }
}

static void http1_finish(ab_exchange *exchange, enum ab_finish how) {
  ab_conn *conn = exchange->conn;
  bool keep = http1_keeps(exchange, how), rest = exchange->body && !exchange->body->done;
  if (rest) conn->lingers = true;
  if (how == AB_FINISH_RESET) conn->resets = true;
  if (!keep) {
    ab__conn_close(conn);
    return;
  }
  if (rest) {
    begin_skip(exchange);
  } else {
    ab__conn_await_request(conn);
  }
  if (AB_UNLIKELY(conn->engine->refusing)) http1_refuse(conn);
  http1_go_on(conn);
}

static void http1_abort_response(ab_exchange *exchange, enum ab_finish how) {
  ab_conn *conn = exchange->conn;
  ab__conn_flush(conn);
  if (conn->state == AB_CONN_DEAD) return;
  if (how == AB_FINISH_RESET) conn->resets = true;
  ab__conn_drop(conn);
}

const ab_protocol ab__http1 = {.advance = http1_advance,
                               .drain = http1_drain,
                               .refuse = http1_refuse,
                               .recall = http1_recall,
                               .put_framing = http1_put_framing,
                               .head = head,
                               .inform = http1_inform,
                               .switch_to = http1_switch_to,
                               .write_continue = http1_write_continue,
                               .write_error = http1_write_error,
                               .answer_error = http1_answer_error,
                               .begin_piece = http1_begin_piece,
                               .end_piece = http1_end_piece,
                               .send_piece = http1_send_piece,
                               .end_content = http1_end_content,
                               .finish = http1_finish,
                               .abort = http1_abort_response};
