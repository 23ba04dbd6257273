/* The bell can be waited for together with a poller. */
#include "lead/pulse.h"

#include "io/poller.h"
#include "os/poll.h"

int ab_bell_init(ab_bell *bell) {
  atomic_init(&bell->asleep, false);
  return ab_os_bell_init(&bell->os) == 0 ? AB_OK : AB_ESYS;
}

void ab_bell_fini(ab_bell *bell) {
  ab_os_bell_fini(&bell->os);
}

void ab_bell_ring(ab_bell *bell) {
  ab_os_bell_ring(&bell->os);
}

void ab_bell_wake(ab_bell *bell) {
  /* Of several that leave one rings. Partner: the stores in ab_bell_sleep and wait_for_bell. */
  if (atomic_exchange(&bell->asleep, false)) ab_bell_ring(bell);
}

void ab_bell_hush(ab_bell *bell) {
  ab_os_bell_hush(&bell->os);
}

static void wait_for_bell(ab_bell *bell, int fd, ab_nsec timeout) {
  struct pollfd fds[] = {{bell->os.fd, POLLIN, 0}, {fd, POLLIN, 0}};
  ab_os_poll(fds, fd >= 0 ? 2 : 1, timeout);
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
