/* Rows: what is charged to which state, what a reader sees, and what a killed writer leaves. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "page/row.h"

#define MS AB_NSEC_PER_MS

static const ab_addr client = {.bytes = {10, 1, 2, 3}, .port = 4711, .family = 4};
static const ab_addr database = {.bytes = {10, 0, 0, 9}, .port = 5432, .family = 4};

static ab_row_start get(const char *path) {
  return (ab_row_start){.id = 7,
                        .began = 100 * MS,
                        .state = AB_STATE_HEAD,
                        .mode = AB_ROW_FIBER,
                        .method = AB_ROW_METHOD_GET,
                        .place = 2,
                        .peer = &client,
                        .path = {path, strlen(path)}};
}

static ab_nsec sum_of(const ab_row *row) {
  ab_nsec sum = 0;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) sum += row->sums[i];
  return sum;
}

CHECK_CASE(a_row_begins_with_what_is_known) {
  ab_row row = {0}, copy;
  memset(&row.sums, 0xff, sizeof row.sums);
  row.waits_for = database;
  row.wait_count = 5;
  ab_row_start start = get("/reports/1");
  CHECK(!ab_row_load(&row, &copy));
  ab_row_begin(&row, &start);
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(7, copy.id);
  CHECK_INT(AB_STATE_HEAD, copy.state);
  CHECK_INT(100 * MS, copy.since);
  CHECK_INT(0, sum_of(&copy));
  CHECK_INT(0, copy.wait_count);
  CHECK_INT(0, copy.waits_for.family);
  CHECK(memcmp(&copy.peer, &client, sizeof client) == 0);
  CHECK_BYTES("/reports/1", copy.path, copy.path_len);
  CHECK_INT(AB_ROW_NO_ROUTE, copy.route);
  ab_row_end(&row);
  CHECK(!ab_row_load(&row, &copy));
}

CHECK_CASE(paths_of_all_lengths) {
  char path[300];
  for (size_t i = 0; i < sizeof path; i++) path[i] = (char)(i * 7);
  for (size_t len = 0; len <= sizeof path; len++) {
    ab_row row = {0}, copy;
    /* Not one byte more is there to be read. */
    char *exact = malloc(len ? len : 1);
    memcpy(exact, path, len);
    ab_row_start start = get("");
    start.path = (ab_view){exact, len};
    ab_row_begin(&row, &start);
    free(exact);
    CHECK(ab_row_load(&row, &copy));
    CHECK_INT(len < AB_ROW_PATH ? len : AB_ROW_PATH, copy.path_len);
    CHECK(memcmp(path, copy.path, copy.path_len) == 0);
  }
}

CHECK_CASE(all_time_is_charged_to_one_state) {
  ab_row row = {0};
  ab_row_start start = get("/");
  ab_row_begin(&row, &start);
  ab_nsec now = start.began;
  for (unsigned i = 0; i < 1000; i++) {
    now += i * 1000;
    if (i % 5 == 0)
      ab_row_wait(&row, AB_STATE_DB, &database, now);
    else
      ab_row_turn(&row, (enum ab_state)(i % AB_STATE_COUNT), now);
  }
  CHECK_INT(now - start.began, sum_of(&row));
  ab_row_turn(&row, AB_STATE_RUN, now - 5); /* another thread's clock */
  CHECK_INT(now - start.began, sum_of(&row));
  CHECK_INT(now, row.since);
  ab_nsec run = row.sums[AB_STATE_RUN];
  ab_row_shift(&row, AB_STATE_RUN, AB_STATE_GC, 10);
  CHECK_INT(run - 10, row.sums[AB_STATE_RUN]);
  ab_row_shift(&row, AB_STATE_RUN, AB_STATE_GC, run);
  CHECK_INT(0, row.sums[AB_STATE_RUN]);
  CHECK_INT(now - start.began, sum_of(&row));
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) CHECK(!row.sums[i] || row.touched & 1u << i);
}

CHECK_CASE(longer_waits_are_noted) {
  ab_row row = {0}, copy;
  ab_wait waits[AB_ROW_WAITS];
  ab_row_start start = get("/");
  start.state = AB_STATE_RUN;
  ab_row_begin(&row, &start);
  ab_row_wait(&row, AB_STATE_DB, &database, 150 * MS); /* to compute is no wait */
  ab_row_turn(&row, AB_STATE_RUN, 153 * MS);
  ab_row_turn(&row, AB_STATE_SLEEP, 154 * MS);
  ab_row_turn(&row, AB_STATE_RUN, 155 * MS - 1); /* too short */
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(1, ab_row_waits(&copy, waits));
  CHECK_INT(50000, waits[0].at);
  CHECK_INT(3000, waits[0].time);
  CHECK_INT(AB_STATE_DB, waits[0].state);
  CHECK_INT(5432, waits[0].port);
  CHECK(memcmp(waits[0].peer, database.bytes, 4) == 0);
  ab_nsec now = 155 * MS;
  for (unsigned i = 0; i < 40; i++) {
    ab_row_turn(&row, AB_STATE_LOCK, now);
    now += (2 + i) * MS;
    ab_row_turn(&row, AB_STATE_RUN, now);
  }
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(AB_ROW_WAITS, ab_row_waits(&copy, waits));
  for (unsigned i = 0; i < AB_ROW_WAITS; i++) CHECK_INT((2 + 8 + i) * 1000, waits[i].time);
  ab_row_turn(&row, AB_STATE_LOCK, now);
  ab_row_turn(&row, AB_STATE_RUN, now + 5000 * AB_NSEC_PER_SEC);
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(AB_ROW_WAITS, ab_row_waits(&copy, waits));
  CHECK_INT(UINT32_MAX, waits[AB_ROW_WAITS - 1].time);
}

CHECK_CASE(what_it_waits_for_is_known_while_it_waits) {
  ab_row row = {0}, copy;
  ab_row_start start = get("/");
  ab_row_begin(&row, &start);
  ab_row_wait(&row, AB_STATE_DB, &database, 101 * MS);
  CHECK(ab_row_load(&row, &copy));
  CHECK(memcmp(&copy.waits_for, &database, sizeof database) == 0);
  ab_row_turn(&row, AB_STATE_RUN, 102 * MS);
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(0, copy.waits_for.family);
}

/* Whatever stands there, a reader gets nothing that leads out of a table. */
CHECK_CASE(garbage_is_not_read) {
  ab_row row, copy;
  ab_wait waits[AB_ROW_WAITS];
  for (unsigned byte = 0; byte < 256; byte++) {
    memset(&row, (int)byte, sizeof row);
    row.seq = 2;
    if (ab_row_load(&row, &copy)) {
      CHECK(copy.state < AB_STATE_COUNT && copy.path_len <= AB_ROW_PATH);
      CHECK(copy.mode < AB_ROW_MODES && copy.phase < AB_ROW_PHASES);
      CHECK(copy.method < AB_ROW_METHOD_COUNT);
    }
    ab_row_start start = get("/");
    ab_row_begin(&row, &start);
    AB_PUT(row.wait_count, byte * 16777619u);
    memset(row.waits, (int)byte, sizeof row.waits);
    CHECK(ab_row_load(&row, &copy));
    unsigned count = ab_row_waits(&copy, waits);
    for (unsigned i = 0; i < count; i++) CHECK(waits[i].state < AB_STATE_COUNT);
  }
}

CHECK_CASE(a_write_that_was_cut_short) {
  ab_row row = {0}, copy;
  ab_row_start start = get("/");
  ab_row_begin(&row, &start);
  ab_row_open(&row);
  AB_PUT(row.status, 500); /* and then it was killed */
  CHECK(!ab_row_load(&row, &copy));
  ab_row_begin(&row, &start); /* the next process takes the row */
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(0, copy.status);
  ab_row_open(&row);
  CHECK(!ab_row_load(&row, &copy));
  ab_row_end(&row);
  CHECK(!ab_row_load(&row, &copy));
  ab_row_begin(&row, &start); /* goes on from an odd number */
  CHECK(ab_row_load(&row, &copy));
  CHECK_INT(0, row.seq % 2);
}

/* Rows of a child that is killed wherever it is: none is seen in halves. */
CHECK_CASE(a_writer_is_killed_anywhere) {
  ab_row *row = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(row != MAP_FAILED);
  unsigned whole = 0, cut = 0;
  for (int round = 0; round < 40; round++) {
    pid_t pid = fork();
    if (pid == 0) {
      for (uint64_t n = 1;; n++) {
        ab_row_start start = get("/");
        start.id = n;
        start.began = n;
        ab_row_begin(row, &start);
        ab_row_turn(row, AB_STATE_RUN, 2 * n);
      }
    }
    usleep(500 + (useconds_t)round * 37);
    CHECK_INT(0, kill(pid, SIGKILL));
    CHECK_INT(pid, waitpid(pid, NULL, 0));
    ab_row copy;
    if (!ab_row_load(row, &copy)) {
      cut++;
      continue;
    }
    whole++;
    CHECK(copy.id == copy.began);
    CHECK(copy.state == AB_STATE_HEAD || copy.sums[AB_STATE_HEAD] == copy.id);
  }
  CHECK_INT(40, whole + cut);
  CHECK(cut > 0);
  ab_row_start start = get("/");
  ab_row copy;
  ab_row_begin(row, &start);
  CHECK(ab_row_load(row, &copy));
  munmap(row, 4096);
}

CHECK_CASE(names) {
  CHECK(strcmp("proxy", ab_state_name(AB_STATE_PROXY)) == 0);
  CHECK(strcmp("gc", ab_state_name(AB_STATE_GC)) == 0);
  CHECK_INT(AB_ROW_METHOD_QUERY, ab_row_method_of("QUERY", 5));
  CHECK_INT(AB_ROW_METHOD_OTHER, ab_row_method_of("get", 3));
  CHECK_INT(AB_ROW_METHOD_OTHER, ab_row_method_of("_OTHER", 6));
  CHECK_INT(AB_ROW_METHOD_OTHER, ab_row_method_of("", 0));
  CHECK(strcmp("_OTHER", ab_row_method_name(AB_ROW_METHOD_OTHER)) == 0);
  CHECK(strcmp("PATCH", ab_row_method_name(AB_ROW_METHOD_PATCH)) == 0);
}

CHECK_MAIN()
