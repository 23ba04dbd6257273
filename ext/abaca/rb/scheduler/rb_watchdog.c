/* The watchdog: it looks twice a quantum whether the same fiber still runs. */
#include "rb/scheduler/rb_watchdog.h"

#include <errno.h>
#include <stdlib.h>

#include <ruby.h>
/* Behind ruby.h, on which it depends. */
#include <ruby/debug.h>

#include "io/poller.h"
#include "lead/watcher.h"

/* After as many looks at a loop that runs no fiber the thread sleeps until one is run. */
#define IDLE_LOOKS 16

typedef struct guard {
  ab_watchdog face;
  ab_watcher watcher;
  ab_nsec tick;
  uint64_t seen; /* the beat at the last look */
  unsigned idle; /* looks in a row at a loop that runs no fiber */
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

static bool has_left(void *arg) {
  guard *g = arg;
  return atomic_load(&g->face.pulse.beat) != g->seen;
}

static ab_nsec look(void *arg, int *fd AB_UNUSED) {
  guard *g = arg;
  if (g->idle >= IDLE_LOOKS) {
    g->idle = 0;
    return g->tick; /* a fiber that has just begun gets its time from now on */
  }
  uint64_t beat = atomic_load(&g->face.pulse.beat);
  bool same = beat == g->seen, runs = beat & 1;
  g->seen = beat;
  if (same && runs) {
    atomic_store(&g->face.wanted, beat);
    trigger(g);
  }
  g->idle = same && !runs ? g->idle + 1 : 0;
  return g->idle >= IDLE_LOOKS ? AB_POLL_FOREVER : g->tick;
}

static const ab_watcher_calls calls = {.look = look, .away = has_left};

ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused)) {
  guard *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->face.pulse.bell = &g->watcher.bell;
  g->tick = quantum / 2;
  g->job = job;
  int err = 0;
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  g->handle = rb_postponed_job_preregister(0, job, NULL);
  if (g->handle == POSTPONED_JOB_HANDLE_INVALID) err = EAGAIN;
#endif
  if (err == 0 && ab_watcher_start(&g->watcher, &calls, g) != AB_OK) err = errno;
  if (err == 0) return &g->face;
  free(g);
  errno = err;
  return NULL;
}

void ab_watchdog_stop(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  ab_watcher_stop(&g->watcher);
  free(g);
}

void ab_watchdog_forget(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  ab_watcher_forget(&g->watcher);
  free(g);
}
