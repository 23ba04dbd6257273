#include "rb/rack/rb_sight.h"

#include "http/char.h"
#include "http/request_start.h"
#include "http/traceparent.h"
#include "page/row_taken.h"
#include "rb/rack/rb_line.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_timing.h"

/* --- the server's --- */

int ab_sight_open(ab_rack *rack, const ab_page_parts *parts, const ab_sight *options) {
  ab_sight *sight = ab_alloc_zero(&ab_mem_libc, sizeof(*sight));
  if (!sight) return AB_ENOMEM;
  ab_page_app *app = &parts->slot->app;
  *sight = *options;
  sight->parts = *parts;
  if (ab_rows_init(&sight->rows, &ab_mem_libc, parts->rows, parts->row_count, &app->mark,
                   &app->missed) != AB_OK) {
    ab_free(&ab_mem_libc, sight);
    return AB_ENOMEM;
  }
  ab_page_routes_over(&sight->routes, parts->routes, parts->route_count, sight->routes.most,
                      &app->routes, &app->routes_dropped);
  ab_series_table_over(&sight->series, parts->series, parts->series_count, &app->series,
                       &app->series_dropped);
  ab_page_clients_over(&sight->clients, parts->clients, parts->client_count);
  ab_page_queue *queue = &parts->slot->queue;
  if (ab_rows_init(&sight->queued, &ab_mem_libc, parts->queued, parts->queued_count, &queue->mark,
                   &queue->missed) == AB_OK)
    ab_engine_show_queue(rack->engine, &sight->queued);
  sight->opens = ab_alloc_zero(&ab_mem_libc, sizeof(*sight->opens));
  ab_engine_show_opens(rack->engine, sight->opens);
  rack->sight = sight;
  return AB_OK;
}

void ab_sight_close(ab_rack *rack) {
  ab_sight *sight = rack->sight;
  if (!sight) return;
  ab_engine_show_queue(rack->engine, NULL);
  ab_engine_show_opens(rack->engine, NULL);
  ab_list_each (node, next, &rack->calls) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    if (call->work) call->work->row = NULL;
    if (call->row) ab_rows_give(&sight->rows, call->row);
    call->row = NULL;
  }
  ab_sight_forget(rack);
}

void ab_sight_forget(ab_rack *rack) {
  ab_sight *sight = rack->sight;
  if (!sight) return;
  rack->sight = NULL;
  ab_rows_fini(&sight->rows);
  ab_rows_fini(&sight->queued);
  ab_free(&ab_mem_libc, sight->opens);
  ab_free(&ab_mem_libc, sight);
}

void ab_sight_mark(const ab_rack *rack) {
  for (size_t i = 0; rack->sight && i < AB_SIGHT_KEYS; i++) rb_gc_mark(rack->sight->keys[i]);
}

/* --- the beginning --- */

static const uint8_t modes[] = {[AB_MODE_FIBER] = AB_ROW_FIBER, [AB_MODE_THREAD] = AB_ROW_THREAD};

static ab_view text_of(const ab_call *call, enum ab_env_string key) {
  VALUE text = rb_hash_lookup(call->env, call->rack->env.strings[key]);
  if (!RB_TYPE_P(text, T_STRING)) return (ab_view){"", 0};
  return (ab_view){RSTRING_PTR(text), (size_t)RSTRING_LEN(text)};
}

/* What is in the env stays there: nothing of the app has had it. */
static void name_it(ab_row_start *start, const ab_call *call, const ab_request *request) {
  ab_view method = request ? request->method : text_of(call, AB_ENV_REQUEST_METHOD);
  start->path = request ? request->path : text_of(call, AB_ENV_PATH_INFO);
  start->method = ab_row_method_of(method.ptr, method.len);
}

/* The first line of a field; empty: it is not there. */
static ab_view field_of(const ab_call *call, const ab_request *request, enum ab_field_id id,
                        enum ab_env_string key) {
  if (!request) return text_of(call, key);
  if (!(request->known & 1u << id)) return (ab_view){"", 0};
  const ab_field *field = request->fields;
  while (field->id != id) field++;
  return (ab_view){field->value, field->value_len};
}

/* What a proxy says of when it got the request. Of several the first has got it first. */
static ab_view request_start(const ab_call *call, const ab_request *request) {
  return field_of(call, request, AB_FIELD_REQUEST_START, AB_ENV_REQUEST_START);
}

/* Whoever has sent it may say to which trace it belongs. */
static void trace_it(ab_row *row, const ab_call *call, const ab_request *request) {
  ab_traceparent parent;
  ab_view value = field_of(call, request, AB_FIELD_TRACEPARENT, AB_ENV_TRACEPARENT);
  if (value.len == 0 || !ab_traceparent_parse(value, &parent)) return;
  ab_trace trace = {.sampled = parent.sampled};
  memcpy(trace.trace, parent.trace, sizeof(trace.trace));
  memcpy(trace.span, parent.span, sizeof(trace.span));
  ab_row_set_trace(row, &trace);
}

/* When a proxy got it; 0: unknown, or it came at once. */
static ab_nsec begun_before(ab_view start, ab_nsec first, ab_nsec now) {
  if (start.len == 0) return 0;
  ab_nsec age = ab_request_start_age(start.ptr, start.len, ab_clock_unix_nsec());
  return age < now && now - age < first ? now - age : 0;
}

/* The first bytes may have come before the last ones. */
static void begin_early(ab_row *row, ab_row_start *start, const ab_call *call, ab_view said,
                        ab_nsec now) {
  ab_nsec head = call->began - ab_exchange_buffered_for(call->exchange);
  ab_nsec first = head - ab_exchange_head_for(call->exchange);
  ab_nsec before = begun_before(said, first, now);
  start->began = before ? before : first;
  start->state = AB_STATE_PROXY;
  ab_row_begin(row, start);
  ab_row_turn(row, AB_STATE_HEAD, first);
  ab_row_turn(row, AB_STATE_BODY, head);
  ab_row_turn(row, AB_STATE_QUEUE, call->began);
  AB_ROW_SET(row, taken, now);
  ab_row_turn(row, AB_STATE_RUN, now);
}

static bool came_at_once(const ab_exchange *exchange) {
  return !ab_exchange_buffered_for(exchange) && !ab_exchange_head_for(exchange);
}

static void forget_stalls(ab_row *row) {
  AB_ROW_SET(row, stalls, 0);
  AB_ROW_SET(row, stall_time, 0);
}

/* The sums of a row that another process has had may be of any states. */
static ab_row *take_row(ab_rows *rows) {
  uint32_t fresh = rows->fresh;
  ab_row *row = ab_rows_take(rows);
  if (AB_UNLIKELY(rows->fresh != fresh)) {
    ab_words_clear(row->sums, sizeof(row->sums));
    forget_stalls(row);
  }
  return row;
}

static inline ab_row_start start_of(const ab_call *call) {
  const ab_runner *runner = call->runner;
  return (ab_row_start){
      .id = call->id,
      .began = call->began,
      .state = AB_STATE_QUEUE,
      .mode = call->rack->guest ? AB_ROW_GUEST : (enum ab_row_mode)modes[runner->executor->mode],
      .place = runner->place,
      .peer = ab_exchange_peer(call->exchange),
  };
}

/* Its client, as the env has it: behind a proxy that is trusted, another one than the peer. */
static ab_addr client_of(const ab_call *call, const ab_request *request) {
  const ab_env_builder *env = &call->rack->env;
  ab_addr client = *ab_exchange_peer(call->exchange);
  if (!env->forwards) return client;
  if (request) return ab_forwarded_resolve(&env->forwarding, &client, request).client;
  ab_view text = text_of(call, AB_ENV_REMOTE_ADDR);
  uint16_t port = client.port;
  if (ab_addr_parse(text.ptr, text.len, &client)) client.port = port;
  return client;
}

static AB_NOINLINE void begin_any(ab_row *row, const ab_call *call, const ab_request *request,
                                  ab_nsec now) {
  ab_row_start start = start_of(call);
  const ab_addr client = client_of(call, request);
  start.peer = &client;
  name_it(&start, call, request);
  begin_early(row, &start, call, request_start(call, request), now);
  trace_it(row, call, request);
}

/* Fields by which somebody says more of a request. */
#define TOLD (1u << AB_FIELD_REQUEST_START | 1u << AB_FIELD_TRACEPARENT)

/* Most are a GET that has come at once, and of which no proxy says when it got it. */
static inline bool is_plain(const ab_call *call, const ab_request *request) {
  return request && ab_view_is(request->method, "GET", 3) && !(request->known & TOLD) &&
         came_at_once(call->exchange) && !call->rack->env.forwards;
}

void ab_sight_begin(ab_call *call, const ab_request *request, ab_nsec now) {
  ab_row *row = take_row(&call->rack->sight->rows);
  call->said = call->wait_state = AB_STATE_COUNT;
  if (AB_UNLIKELY(!row)) return;
  call->row = row;
  if (AB_UNLIKELY(!is_plain(call, request))) {
    begin_any(row, call, request, now);
    return;
  }
  ab_row_start start = start_of(call);
  start.method = AB_ROW_METHOD_GET;
  start.path = request->path;
  ab_row_begin_taken(row, &start, now);
}

/* --- the end --- */

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
  if (AB_UNLIKELY(row->stalls)) forget_stalls(row);
  call->row = NULL;
  ab_rows_give(&sight->rows, row);
}

void ab_sight_waited(ab_sight *sight, enum ab_state state, ab_nsec time) {
  static const uint8_t kinds[AB_STATE_COUNT] = {
      [AB_STATE_PROXY] = AB_SERIES_PROXY, [AB_STATE_QUEUE] = AB_SERIES_QUEUE,
      [AB_STATE_DB] = AB_SERIES_DB,       [AB_STATE_CACHE] = AB_SERIES_CACHE,
      [AB_STATE_HTTP] = AB_SERIES_HTTP,   [AB_STATE_IO] = AB_SERIES_IO,
      [AB_STATE_POOL] = AB_SERIES_POOL,   [AB_STATE_LOCK] = AB_SERIES_LOCK,
      [AB_STATE_DNS] = AB_SERIES_DNS,
  };
  if (kinds[state] == AB_SERIES_REQUEST) return; /* no times of it are counted */
  if (sight->parts.series_count < AB_SERIES_KIND_COUNT) return;
  ab_series_key key = {.kind = kinds[state], .route = AB_SERIES_NO_ROUTE};
  ab_series_add(ab_series_find(&sight->series, key), time);
}

static void count_time(ab_sight *sight, enum ab_series_kind kind, ab_nsec time) {
  if (sight->parts.series_count < AB_SERIES_KIND_COUNT) return;
  ab_series_key key = {.kind = (uint8_t)kind, .route = AB_SERIES_NO_ROUTE};
  ab_series_add(ab_series_find(&sight->series, key), time);
}

void ab_sight_had_gvl(ab_sight *sight, ab_nsec time) {
  count_time(sight, AB_SERIES_GVL_THREAD, time);
}

void ab_sight_stalled(ab_sight *sight, ab_nsec time) {
  ab_page_app *app = &sight->parts.slot->app;
  AB_ADD(app->stalls, 1);
  AB_ADD(app->stall_time, time);
  count_time(sight, AB_SERIES_STALL, time);
}

void ab_sight_note(const ab_rack *rack, enum ab_page_event_kind kind, uint64_t id, ab_nsec time,
                   const char *text) {
  if (!rack->sight) return;
  const ab_page_parts *parts = &rack->sight->parts;
  const ab_page_event facts = {.kind = (uint8_t)kind,
                               .when = ab_clock_monotonic(),
                               .id = id,
                               .time = time,
                               .pid = (uint32_t)rack->owner};
  ab_page_event_write(parts->events, parts->event_count, &parts->slot->events, &facts,
                      (ab_view){text, strlen(text)});
}

/* --- where no loop knows it --- */

/* A thread runs while others may collect garbage, unless Ruby tells when it has the GVL (3.2). */
static bool knows_when_it_runs(const ab_call *call) {
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  (void)call;
  return true;
#else
  return call->runner->executor->mode != AB_MODE_THREAD;
#endif
}

void ab_sight_turn(ab_call *call, enum ab_state state, const ab_addr *peer, ab_nsec now) {
  ab_row *row = call->row;
  ab_nsec ran = row->state == AB_STATE_RUN && now > row->since ? now - row->since : 0;
  if (peer && peer->family) {
    ab_row_wait(row, state, peer, now);
  } else {
    ab_row_turn(row, state, now);
  }
  ab_line_shows_call(call, state, now);
  if (!knows_when_it_runs(call)) return;
  ab_nsec collected = ab_collected_end(&call->runner->collected, ran);
  if (collected > 0) ab_row_shift(row, AB_STATE_RUN, AB_STATE_GC, collected);
  if (state == AB_STATE_RUN) ab_collected_begin(&call->runner->collected);
}

static void turn(ab_call *call, const ab_addr *peer) {
  unsigned state = call->wait_state != AB_STATE_COUNT ? call->wait_state : AB_STATE_RUN;
  if (call->said != AB_STATE_COUNT) state = call->said;
  ab_sight_turn(call, (enum ab_state)state, peer, ab_clock_monotonic());
}

void ab_sight_say(ab_call *call, uint8_t said) {
  call->said = said;
  if (call->row) turn(call, NULL);
}

uint8_t ab_sight_wait(ab_call *call, enum ab_state state, const ab_addr *peer) {
  uint8_t before = call->wait_state;
  if (!call->row || before != AB_STATE_COUNT) return before;
  call->wait_state = (uint8_t)state;
  turn(call, peer);
  return before;
}

void ab_sight_go_on(ab_call *call, uint8_t before) {
  if (!call->row || before != AB_STATE_COUNT) return;
  ab_nsec since = call->row->since;
  unsigned state = call->row->state;
  call->wait_state = before;
  turn(call, NULL);
  ab_sight_waited(call->rack->sight, (enum ab_state)state, call->row->since - since);
}
