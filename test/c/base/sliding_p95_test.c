/* The p95 of the last times: at its borders, against a plain calculation, and as old times go. */
#include "base/sliding_p95.h"
#include "check.h"

#define MS AB_NSEC_PER_MS

static void add(ab_sliding_p95 *window, unsigned count, ab_nsec time) {
  for (unsigned i = 0; i < count; i++) ab_sliding_p95_add(window, time);
}

CHECK_CASE(nothing_is_not_above) {
  ab_sliding_p95 window;
  ab_sliding_p95_begin(&window, 50 * MS);
  CHECK(!ab_sliding_p95_exceeds(&window));
  CHECK_INT(0, ab_sliding_p95_p95(&window));
}

CHECK_CASE(one_of_twenty_may_be_above) {
  ab_sliding_p95 window;
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, 19, MS);
  add(&window, 1, 500 * MS);
  CHECK(!ab_sliding_p95_exceeds(&window));
  CHECK_INT(MS, ab_sliding_p95_p95(&window));
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, 18, MS);
  add(&window, 2, 500 * MS);
  CHECK(ab_sliding_p95_exceeds(&window));
  CHECK_INT(500 * MS, ab_sliding_p95_p95(&window));
}

CHECK_CASE(the_limit_itself_is_not_above) {
  ab_sliding_p95 window;
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, 20, 50 * MS);
  CHECK(!ab_sliding_p95_exceeds(&window));
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, 20, 50 * MS + 1);
  CHECK(ab_sliding_p95_exceeds(&window));
}

CHECK_CASE(old_times_go) {
  ab_sliding_p95 window;
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, AB_SLIDING_P95_SIZE, 80 * MS);
  add(&window, AB_SLIDING_P95_SIZE - 7, MS);
  CHECK(ab_sliding_p95_exceeds(&window)); /* 7 of 128 */
  add(&window, 1, MS);
  CHECK(!ab_sliding_p95_exceeds(&window)); /* 6 */
  CHECK_INT(MS, ab_sliding_p95_p95(&window));
  CHECK_INT(AB_SLIDING_P95_SIZE, window.count);
}

CHECK_CASE(what_no_number_holds_is_the_longest) {
  ab_sliding_p95 window;
  ab_sliding_p95_begin(&window, 50 * MS);
  add(&window, 1, UINT64_MAX);
  CHECK(ab_sliding_p95_p95(&window) > 3600 * AB_NSEC_PER_SEC);
  ab_sliding_p95_begin(&window, 0);
  add(&window, 1, 0);
  CHECK(!ab_sliding_p95_exceeds(&window));
  add(&window, 1, 1);
  CHECK(ab_sliding_p95_exceeds(&window));
}

/* The p95 is above the limit exactly when one says so who puts all times in order. */
CHECK_CASE(the_count_and_the_figure_agree) {
  ab_sliding_p95 window;
  unsigned state = 12345;
  for (unsigned turn = 0; turn < 200; turn++) {
    ab_sliding_p95_begin(&window, 50 * MS);
    unsigned count = 1 + turn * 3 % 300, slow = turn % 12;
    for (unsigned i = 0; i < count; i++) {
      state = state * 1103515245 + 12345;
      ab_sliding_p95_add(&window, state / 65536 % 100 < slow ? 90 * MS : 10 * MS);
      CHECK_INT(ab_sliding_p95_p95(&window) > 50 * MS, ab_sliding_p95_exceeds(&window));
    }
  }
}

CHECK_MAIN()
