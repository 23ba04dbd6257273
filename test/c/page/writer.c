/* Writes into a slot of another process's page, by the functions that a server writes with, so that
 * a test in Ruby has something to read. `writer PID SLOT rows N`, `... scene`, `... garbage SEED`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "find.h"
#include "page/look.h"
#include "page/rows.h"

#define MS AB_NSEC_PER_MS

static char *page;

static void fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static void map_page_of(const char *pid) {
  struct stat found;
  int fd = find_page(pid, O_RDWR);
  if (fd < 0 || fstat(fd, &found) < 0) fail("no page");
  page = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) fail("cannot be mapped");
}

static ab_page_slot *slot_at(unsigned index) {
  const ab_page_head *head = (const ab_page_head *)page;
  return (ab_page_slot *)(page + head->head_size + (size_t)index * head->slot_size);
}

static const ab_page_area *area(enum ab_page_area_name name) {
  return &((const ab_page_head *)page)->areas[name];
}

static void *start_of(ab_page_slot *slot, enum ab_page_area_name name) {
  return (char *)slot + area(name)->offset;
}

static ab_nsec now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (ab_nsec)time.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)time.tv_nsec;
}

static ab_addr address(unsigned i, uint16_t port) {
  return (ab_addr){
      .bytes = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}, .port = port, .family = 4};
}

/* A request that has run for 1 ms, and waits for a database since 10 ms. */
static ab_row *begin(ab_rows *rows, uint64_t id, const char *path) {
  ab_addr peer = address((unsigned)id, 4000), database = address(9, 5432);
  ab_nsec end = now();
  ab_row *row = ab_rows_take(rows);
  if (!row) fail("no row is left");
  ab_row_begin(row, &(ab_row_start){.id = id,
                                    .began = end - (20 + id % 7) * MS,
                                    .state = AB_STATE_QUEUE,
                                    .mode = AB_ROW_FIBER,
                                    .method = AB_ROW_METHOD_GET,
                                    .place = 1,
                                    .peer = &peer,
                                    .path = {path, strlen(path)}});
  ab_row_turn(row, AB_STATE_RUN, end - 11 * MS);
  ab_row_wait(row, AB_STATE_DB, &database, end - 10 * MS);
  return row;
}

static void list_over(ab_rows *rows, ab_page_slot *slot, bool queued) {
  enum ab_page_area_name name = queued ? AB_PAGE_AREA_QUEUED : AB_PAGE_AREA_ROWS;
  int error = ab_rows_init(rows, &ab_mem_libc, start_of(slot, name), area(name)->count,
                           queued ? &slot->queue.mark : &slot->app.mark,
                           queued ? &slot->queue.missed : &slot->app.missed);
  if (error) fail("no memory");
}

static void write_rows(ab_page_slot *slot, unsigned count) {
  ab_rows rows;
  list_over(&rows, slot, false);
  for (unsigned i = 1; i <= count; i++) begin(&rows, i, "/reports/2026/11?no");
  ab_rows_fini(&rows);
}

/* So many routes, each with two methods and two statuses. */
static void write_series(ab_page_slot *slot, unsigned count) {
  static ab_page_routes routes;
  static ab_series_table table;
  ab_page_app *app = &slot->app;
  ab_page_routes_over(&routes, start_of(slot, AB_PAGE_AREA_ROUTES),
                      area(AB_PAGE_AREA_ROUTES)->count, 64, &app->routes, &app->routes_dropped);
  ab_series_table_over(&table, start_of(slot, AB_PAGE_AREA_SERIES),
                       area(AB_PAGE_AREA_SERIES)->count, &app->series, &app->series_dropped);
  for (unsigned i = 0; i < count * 1000; i++) {
    char name[32];
    int len = snprintf(name, sizeof name, "/things/%u/:id", i % count);
    ab_series_key key = {.kind = AB_SERIES_REQUEST,
                         .method = (uint8_t)(1 + i / count % 2),
                         .status = (uint16_t)(200 + i / count / 2 % 2),
                         .route = ab_page_routes_find(&routes, NULL, (ab_view){name, (size_t)len})};
    ab_series_add(ab_series_find(&table, key), i * 2654435761u % (300 * MS));
  }
}

/* One request for each path: bytes of any kind. */
static void write_paths(ab_page_slot *slot, int count, char **paths) {
  ab_rows rows;
  list_over(&rows, slot, false);
  for (int i = 0; i < count; i++) begin(&rows, (uint64_t)i + 1, paths[i]);
  ab_rows_fini(&rows);
}

/* --- a bit of everything --- */

static void write_ended(ab_page_slot *slot, ab_page_routes *routes, ab_series_table *table,
                        const ab_row *row) {
  ab_page_app *app = &slot->app;
  ab_page_route *areas = start_of(slot, AB_PAGE_AREA_ROUTES);
  uint32_t route = ab_page_routes_find(routes, row, (ab_view){"/reports/:id", 12});
  ab_nsec time = row->since - row->began;
  ab_page_route_add(&areas[route], row, true);
  ab_row_add_sums(app->sums, row);
  AB_ADD(app->ended, 1);
  AB_ADD(app->failed, 1);
  ab_series_key key = {
      .kind = AB_SERIES_REQUEST, .method = AB_ROW_METHOD_GET, .status = 500, .route = route};
  ab_series_add(ab_series_find(table, key), time);
  key = (ab_series_key){.kind = AB_SERIES_QUEUE, .route = AB_SERIES_NO_ROUTE};
  ab_series_add(ab_series_find(table, key), 3 * MS);
  ab_kept_add(start_of(slot, AB_PAGE_AREA_KEPT), area(AB_PAGE_AREA_KEPT)->count, &app->kept, row,
              AB_KEPT_SLOW | AB_KEPT_FAILED);
}

static void write_history(ab_page_slot *slot) {
  static ab_history history;
  ab_history_totals totals = {.requests = 5}, later = {.requests = 8, .db = 70 * MS, .rss = 120};
  ab_cells cells = {.sum = 0}, more = {.sum = 0};
  ab_cells_add(&more, 20 * MS);
  ab_history_over(&history, start_of(slot, AB_PAGE_AREA_SECONDS), area(AB_PAGE_AREA_SECONDS)->count,
                  start_of(slot, AB_PAGE_AREA_TENS), area(AB_PAGE_AREA_TENS)->count, &totals,
                  &cells);
  ab_history_tick(&history, now() - 30 * AB_NSEC_PER_SEC, &later, &more);
  ab_history_tick(&history, now() - 15 * AB_NSEC_PER_SEC, &later, &more);
}

/* Ten minutes of a server whose database is slow in the seventh. */
static void write_past(ab_page_slot *slot) {
  static ab_history history;
  ab_history_totals totals = {.rss = 140};
  ab_cells cells = {.sum = 0};
  ab_history_over(&history, start_of(slot, AB_PAGE_AREA_SECONDS), area(AB_PAGE_AREA_SECONDS)->count,
                  start_of(slot, AB_PAGE_AREA_TENS), area(AB_PAGE_AREA_TENS)->count, &totals,
                  &cells);
  ab_nsec end = now();
  for (unsigned i = 0; i < 600; i++) {
    unsigned slow = i > 390 && i < 450, load = 90 + i % 60 / 2 + i * 7919 % 23;
    for (unsigned j = 0; j < load; j++)
      ab_cells_add(&cells, (4 + j * j % 37 + (slow ? 60 + j % 90 : 0)) * MS);
    totals.requests += load;
    totals.failed += slow && i % 7 == 0 ? 3 : 0;
    totals.in_app = slow ? 40 + i % 17 : 2 + i % 5;
    totals.waiting = slow ? i % 9 : 0;
    totals.cpu += (200 + load * 3 + i % 40) * MS;
    totals.run += (150 + load) * MS;
    totals.db += (slow ? 30000 + i % 13 * 900 : 800 + i % 11 * 40) * MS;
    totals.gc += i % 10 ? 4 * MS : 31 * MS;
    totals.rss = 140 + i / 25;
    ab_history_tick(&history, end - (600 - i) * AB_NSEC_PER_SEC, &totals, &cells);
  }
}

static void write_scene(ab_page_slot *slot) {
  static ab_page_routes routes;
  static ab_series_table table;
  static ab_page_clients clients;
  ab_rows rows, queued;
  ab_page_app *app = &slot->app;
  list_over(&rows, slot, false);
  list_over(&queued, slot, true);
  ab_page_routes_over(&routes, start_of(slot, AB_PAGE_AREA_ROUTES),
                      area(AB_PAGE_AREA_ROUTES)->count, 64, &app->routes, &app->routes_dropped);
  ab_series_table_over(&table, start_of(slot, AB_PAGE_AREA_SERIES),
                       area(AB_PAGE_AREA_SERIES)->count, &app->series, &app->series_dropped);
  ab_page_clients_over(&clients, start_of(slot, AB_PAGE_AREA_CLIENTS),
                       area(AB_PAGE_AREA_CLIENTS)->count);
  ab_row *ended = begin(&rows, 7, "/reports/7"), *runs = begin(&rows, 8, "/<b>\xff\x1b[31m");
  ab_row_turn(ended, AB_STATE_RUN, now());
  AB_ROW_SET(ended, status, 500);
  write_ended(slot, &routes, &table, ended);
  ab_rows_give(&rows, ended);
  AB_ROW_SET(runs, route, 0);
  AB_ROW_SET(runs, phase, AB_ROW_ANSWERS);
  ab_row_set_trace(runs, &(ab_trace){.trace = {0x4b, 0xf9, [15] = 0x36}, .span = {1}});
  AB_ROW_SET(begin(&queued, 9, "/waits"), mode, AB_ROW_QUEUED);
  ab_loop_line *loop = start_of(slot, AB_PAGE_AREA_LOOPS);
  ab_loop_line_begin(loop, AB_LOOP_MAIN, 77, now() - 900 * MS);
  ab_loop_line_turn(loop, AB_LOOP_STATE_BUSY, ab_rows_index(&rows, runs), now() - 800 * MS,
                    20 * MS);
  AB_PUT(slot->process.stall_after, 20 * MS);
  ab_page_event fact = {
      .kind = AB_PAGE_EVENT_STALL, .when = now() - 800 * MS, .id = 8, .time = 800 * MS, .pid = 42};
  ab_page_event_write(start_of(slot, AB_PAGE_AREA_EVENTS), area(AB_PAGE_AREA_EVENTS)->count,
                      &slot->events, &fact, (ab_view){"app/reports.rb:41", 17});
  ab_addr peer = address(7, 4000);
  ab_page_clients_count(&clients, &peer, &(ab_page_client_request){.bytes = 1000, .slow = true});
  AB_PUT(clients.last_client->open, 1);
  write_history(slot);
  ab_rows_fini(&rows);
  ab_rows_fini(&queued);
}

/* --- whatever a fault may leave --- */

static void write_garbage(ab_page_slot *slot, unsigned seed) {
  const ab_page_head *head = (const ab_page_head *)page;
  srandom(seed);
  for (size_t at = offsetof(ab_page_slot, app); at < head->slot_size; at++) {
    long random_one = random();
    /* Many a sequence number is even, and many a flag is 1. */
    ((unsigned char *)slot)[at] =
        (unsigned char)(random_one % 3 ? random_one >> 8 & 2 : random_one >> 8);
  }
}

int main(int argc, char **argv) {
  if (argc < 4)
    fail("writer PID SLOT paths P... | past | rows N | series N | scene | garbage SEED");
  map_page_of(argv[1]);
  ab_page_slot *slot = slot_at((unsigned)atoi(argv[2]));
  unsigned number = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
  if (strcmp(argv[3], "rows") == 0) write_rows(slot, number);
  if (strcmp(argv[3], "series") == 0) write_series(slot, number);
  if (strcmp(argv[3], "paths") == 0) write_paths(slot, argc - 4, argv + 4);
  if (strcmp(argv[3], "past") == 0) write_past(slot);
  if (strcmp(argv[3], "scene") == 0) write_scene(slot);
  if (strcmp(argv[3], "garbage") == 0) write_garbage(slot, number);
  return 0;
}
