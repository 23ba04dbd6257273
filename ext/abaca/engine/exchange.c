/* How an exchange begins, goes from state to state (exchange.h) and ends; what the application asks
 * about it. All functions run with the lock held unless engine.h says otherwise. */
#include "engine/exchange.h"

#include <string.h>

#include "engine/conn.h"

#ifdef AB_POISON
#include <stdlib.h>

#define EXCHANGE_TO(state) (1u << AB_EXCHANGE_##state)

void ab__exchange_become(ab_exchange *exchange, enum ab_exchange_state state) {
  static const unsigned allowed[] = {
      [AB_EXCHANGE_FREE] = EXCHANGE_TO(BEGUN),
      [AB_EXCHANGE_BEGUN] = EXCHANGE_TO(BUFFER) | EXCHANGE_TO(QUEUED) | EXCHANGE_TO(FREE),
      [AB_EXCHANGE_BUFFER] = EXCHANGE_TO(QUEUED) | EXCHANGE_TO(FREE),
      [AB_EXCHANGE_QUEUED] = EXCHANGE_TO(APP) | EXCHANGE_TO(FREE),
      [AB_EXCHANGE_APP] = EXCHANGE_TO(SKIP) | EXCHANGE_TO(FREE),
      [AB_EXCHANGE_SKIP] = EXCHANGE_TO(FREE),
  };
  if (!(allowed[exchange->state] & 1u << state)) abort();
  exchange->state = (uint8_t)state;
}
#endif

/* --- the head, which is the application's while it is lent --- */

static void free_head(ab_exchange *exchange) {
  ab_free(&exchange->conn->engine->mem, exchange->own_head);
  exchange->own_head = NULL;
}

#ifdef AB_POISON
/* What still reads it fails, and so does a step that ends before. */
static void note_return(ab_exchange *exchange, const ab_request *request) {
  ab_engine *engine = exchange->conn->engine;
  ab_engine_lock(engine);
  if (exchange->state != AB_EXCHANGE_APP || engine->lent-- == 0) abort();
  if (!exchange->own_head) { /* in the arena, with its fields behind it */
    ab_hide(request, sizeof(ab_head) + request->field_count * sizeof(ab_field));
  }
  ab_engine_unlock(engine);
}
#else
static inline void note_return(ab_exchange *exchange AB_UNUSED,
                               const ab_request *request AB_UNUSED) {}
#endif

ab_head_loan ab__exchange_lend(ab_exchange *exchange) {
#ifdef AB_POISON
  exchange->conn->engine->lent++;
#endif
  return (ab_head_loan){exchange->request};
}

void ab_exchange_give_back(ab_exchange *exchange, ab_head_loan *head) {
  const ab_request *request = ab_head_pass_on(head).request;
  if (AB_UNLIKELY(!request)) return;
  note_return(exchange, request);
  if (AB_LIKELY(!exchange->own_head)) return; /* read without the lock: it is its taker's */
  ab_engine *engine = exchange->conn->engine;
  ab_engine_lock(engine);
  free_head(exchange);
  ab_engine_unlock(engine);
}

uint8_t ab_exchange_level(const ab_exchange *exchange) {
  return exchange->level;
}

ab_route ab_exchange_route(const ab_exchange *exchange) {
  return exchange->measured ? exchange->route : (ab_route){0};
}

/* --- life --- */

ab_exchange *ab__exchange_begin(ab_conn *conn, const ab_request *request,
                                const ab_framing *framing) {
  ab_engine *engine = conn->engine;
#ifdef AB_POISON
  /* In clear where TLS is spoken there is no request. */
  bool over_tls = conn->speaks == AB_SPEAKS_STREAM || ab_link_is_tls(&conn->link);
  if (conn->service->tls && !over_tls) abort();
#endif
  ab_exchange *exchange = ab_slab_take(&engine->exchanges);
  if (!exchange) return NULL;
  *exchange = (ab_exchange){.conn = conn,
                            .request = request,
                            .arrived = engine->now,
                            .head_for = conn->begun ? ab__conn_head_for(conn) : 0,
                            .asks_close = !framing->keep_alive,
                            .answers_head = request->is_head,
                            .http_1_0 = request->minor == 0,
                            .watched = engine->watches_peers};
  ab_list_init(&exchange->event_link);
  ab__exchange_become(exchange, AB_EXCHANGE_BEGUN);
  conn->exchange = exchange;
  ab__conn_become(conn, AB_CONN_BUSY);
  if (AB_UNLIKELY(ab__conn_limits(conn)->request_timeout || engine->path_time_count)) {
    ab__exchange_time(exchange);
  }
  return exchange;
}

void ab__exchange_end(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (AB_UNLIKELY(exchange->events)) ab__engine_event(exchange, 0);
  if (exchange->body) ab_body_fini(exchange->body);
  if (AB_UNLIKELY(exchange->own_head != NULL)) free_head(exchange);
  if (AB_UNLIKELY(exchange->row != NULL)) ab__exchange_hide(exchange);
  ab__exchange_become(exchange, AB_EXCHANGE_FREE);
  conn->exchange = NULL;
#ifdef AB_POISON
  /* What still uses it fails. */
  memset(exchange, 0xdb, sizeof *exchange);
#endif
  ab_slab_give(&conn->engine->exchanges, exchange);
}

void ab__exchange_unqueue(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  conn->engine->stats->left++;
  if (conn->out) {
    ab__conn_close(conn); /* behind the responses to earlier requests */
  } else {
    ab__conn_drop(conn);
  }
}

void ab__exchange_reject(ab_exchange *exchange, enum ab_rejection why) {
  exchange->conn->engine->stats->rejected[why]++;
  ab__conn_fail(exchange->conn, AB_HTTP_NO_FIBER);
}

void ab__conn_reject_late(ab_conn *conn) {
  conn->engine->stats->rejected[AB_REJECT_SHUTDOWN]++;
  ab__conn_fail(conn, AB_HTTP_SHUTDOWN);
}

void ab__exchange_queue(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  const ab_engine *engine = conn->engine;
  if (AB_UNLIKELY(engine->refusing)) {
    ab__conn_reject_late(conn);
    return;
  }
  ab__exchange_become(exchange, AB_EXCHANGE_QUEUED);
  conn->timed = false;
  if (AB_UNLIKELY(engine->half_close == AB_HALF_CLOSE_GONE) && ab_link_ended(&conn->link, true)) {
    ab__exchange_unqueue(exchange); /* the poller may not have told yet */
  } else {
    ab__engine_event(exchange, AB_EVENT_REQUEST);
  }
}

void ab__exchange_taken(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  ab_engine *engine = conn->engine;
  if (AB_UNLIKELY(exchange->waits)) ab__exchange_time(exchange); /* not queue_timeout any more */
  if (AB_UNLIKELY(exchange->row != NULL)) ab__exchange_hide(exchange);
  conn->in += exchange->consume;
  conn->in_len -= exchange->consume;
  conn->parsed = false;
  exchange->consume = 0;
  exchange->request = NULL;
  ab__exchange_become(exchange, AB_EXCHANGE_APP);
  conn->served++;
  engine->taken++;
  engine->stats->requests++;
  AB_NOW(engine, in_app, 1);
  if (AB_UNLIKELY(conn->hung_up)) ab__exchange_ask(exchange);
}

void ab__exchange_gone(ab_exchange *exchange) {
  unsigned events = AB_EVENT_GONE;
  exchange->deadline = 0;
  if (exchange->wants_body) {
    exchange->body_error = AB_EPEER;
    events |= AB_EVENT_BODY;
  }
  if (exchange->wants_room) events |= AB_EVENT_DRAINED;
  exchange->wants_body = exchange->wants_room = false;
  ab__engine_event(exchange, events);
}

void ab__exchange_tell_body(ab_exchange *exchange, int error) {
  if (error) exchange->body_error = error;
  exchange->wants_body = false;
  ab_body_waited(exchange->body, exchange->conn->engine->now);
  ab__engine_event(exchange, AB_EVENT_BODY);
}

/* --- what the application asks --- */

void ab_exchange_set_app(ab_exchange *exchange, void *app) {
  exchange->app = app;
}

void *ab_exchange_app(const ab_exchange *exchange) {
  return exchange->app;
}

const ab_addr *ab_exchange_peer(const ab_exchange *exchange) {
  return &exchange->conn->peer;
}

const ab_listener *ab_exchange_listener(const ab_exchange *exchange) {
  return exchange->conn->service->listener;
}

const ab_limits *ab_exchange_limits(const ab_exchange *exchange) {
  return ab__conn_limits(exchange->conn);
}

bool ab_exchange_is_secure(const ab_exchange *exchange) {
  return exchange->conn->service->secure;
}

ab_nsec ab_exchange_arrived(const ab_exchange *exchange) {
  return exchange->arrived;
}

const ab_body *ab_exchange_body(const ab_exchange *exchange) {
  return exchange->body;
}

int ab_exchange_body_error(const ab_exchange *exchange) {
  return exchange->body_error;
}

size_t ab_exchange_input_len(const ab_exchange *exchange) {
  return exchange->conn->in_len;
}

unsigned ab_exchange_news(const ab_exchange *exchange) {
  return (ab_exchange_gone(exchange) ? AB_EVENT_GONE : 0) |
         (exchange->expired ? AB_EVENT_DEADLINE : 0);
}

/* --- the peer --- */

bool ab_exchange_gone(const ab_exchange *exchange) {
  return exchange->conn->state == AB_CONN_DEAD;
}

bool ab_exchange_look(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (conn->state == AB_CONN_DEAD) return true;
  if (ab_link_ended(&conn->link, conn->engine->half_close == AB_HALF_CLOSE_GONE)) {
    ab__conn_drop(conn);
  } else {
    ab_exchange_watch_peer(exchange);
  }
  return conn->state == AB_CONN_DEAD;
}

void ab_exchange_watch_peer(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  exchange->watched = true;
  if (!ab__conn_has(conn, AB_EXCHANGE_APP) || exchange->asked) return;
  /* A fiber that only computes gives the poller no turn to tell. */
  if (!conn->hung_up && ab_link_ended(&conn->link, true)) conn->hung_up = conn->readable = true;
  if (conn->hung_up) ab__exchange_ask(exchange);
}

void ab__exchange_ask(ab_exchange *exchange) {
  /* "100 Continue", because it is what even simple clients know to discard (RFC 9110 15.2). Behind
   * the head of a final response it is content that asks. */
  ab_conn *conn = exchange->conn;
  bool wanted = exchange->watched && conn->engine->half_close == AB_HALF_CLOSE_ASK;
  if (!wanted || exchange->asked || !ab__conn_has(conn, AB_EXCHANGE_APP)) return;
  if (exchange->http_1_0 || exchange->keep_decided) return;
  exchange->asked = true;
  if (ab__conn_protocol(conn)->write_continue(conn) == AB_OK) ab__conn_flush(conn);
}

/* --- whether the connection goes on --- */

bool ab__body_can_skip(const ab_exchange *exchange) {
  const ab_body *body = exchange->body;
  const ab_conn *conn = exchange->conn;
  const ab_limits *limits = ab__conn_limits(conn);
  if (body->done) return true;
  /* If the body was not asked for, it may never come (RFC 9110 10.1.1). */
  if (exchange->expects || body->error) return false;
  if (!body->chunked && body->left <= limits->max_unread_body) return true;
  return ab_body_ends_within(body, limits, conn->in, conn->in_len);
}

bool ab_exchange_keep_alive(ab_exchange *exchange) {
  if (!exchange->keep_decided) {
    const ab_conn *conn = exchange->conn;
    uint64_t most = ab__conn_limits(conn)->max_requests_per_connection;
    exchange->keep = !exchange->asks_close && !ab__engine_closes(conn->engine) &&
                     exchange->body_error == AB_OK && (most == 0 || conn->served < most) &&
                     ab__exchange_can_skip(exchange);
    exchange->keep_decided = true;
  }
  return exchange->keep;
}

void ab_exchange_close_after(ab_exchange *exchange) {
  exchange->keep_decided = true;
  exchange->keep = false;
}

/* --- the end --- */

void ab_exchange_abandon(ab_exchange *exchange, enum ab_finish how) {
  if (!ab_exchange_gone(exchange)) ab__conn_protocol(exchange->conn)->abort(exchange, how);
}

void ab_exchange_finish(ab_exchange *exchange, enum ab_finish how) {
  ab_conn *conn = exchange->conn;
  AB_NOW(conn->engine, in_app, -1u);
  conn->engine->busy_until = conn->engine->now;
  if (conn->state == AB_CONN_DEAD) {
    ab__conn_free(conn);
  } else {
    ab__conn_protocol(conn)->finish(exchange, how);
  }
}
