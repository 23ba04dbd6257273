/* Request bodies that are here before their requests are taken, so that who is slow to send one
 * takes nobody's place in the application. The octets stay as they came, behind the head at `in`,
 * and are looked over for the end of the body; whoever takes the request reads them from there. All
 * functions run with the lock held unless engine.h says otherwise. */
#include "engine/conn.h"

void ab_engine_gather(ab_engine *engine, ab_gathers gathers, void *ctx, uint64_t most) {
  engine->gathers = gathers;
  engine->gathers_ctx = ctx;
  engine->gather_most = most;
}

ab_nsec ab_conn_gathered_for(const ab_conn *conn) {
  return conn->body ? conn->body->gathered_for : 0;
}

/* Octets of one body. Lengths of input are less than 2^31. */
static uint64_t body_most(const ab_conn *conn) {
  uint64_t most = ab__conn_limits(conn)->max_body_memory;
  return most < INT32_MAX / 2 ? most : INT32_MAX / 2;
}

/* It has said so. */
static bool is_longer(const ab_conn *conn) {
  const ab_framing *framing = &conn->request->framing;
  return framing->body == AB_BODY_LENGTH && framing->length > body_most(conn);
}

static bool store_is_full(const ab_engine *engine) {
  return engine->store.octets >= engine->gather_most;
}

bool ab__gather_begin(ab_conn *conn) {
  ab_engine *engine = conn->engine;
  if (engine->refusing || store_is_full(engine)) return false;
  enum ab_gather how = engine->gathers(engine->gathers_ctx, conn->request->path);
  if (how == AB_GATHER_NOT) return false;
  /* Who asks may be told no by the application: for what is not held of it at least. */
  if (conn->expects && (how == AB_GATHER_UNASKED || is_longer(conn))) return false;
  ab_body_gather(conn->body, &engine->store);
  conn->state = AB_CONN_GATHER;
  conn->timed = false;
  return true;
}

/* The peer waits for the word before it sends the body, and nobody else would say it now. Who would
 * not be let in afterwards is told at once. */
static int ask_for_body(ab_conn *conn) {
  static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
  conn->body->asked = true;
  if (ab__engine_full(conn->engine)) {
    conn->engine->stats.rejected[AB_REJECT_QUEUE_FULL]++;
    return AB_HTTP1_NO_FIBER;
  }
  /* It is sent when the step ends, behind the responses to what came before. */
  return ab_conn_write(conn, interim, sizeof(interim) - 1) == AB_OK ? AB_AGAIN : AB_HTTP1_NO_MEMORY;
}

static void end(ab_conn *conn) {
  ab_body *body = conn->body;
  ab_nsec now = conn->engine->now;
  ab_body_waited(body, now);
  ab_body_gathered(body);
  if (now <= conn->arrived) return;
  body->gathered_for = now - conn->arrived;
  conn->arrived = now;
}

int ab__gather_look(ab_conn *conn) {
  ab_body *body = conn->body;
  size_t from = conn->consume + body->gathered;
  if (conn->in_len > from) {
    ab_body_look_over(body, ab__conn_limits(conn), conn->in + from, conn->in_len - from);
    ab_body_waited(body, conn->engine->now);
  }
  if (body->error) return body->error;
  if (!body->done && body->gathered < body_most(conn) && !store_is_full(conn->engine)) {
    /* Who sends without it did not wait for the word. */
    bool ask = conn->expects && !body->asked && body->gathered == 0;
    return ask ? ask_for_body(conn) : AB_AGAIN;
  }
  end(conn);
  return AB_OK;
}

/* As much as there is already, so that what a client announces costs nothing before it is sent, and
 * a few reads are enough. */
size_t ab__gather_room(const ab_conn *conn) {
  const ab_body *body = conn->body;
  uint64_t left = body_most(conn) - body->gathered;
  if (!body->chunked && body->left < left) left = body->left;
  size_t room = conn->in_len < AB_RECV_MIN ? AB_RECV_MIN : conn->in_len;
  return left < room ? (size_t)left : room;
}
