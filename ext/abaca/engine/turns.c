/* Turns of the engine, in steps: reading and parsing, the requests that are taken, sending. */
#include "engine/turns.h"

#include <stdlib.h>
#include <string.h>

#include "engine/balance.h"
#include "engine/hold.h"
#include "engine/http2.h"
#include "engine/queue.h"

static void refresh_date(ab_engine *engine) {
  int64_t second = ab_clock_unix();
  if (second == engine->date_second) return;
  engine->date_second = second;
  char *date = engine->dates[(uint64_t)second % AB_DATES];
  memcpy(date, "Date: ", 6);
  char *end = ab_write_date(date + 6, second);
  memcpy(end, "\r\n", 3);
  /* Release: the text is seen with it. Partner: ab_engine_date. A place in the ring is written
   * again after AB_DATES seconds. */
  atomic_store_explicit(&engine->date, date, memory_order_release);
}

static void pass_deadlines(ab_engine *engine) {
  if (engine->rest_until && engine->now >= engine->rest_until) {
    engine->rest_until = 0;
    ab__engine_listen(engine);
  }
  if (engine->tls_rest_until && engine->now >= engine->tls_rest_until) {
    engine->tls_rest_until = 0;
    ab__engine_listen(engine);
  }
  ab__taken_over_look(engine);
  for (ab_wheel_node *node; (node = ab_wheel_due(&engine->wheel, engine->now));) {
    ab_conn *conn = AB_CONTAINER_OF(node, ab_conn, timer);
    ab_nsec due = ab__conn_due(conn);
    if (due == 0) continue; /* armed again when the next deadline is set */
    if (due > engine->now) {
      ab_wheel_arm(&engine->wheel, node, due);
    } else {
      ab__conn_timeout(conn);
    }
  }
}

void ab_engine_pass_time(ab_engine *engine, ab_nsec now) {
  if (now > engine->now) engine->now = now;
  refresh_date(engine);
}

static void turns_flush(ab_conn *conn) {
  if (conn->state != AB_CONN_DEAD && conn->out && !conn->blocked) ab__conn_flush(conn);
}

static void end_step(ab_conn *conn) {
  conn->touched = false;
  conn->turn_requests = 0;
  turns_flush(conn);
  if (AB_UNLIKELY(ab__conn_has(conn, AB_EXCHANGE_QUEUED))) {
    ab__exchange_wait(conn->exchange);
    if (ab__conn_is_unwanted(conn)) ab__exchange_unqueue(conn->exchange);
    if (conn->state == AB_CONN_DEAD) return;
  }
  ab__conn_settle(conn);
  if (conn->state == AB_CONN_DEAD || conn->registered) return;
  /* A connection that was accepted and closed in one step never gets here. */
  bool waits = conn->blocked || ab__conn_owes(conn);
  uint32_t events = AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_EDGE | (waits ? AB_POLL_OUT : 0);
  if (ab_poller_set(conn->engine->poller, &conn->link.watch, events) == AB_OK) {
    conn->registered = true;
  } else {
    ab__conn_drop(conn);
  }
}

/* Nothing refers to the arena afterwards. */
static void end_touched(ab_engine *engine) {
#ifdef AB_POISON
  if (engine->lent > 0) abort();
#endif
  for (uint32_t i = 0; i < engine->touched_count; i++) end_step(engine->touched[i]);
  engine->touched_count = 0;
  if (AB_UNLIKELY(!ab_list_empty(&engine->sessions))) ab__sessions_send(engine);
  ab__conns_free_dead(engine);
  ab_arena_reset(&engine->arena);
}

/* What was read outside of a step stands in the arena until then, and its owners take it along. */
static void move_house(ab_engine *engine) {
  end_touched(engine);
  ab_arena_fini(&engine->arena, &engine->mem);
  engine->arena = engine->next_arena;
  engine->request_room = engine->next_room;
  engine->next_arena = (ab_arena){0};
  engine->next_room = 0;
}

static void note_time(ab_engine *engine, ab_nsec now) {
  if (now > engine->latest) engine->latest = now;
}

static void add_heavy(ab_engine *engine, ab_list *list, unsigned most) {
  for (unsigned i = 0; i < most && !ab_list_empty(list); i++) {
    ab_list_append(&engine->batch, ab_list_shift(list));
  }
}

/* The application has taken all that it was told. */
static bool may_tell(const ab_engine *engine) {
  return !ab_list_empty(&engine->app_later) && ab_list_empty(&engine->events);
}

/* Heavy connections come last, and only a few of them: of those that the application reads and
 * writes, one while it has requests to take. */
static void begin_batch(ab_engine *engine) {
  ab_list_splice(&engine->batch, &engine->ready);
  add_heavy(engine, &engine->later, AB_TURN_LATER);
  if (AB_LIKELY(!may_tell(engine))) return;
  add_heavy(engine, &engine->app_later, ab__engine_has_beginners(engine) ? 1 : AB_TURN_LATER);
}

void ab_engine_begin_turn(ab_engine *engine, ab_nsec now) {
  ab_engine_lock(engine);
  ab_engine_pass_time(engine, now);
  engine->turned_at = engine->now;
  note_time(engine, engine->now);
  /* Relaxed: other processes see that the engine turns. Partner: the load in page/slot.c. */
  __atomic_store_n(&engine->stats->turned, now, __ATOMIC_RELAXED);
  if (AB_UNLIKELY(engine->next_room > 0)) move_house(engine);
  if (AB_UNLIKELY(engine->paused)) ab__engine_look(engine);
  if (AB_UNLIKELY(engine->readers_pool != NULL)) ab__loads_reap(engine);
  begin_batch(engine);
  if (engine->balance) ab__balance_turn(engine);
  ab_engine_unlock(engine);
}

static void turns_serve(ab_conn *conn) {
  conn->turn_cost = 0;
  if (conn->out && !conn->blocked) ab__conn_flush(conn);
  if (AB_UNLIKELY(ab__conn_has(conn, AB_EXCHANGE_APP)) && conn->exchange->wants_turn) {
    conn->exchange->wants_turn = false;
    ab__conn_tell_drained(conn);
  }
  ab__conn_advance(conn);
}

/* Without room in the arena the next connection could not read, and would wait for the next turn.
 */
static bool step_full(const ab_engine *engine, uint32_t waiting) {
  return engine->own_stats.waiting >= waiting + AB_STEP_REQUESTS ||
         engine->touched_count == AB_STEP_CONNS || ab__arena_room(engine) == 0;
}

/* One by one: accepted, read, answered and closed while they are warm. */
static bool accept_and_serve(ab_engine *engine, uint32_t waiting) {
  for (ab_service *service = engine->services; service; service = service->next) {
    for (ab_conn *conn; !step_full(engine, waiting) && (conn = ab__service_accept(service));) {
      ab_list_remove(&conn->ready_link);
      turns_serve(conn);
    }
    if (service->budget > 0) return true;
  }
  if (AB_LIKELY(!engine->balance)) return false;
  while (!step_full(engine, waiting) && ab__balance_adopt(engine)) continue;
  return engine->balance->budget > 0;
}

bool ab_engine_step(ab_engine *engine) {
  ab_engine_lock(engine);
  uint32_t waiting = engine->own_stats.waiting; /* what waits for a fiber does not count */
  engine->signs = AB_STEP_SIGNS;
  if (AB_UNLIKELY(!ab_list_empty(&engine->signers))) ab__handshakes_sign(engine);
  while (!ab_list_empty(&engine->batch) && !step_full(engine, waiting)) {
    turns_serve(AB_CONTAINER_OF(ab_list_shift(&engine->batch), ab_conn, ready_link));
  }
  bool more = !ab_list_empty(&engine->batch) || accept_and_serve(engine, waiting);
  /* Last, since what has come in time counts, however late we look at it. */
  if (!more) pass_deadlines(engine);
  ab_engine_unlock(engine);
  return more;
}

void ab_engine_go_on(ab_engine *engine, ab_nsec now) {
  ab_engine_lock(engine);
  ab_engine_pass_time(engine, now);
  ab__balance_go_on(engine);
  ab_engine_unlock(engine);
}

/* Connections to be served in the next turn. */
static bool has_ready(const ab_engine *engine) {
  return !ab_list_empty(&engine->ready) || !ab_list_empty(&engine->later) || may_tell(engine) ||
         !ab_list_empty(&engine->signers);
}

bool ab_engine_end_step(ab_engine *engine) {
  ab_engine_lock(engine);
  if (AB_UNLIKELY(engine->own_stats.waiting > engine->max_queue)) ab__engine_shed(engine);
  end_touched(engine);
  bool more = engine->starved || has_ready(engine) || !ab_list_empty(&engine->events);
  engine->starved = false;
  ab_engine_unlock(engine);
  return more;
}

static ab_nsec deadline(const ab_engine *engine) {
  ab_nsec due = ab_earlier(ab_wheel_deadline(&engine->wheel), engine->rest_until);
  due = ab_earlier(due, engine->tls_rest_until);
  if (engine->hold) due = ab_earlier(due, ab__hold_deadline(engine));
  due = ab_earlier(due, ab__taken_over_deadline(engine));
  due = ab_earlier(due, ab__balance_deadline(engine));
  return ab_earlier(due, engine->look_at);
}

/* The request that is next, one that was held back first. */
static ab_exchange *first_request(ab_engine *engine, uint8_t below) {
  ab_exchange *held = engine->hold ? ab__hold_next(engine) : NULL;
  return held && held->level < below ? held : ab__queue_first(engine, below);
}

/* Is there a request to be taken, as far as can be told without looking at it? */
static bool has_requests(ab_engine *engine, uint8_t below) {
  return AB_LIKELY(!engine->withheld) && first_request(engine, below);
}

ab_nsec ab_engine_deadline(ab_engine *engine) {
  ab_engine_lock(engine);
  ab_nsec due = engine->told_deadline = deadline(engine);
  if (engine->balance) ab__balance_rest(engine);
  ab_engine_unlock(engine);
  return due;
}

bool ab_engine_needs_turn(ab_engine *engine) {
  if (engine->touched_count > 0 || has_ready(engine)) return true;
  if (has_requests(engine, AB_LEVELS) || !ab_list_empty(&engine->events)) return true;
  ab_nsec due = deadline(engine);
  return due && (engine->told_deadline == 0 || due < engine->told_deadline);
}

bool ab_engine_tells(ab_engine *engine, uint8_t below) {
  ab_engine_lock(engine);
  bool news = engine->notice_count > 0 || !ab_list_empty(&engine->events) ||
              (below > 0 && has_requests(engine, below));
  ab_engine_unlock(engine);
  return news;
}

/* --- requests and events --- */

/* The first one whose peer is there; NULL if there is none. */
static ab_exchange *next_request(ab_engine *engine, uint8_t below) {
  ab_exchange *exchange;
  do exchange = first_request(engine, below);
  while (exchange && AB_UNLIKELY(ab__exchange_has_left(exchange)));
  return exchange;
}

/* May it go? If not, it does not stand in the way of the others any more. */
static bool let_go(ab_exchange *exchange) {
  if (!exchange->held) return !ab__hold_back(exchange);
  ab__hold_let_go(exchange);
  return true;
}

/* The parsed form may be lost. False when the arena has no room left for it. */
static bool turns_recall(ab_exchange *exchange) {
  if (AB_LIKELY(exchange->request != NULL)) return true;
  exchange->request = ab__conn_protocol(exchange->conn)->recall(exchange);
  return exchange->request != NULL;
}

static ab_exchange *take_request(ab_engine *engine, uint8_t below, ab_head_loan *head) {
  ab_exchange *exchange;
  do {
    exchange = next_request(engine, below);
    if (!exchange) return NULL;
    if (!turns_recall(exchange)) {
      engine->starved = true; /* the arena is full: after the step there is room */
      return NULL;
    }
  } while (AB_UNLIKELY(engine->hold != NULL) && !let_go(exchange));
  engine->heavy_first = false;
  if (AB_UNLIKELY(exchange->level > 0)) ab__queue_note_wait(exchange);
  *head = ab__exchange_lend(exchange);
  ab__engine_event(exchange, 0);
  ab__exchange_taken(exchange);
  if (engine->balance) ab__balance_took(engine, exchange->cost);
  return exchange;
}

/* A look without the lock, relaxed: what another thread adds meanwhile is taken the next time, for
 * which it wakes the poller up. */
static bool is_quiet(const ab_engine *engine) {
  return !__atomic_load_n(&engine->hold, __ATOMIC_RELAXED) &&
         ab_list_seems_empty(&engine->events) && ab_list_seems_empty(&engine->requests);
}

ab_exchange *ab_engine_next(ab_engine *engine, uint8_t below, ab_nsec now, unsigned *events,
                            ab_head_loan *head) {
  if (is_quiet(engine)) return NULL;
  ab_engine_lock(engine);
  note_time(engine, now);
  ab_exchange *exchange = NULL;
  ab_list *node = ab_list_shift(&engine->events);
  if (node) {
    exchange = AB_CONTAINER_OF(node, ab_exchange, event_link);
    *events = exchange->events;
    exchange->events = 0;
  } else if (below > 0 && AB_LIKELY(!engine->withheld)) {
    exchange = take_request(engine, below, head);
    if (exchange) *events = AB_EVENT_REQUEST;
  }
  ab_engine_unlock(engine);
  return exchange;
}

/* --- for the lead and the standby, which know no engine --- */

static void lead_end_step(void *engine) {
  ab_engine_end_step(engine);
}

/* Whatever leads at other times is away with a request. */
static void note_stall(ab_engine *engine) {
  ab_engine_lock(engine);
  if (!engine->paused && !ab__engine_is_accepting(engine)) ab__engine_set_paused(engine, true);
  ab_engine_unlock(engine);
}

static bool lead_turn(void *ptr, ab_nsec now) {
  ab_engine *engine = ptr;
  if (engine->balance) note_stall(engine);
  ab_engine_begin_turn(engine, now);
  bool batch;
  do {
    batch = ab_engine_step(engine);
    ab_engine_end_step(engine);
  } while (batch);
  ab_engine_lock(engine);
  bool more = has_ready(engine);
  ab_engine_unlock(engine);
  return more;
}

static ab_nsec lead_deadline(void *engine) {
  return ab_engine_deadline(engine);
}

static bool lead_has_news(void *ptr, uint8_t below) {
  ab_engine *engine = ptr;
  ab_engine_lock(engine);
  bool news = (below > 0 && has_requests(engine, below)) || !ab_list_empty(&engine->events);
  ab_engine_unlock(engine);
  return news;
}

static bool lead_runs_more(void *ptr, unsigned count) {
  ab_engine *engine = ptr;
  ab_engine_lock(engine);
  bool more = engine->own_stats.in_app > count;
  ab_engine_unlock(engine);
  return more;
}

static void lead_flush(void *ptr) {
  ab_engine *engine = ptr;
  ab_engine_lock(engine);
  for (uint32_t i = 0; i < engine->touched_count; i++) turns_flush(engine->touched[i]);
  ab__sessions_send(engine);
  ab_engine_unlock(engine);
}

static uint64_t lead_waited(const void *ptr) {
  const ab_engine *engine = ptr;
  return AB_GET(engine->stats->queued);
}

const ab_lead_turns ab_engine_turns = {
    .end_step = lead_end_step,
    .turn = lead_turn,
    .deadline = lead_deadline,
    .has_news = lead_has_news,
    .runs_more = lead_runs_more,
    .flush = lead_flush,
    .waited = lead_waited,
};
