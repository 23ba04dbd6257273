/* Deadlines of what a connection waits for now, of a response that the peer is slow to read, and of
 * the request as a whole. The timer is touched only if one comes nearer. All functions run with the
 * lock held. */
#include <string.h>

#include "base/bits.h"
#include "engine/conn.h"

ab_nsec ab__conn_due(const ab_conn *conn) {
  return conn->exchange ? ab_earlier(conn->deadline, conn->exchange->deadline) : conn->deadline;
}

void ab__conn_arm(ab_conn *conn) {
  ab_nsec due = ab__conn_due(conn);
  if (due && (!ab_wheel_armed(&conn->timer) || due < conn->timer.deadline)) {
    ab_wheel_arm(&conn->engine->wheel, &conn->timer, due);
  }
}

static void set_deadline(ab_conn *conn, ab_nsec deadline) {
  conn->deadline = deadline;
  ab__conn_arm(conn);
}

static void set_after(ab_conn *conn, uint64_t seconds) {
  set_deadline(conn, conn->engine->now + ab_limit_nsec(seconds));
}

/* --- a peer that is slow to read its response --- */

ab_stall *ab__conn_stall(ab_conn *conn) {
  if (conn->stall) return conn->stall;
  ab_stall *stall = conn->stall = ab_alloc_zero(&conn->engine->mem, sizeof(*stall));
  if (!stall) return NULL;
  stall->conn = conn;
  ab_list_init(&stall->link);
  stall->given = ab_link_pending(&conn->link);
  return stall;
}

void ab__conn_stall_end(ab_conn *conn) {
  ab_list_remove(&conn->stall->link);
  ab_free(&conn->engine->mem, conn->stall);
  conn->stall = NULL;
}

void ab__conn_stall_sent(ab_conn *conn, uint64_t bytes) {
  ab_stall *stall = conn->stall;
  stall->given += bytes;
  if (stall->since == 0) return;
  /* Within a long turn the clock is late, in the peer's favour. */
  stall->before += conn->engine->now - stall->since;
  stall->since = 0;
}

static void stall_begin(ab_conn *conn) {
  ab_stall *stall = ab__conn_stall(conn);
  if (!stall) return;
  if (stall->since == 0) stall->since = conn->engine->now;
  stall->progress = conn->engine->now;
}

/* What the peer has acknowledged: its share of a large socket queue moves before there is room. */
static void stall_look(ab_conn *conn) {
  ab_stall *stall = conn->stall;
  uint64_t queued = ab_link_pending(&conn->link);
  uint64_t taken = queued < stall->given ? stall->given - queued : 0;
  if (taken <= stall->taken) return;
  stall->taken = taken;
  stall->progress = conn->engine->now;
}

ab_nsec ab_exchange_moved(ab_exchange *exchange) {
  ab_conn *conn = exchange->conn;
  if (!ab__conn_has(conn, AB_EXCHANGE_APP)) return 0;
  if (exchange->wants_body) {
    return exchange->body->waiting ? exchange->body->waiting : conn->engine->now;
  }
  if (!exchange->wants_room || !conn->blocked || !conn->stall) return 0;
  stall_look(conn);
  return conn->stall->progress;
}

/* When write_timeout or min_send_rate will have been missed, as far as we know now. */
static ab_nsec stall_deadline(const ab_conn *conn) {
  const ab_stall *stall = conn->stall;
  const ab_limits *limits = ab__conn_limits(conn);
  ab_nsec deadline = stall->progress + ab_limit_nsec(limits->write_timeout);
  if (!limits->min_send_rate) return deadline;
  ab_nsec allowed =
      ab_limit_nsec(limits->rate_grace) + ab_limit_nsec(stall->taken / limits->min_send_rate);
  ab_nsec left = allowed > stall->before ? allowed - stall->before : 0;
  return ab_earlier(deadline, stall->since + left);
}

/* It begins again: the peer is not the slow one. */
static void stall_restart(ab_conn *conn) {
  conn->stall->since = conn->stall->progress = conn->engine->now;
}

bool ab__conn_stall_is_over(ab_conn *conn) {
  if (!conn->stall) return true;
  stall_look(conn);
  if (conn->speaks == AB_SPEAKS_STREAM && ab__conn_protocol(conn)->stands(conn)) {
    stall_restart(conn);
  }
  ab_nsec deadline = stall_deadline(conn);
  if (deadline <= conn->engine->now) return true;
  set_deadline(conn, deadline);
  return false;
}

/* --- the deadline of what it waits for --- */

/* How long the peer may take to begin a head, and from then on to complete it. While the engine
 * drains, a request may be on its way on any connection of which the peer cannot know that it ends:
 * on one that was idle, and after a response whose head did not say so. */
static ab_nsec head_time(const ab_conn *conn) {
  const ab_limits *limits = ab__conn_limits(conn);
  const ab_engine *engine = conn->engine;
  bool first = conn->begun || conn->served == 0;
  ab_nsec time = ab_limit_nsec(first ? limits->header_timeout : limits->persistent_timeout);
  bool hurried = engine->refusing || (engine->draining && !conn->begun);
  return AB_UNLIKELY(hurried) && time > AB_DRAIN_GRACE ? AB_DRAIN_GRACE : time;
}

/* One deadline for the idle time, and an absolute one from a head's first byte on. */
static void rearm_head(ab_conn *conn) {
  bool begun = conn->in_len > 0;
  if (conn->timed && begun == conn->begun) return;
  conn->timed = true;
  conn->begun = begun;
  set_deadline(conn, conn->engine->now + head_time(conn));
}

static void rearm_body(ab_conn *conn) {
  ab_body *body = conn->exchange->body;
  ab_body_wait(body, conn->engine->now);
  set_deadline(conn, ab_body_deadline(body, ab__conn_limits(conn)));
}

static bool waits_for_body(const ab_conn *conn) {
  return ab__conn_has(conn, AB_EXCHANGE_SKIP) || ab__conn_has(conn, AB_EXCHANGE_BUFFER) ||
         (ab__conn_has(conn, AB_EXCHANGE_APP) && conn->exchange->wants_body);
}

static bool has_own_deadlines(const ab_conn *conn) {
  return AB_UNLIKELY(conn->speaks != AB_SPEAKS_HTTP1) && ab__conn_protocol(conn)->rearm;
}

void ab__conn_rearm(ab_conn *conn) {
  const ab_limits *limits = ab__conn_limits(conn);
  if (ab__load_waits(conn)) {
    conn->timed = false; /* the peer is not the slow one */
    conn->deadline = 0;
  } else if (conn->out && conn->blocked && !conn->untimed) {
    if (conn->timed) return;
    conn->timed = true;
    stall_begin(conn);
    if (conn->stall) {
      stall_look(conn);
      set_deadline(conn, stall_deadline(conn));
    } else { /* no memory to look closer */
      set_after(conn, limits->write_timeout);
    }
  } else if (conn->state == AB_CONN_HEAD && has_own_deadlines(conn)) {
    ab__conn_protocol(conn)->rearm(conn);
  } else if (conn->state == AB_CONN_HEAD) {
    rearm_head(conn);
  } else if (waits_for_body(conn)) {
    rearm_body(conn);
  } else if (conn->state == AB_CONN_LINGER) {
    if (conn->timed) return;
    conn->timed = true;
    set_after(conn, limits->linger_timeout);
  } else {
    conn->deadline = 0;
  }
}

/* The patterns follow the rules, in one block of memory. */
int ab_engine_set_path_times(ab_engine *engine, const ab_path_rule *rules, size_t count) {
  size_t size;
  if (!ab_mul_size(count, sizeof(*rules), &size)) return AB_ENOMEM;
  for (size_t i = 0; i < count; i++) {
    if (!ab_add_size(size, rules[i].pattern.len, &size)) return AB_ENOMEM;
  }
  ab_path_rule *copies = count > 0 ? ab_alloc(&engine->mem, size) : NULL;
  if (count > 0 && !copies) return AB_ENOMEM;
  char *text = (char *)(copies + count);
  for (size_t i = 0; i < count; i++) {
    ab_view pattern = rules[i].pattern;
    copies[i] = (ab_path_rule){{text, pattern.len}, rules[i].value};
    if (pattern.len > 0) memcpy(text, pattern.ptr, pattern.len);
    text += pattern.len;
  }
  ab_free(&engine->mem, engine->path_times);
  engine->path_times = copies;
  engine->path_time_count = count;
  return AB_OK;
}

static uint64_t request_timeout(const ab_exchange *exchange) {
  const ab_engine *engine = exchange->conn->engine;
  const ab_path_rule *rule =
      ab_path_rule_find(engine->path_times, engine->path_time_count, exchange->request->path);
  return rule ? rule->value : ab__conn_limits(exchange->conn)->request_timeout;
}

ab_nsec ab_exchange_buffered_for(const ab_exchange *exchange) {
  return exchange->body ? exchange->body->buffered_for : 0;
}

bool ab_exchange_came_at_once(const ab_exchange *exchange) {
  return !exchange->body && exchange->head_for == 0;
}

ab_nsec ab_exchange_head_for(const ab_exchange *exchange) {
  return exchange->head_for;
}

/* The deadline of a head began with its first byte. */
ab_nsec ab__conn_head_for(const ab_conn *conn) {
  if (!conn->timed || !conn->begun) return 0;
  ab_nsec time = head_time(conn);
  ab_nsec first = conn->deadline > time ? conn->deadline - time : 0;
  return first && first < conn->engine->now ? conn->engine->now - first : 0;
}

/* request_timeout, from the time at which the request's head was complete. */
void ab__exchange_time(ab_exchange *exchange) {
  uint64_t seconds = request_timeout(exchange);
  ab_nsec since = exchange->arrived - ab_exchange_buffered_for(exchange);
  exchange->deadline = seconds ? since + ab_limit_nsec(seconds) : 0;
  ab__conn_arm(exchange->conn);
}

void ab_exchange_set_time(ab_exchange *exchange, ab_nsec time) {
  ab_conn *conn = exchange->conn;
  if (!ab__conn_has(conn, AB_EXCHANGE_APP)) return;
  exchange->expired = false;
  exchange->deadline = time ? conn->engine->now + time : 0;
  ab__conn_arm(conn);
}

void ab_exchange_add_time(ab_exchange *exchange, ab_nsec time) {
  if (exchange->expired) {
    ab_exchange_set_time(exchange, time);
  } else if (exchange->deadline) {
    ab_nsec later;
    bool never = __builtin_add_overflow(exchange->deadline, time, &later);
    exchange->deadline = never ? UINT64_MAX : later;
  }
}

ab_nsec ab_exchange_deadline(const ab_exchange *exchange) {
  return exchange->deadline;
}
