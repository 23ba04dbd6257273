/* Routes: names get numbers once, and there is an end of names. */
#include "check.h"
#include "page/routes.h"

typedef struct area {
  ab_page_route routes[AB_PAGE_ROUTES];
  uint32_t used;
  uint64_t dropped;
  ab_page_routes table;
} area;

static area here;

static void begin(uint32_t most) {
  ab_page_routes_over(&here.table, here.routes, AB_PAGE_ROUTES, most, &here.used, &here.dropped);
}

static uint32_t find(const void *key, const char *name) {
  return ab_page_routes_find(&here.table, key, (ab_view){name, strlen(name)});
}

CHECK_CASE(a_name_has_one_number) {
  here = (area){.used = 0};
  begin(64);
  static const char keys[3000];
  CHECK_INT(0, find(&keys[0], "/a/:id"));
  CHECK_INT(1, find(&keys[8], "/b"));
  CHECK_INT(0, find(&keys[0], "/a/:id"));
  CHECK_INT(0, find(&keys[16], "/a/:id")); /* the same text elsewhere */
  CHECK_INT(0, find(NULL, "/a/:id"));
  CHECK_INT(2, find(NULL, "/c"));
  CHECK_INT(2, find(&keys[0], "/c")); /* the address is another name's now */
  CHECK_INT(1, find(&keys[8 + 8 * AB_PAGE_ROUTES_IN_MIND], "/b"));
  CHECK_INT(3, find(&keys[8], "/b/"));
  CHECK_INT(4, here.used);
  CHECK_INT(64, find(NULL, ""));
  CHECK_INT(0, here.dropped);
}

CHECK_CASE(no_more_names_than_the_bound) {
  here = (area){.used = 0};
  begin(10);
  char name[16];
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < 1000; i++) {
      snprintf(name, sizeof name, "/r/%u", i);
      CHECK_INT(i < 10 ? i : AB_PAGE_ROUTES - 1, find(name, name));
    }
  }
  CHECK_INT(10, here.used);
  CHECK_INT(2 * 990, here.dropped);
  begin(1000); /* a process with another setting */
  for (uint32_t i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "/r/%u", i);
    CHECK_INT(i < 64 ? i : 64, find(NULL, name));
  }
  CHECK_INT(64, here.used);
}

CHECK_CASE(the_next_process_knows_the_names) {
  here = (area){.used = 0};
  begin(64);
  find(NULL, "/a");
  find(NULL, "/b");
  /* The last one was killed when it had a name, and no number for it. */
  memcpy(here.routes[2].name, "/half", 5);
  here.routes[2].name_len = 5;
  begin(64);
  CHECK_INT(1, find(NULL, "/b"));
  CHECK_INT(2, find(NULL, "/c"));
  char name[AB_PAGE_ROUTE_NAME];
  CHECK_BYTES("/c", name, ab_page_route_name(&here.routes[2], name));
  begin(1); /* what is there stays */
  CHECK_INT(1, find(NULL, "/b"));
  CHECK_INT(64, find(NULL, "/d"));
}

CHECK_CASE(long_names_are_cut_off) {
  here = (area){.used = 0};
  begin(64);
  char name[300], copy[AB_PAGE_ROUTE_NAME];
  memset(name, 'a', sizeof name);
  CHECK_INT(0, ab_page_routes_find(&here.table, name, (ab_view){name, sizeof name}));
  CHECK_INT(0, ab_page_routes_find(&here.table, name, (ab_view){name, AB_PAGE_ROUTE_NAME}));
  CHECK_INT(1, ab_page_routes_find(&here.table, name, (ab_view){name, AB_PAGE_ROUTE_NAME - 1}));
  CHECK_INT(AB_PAGE_ROUTE_NAME, ab_page_route_name(&here.routes[0], copy));
}

CHECK_CASE(what_requests_did) {
  here = (area){.used = 0};
  ab_row row = {.seq = 0};
  ab_row_begin(&row, &(ab_row_start){.began = 100, .state = AB_STATE_RUN});
  ab_row_turn(&row, AB_STATE_DB, 150);
  ab_row_turn(&row, AB_STATE_RUN, 450);
  ab_row_turn(&row, AB_STATE_RUN, 460);
  for (int i = 0; i < 3; i++) ab_page_route_add(&here.routes[7], &row, i == 0);
  CHECK_INT(3, here.routes[7].requests);
  CHECK_INT(1, here.routes[7].errors);
  CHECK_INT(3 * 60, here.routes[7].sums[AB_STATE_RUN]);
  CHECK_INT(3 * 300, here.routes[7].sums[AB_STATE_DB]);
  CHECK_INT(0, here.routes[7].sums[AB_STATE_GC]);
}

/* Whatever stands in the page, numbers are those of routes. */
CHECK_CASE(garbage) {
  for (unsigned byte = 0; byte < 256; byte++) {
    memset(&here, (int)byte, sizeof here);
    char name[AB_PAGE_ROUTE_NAME];
    CHECK(ab_page_routes_used(&here.used, AB_PAGE_ROUTES) < AB_PAGE_ROUTES);
    CHECK(ab_page_route_name(&here.routes[0], name) <= AB_PAGE_ROUTE_NAME);
    begin(64);
    CHECK(find(&here, "/new") < AB_PAGE_ROUTES);
  }
  CHECK_INT(0, ab_page_routes_used(&here.used, 0));
}

CHECK_MAIN()
