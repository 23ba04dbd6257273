/* A request ends: it is counted, perhaps kept, and its row is free. */
#include "page/ended.h"
#include "page/row_taken.h"
#include "rb/rack/rb_line.h"
#include "rb/rack/rb_timing.h"
#include "rb/scheduler/rb_work.h"

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
static inline uint32_t end_route_of(const ab_call *call, ab_sight *sight) {
  if (NIL_P(call->env) || AB_LIKELY(RHASH_SIZE(call->env) <= call->env_size))
    return AB_ROW_NO_ROUTE;
  return find_route(call, sight);
}

void ab_sight_show_routes(const ab_rack *rack) {
  const ab_list *calls = &rack->calls;
  for (const ab_list *node = calls->next; rack->sight && node != calls; node = node->next) {
    const ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (!call->row || AB_GET(call->row->route) != AB_ROW_NO_ROUTE) continue;
    uint32_t route = end_route_of(call, rack->sight);
    if (route != AB_ROW_NO_ROUTE) AB_ROW_SET(call->row, route, route);
  }
}

static ab_series *series_of(ab_sight *sight, ab_series_key key) {
  if (AB_LIKELY(memcmp(&key, &sight->last_key, sizeof(key)) == 0 && sight->last_series))
    return sight->last_series;
  sight->last_key = key;
  return sight->last_series = ab_series_find(&sight->series, key);
}

static inline bool counts_times(const ab_sight *sight) {
  return sight->parts.series_count >= AB_SERIES_KIND_COUNT;
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
  return ab_path_rule_find(sight->ignored, sight->ignored_count, ab_row_path(row)) != NULL;
}

static void count_times(ab_sight *sight, const ab_row *row, uint32_t route) {
  ab_series_key key = {.kind = AB_SERIES_REQUEST,
                       .method = (uint8_t)ab_row_method(row),
                       .status = row->status,
                       .route = route};
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

static void count(ab_call *call, uint64_t bytes) {
  ab_sight *sight = call->rack->sight;
  ab_row *row = call->row;
  uint32_t route = end_route_of(call, sight);
  bool failed = is_error(call), slow = ab_sight_is_slow(call, row->since);
  call->counted = true;
  if (AB_UNLIKELY(route != AB_ROW_NO_ROUTE)) AB_ROW_SET(row, route, route);
  ab_page_count_ended(&sight->parts, row, route, failed);
  if (counts_times(sight) && !is_ignored(sight, row)) count_times(sight, row, route);
  const ab_page_client_request client = {
      .bytes = bytes, .slow = slow, .error = call->status >= 400};
  ab_page_clients_count(&sight->clients, &row->peer, &client);
  unsigned reasons = reasons_to_keep(sight, slow, ab_sight_has_failed(call));
  if (AB_UNLIKELY(reasons)) keep(call, sight, reasons);
}

void ab_sight_end(ab_call *call) {
  if (!call->counted) count(call, call->body_sent);
  ab_row_end(call->row);
  call->row = NULL;
}

/* --- the response --- */

/* Both are Arrays, once the application is called. */
static inline bool has_callbacks(const ab_call *call) {
  return RARRAY_LEN(call->finished) > 0 || RARRAY_LEN(call->replied) > 0;
}

static ab_series *plain_series(ab_sight *sight, int status) {
  ab_series_key key = {.kind = AB_SERIES_REQUEST,
                       .method = AB_ROW_METHOD_GET,
                       .status = (uint16_t)status,
                       .route = AB_ROW_NO_ROUTE};
  sight->plain_status = status;
  return sight->plain_series = ab_series_find(&sight->series, key);
}

/* Its row is what it was when it began, and it has ended by itself. */
static inline bool is_plain(const ab_call *call) {
  const ab_sight *sight = call->rack->sight;
  return sight->plain && ab_row_is_plain(call->row) && sight->sampled < SAMPLE - 1 &&
         (unsigned)call->status - 200 < 200 && call->complete && NIL_P(call->error) &&
         !call->measure.route.serial && RHASH_SIZE(call->env) <= call->env_size &&
         !has_callbacks(call);
}

/* What ab_sight_end comes to for a plain request. For one without a route `app->seq` is not opened:
 * each of the numbers is a counter for itself. The row is left as it is, so that the next request
 * finds it plain. */
static inline void end_plain(ab_call *call, uint64_t bytes, ab_nsec now) {
  ab_sight *sight = call->rack->sight;
  ab_row *row = call->row;
  ab_page_app *app = &sight->parts.slot->app;
  int status = call->status;
  ab_series *series = sight->plain_series;
  if (AB_UNLIKELY(status != sight->plain_status)) series = plain_series(sight, status);
  sight->sampled++;
  AB_ADD(app->ended, 1);
  AB_ADD(app->sums[AB_STATE_QUEUE], row->sums[AB_STATE_QUEUE]);
  AB_ADD(app->sums[AB_STATE_RUN], now - row->since);
  ab_series_add(series, now - row->began);
  ab_page_clients_count_plain(&sight->clients, &row->peer, bytes);
  if (AB_LIKELY(call->work != NULL)) {
    ab_loop_end_plain_work(call->runner->loop, call->work);
    call->work = NULL;
  } else {
    ab_line_shows(call->runner, AB_LOOP_STATE_IDLE, NULL, now);
  }
  ab_row_end(row);
  call->row = NULL;
  call->quiet = true;
}

/* Is there code to run for it yet? */
static bool goes_on(const ab_call *call) {
  return !NIL_P(call->rack->access_log) || !NIL_P(call->rewindable) || call->measure.route.serial;
}

/* If its client has gone, it has not been answered. */
static AB_NOINLINE void reply_any(ab_call *call, uint64_t bytes, ab_nsec now) {
  const ab_call_hooks *hooks = call->rack->hooks;
  if (call->counted || NIL_P(call->replied) || has_callbacks(call) || ab_call_gone(call)) return;
  AB_ROW_SET(call->row, status, (uint16_t)call->status);
  AB_ROW_SET(call->row, phase, AB_ROW_ANSWERED);
  if (goes_on(call)) {
    hooks->settle(call, now);
    count(call, bytes);
    return;
  }
  call->runner->moment = now;
  hooks->ends(call, now);
  count(call, bytes);
  ab_sight_end(call);
}

void ab_sight_replies(ab_call *call, uint64_t bytes) {
  ab_nsec now = ab_clock_monotonic();
  const ab_row *row = call->row;
  /* Before its first instant: more than any time is quick. */
  if (AB_LIKELY(is_plain(call)) && AB_LIKELY(now - row->began < call->rack->sight->quick)) {
    call->runner->moment = now;
    end_plain(call, bytes, now);
  } else {
    reply_any(call, bytes, now);
  }
}

void ab_sight_unsent(const ab_call *call) {
  bool counted = call->counted || call->quiet; /* end_plain */
  if (!counted || is_error(call)) return;
  const ab_page_parts *parts = &call->rack->sight->parts;
  uint32_t route = AB_GET(call->own_row->route);
  AB_ADD(parts->slot->app.failed, 1);
  if (route < parts->route_count) AB_ADD(parts->routes[route].errors, 1);
}
