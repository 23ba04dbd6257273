/* A request gets its row: what is known of it when it begins. */
#include "http/char.h"
#include "http/request_start.h"
#include "http/traceparent.h"
#include "page/row_taken.h"
#include "rb/rack/rb_sight.h"

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

/* The sums of a row that another process has had may be of any states. */
static ab_row *take_row(ab_rows *rows) {
  uint32_t fresh = rows->fresh;
  ab_row *row = ab_rows_take(rows);
  if (AB_UNLIKELY(rows->fresh != fresh)) {
    ab_words_clear(row->sums, sizeof(row->sums));
    ab_row_forget_stalls(row);
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
