/* Files that wait to be sent take a descriptor each: a peer gets more when it has read those
 * before, and all together leave some for other uses. All functions run with the lock held. */
#include "engine/conn.h"

static uint32_t files_of(const ab_conn *conn) {
  return conn->out ? ab_outbox_files(conn->out) : 0;
}

bool ab__files_full(const ab_conn *conn) {
  return files_of(conn) >= ab__conn_limits(conn)->max_pending_files;
}

void ab__files_blocked(ab_conn *conn, bool progress) {
  if (files_of(conn) == 0) return;
  ab_stall *stall = ab__conn_stall(conn);
  if (!stall || (!progress && !ab_list_empty(&stall->link))) return;
  ab_list_remove(&stall->link);
  ab_list_append(&conn->engine->readers, &stall->link);
}

/* How many may wait for all peers. */
static uint64_t most(const ab_engine *engine) {
  uint64_t limit = engine->default_service.limits.max_pending_files_total;
  if (limit > 0) return limit;
  size_t connections = (size_t)engine->own_stats.connections + engine->own_stats.taken_over;
  return engine->descriptors > connections ? (engine->descriptors - connections) / 2 : 0;
}

ab_conn *ab__files_surplus(ab_engine *engine) {
  while (ab_outbox_pool_files(engine->outboxes) > most(engine)) {
    ab_list *slowest = ab_list_shift(&engine->readers);
    if (!slowest) return NULL; /* no peer is slow: they are about to be sent */
    ab_conn *reader = AB_CONTAINER_OF(slowest, ab_stall, link)->conn;
    if (files_of(reader) > 0) return reader;
  }
  return NULL;
}
