/* Health paths, answered by whichever thread turns the engine, also while the application is busy.
 * All functions here except the first run with the lock held. */
#include <string.h>

#include "engine/own_answer.h"

int ab_engine_set_health(ab_engine *engine, enum ab_health which, const char *path, size_t len) {
  char *copy = ab_alloc(&engine->mem, len);
  if (!copy) return AB_ENOMEM;
  memcpy(copy, path, len);
  ab_engine_lock(engine);
  ab_free(&engine->mem, (void *)(uintptr_t)engine->health[which].ptr);
  engine->health[which] = (ab_view){copy, len};
  ab__own_answer_learn(engine);
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

bool ab__health_answer(ab_conn *conn, const ab_head *head) {
  const ab_request *request = &head->request;
  ab_engine *engine = conn->engine;
  int status = status_for(engine, request);
  if (status == 0) return false;
  engine->stats->probes++;
  ab__own_answer_status(conn, head, status);
  return true;
}
