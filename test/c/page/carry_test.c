/* What a page remembers, in the page of the next program. */
#include "check.h"
#include "page/carry.h"

static const ab_page_time now = {1000, 2000};

static ab_page *carry_page_of(uint32_t slots) {
  const ab_page_options options = {.slots = slots, .rows = 4, .queued = 4};
  ab_page *page = ab_page_create(&ab_mem_libc, &options, now);
  CHECK(page);
  return page;
}

static void remember(ab_page *page, uint32_t index, unsigned count) {
  CHECK_INT(AB_OK, ab_page_claim(page, index, 0, now));
  ab_page_set_state(page, index, AB_PAGE_SERVING);
  ab_page_parts parts = ab_page_parts_of(page, index);
  ab_page_app *app = &parts.slot->app;
  ab_page_routes routes;
  ab_page_routes_over(&routes, parts.routes, parts.route_count, 64, &app->routes,
                      &app->routes_dropped);
  uint32_t route = ab_page_routes_find(&routes, NULL, (ab_view){"/a/:id", 6});
  ab_row row = {.route = route, .status = 500};
  for (unsigned n = 0; n < count; n++) {
    row.id = n;
    ab_page_route_add(&parts.routes[route], &row, true);
    ab_kept_add(parts.kept, parts.kept_count, &app->kept, &row, AB_KEPT_FAILED);
    const ab_page_event event = {.kind = AB_PAGE_EVENT_STALL, .when = 5, .id = n};
    ab_page_event_write(parts.events, parts.event_count, &parts.slot->events, &event,
                        (ab_view){"a text", 6});
  }
  static ab_history history;
  ab_history_totals totals = {.requests = 0};
  ab_cells cells = {.sum = 0};
  ab_history_over(&history, parts.seconds, parts.second_count, parts.tens, parts.ten_count, &totals,
                  &cells);
  for (unsigned second = 1; second <= 700; second++) {
    totals.requests += 3;
    ab_history_tick(&history, second * AB_NSEC_PER_SEC, &totals, &cells);
  }
  parts.slot->figures.requests = count;
}

static void has_all(const ab_page *page, uint32_t index, unsigned count) {
  ab_page_parts parts = ab_page_parts_to_read(page, index);
  CHECK(parts.event_count > 0);
  CHECK_INT(count, parts.slot->events);
  CHECK_INT(count, ab_kept_next(&parts.slot->app.kept));
  unsigned events = 0, kept = 0;
  for (uint64_t n = 0; n < count; n++) {
    ab_page_event event;
    ab_row row;
    if (ab_page_event_load(parts.events, parts.event_count, n, &event)) {
      CHECK_INT(n, event.id);
      events++;
    }
    if (ab_kept_load(parts.kept, parts.kept_count, n, &row)) {
      CHECK_INT(n, row.id);
      CHECK_INT(0, row.route);
      kept++;
    }
  }
  CHECK_INT(count < parts.event_count ? count : parts.event_count, events);
  CHECK_INT(count < parts.kept_count ? count : parts.kept_count, kept);
  char name[AB_PAGE_ROUTE_NAME];
  CHECK_INT(1, ab_page_routes_used(&parts.slot->app.routes, parts.route_count));
  CHECK_BYTES("/a/:id", name, ab_page_route_name(&parts.routes[0], name));
  CHECK_INT(0, parts.routes[0].requests);
  ab_history_record record;
  CHECK(ab_history_load(parts.seconds, parts.second_count, 700, &record));
  CHECK_INT(3, record.values.requests);
  CHECK(!ab_history_load(parts.seconds, parts.second_count, 100, &record));
  CHECK(ab_history_load(parts.tens, parts.ten_count, 69, &record));
  CHECK_INT(30, record.values.requests);
}

CHECK_CASE(it_goes_on_and_counters_do_not) {
  ab_page *from = carry_page_of(4), *to = carry_page_of(4);
  remember(from, 0, 3);
  remember(from, 3, 1000);
  ab_page_carry(to, from);
  ab_page_drop(from);
  has_all(to, 0, 3);
  has_all(to, 3, 1000);
  CHECK_INT(0, ab_page_parts_to_read(to, 1).event_count); /* nobody has had it */
  CHECK_INT(0, ab_page_sums(to).requests);
  CHECK_INT(AB_PAGE_EMPTY, ab_page_look(ab_page_slot_of(to, 0)).state);
  CHECK_INT(0, ab_page_look(ab_page_slot_of(to, 0)).pid);
  CHECK_INT(AB_OK, ab_page_claim(to, 0, 0, now));
  has_all(to, 0, 3);
  ab_page_drop(to);
}

/* Numbers of workers stay what they were, whichever half of the slots they have had. */
CHECK_CASE(pages_of_other_sizes) {
  ab_page *from = carry_page_of(8), *more = carry_page_of(12), *less = carry_page_of(1);
  remember(from, 0, 3);
  remember(from, 6, 5); /* number 2, second half */
  ab_page_carry(more, from);
  has_all(more, 0, 3);
  has_all(more, 8, 5);
  ab_page_carry(less, from);
  has_all(less, 0, 3);
  ab_page *again = carry_page_of(4);
  ab_page_carry(again, less);
  has_all(again, 0, 3);
  ab_page_drop(from);
  ab_page_drop(more);
  ab_page_drop(less);
  ab_page_drop(again);
}

/* Whatever stands in the old one: an extension may have written over it. */
CHECK_CASE(garbage_stays_within_bounds) {
  ab_page *from = carry_page_of(4);
  remember(from, 0, 1000);
  ab_page_parts parts = ab_page_parts_of(from, 0);
  memset(parts.events, 0xa5, 4096);
  memset(parts.kept, 0xff, 4096);
  memset(parts.seconds, 0xa5, 4096);
  parts.slot->app.routes = UINT32_MAX;
  parts.slot->app.kept = UINT64_MAX;
  parts.slot->events = UINT64_MAX;
  ab_page *to = carry_page_of(4);
  ab_page_carry(to, from);
  CHECK(ab_page_parts_to_read(to, 0).slot->app.routes <= AB_PAGE_ROUTES);
  CHECK_INT(0, ab_page_parts_of(to, 1).slot->holder);
  ab_page_drop(from);
  ab_page_drop(to);
}

CHECK_MAIN()
