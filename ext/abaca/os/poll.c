#include "os/poll.h"

#ifdef AB_HAS_PPOLL
#include <time.h>

int ab_os_poll(struct pollfd *fds, unsigned count, ab_nsec timeout) {
  const struct timespec time = {.tv_sec = (time_t)(timeout / AB_NSEC_PER_SEC),
                                .tv_nsec = (long)(timeout % AB_NSEC_PER_SEC)};
  return ppoll(fds, count, timeout == UINT64_MAX ? NULL : &time, NULL);
}
#else
#include <limits.h>

int ab_os_poll(struct pollfd *fds, unsigned count, ab_nsec timeout) {
  if (timeout == UINT64_MAX) return poll(fds, count, -1);
  ab_nsec ms = timeout / AB_NSEC_PER_MS + (timeout % AB_NSEC_PER_MS != 0);
  return poll(fds, count, ms < INT_MAX ? (int)ms : INT_MAX);
}
#endif
