/* The queue of requests: see queue.h. Routes know what their requests usually compute. */
#include "engine/queue.h"

/* What a request is taken to cost that is not known to cost more. Where all are that light, a
 * worker's pace says what it means (balance.c). */
#define LEAST AB_NSEC_PER_MS

void ab_engine_weigh(ab_engine *engine, ab_route_stats *routes) {
  engine->routes = routes;
}

/* From the end: most requests are no lighter than those that came before. */
static void queue_insert(ab_engine *engine, ab_exchange *exchange) {
  ab_list *before = engine->requests.prev;
  while (before != &engine->requests &&
         AB_CONTAINER_OF(before, ab_exchange, event_link)->rank > exchange->rank) {
    before = before->prev;
  }
  ab_list_insert_between(&exchange->event_link, before, before->next);
}

static ab_nsec at_least(ab_nsec cost) {
  return cost > LEAST ? cost : LEAST;
}

ab_nsec ab__queue_guess(const ab_engine *engine) {
  if (!engine->routes) return LEAST;
  return at_least(ab_route_stats_weigh(engine->routes, &(ab_route){0}, (ab_view){NULL, 0}).cost);
}

/* Without a route, since none was needed or its parsed form is lost, it is unknown. */
static void weigh(ab_engine *engine, ab_exchange *exchange) {
  ab_route_stats *routes = engine->routes;
  exchange->level = 0;
  exchange->measured = false;
  exchange->cost = LEAST;
  if (!routes) return;
  exchange->weighed = ab_route_stats_changes(routes);
  if (AB_LIKELY(!ab_route_stats_weighs(routes))) return;
  ab_view path = exchange->request ? exchange->request->path : (ab_view){NULL, 0};
  ab_route_weight weight = ab_route_stats_weigh(routes, &exchange->route, path);
  exchange->level = weight.level;
  exchange->measured = weight.measured;
  exchange->cost = at_least(weight.cost);
}

void ab__queue_add(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  exchange->route = (ab_route){0};
  weigh(engine, exchange);
  exchange->rank = engine->now + ab_level_slack(exchange->level);
  queue_insert(engine, exchange);
}

static void insert_again(ab_engine *engine, ab_exchange *exchange) {
  ab_list_remove(&exchange->event_link);
  queue_insert(engine, exchange);
}

void ab__queue_put_back(ab_exchange *exchange, ab_nsec waited) {
  exchange->rank -= waited;
  insert_again(exchange->conn->engine, exchange);
}

/* Requests of its route have ended since. True if it has another place now. */
static bool weigh_again(ab_engine *engine, ab_exchange *exchange) {
  if (AB_LIKELY(exchange->weighed == ab_route_stats_changes(engine->routes))) return false;
  uint8_t before = exchange->level;
  weigh(engine, exchange);
  if (exchange->level == before) return false;
  exchange->rank += ab_level_slack(exchange->level) - ab_level_slack(before);
  insert_again(engine, exchange);
  return true;
}

ab_nsec ab__queue_cost(ab_engine *engine, unsigned most) {
  ab_nsec cost = 0;
  ab_list_each (node, next, &engine->requests) {
    if (engine->routes) weigh_again(engine, AB_CONTAINER_OF(node, ab_exchange, event_link));
  }
  ab_list_each (node, next, &engine->requests) {
    if (most-- == 0) break;
    cost += AB_CONTAINER_OF(node, ab_exchange, event_link)->cost;
  }
  return cost;
}

static ab_exchange *queue_head(const ab_engine *engine) {
  if (ab_list_empty(&engine->requests)) return NULL;
  return AB_CONTAINER_OF(engine->requests.next, ab_exchange, event_link);
}

static ab_exchange *first_heavy(const ab_engine *engine, uint8_t below) {
  ab_list_each (node, next, &engine->requests) {
    ab_exchange *exchange = AB_CONTAINER_OF(node, ab_exchange, event_link);
    if (exchange->level > 0 && exchange->level < below) return exchange;
  }
  return NULL;
}

ab_exchange *ab__queue_first(ab_engine *engine, uint8_t below) {
  ab_exchange *first = queue_head(engine);
  if (!first || !engine->routes) return first;
  while (weigh_again(engine, first)) first = queue_head(engine);
  if (AB_UNLIKELY(engine->heavy_first)) {
    ab_exchange *heavy = first_heavy(engine, below);
    if (heavy) return heavy;
  }
  return first->level < below ? first : NULL;
}

void ab__queue_note_wait(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  ab_nsec waited = engine->now - exchange->arrived;
  if (exchange->level == 0 || waited < AB_LONG_WAIT) return;
  engine->long_waits.count++;
  if (waited > engine->long_waits.longest) engine->long_waits.longest = waited;
}

ab_long_waits ab_engine_take_long_waits(ab_engine *engine) {
  ab_engine_lock(engine);
  ab_long_waits waits = engine->long_waits;
  engine->long_waits = (ab_long_waits){0};
  ab_engine_unlock(engine);
  return waits;
}

void ab_engine_prefer_heavy(ab_engine *engine) {
  ab_engine_lock(engine);
  engine->heavy_first = true;
  ab_engine_unlock(engine);
}
