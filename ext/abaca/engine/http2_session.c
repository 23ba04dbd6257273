/* A connection that speaks HTTP/2: what it receives goes to its session, whose streams are
 * connections of their own; what the session has to say goes to its outbox. All functions run with
 * the lock held. */
#include "engine/http2.h"

#include <string.h>

/* Bytes that the session gets at once, and requests after which it gets no more in this turn: what
 * one client sends and resets in a burst must not hold up the others. */
#define SESSION_PIECE 4096
#define TURN_REQUESTS 100
/* A frame is charged as this many bytes, however small it is; so many use up a share of a turn. */
#define FRAME_BYTES 128
#define TURN_FRAMES (AB_TURN_SHARE / FRAME_BYTES)

enum session_wait {
  WAIT_NONE,    /* for the application, or for output, which has a deadline of its own */
  WAIT_ARRIVAL, /* for the rest of what has begun: the preface, or a block of fields */
  WAIT_REQUEST  /* for a request */
};

/* --- the beginning --- */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* A tenth more or less, so that connections that began together do not end together. */
static ab_nsec age_of(const ab_conn *conn) {
  ab_nsec age = ab_limit_nsec(ab__conn_limits(conn)->http2_max_age), tenth = age / 10;
  if (tenth == 0) return age;
  uint64_t mixed = (conn->engine->now ^ (uintptr_t)conn) * UINT64_C(0x9e3779b97f4a7c15);
  return age - tenth + mixed % (2 * tenth);
}

static bool session_begin(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  const ab_limits *limits = ab__conn_limits(conn);
  ab_session *session = ab_alloc_zero(&engine->mem, sizeof *session);
  if (!session) return false;
  session->h2 = ab_h2_init(&engine->mem, limits, engine->methods, &ab__stream_calls, session);
  if (!session->h2) {
    ab_free(&engine->mem, session);
    return false;
  }
  session->conn = conn;
  ab_list_init(&session->pending);
  ab_list_init(&session->writers);
  if (limits->http2_max_age) session->retires = engine->now + age_of(conn);
  conn->session = session;
  conn->speaks = AB_SPEAKS_HTTP2;
  conn->timed = false;
  if (AB_UNLIKELY(engine->draining)) ab__http2.drain(conn);
  return true;
}

static bool choose(ab_conn *conn) {
  size_t len = conn->in_len < sizeof preface - 1 ? conn->in_len : sizeof preface - 1;
  bool http2 = memcmp(conn->in, preface, len) == 0;
  if (http2 && len < sizeof preface - 1) {
    conn->parsed = true; /* more of it has to come */
    return true;
  }
  conn->undecided = false;
  if (http2 && !session_begin(conn)) {
    ab__conn_drop(conn);
    return false;
  }
  return true;
}

/* --- life --- */

static void hold(ab_session *session) {
  session->holds++;
}

static void free_unused(ab_session *session, const ab_mem *mem) {
  if (!session->conn && session->live == 0 && session->holds == 0) ab_free(mem, session);
}

static void session_release(ab_session *session, const ab_mem *mem) {
  session->holds--;
  free_unused(session, mem);
}

void ab__session_release_stream(ab_session *session, const ab_mem *mem) {
  ab_conn *conn = session->conn;
  session->live--;
  if (conn && session->live == 0) ab__conn_rearm(conn);
  free_unused(session, mem);
}

static void session_end(ab_session *session) {
  ab_h2 *h2 = session->h2;
  session->h2 = NULL;
  session->busy = true; /* what its streams leave is not sent */
  ab_h2_fini(h2);
  ab_list_remove(&session->pending);
}

static void session_dropped(ab_conn *conn) {
  ab_session *session = conn->session;
  const ab_mem *mem = &conn->engine->mem;
  hold(session);
  if (session->h2) session_end(session);
  session->conn = NULL;
  conn->session = NULL;
  session_release(session, mem);
}

/* --- output --- */

/* Of streams that have some, in whatever state they are. */
static void settle_writers(ab_session *session) {
  ab_list_each (node, next, &session->writers) {
    ab__stream_settle_output(AB_CONTAINER_OF(node, ab_stream, link));
  }
}

/* Takes frames from the session. False when there are none, or no memory for them. */
static bool fill(ab_session *session) {
  ab_conn *conn = session->conn;
  if (ab__conn_writable(conn) != AB_OK) return false;
  session->busy = true;
  session->fills++;
  int error = ab_h2_fill(session->h2, conn->out, AB_SESSION_OUTPUT);
  session->busy = false;
  if (error) {
    ab__conn_drop(conn);
    return false;
  }
  return ab_outbox_pending(conn->out) > 0;
}

/* As far as the socket takes it. The session may be gone afterwards, unless it is held. */
static void pump(ab_session *session) {
  ab_conn *conn = session->conn;
  if (conn->out && !conn->blocked) ab__conn_flush(conn);
  while (session->conn && session->h2 && !conn->out && ab_h2_owes(session->h2)) {
    if (!fill(session)) break;
    conn->checked = true; /* by their streams */
    ab__conn_flush(conn);
    conn->checked = false;
  }
  if (session->conn && conn->out && !conn->blocked) ab__conn_flush(conn);
}

/* The client may be in the middle of a frame, or answer what it still reads by frames of its own: a
 * reset for those would destroy what is on its way to it. */
static void session_leave(ab_conn *conn) {
  conn->lingers = true;
  ab__conn_close(conn);
}

static void send(ab_session *session) {
  const ab_mem *mem = &session->conn->engine->mem;
  hold(session);
  ab_list_remove(&session->pending);
  pump(session);
  settle_writers(session);
  ab_conn *conn = session->conn;
  if (conn && session->h2 && ab_h2_is_over(session->h2)) session_leave(conn);
  session_release(session, mem);
}

void ab__session_soon(ab_session *session) {
  ab_conn *conn = session->conn;
  if (!session->h2 || session->busy) return; /* it is over, or this follows */
  if (!conn->engine->poller) return;         /* a forked child has the socket, too */
  if (!conn->touched) {
    send(session);
  } else if (ab_list_empty(&session->pending)) {
    ab_list_append(&conn->engine->sessions, &session->pending);
  }
}

void ab__sessions_send(ab_engine *engine) {
  for (ab_list *node; (node = ab_list_shift(&engine->sessions));) {
    send(AB_CONTAINER_OF(node, ab_session, pending));
  }
}

/* --- input --- */

/* Nothing more is received; the session has said why. */
static void session_fail(ab_session *session) {
  ab_conn *conn = session->conn;
  ab_figures_fault(conn->engine->stats, 0);
  pump(session);
  if (session->conn) session_leave(conn);
}

static void look_at_limits(ab_session *session) {
  const ab_conn *conn = session->conn;
  uint64_t most = ab__conn_limits(conn)->http2_max_requests;
  if (most && ab_h2_requests(session->h2) >= most) ab__http2.drain(session->conn);
}

static void count_begun(ab_conn *conn, uint64_t count) {
  uint64_t all = conn->turn_requests + count;
  conn->turn_requests = all < UINT8_MAX ? (uint8_t)all : UINT8_MAX;
}

static int receive_piece(ab_session *session) {
  ab_conn *conn = session->conn;
  uint32_t len = conn->in_len < SESSION_PIECE ? conn->in_len : SESSION_PIECE;
  uint64_t before = ab_h2_requests(session->h2);
  session->busy = true;
  int error = ab_h2_receive(session->h2, conn->in, len, conn->engine->now);
  session->busy = false;
  conn->in += len;
  conn->in_len -= len;
  count_begun(conn, ab_h2_requests(session->h2) - before);
  return error;
}

static void session_receive(ab_conn *conn) {
  ab_session *session = conn->session;
  const ab_mem *mem = &conn->engine->mem;
  hold(session);
  int error = AB_OK;
  uint64_t frames = 0, before = ab_h2_frames(session->h2);
  while (!error && conn->in_len > 0 && conn->turn_requests < TURN_REQUESTS &&
         frames < TURN_FRAMES) {
    error = receive_piece(session);
    frames = ab_h2_frames(session->h2) - before;
  }
  ab__conn_charge(conn, frames * FRAME_BYTES);
  if (AB_UNLIKELY(error)) {
    conn->in_len = 0;
    session_fail(session);
  } else {
    look_at_limits(session);
    ab__session_soon(session);
  }
  session_release(session, mem);
}

static bool session_advance(ab_conn *conn) {
  if (ab_h2_owes(conn->session->h2)) ab__session_soon(conn->session);
  /* What it has asked for so far is to be sent first. */
  if (conn->blocked && ab_outbox_pending(conn->out) > ab__conn_limits(conn)->max_pending_output) {
    return false;
  }
  if (AB_UNLIKELY(conn->turn_requests >= TURN_REQUESTS)) {
    ab__engine_ready(conn);
    return false;
  }
  if (conn->in_len == 0) {
    if (conn->readable && ab__conn_fill(conn)) return true;
    if (AB_UNLIKELY(conn->parting) && conn->state == AB_CONN_HEAD && !conn->readable) {
      ab__http2.timeout(conn);
    }
    return false;
  }
  session_receive(conn);
  if (conn->state != AB_CONN_HEAD) return false;
  if (conn->in_len > 0) ab__engine_ready(conn);
  return conn->in_len == 0 && conn->readable;
}

/* --- deadlines, and the end --- */

static enum session_wait wait_of(const ab_session *session) {
  if (ab_h2_is_amid(session->h2)) return WAIT_ARRIVAL;
  return session->live == 0 ? WAIT_REQUEST : WAIT_NONE;
}

static uint64_t seconds_of(const ab_conn *conn, enum session_wait wait) {
  const ab_limits *limits = ab__conn_limits(conn);
  return wait == WAIT_ARRIVAL ? limits->header_timeout : limits->persistent_timeout;
}

static void session_rearm(ab_conn *conn) {
  ab_session *session = conn->session;
  if (!session->h2) return;
  enum session_wait wait = wait_of(session);
  if (conn->timed && wait == session->waits) return;
  conn->timed = true;
  session->waits = (uint8_t)wait;
  ab_nsec due = 0;
  if (wait != WAIT_NONE) due = conn->engine->now + ab_limit_nsec(seconds_of(conn, wait));
  due = ab_earlier(due, session->warned ? session->ends : session->retires);
  conn->deadline = due;
  ab__conn_arm(conn);
}

static bool has_passed(const ab_conn *conn, ab_nsec deadline) {
  return deadline && deadline <= conn->engine->now;
}

static void session_timeout(ab_conn *conn) {
  ab_session *session = conn->session;
  conn->timed = conn->parting = false;
  if (has_passed(conn, session->ends)) {
    session->ends = 0;
    /* Without memory for it the connection closes with its last stream, or its next deadline. */
    if (ab_h2_end_session(session->h2) != AB_OK) session->ends = conn->engine->now + AB_DRAIN_GRACE;
  } else if (!session->warned && has_passed(conn, session->retires)) {
    ab__http2.drain(conn);
  } else {
    conn->engine->stats->timeouts++;
    if (ab_h2_break(session->h2, AB_H2_NO_ERROR) != AB_OK) {
      ab__conn_drop(conn);
      return;
    }
  }
  ab__session_soon(session);
  if (conn->state == AB_CONN_HEAD) ab__conn_rearm(conn);
}

/* Two steps: what is on its way when the peer hears of it is served as well (RFC 9113 6.8). */
static void session_drain(ab_conn *conn) {
  ab_session *session = conn->session;
  if (session->warned || !session->h2) return;
  session->warned = true;
  session->ends = conn->engine->now + AB_DRAIN_GRACE;
  conn->timed = false;
  if (ab_h2_warn_of_end(session->h2) == AB_OK) ab__session_soon(session);
  if (conn->state == AB_CONN_HEAD) ab__engine_ready(conn); /* the next turn sets the deadline */
}

static void session_refuse(ab_conn *conn) {
  ab_session *session = conn->session;
  if (!session->h2) return;
  session->warned = true;
  session->ends = 0;
  if (ab_h2_end_session(session->h2) == AB_OK) {
    ab__session_soon(session);
  } else {
    ab__conn_drop(conn);
  }
}

static bool close_session(ab_conn *conn) {
  ab_session *session = conn->session;
  if (session->h2) session_end(session);
  return false;
}

const ab_protocol ab__http2 = {.advance = session_advance,
                               .drain = session_drain,
                               .refuse = session_refuse,
                               .begin = session_begin,
                               .choose = choose,
                               .rearm = session_rearm,
                               .timeout = session_timeout,
                               .close = close_session,
                               .dropped = session_dropped};
