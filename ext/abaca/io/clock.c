/* The clocks come from the vDSO: no system call. */
#include <time.h>

#include "io/timer.h"
#include "os/time.h"

ab_nsec ab_clock_monotonic(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
}

int64_t ab_clock_unix(void) {
  return ab_os_unix_seconds();
}

ab_nsec ab_clock_unix_nsec(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (ts.tv_sec < 0) return 0;
  return (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
}
