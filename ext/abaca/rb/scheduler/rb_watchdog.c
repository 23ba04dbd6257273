/* The watchdog's thread: it looks twice a quantum whether the same fiber still runs.
 */
#include "rb/scheduler/rb_watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <ruby.h>
/* Behind ruby.h, on which it depends. */
#include <ruby/debug.h>

/* After so many looks at a loop that runs no fiber the thread sleeps until one is run. */
#define IDLE_LOOKS 16

typedef struct guard {
  ab_watchdog face;
  pthread_mutex_t lock;
  pthread_cond_t change;
  pthread_t thread;
  ab_nsec tick;
  bool stopping;
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

/* The lock is held. */
static void wait_tick(guard *g) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  ab_nsec time = (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec + g->tick;
  ts.tv_sec = (time_t)(time / AB_NSEC_PER_SEC);
  ts.tv_nsec = (long)(time % AB_NSEC_PER_SEC);
  int err = 0;
  while (!g->stopping && err != ETIMEDOUT) err = pthread_cond_timedwait(&g->change, &g->lock, &ts);
}

/* Sleeps until a fiber runs. The lock is held. */
static void wait_alert(guard *g, uint64_t epoch) {
  atomic_store(&g->face.asleep, true);
  /* Whoever began a fiber before it could see that we sleep is seen here. */
  while (!g->stopping && atomic_load(&g->face.asleep) && atomic_load(&g->face.epoch) == epoch)
    pthread_cond_wait(&g->change, &g->lock);
  atomic_store(&g->face.asleep, false);
}

static void *watch(void *arg) {
  guard *g = arg;
  uint64_t last = 0;
  unsigned idle = 0;
  pthread_mutex_lock(&g->lock);
  while (!g->stopping) {
    wait_tick(g);
    uint64_t epoch = atomic_load(&g->face.epoch);
    bool same = epoch == last;
    last = epoch;
    if (!same) {
      idle = 0;
    } else if (epoch & 1) {
      atomic_store(&g->face.wanted, epoch);
      trigger(g);
    } else if (++idle >= IDLE_LOOKS) {
      wait_alert(g, epoch);
      idle = 0;
    }
  }
  pthread_mutex_unlock(&g->lock);
  return NULL;
}

/* Signals are for Ruby's threads. */
static int start_thread(guard *g) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = pthread_create(&g->thread, NULL, watch, g);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return err;
}

ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused)) {
  guard *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->tick = quantum / 2;
  g->job = job;
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
  g->handle = rb_postponed_job_preregister(0, job, NULL);
  if (g->handle == POSTPONED_JOB_HANDLE_INVALID) {
    free(g);
    errno = EAGAIN;
    return NULL;
  }
#endif
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->change, &attr);
  pthread_condattr_destroy(&attr);
  int err = start_thread(g);
  if (err == 0) return &g->face;
  pthread_cond_destroy(&g->change);
  pthread_mutex_destroy(&g->lock);
  free(g);
  errno = err;
  return NULL;
}

void ab_watchdog_stop(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  pthread_mutex_lock(&g->lock);
  g->stopping = true;
  pthread_cond_signal(&g->change);
  pthread_mutex_unlock(&g->lock);
  pthread_join(g->thread, NULL);
  pthread_cond_destroy(&g->change);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

/* The lock may be held by a thread that is not there: it is left as it is. */
void ab_watchdog_forget(ab_watchdog *watchdog) {
  free(watchdog);
}

void ab_watchdog_alert(ab_watchdog *watchdog) {
  guard *g = (guard *)watchdog;
  pthread_mutex_lock(&g->lock);
  atomic_store(&g->face.asleep, false);
  pthread_cond_signal(&g->change);
  pthread_mutex_unlock(&g->lock);
}
