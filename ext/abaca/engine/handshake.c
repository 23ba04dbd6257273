/* How a connection begins that speaks TLS: perhaps a PROXY header in clear, then the handshake,
 * then what ALPN chose. A signature takes as long as a dozen small requests, so a step makes only a
 * few, and those that wait for one wait in order. All functions run with the lock held. */
#include <string.h>

#include "engine/conn.h"

/* A handshake that waits for its client for this long makes room for others, where there is none.
 */
#define PATIENCE AB_NSEC_PER_SEC
/* Handshakes that are looked at for one that does; those before it wait for a signature. */
#define HANDSHAKE_LOOKS 64

struct ab_handshake {
  ab_conn *conn;
  ab_list link;     /* in engine->handshakes */
  ab_nsec accepted; /* tls_handshake_timeout counts from here, to the first byte of a request */
  bool begun;       /* what was in clear has been read, and the link speaks TLS */
};

static ab_nsec ends(const ab_conn *conn) {
  return conn->handshake->accepted + ab_limit_nsec(ab__conn_limits(conn)->tls_handshake_timeout);
}

/* --- the end of a handshake --- */

/* It speaks HTTP/1 from here on, or no more. */
static void handshake_end(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  ab_list_remove(&conn->handshake->link);
  ab_free(&engine->mem, conn->handshake);
  conn->progress = (ab_head_progress){0};
  conn->speaks = AB_SPEAKS_HTTP1;
  AB_NOW(engine, tls_waiting, -1u);
}

static void handshake_fail(ab_conn *conn) {
  conn->engine->stats->tls_failed++;
  handshake_end(conn);
}

/* --- new ones --- */

static bool rest(ab_engine *engine, ab_nsec until) {
  engine->tls_rest_until = until;
  return false;
}

static bool handshake_is_full(const ab_engine *engine) {
  uint64_t most = engine->default_service.limits.max_tls_handshakes;
  return most && engine->own_stats.tls_waiting >= most;
}

/* A client that is silent must not keep others out. NULL: none has been for long. */
static ab_conn *silent(const ab_engine *engine) {
  unsigned looks = 0;
  ab_list_each (node, next, &engine->handshakes) {
    ab_handshake *handshake = AB_CONTAINER_OF(node, ab_handshake, link);
    if (++looks > HANDSHAKE_LOOKS || handshake->accepted + PATIENCE > engine->now) return NULL;
    if (!handshake->conn->readable) return handshake->conn; /* the others wait for us */
  }
  return NULL;
}

/* At a steady rate, with a tenth of a second's at once. */
static bool is_due(ab_engine *engine) {
  ab_nsec latest = engine->now + AB_NSEC_PER_SEC / 10;
  return engine->tls_due <= latest || rest(engine, engine->now + engine->tls_due - latest);
}

static void count_rate(ab_engine *engine) {
  uint64_t rate = engine->default_service.limits.tls_handshake_rate;
  if (rate == 0) return;
  if (engine->tls_due < engine->now) engine->tls_due = engine->now;
  engine->tls_due += AB_NSEC_PER_SEC / rate;
}

bool ab__handshakes_have_room(ab_engine *engine) {
  const ab_limits *limits = &engine->default_service.limits;
  const ab_figures *stats = &engine->own_stats;
  if (engine->tls_rest_until) return false;
  if (limits->max_tls_connections && stats->tls_connections >= limits->max_tls_connections) {
    return rest(engine, engine->now + AB_REST);
  }
  if (handshake_is_full(engine) && !silent(engine)) return rest(engine, engine->now + AB_LOOK);
  return limits->tls_handshake_rate == 0 || is_due(engine);
}

bool ab__handshake_begin(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  AB_NOW(engine, tls_connections, 1);
  count_rate(engine);
  ab_handshake *handshake = ab_alloc_zero(&engine->mem, sizeof *handshake);
  if (!handshake) return false;
  ab_conn *other = handshake_is_full(engine) ? silent(engine) : NULL;
  if (other) ab__conn_drop(other);
  handshake->conn = conn;
  handshake->accepted = engine->now;
  ab_list_init(&handshake->link);
  ab_list_append(&engine->handshakes, &handshake->link);
  conn->handshake = handshake;
  conn->speaks = AB_SPEAKS_TLS;
  AB_NOW(engine, tls_waiting, 1);
  return true;
}

/* --- in clear --- */

static bool read_more(ab_conn *conn) {
  if (!conn->readable) return false;
  return conn->in_len > 0 ? ab__conn_read_behind(conn, AB_RECV_MIN) : ab__conn_fill(conn);
}

static bool read_proxy_header(ab_conn *conn) {
  if (conn->in_len > 0 && !conn->parsed) return ab__conn_read_proxy_header(conn);
  if (!read_more(conn)) return false;
  conn->parsed = false;
  return true;
}

#define REFUSAL "400 Bad Request: use https for this port.\n"
_Static_assert(sizeof REFUSAL - 1 == 42, "its length stands in its head");

static int write_refusal(ab_conn *conn) {
  static const char head[] = "HTTP/1.1 400 Bad Request\r\n";
  static const char fields[] = "Content-Type: text/plain\r\nContent-Length: 42\r\n"
                               "Connection: close\r\n\r\n" REFUSAL;
  int error = ab__conn_write(conn, head, sizeof head - 1);
  if (!error) error = ab__conn_write(conn, conn->engine->date, AB_DATE_FIELD_LEN);
  return error ? error : ab__conn_write(conn, fields, sizeof fields - 1);
}

static bool refuse_clear(ab_conn *conn) {
  ab__engine_notice(conn, "bytes that are not TLS");
  ab_figures_fault(conn->engine->stats, 400);
  conn->lingers = true;
  if (write_refusal(conn) == AB_OK) {
    ab__conn_close(conn);
  } else {
    ab__conn_drop(conn);
  }
  return false;
}

/* It is a plain connection from here on, on which no request is served (own_answer.c). */
static bool go_on_in_clear(ab_conn *conn) {
  ab_view bytes = ab_link_clear_bytes(&conn->link);
  if (!ab__conn_append(conn, bytes.ptr, bytes.len)) {
    ab__conn_drop(conn);
    return false;
  }
  ab_link_drop_tls(&conn->link);
  handshake_fail(conn);
  conn->misplaced = conn->begun = true; /* its deadline stays */
  conn->undecided = false;
  return conn->service->redirects_clear || refuse_clear(conn);
}

/* --- the handshake --- */

static bool begin_tls(ab_conn *conn) {
  if (ab_link_begin_tls(&conn->link, &conn->engine->scratch, conn->service->tls, conn->in,
                        conn->in_len) != AB_OK) {
    ab__conn_drop(conn);
    return false;
  }
  conn->handshake->begun = true;
  conn->readable = true; /* TLS may have all that has come */
  ab__conn_free_input(conn);
  return true;
}

/* What ALPN chose; without it a client cannot begin with HTTP/2 (RFC 9113 3.2). */
static bool done(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  ab_nsec deadline = ends(conn);
  engine->stats->tls_handshakes++;
  engine->stats->tls_resumed += ab_tls_is_resumed(ab_link_session(&conn->link));
  handshake_end(conn);
  conn->undecided = false;
  conn->readable = true; /* what has come with the end of the handshake, TLS has already */
  if (ab_link_chose_http2(&conn->link)) {
    if (ab__http2.begin(conn)) return true;
    ab__conn_drop(conn);
    return false;
  }
  conn->deadline = deadline;
  conn->timed = true;
  conn->begun = false;
  ab__conn_arm(conn);
  if (AB_UNLIKELY(engine->draining)) ab__conn_hurry(conn);
  return true;
}

/* The alert is on its way, and is not to be destroyed by a reset: what comes is thrown away. */
static bool fail_closing(ab_conn *conn) {
  ab_link_drop_tls(&conn->link);
  conn->lingers = true;
  ab__conn_close(conn);
  return false;
}

/* A peer that has ended its side sends no more: that is read as well. */
static bool wait_for_peer(ab_conn *conn) {
  if (ab__conn_owes(conn)) {
    conn->readable = false;
    ab__conn_await_room(conn);
    return false;
  }
  conn->readable = conn->hung_up;
  if (!conn->hung_up) ab__conn_emptied(conn);
  return conn->readable;
}

/* Behind those that wait already. */
static bool wait_to_sign(ab_conn *conn) {
  ab_list_remove(&conn->ready_link);
  ab_list_append(&conn->engine->signers, &conn->ready_link);
  return false;
}

static bool handshake_go_on(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  int result = ab_link_handshake(&conn->link, false);
  if (result == AB_LINK_SIGNS) {
    if (engine->signs == 0) return wait_to_sign(conn);
    engine->signs--;
    result = ab_link_handshake(&conn->link, true);
  }
  switch (result) {
  case AB_OK:
    return done(conn);
  case AB_AGAIN:
    return wait_for_peer(conn);
  case AB_LINK_CLEAR:
    return go_on_in_clear(conn);
  case AB_EPEER:
    return fail_closing(conn);
  default:
    ab__conn_drop(conn);
    return false;
  }
}

static bool handshake_advance(ab_conn *conn) {
  if (!conn->handshake->begun) {
    if (AB_UNLIKELY(conn->proxied)) return read_proxy_header(conn);
    return begin_tls(conn);
  }
  return conn->readable && handshake_go_on(conn);
}

static void handshake_serve(ab_conn *conn) {
  conn->readable = true;
  ab__conn_advance(conn);
}

void ab__handshakes_sign(ab_engine *engine) {
  while (engine->signs > 0) {
    ab_list *node = ab_list_shift(&engine->signers);
    if (!node) return;
    handshake_serve(AB_CONTAINER_OF(node, ab_conn, ready_link));
  }
}

/* --- deadlines, and the end --- */

/* One that is not done when the engine drains has little more time; what is on its way counts. */
static void handshake_rearm(ab_conn *conn) {
  const ab_engine *engine = conn->engine;
  if (conn->timed) return;
  conn->timed = true;
  conn->deadline = ends(conn);
  if (AB_UNLIKELY(engine->draining)) {
    conn->deadline = ab_earlier(conn->deadline, engine->now + AB_DRAIN_GRACE);
  }
  ab__conn_arm(conn);
}

static void handshake_timeout(ab_conn *conn) {
  conn->engine->stats->timeouts++;
  ab__conn_drop(conn);
}

/* The next turn sets its deadline, as this one's clock may be late. */
static void hurry(ab_conn *conn) {
  ab__conn_hurry(conn);
}

static bool close_failed(ab_conn *conn) {
  handshake_fail(conn);
  return false;
}

/* A header in clear that is wrong; TLS has words of its own. */
static int handshake_write_error(ab_conn *conn, int status, enum ab_write_connection connection,
                                 bool answers_head, size_t *content) {
  return ab__http1.write_error(conn, status, connection, answers_head, content);
}

const ab_protocol ab__handshake = {.advance = handshake_advance,
                                   .drain = hurry,
                                   .refuse = hurry,
                                   .write_error = handshake_write_error,
                                   .rearm = handshake_rearm,
                                   .timeout = handshake_timeout,
                                   .close = close_failed,
                                   .dropped = handshake_fail};
