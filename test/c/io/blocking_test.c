/* The pool of threads for calls that no poller can wait for: which jobs run, which are reported,
 * and what is freed when the owner goes first. */
#include "io/blocking.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LONG (20 * AB_NSEC_PER_SEC) /* only a broken test waits this long */

/* The jobs of a case: what became of them, and the gate at which some of them wait. */
typedef struct fate {
  ab_poller *poller;
  ab_blocking_pool *pool;
  pthread_mutex_t lock;
  pthread_cond_t opened;
  bool open;
  int running, most; /* guarded by the lock */
  atomic_int ran, done, freed, masked;
} fate;

typedef struct work {
  ab_blocking_job job;
  fate *fate;
  bool waits;
} work;

static void fate_init(fate *self, unsigned threads) {
  memset(self, 0, sizeof *self);
  self->poller = ab_poller_init(&ab_mem_libc);
  self->pool = self->poller ? ab_blocking_init(self->poller, threads) : NULL;
  if (!self->pool) abort();
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->opened, NULL);
}

/* The owner goes. */
static void leave(fate *self) {
  ab_blocking_fini(self->pool);
  ab_poller_fini(self->poller);
}

static void fate_fini(fate *self) {
  leave(self);
  pthread_cond_destroy(&self->opened);
  pthread_mutex_destroy(&self->lock);
}

static void open_gate(fate *self) {
  pthread_mutex_lock(&self->lock);
  self->open = true;
  pthread_cond_broadcast(&self->opened);
  pthread_mutex_unlock(&self->lock);
}

static void run(ab_blocking_job *job) {
  work *self = AB_CONTAINER_OF(job, work, job);
  fate *fate = self->fate;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  fate->masked += sigismember(&blocked, SIGTERM);
  pthread_mutex_lock(&fate->lock);
  fate->running++;
  if (fate->running > fate->most) fate->most = fate->running;
  while (self->waits && !fate->open) pthread_cond_wait(&fate->opened, &fate->lock);
  fate->running--;
  pthread_mutex_unlock(&fate->lock);
  fate->ran++;
}

static void done(ab_blocking_job *job) {
  CHECK(job->owner != NULL);
  AB_CONTAINER_OF(job, work, job)->fate->done++;
}

static void fini(ab_blocking_job *job) {
  work *self = AB_CONTAINER_OF(job, work, job);
  self->fate->freed++;
  free(self);
}

/* Submits a job, and returns it. */
static ab_blocking_job *submit(fate *fate, bool waits) {
  work *self = malloc(sizeof *self);
  if (!self) abort();
  *self = (work){
      .job = {.run = run, .done = done, .fini = fini, .owner = fate}, .fate = fate, .waits = waits};
  CHECK_INT(AB_OK, ab_blocking_submit(fate->pool, &self->job));
  return &self->job;
}

static int running(fate *self) {
  pthread_mutex_lock(&self->lock);
  int count = self->running;
  pthread_mutex_unlock(&self->lock);
  return count;
}

/* Waits until `count` jobs run. */
static void await_running(fate *self, int count) {
  for (int i = 0; i < 10000 && running(self) != count; i++) usleep(1000);
  CHECK_INT(count, running(self));
}

/* Waits until `count` jobs have been freed, by any thread. */
static void await_freed(fate *self, int count) {
  for (int i = 0; i < 10000 && self->freed != count; i++) usleep(1000);
  CHECK_INT(count, self->freed);
}

/* Reaps whenever the poller wakes, until no job is left. */
static void reap_all(fate *self) {
  for (int i = 0; i < 1000 && ab_blocking_pending(self->pool) > 0; i++) {
    ab_poller_wait(self->poller, LONG);
    ab_blocking_reap(self->pool);
  }
  CHECK_INT(0, ab_blocking_pending(self->pool));
}

CHECK_CASE(jobs_run_and_are_reaped) {
  enum { JOBS = 50 };
  fate fate;
  fate_init(&fate, 3);
  for (int i = 0; i < JOBS; i++) submit(&fate, false);
  CHECK_INT(JOBS, ab_blocking_pending(fate.pool));
  reap_all(&fate);
  CHECK_INT(JOBS, fate.ran);
  CHECK_INT(JOBS, fate.done);
  CHECK_INT(JOBS, fate.freed);
  CHECK_INT(JOBS, fate.masked); /* signals are for the application's threads */
  fate_fini(&fate);
}

CHECK_CASE(threads_are_bounded) {
  fate fate;
  fate_init(&fate, 3);
  for (int i = 0; i < 10; i++) submit(&fate, true);
  await_running(&fate, 3);
  open_gate(&fate);
  reap_all(&fate);
  CHECK_INT(10, fate.done);
  CHECK_INT(3, fate.most);
  fate_fini(&fate);
}

/* A job that has not begun never does. One that runs goes on, and is not reported. */
CHECK_CASE(abandoned_jobs_are_not_reported) {
  fate fate;
  fate_init(&fate, 1);
  ab_blocking_job *begun = submit(&fate, true);
  await_running(&fate, 1);
  ab_blocking_job *queued = submit(&fate, false);
  submit(&fate, false);
  CHECK_INT(3, ab_blocking_pending(fate.pool));
  ab_blocking_abandon(fate.pool, queued);
  CHECK_INT(1, fate.freed);
  CHECK_INT(2, ab_blocking_pending(fate.pool));
  ab_blocking_abandon(fate.pool, begun);
  CHECK_INT(1, fate.freed);
  open_gate(&fate);
  reap_all(&fate);
  CHECK_INT(2, fate.ran);
  CHECK_INT(1, fate.done);
  CHECK_INT(3, fate.freed);
  fate_fini(&fate);
}

/* The owner does not wait: the thread that still works frees what is left, without the poller. */
CHECK_CASE(the_end_does_not_wait) {
  fate fate;
  fate_init(&fate, 1);
  submit(&fate, true);
  await_running(&fate, 1);
  submit(&fate, false);
  leave(&fate);
  CHECK_INT(1, fate.freed); /* what had not begun */
  open_gate(&fate);
  await_freed(&fate, 2);
  CHECK_INT(1, fate.ran);
  CHECK_INT(0, fate.done);
}

/* A child has none of the threads, and perhaps a lock that one of them held. */
CHECK_CASE(a_forked_child_leaves_it_alone) {
  fate fate;
  fate_init(&fate, 1);
  submit(&fate, true);
  await_running(&fate, 1);
  pid_t pid = fork();
  if (pid == 0) {
    ab_blocking_fini(fate.pool);
    _exit(fate.freed == 0 ? 7 : 8);
  }
  int status = -1;
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  open_gate(&fate);
  reap_all(&fate);
  CHECK_INT(1, fate.done);
  fate_fini(&fate);
}

CHECK_MAIN()
