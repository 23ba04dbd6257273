/* The bell is an eventfd, which can be waited for together with a poller. */
#include "lead/pulse.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "io/poller.h"

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

void ab_bell_wake(ab_bell *bell) {
  /* Of several that leave one rings. Partner: the stores in ab_bell_sleep and wait_for_bell. */
  if (atomic_exchange(&bell->asleep, false)) ab_bell_ring(bell);
}

void ab_bell_hush(ab_bell *bell) {
  uint64_t count;
  ssize_t got = read(bell->fd, &count, sizeof count);
  (void)got;
}

static void wait_for_bell(ab_bell *bell, int fd, ab_nsec timeout) {
  struct pollfd fds[] = {{bell->fd, POLLIN, 0}, {fd, POLLIN, 0}};
  struct timespec ts, *until = NULL;
  if (timeout != AB_POLL_FOREVER) {
    ts = (struct timespec){.tv_sec = (time_t)(timeout / AB_NSEC_PER_SEC),
                           .tv_nsec = (long)(timeout % AB_NSEC_PER_SEC)};
    until = &ts;
  }
  ppoll(fds, fd >= 0 ? 2 : 1, until, NULL);
  /* Before the next look at beats: who leaves later and does not ring is seen by that. */
  atomic_store(&bell->asleep, false);
  if (fds[0].revents) ab_bell_hush(bell);
}

void ab_bell_sleep(ab_bell *bell, int fd, ab_nsec most, bool (*away)(void *ctx), void *ctx) {
  /* A thread that left before it could see that we sleep is seen here. Partner: ab_pulse_leave. */
  atomic_store(&bell->asleep, true);
  wait_for_bell(bell, fd, away(ctx) ? 0 : most);
}

void ab_bell_await(ab_bell *bell, int fd, ab_nsec timeout, bool (*away)(void *ctx), void *ctx) {
  if (timeout == AB_POLL_FOREVER) {
    ab_bell_sleep(bell, fd, AB_POLL_FOREVER, away, ctx);
  } else {
    wait_for_bell(bell, fd, timeout);
  }
}
