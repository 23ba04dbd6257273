/* The input side of a connection: from readable octets to a request that waits to be taken. The
 * states are drawn in conn.h. All functions here run with the lock held. */
#include "engine/conn.h"

#include <string.h>

#include "base/bits.h"
#include "http1/alien.h"

/* What a step of the state machine leaves to do. */
enum step { STEP_ON, STEP_WAIT };

/* The peer has ended its side while it has a request here, and that is enough to call it gone. */
static bool is_abandoned(const ab_conn *conn) {
  return conn->hung_up && conn->engine->half_close == AB_HALF_CLOSE_GONE &&
         conn->state == AB_CONN_APP;
}

/* Its request is dropped while it waits to be taken, for a reset or because nobody waits for it. */
static bool leaves_queue(const ab_conn *conn, uint32_t events) {
  if (conn->state != AB_CONN_QUEUED) return false;
  bool reset = events & (AB_POLL_HUP | AB_POLL_ERROR);
  bool gone = conn->hung_up && conn->engine->half_close == AB_HALF_CLOSE_GONE;
  return reset || gone || ab__conn_is_unwanted(conn);
}

static void conn_ready(ab_watch *watch, uint32_t events) {
  ab_conn *conn = AB_CONTAINER_OF(watch, ab_conn, watch);
  if (events & AB_POLL_RDHUP) conn->hung_up = true;
  if (AB_UNLIKELY(leaves_queue(conn, events))) {
    ab__conn_unqueue(conn);
    return;
  }
  bool reset = events & (AB_POLL_HUP | AB_POLL_ERROR);
  if (reset || AB_UNLIKELY(is_abandoned(conn) || ab__conn_is_unwanted(conn))) {
    ab__conn_drop(conn);
    return;
  }
  if (events & (AB_POLL_IN | AB_POLL_RDHUP)) conn->readable = true;
  if (events & AB_POLL_OUT && conn->blocked) conn->blocked = conn->timed = false;
  if (AB_UNLIKELY(conn->hung_up)) ab__conn_ask(conn);
  if (conn->state != AB_CONN_DEAD) ab__engine_ready(conn);
}

/* Who is no proxy must not be able to name another address than its own. */
static bool is_proxied(const ab_service *service, const ab_addr *peer) {
  if (AB_LIKELY(service->proxy_versions == 0)) return false;
  return service->proxy_count == 0 || ab_nets_include(service->proxies, service->proxy_count, peer);
}

ab_conn *ab__conn_open(ab_engine *engine, int fd, const ab_addr *peer, ab_service *service) {
  ab_conn *conn = ab__engine_conn(engine);
  if (!conn) return NULL;
  conn->watch.fd = fd;
  conn->watch.ready = conn_ready;
  conn->watch.roams = true;
  conn->service = service ? service : &engine->home;
  conn->peer = *peer;
  conn->state = AB_CONN_HEAD;
  conn->proxied = is_proxied(conn->service, peer);
  /* Usually the request is there already (TCP_DEFER_ACCEPT): read before asking the poller. */
  conn->readable = true;
  engine->stats.connections++;
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
  ab_body_fini(conn->body);
  conn->body = NULL;
  ab__conn_free_input(conn);
  ab__engine_bury(conn);
}

void ab__conn_drop(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  bool in_app = conn->state == AB_CONN_APP;
  if (conn->registered) ab_poller_unset(engine->poller, &conn->watch, true);
  conn->registered = false;
  if (conn->resets) {
    ab_sock_reset(conn->watch.fd);
  } else {
    ab_fd_close(conn->watch.fd);
  }
  conn->watch.fd = -1;
  conn->state = AB_CONN_DEAD;
  engine->stats.connections--;
  ab_wheel_cancel(&engine->wheel, &conn->timer);
  ab_list_remove(&conn->ready_link);
  if (AB_UNLIKELY(conn->load != NULL)) ab__load_drop(conn);
  if (conn->out) ab_outbox_fini(conn->out);
  conn->out = NULL;
  if (conn->stall) ab__conn_stall_end(conn);
  conn->request_deadline = 0;

  if (in_app) {
    unsigned events = AB_EVENT_GONE;
    if (conn->wants_body) {
      conn->body_error = AB_EPEER;
      events |= AB_EVENT_BODY;
    }
    if (conn->wants_room) events |= AB_EVENT_DRAINED;
    conn->wants_body = conn->wants_room = false;
    ab__engine_event(conn, events);
    return; /* input and body are still the application's */
  }
  ab__engine_event(conn, 0);
  ab__conn_free(conn);
}

/* --- input memory --- */

/* Of a piece for so many octets: the next power of two while it is short, and an eighth more than
 * needed at most when it is long, so that a body of 64 KB behind its head does not take 128. */
static uint32_t own_size(uint32_t needed) {
  if (needed <= 4096) return ab_round_up_pow2(needed < 256 ? 256 : needed);
  uint32_t part = ab_round_up_pow2(needed / 16 + 1);
  return (needed + part - 1) & ~(part - 1);
}

/* `in` in memory of the connection's own, from its start, with room for `room` more octets. */
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
  if (conn->state == AB_CONN_APP && (!conn->body || conn->body->done)) {
    ab_conn_close_after(conn); /* the request is answered; what came after it is lost */
  } else {
    if (conn->state != AB_CONN_DEAD) ab__conn_drop(conn);
    conn->body_error = AB_EPEER;
  }
  conn->in_len = 0;
}

void ab__conn_settle(ab_conn *conn) {
  conn->request = NULL;
  if (conn->in_len == 0) {
    if (conn->own) ab__conn_free_input(conn);
  } else if (!conn->own && !own_input(conn, 0)) {
    lose_input(conn);
  }
}

/* --- reading --- */

/* No request can come any more; responses to earlier ones still go out. */
static void leave(ab_conn *conn) {
  if (conn->out) {
    ab__conn_close(conn);
  } else {
    ab__conn_drop(conn);
  }
}

/* The peer has closed its side. It may be waiting for responses all the same (RFC 9112 9.6). */
static void end_of_input(ab_conn *conn) {
  conn->hung_up = false;
  if (conn->state == AB_CONN_LINGER) {
    ab__conn_drop(conn);
  } else {
    conn->in_len = 0;
    leave(conn);
  }
}

/* Reads into buf. Returns octets, or 0 when there is nothing to use: then *step says how to go on,
 * and at the end of the stream the connection has been dropped unless the application has it. */
static size_t receive(ab_conn *conn, char *buf, size_t room, enum step *step) {
  ssize_t n = ab_sock_recv(conn->watch.fd, buf, room);
  *step = STEP_WAIT;
  if (n > 0) {
    /* A short read has emptied the socket; after a hang-up only the end of the stream does. */
    if ((size_t)n < room && !conn->hung_up) conn->readable = false;
    conn->engine->stats.received += (uint64_t)n;
    return (size_t)n;
  }
  if (n == AB_AGAIN) {
    conn->readable = false;
    return 0;
  }
  conn->readable = false;
  if (n == 0) {
    end_of_input(conn);
  } else {
    ab__conn_drop(conn);
  }
  return 0;
}

size_t ab__conn_arena_room(const ab_engine *engine) {
  size_t left = ab_arena_left(&engine->arena);
  if (left < engine->request_room + AB_RECV_MIN) return 0;
  left -= engine->request_room;
  return left < AB_RECV_MAX ? left : AB_RECV_MAX;
}

static enum step wait_for_arena(ab_conn *conn) {
  ab__engine_ready(conn);
  return STEP_WAIT;
}

/* One read into the arena, when there is no input. False: *step says how to go on. */
static bool fill(ab_conn *conn, enum step *step) {
  ab_engine *engine = conn->engine;
  size_t room = ab__conn_arena_room(engine);
  if (room == 0) {
    *step = wait_for_arena(conn);
    return false;
  }
  if (conn->own) ab__conn_free_input(conn);
  char *buf = ab_arena_top(&engine->arena);
  size_t n = receive(conn, buf, room, step);
  if (n == 0) return false;
  ab_arena_take(&engine->arena, n);
  conn->in = buf;
  conn->in_len = (uint32_t)n;
  return true;
}

/* One read behind the input that is here. */
static enum step read_behind(ab_conn *conn, size_t room) {
  if (!own_input(conn, room)) {
    ab__conn_fail(conn, AB_HTTP1_NO_MEMORY);
    return STEP_WAIT;
  }
  enum step step;
  size_t n = receive(conn, conn->own + conn->in_len, conn->own_capacity - conn->in_len, &step);
  if (n == 0) return step;
  conn->in_len += (uint32_t)n;
  return STEP_ON;
}

static enum step read_head(ab_conn *conn) {
  enum step step;
  if (conn->in_len == 0) {
    if (!fill(conn, &step)) {
      /* Drained, idle, and nothing was on its way: it can go. */
      if (conn->engine->draining && conn->state == AB_CONN_HEAD && !conn->readable &&
          !conn->last_chance) {
        leave(conn);
      }
      return step;
    }
  } else {
    step = read_behind(conn, AB_RECV_MIN);
    if (step == STEP_WAIT) return step;
  }
  conn->parsed = false;
  return STEP_ON;
}

/* --- the head --- */

/* Parses what stands at `in` into the arena. Returns as ab_head_parse; AB_ENOMEM without room. */
static int parse(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (ab_arena_left(&engine->arena) < engine->request_room) return AB_ENOMEM;
  ab_request *request = (ab_request *)(void *)ab_arena_top(&engine->arena);
  ab_field *fields = (ab_field *)(void *)(request + 1);
  int size = ab_head_parse(conn->in, conn->in_len, ab__conn_limits(conn), engine->methods,
                           &conn->progress, request, fields);
  if (size > 0) {
    ab_arena_take(&engine->arena, sizeof(ab_request) + request->field_count * sizeof(ab_field));
    conn->request = request;
  }
  return size;
}

static void reject_late(ab_conn *conn) {
  conn->engine->stats.rejected[AB_REJECT_SHUTDOWN]++;
  ab__conn_fail(conn, AB_HTTP1_SHUTDOWN);
}

static void queue_request(ab_conn *conn) {
  if (AB_UNLIKELY(conn->engine->refusing)) {
    reject_late(conn);
    return;
  }
  conn->state = AB_CONN_QUEUED;
  conn->timed = false;
  if (AB_UNLIKELY(conn->engine->half_close == AB_HALF_CLOSE_GONE) &&
      ab_sock_ended(conn->watch.fd, true)) {
    ab__conn_unqueue(conn); /* the poller may not have told yet */
  } else {
    ab__engine_event(conn, AB_EVENT_REQUEST);
  }
}

/* The head at `in` is complete: that is enough for the application, which reads the body itself,
 * unless that shall be gathered. */
static enum step begin_request(ab_conn *conn, const ab_request *request) {
  ab_engine *engine = conn->engine;
  const ab_framing *framing = &request->framing;
  if (AB_UNLIKELY(engine->has_health) && ab__health_answer(conn, request)) {
    conn->request = NULL;
    conn->progress = (ab_head_progress){0};
    return conn->state == AB_CONN_HEAD ? STEP_ON : STEP_WAIT;
  }
  conn->asks_close = !framing->keep_alive;
  conn->answers_head = request->is_head;
  conn->interim = request->minor > 0;
  conn->watched = engine->watches_peers;
  conn->asked = false;
  conn->keep_decided = conn->lingers = conn->expects = false;
  conn->body_error = AB_OK;
  conn->consume = request->head_size;
  conn->turn_requests++;
  conn->progress = (ab_head_progress){0};
  ab__conn_begin_request(conn);
  if (framing->body != AB_BODY_NONE) {
    int error = ab_body_init(&conn->body, &engine->mem, ab__conn_limits(conn), framing);
    if (error) {
      ab__conn_fail(conn, error);
      return STEP_WAIT;
    }
    conn->expects = framing->expect_continue;
    if (AB_UNLIKELY(engine->gathers != NULL) && ab__gather_begin(conn)) return STEP_ON;
  }
  queue_request(conn);
  return STEP_WAIT;
}

/* The PROXY header stands before everything else, and only once: what looks like a second one is a
 * malformed request. */
static enum step read_proxy_header(ab_conn *conn) {
  int size = ab_proxy_parse(conn->in, conn->in_len, conn->service->proxy_versions,
                            ab__conn_limits(conn)->max_proxy_header, &conn->peer);
  if (size == AB_AGAIN) {
    conn->parsed = true;
    return STEP_ON;
  }
  if (size < 0) {
    ab__conn_fail(conn, size);
    return STEP_WAIT;
  }
  conn->proxied = false;
  conn->in += size;
  conn->in_len -= (uint32_t)size;
  return STEP_ON;
}

static void refuse_head(ab_conn *conn, int error) {
  const char *alien = conn->served == 0 ? ab_alien_name(conn->in, conn->in_len) : NULL;
  if (alien) ab__engine_notice(conn, alien);
  ab__conn_fail(conn, error);
}

static enum step advance_head(ab_conn *conn) {
  /* Who does not read its responses gets no more of them; the socket holds its further requests. */
  bool stands = conn->blocked || ab__load_waits(conn);
  if (stands && ab__conn_is_full(conn)) return STEP_WAIT;
  if (conn->in_len > 0 && !conn->parsed) {
    if (AB_UNLIKELY(conn->proxied)) return read_proxy_header(conn);
    if (conn->turn_requests >= AB_TURN_REQUESTS) return wait_for_arena(conn);
    int size = parse(conn);
    if (size > 0) return begin_request(conn, conn->request);
    if (size == AB_ENOMEM) return wait_for_arena(conn);
    if (size != AB_AGAIN) {
      refuse_head(conn, size);
      return STEP_WAIT;
    }
    conn->parsed = true;
  }
  return conn->readable ? read_head(conn) : STEP_WAIT;
}

bool ab__conn_recall(ab_conn *conn) {
  if (conn->request) return true;
  ab_head_progress untouched = conn->progress;
  conn->progress = (ab_head_progress){0};
  bool recalled = ab__engine_touch(conn) && parse(conn) > 0;
  conn->progress = untouched;
  return recalled;
}

void ab__conn_taken(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (AB_UNLIKELY(conn->waits)) ab__conn_waited(conn);
  conn->in += conn->consume;
  conn->in_len -= conn->consume;
  conn->consume = 0;
  conn->request = NULL;
  conn->parsed = false;
  conn->state = AB_CONN_APP;
  ab__conn_rearm(conn);
  conn->served++;
  engine->stats.requests++;
  engine->stats.in_app++;
  if (AB_UNLIKELY(conn->hung_up)) ab__conn_ask(conn);
}

/* --- the body --- */

static enum step gather_body(ab_conn *conn) {
  int result = ab__gather_look(conn);
  if (result == AB_OK) {
    queue_request(conn);
  } else if (result != AB_AGAIN) {
    ab__conn_fail(conn, result);
  } else if (conn->readable) {
    conn->request = NULL; /* its octets may move */
    return read_behind(conn, ab__gather_room(conn));
  }
  return STEP_WAIT;
}

/* The rest of a body that the application has left unread; then comes the next request. */
static enum step skip_body(ab_conn *conn) {
  enum step step;
  if (conn->in_len == 0) {
    if (!conn->readable) return STEP_WAIT;
    if (!fill(conn, &step)) return step;
  }
  if (ab__conn_skip(conn)) {
    ab__conn_await_request(conn);
    if (!conn->engine->draining) return STEP_ON;
    ab__conn_close(conn);
    return STEP_WAIT;
  }
  if (!conn->body->chunked) return STEP_ON;
  ab__conn_close(conn); /* its end was here, and something else has come to light before it */
  return STEP_WAIT;
}

/* --- the end --- */

/* An idle connection is read once more before it is closed: a request that is already in the
 * socket's buffer was sent before the peer could know. */
void ab__conn_drain(ab_conn *conn) {
  if (conn->state != AB_CONN_HEAD) return;
  if (conn->in_len == 0) ab__conn_give_last_chance(conn);
  conn->readable = true;
  ab__engine_ready(conn);
}

void ab__conn_refuse(ab_conn *conn) {
  if (conn->state == AB_CONN_QUEUED || conn->state == AB_CONN_GATHER) {
    reject_late(conn);
  } else if (conn->state == AB_CONN_SKIP) {
    ab__conn_close(conn);
  } else if (conn->state == AB_CONN_HEAD) {
    conn->last_chance = false;
    if (conn->in_len > 0) ab__conn_give_last_chance(conn); /* for the rest of the head */
    conn->readable = true;
    ab__engine_ready(conn);
  }
}

static enum step discard(ab_conn *conn) {
  if (!conn->readable) return STEP_WAIT;
  size_t room = ab__conn_arena_room(conn->engine);
  if (room == 0) return wait_for_arena(conn);
  enum step step;
  return receive(conn, ab_arena_top(&conn->engine->arena), room, &step) ? STEP_ON : step;
}

static enum step advance(ab_conn *conn) {
  switch (conn->state) {
  case AB_CONN_HEAD:
    return advance_head(conn);
  case AB_CONN_GATHER:
    return gather_body(conn);
  case AB_CONN_APP:
    if (conn->wants_body && conn->readable) ab__conn_tell_body(conn, AB_OK);
    return STEP_WAIT;
  case AB_CONN_SKIP:
    return skip_body(conn);
  case AB_CONN_LINGER:
    return discard(conn);
  default:
    return STEP_WAIT;
  }
}

void ab__conn_advance(ab_conn *conn) {
  if (!ab__engine_touch(conn)) {
    ab__engine_ready(conn);
    return;
  }
  int steps = 0;
  while (advance(conn) == STEP_ON) {
    if (++steps == AB_TURN_RECVS) {
      ab__engine_ready(conn);
      break;
    }
  }
  if (conn->state != AB_CONN_DEAD) ab__conn_rearm(conn);
}
