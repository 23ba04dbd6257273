/* Request bodies, on their way to the application or discarded. Beyond a window nothing is received
 * unasked, so TCP slows a fast client down to the application's pace. All functions run with the
 * lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/conn.h"

/* Room after the content of a chunk, for the framing of the next one: it saves a system call. */
#define FRAMING_ROOM 64

static ssize_t receive_fail(ab_exchange *exchange, int error) {
  exchange->body_error = error;
  return error;
}

/* Decodes what is here of the body, and uses it up. Returns as ab_body_decode. */
static int64_t decode_input(ab_exchange *exchange, char *out, size_t room) {
  ab_conn *conn = exchange->conn;
  size_t used = 0;
  int64_t got = ab_body_decode(exchange->body, ab__conn_limits(conn), conn->in, conn->in_len, &used,
                               out, room);
  conn->in += used;
  conn->in_len -= (uint32_t)used;
  if (AB_UNLIKELY(conn->speaks == AB_SPEAKS_STREAM)) ab__conn_protocol(conn)->consumed(conn, used);
  if (used > 0) exchange->expects = false; /* the peer did not wait for the word */
  if (AB_UNLIKELY(exchange->body->store) && conn->in_len == 0) ab_body_used_up(exchange->body);
  return got;
}

/* What has come already. Returns as ab_exchange_read_body, AB_AGAIN if nothing has. */
static ssize_t take_input(ab_exchange *exchange, char *buf, size_t len) {
  int64_t got = decode_input(exchange, buf, len);
  if (got < 0) return receive_fail(exchange, (int)got);
  if (got > 0) return (ssize_t)got;
  return exchange->body->done ? 0 : AB_AGAIN;
}

/* Bytes to receive beyond the `direct` ones (of `len`), which go to their place: the framing if
 * much is wanted, a window if little is, so that not each line costs a system call. */
static size_t room_ahead(const ab_exchange *exchange, size_t direct, size_t len) {
  const ab_conn *conn = exchange->conn;
  size_t room = ab__arena_room(conn->engine), wanted = 0;
  if (len < AB_RECV_MIN) {
    wanted = (size_t)ab__conn_limits(conn)->body_window;
    if (wanted < FRAMING_ROOM) wanted = FRAMING_ROOM;
  } else if (exchange->body->chunked && direct == ab_body_direct(exchange->body)) {
    wanted = len - direct + FRAMING_ROOM;
  }
  return wanted < room ? wanted : room;
}

/* Splits what has been received: content to where it was wanted, the rest becomes input. */
static void take_received(ab_exchange *exchange, size_t got, size_t direct, char *ahead) {
  ab_conn *conn = exchange->conn;
  size_t content = got < direct ? got : direct;
  exchange->expects = false;
  if (content > 0) ab_body_received(exchange->body, content);
  if (got == content) return;
  ab__conn_spend(conn, got - content);
  conn->in = ahead;
  conn->in_len = (uint32_t)(got - content);
}

/* One system call, when there is no input. Returns bytes of content, which may be 0 although
 * input has come; AB_AGAIN, or the error that the body ends with. */
static ssize_t receive_body(ab_exchange *exchange, char *buf, size_t len) {
  ab_conn *conn = exchange->conn;
  if (!ab__conn_has_share(conn) || !ab__engine_touch(conn)) return AB_AGAIN;
  if (conn->own) ab__conn_free_input(conn);
  uint64_t next = ab_body_direct(exchange->body);
  size_t direct = next < len ? (size_t)next : len;
  char *ahead = ab_arena_top(&conn->engine->arena);
  struct iovec iov[] = {{buf, direct}, {ahead, room_ahead(exchange, direct, len)}};
  if (direct + iov[1].iov_len == 0) return AB_AGAIN; /* until the arena is empty */

  bool both = direct > 0 && iov[1].iov_len > 0;
  ssize_t n = ab__conn_receive(conn, direct > 0 ? iov : iov + 1, both ? 2 : 1);
  if (n > 0) {
    take_received(exchange, (size_t)n, direct, ahead);
    return (size_t)n < direct ? n : (ssize_t)direct;
  }
  if (n == AB_AGAIN) return n;
  if (n < 0) {
    ab__conn_drop(conn);
  } else {
    conn->hung_up = false;
  }
  return receive_fail(exchange, AB_EPEER);
}

void ab_exchange_continue(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  /* Not behind the head of a final response (RFC 9110 15.2). */
  if (!exchange->expects || conn->in_len > 0 || exchange->keep_decided) return;
  exchange->expects = false;
  if (exchange->body->asked) return; /* before the application had the request */
  if (ab__conn_protocol(conn)->write_continue(conn) == AB_OK) ab__conn_flush(conn);
}

/* Input and deadline wait for the next turn, since this turn's clock may be late. */
static void wait_for_bytes(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (!conn->readable) ab_exchange_continue(exchange);
  if (conn->state == AB_CONN_DEAD) {
    ab__exchange_tell_body(exchange, AB_EPEER);
    return;
  }
  exchange->wants_body = true;
  ab__engine_ready(conn);
}

ssize_t ab_exchange_read_body(ab_exchange *exchange, char *buf, size_t len) {
  const ab_conn *conn = exchange->conn;
  for (;;) {
    ssize_t got = exchange->body_error ? exchange->body_error : take_input(exchange, buf, len);
    if (got != AB_AGAIN) return got;
    if (conn->state == AB_CONN_DEAD) return receive_fail(exchange, AB_EPEER);
    /* A peer that waits for the word is asked only if it has sent nothing. */
    bool ask = (conn->readable || exchange->expects) && conn->speaks != AB_SPEAKS_STREAM;
    got = ask ? receive_body(exchange, buf, len) : AB_AGAIN;
    if (got == AB_AGAIN) {
      wait_for_bytes(exchange);
      return got;
    }
    if (got != 0) return got;
  }
}

void ab_exchange_leave_body(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (!exchange->wants_body) return;
  exchange->wants_body = false;
  ab_body_waited(exchange->body, conn->engine->now);
  conn->deadline = 0;
}

bool ab__exchange_skip(ab_exchange *exchange) {
  return decode_input(exchange, NULL, SIZE_MAX) >= 0 && exchange->body->done;
}
