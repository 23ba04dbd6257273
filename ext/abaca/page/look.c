#include "page/look.h"

#include "page/internal.h"

uint32_t ab_page_rows_marked(const ab_page_parts *parts) {
  return ab__page_mark(&parts->slot->app.mark, parts->row_count);
}

uint32_t ab_page_queued_marked(const ab_page_parts *parts) {
  return ab__page_mark(&parts->slot->queue.mark, parts->queued_count);
}

static void count_states(ab_page_states *states, const ab_row *rows, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint8_t state = AB_GET(rows[i].state);
    if (AB_GET(rows[i].used) && state < AB_STATE_COUNT) states->now[state]++;
  }
}

ab_page_states ab_page_states_of(const ab_page_parts *parts) {
  ab_page_states states = {{0}};
  count_states(&states, parts->rows, ab_page_rows_marked(parts));
  count_states(&states, parts->queued, ab_page_queued_marked(parts));
  return states;
}

ab_view ab_page_route_of(const ab_page_parts *parts, uint32_t number,
                         char name[AB_PAGE_ROUTE_NAME]) {
  static const char other[] = "_OTHER";
  uint32_t count = parts->route_count;
  if (number >= count) return (ab_view){NULL, 0};
  if (number + 1 == count) return (ab_view){other, sizeof(other) - 1};
  if (number >= ab_page_routes_used(&parts->slot->app.routes, count)) return (ab_view){NULL, 0};
  return (ab_view){name, ab_page_route_name(&parts->routes[number], name)};
}

static void count_methods(ab_page_methods *methods, const ab_row *rows, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint8_t method = AB_GET(rows[i].method);
    if (AB_GET(rows[i].used) && method < AB_ROW_METHOD_COUNT) methods->now[method]++;
  }
}

void ab_page_count_methods(const ab_page_parts *parts, ab_page_methods *methods) {
  count_methods(methods, parts->rows, ab_page_rows_marked(parts));
  count_methods(methods, parts->queued, ab_page_queued_marked(parts));
}

void ab_page_requests(const ab_page_parts *parts, ab_cells *cells) {
  uint32_t count = parts->series_count, used = ab_series_used(&parts->slot->app.series, count);
  for (uint32_t i = ab_series_skip(0, used, count); i < count;
       i = ab_series_skip(i + 1, used, count)) {
    ab_series_key key;
    if (ab_series_key_of(parts->series, count, i, 0, &key) && key.kind == AB_SERIES_REQUEST)
      ab_cells_join(cells, &parts->series[i].cells);
  }
}

ab_history_totals ab_page_totals(const ab_page_parts *parts) {
  const ab_page_app *app = &parts->slot->app;
  const ab_page_process *process = &parts->slot->process;
  ab_figures figures = ab_figures_load(&parts->slot->figures);
  ab_figures_put_back(&figures);
  ab_history_totals totals = {
      .requests = AB_GET(app->ended),
      .failed = AB_GET(app->failed),
      .cpu = AB_GET(process->cpu),
      .run = AB_GET(app->sums[AB_STATE_RUN]),
      .db = AB_GET(app->sums[AB_STATE_DB]),
      .pool = AB_GET(app->sums[AB_STATE_POOL]),
      .http = AB_GET(app->sums[AB_STATE_HTTP]),
      .stalls = AB_GET(app->stall_time),
      .gc = AB_GET(process->gc_time),
      .in_app = figures.in_app,
      .waiting = figures.waiting,
      .connections = figures.connections,
      .rss = AB_GET(process->rss),
  };
  for (unsigned i = 0; i < AB_REJECT_COUNT; i++) {
    totals.requests += figures.rejected[i];
    totals.failed += figures.rejected[i];
  }
  return totals;
}
