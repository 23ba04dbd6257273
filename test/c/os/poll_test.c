/* A wait by the nanosecond ends when something is there, or not before its time. */
#include "os/poll.h"

#include <unistd.h>

#include "check.h"
#include "io/timer.h"

CHECK_CASE(what_is_there_is_told_at_once) {
  int pipes[2];
  CHECK_INT(0, pipe(pipes));
  struct pollfd fds[] = {{pipes[0], POLLIN, 0}, {pipes[1], POLLOUT, 0}};
  CHECK_INT(0, ab_os_poll(fds, 1, 0));
  CHECK_INT(1, write(pipes[1], "x", 1));
  CHECK_INT(2, ab_os_poll(fds, 2, UINT64_MAX));
  CHECK_INT(POLLIN, fds[0].revents);
  CHECK_INT(POLLOUT, fds[1].revents);
  close(pipes[0]);
  close(pipes[1]);
}

/* One that ends early would make its caller spin. */
CHECK_CASE(a_wait_is_never_shorter) {
  struct pollfd none = {-1, POLLIN, 0};
  static const ab_nsec times[] = {1, 999, AB_NSEC_PER_MS - 1, AB_NSEC_PER_MS + 1,
                                  5 * AB_NSEC_PER_MS};
  for (size_t i = 0; i < AB_ARRAY_LEN(times); i++) {
    ab_nsec began = ab_clock_monotonic();
    CHECK_INT(0, ab_os_poll(&none, 1, times[i]));
    CHECK(ab_clock_monotonic() - began >= times[i]);
  }
}

CHECK_MAIN()
