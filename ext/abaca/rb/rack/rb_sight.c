#include "rb/rack/rb_sight.h"

#include "rb/rack/rb_line.h"
#include "rb/rack/rb_process.h"

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
  sight->plain = parts->series_count >= AB_SERIES_KIND_COUNT && sight->ignored_count == 0 &&
                 NIL_P(rack->access_log);
  sight->quick = sight->slow_after && sight->slow_after < AB_COLLECTED_MIN ? sight->slow_after
                                                                           : AB_COLLECTED_MIN;
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
    call->row = NULL;
    ab_sight_give_row(sight, call);
  }
  ab_list_each (node, next, &rack->spare_calls) {
    ab_sight_give_row(sight, AB_CONTAINER_OF(node, ab_call, link));
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

/* --- what is noted beside requests --- */

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

void ab_sight_runs(ab_call *call, ab_nsec now) {
  if (knows_when_it_runs(call)) ab_collected_begin(&call->runner->collected);
  ab_line_shows(call->runner, AB_LOOP_STATE_BUSY, call->row, now);
}

void ab_sight_turn(ab_call *call, enum ab_state state, const ab_addr *peer, ab_nsec now) {
  ab_row *row = call->row;
  ab_nsec ran = ab_row_state(row) == AB_STATE_RUN && now > row->since ? now - row->since : 0;
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
  enum ab_state state = ab_row_state(call->row);
  call->wait_state = before;
  turn(call, NULL);
  ab_sight_waited(call->rack->sight, state, call->row->since - since);
}
