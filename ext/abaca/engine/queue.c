/* The queue of requests: see queue.h. Routes know what their requests usually compute. */
#include "engine/queue.h"

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

/* Without a route, since none was needed or its parsed form is lost, it is unknown. */
static uint8_t weigh(ab_engine *engine, ab_exchange *exchange) {
  ab_route_stats *routes = engine->routes;
  exchange->weighed = ab_route_stats_changes(routes);
  if (AB_LIKELY(!ab_route_stats_weighs(routes))) return 0;
  if (exchange->route.serial == 0 && exchange->request)
    exchange->route = ab_route_stats_path(routes, exchange->request->path);
  return ab_route_stats_level(routes, exchange->route);
}

void ab__queue_add(ab_exchange *exchange) {
  ab_engine *engine = exchange->conn->engine;
  exchange->route = (ab_route){0};
  exchange->level = engine->routes ? weigh(engine, exchange) : 0;
  exchange->rank = engine->now + ab_level_slack(exchange->level);
  queue_insert(engine, exchange);
}

/* Requests of its route have ended since. True if it has another place now. */
static bool weigh_again(ab_engine *engine, ab_exchange *exchange) {
  if (AB_LIKELY(exchange->weighed == ab_route_stats_changes(engine->routes))) return false;
  uint8_t before = exchange->level;
  exchange->level = weigh(engine, exchange);
  if (exchange->level == before) return false;
  exchange->rank += ab_level_slack(exchange->level) - ab_level_slack(before);
  ab_list_remove(&exchange->event_link);
  queue_insert(engine, exchange);
  return true;
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

void ab_engine_prefer_heavy(ab_engine *engine) {
  ab_engine_lock(engine);
  engine->heavy_first = true;
  ab_engine_unlock(engine);
}
