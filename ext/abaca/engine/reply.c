/* The output side of a connection: sending, flow control, and the end. What is sent comes from
 * respond.c. All functions here run with the lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/conn.h"

/* --- writing --- */

/* What comes behind a part that has left would pass for the rest of it. Only a reset shows in every
 * framing that something is missing. */
static void cut_off(ab_conn *conn) {
  conn->resets = true;
  ab__conn_drop(conn);
}

int ab__conn_writable(ab_conn *conn) {
  if (conn->state == AB_CONN_DEAD) return AB_EPEER;
  if (!conn->out) conn->out = ab_outbox_init(conn->engine->outboxes);
  return conn->out ? AB_OK : AB_ENOMEM;
}

int ab__conn_write(ab_conn *conn, const char *ptr, size_t len) {
  int err = ab__conn_writable(conn);
  return err ? err : ab_outbox_write(conn->out, ptr, len);
}

static void note_sent(ab_conn *conn, size_t n) {
  conn->engine->stats->sent += n;
  ab__conn_charge(conn, AB_SEND_COST + n / AB_SENT_COST);
}

/* Returns how many bytes the socket has taken, from the first one on. */
static size_t send_at_once(ab_conn *conn, const struct iovec *iov, int count) {
  if (conn->out) ab__conn_flush(conn);
  if (conn->out || conn->blocked || conn->state == AB_CONN_DEAD) return 0;
  ssize_t n = ab_link_send(&conn->link, iov, count);
  if (n == AB_EPEER) ab__conn_drop(conn);
  if (n <= 0) return 0;
  note_sent(conn, (size_t)n);
  return (size_t)n;
}

/* Copies what the socket has not taken; `sent` bytes have left. */
static int reply_keep_rest(ab_conn *conn, const struct iovec *iov, int count, size_t sent) {
  bool begun = sent > 0 || ab_link_is_amid(&conn->link);
  for (int i = 0; i < count; i++) {
    size_t part = sent < iov[i].iov_len ? sent : iov[i].iov_len;
    sent -= part;
    if (part == iov[i].iov_len) continue;
    int error = ab__conn_write(conn, (const char *)iov[i].iov_base + part, iov[i].iov_len - part);
    if (error) {
      if (begun && conn->state != AB_CONN_DEAD) cut_off(conn);
      return error;
    }
    begun = true;
  }
  return AB_OK;
}

int ab__conn_send(ab_conn *conn, const struct iovec *iov, int count) {
  if (AB_LIKELY(conn->speaks != AB_SPEAKS_STREAM)) {
    return reply_keep_rest(conn, iov, count, send_at_once(conn, iov, count));
  }
  int error = reply_keep_rest(conn, iov, count, 0);
  if (!error) ab__conn_flush(conn);
  return error;
}

/* Neither an earlier response nor the next request is here, and the connection stays. */
static bool answers_alone(const ab_conn *conn) {
  return !conn->out && conn->in_len == 0 && ab__conn_has(conn, AB_EXCHANGE_APP) &&
         ab__exchange_keeps(conn->exchange);
}

int ab__conn_write_last(ab_conn *conn, const char *ptr, size_t len) {
  if (!answers_alone(conn)) return ab__conn_write(conn, ptr, len);
  struct iovec iov = {(char *)ptr, len};
  size_t sent = send_at_once(conn, &iov, 1);
  /* A peer that goes at this moment has got as much of it as one that goes a little later. */
  if (AB_LIKELY(sent == len) || conn->state == AB_CONN_DEAD) return AB_OK;
  return reply_keep_rest(conn, &iov, 1, sent);
}

void ab_exchange_flush(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (conn->state != AB_CONN_DEAD) ab__conn_flush(conn);
}

bool ab_exchange_want_room(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  /* Unflushed output would never drain. */
  if (ab__conn_is_full(conn)) ab__conn_flush(conn);
  exchange->wants_sent = false;
  exchange->wants_room = ab__conn_is_full(conn);
  return exchange->wants_room;
}

bool ab_exchange_want_sent(ab_exchange *exchange) {
  ab_exchange_flush(exchange);
  exchange->wants_room = exchange->wants_sent = exchange->conn->out != NULL;
  return exchange->wants_room;
}

bool ab_exchange_want_turn(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (AB_LIKELY(ab__conn_has_share(conn)) || conn->state == AB_CONN_DEAD) return false;
  exchange->wants_room = exchange->wants_turn = true;
  exchange->wants_sent = false;
  ab__engine_ready(conn);
  return true;
}

bool ab_exchange_flush_later(ab_exchange *exchange) {
  return ab__engine_touch(exchange->conn);
}

uint64_t ab_exchange_pending(const ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  return conn->out ? ab_outbox_pending(conn->out) : 0;
}

int ab_exchange_duplicate(const ab_exchange *exchange) {
  return ab_link_duplicate(&exchange->conn->link);
}

bool ab__conn_is_full(const ab_conn *conn) {
  return conn->out && (ab_outbox_pending(conn->out) > ab__conn_limits(conn)->max_pending_output ||
                       ab__files_full(conn));
}

/* A writer that waits for room is told when half of the limit is sent, and not for each piece. */
static bool has_drained(const ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  if (AB_UNLIKELY(exchange->wants_turn)) return false;
  if (!conn->out) return true;
  if (exchange->wants_sent) return ab_outbox_pending(conn->out) == 0;
  if (ab__files_full(conn)) return false;
  return ab_outbox_pending(conn->out) <= ab__conn_limits(conn)->max_pending_output / 2;
}

/* --- sending --- */

void ab__conn_await_room(ab_conn *conn) {
  if (!conn->registered) return; /* or when the step ends */
  if (conn->link.watch.events & AB_POLL_OUT) {
    ab_poller_exhausted(conn->engine->poller, &conn->link.watch, AB_POLL_OUT);
    return;
  }
  if (!ab_link_open(&conn->link)) return;
  uint32_t events = AB_POLL_IN | AB_POLL_OUT | AB_POLL_RDHUP | AB_POLL_EDGE;
  if (ab_poller_set(conn->engine->poller, &conn->link.watch, events) != AB_OK) ab__conn_drop(conn);
}

/* The poller tells when the socket is not full, the deadline when the peer takes nothing. The next
 * turn sets it, since this one's clock may be old. */
void ab__conn_block(ab_conn *conn, bool progress) {
  bool begins = !conn->blocked || progress;
  conn->blocked = true;
  if (begins) {
    conn->deadline = 0;
    conn->timed = false;
    ab__conn_charge(conn, AB_TURN_SHARE);
    ab__engine_ready(conn);
  }
  ab__files_blocked(conn, progress);
  ab__conn_await_room(conn);
}

/* The disk is slow, not the peer. Returns as send_next. */
static ssize_t load(ab_conn *conn) {
  ab__conn_rearm(conn);
  return 0;
}

/* How much of the file at the front may be sent. 0: the connection loads. */
static size_t file_ready(ab_conn *conn, const ab_outbox_next_op *next) {
  if (conn->checked) return next->file_len < SIZE_MAX ? (size_t)next->file_len : SIZE_MAX;
  return ab__load_next(conn, next);
}

/* May it be sent with what stands before it? */
static bool goes_along(const ab_conn *conn, const ab_link_piece *piece) {
  if (piece->ptr || conn->checked) return true;
  return conn->engine->storage->is_warm(piece->fd, piece->offset, piece->len);
}

#define PIECES      64
#define PIECES_MOST ((size_t)128 << 10) /* bytes: more than a link takes at once */

/* What comes next, `first` bytes of a file at the front; cold files only there. */
static int collect(const ab_conn *conn, ab_link_piece *pieces, size_t first) {
  ab_outbox_slice slice;
  size_t left = PIECES_MOST;
  int count = 0;
  while (count < PIECES && left > 0 && ab_outbox_slice_at(conn->out, (uint32_t)count, &slice)) {
    size_t most = count == 0 && !slice.ptr && first < left ? first : left;
    size_t len = slice.len < most ? (size_t)slice.len : most;
    pieces[count] = (ab_link_piece){slice.ptr, slice.fd, slice.offset, len};
    if (count > 0 && !goes_along(conn, &pieces[count])) break;
    left -= len;
    count++;
    if (len < slice.len) break;
  }
  return count;
}

/* Files over TLS share records with what stands before and behind them. */
static ssize_t send_pieces(ab_conn *conn, size_t first) {
  ab_link_piece pieces[PIECES];
  return ab_link_send_pieces(&conn->link, pieces, collect(conn, pieces, first));
}

/* Returns as ab_link_sendfile, or 0 when the connection loads. */
static ssize_t send_file(ab_conn *conn, const ab_outbox_next_op *next) {
  size_t len = file_ready(conn, next);
  if (AB_UNLIKELY(len == 0)) return load(conn);
  ssize_t n = ab_link_is_tls(&conn->link)
                  ? send_pieces(conn, len)
                  : ab_link_sendfile(&conn->link, next->file_fd, next->file_offset, len);
  /* A file that shrank cannot be completed: breaking off tells the peer. */
  return n == 0 || n == AB_ESYS ? AB_EPEER : n;
}

/* One system call. Returns bytes sent, 0 when the connection loads, or as ab_link_send. */
static ssize_t send_next(ab_conn *conn, const ab_outbox_next_op *next) {
  if (next->op == AB_OUTBOX_FILE) return send_file(conn, next);
  if (AB_LIKELY(!next->file_follows)) {
    return ab_link_send(&conn->link, next->iov, next->iov_count);
  }
  if (ab_link_is_tls(&conn->link)) return send_pieces(conn, 0);
  /* What has to be read from a disk first may keep the peer waiting. */
  return conn->checked ? ab_link_send_more(&conn->link, next->iov, next->iov_count)
                       : ab_link_send(&conn->link, next->iov, next->iov_count);
}

void ab__conn_end_output(ab_conn *conn) {
  ab__load_drop(conn);
  ab_outbox_fini(conn->out);
  conn->out = NULL;
  if (AB_UNLIKELY(conn->stall != NULL)) ab__conn_stall_end(conn);
}

static void all_sent(ab_conn *conn) {
  ab__conn_end_output(conn);
  if (conn->state != AB_CONN_CLOSING) return;
  /* An end in order, whatever the peer still sends, would pass for the end of what was broken off.
   */
  if (!conn->lingers || AB_UNLIKELY(conn->resets)) {
    ab__conn_drop(conn);
    return;
  }
  ab_link_shutdown(&conn->link);
  ab__conn_become(conn, AB_CONN_LINGER);
  conn->timed = false;
  conn->readable = true;
  ab__conn_rearm(conn);
  ab__engine_ready(conn);
}

void ab__conn_tell_drained(ab_conn *conn) {
  ab_exchange *exchange = conn->exchange;
  if (!exchange || !exchange->wants_room || !has_drained(exchange)) return;
  exchange->wants_room = false;
  ab__engine_event(exchange, AB_EVENT_DRAINED);
}

void ab__conn_flush(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (AB_UNLIKELY(conn->speaks == AB_SPEAKS_STREAM)) {
    ab__conn_protocol(conn)->flush(conn);
    return;
  }
  bool progress = false;
  while (conn->out && !conn->blocked && !ab__load_waits(conn)) {
    ab_outbox_next_op *next = &engine->next_op;
    ab_outbox_next(conn->out, next);
    if (next->op != AB_OUTBOX_WRITE && next->op != AB_OUTBOX_FILE) {
      all_sent(conn);
      break;
    }
    ssize_t n = send_next(conn, next);
    if (n == AB_AGAIN) {
      ab__conn_block(conn, progress);
    } else if (n == AB_ENOMEM) { /* the kernel's, not ours: no event will tell when it is over */
      ab__engine_ready(conn);
      break;
    } else if (n < 0) {
      ab__conn_drop(conn);
    } else if (n > 0) {
      progress = true;
      note_sent(conn, (size_t)n);
      if (AB_UNLIKELY(conn->stall != NULL)) ab__conn_stall_sent(conn, (uint64_t)n);
      ab_outbox_shift(conn->out, (uint64_t)n);
    }
  }
  if (conn->state == AB_CONN_DEAD) return;
  if (progress && !conn->blocked) ab__conn_rearm(conn);
  ab__conn_tell_drained(conn);
}

/* --- closing --- */

void ab__conn_close(ab_conn *conn) {
  if (conn->exchange) ab__exchange_end(conn->exchange);
  ab__conn_become(conn, AB_CONN_CLOSING);
  ab__conn_rearm(conn);
  bool other = conn->speaks != AB_SPEAKS_HTTP1;
  if (AB_UNLIKELY(other) && ab__conn_protocol(conn)->close(conn)) return;
  if (conn->in_len > 0 || conn->readable) conn->lingers = true;
  conn->in_len = 0;
  if (conn->out) {
    ab__conn_flush(conn);
    return;
  }
  if (ab__conn_writable(conn) == AB_OK) {
    all_sent(conn);
  } else {
    ab__conn_drop(conn);
  }
}

/* The request is all that the peer has sent, so that closing destroys nothing on its way. */
static bool is_whole(const ab_conn *conn) {
  if (!ab__conn_has(conn, AB_EXCHANGE_QUEUED) || conn->readable) return false;
  const ab_body *body = conn->exchange->body;
  if (body && !body->whole) return false;
  return conn->in_len == conn->exchange->consume + (body ? body->buffered : 0);
}

void ab__conn_fail_head(ab_conn *conn, int error, bool answers_head) {
  size_t content;
  int status = ab_http_error_status(error);
  ab_figures_fault(conn->engine->stats, status);
  conn->lingers = !is_whole(conn);
  if (!conn->lingers) conn->in_len = 0;

  if (ab__conn_protocol(conn)->write_error(conn, status, AB_WRITE_CLOSE, answers_head, &content) ==
      AB_OK) {
    ab__conn_close(conn);
  } else if (conn->state != AB_CONN_DEAD) {
    ab__conn_drop(conn);
  }
}

void ab__conn_fail(ab_conn *conn, int error) {
  ab__conn_fail_head(conn, error, conn->exchange && conn->exchange->answers_head);
}
