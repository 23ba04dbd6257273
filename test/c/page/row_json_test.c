/* Requests as JSON: which ones, and what is said of each. */
#include "check.h"

#include "page/page.h"
#include "page/row_json.h"
#include "page/rows.h"

#define MS AB_NSEC_PER_MS

static const ab_addr client = {.bytes = {10, 0, 0, 8}, .port = 4000, .family = 4};
static const ab_addr database = {.bytes = {[15] = 1}, .port = 5432, .family = 6};

/* Has waited for the database for 2 ms at 40 ms. */
static ab_row one(uint64_t id, const char *path) {
  ab_row row = {.seq = 0};
  ab_row_begin(&row, &(ab_row_start){.id = id,
                                     .began = 10 * MS,
                                     .state = AB_STATE_QUEUE,
                                     .mode = AB_ROW_FIBER,
                                     .method = AB_ROW_METHOD_GET,
                                     .place = 3,
                                     .peer = &client,
                                     .path = {path, strlen(path)}});
  ab_row_turn(&row, AB_STATE_RUN, 12 * MS);
  ab_row_wait(&row, AB_STATE_DB, &database, 38 * MS);
  return row;
}

static void check_all(const char *expected, const ab_row *row, const ab_row_beside *beside) {
  char text[AB_ROW_JSON_MAX];
  CHECK_BYTES(expected, text, (size_t)(ab_row_json(text, row, beside) - text));
}

static void check_short(const char *expected, const ab_row *row, const ab_row_beside *beside) {
  char text[AB_ROW_JSON_MAX];
  CHECK_BYTES(expected, text, (size_t)(ab_row_json_short(text, row, beside) - text));
}

CHECK_CASE(a_request) {
  ab_row row = one(8, "/a\"\xff");
  ab_row_beside beside = {
      .now = 40 * MS + 1500, .slot = 5, .worker = 1, .route = {"/:id", 4}, .waits = true};
  row.status = 200;
  row.cpu = 1500;
  row.trace[0] = 0x4b;
  check_all("{\"worker\":1,\"since\":0.0020015,\"waits_for\":\"[::1]:5432\",\"id\":\"5.8\","
            "\"age\":0.0300015,\"state\":\"db\",\"mode\":\"fiber\",\"phase\":\"called\","
            "\"method\":\"GET\",\"path\":\"/a\\\"?\",\"route\":\"/:id\",\"peer\":\"10.0.0.8\","
            "\"status\":200,\"place\":3,\"children\":0,"
            "\"sums\":{\"queue\":0.002,\"run\":0.026,\"db\":0.0020015},"
            "\"trace\":\"4b000000000000000000000000000000\",\"cpu\":0.0015,"
            "\"waits\":[[0.0,0.002,\"queue\",null]]}",
            &row, &beside);
  check_short("{\"id\":\"5.8\",\"age\":0.030002,\"worker\":1,\"mode\":\"fiber\",\"phase\":"
              "\"called\",\"state\":\"db\",\"waits_for\":\"[::1]:5432\",\"since\":0.002002,"
              "\"method\":\"GET\",\"path\":\"/a\\\"\xef\xbf\xbd\",\"client\":\"10.0.0.8\","
              "\"route\":\"/:id\"}",
              &row, &beside);
}

CHECK_CASE(a_request_of_which_little_is_known) {
  ab_row row = one(((uint64_t)1 << 63) + 3, "/");
  ab_row_beside beside = {.now = 0};
  row.peer.family = row.waits_for.family = 0;
  row.method = AB_ROW_METHOD_OTHER;
  check_all("{\"worker\":0,\"since\":0.0,\"waits_for\":null,\"id\":\"0.q3\",\"age\":0.028,"
            "\"state\":\"db\",\"mode\":\"fiber\",\"phase\":\"called\",\"method\":\"_OTHER\","
            "\"path\":\"/\",\"route\":null,\"peer\":null,\"status\":null,\"place\":3,"
            "\"children\":0,\"sums\":{\"queue\":0.002,\"run\":0.026},\"trace\":null}",
            &row, &beside);
  check_short("{\"id\":\"0.q3\",\"age\":0.028,\"worker\":0,\"mode\":\"fiber\",\"phase\":\"called\","
              "\"state\":\"db\",\"since\":0.0,\"method\":\"_OTHER\",\"path\":\"/\"}",
              &row, &beside);
}

CHECK_CASE(the_longest_one_has_room) {
  char path[AB_ROW_PATH + 1] = "", route[AB_PAGE_ROUTE_NAME], text[AB_ROW_JSON_MAX];
  memset(path, 1, AB_ROW_PATH);
  memset(route, 1, sizeof(route));
  ab_row row = one(UINT64_MAX, path);
  memset(row.peer.bytes, 0xab, sizeof(row.peer.bytes));
  row.peer.family = 6;
  row.waits_for = row.peer;
  row.waits_for.port = row.status = row.place = row.children = UINT16_MAX;
  row.cpu = row.wait_count = UINT32_MAX;
  memset(row.trace, 0xff, sizeof(row.trace));
  memset(row.sums, 0xff, sizeof(row.sums));
  for (unsigned i = 0; i < AB_ROW_WAITS; i++)
    row.waits[i] = (ab_wait){.at = UINT32_MAX,
                             .time = UINT32_MAX,
                             .state = AB_STATE_PROCESS,
                             .family = 4,
                             .port = UINT16_MAX,
                             .peer = {255, 255, 255, 255}};
  ab_row_beside beside = {.now = UINT64_MAX,
                          .slot = UINT32_MAX,
                          .worker = UINT32_MAX,
                          .route = {route, sizeof(route)},
                          .waits = true};
  CHECK(ab_row_json(text, &row, &beside) - text < AB_ROW_JSON_MAX);
  CHECK(ab_row_json_short(text, &row, &beside) - text < AB_ROW_JSON_MAX);
}

CHECK_CASE(the_oldest_come_first) {
  const ab_page_time start = {1000, 2000};
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 200, 4}, start);
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, start));
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_row *rows = parts.rows, *queued = parts.queued;
  for (unsigned i = 0; i < 3; i++)
    ab_row_begin(&rows[i], &(ab_row_start){.id = i, .began = (i * 2 % 3 + 2) * MS});
  ab_row_begin(&queued[1], &(ab_row_start){.id = 9, .began = 1 * MS});
  ab_row_end(&rows[0]);
  AB_PUT(parts.slot->app.mark, 3);
  AB_PUT(parts.slot->queue.mark, 2);
  CHECK_INT(5, ab_row_found_most(&parts));
  ab_row_found found[5];
  size_t count = ab_row_find(found, 5, &parts, 7);
  CHECK_INT(3, count);
  ab_row_sort(found, count);
  CHECK(found[0].row == &queued[1] && found[1].row == &rows[2] && found[2].row == &rows[1]);
  CHECK_INT(7, found[2].slot);
  CHECK_INT(1, ab_row_find(found, 1, &parts, 7));
  CHECK_INT(0, ab_row_find(found, 0, &parts, 7));
  ab_page_drop(page);
}

CHECK_MAIN()
