/* The watcher's thread: it looks, sleeps and ends. */
#include <time.h>

#include "check.h"
#include "io/poller.h"
#include "io/timer.h"
#include "lead/watcher.h"

#define LONG (20 * AB_NSEC_PER_SEC)

typedef struct stage {
  ab_watcher watcher;
  ab_pulse pulse;
  _Atomic uint64_t seen; /* the beat at the last look */
  _Atomic ab_nsec time;  /* that a look asks for */
  _Atomic int fd;
  atomic_uint looks;
  ab_nsec nap; /* set by each look, unless it is 0 */
} stage;

static ab_nsec look(void *ctx, int *fd) {
  stage *s = ctx;
  atomic_store(&s->seen, atomic_load(&s->pulse.beat));
  *fd = atomic_load(&s->fd);
  if (s->nap) s->watcher.nap = s->nap;
  atomic_fetch_add(&s->looks, 1);
  return atomic_load(&s->time);
}

static bool away(void *ctx) {
  stage *s = ctx;
  return atomic_load(&s->pulse.beat) != atomic_load(&s->seen);
}

static const ab_watcher_calls calls = {.look = look, .away = away};

static void stage_start(stage *s, ab_nsec time, ab_nsec nap) {
  memset(s, 0, sizeof *s);
  s->nap = nap;
  atomic_store(&s->time, time);
  atomic_store(&s->fd, -1);
  CHECK_INT(AB_OK, ab_watcher_start(&s->watcher, &calls, s));
  s->pulse.bell = &s->watcher.bell;
}

static void stage_init(stage *s, ab_nsec time) {
  stage_start(s, time, 0);
}

static bool looks_reach(stage *s, unsigned count) {
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (atomic_load(&s->looks) < count && ab_clock_monotonic() < end) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return atomic_load(&s->looks) >= count;
}

static bool sleeps(stage *s) {
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (!atomic_load(&s->watcher.bell.asleep) && ab_clock_monotonic() < end) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return atomic_load(&s->watcher.bell.asleep);
}

CHECK_CASE(it_looks_again_when_the_time_is_over) {
  stage s;
  stage_init(&s, AB_NSEC_PER_MS);
  CHECK(looks_reach(&s, 5));
  ab_watcher_stop(&s.watcher);
}

CHECK_CASE(it_sleeps_until_a_thread_leaves) {
  stage s;
  stage_init(&s, AB_POLL_FOREVER);
  CHECK(looks_reach(&s, 1));
  CHECK(sleeps(&s));
  CHECK_INT(1, atomic_load(&s.looks));
  ab_pulse_leave(&s.pulse);
  CHECK(looks_reach(&s, 2));
  CHECK(sleeps(&s));
  CHECK_INT(1, atomic_load(&s.seen) & 1);
  ab_watcher_stop(&s.watcher);
}

CHECK_CASE(it_sleeps_for_no_longer_than_a_nap) {
  stage s;
  stage_start(&s, AB_POLL_FOREVER, AB_NSEC_PER_MS);
  CHECK(looks_reach(&s, 5)); /* nobody has left */
  ab_watcher_stop(&s.watcher);
}

CHECK_CASE(a_thread_that_leaves_ends_a_nap) {
  stage s;
  stage_start(&s, AB_POLL_FOREVER, 10 * LONG);
  CHECK(looks_reach(&s, 1));
  CHECK(sleeps(&s));
  ab_pulse_leave(&s.pulse);
  CHECK(looks_reach(&s, 2));
  ab_watcher_stop(&s.watcher);
}

CHECK_CASE(a_nap_ends_a_longer_time) {
  stage s;
  stage_start(&s, 10 * LONG, AB_NSEC_PER_MS);
  CHECK(looks_reach(&s, 3));
  ab_watcher_stop(&s.watcher);
}

CHECK_CASE(a_descriptor_wakes_it) {
  stage s;
  ab_bell other;
  CHECK_INT(AB_OK, ab_bell_init(&other));
  stage_init(&s, AB_NSEC_PER_MS);
  atomic_store(&s.fd, other.os.fd);
  atomic_store(&s.time, AB_POLL_FOREVER);
  CHECK(sleeps(&s));
  unsigned looks = atomic_load(&s.looks);
  ab_bell_ring(&other);
  CHECK(looks_reach(&s, looks + 10)); /* it stays readable */
  ab_watcher_stop(&s.watcher);
  ab_bell_fini(&other);
}

CHECK_MAIN()
