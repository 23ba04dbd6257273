/* What a deadline of a connection does when it has passed. All functions run with the lock held. */
#include "engine/conn.h"

static enum ab_rejection why_rejected(const ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  ab_nsec limit = ab_limit_nsec(ab__conn_limits(conn)->queue_timeout);
  bool queue = exchange->waits && limit && exchange->arrived + limit <= conn->engine->now;
  return queue ? AB_REJECT_QUEUE_TIMEOUT : AB_REJECT_REQUEST_TIMEOUT;
}

static void pass_request(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  exchange->deadline = 0;
  if (exchange->state == AB_EXCHANGE_QUEUED) {
    enum ab_rejection why = why_rejected(exchange);
    engine->stats->expired += why == AB_REJECT_REQUEST_TIMEOUT;
    ab__exchange_reject(exchange, why);
    return;
  }
  engine->stats->expired++;
  if (exchange->state == AB_EXCHANGE_BUFFER) {
    ab__conn_fail(exchange->conn, AB_HTTP_REQUEST_TIMEOUT);
    return;
  }
  exchange->expired = true;
  ab__engine_event(exchange, AB_EVENT_DEADLINE);
}

static void pass_wait(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (conn->out && conn->blocked) {
    if (!ab__conn_stall_is_over(conn)) return;
    engine->stats->timeouts++;
    ab__conn_drop(conn);
    return;
  }
  conn->deadline = 0;
  bool own = AB_UNLIKELY(conn->speaks != AB_SPEAKS_HTTP1) && ab__conn_protocol(conn)->timeout;
  if (own && conn->state == AB_CONN_HEAD) {
    ab__conn_protocol(conn)->timeout(conn);
    return;
  }
  bool idle = conn->state == AB_CONN_HEAD && conn->in_len == 0;
  if (idle && conn->readable && !ab_list_empty(&conn->ready_link)) {
    conn->deadline = engine->now + AB_LOOK; /* something has come, and its turn has not */
    return;
  }
  if (idle && AB_UNLIKELY(engine->draining)) {
    ab__conn_part(conn);
    return;
  }
  engine->stats->timeouts++;
  bool half_a_head = conn->state == AB_CONN_HEAD && conn->in_len > 0;
  if (ab__conn_has(conn, AB_EXCHANGE_APP)) {
    if (conn->exchange->wants_body) {
      ab__exchange_tell_body(conn->exchange, AB_HTTP_REQUEST_TIMEOUT);
    }
  } else if (half_a_head || ab__conn_has(conn, AB_EXCHANGE_BUFFER)) {
    ab__conn_fail(conn, engine->refusing ? AB_HTTP_SHUTDOWN : AB_HTTP_REQUEST_TIMEOUT);
  } else if (conn->state == AB_CONN_HEAD || conn->state == AB_CONN_LINGER ||
             ab__conn_has(conn, AB_EXCHANGE_SKIP)) {
    ab__conn_drop(conn);
  }
}

void ab__conn_timeout(ab_conn *conn) {
  ab_nsec now = conn->engine->now;
  ab_exchange *exchange = conn->exchange;
  if (exchange && exchange->deadline && exchange->deadline <= now) pass_request(exchange);
  if (conn->state != AB_CONN_DEAD && conn->deadline && conn->deadline <= now) pass_wait(conn);
  if (conn->state != AB_CONN_DEAD) ab__conn_arm(conn);
}
