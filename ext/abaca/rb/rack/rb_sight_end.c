/* A request has ended: it is counted, perhaps kept, and its row is free. */
#include "rb/rack/rb_sight.h"
#include "rb/rack/rb_timing.h"

/* What frameworks leave in the env: the pattern of the route that was called, as a text. */
static VALUE route_text(const ab_call *call, const ab_sight *sight) {
  for (size_t i = 0; i < AB_SIGHT_KEYS; i++) {
    VALUE value = rb_hash_lookup(call->env, sight->keys[i]);
    if (RB_TYPE_P(value, T_STRING) && RSTRING_LEN(value) > 0) return value;
  }
  return Qnil;
}

static AB_NOINLINE uint32_t find_route(const ab_call *call, ab_sight *sight) {
  VALUE text = route_text(call, sight);
  if (NIL_P(text)) return AB_ROW_NO_ROUTE;
  ab_view name = {RSTRING_PTR(text), (size_t)RSTRING_LEN(text)};
  return ab_page_routes_find(&sight->routes, RSTRING_PTR(text), name);
}

/* An env that has not grown since the app was called has none. */
static inline uint32_t route_of(const ab_call *call, ab_sight *sight) {
  if (NIL_P(call->env) || AB_LIKELY(RHASH_SIZE(call->env) <= call->env_size))
    return AB_ROW_NO_ROUTE;
  return find_route(call, sight);
}

static ab_series *series_of(ab_sight *sight, ab_series_key key) {
  if (AB_LIKELY(memcmp(&key, &sight->last_key, sizeof(key)) == 0 && sight->last_series))
    return sight->last_series;
  sight->last_key = key;
  return sight->last_series = ab_series_find(&sight->series, key);
}

/* One in a hundred is kept, whatever it did. */
#define SAMPLE 100

static unsigned reasons_to_keep(ab_sight *sight, bool slow, bool failed) {
  bool sampled = ++sight->sampled == SAMPLE;
  if (AB_UNLIKELY(sampled)) sight->sampled = 0;
  return (slow ? AB_KEPT_SLOW : 0u) | (failed ? AB_KEPT_FAILED : 0u) |
         (sampled ? AB_KEPT_SAMPLED : 0u);
}

static AB_NOINLINE void note_exemplar(ab_sight *sight, const ab_row *row, const ab_series *series) {
  size_t number = (size_t)(series - sight->parts.series);
  if (number >= sight->parts.exemplar_count) return;
  ab_exemplars_note(&sight->parts.exemplars[number], row);
  AB_ADD(sight->parts.slot->app.exemplars, 1);
}

/* Health checks, say, which are quicker than what they stand for. */
static inline bool is_ignored(const ab_sight *sight, const ab_row *row) {
  if (AB_LIKELY(sight->ignored_count == 0)) return false;
  ab_view path = {row->path, row->path_len};
  return ab_path_rule_find(sight->ignored, sight->ignored_count, path) != NULL;
}

static void count_times(ab_sight *sight, const ab_row *row, uint32_t route) {
  ab_series_key key = {
      .kind = AB_SERIES_REQUEST, .method = row->method, .status = row->status, .route = route};
  ab_nsec time = row->since - row->began;
  ab_series *series = series_of(sight, key);
  ab_series_add(series, time);
  if (AB_UNLIKELY(ab_row_is_traced(row))) note_exemplar(sight, row, series);
  if (AB_UNLIKELY(row->sums[AB_STATE_QUEUE] >= AB_NSEC_PER_MS))
    ab_sight_waited(sight, AB_STATE_QUEUE, row->sums[AB_STATE_QUEUE]);
  if (AB_UNLIKELY(row->sums[AB_STATE_PROXY]))
    ab_sight_waited(sight, AB_STATE_PROXY, row->sums[AB_STATE_PROXY]);
}

bool ab_sight_is_slow(const ab_call *call, ab_nsec now) {
  ab_nsec most = call->rack->sight->slow_after;
  return most && now - call->row->began >= most;
}

static bool is_error(const ab_call *call) {
  return call->status >= 500 || (call->status == 0 && !call->hijacked);
}

bool ab_sight_has_failed(const ab_call *call) {
  return is_error(call) || ab_timing_end(call) != AB_ROW_END_DONE;
}

static AB_NOINLINE void keep(ab_call *call, ab_sight *sight, unsigned reasons) {
  AB_ROW_SET(call->row, end, (uint8_t)ab_timing_end(call));
  ab_kept_add(sight->parts.kept, sight->parts.kept_count, &sight->parts.slot->app.kept, call->row,
              reasons);
}

void ab_sight_end(ab_call *call) {
  ab_sight *sight = call->rack->sight;
  ab_row *row = call->row;
  ab_page_app *app = &sight->parts.slot->app;
  uint32_t route = route_of(call, sight);
  bool failed = is_error(call), slow = ab_sight_is_slow(call, row->since);
  ab_seq_open(&app->seq);
  AB_ADD(app->ended, 1);
  if (AB_UNLIKELY(failed)) AB_ADD(app->failed, 1);
  ab_row_add_sums(app->sums, row);
  if (AB_UNLIKELY(route != AB_ROW_NO_ROUTE)) {
    AB_ROW_SET(row, route, route);
    if (route < sight->parts.route_count)
      ab_page_route_add(&sight->parts.routes[route], row, failed);
  }
  ab_seq_close(&app->seq);
  if (sight->parts.series_count >= AB_SERIES_KIND_COUNT && !is_ignored(sight, row))
    count_times(sight, row, route);
  const ab_page_client_request client = {
      .bytes = call->body_sent, .slow = slow, .error = call->status >= 400};
  ab_page_clients_count(&sight->clients, &row->peer, &client);
  unsigned reasons = reasons_to_keep(sight, slow, ab_sight_has_failed(call));
  if (AB_UNLIKELY(reasons)) keep(call, sight, reasons);
  if (AB_UNLIKELY(row->stalls)) ab_row_forget_stalls(row);
  call->row = NULL;
  ab_rows_give(&sight->rows, row);
}
