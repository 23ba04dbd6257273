/* Request bodies: on their way to the application that reads them, or thrown away. All functions
 * here run with the lock held unless engine.h says otherwise.
 *
 * Nothing is received that nobody has asked for, beyond a window: so the socket fills up, and TCP
 * slows a fast client down to the application's pace. */
#include <string.h>

#include "engine/conn.h"

/* Room behind the content of a chunk, for the framing of the next one: it spares a system call. */
#define FRAMING_ROOM 64

const ab_body *ab_conn_body(const ab_conn *conn) {
  return conn->body;
}

size_t ab_conn_input_len(const ab_conn *conn) {
  return conn->in_len;
}

int ab_conn_body_error(const ab_conn *conn) {
  return conn->body_error;
}

int ab_conn_duplicate(const ab_conn *conn) {
  int fd = conn->watch.fd < 0 ? -1 : ab_fd_duplicate(conn->watch.fd);
  return fd < 0 ? -1 : fd;
}

void ab__conn_tell_body(ab_conn *conn, int error) {
  if (error) conn->body_error = error;
  conn->wants_body = false;
  ab_body_waited(conn->body, conn->engine->now);
  ab__engine_event(conn, AB_EVENT_BODY);
}

/* --- for the application --- */

static ssize_t fail(ab_conn *conn, int error) {
  conn->body_error = error;
  return error;
}

static void note_use(ab_conn *conn) {
  if (AB_UNLIKELY(conn->body->store) && conn->in_len == 0) ab_body_used_up(conn->body);
}

/* What has come already. Returns as ab_conn_read_body, AB_AGAIN when nothing has. */
static ssize_t take_input(ab_conn *conn, char *buf, size_t len) {
  size_t used = 0;
  int64_t got =
      ab_body_decode(conn->body, ab__conn_limits(conn), conn->in, conn->in_len, &used, buf, len);
  conn->in += used;
  conn->in_len -= (uint32_t)used;
  if (used > 0) conn->expects = false; /* it did not wait for the word */
  note_use(conn);
  if (got < 0) return fail(conn, (int)got);
  if (got > 0) return (ssize_t)got;
  return conn->body->done ? 0 : AB_AGAIN;
}

/* Octets to receive behind those that go where the application wants them, `direct` of `len`: what
 * the framing takes when much is wanted, and a window when little is, so that not each line costs a
 * system call. */
static size_t room_ahead(const ab_conn *conn, size_t direct, size_t len) {
  const ab_engine *engine = conn->engine;
  size_t room = ab__conn_arena_room(engine), wanted = 0;
  if (len < AB_RECV_MIN) {
    wanted = (size_t)ab__conn_limits(conn)->body_window;
    if (wanted < FRAMING_ROOM) wanted = FRAMING_ROOM;
  } else if (conn->body->chunked && direct == ab_body_direct(conn->body)) {
    wanted = len - direct + FRAMING_ROOM;
  }
  return wanted < room ? wanted : room;
}

/* Splits what has been received: content to where it was wanted, the rest becomes input. */
static void take_received(ab_conn *conn, size_t got, size_t direct, char *ahead) {
  size_t content = got < direct ? got : direct;
  conn->engine->stats.received += got;
  conn->expects = false;
  if (content > 0) ab_body_received(conn->body, content);
  if (got == content) return;
  ab_arena_take(&conn->engine->arena, got - content);
  conn->in = ahead;
  conn->in_len = (uint32_t)(got - content);
}

/* One system call, when there is no input. Returns octets of content, which may be 0 although
 * input has come; AB_AGAIN, or the error that the body ends with. */
static ssize_t receive(ab_conn *conn, char *buf, size_t len) {
  if (conn->turn_recvs >= AB_TURN_RECVS || !ab__engine_touch(conn)) return AB_AGAIN;
  if (conn->own) ab__conn_free_input(conn);
  uint64_t next = ab_body_direct(conn->body);
  size_t direct = next < len ? (size_t)next : len;
  char *ahead = ab_arena_top(&conn->engine->arena);
  struct iovec iov[] = {{buf, direct}, {ahead, room_ahead(conn, direct, len)}};
  size_t room = direct + iov[1].iov_len;
  if (room == 0) return AB_AGAIN; /* until the arena is empty */

  int fd = conn->watch.fd;
  ssize_t n;
  if (iov[1].iov_len == 0) {
    n = ab_sock_recv(fd, buf, direct);
  } else if (direct == 0) {
    n = ab_sock_recv(fd, ahead, iov[1].iov_len);
  } else {
    n = ab_sock_recv_split(fd, iov, 2);
  }
  conn->turn_recvs++;
  if (n > 0) {
    /* A short read has emptied the socket; after a hang-up only the end of the stream does. */
    if ((size_t)n < room && !conn->hung_up) conn->readable = false;
    take_received(conn, (size_t)n, direct, ahead);
    return (size_t)n < direct ? n : (ssize_t)direct;
  }
  conn->readable = false;
  if (n == AB_AGAIN) return n;
  if (n < 0) {
    ab__conn_drop(conn);
  } else {
    conn->hung_up = false;
  }
  return fail(conn, AB_EPEER);
}

void ab_conn_continue(ab_conn *conn) {
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  /* Not behind the head of a final response (RFC 9110 15.2). */
  if (!conn->expects || conn->in_len > 0 || conn->keep_decided) return;
  conn->expects = false;
  if (conn->body->asked) return; /* before the application had the request */
  if (ab_conn_write(conn, interim, sizeof(interim) - 1) == AB_OK) ab__conn_flush(conn);
}

/* The application has to wait. What is in the socket waits for the next turn, as does the deadline:
 * this turn's clock may be old, when the application has kept it for long. */
static void wait_for_octets(ab_conn *conn) {
  if (!conn->readable) ab_conn_continue(conn);
  if (conn->state == AB_CONN_DEAD) {
    ab__conn_tell_body(conn, AB_EPEER);
    return;
  }
  conn->wants_body = true;
  ab__engine_ready(conn);
}

ssize_t ab_conn_read_body(ab_conn *conn, char *buf, size_t len) {
  for (;;) {
    ssize_t got = conn->body_error ? conn->body_error : take_input(conn, buf, len);
    if (got != AB_AGAIN) return got;
    if (conn->state == AB_CONN_DEAD) return fail(conn, AB_EPEER);
    /* Whoever waits for the word is asked only when he has sent nothing after all. */
    got = conn->readable || conn->expects ? receive(conn, buf, len) : AB_AGAIN;
    if (got == AB_AGAIN) {
      wait_for_octets(conn);
      return got;
    }
    if (got != 0) return got;
  }
}

void ab_conn_leave_body(ab_conn *conn) {
  if (!conn->wants_body) return;
  conn->wants_body = false;
  ab_body_waited(conn->body, conn->engine->now);
  conn->deadline = 0;
}

/* --- for nobody --- */

bool ab__conn_can_skip(const ab_conn *conn) {
  const ab_body *body = conn->body;
  const ab_limits *limits = ab__conn_limits(conn);
  if (!body || body->done) return true;
  /* With the body unasked for, nobody knows whether it comes (RFC 9110 10.1.1). */
  if (conn->expects || body->error) return false;
  if (!body->chunked && body->left <= limits->max_unread_body) return true;
  return ab_body_ends_within(body, limits, conn->in, conn->in_len);
}

bool ab__conn_skip(ab_conn *conn) {
  size_t used = 0;
  int64_t got = ab_body_decode(conn->body, ab__conn_limits(conn), conn->in, conn->in_len, &used,
                               NULL, SIZE_MAX);
  conn->in += used;
  conn->in_len -= (uint32_t)used;
  note_use(conn);
  return got >= 0 && conn->body->done;
}
