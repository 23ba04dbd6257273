/* Series of several slots, added. */
#include "check.h"
#include "page/sums.h"

static const ab_page_time start = {1000, 2000};

/* Counts times in so many routes of a slot, which has them in an order of its own. */
static void serve(ab_page_parts *parts, uint32_t routes, uint32_t step) {
  static ab_page_routes names;
  static ab_series_table series;
  ab_page_app *app = &parts->slot->app;
  ab_page_routes_over(&names, parts->routes, parts->route_count, 64, &app->routes,
                      &app->routes_dropped);
  ab_series_table_over(&series, parts->series, parts->series_count, &app->series,
                       &app->series_dropped);
  for (uint32_t i = 0; i < routes; i++) {
    char text[32];
    int len = snprintf(text, sizeof text, "/r/%u", (unsigned)(i * step % routes));
    uint32_t route = ab_page_routes_find(&names, NULL, (ab_view){text, (size_t)len});
    for (uint16_t status = 200; status < 203; status++) {
      ab_series_key key = {.kind = AB_SERIES_REQUEST, .status = status, .route = route};
      ab_series_add(ab_series_find(&series, key), status);
    }
  }
  ab_series_key queue = {.kind = AB_SERIES_QUEUE, .route = AB_SERIES_NO_ROUTE};
  ab_series_add(ab_series_find(&series, queue), 9);
}

static uint64_t count_of(const ab_sums *sums, uint16_t status, const char *name) {
  for (uint32_t i = 0; i < sums->count; i++) {
    const ab_series *one = &sums->series[i];
    if (one->key.status != status || one->key.route >= sums->name_count) continue;
    const ab_sums_name *found = &sums->names[one->key.route];
    if (found->len == strlen(name) && memcmp(found->text, name, found->len) == 0)
      return ab_cells_count(&one->cells);
  }
  return 0;
}

CHECK_CASE(series_of_one_name_are_added) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 3}, start);
  ab_sums sums;
  ab_sums_init(&sums, &ab_mem_libc);
  for (uint32_t i = 0; i < 3; i++) {
    ab_page_parts parts = ab_page_parts_of(page, i);
    if (i < 2) serve(&parts, 61, 1 + 6 * i);
    CHECK_INT(AB_OK, ab_sums_add(&sums, &parts));
  }
  CHECK_INT(61 * 3 + 1, sums.count);
  CHECK_INT(61, sums.name_count);
  for (unsigned i = 0; i < 61; i++) {
    char name[32];
    snprintf(name, sizeof name, "/r/%u", i);
    CHECK_INT(2, count_of(&sums, 201, name));
  }
  uint64_t queue = 0;
  for (uint32_t i = 0; i < sums.count; i++) {
    if (sums.series[i].key.kind != AB_SERIES_QUEUE) continue;
    CHECK(sums.series[i].key.route == AB_SERIES_NO_ROUTE);
    queue += ab_cells_count(&sums.series[i].cells);
  }
  CHECK_INT(2, queue);
  ab_sums_fini(&sums);
  ab_page_drop(page);
}

CHECK_CASE(routes_without_names) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, start);
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_sums sums;
  ab_sums_init(&sums, &ab_mem_libc);
  serve(&parts, 200, 1);
  CHECK_INT(AB_OK, ab_sums_add(&sums, &parts));
  uint64_t others = 0, all = 0;
  for (uint32_t i = 0; i < sums.count; i++) {
    uint64_t count = ab_cells_count(&sums.series[i].cells);
    all += count;
    if (sums.series[i].key.route == AB_SUMS_OTHER) others += count;
  }
  CHECK_INT(200 * 3 + 1, all);
  CHECK_INT(136 * 3, others);
  CHECK_INT(64, sums.name_count);
  ab_sums_fini(&sums);
  ab_page_drop(page);
}

CHECK_CASE(without_memory) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, start);
  ab_page_parts parts = ab_page_parts_of(page, 0);
  serve(&parts, 60, 1);
  size_t calls = 1;
  for (;; calls++) {
    check_mem mem;
    ab_sums sums;
    check_mem_init(&mem, calls);
    ab_sums_init(&sums, &mem.mem);
    int result = ab_sums_add(&sums, &parts);
    CHECK(result == AB_OK || result == AB_ENOMEM);
    ab_sums_fini(&sums);
    CHECK_INT(0, mem.live);
    if (result == AB_OK) break;
  }
  CHECK_INT(7, calls - 1); /* names; series and their places for 64, 128, 256 */
  ab_page_drop(page);
}

CHECK_CASE(garbage) {
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, start);
  ab_page_parts parts = ab_page_parts_of(page, 0);
  for (unsigned byte = 1; byte < 256; byte += 7) {
    memset(&parts.slot->app, (int)byte, sizeof parts.slot->app);
    memset(parts.series, (int)byte, parts.series_count * sizeof *parts.series);
    memset(parts.routes, (int)byte, parts.route_count * sizeof *parts.routes);
    ab_sums sums;
    ab_sums_init(&sums, &ab_mem_libc);
    CHECK_INT(AB_OK, ab_sums_add(&sums, &parts));
    CHECK(sums.count <= AB_PAGE_SERIES);
    ab_sums_fini(&sums);
  }
  ab_page_drop(page);
}

CHECK_MAIN()
