/* What the slots of a page have counted together: by names of routes, not by their numbers, and
 * never less than before. */
#include "check.h"
#include "page/ended.h"
#include "page/tally.h"

static const ab_page_time now = {1000, 2000};

static ab_page *page_of(uint32_t slots) {
  const ab_page_options options = {.slots = slots, .rows = 4, .queued = 4};
  ab_page *page = ab_page_create(&ab_mem_libc, &options, now);
  CHECK(page);
  return page;
}

/* What a process writes in its slot. */
typedef struct writer {
  ab_page_parts parts;
  ab_page_routes routes;
  ab_series_table series;
} writer;

static void begin(writer *writer, ab_page *page, uint32_t index) {
  CHECK_INT(AB_OK, ab_page_claim(page, index, 0, now));
  writer->parts = ab_page_parts_of(page, index);
  ab_page_app *app = &writer->parts.slot->app;
  ab_page_routes_over(&writer->routes, writer->parts.routes, writer->parts.route_count, 64,
                      &app->routes, &app->routes_dropped);
  ab_series_table_over(&writer->series, writer->parts.series, writer->parts.series_count,
                       &app->series, &app->series_dropped);
}

/* A request of `time` nanoseconds, all of it in the state RUN; without a route for NULL. */
static void request(writer *writer, const char *name, uint16_t status, ab_nsec time) {
  ab_row row = {.touched = 1u << AB_STATE_RUN, .sums[AB_STATE_RUN] = time};
  uint32_t route = AB_SERIES_NO_ROUTE;
  if (name) route = ab_page_routes_find(&writer->routes, NULL, (ab_view){name, strlen(name)});
  ab_page_count_ended(&writer->parts, &row, route, status >= 500);
  ab_series_key key = {
      .kind = AB_SERIES_REQUEST, .method = AB_ROW_METHOD_GET, .status = status, .route = route};
  ab_series_add(ab_series_find(&writer->series, key), time);
}

static const ab_tally_route *route_of(const ab_tally *tally, const char *name) {
  for (uint32_t i = 0; i < tally->names; i++) {
    const ab_tally_route *route = &tally->routes[i];
    if (route->name_len == strlen(name) && memcmp(route->name, name, route->name_len) == 0)
      return route;
  }
  return NULL;
}

static uint64_t count_of(const ab_tally *tally, uint32_t route, uint16_t status) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < tally->series_count; i++) {
    if (tally->series[i].key.route == route && tally->series[i].key.status == status)
      count += ab_cells_count(&tally->series[i].cells);
  }
  return count;
}

static uint64_t count_all(const ab_tally *tally) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < tally->series_count; i++)
    count += ab_cells_count(&tally->series[i].cells);
  return count;
}

/* Two slots know the same routes by other numbers; a third one was never taken. */
CHECK_CASE(names_decide_what_belongs_together) {
  ab_page *page = page_of(3);
  writer one, two;
  ab_tally tally;
  begin(&one, page, 0);
  begin(&two, page, 1);
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  request(&one, "/a", 200, 10);
  request(&one, "/b", 200, 20);
  request(&one, NULL, 200, 5);
  request(&two, "/b", 500, 30);
  request(&two, "/b", 200, 40);
  request(&two, "/a", 200, 50);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(2, tally.names);
  const ab_tally_route *a = route_of(&tally, "/a"), *b = route_of(&tally, "/b");
  CHECK(a && b);
  CHECK_INT(2, a->requests);
  CHECK_INT(60, a->sums[AB_STATE_RUN]);
  CHECK_INT(3, b->requests);
  CHECK_INT(1, b->errors);
  CHECK_INT(90, b->sums[AB_STATE_RUN]);
  CHECK_INT(6, tally.totals.ended);
  CHECK_INT(155, tally.totals.sums[AB_STATE_RUN]);
  CHECK_INT(2, count_of(&tally, (uint32_t)(b - tally.routes), 200));
  CHECK_INT(1, count_of(&tally, (uint32_t)(b - tally.routes), 500));
  CHECK_INT(2, count_of(&tally, (uint32_t)(a - tally.routes), 200));
  CHECK_INT(1, count_of(&tally, AB_SERIES_NO_ROUTE, 200));
  /* Once more is the same, not twice as much. */
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(6, tally.totals.ended);
  CHECK_INT(6, count_all(&tally));
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* The names of all slots together are more than are told apart. The first ones stay. */
CHECK_CASE(names_beyond_the_most_are_others_for_good) {
  ab_page *page = page_of(2);
  writer one, two;
  ab_tally tally;
  char name[16];
  begin(&one, page, 0);
  begin(&two, page, 1);
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 3));
  request(&two, "/z", 200, 1);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof(name), "/%d", i);
    request(&one, name, 200, 1);
  }
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(3, tally.names);
  CHECK(route_of(&tally, "/z") && route_of(&tally, "/0") && route_of(&tally, "/1"));
  CHECK_INT(1, route_of(&tally, "/z")->requests);
  CHECK_INT(8, tally.routes[tally.most].requests);
  CHECK_INT(8, count_of(&tally, tally.most, 200));
  CHECK_INT(11, count_all(&tally));
  ab_tally_fini(&tally);
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 0));
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(0, tally.names);
  CHECK_INT(11, tally.routes[0].requests);
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* Each slot has its fill of series, all with other statuses. */
CHECK_CASE(series_beyond_the_most_are_others_for_good) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = page_of(8);
  ab_tally tally;
  uint64_t counts[2];
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  for (uint32_t slot = 0; slot < 8; slot++) {
    writer writer;
    begin(&writer, page, slot);
    for (uint16_t i = 0; i < 600; i++) request(&writer, NULL, (uint16_t)(1000 * slot + i), 1);
  }
  for (int i = 0; i < 2; i++) {
    CHECK_INT(AB_OK, ab_tally_take(&tally, page));
    CHECK_INT(AB_TALLY_SERIES, tally.series_count);
    CHECK_INT(4800, count_all(&tally));
    counts[i] = ab_cells_count(&tally.series[AB_SERIES_REQUEST].cells);
  }
  CHECK_INT(counts[0], counts[1]);
  CHECK(counts[0] > 0 && tally.totals.series_dropped > 0);
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* A process is killed, and the next one in its slot goes on. */
CHECK_CASE(counts_outlive_processes) {
  ab_page *page = page_of(1);
  writer writer;
  ab_tally tally;
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  for (unsigned life = 1; life <= 5; life++) {
    begin(&writer, page, 0);
    AB_ADD(writer.parts.slot->process.gc_time, 7);
    request(&writer, "/a", 200, 3);
    if (life == 3) ab_seq_open(&writer.parts.slot->app.seq); /* ... and is killed in there */
    CHECK_INT(AB_OK, ab_tally_take(&tally, page));
    CHECK_INT(life, tally.totals.ended);
    CHECK_INT(7 * life, tally.totals.gc_time);
    CHECK_INT(life, route_of(&tally, "/a")->requests);
    CHECK_INT(3 * life, route_of(&tally, "/a")->sums[AB_STATE_RUN]);
    CHECK_INT(life, count_all(&tally));
  }
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* A request is in its route only, and its writer sleeps: it is not taken off what no route has. */
CHECK_CASE(what_no_route_has_never_falls) {
  ab_page *page = page_of(1);
  writer writer;
  ab_tally tally;
  CHECK_INT(AB_OK, ab_tally_init(&tally, &ab_mem_libc, 64));
  begin(&writer, page, 0);
  ab_page_app *app = &writer.parts.slot->app;
  const ab_row row = {.touched = 1u << AB_STATE_RUN, .sums[AB_STATE_RUN] = 30};
  request(&writer, "/a", 200, 40);
  request(&writer, NULL, 200, 5);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(5, tally.routeless[AB_STATE_RUN]);
  ab_seq_open(&app->seq);
  ab_page_route_add(&writer.parts.routes[0], &row, false);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(2, route_of(&tally, "/a")->requests);
  CHECK_INT(2, tally.totals.ended);
  CHECK_INT(5, tally.routeless[AB_STATE_RUN]);
  AB_ADD(app->ended, 1);
  ab_row_add_sums(app->sums, &row);
  ab_seq_close(&app->seq);
  request(&writer, NULL, 200, 2);
  CHECK_INT(AB_OK, ab_tally_take(&tally, page));
  CHECK_INT(4, tally.totals.ended);
  CHECK_INT(7, tally.routeless[AB_STATE_RUN]);
  ab_tally_fini(&tally);
  ab_page_drop(page);
}

/* It can be taken again when there is memory: the failing call is the only one. */
CHECK_CASE(without_memory) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = page_of(1);
  writer writer;
  check_mem mem;
  ab_tally tally;
  int result = AB_ENOMEM;
  begin(&writer, page, 0);
  for (uint16_t i = 0; i < 200; i++) request(&writer, "/a", i, 1);
  for (size_t at = 1; result == AB_ENOMEM; at++) {
    check_mem_init(&mem, at);
    result = ab_tally_init(&tally, &mem.mem, 64);
    if (result == AB_OK) {
      result = ab_tally_take(&tally, page);
      if (result == AB_ENOMEM) CHECK_INT(AB_OK, ab_tally_take(&tally, page));
      CHECK_INT(200, count_all(&tally));
      ab_tally_fini(&tally);
    }
    CHECK(result == AB_OK || result == AB_ENOMEM);
    CHECK_INT(0, mem.live);
  }
  /* Both tables, and the series in three sizes. */
  CHECK_INT(5, mem.calls);
  ab_page_drop(page);
}

CHECK_MAIN()
