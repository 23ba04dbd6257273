/* The watchdog's thread: it looks twice a quantum whether the same fiber still runs.
 */
#include "rb/scheduler/rb_watchdog.h"

#include <errno.h>
#include <stdlib.h>

#include <ruby.h>
/* Behind ruby.h, on which it depends. */
#include <ruby/debug.h>

#include "io/poller.h"
#include "io/thread.h"

/* After as many looks at a loop that runs no fiber the thread sleeps until one is run. */
#define IDLE_LOOKS 16

typedef struct guard {
  ab_watchdog face;
  ab_bell bell;
  pthread_t thread;
  ab_nsec tick;
  uint64_t seen; /* the beat at the last look */
  _Atomic bool stopping;
  void (*job)(void *unused);
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_handle_t handle;
#endif
} guard;

static void trigger(guard *g) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  rb_postponed_job_trigger(g->handle);
#else
  rb_postponed_job_register_one(0, g->job, NULL);
#endif
}

/* Has a fiber run since the last look? */
static bool has_left(void *arg) {
  guard *g = arg;
  return atomic_load(&g->face.pulse.beat) != g->seen;
}

static void *watch(void *arg) {
  guard *g = arg;
  unsigned idle = 0;
  while (!atomic_load(&g->stopping)) {
    bool sleeps = idle >= IDLE_LOOKS;
    ab_bell_await(&g->bell, -1, sleeps ? AB_POLL_FOREVER : g->tick, has_left, g);
    if (sleeps) {
      idle = 0;
      continue; /* a fiber that has just begun gets its time from now on */
    }
    uint64_t beat = atomic_load(&g->face.pulse.beat);
    bool same = beat == g->seen;
    g->seen = beat;
    if (!same) {
      idle = 0;
    } else if (beat & 1) {
      atomic_store(&g->face.wanted, beat);
      trigger(g);
    } else {
      idle++;
    }
  }
  return NULL;
}

static guard *make(ab_nsec quantum, void (*job)(void *unused)) {
  guard *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  if (ab_bell_init(&g->bell) != AB_OK) {
    free(g);
    return NULL;
  }
  g->face.pulse.bell = &g->bell;
  g->tick = quantum / 2;
  g->job = job;
  return g;
}

ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused)) {
  guard *g = make(quantum, job);
  if (!g) return NULL;
  int err = 0;
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  g->handle = rb_postponed_job_preregister(0, job, NULL);
  if (g->handle == POSTPONED_JOB_HANDLE_INVALID) err = EAGAIN;
#endif
  if (err == 0) err = ab_thread_start(&g->thread, watch, g);
  if (err == 0) return &g->face;
  ab_watchdog_forget(&g->face);
  errno = err;
  return NULL;
}

void ab_watchdog_stop(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  atomic_store(&g->stopping, true);
  ab_bell_ring(&g->bell);
  pthread_join(g->thread, NULL);
  ab_watchdog_forget(watchdog);
}

void ab_watchdog_forget(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  ab_bell_fini(&g->bell);
  free(g);
}
