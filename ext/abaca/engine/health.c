/* Health paths, answered by whichever thread turns the engine, also while the application is busy.
 * All functions here except the first run with the lock held. */
#include <string.h>

#include "engine/conn.h"

int ab_engine_set_health(ab_engine *engine, enum ab_health which, const char *path, size_t len) {
  char *copy = ab_alloc(&engine->mem, len);
  if (!copy) return AB_ENOMEM;
  memcpy(copy, path, len);
  ab_engine_lock(engine);
  ab_free(&engine->mem, (void *)(uintptr_t)engine->health[which].ptr);
  engine->health[which] = (ab_view){copy, len};
  engine->has_health = true;
  ab_engine_unlock(engine);
  return AB_OK;
}

void ab__health_fini(ab_engine *engine) {
  for (size_t i = 0; i < AB_HEALTH_COUNT; i++) {
    ab_free(&engine->mem, (void *)(uintptr_t)engine->health[i].ptr);
  }
}

static bool asks_for(const ab_engine *engine, const ab_request *request, enum ab_health which) {
  const ab_view path = engine->health[which];
  return path.ptr && request->path.len == path.len &&
         memcmp(request->path.ptr, path.ptr, path.len) == 0;
}

/* 0: not a health check. Other methods than GET and HEAD are the application's to refuse. */
static int status_for(const ab_engine *engine, const ab_request *request) {
  const ab_view method = request->method;
  bool get = request->is_head || (method.len == 3 && memcmp(method.ptr, "GET", 3) == 0);
  if (!get) return 0;
  if (asks_for(engine, request, AB_HEALTH_READY)) return engine->retired ? 503 : 200;
  return asks_for(engine, request, AB_HEALTH_LIVE) ? 200 : 0;
}

static bool keeps(const ab_conn *conn, const ab_framing *framing) {
  uint64_t most = ab__conn_limits(conn)->max_requests_per_connection;
  /* Health checks have no bodies, so a body is not awaited. */
  return framing->keep_alive && framing->body == AB_BODY_NONE && !conn->engine->draining &&
         (most == 0 || conn->served < most);
}

bool ab__health_answer(ab_conn *conn, const ab_head *head) {
  const ab_request *request = &head->request;
  ab_engine *engine = conn->engine;
  int status = status_for(engine, request);
  if (status == 0) return false;
  engine->stats->probes++;
  conn->served++;
  conn->turn_requests++;
  bool keep = keeps(conn, &head->framing);
  enum ab_write_connection connection = !keep                 ? AB_WRITE_CLOSE
                                        : request->minor == 0 ? AB_WRITE_KEEP_IN_1_0
                                                              : AB_WRITE_KEEP;
  conn->in += head->size;
  conn->in_len -= head->size;
  if (head->framing.body != AB_BODY_NONE) conn->lingers = true;
  ab__conn_await_request(conn);
  size_t content;
  if (ab__conn_protocol(conn)->write_error(conn, status, connection, request->is_head, &content) !=
      AB_OK) {
    ab__conn_drop(conn);
  } else if (!keep) {
    ab__conn_close(conn);
  }
  return true;
}
