/* Another process has written anything into the page. No reader leaves its bounds or goes on for
 * ever, and no writer writes outside of its record. */
#include <unistd.h>

#include "check.h"
#include "page/crowd.h"
#include "page/ended.h"
#include "page/look.h"
#include "page/opens.h"
#include "page/row_json.h"
#include "page/row_taken.h"
#include "page/rows.h"
#include "page/sums.h"
#include "page/tally.h"
#include "random.h"

#define NOW (1000 * AB_NSEC_PER_SEC)

static const ab_page_options options = {.slots = 2, .rows = 6, .queued = 3};
static uint64_t state;

/* --- garbage --- */

enum way { ZEROS, ONES, ANY, LIKELY, WAYS };

/* LIKELY: many a number is small, many a flag is set, and many a sequence number is even. */
static unsigned char byte_of(enum way way) {
  uint64_t any = random_next(&state);
  if (way == ZEROS || way == ONES) return way == ZEROS ? 0 : 0xff;
  return (unsigned char)(way == LIKELY && any % 3 ? any >> 8 & 2 : any >> 8);
}

static void spoil(void *ptr, size_t size, enum way way) {
  unsigned char *bytes = ptr;
  for (size_t i = 0; i < size; i++) bytes[i] = byte_of(way);
}

static ab_page *new_page(void) {
  ab_page *page = ab_page_create(&ab_mem_libc, &options, (ab_page_time){NOW, NOW});
  CHECK(page != NULL);
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, (ab_page_time){NOW, NOW}));
  CHECK_INT(AB_OK, ab_page_claim(page, 1, 0, (ab_page_time){NOW, NOW}));
  return page;
}

/* All of it, the head included. */
static void spoil_page(const ab_page *page, size_t size, enum way way) {
  char *start = (char *)ab_page_slot_of(page, 0) - AB_PAGE_HEAD_SIZE;
  spoil(start, size, way);
}

/* Runs fn over a page with each kind of garbage, several times. */
static void with_garbage(void (*fn)(ab_page *page, enum way way)) {
  for (unsigned i = 0; i < 3 * WAYS; i++) {
    ab_page *page = new_page();
    size_t size = ab_page_head_of(page)->size;
    state = i + 1;
    spoil_page(page, size, i % WAYS);
    fn(page, i % WAYS);
    ab_page_drop(page);
  }
}

/* --- readers --- */

static void read_rows(const ab_page *page, const ab_page_parts *parts) {
  static char text[AB_ROW_JSON_MAX + 1];
  ab_row_found found[16];
  size_t most = ab_row_found_most(parts);
  CHECK(most <= options.rows + options.queued);
  size_t count = ab_row_find(found, most, parts, 1);
  CHECK(count <= most);
  ab_row_sort(found, count);
  for (size_t i = 0; i < count; i++) {
    ab_row row;
    char name[AB_PAGE_ROUTE_NAME];
    ab_wait waits[AB_ROW_WAITS];
    if (!ab_row_load(found[i].row, &row)) continue;
    ab_row_beside beside = {.now = NOW, .slot = 1, .worker = 1, .waits = true};
    beside.route = ab_page_route_of(parts, row.route, name);
    CHECK(ab_row_json(text, &row, &beside) - text <= AB_ROW_JSON_MAX);
    CHECK(ab_row_json_short(text, &row, &beside) - text <= AB_ROW_JSON_MAX);
    CHECK(ab_row_waits(&row, waits) <= AB_ROW_WAITS);
  }
  ab_page_states states = ab_page_states_of(parts);
  ab_page_methods methods = {{0}};
  ab_page_count_methods(parts, &methods);
  uint32_t sum = 0;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) sum += states.now[i];
  CHECK(sum <= options.rows + options.queued);
  (void)page;
}

static void read_rings(const ab_page_parts *parts) {
  ab_page_event event;
  ab_row row;
  uint64_t events = AB_GET(parts->slot->events), kept = ab_kept_next(&parts->slot->app.kept);
  for (uint64_t i = 0; i < parts->event_count; i++) {
    if (!ab_page_event_load(parts->events, parts->event_count, events - 1 - i, &event)) continue;
    CHECK(event.text_len <= AB_PAGE_EVENT_TEXT);
    CHECK(ab_page_event_kind_name(event.kind) != NULL);
  }
  for (uint64_t i = 0; i < parts->kept_count; i++) {
    if (!ab_kept_load(parts->kept, parts->kept_count, kept - 1 - i, &row)) continue;
    CHECK(ab_row_end_name(row.end) != NULL);
  }
  ab_history_record record;
  for (uint32_t tick = 0; tick < parts->second_count; tick++)
    if (ab_history_load(parts->seconds, parts->second_count, tick, &record))
      CHECK_INT(tick, record.tick);
}

static void read_others(const ab_page_parts *parts) {
  for (uint32_t i = 0; i < parts->loop_count; i++) {
    ab_loop_line line;
    if (!ab_loop_line_load(&parts->loops[i], &line)) continue;
    CHECK(line.state < AB_LOOP_STATE_COUNT && line.kind < AB_LOOP_KINDS);
  }
  for (uint32_t i = 0; i < parts->client_count; i++) {
    ab_page_client client;
    char text[AB_ADDR_TEXT_MAX];
    if (ab_page_client_load(&parts->clients[i], &client)) ab_addr_text(&client.addr, text);
  }
  uint32_t pools = ab_page_pools_used(&parts->slot->app.pools, parts->pool_count);
  CHECK(pools <= parts->pool_count);
  for (uint32_t i = 0; i < pools; i++) {
    char name[AB_PAGE_POOL_NAME];
    CHECK(ab_page_pool_name(&parts->pools[i], name) <= AB_PAGE_POOL_NAME);
  }
}

static void read_times(const ab_page *page, const ab_page_parts *parts) {
  ab_sums sums;
  ab_cells cells = {.sum = 0};
  ab_sums_init(&sums, &ab_mem_libc);
  CHECK_INT(AB_OK, ab_sums_add(&sums, parts));
  CHECK(sums.count <= parts->series_count);
  ab_sums_fini(&sums);
  ab_page_requests(parts, &cells);
  ab_cells_rank(&cells, 990);
  ab_cells_view_of(&cells);
  ab_page_totals(parts);
  ab_page_sums(page);
  ab_crowd crowd;
  ab_page_crowd(parts, NOW, &crowd);
  CHECK(crowd.wait_count <= AB_ARRAY_LEN(crowd.waits));
}

static void read_all(ab_page *page, enum way way AB_UNUSED) {
  CHECK_INT(2, ab_page_size(page));
  for (uint32_t i = 0; i < 2; i++) {
    ab_page_parts parts = ab_page_parts_to_read(page, i);
    CHECK(ab_page_look(parts.slot).state < AB_PAGE_STATES);
    ab_page_glance_at(parts.slot);
    read_rows(page, &parts);
    read_rings(&parts);
    read_others(&parts);
    read_times(page, &parts);
  }
}

CHECK_CASE(every_reader_keeps_its_bounds) {
  with_garbage(read_all);
}

/* What it has told apart once stays: memory has a bound, whatever comes. */
CHECK_CASE(a_tally_of_garbage) {
  ab_tally tally;
  ab_page *page = new_page();
  size_t size = ab_page_head_of(page)->size;
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  for (unsigned i = 0; i < 2 * WAYS; i++) {
    state = i + 1;
    spoil_page(page, size, i % WAYS);
    CHECK_INT(AB_OK, ab_tally_take(&tally, page));
    CHECK(tally.series_count <= AB_TALLY_SERIES && tally.names <= 64);
    CHECK(tally.pool_count <= AB_TALLY_POOLS);
  }
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* Where areas stand was looked at once, when the page was mapped. */
CHECK_CASE(the_head_leads_nowhere_else) {
  ab_page *page = new_page();
  ab_page_parts before = ab_page_parts_of(page, 1);
  state = 1;
  spoil_page(page, AB_PAGE_HEAD_SIZE, ANY);
  ab_page_parts after = ab_page_parts_of(page, 1);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  CHECK_INT(NOW, ab_page_head_of(page)->made_at);
  CHECK_INT(getpid(), ab_page_head_of(page)->creator);
  ab_page_drop(page);
}

/* --- writers: three records, of which the one in the middle is written --- */

typedef struct three_rows {
  ab_row before, row, after;
} three_rows;

static const ab_addr peer = {.bytes = {10, 0, 0, 9}, .port = 5432, .family = 4};

static void write_row(ab_row *row, unsigned what) {
  uint64_t times[AB_STATE_COUNT];
  const ab_trace trace = {.trace = {1}};
  switch (what) {
  case 0:
    ab_row_turn(row, AB_STATE_RUN, NOW);
    break;
  case 1:
    ab_row_wait(row, AB_STATE_DB, &peer, NOW);
    break;
  case 2:
    ab_row_shift(row, AB_STATE_RUN, AB_STATE_GC, NOW);
    break;
  case 3:
    ab_row_times(row, NOW, times);
    break;
  case 4:
    ab_row_set_trace(row, &trace);
    break;
  case 5:
    ab_row_turn(row, AB_STATE_RUN, UINT64_MAX);
    break;
  case 6:
    ab_row_turn(row, AB_STATE_RUN, 0);
    break;
  case 7:
    ab_row_begin_taken(row, &(ab_row_start){.peer = &peer, .path = {"/a", 2}}, NOW);
    break;
  default:
    ab_row_begin(row, &(ab_row_start){.began = NOW, .state = AB_STATE_QUEUE});
    break;
  }
}

CHECK_CASE(a_row_is_written_within_its_bounds) {
  for (unsigned i = 0; i < 40 * WAYS; i++) {
    three_rows rows, was;
    state = i + 1;
    spoil(&rows, sizeof rows, i % WAYS);
    was = rows;
    for (unsigned what = 0; what < 9; what++) {
      spoil(&rows.row, sizeof rows.row, i % WAYS);
      write_row(&rows.row, what);
      CHECK(memcmp(&was.before, &rows.before, sizeof was.before) == 0);
      CHECK(memcmp(&was.after, &rows.after, sizeof was.after) == 0);
    }
  }
}

CHECK_CASE(a_loop_is_written_within_its_bounds) {
  for (unsigned i = 0; i < 100 * WAYS; i++) {
    struct {
      ab_loop_line before, line, after;
    } all, was;
    state = i + 1;
    spoil(&all, sizeof all, i % WAYS);
    was = all;
    ab_loop_line_turn(&all.line, AB_LOOP_STATE_BUSY, 0, NOW, 1);
    spoil(&all.line, sizeof all.line, i % WAYS);
    ab_loop_line_end(&all.line, UINT64_MAX);
    ab_loop_line_tick(&all.line);
    CHECK(memcmp(&was.before, &all.before, sizeof was.before) == 0);
    CHECK(memcmp(&was.after, &all.after, sizeof was.after) == 0);
  }
}

static void end_request(ab_page *page, enum way way) {
  ab_page_parts parts = ab_page_parts_of(page, 0);
  three_rows rows;
  ab_page_slot was = *parts.slot;
  ab_page_route next;
  spoil(&rows, sizeof rows, way);
  memcpy(&next, &parts.routes[4], sizeof next);
  for (unsigned i = 0; i < 20; i++) {
    spoil(&rows.row, sizeof rows.row, way);
    ab_page_count_ended(&parts, &rows.row, 3, true);
    ab_page_count_ended(&parts, &rows.row, AB_ROW_NO_ROUTE, true);
    ab_kept_add(parts.kept, parts.kept_count, &parts.slot->app.kept, &rows.row, AB_KEPT_SLOW);
    ab_exemplars_note(&parts.exemplars[1], &rows.row);
    ab_page_event_write(parts.events, parts.event_count, &parts.slot->events, &(ab_page_event){0},
                        (ab_view){"text", 4});
  }
  CHECK(memcmp(&next, &parts.routes[4], sizeof next) == 0);
  CHECK(memcmp(&was.queue, &parts.slot->queue, sizeof was.queue) == 0);
  CHECK(memcmp(&was.process, &parts.slot->process, sizeof was.process) == 0);
}

CHECK_CASE(a_request_ends_within_the_bounds_of_its_route) {
  with_garbage(end_request);
}

/* --- tables of a process --- */

/* How many keys and names there are is known without the page, so a search comes to an end. */
CHECK_CASE(series_are_found_while_the_page_is_wiped) {
  static ab_series_table table;
  ab_page *page = new_page();
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_page_app *app = &parts.slot->app;
  ab_series_table_over(&table, parts.series, parts.series_count, &app->series,
                       &app->series_dropped);
  ab_series_key first = {.kind = AB_SERIES_REQUEST, .status = 1};
  ab_series *series = ab_series_find(&table, first);
  for (unsigned i = 2; i < 4000; i++) {
    ab_series_key key = {.kind = AB_SERIES_REQUEST, .status = (uint16_t)i};
    app->series = i % 3 ? 0 : UINT32_MAX;
    ab_series *one = ab_series_find(&table, key);
    CHECK(one >= parts.series && one < parts.series + parts.series_count);
    spoil(&one->key, sizeof one->key, i % WAYS);
    if (i < 400) CHECK(one == ab_series_find(&table, key));
  }
  CHECK(series == ab_series_find(&table, first));
  ab_page_drop(page);
}

CHECK_CASE(routes_are_found_while_the_page_is_wiped) {
  static ab_page_routes routes;
  ab_page *page = new_page();
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_page_app *app = &parts.slot->app;
  ab_page_routes_over(&routes, parts.routes, parts.route_count, 64, &app->routes,
                      &app->routes_dropped);
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < 64; i++) {
      char name[16];
      int len = snprintf(name, sizeof name, "/r/%u", i);
      app->routes = i % 3 ? 0 : UINT32_MAX;
      CHECK_INT(i, ab_page_routes_find(&routes, round ? name : NULL, (ab_view){name, (size_t)len}));
      spoil(&parts.routes[i].name, sizeof parts.routes[i].name + 4, i % WAYS);
    }
  }
  CHECK_INT(64, ab_page_routes_find(&routes, NULL, (ab_view){"/one/more", 9}));
  ab_page_drop(page);
}

static void use_tables(ab_page *page, enum way way) {
  static ab_series_table series;
  static ab_page_routes routes;
  static ab_page_clients clients;
  static ab_opens opens;
  static ab_history history;
  ab_rows rows;
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_page_app *app = &parts.slot->app;
  ab_series_table_over(&series, parts.series, parts.series_count, &app->series,
                       &app->series_dropped);
  ab_page_routes_over(&routes, parts.routes, parts.route_count, 64, &app->routes,
                      &app->routes_dropped);
  ab_page_clients_over(&clients, parts.clients, parts.client_count);
  CHECK_INT(AB_OK, ab_rows_init(&rows, &ab_mem_libc, parts.rows, parts.row_count, &app->mark,
                                &app->missed));
  ab_history_totals totals = ab_page_totals(&parts);
  ab_cells cells = {.sum = 0};
  ab_history_over(&history, parts.seconds, parts.second_count, parts.tens, parts.ten_count, &totals,
                  &cells);
  for (unsigned i = 0; i < 200; i++) {
    ab_addr addr = {.bytes = {10, 0, (uint8_t)(i / 200), (uint8_t)i}, .family = 4};
    ab_addr any;
    spoil(&any, sizeof any, way);
    spoil(parts.clients, 2 * sizeof *parts.clients, way);
    ab_page_clients_count(&clients, &addr, &(ab_page_client_request){.bytes = 1});
    ab_page_clients_count_plain(&clients, &any, 1);
    ab_page_clients_meet(&clients, &addr, i);
    ab_opens_add(&opens, &addr);
    ab_opens_show(&opens, parts.clients, parts.client_count);
    ab_opens_introduce(&opens, &clients);
    ab_opens_remove(&opens, &addr);
    ab_page_requests(&parts, &cells);
    totals = ab_page_totals(&parts);
    ab_history_tick(&history, (i + 1) * AB_NSEC_PER_SEC, &totals, &cells);
    char name[16];
    int len = snprintf(name, sizeof name, "pool %u", i);
    ab_page_pool *pool =
        ab_page_pool_find(parts.pools, parts.pool_count, &app->pools, (ab_view){name, (size_t)len});
    CHECK(!pool || (pool >= parts.pools && pool < parts.pools + parts.pool_count));
    if (pool) ab_page_pool_leave(pool);
    CHECK(ab_page_routes_find(&routes, NULL, (ab_view){name, (size_t)len}) < parts.route_count);
    ab_row *row = ab_rows_take(&rows);
    CHECK(row && ab_rows_index(&rows, row) < parts.row_count);
    if (row) ab_rows_give(&rows, row);
  }
  ab_rows_fini(&rows);
}

CHECK_CASE(tables_over_garbage) {
  with_garbage(use_tables);
}

CHECK_MAIN()
