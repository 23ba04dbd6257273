/* Threads are created on demand. The owner and each thread hold the pool, and the last one frees
 * it, so closing never waits for a resolver that does not answer. */
#include "io/blocking.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/thread.h"
#include "io/timer.h"
#include "os/time.h"

#define IDLE_TIME (10 * AB_NSEC_PER_SEC) /* without work, then a thread ends */

struct ab_blocking_pool {
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

ab_blocking_pool *ab_blocking_init(ab_poller *poller, unsigned max_threads) {
  ab_blocking_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  if (ab_os_cond_init(&pool->work) != 0) {
    free(pool);
    return NULL;
  }
  pthread_mutex_init(&pool->lock, NULL);
  ab_list_init(&pool->queue);
  ab_list_init(&pool->ended);
  pool->poller = poller;
  pool->max_threads = max_threads;
  pool->holders = 1;
  pool->owner = getpid();
  return pool;
}

static void finish_all(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list))) {
    ab_blocking_job *job = AB_CONTAINER_OF(node, ab_blocking_job, link);
    job->fini(job);
  }
}

/* Called with the lock, which is released. */
static void let_go(ab_blocking_pool *pool) {
  bool last = --pool->holders == 0;
  pthread_mutex_unlock(&pool->lock);
  if (!last) return;
  finish_all(&pool->ended);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

void ab_blocking_fini(ab_blocking_pool *pool) {
  /* In a forked child the lock may be held by a thread that does not exist there. */
  if (pool->owner != getpid()) return;
  pthread_mutex_lock(&pool->lock);
  pool->poller = NULL;
  finish_all(&pool->queue);
  pool->queued = 0;
  pthread_cond_broadcast(&pool->work);
  let_go(pool);
}

/* The next job, or NULL if the thread must end. The lock is held. */
static ab_blocking_job *next_job(ab_blocking_pool *pool) {
  ab_nsec deadline = ab_clock_monotonic() + IDLE_TIME;
  int err = 0;
  while (ab_list_empty(&pool->queue) && pool->poller && err != ETIMEDOUT) {
    pool->idle++;
    err = ab_os_cond_wait(&pool->work, &pool->lock, deadline);
    pool->idle--;
  }
  ab_list *node = ab_list_shift(&pool->queue);
  if (!node) return NULL;
  ab_blocking_job *job = AB_CONTAINER_OF(node, ab_blocking_job, link);
  job->queued = false;
  pool->queued--;
  return job;
}

static void *serve(void *arg) {
  ab_blocking_pool *pool = arg;
  ab_blocking_job *job;
  pthread_mutex_lock(&pool->lock);
  while ((job = next_job(pool))) {
    pthread_mutex_unlock(&pool->lock);
    job->run(job);
    pthread_mutex_lock(&pool->lock);
    ab_list_append(&pool->ended, &job->link);
    if (pool->poller) ab_poller_wakeup(pool->poller);
  }
  pool->threads--;
  let_go(pool);
  return NULL;
}

/* The lock is held. */
static int add_thread(ab_blocking_pool *pool) {
  pthread_t thread;
  int err = ab_thread_start(&thread, serve, pool);
  if (err != 0) {
    errno = err;
    return AB_ESYS;
  }
  pthread_detach(thread);
  pool->threads++;
  pool->holders++;
  return AB_OK;
}

int ab_blocking_submit(ab_blocking_pool *pool, ab_blocking_job *job) {
  int err = AB_OK;
  pthread_mutex_lock(&pool->lock);
  if (pool->queued >= pool->idle && pool->threads < pool->max_threads) err = add_thread(pool);
  /* One thread is enough to make progress. */
  if (err != AB_OK && pool->threads > 0) err = AB_OK;
  if (err == AB_OK) {
    ab_list_append(&pool->queue, &job->link);
    job->queued = true;
    pool->queued++;
    pool->pending++;
    pthread_cond_signal(&pool->work);
  }
  pthread_mutex_unlock(&pool->lock);
  return err;
}

void ab_blocking_abandon(ab_blocking_pool *pool, ab_blocking_job *job) {
  pthread_mutex_lock(&pool->lock);
  job->owner = NULL;
  bool queued = job->queued;
  if (queued) {
    ab_list_remove(&job->link);
    pool->queued--;
    pool->pending--;
  }
  pthread_mutex_unlock(&pool->lock);
  if (queued) job->fini(job);
}

void ab_blocking_reap(ab_blocking_pool *pool) {
  if (pool->pending == 0) return;
  ab_list ended;
  ab_list_init(&ended);
  pthread_mutex_lock(&pool->lock);
  ab_list_splice(&ended, &pool->ended);
  pthread_mutex_unlock(&pool->lock);
  ab_list *node;
  while ((node = ab_list_shift(&ended))) {
    ab_blocking_job *job = AB_CONTAINER_OF(node, ab_blocking_job, link);
    pool->pending--;
    if (job->owner) job->done(job);
    job->fini(job);
  }
}

size_t ab_blocking_pending(const ab_blocking_pool *pool) {
  return pool->pending;
}
