/* The bell that wakes whoever watches pulses: an eventfd, as it can be waited for together with a
 * poller. */
#include "io/pulse.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int ab_bell_init(ab_bell *bell) {
  atomic_init(&bell->asleep, false);
  bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return bell->fd < 0 ? AB_ESYS : AB_OK;
}

void ab_bell_fini(ab_bell *bell) {
  if (bell->fd >= 0) close(bell->fd);
  bell->fd = -1;
}

void ab_bell_ring(ab_bell *bell) {
  int saved = errno;
  uint64_t one = 1;
  ssize_t written = write(bell->fd, &one, sizeof one);
  (void)written;
  errno = saved;
}

void ab_bell_hush(ab_bell *bell) {
  uint64_t count;
  ssize_t got = read(bell->fd, &count, sizeof count);
  (void)got;
}
