/* The output side of a connection: responses, flow control, and the end. All functions here run
 * with the lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/conn.h"
#include "http1/write.h"

/* --- what the application asks about a connection --- */

void ab_conn_set_app(ab_conn *conn, void *app) {
  conn->app = app;
}

void *ab_conn_app(const ab_conn *conn) {
  return conn->app;
}

const ab_addr *ab_conn_peer(const ab_conn *conn) {
  return &conn->peer;
}

const ab_listener *ab_conn_listener(const ab_conn *conn) {
  return conn->service->listener;
}

const ab_limits *ab_conn_limits(const ab_conn *conn) {
  return ab__conn_limits(conn);
}

bool ab_conn_gone(const ab_conn *conn) {
  return conn->state == AB_CONN_DEAD;
}

bool ab_conn_look(ab_conn *conn) {
  if (conn->state == AB_CONN_DEAD) return true;
  if (ab_sock_ended(conn->watch.fd, conn->engine->half_close == AB_HALF_CLOSE_GONE)) {
    ab__conn_drop(conn);
  } else {
    ab_conn_watch_peer(conn);
  }
  return conn->state == AB_CONN_DEAD;
}

void ab_conn_watch_peer(ab_conn *conn) {
  conn->watched = true;
  if (conn->state != AB_CONN_APP || conn->asked) return;
  /* A fiber that only computes gives the poller no turn to tell. */
  if (!conn->hung_up && ab_sock_ended(conn->watch.fd, true)) conn->hung_up = conn->readable = true;
  if (conn->hung_up) ab__conn_ask(conn);
}

void ab__conn_ask(ab_conn *conn) {
  /* "100 Continue", because it is what even simple clients know to discard (RFC 9110 15.2). Behind
   * the head of a final response it is content that asks. */
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  bool wanted = conn->watched && conn->engine->half_close == AB_HALF_CLOSE_ASK;
  if (!wanted || conn->asked || conn->state != AB_CONN_APP) return;
  if (!conn->interim || conn->keep_decided) return;
  conn->asked = true;
  if (ab_conn_write(conn, interim, sizeof(interim) - 1) == AB_OK) ab__conn_flush(conn);
}

unsigned ab_conn_news(const ab_conn *conn) {
  return (conn->state == AB_CONN_DEAD ? AB_EVENT_GONE : 0) |
         (conn->expired ? AB_EVENT_DEADLINE : 0);
}

bool ab_conn_keep_alive(ab_conn *conn) {
  if (!conn->keep_decided) {
    const ab_engine *engine = conn->engine;
    uint64_t most = ab__conn_limits(conn)->max_requests_per_connection;
    conn->keep = !conn->asks_close && !engine->draining && conn->body_error == AB_OK &&
                 (most == 0 || conn->served < most) && ab__conn_can_skip(conn);
    conn->keep_decided = true;
  }
  return conn->keep;
}

void ab_conn_close_after(ab_conn *conn) {
  conn->keep_decided = true;
  conn->keep = false;
}

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

int ab_conn_write(ab_conn *conn, const char *ptr, size_t len) {
  int err = ab__conn_writable(conn);
  return err ? err : ab_outbox_write(conn->out, ptr, len);
}

int ab_conn_borrow(ab_conn *conn, const char *ptr, size_t len, void *owner) {
  int err = ab__conn_writable(conn);
  return err ? err : ab_outbox_borrow(conn->out, ptr, len, owner);
}

int ab_conn_file(ab_conn *conn, int fd, uint64_t offset, uint64_t len, void *owner) {
  int err = ab__conn_writable(conn);
  if (!err) err = ab_outbox_file(conn->out, fd, offset, len, owner);
  if (!err) ab__files_queued(conn);
  return err;
}

int ab_conn_move(ab_conn *conn, ab_outbox *from, ab_outbox_adopt adopt, void *ctx) {
  bool files = ab_outbox_files(from) > 0;
  int err = ab__conn_writable(conn);
  if (!err) err = ab_outbox_move(from, conn->out, adopt, ctx);
  if (!err && files) ab__files_queued(conn);
  return err;
}

/* Returns how many octets the socket has taken, from the first one on. */
static size_t send_at_once(ab_conn *conn, const struct iovec *iov, int count) {
  if (conn->out) ab__conn_flush(conn);
  if (conn->out || conn->blocked || conn->state == AB_CONN_DEAD) return 0;
  ssize_t n = ab_sock_send(conn->watch.fd, iov, count);
  if (n == AB_EPEER) ab__conn_drop(conn);
  if (n <= 0) return 0;
  conn->engine->stats.sent += (uint64_t)n;
  return (size_t)n;
}

/* Copies what the socket has not taken; `sent` octets have left. */
static int keep_rest(ab_conn *conn, const struct iovec *iov, int count, size_t sent) {
  bool begun = sent > 0;
  for (int i = 0; i < count; i++) {
    size_t part = sent < iov[i].iov_len ? sent : iov[i].iov_len;
    sent -= part;
    if (part == iov[i].iov_len) continue;
    int error = ab_conn_write(conn, (const char *)iov[i].iov_base + part, iov[i].iov_len - part);
    if (error) {
      if (begun && conn->state != AB_CONN_DEAD) cut_off(conn);
      return error;
    }
    begun = true;
  }
  return AB_OK;
}

int ab_conn_send(ab_conn *conn, const struct iovec *iov, int count) {
  return keep_rest(conn, iov, count, send_at_once(conn, iov, count));
}

/* Neither an earlier response nor the next request is here, and the connection stays. */
static bool answers_alone(ab_conn *conn) {
  return !conn->out && conn->in_len == 0 && conn->state == AB_CONN_APP && ab_conn_keep_alive(conn);
}

int ab_conn_answer(ab_conn *conn, const char *ptr, size_t len) {
  if (!answers_alone(conn)) return ab_conn_write(conn, ptr, len);
  struct iovec iov = {(char *)ptr, len};
  size_t sent = send_at_once(conn, &iov, 1);
  /* Who goes at this moment has got as much of it as one who goes a little later. */
  if (AB_LIKELY(sent == len) || conn->state == AB_CONN_DEAD) return AB_OK;
  return keep_rest(conn, &iov, 1, sent);
}

void ab_conn_flush(ab_conn *conn) {
  if (conn->state != AB_CONN_DEAD) ab__conn_flush(conn);
}

bool ab_conn_want_room(ab_conn *conn) {
  /* What nobody has flushed would never drain. */
  if (ab__conn_is_full(conn)) ab__conn_flush(conn);
  conn->wants_sent = false;
  conn->wants_room = ab__conn_is_full(conn);
  return conn->wants_room;
}

bool ab_conn_want_sent(ab_conn *conn) {
  ab_conn_flush(conn);
  conn->wants_room = conn->wants_sent = conn->out != NULL;
  return conn->wants_room;
}

bool ab_conn_flush_later(ab_conn *conn) {
  return ab__engine_touch(conn);
}

uint64_t ab_conn_pending(const ab_conn *conn) {
  return conn->out ? ab_outbox_pending(conn->out) : 0;
}

int ab_conn_detach(ab_conn *conn, const char **ptr, size_t *len) {
  ab_engine *engine = conn->engine;
  int fd = conn->watch.fd;
  *ptr = conn->in;
  *len = conn->in_len;
  conn->in_len = 0; /* its memory stays */
  if (conn->registered) ab_poller_unset(engine->poller, &conn->watch, false);
  conn->registered = false;
  conn->watch.fd = -1;
  conn->state = AB_CONN_DEAD;
  conn->request_deadline = 0;
  engine->stats.connections--;
  engine->stats.detached++;
  ab_wheel_cancel(&engine->wheel, &conn->timer);
  ab_list_remove(&conn->ready_link);
  if (conn->load) ab__load_drop(conn);
  if (conn->wants_body) ab__conn_tell_body(conn, AB_EPEER);
  return fd;
}

bool ab__conn_is_full(const ab_conn *conn) {
  return conn->out && (ab_outbox_pending(conn->out) > ab__conn_limits(conn)->max_pending_output ||
                       ab__files_full(conn));
}

/* Whoever waits for room is told when half of what there may be is sent, so as not to be told for
 * each piece. */
static bool has_drained(const ab_conn *conn) {
  if (!conn->out) return true;
  if (conn->wants_sent) return ab_outbox_pending(conn->out) == 0;
  if (ab__files_full(conn)) return false;
  return ab_outbox_pending(conn->out) <= ab__conn_limits(conn)->max_pending_output / 2;
}

/* --- sending --- */

/* The socket is full: the poller tells when it is not, the deadline when the peer takes nothing.
 * The next turn sets the deadline: this one's clock may be old, when the application kept it for
 * long. That deadline takes the place of the last chance's: the connection closes behind what is
 * being sent. */
static void block(ab_conn *conn, bool progress) {
  conn->last_chance = false;
  if (!conn->blocked || progress) {
    conn->deadline = 0;
    conn->timed = false;
    ab__engine_ready(conn);
  }
  conn->blocked = true;
  ab__files_blocked(conn, progress);
  if (!conn->registered || conn->watch.events & AB_POLL_OUT) return; /* or when the step ends */
  uint32_t events = AB_POLL_IN | AB_POLL_OUT | AB_POLL_RDHUP | AB_POLL_EDGE;
  if (ab_poller_set(conn->engine->poller, &conn->watch, events) != AB_OK) ab__conn_drop(conn);
}

/* The disk is slow: no peer has to answer for that. As for `block`, the last chance's deadline has
 * no place beside it. Returns what send_next does. */
static ssize_t load(ab_conn *conn) {
  conn->last_chance = false;
  ab__conn_rearm(conn);
  return 0;
}

/* One system call. Returns octets sent, 0 when the connection loads, or what ab_sock_send returns.
 */
static ssize_t send_next(ab_conn *conn, const ab_outbox_next_op *next) {
  if (next->op == AB_OUTBOX_WRITE) {
    return ab_sock_send(conn->watch.fd, next->iov, next->iov_count);
  }
  size_t len = ab__load_next(conn, next);
  if (AB_UNLIKELY(len == 0)) return load(conn);
  ssize_t n = ab_sock_sendfile(conn->watch.fd, next->file_fd, next->file_offset, len);
  /* A file that shrank cannot be completed: breaking off tells the peer. */
  return n == 0 || n == AB_ESYS ? AB_EPEER : n;
}

static void all_sent(ab_conn *conn) {
  if (AB_UNLIKELY(conn->load != NULL)) ab__load_drop(conn);
  ab_outbox_fini(conn->out);
  conn->out = NULL;
  if (AB_UNLIKELY(conn->stall != NULL)) ab__conn_stall_end(conn);
  if (conn->state != AB_CONN_CLOSING) return;
  if (!conn->lingers) {
    ab__conn_drop(conn);
    return;
  }
  ab_sock_shutdown(conn->watch.fd);
  conn->state = AB_CONN_LINGER;
  conn->timed = false;
  conn->readable = true;
  ab__conn_rearm(conn);
  ab__engine_ready(conn);
}

void ab__conn_flush(ab_conn *conn) {
  ab_engine *engine = conn->engine;
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
      block(conn, progress);
    } else if (n == AB_ENOMEM) { /* the kernel's, not ours: no event will tell when it is over */
      ab__engine_ready(conn);
      break;
    } else if (n < 0) {
      ab__conn_drop(conn);
    } else if (n > 0) {
      progress = true;
      engine->stats.sent += (uint64_t)n;
      if (AB_UNLIKELY(conn->stall != NULL)) ab__conn_stall_sent(conn, (uint64_t)n);
      ab_outbox_shift(conn->out, (uint64_t)n);
    }
  }
  if (conn->state == AB_CONN_DEAD) return;
  if (progress && !conn->blocked) ab__conn_rearm(conn);
  if (conn->wants_room && has_drained(conn)) {
    conn->wants_room = false;
    ab__engine_event(conn, AB_EVENT_DRAINED);
  }
}

/* --- the end of a response --- */

void ab__conn_close(ab_conn *conn) {
  conn->state = AB_CONN_CLOSING;
  ab__conn_rearm(conn);
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

/* Whether the connection goes on after a response that ended so. */
static bool keeps(ab_conn *conn, enum ab_finish how) {
  return how == AB_FINISH_COMPLETE && ab_conn_keep_alive(conn) && !conn->engine->draining &&
         conn->body_error == AB_OK && ab__conn_can_skip(conn);
}

void ab_conn_abandon(ab_conn *conn, enum ab_finish how) {
  if (conn->state == AB_CONN_DEAD) return;
  ab__conn_flush(conn);
  if (conn->state == AB_CONN_DEAD) return;
  if (how == AB_FINISH_RESET) conn->resets = true;
  ab__conn_drop(conn);
}

void ab__conn_await_request(ab_conn *conn) {
  ab_body_fini(conn->body);
  conn->body = NULL;
  conn->state = AB_CONN_HEAD;
  conn->timed = false;
}

void ab_conn_finish(ab_conn *conn, enum ab_finish how) {
  conn->engine->stats.in_app--;
  conn->engine->busy_until = conn->engine->now;
  conn->app = NULL;
  conn->answers_head = false;
  conn->request_deadline = 0;
  ab__engine_event(conn, 0);
  if (conn->state == AB_CONN_DEAD) {
    ab__conn_free(conn);
    return;
  }
  bool keep = keeps(conn, how), rest = conn->body && !conn->body->done;
  if (rest) conn->lingers = true;
  if (how == AB_FINISH_RESET) conn->resets = true;
  conn->expects = conn->wants_body = conn->wants_room = false;
  if (!keep) {
    ab_body_fini(conn->body);
    conn->body = NULL;
    ab__conn_close(conn);
    return;
  }
  if (rest) {
    conn->state = AB_CONN_SKIP;
  } else {
    ab__conn_await_request(conn);
  }
  if (ab__conn_is_full(conn)) ab__conn_flush(conn);
  if (conn->state == AB_CONN_DEAD) return;
  if (conn->in_len > 0) {
    ab__conn_advance(conn); /* the next pipelined request */
  } else if (conn->readable) {
    ab__engine_ready(conn);
  }
  /* Responses to requests that came together leave together, at the latest when the turn ends. */
  if (conn->state == AB_CONN_HEAD || conn->state == AB_CONN_SKIP) {
    if (conn->out) ab__conn_flush(conn);
    if (conn->state == AB_CONN_HEAD || conn->state == AB_CONN_SKIP) ab__conn_rearm(conn);
  }
}

/* The request is all that the peer has sent, so that closing destroys nothing on its way. */
static bool is_whole(const ab_conn *conn) {
  const ab_body *body = conn->body;
  if (conn->state != AB_CONN_QUEUED || conn->readable || (body && !body->whole)) return false;
  return conn->in_len == conn->consume + (body ? body->gathered : 0);
}

void ab__conn_forget(ab_conn *conn) {
  ab__engine_event(conn, 0);
  ab_body_fini(conn->body);
  conn->body = NULL;
  conn->request = NULL;
  conn->consume = 0;
  conn->expects = false;
  conn->request_deadline = 0;
}

void ab__conn_fail(ab_conn *conn, int error) {
  ab_engine *engine = conn->engine;
  engine->stats.errors++;
  conn->lingers = !is_whole(conn);
  if (!conn->lingers) conn->in_len = 0;
  ab__conn_forget(conn);

  char text[AB_ERROR_MAX];
  size_t content;
  ab_view date = {engine->date, AB_DATE_FIELD_LEN};
  char *end = ab_write_error(text, ab_http1_error_status(error), date, AB_WRITE_CLOSE,
                             conn->answers_head, &content);
  if (ab_conn_write(conn, text, (size_t)(end - text)) == AB_OK) {
    ab__conn_close(conn);
  } else {
    ab__conn_drop(conn);
  }
}
