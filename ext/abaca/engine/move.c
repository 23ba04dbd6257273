#include "engine/move.h"

#include <string.h>

#include "engine/queue.h"
#include "io/relay.h"

#define MARK       0x61626d31u /* of this layout */
#define NO_SERVICE UINT16_MAX

enum flag { PROXIED = 1, TIMED = 2, LINGERS = 4, UNDECIDED = 8, ALL_FLAGS = 15 };

/* Both processes run the same program. Behind it stands the input. */
typedef struct parcel {
  uint32_t mark;
  uint32_t in_len;
  uint32_t served;
  uint16_t service; /* the listener's number */
  uint16_t flags;
  ab_nsec deadline; /* for the next request, or the rest of its head; 0: not set yet */
  ab_nsec arrived;  /* when a request that waits was complete; 0: none waits */
  ab_addr peer;
} parcel;

/* --- out --- */

static bool is_between_requests(const ab_conn *conn) {
  if (conn->state == AB_CONN_HEAD) return true;
  return ab__conn_has(conn, AB_EXCHANGE_QUEUED) && !conn->exchange->body && !conn->exchange->held;
}

bool ab__conn_can_move(const ab_conn *conn) {
  if (!is_between_requests(conn) || !ab_link_can_move(&conn->link)) return false;
  if (conn->speaks != AB_SPEAKS_HTTP1 || conn->misplaced) return false;
  if (conn->out || conn->stall || conn->hung_up || conn->parting) return false;
  return conn->in_len <= AB_MOVE_INPUT;
}

static uint16_t number_of(const ab_service *service) {
  uint16_t number = 0;
  for (const ab_service *one = service->engine->services; one; one = one->next, number++) {
    if (one == service) return number;
  }
  return NO_SERVICE;
}

static parcel move_describe(const ab_conn *conn) {
  bool waits = conn->exchange != NULL;
  bool timed = conn->timed && !waits && (conn->begun || !conn->engine->draining);
  return (parcel){
      .mark = MARK,
      .in_len = conn->in_len,
      .served = conn->served,
      .service = number_of(conn->service),
      .flags = (uint16_t)((conn->proxied ? PROXIED : 0) | (timed ? TIMED : 0) |
                          (conn->lingers ? LINGERS : 0) | (conn->undecided ? UNDECIDED : 0)),
      .deadline = waits ? 0 : conn->deadline,
      .arrived = waits ? conn->exchange->arrived : 0,
      .peer = conn->peer,
  };
}

int ab__conn_move(ab_conn *conn, int relay) {
  ab_engine *engine = conn->engine;
  parcel parcel = move_describe(conn);
  const struct iovec iov[] = {{&parcel, sizeof parcel}, {conn->in, conn->in_len}};
  int err = ab_relay_send(relay, iov, conn->in_len > 0 ? 2 : 1, conn->link.watch.fd);
  if (err) return err;
  /* The socket lives on in the other process, and its registration here would with it. */
  ab_poller_unset(engine->poller, &conn->link.watch, false);
  conn->registered = false;
  engine->stats->moved_out++;
  ab__conn_drop(conn);
  return AB_OK;
}

/* --- in --- */

static ab_service *service_of(ab_engine *engine, uint16_t number) {
  if (number == NO_SERVICE) return &engine->default_service;
  ab_service *service = engine->services;
  while (service && number-- > 0) service = service->next;
  return service;
}

static bool makes_sense(ab_engine *engine, const parcel *parcel, size_t len) {
  if (len < sizeof *parcel || parcel->mark != MARK) return false;
  uint8_t family = parcel->peer.family;
  const ab_service *service = service_of(engine, parcel->service);
  if (!service || service->tls) return false; /* what speaks TLS stays where it is */
  return parcel->in_len == len - sizeof *parcel && !(parcel->flags & ~ALL_FLAGS) &&
         (family == 0 || family == 4 || family == 6);
}

/* A structure is free, so that opening cannot fail. */
static bool has_structure(ab_engine *engine) {
  void *one = ab_slab_take(&engine->conns);
  if (one) ab_slab_give(&engine->conns, one);
  return one != NULL;
}

static ab_conn *unpack(ab_engine *engine, const parcel *parcel, char *in, int fd) {
  ab_conn *conn = ab__conn_open(engine, fd, &parcel->peer, service_of(engine, parcel->service));
  conn->served = parcel->served;
  conn->proxied = parcel->flags & PROXIED;
  conn->lingers = parcel->flags & LINGERS;
  conn->undecided = parcel->flags & UNDECIDED;
  conn->timed = parcel->flags & TIMED;
  conn->begun = conn->timed && parcel->in_len > 0;
  conn->deadline = conn->timed ? parcel->deadline : 0;
  conn->in = in;
  conn->in_len = parcel->in_len;
  engine->stats->moved_in++;
  engine->busy_until = engine->now;
  ab__conn_settle(conn);
  return conn;
}

/* Its time goes on from where it was. */
static void keep_arrival(ab_conn *conn, ab_nsec arrived) {
  ab_engine *engine = conn->engine;
  if (!ab__conn_has(conn, AB_EXCHANGE_QUEUED) || !conn->exchange->request) return;
  if (arrived > engine->now) return; /* this turn's clock is late */
  conn->exchange->arrived = arrived;
  ab__queue_put_back(conn->exchange, engine->now - arrived);
  if (ab__conn_limits(conn)->request_timeout || engine->path_time_count) {
    ab__exchange_time(conn->exchange);
  }
}

int ab__conn_adopt(ab_engine *engine, int relay) {
  size_t room = sizeof(parcel) + AB_MOVE_INPUT;
  if (ab_arena_left(&engine->arena) < engine->request_room + room) return AB_ENOMEM;
  if (!has_structure(engine)) return AB_ELIMIT;
  char *at = ab_arena_top(&engine->arena);
  int fd;
  ssize_t len = ab_relay_receive(relay, at, room, &fd);
  if (len < 0) return (int)len;
  parcel parcel;
  memcpy(&parcel, at, sizeof parcel);
  if (fd < 0 || !makes_sense(engine, &parcel, (size_t)len)) {
    if (fd >= 0) ab_fd_close(fd);
    return AB_EINVAL;
  }
  ab_conn *conn = unpack(engine, &parcel, at + sizeof parcel, fd);
  if (conn->state == AB_CONN_DEAD) return AB_OK; /* there was no memory for its input */
  ab_list_remove(&conn->ready_link);
  ab__conn_advance(conn);
  if (conn->state == AB_CONN_DEAD) return AB_OK;
  if (parcel.arrived) keep_arrival(conn, parcel.arrived);
  ab__conn_arm(conn);
  return AB_OK;
}
