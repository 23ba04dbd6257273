/* A connection over TLS that the application has taken over: it has one end of a pair of sockets,
 * and here bytes go to and fro between the other end and the link. Of each direction one piece is
 * kept at most: then the side that sends has to wait, as at a socket that is full. Until it
 * has closed its end, no deadline of the server's counts, as on a connection without TLS. All
 * functions run with the lock held. */
#include <string.h>

#include "engine/conn.h"

#define TUNNEL_PIECE 16384 /* what one TLS record holds */

/* While the application's side is open. Its input, which the pair has not taken, is the
 * connection's. */
struct ab_tunnel {
  ab_conn *conn;
  ab_watch watch;     /* our end of the pair */
  bool has_output;    /* the pair may have something from the application */
  bool full;          /* the pair takes no more */
  bool app_ended;     /* the application sends no more */
  bool app_left;      /* ... and reads no more */
  bool peer_ended;    /* the peer sends no more, */
  bool peer_end_told; /* ... and the application knows */
  bool app_end_told;  /* the peer knows that the application sends no more */
};

/* --- from the peer to the application --- */

static bool tunnel_receive(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  if (!conn->readable || tunnel->peer_ended) return false;
  size_t room = ab__conn_room(conn);
  if (room == 0) return false;
  if (conn->own) ab__conn_free_input(conn);
  struct iovec iov = {ab_arena_top(&conn->engine->arena),
                      room < TUNNEL_PIECE ? room : TUNNEL_PIECE};
  ssize_t n = ab__conn_receive(conn, &iov, 1);
  if (n > 0) {
    ab__conn_spend(conn, (size_t)n);
    conn->in = iov.iov_base;
    conn->in_len = (uint32_t)n;
    return true;
  }
  if (n == 0) {
    tunnel->peer_ended = true;
    conn->hung_up = false;
  } else if (n != AB_AGAIN) {
    ab__conn_drop(conn);
  }
  return n == 0;
}

/* What the application does not read any more is thrown away, as a socket does that is shut down
 * for reading. */
static bool pass_on(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  if (tunnel->full) return false;
  struct iovec iov = {conn->in, conn->in_len};
  ssize_t n = tunnel->app_left ? (ssize_t)conn->in_len : ab_sock_send(tunnel->watch.fd, &iov, 1);
  if (n == AB_EPEER) {
    tunnel->app_left = true;
    n = (ssize_t)conn->in_len;
  }
  if (n == AB_AGAIN) {
    tunnel->full = true;
    ab_poller_exhausted(conn->engine->poller, &tunnel->watch, AB_POLL_OUT);
  }
  if (n == AB_ENOMEM) ab__engine_ready(conn);
  if (n <= 0) return false;
  conn->in += n;
  conn->in_len -= (uint32_t)n;
  return true;
}

/* Returns whether there may be more to do. */
static bool from_peer(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  if (conn->in_len > 0) return pass_on(conn);
  if (tunnel->peer_ended && !tunnel->peer_end_told) {
    tunnel->peer_end_told = true;
    ab_sock_shutdown(tunnel->watch.fd);
    return true;
  }
  return tunnel_receive(conn);
}

/* --- from the application to the peer --- */

static bool from_app(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  ab_engine *engine = conn->engine;
  /* Sent or blocked, so that something tells when it is time to go on. */
  if (conn->out && !conn->blocked) ab__conn_flush(conn);
  if (conn->state == AB_CONN_DEAD) return false;
  if (!tunnel->has_output || tunnel->app_ended || conn->out || conn->blocked) return false;
  size_t room = ab__conn_room(conn);
  if (room == 0) return false;
  char *piece = ab_arena_top(&engine->arena);
  ssize_t n = ab_sock_recv(tunnel->watch.fd, piece, room < TUNNEL_PIECE ? room : TUNNEL_PIECE);
  if (n > 0) {
    ab__conn_charge(conn, (size_t)n);
    struct iovec iov = {piece, (size_t)n};
    if (ab__conn_send(conn, &iov, 1) != AB_OK && conn->state != AB_CONN_DEAD) ab__conn_drop(conn);
    return conn->state != AB_CONN_DEAD;
  }
  tunnel->has_output = false;
  if (n == AB_AGAIN) {
    ab_poller_exhausted(engine->poller, &tunnel->watch, AB_POLL_IN);
    return false;
  }
  if (n == AB_ENOMEM) {
    tunnel->has_output = true;
    ab__engine_ready(conn);
    return false;
  }
  tunnel->app_ended = true;
  tunnel->app_left = tunnel->app_left || n != 0;
  return true;
}

/* The application has said all. What the peer still sends may be wanted. */
static bool end_output(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  if (!tunnel->app_ended) return false;
  if (tunnel->app_left || tunnel->peer_end_told) {
    ab__conn_close(conn);
  } else if (!conn->out && !tunnel->app_end_told) {
    tunnel->app_end_told = true;
    ab_link_shutdown(&conn->link);
    if (ab__conn_owes(conn)) ab__conn_await_room(conn);
  }
  return false;
}

static bool tunnel_advance(ab_conn *conn) {
  bool in = from_peer(conn);
  if (conn->state == AB_CONN_DEAD) return false;
  bool out = from_app(conn);
  if (conn->state == AB_CONN_DEAD) return false;
  return in || out || end_output(conn);
}

/* --- life --- */

static void pair_ready(ab_watch *watch, uint32_t events) {
  ab_tunnel *tunnel = AB_CONTAINER_OF(watch, ab_tunnel, watch);
  if (events & (AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_HUP | AB_POLL_ERROR)) {
    tunnel->has_output = true;
  }
  if (events & (AB_POLL_HUP | AB_POLL_ERROR)) {
    tunnel->app_left = true;
    tunnel->conn->untimed = tunnel->conn->timed = false;
  }
  if (events & (AB_POLL_OUT | AB_POLL_HUP | AB_POLL_ERROR)) tunnel->full = false;
  ab__engine_ready(tunnel->conn);
}

static ab_tunnel *make_tunnel(ab_engine *engine, int own) {
  ab_tunnel *tunnel = ab_alloc_zero(&engine->mem, sizeof *tunnel);
  ab_conn *conn = tunnel ? ab__conn_take(engine) : NULL;
  if (!conn) {
    ab_free(&engine->mem, tunnel);
    return NULL;
  }
  tunnel->conn = conn;
  tunnel->has_output = true;
  tunnel->watch = (ab_watch){.ready = pair_ready, .fd = own, .roams = true};
  uint32_t events = AB_POLL_IN | AB_POLL_OUT | AB_POLL_RDHUP | AB_POLL_EDGE;
  if (ab_poller_set(engine->poller, &tunnel->watch, events) == AB_OK) return tunnel;
  ab_slab_give(&engine->conns, conn);
  ab_free(&engine->mem, tunnel);
  return NULL;
}

int ab__tunnel_begin(ab_conn *from, int own) {
  ab_engine *engine = from->engine;
  ab_tunnel *tunnel = make_tunnel(engine, own);
  if (!tunnel) return AB_ENOMEM;
  ab_conn *conn = tunnel->conn;
  if (from->registered) ab_poller_unset(engine->poller, &from->link.watch, false);
  from->registered = false;
  conn->link = from->link;
  from->link = (ab_link){.watch = {.fd = -1}};
  conn->service = from->service;
  conn->peer = from->peer;
  conn->hung_up = from->hung_up;
  conn->readable = true;
  conn->tunnel = tunnel;
  conn->untimed = true;
  conn->speaks = AB_SPEAKS_TUNNEL;
  ab__conn_become(conn, AB_CONN_HEAD);
  ab__engine_ready(conn);
  return AB_OK;
}

static void tunnel_dropped(ab_conn *conn) {
  ab_tunnel *tunnel = conn->tunnel;
  ab_engine *engine = conn->engine;
  if (engine->poller) ab_poller_unset(engine->poller, &tunnel->watch, true);
  ab_fd_close(tunnel->watch.fd);
  ab_free(&engine->mem, tunnel);
  conn->progress = (ab_head_progress){0};
  conn->speaks = AB_SPEAKS_HTTP1;
}

/* From here on it is a connection as others are, that sends its last bytes, in their time. */
static bool close_tunnel(ab_conn *conn) {
  tunnel_dropped(conn);
  AB_NOW(conn->engine, connections, 1);
  if (conn->engine->opens) ab_opens_add(conn->engine->opens, &conn->peer);
  conn->in_len = 0;
  conn->lingers = true;
  conn->timed = conn->untimed = false;
  ab__conn_rearm(conn);
  return false;
}

/* The application's end is told (taken_over.c). */
static void leave_alone(ab_conn *conn AB_UNUSED) {}

static void tunnel_rearm(ab_conn *conn) {
  conn->deadline = 0;
}

const ab_protocol ab__tunnel = {.advance = tunnel_advance,
                                .drain = leave_alone,
                                .refuse = leave_alone,
                                .rearm = tunnel_rearm,
                                .close = close_tunnel,
                                .dropped = tunnel_dropped};
