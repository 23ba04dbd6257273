/* A stream of HTTP/2 as a connection of its own (http2.h): what its session tells becomes an
 * exchange, its response goes to the session. All functions run with the lock held unless engine.h
 * says otherwise. */
#include <string.h>

#include "engine/http2.h"
#include "http/char.h"
#include "io/storage.h"

/* --- requests --- */

static const ab_request *stream_recall(ab_exchange *exchange) {
  return exchange->own_head;
}

bool ab_exchange_is_stream(const ab_exchange *exchange) {
  return exchange->conn->speaks == AB_SPEAKS_STREAM;
}

const ab_tls *ab_exchange_tls(const ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  if (conn->speaks == AB_SPEAKS_STREAM) conn = conn->stream ? conn->stream->session->conn : NULL;
  return conn && ab_link_open(&conn->link) ? ab_link_session(&conn->link) : NULL;
}

/* Its connection, which has no socket. NULL without memory. */
static ab_conn *open_stream(ab_session *session, ab_h2_stream *h2) {
  const ab_conn *parent = session->conn;
  ab_engine *engine = parent->engine;
  ab_stream *stream = ab_slab_take(&engine->streams);
  if (!stream) return NULL;
  ab_conn *conn = ab__conn_take(engine);
  if (!conn) {
    ab_slab_give(&engine->streams, stream);
    return NULL;
  }
  *stream = (ab_stream){.session = session, .h2 = h2, .conn = conn, .code = AB_H2_CANCEL};
  ab_list_init(&stream->link);
  session->live++;
  ab_h2_stream_set_app(h2, stream);
  conn->link.watch.fd = -1;
  conn->service = parent->service;
  conn->peer = parent->peer;
  conn->stream = stream;
  conn->speaks = AB_SPEAKS_STREAM;
  conn->registered = true; /* with what wakes it: its session */
  ab__conn_become(conn, AB_CONN_HEAD);
  return conn;
}

/* A body without a declared length is as long as any may be, until its end comes. */
static ab_framing framing_of(const ab_conn *conn, const ab_h2_head *head, bool ended) {
  uint64_t most = ab__conn_limits(conn)->max_body_size;
  bool declared = head->length != UINT64_MAX;
  return (ab_framing){.body = ended ? AB_BODY_NONE : AB_BODY_LENGTH,
                      .length = declared ? head->length
                                : most   ? most
                                         : AB_BODY_CEILING,
                      .has_length = declared,
                      .expect_continue = head->expects_continue && !ended};
}

/* The peer of a gRPC call may wait for an answer before it sends more: its type begins so. */
static bool is_grpc(const ab_request *request) {
  static const char type[] = "application/grpc";
  size_t len = sizeof type - 1;
  if (!(request->known & 1u << AB_FIELD_CONTENT_TYPE)) return false;
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (field->id != AB_FIELD_CONTENT_TYPE) continue;
    return field->value_len >= len && ab_equals_nocase(field->value, type, len);
  }
  return false;
}

/* Takes the head. */
static void admit(ab_conn *conn, ab_h2_head *head, bool ended) {
  ab_request *request = &head->request;
  ab_framing framing = framing_of(conn, head, ended);
  ab_exchange *exchange = ab__exchange_begin(conn, request, &framing);
  if (!exchange) {
    bool is_head = request->is_head;
    ab_free(&conn->engine->mem, head);
    ab__conn_fail_head(conn, AB_HTTP_NO_MEMORY, is_head);
    return;
  }
  exchange->own_head = request;
  /* The bytes of a tunnel come when the application has answered. */
  exchange->streams = request->protocol.ptr || is_grpc(request);
  ab__exchange_admit(exchange, &framing);
  ab_body *body = conn->exchange ? conn->exchange->body : NULL;
  if (body) ab_body_leave_open(body, framing.has_length);
}

/* As a head of HTTP/1, of which nothing is left in the connection's input. */
static bool answer_itself(ab_conn *conn, const ab_h2_head *request, bool ended) {
  ab_head head = {.request = request->request, .framing = framing_of(conn, request, ended)};
  return ab__own_answer(conn, &head);
}

static void tell_request(void *ctx, ab_h2_stream *h2, ab_h2_head *head, int error, bool ended) {
  ab_session *session = ctx;
  const ab_mem *mem = &session->conn->engine->mem;
  const ab_limits *limits = ab__conn_limits(session->conn);
  /* One that was reset stands here until the application has finished with it. */
  bool room = session->live < limits->max_streams;
  ab_conn *conn = room ? open_stream(session, h2) : NULL;
  if (!conn) {
    ab_free(mem, head);
    ab_h2_reset(h2, AB_H2_REFUSED_STREAM);
    return;
  }
  /* Of those that are here when the step ends it is known how long they wait. */
  if (!ab__engine_touch(conn)) ab__engine_ready(conn);
  if (AB_UNLIKELY(error)) {
    ab__conn_fail_head(conn, error, ab_h2_stream_is_head(h2));
  } else if (AB_UNLIKELY(conn->engine->answers) && answer_itself(conn, head, ended)) {
    ab_free(mem, head);
  } else {
    admit(conn, head, ended);
  }
}

/* --- bodies --- */

static bool has(const ab_conn *conn, enum ab_exchange_state state) {
  return ab__conn_has(conn, state);
}

/* What the application will not read needs no window of its own. */
static void stream_discard(ab_stream *stream, size_t len) {
  if (stream->h2) ab_h2_consume(stream->h2, len);
}

static void consumed(ab_conn *conn, size_t len) {
  ab_stream *stream = conn->stream;
  if (!stream || !stream->h2) return;
  size_t counted = len < stream->unread ? len : stream->unread;
  stream->unread -= counted;
  if (counted == 0) return;
  if (!stream->wide) ab_h2_widen(stream->h2);
  stream->wide = true;
  ab_h2_consume(stream->h2, counted);
  ab__session_soon(stream->session);
}

static void look_at_body(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (exchange->state == AB_EXCHANGE_BUFFER) {
    int result = ab__buffer_look(exchange);
    if (result == AB_OK) {
      ab__exchange_queue(exchange);
    } else if (result != AB_AGAIN) {
      ab__conn_fail(conn, result);
    }
  } else if (exchange->state == AB_EXCHANGE_APP && exchange->wants_body) {
    ab__exchange_tell_body(exchange, AB_OK);
  }
  if (conn->state != AB_CONN_DEAD) ab__engine_ready(conn); /* for its deadline */
}

static void refuse_body(ab_exchange *exchange) {
  if (has(exchange->conn, AB_EXCHANGE_APP)) {
    exchange->body->error = AB_HTTP_BODY_TOO_LARGE;
    look_at_body(exchange);
  } else {
    ab__conn_fail(exchange->conn, AB_HTTP_BODY_TOO_LARGE);
  }
}

static void tell_data(void *ctx AB_UNUSED, ab_h2_stream *h2, const char *ptr, size_t len) {
  ab_stream *stream = ab_h2_stream_app(h2);
  if (!stream) return; /* dropped: the window goes back with the stream */
  ab_conn *conn = stream->conn;
  ab_exchange *exchange = conn->exchange;
  uint64_t most = ab__conn_limits(conn)->max_body_size;
  stream->received += len;
  if (!exchange || !exchange->body || exchange->body->error) {
    stream_discard(stream, len);
  } else if (most && stream->received > most) {
    stream_discard(stream, len);
    refuse_body(exchange);
  } else if (!ab__conn_append(conn, ptr, len)) {
    ab__conn_drop(conn);
  } else {
    /* What is buffered is limited by itself. */
    if (exchange->state == AB_EXCHANGE_BUFFER) {
      stream_discard(stream, len);
    } else {
      stream->unread += len;
    }
    look_at_body(exchange);
  }
}

static void tell_end(void *ctx AB_UNUSED, ab_h2_stream *h2) {
  ab_stream *stream = ab_h2_stream_app(h2);
  ab_exchange *exchange = stream ? stream->conn->exchange : NULL;
  if (!exchange || !exchange->body) return;
  ab_body *body = exchange->body;
  ab_view trailers = ab_h2_stream_trailers(h2);
  if (trailers.len > 0 &&
      ab_body_keep_trailers(body, trailers.ptr, (uint32_t)trailers.len) != AB_OK) {
    ab__conn_drop(stream->conn);
    return;
  }
  uint32_t seen = body->buffering ? body->buffered : 0;
  ab_body_ends_after(body, stream->conn->in_len - seen);
  look_at_body(exchange);
}

/* A client that has got its whole response is not gone, though the application is not done yet. */
static void tell_closed(void *ctx AB_UNUSED, ab_h2_stream *h2) {
  ab_stream *stream = ab_h2_stream_app(h2);
  if (!stream) return;
  ab_conn *conn = stream->conn;
  stream->h2 = NULL;
  if (has(conn, AB_EXCHANGE_APP) && ab_h2_stream_is_complete(h2)) return;
  if (conn->state != AB_CONN_DEAD) ab__conn_drop(conn);
}

/* --- output --- */

/* A shorter part of a file is read. */
#define FILE_PASS_MIN 8192

/* How much of the file at the front is there, and is sent without waiting for a disk; 0: it loads,
 * or the stream is dropped. What was found out holds until the frames have been sent. */
static size_t look_at_file(ab_conn *conn, const ab_outbox_next_op *next) {
  size_t len = ab__load_next(conn, next);
  if (len > AB_SESSION_OUTPUT) len = AB_SESSION_OUTPUT;
  if (len == 0 || ab_file_reaches(next->file_fd, next->file_offset + len)) return len;
  conn->stream->code = AB_H2_INTERNAL_ERROR; /* it shrank: the response cannot be completed */
  ab__conn_drop(conn);
  return 0;
}

static size_t file_available(ab_conn *conn, const ab_outbox_next_op *next, size_t most) {
  ab_stream *stream = conn->stream;
  if (stream->fill != stream->session->fills || stream->sound == 0) {
    size_t len = look_at_file(conn, next);
    if (len == 0) return 0; /* it may be gone */
    stream->fill = stream->session->fills;
    stream->sound = len;
  }
  return stream->sound < most ? stream->sound : most;
}

static size_t available(void *ctx AB_UNUSED, ab_h2_stream *h2, size_t most, bool *last) {
  ab_stream *stream = ab_h2_stream_app(h2);
  *last = false;
  if (!stream) return 0;
  ab_conn *conn = stream->conn;
  bool ended = stream->ended; /* a file that shrank drops the stream */
  uint64_t pending = conn->out ? ab_outbox_pending(conn->out) : 0;
  size_t len = pending < most ? (size_t)pending : most;
  if (len > 0 && ab_outbox_files(conn->out) > 0) {
    ab_outbox_next_op *next = &conn->engine->next_op;
    ab_outbox_next(conn->out, next);
    len = next->op == AB_OUTBOX_FILE ? file_available(conn, next, most)
                                     : (next->bytes < most ? next->bytes : most);
  }
  *last = ended && len == pending;
  return len;
}

static int pass(ab_outbox *from, ab_outbox *out, size_t len) {
  return ab_outbox_pass(from, out, len) == AB_OK ? AB_OK : AB_ENOMEM;
}

/* A short part of a file is read: sendfile would take a call for it, and another one for its head.
 * If it cannot be read after all, that ends the session. */
static int read_file(ab_outbox *from, const ab_outbox_next_op *next, ab_outbox *out, size_t len) {
  char piece[AB_OUTBOX_CHUNK_SIZE];
  for (size_t at = 0; at < len;) {
    size_t room = len - at < sizeof piece ? len - at : sizeof piece;
    ssize_t n = ab_file_read(next->file_fd, next->file_offset + at, piece, room);
    if (n <= 0 || ab_outbox_write(out, piece, (size_t)n) != AB_OK) return AB_ENOMEM;
    at += (size_t)n;
  }
  return ab_outbox_shift(from, len);
}

/* `len` is what was available: of memory alone, or of one file. */
static int take(void *ctx AB_UNUSED, ab_h2_stream *h2, ab_outbox *out, size_t len) {
  ab_stream *stream = ab_h2_stream_app(h2);
  ab_outbox *from = stream->conn->out;
  ab_outbox_next_op *next = &stream->conn->engine->next_op;
  stream->taken += len;
  if (AB_LIKELY(ab_outbox_files(from) == 0)) return pass(from, out, len);
  ab_outbox_next(from, next);
  if (next->op != AB_OUTBOX_FILE) return pass(from, out, len);
  stream->sound -= len;
  return len < FILE_PASS_MIN ? read_file(from, next, out, len) : pass(from, out, len);
}

const ab_h2_calls ab__stream_calls = {.request = tell_request,
                                      .data = tell_data,
                                      .end = tell_end,
                                      .closed = tell_closed,
                                      .available = available,
                                      .take = take};

static void stream_flush(ab_conn *conn) {
  ab_stream *stream = conn->stream;
  if (!stream || !stream->h2) return;
  if (conn->out && ab_list_empty(&stream->link)) {
    ab_list_append(&stream->session->writers, &stream->link);
  }
  if (stream->headed) {
    ab_load *load = ab__conn_load(conn);
    if (AB_UNLIKELY(load != NULL)) load->told = load->read;
    ab_h2_resume(stream->h2);
  }
  ab__session_soon(stream->session);
}

/* True until its step has told the session that the file is there: were it blocked before, by what
 * another stream sends, the session would not ask again. */
static bool loads(const ab_conn *conn) {
  const ab_load *load = ab__conn_load(conn);
  return AB_UNLIKELY(load != NULL) && !load->told;
}

static bool stands(const ab_conn *conn) {
  const ab_conn *parent = conn->stream->session->conn;
  return parent && ab__load_waits(parent);
}

void ab__stream_settle_output(ab_stream *stream) {
  ab_conn *conn = stream->conn;
  uint64_t taken = stream->taken;
  stream->taken = 0;
  ab__conn_charge(conn, taken / AB_SENT_COST);
  if (taken > 0) {
    conn->blocked = conn->timed = false;
    if (conn->stall) ab__conn_stall_sent(conn, taken);
  }
  if (!conn->out || ab_outbox_pending(conn->out) == 0) {
    ab_list_remove(&stream->link);
    if (conn->out) ab__conn_end_output(conn);
  } else if (!loads(conn)) {
    ab__conn_block(conn, taken > 0);
  } else {
    conn->blocked = false; /* the disk is slow, not the peer */
    ab__conn_rearm(conn);
  }
  ab__conn_tell_drained(conn);
}

/* --- responses --- */

static char *stream_put_framing(const ab_exchange *exchange, char *dst, ab_content *content) {
  return ab_write_framing(dst, content, exchange->answers_head, false);
}

/* A head as it would be in HTTP/1, without its end: a status line, and field lines. */
typedef struct http1_head {
  int status;
  const char *lines;
  size_t len;
} http1_head;

static http1_head split(const char *text, size_t len) {
  const char *digits = text + sizeof "HTTP/1.1 " - 1;
  const char *lines = (const char *)memchr(text, '\n', len) + 1;
  return (http1_head){(digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0'), lines,
                      (size_t)(text + len - lines)};
}

/* Returns AB_OK, AB_EPEER or AB_ENOMEM. `content`: some follows. What is sent at once may end the
 * stream, or find that the client has left. */
static int respond(ab_conn *conn, const char *text, size_t len, bool content) {
  ab_stream *stream = conn->stream;
  if (conn->state == AB_CONN_DEAD || !stream->h2) return AB_EPEER;
  http1_head head = split(text, len);
  int error = ab_h2_respond(stream->h2, head.status, head.lines, head.len, content);
  if (error) return error;
  stream->headed = true;
  ab__session_soon(stream->session);
  return conn->state == AB_CONN_DEAD ? AB_EPEER : AB_OK;
}

static int stream_write_head(ab_exchange *exchange, char *text, size_t len,
                             const ab_content *content, const char *whole, size_t count) {
  bool empty = content->none || (content->has_length && content->length == 0);
  exchange->keep_decided = true; /* the response has begun */
  exchange->framed = content->chunked;
  int error = respond(exchange->conn, text, len, !empty);
  return error || !whole || count == 0 ? error : ab__conn_write(exchange->conn, whole, count);
}

static int stream_inform(ab_exchange *exchange, char *text, size_t len) {
  const ab_conn *conn = exchange->conn;
  ab_stream *stream = conn->stream;
  if (conn->state == AB_CONN_DEAD || !stream->h2) return AB_EPEER;
  http1_head head = split(text, len);
  int error = ab_h2_inform(stream->h2, head.status, head.lines, head.len);
  if (!error) ab__session_soon(stream->session);
  return error;
}

/* There is no 101 in HTTP/2 (RFC 9113 8.6). */
static int stream_switch_to(ab_exchange *exchange AB_UNUSED, char *text AB_UNUSED,
                            size_t len AB_UNUSED) {
  return AB_EPEER;
}

static int stream_write_continue(ab_conn *conn) {
  ab_stream *stream = conn->stream;
  if (!stream->h2) return AB_EPEER;
  int error = ab_h2_inform(stream->h2, 100, NULL, 0);
  if (!error) ab__session_soon(stream->session);
  return error;
}

static int stream_write_error(ab_conn *conn, int status,
                              enum ab_write_connection connection AB_UNUSED, bool answers_head,
                              size_t *content) {
  char text[AB_ERROR_MAX];
  ab_view date = {conn->engine->date, AB_DATE_FIELD_LEN};
  char *end = ab_write_error(text, status, date, AB_WRITE_KEEP, answers_head, content);
  size_t head = (size_t)(end - text) - *content - 2; /* without the empty line */
  int error = respond(conn, text, head, *content > 0);
  return error || *content == 0 ? error : ab__conn_write(conn, end - *content, *content);
}

static int stream_answer_error(ab_exchange *exchange, int status, size_t *content) {
  exchange->keep_decided = true;
  return stream_write_error(exchange->conn, status, AB_WRITE_KEEP, exchange->answers_head, content);
}

/* Frames are the session's to write. */
static int stream_begin_piece(ab_exchange *exchange AB_UNUSED, uint64_t len AB_UNUSED,
                              uint32_t slices AB_UNUSED) {
  return AB_OK;
}

static int stream_end_piece(ab_exchange *exchange AB_UNUSED) {
  return AB_OK;
}

static int stream_send_piece(ab_exchange *exchange, const char *ptr, size_t len) {
  const struct iovec iov = {(char *)(uintptr_t)ptr, len};
  return ab__conn_send(exchange->conn, &iov, 1);
}

static int stream_end_content(ab_exchange *exchange, const char *trailers, size_t len) {
  const ab_stream *stream = exchange->conn->stream;
  if (len == 0 || !stream->h2) return AB_OK;
  return ab_h2_set_trailers(stream->h2, trailers, len);
}

/* --- the end --- */

static bool close_stream(ab_conn *conn) {
  ab_stream *stream = conn->stream;
  conn->in_len = 0;
  conn->lingers = false;
  if (!stream->headed || !stream->h2) {
    ab__conn_drop(conn);
    return true;
  }
  stream->ended = true;
  stream_discard(stream, stream->unread);
  stream->unread = 0;
  if (!ab_h2_stream_has_ended(stream->h2)) ab_h2_reset(stream->h2, AB_H2_NO_ERROR); /* behind it */
  stream_flush(conn);
  return true;
}

static void stream_finish(ab_exchange *exchange, enum ab_finish how) {
  ab_conn *conn = exchange->conn;
  if (how == AB_FINISH_COMPLETE) {
    ab__conn_close(conn);
    return;
  }
  conn->stream->code = AB_H2_INTERNAL_ERROR;
  ab__exchange_end(exchange);
  ab__conn_become(conn, AB_CONN_CLOSING);
  ab__conn_drop(conn);
}

static void stream_abort_response(ab_exchange *exchange, enum ab_finish how) {
  ab_conn *conn = exchange->conn;
  conn->stream->ended = how == AB_FINISH_COMPLETE;
  stream_flush(conn);
  if (conn->state == AB_CONN_DEAD) return;
  if (how != AB_FINISH_COMPLETE) conn->stream->code = AB_H2_INTERNAL_ERROR;
  ab__conn_drop(conn);
}

static void stream_dropped(ab_conn *conn) {
  ab_stream *stream = conn->stream;
  ab_list_remove(&stream->link);
  if (!stream->h2) return;
  ab_h2_stream *h2 = stream->h2;
  stream->h2 = NULL;
  ab_h2_stream_set_app(h2, NULL);
  ab_h2_reset(h2, stream->code);
  ab__session_soon(stream->session);
}

static void freed(ab_conn *conn) {
  ab_stream *stream = conn->stream;
  ab_session *session = stream->session;
  conn->stream = NULL;
  ab_slab_give(&conn->engine->streams, stream);
  ab__session_release_stream(session, &conn->engine->mem);
}

static bool stream_advance(ab_conn *conn AB_UNUSED) {
  return false;
}

static void stream_drain(ab_conn *conn AB_UNUSED) {}

static void stream_refuse(ab_conn *conn) {
  if (has(conn, AB_EXCHANGE_QUEUED) || has(conn, AB_EXCHANGE_BUFFER)) ab__conn_reject_late(conn);
}

const ab_protocol ab__http2_stream = {.advance = stream_advance,
                                      .drain = stream_drain,
                                      .refuse = stream_refuse,
                                      .recall = stream_recall,
                                      .put_framing = stream_put_framing,
                                      .head = stream_write_head,
                                      .inform = stream_inform,
                                      .switch_to = stream_switch_to,
                                      .write_continue = stream_write_continue,
                                      .write_error = stream_write_error,
                                      .answer_error = stream_answer_error,
                                      .begin_piece = stream_begin_piece,
                                      .end_piece = stream_end_piece,
                                      .send_piece = stream_send_piece,
                                      .end_content = stream_end_content,
                                      .finish = stream_finish,
                                      .abort = stream_abort_response,
                                      .flush = stream_flush,
                                      .stands = stands,
                                      .consumed = consumed,
                                      .close = close_stream,
                                      .dropped = stream_dropped,
                                      .freed = freed};
