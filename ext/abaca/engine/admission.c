/* Requests that are not taken at once wait, oldest first; those beyond max_queue or queue_timeout
 * are answered here. A connection queues one request at a time, so a client that sends many gets no
 * more turns. All functions run with the lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/balance.h"
#include "engine/hold.h"
#include "engine/http2.h"

void ab_engine_set_queue(ab_engine *engine, uint32_t capacity, uint32_t max_queue) {
  engine->capacity = capacity;
  engine->max_queue = max_queue;
}

void ab_engine_set_max_queue(ab_engine *engine, uint32_t max_queue) {
  engine->max_queue = max_queue;
}

void ab_engine_set_aside(ab_engine *engine, uint32_t count) {
  engine->aside = count;
}

/* Requests that wait for want of room, and all that are held back. Those that will be taken do not
 * count: the thread that takes them may be busy or yet to come. */
static uint64_t queue_length(const ab_engine *engine) {
  const ab_figures *stats = &engine->own_stats;
  uint32_t others = stats->waiting - stats->held;
  uint32_t taken = ab__engine_taken(engine);
  uint32_t room = taken < engine->capacity ? engine->capacity - taken : 0;
  return (uint64_t)stats->held + (others > room ? others - room : 0);
}

/* Without a limit on what the application takes, the queue has none. */
bool ab__engine_full(const ab_engine *engine) {
  const ab_figures *stats = &engine->own_stats;
  uint64_t taken = ab__engine_taken(engine);
  if (taken + (stats->waiting - stats->held) < engine->capacity) return false;
  return queue_length(engine) >= engine->max_queue;
}

static void show(ab_exchange *exchange);

void ab__exchange_wait(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (ab__engine_crowded(conn->engine)) exchange->stood = true;
  if (exchange->waits) return;
  exchange->waits = true;
  conn->engine->stats->queued++;
  show(exchange);
  uint64_t seconds = ab__conn_limits(conn)->queue_timeout;
  if (seconds == 0) return;
  exchange->deadline = ab_earlier(exchange->deadline, exchange->arrived + ab_limit_nsec(seconds));
  ab__conn_arm(conn);
}

/* It has waited although there is a place: the application computes. What is read in a turn has
 * been in its socket since the turn began. */
static bool is_late(const ab_exchange *exchange) {
  const ab_engine *engine = exchange->conn->engine;
  ab_nsec since = exchange->arrived < engine->turned_at ? exchange->arrived : engine->turned_at;
  return engine->latest - since >= AB_LATE;
}

/* The poller may not have had its turn since. */
bool ab__exchange_has_left(ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  const ab_engine *engine = conn->engine;
  bool stands = exchange->stood && engine->now - exchange->arrived >= AB_LOOK;
  if (AB_LIKELY(!stands && !is_late(exchange))) return false;
  bool half = engine->half_close != AB_HALF_CLOSE_ANSWER;
  if (!ab_link_ended(&conn->link, half)) return false;
  ab__exchange_unqueue(exchange);
  return true;
}

void ab_exchange_hand_over(ab_exchange *exchange, bool waits) {
  exchange->handed = waits;
  if (ab__conn_is_unwanted(exchange->conn)) ab__conn_drop(exchange->conn);
}

void ab_engine_count_begun(ab_engine *engine, bool begun) {
  uint64_t requests = engine->stats->requests;
  engine->stats->requests = begun ? requests + 1 : requests - 1;
}

void ab_engine_note_rejection(ab_engine *engine, enum ab_rejection why) {
  engine->stats->rejected[why]++;
}

/* The newest go first: those before them have waited already, and are nearer to their turn. */
static ab_exchange *newest(const ab_engine *engine) {
  ab_exchange *held = engine->own_stats.held > 0 ? ab__hold_newest(engine) : NULL;
  if (ab_list_empty(&engine->requests)) return held;
  ab_exchange *other = AB_CONTAINER_OF(engine->requests.prev, ab_exchange, event_link);
  if (!held) return other;
  bool room = queue_length(engine) == engine->own_stats.held; /* for all others */
  return room || held->arrived > other->arrived ? held : other;
}

void ab__engine_shed(ab_engine *engine) {
  if (engine->starved) return; /* some could have been taken: they will be in the next step */
  while (queue_length(engine) > engine->max_queue) {
    ab_exchange *exchange = newest(engine);
    if (!ab__engine_touch(exchange->conn)) return;
    ab__exchange_reject(exchange, AB_REJECT_QUEUE_FULL);
  }
}

/* A process that can serve them accepts them at once; the rest is looked at a moment later. */
static void listen_anew(ab_engine *engine) {
  engine->knocked = false;
  engine->look_at = 0;
  if (engine->balance) ab__balance_note(engine);
  ab__engine_listen(engine);
}

void ab__engine_set_paused(ab_engine *engine, bool paused) {
  engine->paused = paused;
  listen_anew(engine);
}

void ab_engine_pause(ab_engine *engine, bool paused) {
  if (engine->paused == paused) return;
  ab_engine_lock(engine);
  ab__engine_set_paused(engine, paused);
  ab_engine_unlock(engine);
}

void ab_engine_withhold(ab_engine *engine, bool withheld) {
  ab_engine_lock(engine);
  engine->withheld = withheld;
  listen_anew(engine);
  ab_engine_unlock(engine);
}

/* A turn may have had room for only a part. */
bool ab__engine_is_accepting(const ab_engine *engine) {
  const ab_service *service = engine->services;
  while (service && service->budget == 0) service = service->next;
  return service != NULL;
}

/* The listeners stay off the poller, which would be woken in place of a sibling's. */
static void look_beside_siblings(ab_engine *engine) {
  if (engine->draining) engine->look_at = 0;
  if (!engine->look_at || engine->now < engine->look_at) return;
  engine->look_at = engine->now + AB_LOOK;
  if (engine->rest_until || engine->withheld || ab__balance_leaves(engine)) return;
  ab__services_invite(engine, AB_LOOK_ACCEPTS);
}

void ab__engine_look(ab_engine *engine) {
  if (ab__engine_is_accepting(engine)) return;
  if (engine->balance) {
    look_beside_siblings(engine);
    return;
  }
  if (engine->knocked) {
    engine->knocked = false;
    engine->look_at = engine->now + AB_LOOK;
  } else if (engine->look_at && engine->now >= engine->look_at) {
    engine->look_at = 0;
    ab__services_invite(engine, AB_LOOK_ACCEPTS);
  } else {
    return;
  }
  ab__engine_listen(engine);
}

static void admission_add(ab_waiting *out, ab_view text) {
  size_t room = sizeof out->line - out->len, len = text.len < room ? text.len : room;
  memcpy(out->line + out->len, text.ptr, len);
  out->len += (uint32_t)len;
}

static void describe_stream(const ab_request *request, ab_waiting *out) {
  admission_add(out, request->method);
  admission_add(out, (ab_view){" ", 1});
  admission_add(out, request->path);
}

static void admission_describe(const ab_exchange *exchange, ab_waiting *out) {
  const ab_conn *conn = exchange->conn;
  const char *at = conn->in, *end = conn->in + conn->in_len;
  out->peer = conn->peer;
  out->arrived = exchange->arrived;
  out->len = 0;
  if (conn->speaks == AB_SPEAKS_STREAM) {
    describe_stream(exchange->own_head, out);
    return;
  }
  while (at < end && (*at == '\r' || *at == '\n'))
    at++; /* before the request line (RFC 9112 2.2) */
  for (int words = 0; at < end && *at != '\r' && *at != '?' && out->len < sizeof out->line; at++) {
    if (*at == ' ' && ++words == 2) break;
    out->line[out->len++] = *at;
  }
}

/* Copies what waits on the list, behind the first `count`; returns how many there are. */
static size_t describe_all(const ab_list *list, ab_waiting *out, size_t room, size_t count) {
  for (const ab_list *node = list->next; node != list; node = node->next) {
    if (count < room)
      admission_describe(AB_CONTAINER_OF(node, ab_exchange, event_link), &out[count]);
    count++;
  }
  return count;
}

size_t ab_engine_waiting(ab_engine *engine, ab_waiting *out, size_t room) {
  ab_engine_lock(engine);
  size_t count = 0;
  for (size_t i = 0; engine->own_stats.held > 0 && i < AB_HOLD_POOLS; i++) {
    count = describe_all(&engine->hold->pools[i].held, out, room, count);
  }
  count = describe_all(&engine->requests, out, room, count);
  ab_engine_unlock(engine);
  return count;
}

/* --- rows in the page --- */

void ab_engine_show_queue(ab_engine *engine, ab_rows *rows) {
  ab_engine_lock(engine);
  engine->rows = rows;
  ab_engine_unlock(engine);
}

void ab_engine_show_opens(ab_engine *engine, ab_opens *opens) {
  ab_engine_lock(engine);
  engine->opens = opens;
  ab_engine_unlock(engine);
}

/* The numbers of those in the application have no such bit. */
#define QUEUED_ID ((uint64_t)1 << 63)

static void show_as(ab_exchange *exchange, ab_view method, ab_view path) {
  ab_conn *conn = exchange->conn;
  ab_engine *engine = conn->engine;
  ab_row *row = exchange->row = ab_rows_take(engine->rows);
  if (!row) return;
  ab_nsec head = exchange->arrived - ab_exchange_buffered_for(exchange);
  ab_row_begin(row, &(ab_row_start){.id = QUEUED_ID | ++engine->row_id,
                                    .began = head - exchange->head_for,
                                    .state = AB_STATE_HEAD,
                                    .mode = AB_ROW_QUEUED,
                                    .method = ab_row_method_of(method.ptr, method.len),
                                    .peer = &conn->peer,
                                    .path = path});
  ab_row_turn(row, AB_STATE_BODY, head);
  ab_row_turn(row, AB_STATE_QUEUE, exchange->arrived);
}

static void show(ab_exchange *exchange) {
  if (!exchange->conn->engine->rows || exchange->row) return;
  ab_waiting waiting;
  admission_describe(exchange, &waiting);
  const char *space = memchr(waiting.line, ' ', waiting.len);
  size_t method = space ? (size_t)(space - waiting.line) : waiting.len;
  size_t path = space ? method + 1 : waiting.len;
  show_as(exchange, (ab_view){waiting.line, method},
          (ab_view){waiting.line + path, waiting.len - path});
}

void ab_exchange_await_thread(ab_exchange *exchange, ab_view method, ab_view path) {
  ab_engine *engine = exchange->conn->engine;
  AB_NOW(engine, for_thread, 1);
  if (engine->rows && !exchange->row) show_as(exchange, method, path);
}

void ab_exchange_end_wait(ab_exchange *exchange) {
  AB_NOW(exchange->conn->engine, for_thread, -1u);
  ab__exchange_hide(exchange);
}
