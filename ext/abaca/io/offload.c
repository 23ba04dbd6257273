/* The offload pool: a list of jobs, threads that are made on demand up to a bound, and a list of
 * results. The pool is counted: the owner and each thread hold it, the last one frees it, so that
 * closing never waits for a resolver that does not answer.
 */
#include "io/offload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A thread that has had nothing to do for so long ends. */
#define IDLE_SECONDS 10

struct ab_offload {
  pthread_mutex_t lock;
  pthread_cond_t work;
  ab_list queue, ended;
  ab_poller *poller; /* NULL once the owner has gone */
  unsigned threads, idle, max_threads;
  size_t queued;  /* the length of `queue` */
  size_t pending; /* the owner's alone */
  unsigned holders;
  pid_t owner;
};

ab_offload *ab_offload_init(ab_poller *poller, unsigned max_threads) {
  ab_offload *offload = calloc(1, sizeof *offload);
  if (!offload) return NULL;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&offload->lock, NULL);
  pthread_cond_init(&offload->work, &attr);
  pthread_condattr_destroy(&attr);
  ab_list_init(&offload->queue);
  ab_list_init(&offload->ended);
  offload->poller = poller;
  offload->max_threads = max_threads;
  offload->holders = 1;
  offload->owner = getpid();
  return offload;
}

static void finish_all(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list))) {
    ab_offload_job *job = AB_CONTAINER_OF(node, ab_offload_job, link);
    job->fini(job);
  }
}

/* The lock is held, and given up. */
static void let_go(ab_offload *offload) {
  bool last = --offload->holders == 0;
  pthread_mutex_unlock(&offload->lock);
  if (!last) return;
  finish_all(&offload->ended);
  pthread_cond_destroy(&offload->work);
  pthread_mutex_destroy(&offload->lock);
  free(offload);
}

void ab_offload_fini(ab_offload *offload) {
  /* In a forked child the lock may be held by a thread that does not exist there. */
  if (offload->owner != getpid()) return;
  pthread_mutex_lock(&offload->lock);
  offload->poller = NULL;
  finish_all(&offload->queue);
  offload->queued = 0;
  pthread_cond_broadcast(&offload->work);
  let_go(offload);
}

static struct timespec idle_deadline(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  ts.tv_sec += IDLE_SECONDS;
  return ts;
}

/* The next job, or NULL when the thread shall end. The lock is held. */
static ab_offload_job *next_job(ab_offload *offload) {
  struct timespec deadline = idle_deadline();
  int err = 0;
  while (ab_list_empty(&offload->queue) && offload->poller && err != ETIMEDOUT) {
    offload->idle++;
    err = pthread_cond_timedwait(&offload->work, &offload->lock, &deadline);
    offload->idle--;
  }
  ab_list *node = ab_list_shift(&offload->queue);
  if (!node) return NULL;
  ab_offload_job *job = AB_CONTAINER_OF(node, ab_offload_job, link);
  job->queued = false;
  offload->queued--;
  return job;
}

static void *serve(void *arg) {
  ab_offload *offload = arg;
  ab_offload_job *job;
  pthread_mutex_lock(&offload->lock);
  while ((job = next_job(offload))) {
    pthread_mutex_unlock(&offload->lock);
    job->run(job);
    pthread_mutex_lock(&offload->lock);
    ab_list_append(&offload->ended, &job->link);
    if (offload->poller) ab_poller_wakeup(offload->poller);
  }
  offload->threads--;
  let_go(offload);
  return NULL;
}

/* The lock is held. Signals are for the application's threads. */
static int add_thread(ab_offload *offload) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  int err = pthread_create(&thread, NULL, serve, offload);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (err != 0) {
    errno = err;
    return AB_ESYS;
  }
  pthread_detach(thread);
  offload->threads++;
  offload->holders++;
  return AB_OK;
}

int ab_offload_submit(ab_offload *offload, ab_offload_job *job) {
  int err = AB_OK;
  pthread_mutex_lock(&offload->lock);
  if (offload->queued >= offload->idle && offload->threads < offload->max_threads)
    err = add_thread(offload);
  /* One thread is enough to get on. */
  if (err != AB_OK && offload->threads > 0) err = AB_OK;
  if (err == AB_OK) {
    ab_list_append(&offload->queue, &job->link);
    job->queued = true;
    offload->queued++;
    offload->pending++;
    pthread_cond_signal(&offload->work);
  }
  pthread_mutex_unlock(&offload->lock);
  return err;
}

void ab_offload_abandon(ab_offload *offload, ab_offload_job *job) {
  pthread_mutex_lock(&offload->lock);
  job->owner = NULL;
  bool queued = job->queued;
  if (queued) {
    ab_list_remove(&job->link);
    offload->queued--;
    offload->pending--;
  }
  pthread_mutex_unlock(&offload->lock);
  if (queued) job->fini(job);
}

void ab_offload_reap(ab_offload *offload) {
  if (offload->pending == 0) return;
  ab_list ended;
  ab_list_init(&ended);
  pthread_mutex_lock(&offload->lock);
  ab_list_splice(&ended, &offload->ended);
  pthread_mutex_unlock(&offload->lock);
  ab_list *node;
  while ((node = ab_list_shift(&ended))) {
    ab_offload_job *job = AB_CONTAINER_OF(node, ab_offload_job, link);
    offload->pending--;
    if (job->owner) job->done(job);
    job->fini(job);
  }
}

size_t ab_offload_pending(const ab_offload *offload) {
  return offload->pending;
}
