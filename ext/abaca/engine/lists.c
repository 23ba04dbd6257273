/* The lock, what is to be done for connections and exchanges, notices. All functions run with the
 * lock held unless engine.h says otherwise. */
#include "engine/conn.h"
#include "engine/hold.h"
#include "engine/queue.h"

void ab_engine_lock(ab_engine *engine) {
  if (engine->poller) ab_poller_lock(engine->poller);
}

void ab_engine_unlock(ab_engine *engine) {
  if (engine->poller) ab_poller_unlock(engine->poller);
}

bool ab__engine_touch(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (conn->touched) return true;
  if (engine->touched_count == AB_STEP_CONNS) return false;
  engine->touched[engine->touched_count++] = conn;
  conn->touched = true;
  return true;
}

static ab_list *list_of(const ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (AB_LIKELY(!ab__conn_is_heavy(conn))) return &engine->ready;
  const ab_exchange *exchange = ab__conn_has(conn, AB_EXCHANGE_APP) ? conn->exchange : NULL;
  bool tells = exchange && (exchange->wants_body || (exchange->wants_room && !conn->blocked));
  return tells ? &engine->app_later : &engine->later;
}

void ab__engine_ready(ab_conn *conn) {
  if (ab_list_empty(&conn->ready_link)) ab_list_append(list_of(conn), &conn->ready_link);
}

void ab__engine_event(ab_exchange *exchange, unsigned events) {
  ab_engine *engine = exchange->conn->engine;
  if (events == 0) {
    if (exchange->events & AB_EVENT_REQUEST) AB_NOW(engine, waiting, -1u);
    if (AB_UNLIKELY(exchange->held)) ab__hold_drop(exchange);
    exchange->events = 0;
    ab_list_remove(&exchange->event_link);
    return;
  }
  if (exchange->events == 0) {
    bool request = events & AB_EVENT_REQUEST;
    if (request) {
      ab__queue_add(exchange);
    } else {
      ab_list_append(&engine->events, &exchange->event_link);
    }
    AB_NOW(engine, waiting, request);
  }
  exchange->events |= (uint8_t)events;
}

void ab__engine_notice(ab_conn *conn, const char *what) {
  ab_engine *engine = conn->engine;
  if (engine->notice_count == AB_NOTICES) return;
  size_t at = (engine->notice_first + engine->notice_count++) % AB_NOTICES;
  engine->notices[at] = (ab_notice){what, conn->peer};
}

bool ab_engine_next_notice(ab_engine *engine, ab_notice *notice) {
  if (AB_LIKELY(engine->notice_count == 0)) return false;
  ab_engine_lock(engine);
  *notice = engine->notices[engine->notice_first];
  engine->notice_first = (uint8_t)((engine->notice_first + 1) % AB_NOTICES);
  engine->notice_count--;
  ab_engine_unlock(engine);
  return true;
}
