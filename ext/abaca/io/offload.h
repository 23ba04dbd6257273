/* A small, bounded pool of native threads for calls that no poller can wait for: names, children,
 * disks. A job belongs to whoever made it until it is submitted, then to the pool until it is done;
 * a caller that loses interest abandons it. What an owner's calls touch is guarded by its own lock.
 */
#ifndef AB_IO_OFFLOAD_H
#define AB_IO_OFFLOAD_H

#include "base/base.h"
#include "base/list.h"
#include "io/poller.h"

typedef struct ab_offload ab_offload;

typedef struct ab_offload_job {
  ab_list link;
  bool queued;                              /* no thread has taken it yet */
  void (*run)(struct ab_offload_job *job);  /* on a thread of the pool, without any lock */
  void (*done)(struct ab_offload_job *job); /* from ab_offload_reap */
  void (*fini)(struct ab_offload_job *job); /* frees it; on any thread, perhaps without a lock */
  void *owner;                              /* for `done`; NULL once abandoned */
} ab_offload_job;

/* `poller` is woken when a job is done; it must outlive ab_offload_fini. NULL: out of memory. */
ab_offload *ab_offload_init(ab_poller *poller, unsigned max_threads);
/* Does not wait: jobs that run are finished by their threads, which then free what is left. In a
 * forked child it does nothing. */
void ab_offload_fini(ab_offload *offload);

/* Takes the job. Returns AB_OK, or AB_ESYS (then it stays the caller's): no thread could be made.
 */
int ab_offload_submit(ab_offload *offload, ab_offload_job *job) AB_WARN_UNUSED;
/* Nobody waits for the job any more. Removes it if it has not begun. Only before its `done`. */
void ab_offload_abandon(ab_offload *offload, ab_offload_job *job);
/* Calls `done` and then `fini` of every job that has ended. */
void ab_offload_reap(ab_offload *offload);
/* Jobs that wait, run, or have ended and not been reaped. */
size_t ab_offload_pending(const ab_offload *offload);

#endif
