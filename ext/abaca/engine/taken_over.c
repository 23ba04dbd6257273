/* Sockets that the application has taken over: it owns the descriptor; the engine has its number
 * and the socket's identity, and looks now and then whether both still belong together: if not, the
 * connection is closed. All functions run with the lock held. */
#include "engine/conn.h"

#define LOOK             AB_NSEC_PER_SEC
#define DRAIN_LOOK       (50 * AB_NSEC_PER_MS)
#define TAKEN_OVER_LOOKS 256 /* in a turn; the rest waits for the next one */

typedef struct taken_over {
  ab_list link; /* in engine->taken_over */
  ab_nsec seen; /* when it was looked at last */
  ab_sock_id id;
  int fd;
  bool told; /* its reader has the end of the stream */
} taken_over;

int ab__taken_over_add(ab_engine *engine, int fd) {
  taken_over *taken = ab_alloc_zero(&engine->mem, sizeof(*taken));
  if (!taken) return AB_ENOMEM;
  ab_sock_identify(fd, &taken->id);
  taken->fd = fd;
  taken->seen = engine->now;
  ab_list_append(&engine->taken_over, &taken->link);
  AB_NOW(engine, taken_over, 1);
  return AB_OK;
}

static void forget(ab_engine *engine, taken_over *taken) {
  ab_list_remove(&taken->link);
  AB_NOW(engine, taken_over, -1u);
  ab_free(&engine->mem, taken);
}

int ab_exchange_prepare_handover(const ab_exchange *exchange, ab_handover *handover) {
  *handover = (ab_handover){-1, -1};
  if (ab_link_is_tls(&exchange->conn->link)) return ab_sock_pair(&handover->fd, &handover->own);
  handover->fd = ab_exchange_duplicate(exchange);
  return handover->fd < 0 ? AB_ESYS : AB_OK;
}

/* The link is the application's, or a tunnel's. */
static int give_link(ab_conn *conn, const ab_handover *handover) {
  ab_engine *engine = conn->engine;
  if (handover->own >= 0) return ab__tunnel_begin(conn, handover->own);
  if (conn->registered) ab_poller_unset(engine->poller, &conn->link.watch, false);
  conn->registered = false;
  ab_link_close(&conn->link, false);
  return AB_OK;
}

int ab_exchange_detach(ab_exchange *exchange, const ab_handover *handover, const char **ptr,
                       size_t *len) {
  ab_conn *conn = exchange->conn;
  ab_engine *engine = conn->engine;
  if (ab__taken_over_add(engine, handover->fd) != AB_OK) return AB_ENOMEM;
  if (give_link(conn, handover) != AB_OK) {
    forget(engine, AB_CONTAINER_OF(engine->taken_over.prev, taken_over, link));
    return AB_ENOMEM;
  }
  *ptr = conn->in;
  *len = conn->in_len;
  conn->in_len = 0; /* its memory stays */
  ab__conn_become(conn, AB_CONN_DEAD);
  exchange->deadline = 0;
  ab__conn_uncount(conn);
  engine->stats->detached++;
  ab_wheel_cancel(&engine->wheel, &conn->timer);
  ab_list_remove(&conn->ready_link);
  ab__load_drop(conn);
  if (exchange->wants_body) ab__exchange_tell_body(exchange, AB_EPEER);
  return AB_OK;
}

void ab__taken_over_forget(ab_engine *engine, bool end) {
  ab_list_each (node, next, &engine->taken_over) {
    taken_over *taken = AB_CONTAINER_OF(node, taken_over, link);
    if (end) ab_sock_end(taken->fd, &taken->id, true);
    forget(engine, taken);
  }
}

static void look(ab_engine *engine, taken_over *taken) {
  taken->seen = engine->now;
  ab_list_remove(&taken->link);
  ab_list_append(&engine->taken_over, &taken->link);
  bool ends = engine->refusing;
  if (ends || (engine->draining && !taken->told)) {
    taken->told = ab_sock_end(taken->fd, &taken->id, ends);
  }
  if ((ends && taken->told) || !ab_sock_is(taken->fd, &taken->id)) forget(engine, taken);
}

ab_nsec ab__taken_over_deadline(const ab_engine *engine) {
  if (AB_LIKELY(ab_list_empty(&engine->taken_over))) return 0;
  ab_nsec seen = AB_CONTAINER_OF(engine->taken_over.next, taken_over, link)->seen;
  return seen + (engine->draining ? DRAIN_LOOK : LOOK);
}

void ab__taken_over_look(ab_engine *engine) {
  for (unsigned i = 0; i < TAKEN_OVER_LOOKS; i++) {
    ab_nsec due = ab__taken_over_deadline(engine);
    if (due == 0 || due > engine->now) return;
    look(engine, AB_CONTAINER_OF(engine->taken_over.next, taken_over, link));
  }
}
