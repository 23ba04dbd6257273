/* A connection's life (states: conn.h) and input, whose meaning is the protocol's business. All
 * functions run with the lock held. */
#include "engine/conn.h"

#include <string.h>

#include "base/bits.h"

#ifdef AB_POISON
#include <stdlib.h>

#define CONN_TO(state) (1u << AB_CONN_##state)

void ab__conn_become(ab_conn *conn, enum ab_conn_state state) {
  static const unsigned allowed[] = {
      [AB_CONN_FREE] = CONN_TO(HEAD),
      [AB_CONN_HEAD] = CONN_TO(HEAD) | CONN_TO(BUSY) | CONN_TO(CLOSING) | CONN_TO(DEAD),
      [AB_CONN_BUSY] = CONN_TO(HEAD) | CONN_TO(CLOSING) | CONN_TO(DEAD),
      [AB_CONN_CLOSING] = CONN_TO(LINGER) | CONN_TO(DEAD),
      [AB_CONN_LINGER] = CONN_TO(DEAD),
      [AB_CONN_DEAD] = CONN_TO(FREE),
  };
  if (!(allowed[conn->state] & 1u << state)) abort();
  conn->state = (uint8_t)state;
}
#endif

/* The peer has ended its side while it has a request here, and that is enough to call it gone. */
static bool is_abandoned(const ab_conn *conn) {
  return conn->hung_up && conn->engine->half_close == AB_HALF_CLOSE_GONE &&
         ab__conn_has(conn, AB_EXCHANGE_APP);
}

/* A FIN alone may come from a client that waits for its response; with its request queued, it most
 * likely went away. */
bool ab__conn_is_unwanted(const ab_conn *conn) {
  if (!conn->hung_up || conn->engine->half_close == AB_HALF_CLOSE_ANSWER) return false;
  if (ab__conn_has(conn, AB_EXCHANGE_APP)) return conn->exchange->handed;
  return ab__conn_has(conn, AB_EXCHANGE_QUEUED) &&
         (conn->exchange->stood || ab__engine_crowded(conn->engine));
}

/* Its queued request is dropped, after a reset or because the client has left. */
static bool leaves_queue(const ab_conn *conn, uint32_t events) {
  if (!ab__conn_has(conn, AB_EXCHANGE_QUEUED)) return false;
  bool reset = events & (AB_POLL_HUP | AB_POLL_ERROR);
  bool gone = conn->hung_up && conn->engine->half_close == AB_HALF_CLOSE_GONE;
  return reset || gone || ab__conn_is_unwanted(conn);
}

/* The socket is broken. One whose sides have both ended is not, if we read on there. */
static bool is_reset(const ab_conn *conn, uint32_t events) {
  if (AB_LIKELY(!(events & (AB_POLL_HUP | AB_POLL_ERROR)))) return false;
  return events & AB_POLL_ERROR || conn->speaks != AB_SPEAKS_TUNNEL;
}

static void conn_ready(ab_watch *watch, uint32_t events) {
  ab_conn *conn = AB_CONTAINER_OF(watch, ab_conn, link.watch);
  if (events & AB_POLL_RDHUP) conn->hung_up = true;
  if (AB_UNLIKELY(leaves_queue(conn, events))) {
    ab__exchange_unqueue(conn->exchange);
    return;
  }
  if (is_reset(conn, events) || AB_UNLIKELY(is_abandoned(conn) || ab__conn_is_unwanted(conn))) {
    ab__conn_drop(conn);
    return;
  }
  if (events & (AB_POLL_IN | AB_POLL_RDHUP)) conn->readable = true;
  if (events & AB_POLL_OUT) {
    if (conn->blocked) {
      conn->blocked = conn->timed = false;
      ab_list_remove(&conn->ready_link); /* its place may be another one now */
    }
    if (ab__conn_owes(conn)) conn->readable = true; /* receiving sends it */
  }
  if (AB_UNLIKELY(conn->hung_up) && ab__conn_has(conn, AB_EXCHANGE_APP)) {
    ab__exchange_ask(conn->exchange);
  }
  if (conn->state != AB_CONN_DEAD) ab__engine_ready(conn);
}

/* A peer that is not a proxy must not be able to name any address but its own. */
static bool is_proxied(const ab_service *service, const ab_addr *peer) {
  if (AB_LIKELY(service->proxy_versions == 0)) return false;
  return service->proxy_count == 0 || ab_nets_include(service->proxies, service->proxy_count, peer);
}

ab_conn *ab__conn_take(ab_engine *engine) {
  ab_conn *conn = ab_slab_take(&engine->conns);
  if (!conn) return NULL;
  memset(conn, 0, sizeof(*conn));
  ab_list_init(&conn->ready_link);
  ab_wheel_node_init(&conn->timer);
  conn->engine = engine;
  return conn;
}

ab_conn *ab__conn_open(ab_engine *engine, int fd, const ab_addr *peer, ab_service *service) {
  ab_conn *conn = ab__conn_take(engine);
  if (!conn) return NULL;
  ab_link_init(&conn->link, fd, conn_ready);
  conn->service = service ? service : &engine->default_service;
  conn->peer = *peer;
  ab__conn_become(conn, AB_CONN_HEAD);
  conn->proxied = is_proxied(conn->service, peer);
  conn->undecided = conn->service->http2;
  /* Usually the request is there already (TCP_DEFER_ACCEPT): read before asking the poller. */
  conn->readable = true;
  AB_NOW(engine, connections, 1);
  if (AB_UNLIKELY(engine->opens != NULL)) ab_opens_add(engine->opens, peer);
  /* No deadline yet: it is about to be served, and may be gone before it would need one. */
  ab__engine_ready(conn);
  return conn;
}

void ab__conn_free_input(ab_conn *conn) {
  ab_free(&conn->engine->mem, conn->own);
  conn->own = NULL;
  conn->own_capacity = 0;
  conn->in = NULL;
  conn->in_len = 0;
}

void ab__conn_free(ab_conn *conn) {
  if (conn->exchange) ab__exchange_end(conn->exchange);
  if (AB_UNLIKELY(conn->speaks == AB_SPEAKS_STREAM)) ab__conn_protocol(conn)->freed(conn);
  ab__conn_free_input(conn);
  ab_list_remove(&conn->ready_link);
  ab_list_append(&conn->engine->dead, &conn->ready_link);
}

void ab__conns_free_dead(ab_engine *engine) {
  for (ab_list *node; (node = ab_list_shift(&engine->dead));) {
    ab_conn *conn = AB_CONTAINER_OF(node, ab_conn, ready_link);
    ab__conn_become(conn, AB_CONN_FREE);
    ab_slab_give(&engine->conns, conn);
  }
}

void ab__conn_uncount(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  AB_NOW(engine, connections, -1u);
  if (AB_UNLIKELY(engine->opens != NULL)) ab_opens_remove(engine->opens, &conn->peer);
}

static void close_link(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  /* In a forked child that is not for us to say: the parent goes on with the session. */
  if (AB_UNLIKELY(!engine->poller)) ab_link_drop_tls(&conn->link);
  ab_link_close(&conn->link, conn->resets);
  if (AB_LIKELY(conn->speaks != AB_SPEAKS_TUNNEL)) ab__conn_uncount(conn);
  if (AB_UNLIKELY(conn->service->tls != NULL)) AB_NOW(engine, tls_connections, -1u);
}

void ab__conn_drop(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  bool in_app = ab__conn_has(conn, AB_EXCHANGE_APP);
  if (conn->registered) ab_poller_unset(engine->poller, &conn->link.watch, true);
  conn->registered = false;
  if (AB_LIKELY(ab_link_open(&conn->link))) close_link(conn);
  ab__conn_become(conn, AB_CONN_DEAD);
  if (AB_UNLIKELY(conn->speaks != AB_SPEAKS_HTTP1)) ab__conn_protocol(conn)->dropped(conn);
  ab_wheel_cancel(&engine->wheel, &conn->timer);
  ab_list_remove(&conn->ready_link);
  ab__load_drop(conn);
  if (conn->out) ab_outbox_fini(conn->out);
  conn->out = NULL;
  if (conn->stall) ab__conn_stall_end(conn);
  if (in_app) {
    ab__exchange_gone(conn->exchange); /* which keeps input and body */
  } else {
    ab__conn_free(conn);
  }
}

/* --- input memory --- */

/* The next power of two while small, at most an eighth more than needed when large. */
static uint32_t own_size(uint32_t needed) {
  if (needed <= 4096) return ab_round_up_pow2(needed < 256 ? 256 : needed);
  uint32_t part = ab_round_up_pow2(needed / 16 + 1);
  return (needed + part - 1) & ~(part - 1);
}

/* `in` in memory of the connection's own, from its start, with room for `room` more bytes. */
static bool own_input(ab_conn *conn, size_t room) {
  const ab_mem *mem = &conn->engine->mem;
  size_t needed;
  if (!ab_add_size(conn->in_len, room, &needed) || needed > UINT32_MAX / 2) return false;
  if (conn->own && needed <= conn->own_capacity) {
    if (conn->in != conn->own) memmove(conn->own, conn->in, conn->in_len);
    conn->in = conn->own;
    return true;
  }
  uint32_t capacity = own_size((uint32_t)needed);
  char *own = ab_alloc(mem, capacity);
  if (!own) return false;
  if (conn->in_len) memcpy(own, conn->in, conn->in_len);
  ab_free(mem, conn->own);
  conn->own = conn->in = own;
  conn->own_capacity = capacity;
  return true;
}

/* There is no memory to keep it in. */
static void lose_input(ab_conn *conn) {
  ab_exchange *exchange = conn->exchange;
  if (ab__conn_has(conn, AB_EXCHANGE_APP) && (!exchange->body || exchange->body->done)) {
    ab_exchange_close_after(exchange); /* the request is answered; what came after it is lost */
  } else {
    if (conn->state != AB_CONN_DEAD) ab__conn_drop(conn);
    if (conn->exchange) conn->exchange->body_error = AB_EPEER;
  }
  conn->in_len = 0;
}

void ab__conn_settle(ab_conn *conn) {
  if (conn->exchange) conn->exchange->request = NULL;
  if (conn->in_len == 0) {
    if (conn->own) ab__conn_free_input(conn);
  } else if (!conn->own && !own_input(conn, 0)) {
    lose_input(conn);
  }
}

/* --- reading --- */

void ab__conn_leave(ab_conn *conn) {
  if (conn->out) {
    ab__conn_close(conn);
  } else {
    ab__conn_drop(conn);
  }
}

void ab__conn_hurry(ab_conn *conn) {
  conn->timed = false;
  ab__engine_ready(conn);
}

void ab__conn_part(ab_conn *conn) {
  conn->parting = conn->readable = true;
  ab__engine_ready(conn);
}

/* The peer has closed its side. It may be waiting for responses all the same (RFC 9112 9.6). */
static void end_of_input(ab_conn *conn) {
  conn->hung_up = false;
  /* A peer that speaks HTTP/2 ends no side before it has everything. */
  if (conn->state == AB_CONN_LINGER || conn->speaks == AB_SPEAKS_HTTP2) {
    ab__conn_drop(conn);
  } else {
    conn->in_len = 0;
    ab__conn_leave(conn);
  }
}

/* Small records cost more than their content: what came over the network for them is charged. */
static ssize_t receive_tls(ab_conn *conn, const struct iovec *iov, int count, bool *drained) {
  const ab_link_scratch *scratch = &conn->engine->scratch;
  uint64_t before = scratch->received;
  ssize_t n = ab_link_receive(&conn->link, iov, count, drained);
  uint64_t came = scratch->received - before, content = n > 0 ? (uint64_t)n : 0;
  if (came > content) ab__conn_charge(conn, came - content);
  return n;
}

ssize_t ab__conn_receive(ab_conn *conn, const struct iovec *iov, int count) {
  bool drained;
  ssize_t n = AB_UNLIKELY(ab_link_is_tls(&conn->link))
                  ? receive_tls(conn, iov, count, &drained)
                  : ab_link_receive(&conn->link, iov, count, &drained);
  ab__conn_charge(conn, AB_READ_COST);
  if (n > 0) {
    if (drained && !conn->hung_up) ab__conn_emptied(conn); /* or until the stream ends */
    conn->engine->stats->received += (uint64_t)n;
    return n;
  }
  conn->readable = false;
  if (n == AB_AGAIN) {
    ab__conn_emptied(conn);
    if (ab__conn_owes(conn)) ab__conn_await_room(conn);
  }
  return n;
}

/* Reads into buf. Returns bytes, or 0 when there is nothing to use; at the end of the stream the
 * connection has been dropped unless the application has it. */
static size_t conn_receive(ab_conn *conn, char *buf, size_t room) {
  struct iovec iov = {buf, room};
  ssize_t n = ab__conn_receive(conn, &iov, 1);
  if (n > 0) return (size_t)n;
  if (n == 0) {
    end_of_input(conn);
  } else if (n != AB_AGAIN) {
    ab__conn_drop(conn);
  }
  return 0;
}

/* If the share is used up, the connection is served again later. */
static bool has_share(ab_conn *conn) {
  if (AB_LIKELY(ab__conn_has_share(conn))) return true;
  ab__engine_ready(conn);
  return false;
}

size_t ab__conn_room(ab_conn *conn) {
  if (!has_share(conn)) return 0;
  size_t room = ab__arena_room(conn->engine);
  if (room == 0) ab__engine_ready(conn);
  return room;
}

void ab__conn_spend(ab_conn *conn, size_t len) {
  ab_arena_take(&conn->engine->arena, len);
  ab__conn_charge(conn, len);
}

bool ab__conn_fill(ab_conn *conn) {
  size_t room = ab__conn_room(conn);
  if (room == 0) return false;
  if (conn->own) ab__conn_free_input(conn);
  char *buf = ab_arena_top(&conn->engine->arena);
  size_t n = conn_receive(conn, buf, room);
  if (n == 0) return false;
  ab__conn_spend(conn, n);
  conn->in = buf;
  conn->in_len = (uint32_t)n;
  return true;
}

bool ab__conn_append(ab_conn *conn, const char *ptr, size_t len) {
  if (!own_input(conn, len)) return false;
  memcpy(conn->own + conn->in_len, ptr, len);
  conn->in_len += (uint32_t)len;
  return true;
}

bool ab__conn_read_behind(ab_conn *conn, size_t room) {
  if (!has_share(conn)) return false;
  if (!own_input(conn, room)) {
    ab__conn_fail(conn, AB_HTTP_NO_MEMORY);
    return false;
  }
  size_t n = conn_receive(conn, conn->own + conn->in_len, conn->own_capacity - conn->in_len);
  ab__conn_charge(conn, n);
  conn->in_len += (uint32_t)n;
  return n > 0;
}

static bool conn_discard(ab_conn *conn) {
  if (!conn->readable) return false;
  size_t room = ab__conn_room(conn);
  return room > 0 && conn_receive(conn, ab_arena_top(&conn->engine->arena), room) > 0;
}

/* --- serving --- */

void ab__conn_await_request(ab_conn *conn) {
  if (conn->exchange) ab__exchange_end(conn->exchange);
  ab__conn_become(conn, AB_CONN_HEAD);
  conn->timed = false;
}

/* One step. Returns whether another one may get further at once. */
static bool conn_advance(ab_conn *conn) {
  switch (conn->state) {
  case AB_CONN_HEAD:
  case AB_CONN_BUSY:
    return ab__conn_protocol(conn)->advance(conn);
  case AB_CONN_LINGER:
    return conn_discard(conn);
  default:
    return false;
  }
}

void ab__conn_advance(ab_conn *conn) {
  if (!ab__engine_touch(conn)) {
    ab__engine_ready(conn);
    return;
  }
  int steps = 0;
  while (conn_advance(conn)) {
    if (++steps == AB_TURN_STEPS) {
      ab__engine_ready(conn);
      break;
    }
  }
  if (conn->state != AB_CONN_DEAD) ab__conn_rearm(conn);
}
