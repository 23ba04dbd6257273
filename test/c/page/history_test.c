/* History: what a second's record has, what ten of them have, and how gaps are told. */
#include "check.h"
#include "page/history.h"

#define SEC     AB_NSEC_PER_SEC
#define MS      AB_NSEC_PER_MS
#define SECONDS 30
#define TENS    5

static ab_history_record seconds[SECONDS], tens[TENS];
static ab_history self;
static ab_history_totals totals;
static ab_cells cells;

static void begin(void) {
  memset(seconds, 0, sizeof seconds);
  memset(tens, 0, sizeof tens);
  totals = (ab_history_totals){.requests = 1000, .cpu = 50 * SEC};
  cells = (ab_cells){.sum = 0};
  ab_cells_add(&cells, 90 * SEC);
  ab_history_over(&self, seconds, SECONDS, tens, TENS, &totals, &cells);
}

static void tick(ab_nsec second) {
  ab_history_tick(&self, second * SEC + 7, &totals, &cells);
}

CHECK_CASE(a_record_has_what_came_since_the_last) {
  begin();
  ab_history_record record;
  totals.requests += 5;
  totals.failed = 2;
  totals.cpu += 300 * MS;
  totals.db = 40 * MS;
  totals.in_app = 3;
  totals.rss = 80;
  for (int i = 0; i < 5; i++) ab_cells_add(&cells, 20 * MS);
  tick(100);
  totals.requests += 1;
  tick(101);
  CHECK(ab_history_load(seconds, SECONDS, 100, &record));
  CHECK_INT(5, record.values.requests);
  CHECK_INT(2, record.values.failed);
  CHECK_INT(300, record.values.cpu);
  CHECK_INT(40, record.values.db);
  CHECK_INT(3, record.values.in_app);
  CHECK_INT(80, record.values.rss);
  CHECK(record.values.p50 >= 20000 && record.values.p50 < 22000);
  CHECK_INT(record.values.p50, record.values.p99);
  CHECK(ab_history_load(seconds, SECONDS, 101, &record));
  CHECK_INT(1, record.values.requests);
  CHECK_INT(0, record.values.cpu);
  CHECK_INT(0, record.values.p50);
}

CHECK_CASE(a_second_is_written_once) {
  begin();
  ab_history_record record;
  totals.requests += 5;
  tick(100);
  totals.requests += 3;
  tick(100); /* early: it counts for the next one */
  tick(101);
  CHECK(ab_history_load(seconds, SECONDS, 100, &record));
  CHECK_INT(5, record.values.requests);
  CHECK(ab_history_load(seconds, SECONDS, 101, &record));
  CHECK_INT(3, record.values.requests);
}

CHECK_CASE(seconds_without_a_tick_have_no_record) {
  begin();
  ab_history_record record;
  tick(100);
  totals.requests += 9;
  tick(104);
  CHECK(!ab_history_load(seconds, SECONDS, 99, &record));
  for (uint32_t i = 101; i < 104; i++) CHECK(!ab_history_load(seconds, SECONDS, i, &record));
  CHECK(ab_history_load(seconds, SECONDS, 104, &record));
  CHECK_INT(9, record.values.requests);
  tick(104 + SECONDS); /* takes the place of 104 */
  CHECK(!ab_history_load(seconds, SECONDS, 104, &record));
  CHECK(ab_history_load(seconds, SECONDS, 104 + SECONDS, &record));
  CHECK(!ab_history_load(seconds, SECONDS, 0, &record));
}

CHECK_CASE(ten_seconds_become_one) {
  begin();
  ab_history_record record;
  for (ab_nsec second = 100; second < 110; second++) {
    totals.requests += 2;
    totals.in_app = second == 103 ? 50 : 1;
    totals.rss = (uint32_t)second;
    ab_cells_add(&cells, second == 105 ? 2 * SEC : MS);
    tick(second);
  }
  CHECK(!ab_history_load(tens, TENS, 10, &record));
  totals.requests += 100;
  tick(110);
  CHECK(ab_history_load(tens, TENS, 10, &record));
  CHECK_INT(20, record.values.requests);
  CHECK_INT(50, record.values.in_app);
  CHECK_INT(109, record.values.rss);
  CHECK(record.values.p50 >= 1000 && record.values.p50 < 1100);
  CHECK(record.values.p95 >= 2000000 && record.values.p95 < 2200000);
  tick(135);
  CHECK(ab_history_load(tens, TENS, 11, &record));
  CHECK_INT(100, record.values.requests);
  CHECK(!ab_history_load(tens, TENS, 12, &record));
}

CHECK_CASE(values_that_are_too_large) {
  begin();
  ab_history_record record;
  for (ab_nsec second = 100; second <= 110; second++) {
    totals.requests += (uint64_t)3 << 32;
    totals.run += UINT64_MAX / 100;
    tick(second);
  }
  CHECK(ab_history_load(seconds, SECONDS, 100, &record));
  CHECK(record.values.requests == UINT32_MAX);
  CHECK(record.values.run == UINT32_MAX);
  CHECK(ab_history_load(tens, TENS, 10, &record));
  CHECK(record.values.requests == UINT32_MAX);
}

CHECK_CASE(a_record_that_was_cut_short) {
  begin();
  ab_history_record record;
  tick(100);
  ab_seq_open(&seconds[100 % SECONDS].seq);
  CHECK(!ab_history_load(seconds, SECONDS, 100, &record));
  tick(100 + SECONDS);
  CHECK(ab_history_load(seconds, SECONDS, 100 + SECONDS, &record));
  ab_history_over(&self, seconds, 0, tens, 0, &totals, &cells); /* areas without records */
  tick(200);
  tick(210);
}

CHECK_MAIN()
