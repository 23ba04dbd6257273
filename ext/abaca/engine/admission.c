/* Admission: what becomes of requests that nobody takes at once. A few wait, oldest first; those
 * beyond max_queue, and those that have waited for queue_timeout, are answered here, without the
 * application. While nobody takes any, new connections are left for a moment to whoever else
 * listens at the same place. All functions run with the lock held unless engine.h says otherwise.
 *
 * A connection waits with one request at a time and goes to the end of the queue with its next one,
 * so whoever sends many gets no more turns than whoever sends one. */
#include "engine/conn.h"

void ab_engine_set_queue(ab_engine *engine, uint32_t capacity, uint32_t max_queue) {
  engine->capacity = capacity;
  engine->max_queue = max_queue;
}

/* Requests that may wait. Who turns the engine may be another than who takes requests, who is held
 * up by something else, or is a thread that has not come yet: what will be taken then does not wait
 * for want of room. */
static uint64_t queue_limit(const ab_engine *engine) {
  uint32_t in_app = engine->stats.in_app;
  bool room = in_app < engine->capacity;
  return (uint64_t)engine->max_queue + (room ? engine->capacity - in_app : 0);
}

bool ab__engine_full(const ab_engine *engine) {
  return engine->stats.waiting >= queue_limit(engine);
}

ab_nsec ab_conn_arrived(const ab_conn *conn) {
  return conn->arrived;
}

void ab_engine_note_rejection(ab_engine *engine, enum ab_rejection why) {
  engine->stats.rejected[why]++;
}

void ab__conn_reject(ab_conn *conn, enum ab_rejection why) {
  ab_engine_note_rejection(conn->engine, why);
  ab__conn_fail(conn, AB_HTTP1_NO_FIBER);
}

/* The newest go first: those before them have waited already, and their turn is nearer. */
void ab__engine_shed(ab_engine *engine) {
  if (engine->starved) return; /* some could have been taken: they will be in the next step */
  uint64_t limit = queue_limit(engine);
  while (engine->stats.waiting > limit) {
    ab_conn *newest = AB_CONTAINER_OF(engine->requests.prev, ab_conn, event_link);
    if (!ab__engine_touch(newest)) return;
    ab__conn_reject(newest, AB_REJECT_QUEUE_FULL);
  }
}

/* --- new connections --- */

/* Whoever can serve them accepts them at once; we look again when they are still there a moment
 * later. Nothing is asked of the listeners in between, and nothing as long as nobody knocks. */
void ab_engine_pause(ab_engine *engine, bool paused) {
  if (engine->paused == paused) return;
  ab_engine_lock(engine);
  engine->paused = paused;
  engine->knocked = false;
  engine->look_at = 0;
  ab__engine_listen(engine);
  ab_engine_unlock(engine);
}

/* Of what was looked at, some is still to be accepted: a turn may have had room for a part only. */
static bool is_accepting(const ab_engine *engine) {
  const ab_service *service = engine->services;
  while (service && service->budget == 0) service = service->next;
  return service != NULL;
}

void ab__engine_look(ab_engine *engine) {
  if (is_accepting(engine)) return;
  if (engine->knocked) {
    engine->knocked = false;
    engine->look_at = engine->now + AB_LOOK;
  } else if (engine->look_at && engine->now >= engine->look_at) {
    engine->look_at = 0;
    for (ab_service *service = engine->services; service; service = service->next) {
      service->budget = AB_LOOK_ACCEPTS;
    }
  } else {
    return;
  }
  ab__engine_listen(engine);
}

/* --- for whoever looks --- */

static void describe(const ab_conn *conn, ab_waiting *out) {
  const char *at = conn->in, *end = conn->in + conn->in_len;
  out->peer = conn->peer;
  out->arrived = conn->arrived;
  out->len = 0;
  while (at < end && (*at == '\r' || *at == '\n'))
    at++; /* before the request line (RFC 9112 2.2) */
  for (int words = 0; at < end && *at != '\r' && *at != '?' && out->len < sizeof out->line; at++) {
    if (*at == ' ' && ++words == 2) break;
    out->line[out->len++] = *at;
  }
}

size_t ab_engine_waiting(ab_engine *engine, ab_waiting *out, size_t room) {
  ab_engine_lock(engine);
  size_t count = 0;
  for (const ab_list *node = engine->requests.next; node != &engine->requests; node = node->next) {
    if (count < room) describe(AB_CONTAINER_OF(node, ab_conn, event_link), &out[count]);
    count++;
  }
  ab_engine_unlock(engine);
  return count;
}
