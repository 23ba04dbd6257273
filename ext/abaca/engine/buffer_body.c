/* Request bodies that arrive before their requests are taken, so that a slow sender takes no place
 * in the application. The bytes stay as they came, behind the head at `in`, and are searched for
 * the end. All functions run with the lock held unless engine.h says otherwise. */
#include "engine/conn.h"

void ab_engine_buffer_bodies(ab_engine *engine, ab_buffering_rule rule, void *ctx, uint64_t most) {
  engine->buffering_rule = rule;
  engine->buffering_ctx = ctx;
  engine->buffer_most = most;
}

/* Bytes of one body. Lengths of input are less than 2^31. */
static uint64_t body_most(const ab_exchange *exchange) {
  uint64_t most = ab_exchange_limits(exchange)->max_body_memory;
  return most < INT32_MAX / 2 ? most : INT32_MAX / 2;
}

static bool is_longer(const ab_exchange *exchange) {
  return !exchange->body->chunked && exchange->body->left > body_most(exchange);
}

static bool store_is_full(const ab_engine *engine) {
  return engine->own_stats.bodies.bytes >= engine->buffer_most;
}

bool ab__buffer_begin(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  if (engine->refusing || store_is_full(engine) || exchange->streams) return false;
  enum ab_buffering how = engine->buffering_rule(engine->buffering_ctx, exchange->request->path);
  if (how == AB_BUFFER_NOT) return false;
  /* A client that asks may be refused: at least for what is not held of its body. */
  if (exchange->expects && (how == AB_BUFFER_UNASKED || is_longer(exchange))) return false;
  ab_body_buffer(exchange->body, &engine->own_stats.bodies, &engine->stats);
  ab__exchange_become(exchange, AB_EXCHANGE_BUFFER);
  exchange->conn->timed = false;
  return true;
}

bool ab__exchange_admit(ab_exchange *exchange, const ab_framing *framing) {
  ab_conn *conn = exchange->conn;
  ab_engine *engine = conn->engine;
  if (AB_LIKELY(framing->body == AB_BODY_NONE)) {
    ab__exchange_queue(exchange);
    return false;
  }
  int error = ab_body_init(&exchange->body, &engine->mem, ab__conn_limits(conn), framing);
  if (error) {
    ab__conn_fail(conn, error);
    return false;
  }
  exchange->expects = framing->expect_continue;
  if (AB_UNLIKELY(engine->buffering_rule != NULL) && ab__buffer_begin(exchange)) return true;
  ab__exchange_queue(exchange);
  return false;
}

/* The peer waits for the word before it sends the body, and nothing else would send it now. A peer
 * that would not be let in afterwards is told at once. */
static int ask_for_body(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  exchange->body->asked = true;
  if (ab__engine_full(engine)) {
    engine->stats->rejected[AB_REJECT_QUEUE_FULL]++;
    return AB_HTTP_NO_FIBER;
  }
  /* It is sent when the step ends, after the responses to earlier requests. */
  return ab__conn_protocol(exchange->conn)->write_continue(exchange->conn) == AB_OK
             ? AB_AGAIN
             : AB_HTTP_NO_MEMORY;
}

static void buffer_end(ab_exchange *exchange) {
  ab_body *body = exchange->body;
  ab_nsec now = exchange->conn->engine->now;
  ab_body_waited(body, now);
  ab_body_buffered(body);
  if (now <= exchange->arrived) return;
  body->buffered_for = now - exchange->arrived;
  exchange->arrived = now;
}

int ab__buffer_look(ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  ab_body *body = exchange->body;
  size_t from = exchange->consume + body->buffered;
  if (conn->in_len > from) {
    ab_body_look_over(body, ab__conn_limits(conn), conn->in + from, conn->in_len - from);
    ab_body_waited(body, conn->engine->now);
  }
  if (body->error) return body->error;
  if (!body->done && body->buffered < body_most(exchange) && !store_is_full(conn->engine)) {
    /* A peer that sends without it did not wait for the word. */
    bool ask = exchange->expects && !body->asked && body->buffered == 0;
    return ask ? ask_for_body(exchange) : AB_AGAIN;
  }
  buffer_end(exchange);
  return AB_OK;
}

/* As much as there is already, so that what a client announces costs nothing before it is sent, and
 * a few reads are enough. */
size_t ab__buffer_room(const ab_exchange *exchange) {
  const ab_conn *conn = exchange->conn;
  const ab_body *body = exchange->body;
  uint64_t left = body_most(exchange) - body->buffered;
  if (!body->chunked && body->left < left) left = body->left;
  size_t room = conn->in_len < AB_RECV_MIN ? AB_RECV_MIN : conn->in_len;
  return left < room ? (size_t)left : room;
}
