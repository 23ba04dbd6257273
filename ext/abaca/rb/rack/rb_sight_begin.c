/* A request gets its row: what is known of it when it begins. */
#include "http/char.h"
#include "http/request_start.h"
#include "http/traceparent.h"
#include "page/row_taken.h"
#include "rb/rack/rb_sight.h"

static ab_view text_of(const ab_call *call, enum ab_env_string key) {
  return ab_env_text(&call->rack->env, call->env, key);
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

/* A new call has none, unless others have given theirs back. */
static AB_NOINLINE ab_row *find_row(ab_sight *sight, ab_call *call) {
  return call->own_row = ab_rows_take(&sight->rows);
}

void ab_sight_give_row(ab_sight *sight, ab_call *call) {
  if (call->own_row) ab_rows_give(&sight->rows, call->own_row);
  call->own_row = NULL;
}

static inline ab_row_start start_of(const ab_call *call) {
  const ab_runner *runner = call->runner;
  return (ab_row_start){
      .id = call->id,
      .began = call->began,
      .state = AB_STATE_QUEUE,
      .mode = (enum ab_row_mode)runner->shown_mode,
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

static inline bool takes_plain(const ab_rack *rack, const ab_exchange *exchange,
                               const ab_request *request) {
  return ab_view_is(request->method, "GET", 3) && !(request->known & TOLD) && !rack->env.forwards &&
         ab_exchange_came_at_once(exchange);
}

bool ab_sight_takes_plain(const ab_rack *rack, const ab_exchange *exchange,
                          const ab_request *request) {
  return takes_plain(rack, exchange, request);
}

/* The path of a plain request; of others its ptr is NULL. */
static inline ab_view plain_path(const ab_call *call, const ab_taken *taken) {
  const ab_request *request = call->head.request;
  if (AB_LIKELY(request != NULL)) {
    bool plain = takes_plain(call->rack, call->exchange, request);
    return AB_LIKELY(plain) ? request->path : (ab_view){NULL, 0};
  }
  if (!RTEST(taken->path)) return (ab_view){NULL, 0};
  return (ab_view){RSTRING_PTR(taken->path), (size_t)RSTRING_LEN(taken->path)};
}

void ab_sight_begin(ab_call *call, const ab_taken *taken, ab_nsec now) {
  ab_row *row = call->own_row;
  call->said = call->wait_state = AB_STATE_COUNT;
  if (AB_UNLIKELY(!row) && !(row = find_row(call->rack->sight, call))) return;
  call->row = row;
  ab_view path = plain_path(call, taken);
  if (AB_UNLIKELY(!path.ptr)) {
    begin_any(row, call, call->head.request, now);
    return;
  }
  ab_row_start start = start_of(call);
  start.method = AB_ROW_METHOD_GET;
  start.path = path;
  ab_row_begin_taken(row, &start, now);
}
