/* A bounded pool of native threads for calls that no poller can wait for: names, children, disks. A
 * job belongs to its creator until it is submitted, then to the pool until it is done. The owner's
 * own lock guards what its calls touch. */
#ifndef AB_IO_BLOCKING_H
#define AB_IO_BLOCKING_H

#include "base/base.h"
#include "base/list.h"
#include "io/poller.h"

typedef struct ab_blocking_pool ab_blocking_pool;

typedef struct ab_blocking_job {
  ab_list link;
  bool queued;                               /* no thread has taken it yet */
  void (*run)(struct ab_blocking_job *job);  /* on a thread of the pool, without any lock */
  void (*done)(struct ab_blocking_job *job); /* from ab_blocking_reap */
  void (*fini)(struct ab_blocking_job *job); /* frees it; on any thread, perhaps without a lock */
  void *owner;                               /* for `done`; NULL once abandoned */
} ab_blocking_job;

/* Wakes `poller`, which must outlive ab_blocking_fini, when a job is done. NULL without memory. */
ab_blocking_pool *ab_blocking_init(ab_poller *poller, unsigned max_threads);
/* Does not wait: threads finish running jobs, then free what is left. No-op in a forked child. */
void ab_blocking_fini(ab_blocking_pool *pool);

/* Takes the job. Returns AB_OK, or AB_ESYS with errno (no thread): the job stays the caller's. */
int ab_blocking_submit(ab_blocking_pool *pool, ab_blocking_job *job) AB_WARN_UNUSED;
/* Gives up the job, and removes it if it has not begun. Only before its `done`. */
void ab_blocking_abandon(ab_blocking_pool *pool, ab_blocking_job *job);
/* Calls `done` and then `fini` of every job that has ended. */
void ab_blocking_reap(ab_blocking_pool *pool);
/* Jobs that wait, run, or have ended without being reaped. */
size_t ab_blocking_pending(const ab_blocking_pool *pool);

#endif
