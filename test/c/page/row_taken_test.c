/* Rows that are used again: what most requests do not clear is not there. */
#include "check.h"
#include "page/exemplars.h"
#include "page/kept.h"
#include "page/row_taken.h"
#include "page/rows.h"

#define MS AB_NSEC_PER_MS

static const ab_addr client = {.bytes = {10, 1, 2, 3}, .port = 4711, .family = 4};
static const ab_addr other = {.bytes = {0xfd, 1, [15] = 9}, .port = 80, .family = 6};
static const ab_addr database = {.bytes = {10, 0, 0, 9}, .port = 5432, .family = 4};

static ab_row_start start_of(uint64_t id, const char *path) {
  return (ab_row_start){.id = id,
                        .began = id * 100 * MS,
                        .state = AB_STATE_QUEUE,
                        .mode = AB_ROW_FIBER,
                        .method = AB_ROW_METHOD_GET,
                        .place = 2,
                        .peer = &client,
                        .path = {path, strlen(path)}};
}

/* Each member, as a plain request has it that was taken 3 ms after it came. */
static void check_fresh(const ab_row *row, uint64_t id, const char *path) {
  static const uint8_t none[16];
  ab_row copy;
  ab_wait waits[AB_ROW_WAITS];
  ab_nsec began = id * 100 * MS;
  CHECK(ab_row_load(row, &copy));
  CHECK_INT(0, copy.seq % 2);
  CHECK_INT(AB_STATE_RUN, copy.state);
  CHECK_INT(AB_ROW_FIBER, copy.mode);
  CHECK_INT(AB_ROW_CALLED, copy.phase);
  CHECK_INT(began + 3 * MS, copy.since);
  CHECK_INT(id, copy.id);
  CHECK_INT(began, copy.began);
  CHECK_INT(began + 3 * MS, copy.taken);
  CHECK_INT(1 << AB_STATE_QUEUE, copy.touched);
  CHECK_INT(AB_ROW_NO_ROUTE, copy.route);
  CHECK_INT(2, copy.place);
  CHECK_INT(0, copy.children);
  CHECK_INT(0, copy.status);
  CHECK_INT(AB_ROW_METHOD_GET, copy.method);
  CHECK_INT(0, copy.cpu);
  CHECK_INT(0, copy.wait_count);
  CHECK_INT(0, ab_row_waits(&copy, waits));
  for (unsigned i = 0; i < AB_STATE_COUNT; i++)
    CHECK_INT(i == AB_STATE_QUEUE ? 3 * MS : 0, copy.sums[i]);
  CHECK(memcmp(&copy.peer, &client, sizeof client) == 0);
  CHECK_INT(0, copy.waits_for.family);
  CHECK(memcmp(copy.trace, none, 16) == 0);
  CHECK(memcmp(copy.span, none, 8) == 0);
  CHECK(!copy.sampled && !ab_row_is_traced(&copy));
  CHECK_INT(0, copy.number);
  CHECK_INT(0, copy.reason);
  CHECK_INT(AB_ROW_END_DONE, copy.end);
  CHECK_INT(0, copy.stalls);
  CHECK_INT(0, copy.stall_time);
  CHECK_BYTES(path, copy.path, copy.path_len);
}

static void begin(ab_row *row, uint64_t id, const char *path) {
  ab_row_start start = start_of(id, path);
  ab_row_begin_taken(row, &start, start.began + 3 * MS);
}

/* All that a request may leave in its row. */
static void use(ab_row *row) {
  const ab_trace trace = {.trace = {1, [15] = 2}, .span = {3, [7] = 4}, .sampled = true};
  ab_row_start start = start_of(50, "/with/a/longer/path/than/the/next");
  start.peer = &other;
  start.method = AB_ROW_METHOD_POST;
  start.mode = AB_ROW_THREAD;
  start.place = 7;
  start.state = AB_STATE_PROXY;
  ab_row_begin(row, &start);
  for (unsigned i = 0; i < 2 * AB_STATE_COUNT; i++)
    ab_row_wait(row, (enum ab_state)(i % AB_STATE_COUNT), &database, start.began + i * 2 * MS);
  ab_row_shift(row, AB_STATE_IO, AB_STATE_GC, 1);
  ab_row_set_trace(row, &trace);
  AB_ROW_SET(row, status, 500);
  AB_ROW_SET(row, phase, AB_ROW_ANSWERED);
  AB_ROW_SET(row, children, 3);
  AB_ROW_SET(row, route, 4);
  AB_ROW_SET(row, stalls, 2);
  AB_ROW_SET(row, stall_time, 9 * MS);
  AB_ROW_SET(row, end, AB_ROW_END_APP);
  AB_ROW_SET(row, cpu, 11);
}

CHECK_CASE(a_row_of_whatever_was_there) {
  for (unsigned byte = 0; byte < 256; byte++) {
    ab_row rows[1];
    uint32_t mark = 0;
    uint64_t missed = 0;
    ab_rows list;
    memset(rows, (int)byte, sizeof rows);
    CHECK_INT(AB_OK, ab_rows_init(&list, &ab_mem_libc, rows, 1, &mark, &missed));
    ab_row *row = ab_rows_take(&list);
    begin(row, 1, "/");
    check_fresh(row, 1, "/");
    ab_rows_fini(&list);
  }
}

/* Even if it looks plain: its process may have been killed amid a turn. */
CHECK_CASE(a_row_of_a_process_that_was_killed) {
  ab_row rows[1] = {0};
  uint32_t mark = 0;
  uint64_t missed = 0;
  ab_rows list;
  use(&rows[0]);
  AB_PUT(rows[0].touched, AB_ROW_PLAIN);
  CHECK_INT(AB_OK, ab_rows_init(&list, &ab_mem_libc, rows, 1, &mark, &missed));
  begin(ab_rows_take(&list), 2, "/items/12");
  check_fresh(&rows[0], 2, "/items/12");
  ab_rows_fini(&list);
}

CHECK_CASE(a_row_that_was_plain) {
  ab_row row = {0}, copy;
  for (uint64_t id = 1; id < 5; id++) {
    begin(&row, id, id % 2 ? "/a" : "/another/path");
    CHECK(ab_row_is_plain(&row));
    check_fresh(&row, id, id % 2 ? "/a" : "/another/path");
    AB_ROW_SET(&row, status, 204); /* single words that each beginning sets */
    AB_ROW_SET(&row, phase, AB_ROW_ANSWERED);
    AB_ROW_SET(&row, children, 1);
    ab_row_end(&row);
    CHECK(!ab_row_load(&row, &copy));
    CHECK(ab_row_is_plain(&row));
  }
}

CHECK_CASE(a_row_that_was_used) {
  ab_row row = {0};
  begin(&row, 1, "/");
  use(&row);
  CHECK(!ab_row_is_plain(&row));
  ab_row_end(&row);
  begin(&row, 2, "/b");
  check_fresh(&row, 2, "/b");
  use(&row);
  ab_row_open(&row); /* ... by a process that was killed there */
  begin(&row, 3, "/c");
  check_fresh(&row, 3, "/c");
}

/* The other beginning leaves nothing either. */
CHECK_CASE(a_row_that_begins_otherwise) {
  ab_row row = {0};
  use(&row);
  ab_row_start start = start_of(6, "/d");
  ab_row_begin(&row, &start);
  CHECK(!ab_row_is_plain(&row));
  ab_row_turn(&row, AB_STATE_RUN, start.began + 3 * MS);
  CHECK(!ab_row_is_plain(&row));
  AB_PUT(row.taken, start.began + 3 * MS);
  AB_PUT(row.touched, AB_ROW_PLAIN);
  CHECK_INT(1, row.wait_count); /* it was in the queue for long */
  AB_PUT(row.wait_count, 0);
  check_fresh(&row, 6, "/d");
}

/* Whatever happens to it, in no time as well, it is not plain any more. */
CHECK_CASE(what_ends_being_plain) {
  const ab_nsec now = 103 * MS;
  for (unsigned i = 0; i < 3; i++) {
    ab_row row = {0};
    begin(&row, 1, "/");
    if (i == 0) ab_row_turn(&row, AB_STATE_RUN, now);
    if (i == 1) ab_row_wait(&row, AB_STATE_DB, &database, now - 1);
    if (i == 2) ab_row_shift(&row, AB_STATE_QUEUE, AB_STATE_GC, 1);
    CHECK(!ab_row_is_plain(&row));
    CHECK_INT(103 * MS - 100 * MS, row.sums[AB_STATE_QUEUE] + row.sums[AB_STATE_GC]);
  }
}

CHECK_CASE(paths_of_all_lengths) {
  char path[300];
  ab_row row = {0}, copy;
  for (size_t i = 0; i < sizeof path; i++) path[i] = (char)(i * 7 + 130);
  for (size_t len = 0; len <= sizeof path; len++) {
    /* Not one byte more is there to be read. */
    char *exact = malloc(len ? len : 1);
    memcpy(exact, path, len);
    ab_row_start start = start_of(1, "");
    start.path = (ab_view){exact, len};
    ab_row_begin_taken(&row, &start, start.began);
    free(exact);
    CHECK(ab_row_load(&row, &copy));
    CHECK_INT(len < AB_ROW_PATH ? len : AB_ROW_PATH, copy.path_len);
    CHECK(memcmp(path, copy.path, copy.path_len) == 0);
  }
}

/* Another thread has noted its arrival by a clock that is ahead. */
CHECK_CASE(taken_before_it_came) {
  ab_row row = {0};
  ab_row_start start = start_of(1, "/");
  ab_row_begin_taken(&row, &start, start.began - 5);
  CHECK_INT(start.began, row.since);
  CHECK_INT(0, row.sums[AB_STATE_QUEUE]);
}

/* What is kept of it has no waits of the one that was kept there before. */
CHECK_CASE(kept_after_one_with_waits) {
  ab_row kept[1] = {0}, row = {0}, copy;
  ab_wait waits[AB_ROW_WAITS];
  uint64_t next = 0;
  use(&row);
  ab_kept_add(kept, 1, &next, &row, AB_KEPT_FAILED);
  CHECK(ab_kept_load(kept, 1, 0, &copy));
  CHECK(ab_row_waits(&copy, waits) > 0);
  begin(&row, 2, "/");
  ab_kept_add(kept, 1, &next, &row, AB_KEPT_SAMPLED);
  CHECK(ab_kept_load(kept, 1, 1, &copy));
  CHECK_INT(0, ab_row_waits(&copy, waits));
  CHECK_INT(AB_ROW_END_DONE, copy.end);
  CHECK_INT(AB_KEPT_SAMPLED, copy.reason);
  CHECK(!ab_row_is_traced(&copy));
  CHECK_INT(2, copy.id);
}

CHECK_MAIN()
