/* Pulses and the bell of their watcher. */
#include <poll.h>
#include <time.h>

#include "check.h"
#include "io/poller.h"
#include "io/thread.h"
#include "io/timer.h"
#include "lead/pulse.h"

static bool never(void *ctx AB_UNUSED) {
  return false;
}

static bool at_once(void *ctx) {
  ++*(unsigned *)ctx;
  return true;
}

static bool is_rung(const ab_bell *bell) {
  struct pollfd readable = {bell->os.fd, POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

static uint64_t beat_of(const ab_pulse *pulse) {
  return atomic_load(&pulse->beat);
}

CHECK_CASE(each_time_away_has_a_number_of_its_own) {
  ab_pulse pulse = {0};
  ab_pulse_return(&pulse);
  CHECK_INT(0, beat_of(&pulse));
  ab_pulse_leave(&pulse);
  uint64_t first = beat_of(&pulse);
  CHECK_INT(1, first & 1);
  ab_pulse_leave(&pulse); /* on to something else there */
  uint64_t second = beat_of(&pulse);
  CHECK_INT(1, second & 1);
  CHECK(second != first);
  ab_pulse_return(&pulse);
  uint64_t back = beat_of(&pulse);
  CHECK_INT(0, back & 1);
  ab_pulse_return(&pulse);
  CHECK_INT(back, beat_of(&pulse));
  ab_pulse_leave(&pulse);
  CHECK(beat_of(&pulse) != first && beat_of(&pulse) != second);
}

CHECK_CASE(what_waits_for_the_lock_is_known) {
  ab_pulse pulse = {0};
  CHECK(!ab_pulse_waits(&pulse));
  ab_pulse_starve(&pulse);
  CHECK(ab_pulse_waits(&pulse));
  CHECK_INT(1, beat_of(&pulse) & 1);
  ab_pulse_feed(&pulse);
  CHECK(!ab_pulse_waits(&pulse));
  CHECK_INT(0, beat_of(&pulse) & 1);
  atomic_store(&pulse.reading, true);
  CHECK(ab_pulse_waits(&pulse));
}

CHECK_CASE(it_is_rung_only_for_a_watcher_that_sleeps) {
  ab_bell bell;
  CHECK_INT(AB_OK, ab_bell_init(&bell));
  ab_pulse pulse = {.bell = &bell};
  ab_pulse_leave(&pulse);
  CHECK(!is_rung(&bell));
  atomic_store(&bell.asleep, true);
  ab_pulse_return(&pulse);
  CHECK(!is_rung(&bell));
  ab_pulse_leave(&pulse);
  CHECK(is_rung(&bell));
  ab_bell_hush(&bell);
  CHECK(!is_rung(&bell));
  ab_pulse_leave(&pulse); /* it has been woken */
  CHECK(!is_rung(&bell));
  ab_bell_hush(&bell);
  ab_bell_fini(&bell);
  ab_bell_fini(&bell);
}

CHECK_CASE(the_watcher_waits_for_a_time) {
  ab_bell bell;
  CHECK_INT(AB_OK, ab_bell_init(&bell));
  ab_nsec began = ab_clock_monotonic();
  ab_bell_await(&bell, -1, 5 * AB_NSEC_PER_MS, at_once, NULL); /* only a sleeper asks */
  CHECK(ab_clock_monotonic() - began >= 5 * AB_NSEC_PER_MS);
  CHECK(!atomic_load(&bell.asleep));
  ab_bell_fini(&bell);
}

CHECK_CASE(the_watcher_waits_for_a_descriptor_too) {
  ab_bell bell, other;
  CHECK_INT(AB_OK, ab_bell_init(&bell));
  CHECK_INT(AB_OK, ab_bell_init(&other));
  ab_bell_ring(&other);
  ab_bell_await(&bell, other.os.fd, AB_POLL_FOREVER, never, NULL);
  CHECK(is_rung(&other)); /* whose it is, sees to it */
  ab_bell_ring(&bell);
  ab_bell_await(&bell, -1, AB_POLL_FOREVER, never, NULL);
  CHECK(!is_rung(&bell));
  ab_bell_fini(&other);
  ab_bell_fini(&bell);
}

CHECK_CASE(a_sleeper_asks_whether_one_has_left_already) {
  ab_bell bell;
  unsigned asked = 0;
  CHECK_INT(AB_OK, ab_bell_init(&bell));
  ab_bell_await(&bell, -1, AB_POLL_FOREVER, at_once, &asked);
  CHECK_INT(1, asked);
  CHECK(!atomic_load(&bell.asleep));
  ab_bell_fini(&bell);
}

/* One thread leaves and returns, the other sleeps whenever it sees it there: no departure is lost.
 */
typedef struct pair {
  ab_pulse pulse;
  ab_bell bell;
  uint64_t seen;
  _Atomic uint64_t noticed; /* the beat at the watcher's last look */
  _Atomic bool over;
} pair;

static bool has_left(void *arg) {
  pair *p = arg;
  return beat_of(&p->pulse) != p->seen;
}

static void *watch(void *arg) {
  pair *p = arg;
  while (!atomic_load(&p->over)) {
    p->seen = beat_of(&p->pulse);
    atomic_store(&p->noticed, p->seen);
    if (!(p->seen & 1)) ab_bell_await(&p->bell, -1, AB_POLL_FOREVER, has_left, p);
  }
  return NULL;
}

CHECK_CASE(no_departure_is_lost) {
  enum { ROUNDS = 2000 };
  pair p = {0};
  pthread_t thread;
  CHECK_INT(AB_OK, ab_bell_init(&p.bell));
  p.pulse.bell = &p.bell;
  CHECK_INT(0, ab_thread_start(&thread, watch, &p));
  ab_nsec end = ab_clock_monotonic() + 60 * AB_NSEC_PER_SEC;
  for (int round = 0; round < ROUNDS; round++) {
    ab_pulse_leave(&p.pulse);
    while (atomic_load(&p.noticed) != beat_of(&p.pulse) && ab_clock_monotonic() < end) {
      nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
    CHECK_INT(beat_of(&p.pulse), atomic_load(&p.noticed));
    if (ab_clock_monotonic() >= end) break;
    ab_pulse_return(&p.pulse);
  }
  atomic_store(&p.over, true);
  ab_pulse_leave(&p.pulse);
  ab_bell_ring(&p.bell);
  pthread_join(thread, NULL);
  ab_bell_fini(&p.bell);
}

CHECK_MAIN()
