/* The clocks, and that they agree with each other. */
#include <time.h>

#include "check.h"
#include "io/timer.h"

CHECK_CASE(monotonic_time_goes_forward) {
  ab_nsec first = ab_clock_monotonic();
  CHECK(first > 0);
  struct timespec pause = {.tv_nsec = 2000000};
  CHECK_INT(0, nanosleep(&pause, NULL));
  CHECK(ab_clock_monotonic() >= first + 2 * AB_NSEC_PER_MS);
}

/* The coarse clock is behind by a tick of the kernel's at most. */
CHECK_CASE(the_date_is_the_same_in_seconds_and_nanoseconds) {
  int64_t before = ab_clock_unix();
  ab_nsec now = ab_clock_unix_nsec();
  int64_t after = ab_clock_unix();
  CHECK(before > 1700000000);
  CHECK((int64_t)(now / AB_NSEC_PER_SEC) >= before);
  CHECK((int64_t)(now / AB_NSEC_PER_SEC) <= after + 1);
}

CHECK_MAIN()
