/* The inside of a thread pool: what rb_thread_pool.c, the lead and rb_thread_executor.c share. */
#ifndef AB_RB_THREAD_POOL_PARTS_H
#define AB_RB_THREAD_POOL_PARTS_H

#include <pthread.h>
#include <ruby.h>
#include <ruby/thread.h>
#include <stdatomic.h>

#include "rb/run/rb_thread_pool.h"
#include "rb/scheduler/rb_share.h"

/* A thread beyond the least number ends after this time without work. */
#define AB_THREAD_POOL_IDLE_TIME (30 * AB_NSEC_PER_SEC)

/* A request that waits for a thread, its env built. */
typedef struct ab_job {
  ab_list link; /* in pool->jobs, unless a worker has it */
  ab_taken taken;
  ab_nsec until; /* queue_timeout; 0: for ever */
  bool waits;    /* the engine was told that it does */
} ab_job;

/* One thread of the pool. The lead's watch is another, beside them. */
typedef struct ab_worker {
  ab_driver driver;
  ab_thread_pool *pool;
  ab_list link;      /* in pool->workers */
  ab_list idle_link; /* in pool->idle, while it waits for work */
  pthread_cond_t wake;
  ab_job *job;      /* given to it while it was idle */
  ab_call *call;    /* of the request that it runs; NULL: it runs none */
  pthread_t native; /* of the app code that the lead was used for: its pulse is away then */
  bool interrupted; /* Ruby wants something of the thread */
  bool late;        /* nothing has come for long */
  bool begun;       /* it runs, and has a clean thread */
  unsigned raising; /* others that are about to use Thread#raise on it; guarded by the lock */
  bool raised;      /* they have */
  ab_nsec wanted;   /* when it began to wait for the GVL, to lead */
  ab_nsec left;     /* when it gave the lead away for this request; 0: it did not */
} ab_worker;

struct ab_thread_pool {
  ab_run *run;
  ab_thread_pool_options options;
  VALUE forward;
  VALUE threads;             /* Array of those that were started and may not have ended */
  VALUE mode_key, mode_name; /* of the env */
  ab_list workers;
  ab_list jobs; /* oldest first */
  size_t job_count;
  uint64_t queued; /* that came to the list */
  uint64_t gone;   /* of these, those whose client went away before they were taken from it */
  ab_nsec due;     /* when one of them will have waited for too long, or earlier; 0: none will */
  unsigned live, started;
  unsigned busy;     /* with a request */
  unsigned given;    /* were given one that they have not begun with */
  unsigned starting; /* of these, those that have not looked for work yet */
  /* Guarded by the lock, which is never held over a call of Ruby's. */
  pthread_mutex_t lock;
  ab_list idle;    /* last in, first out: the warmest stack runs next */
  ab_list retired; /* workers without a thread, for the next ones: others may still look at them */
  _Atomic bool ending;
  _Atomic bool told; /* the watch has to look at `forward` */
  /* Of the lead. */
  bool led;          /* workers lead, not a loop: run->rack.lead is passed under the lock */
  ab_worker watch;   /* of the thread that called run */
  ab_bell *bell;     /* the standby's, which looks at the one that leads; NULL: a loop leads */
  ab_worker *suitor; /* wants the GVL for the lead, unless another uses that meanwhile */
  /* Of the threads that wait for the GVL: the worker that leads, and the watch. They have nothing
   * but the participant, which the standby knows. */
  ab_driver leader, watcher;
  _Atomic bool paused; /* the listeners are, for want of threads */
  bool comes;          /* the watch was woken to lead */
  bool steers;     /* the watch leads and does so; else the next idle thread takes the lead up */
  uint64_t offers; /* times that the watch was given the lead */
  uint64_t turns;  /* of the engine; changes with the lead */
  /* Of the standby, while the watch does not use the lead: both then, and when it looks again. */
  uint64_t seen_offers, seen_turns;
  ab_nsec rests_until;
  bool batch;        /* the engine's turn has more for another step */
  ab_nsec turned_at; /* when the last one began */
  unsigned in_a_row; /* requests that were begun since the lead gave way */
  ab_share share;
  unsigned slow; /* by how many the long ones of the last requests outnumber the quick ones */
  bool turned;   /* there was a turn since the end of the server was last looked at */
};

static inline void ab__thread_pool_lock(ab_thread_pool *pool) {
  pthread_mutex_lock(&pool->lock);
}

static inline void ab__thread_pool_unlock(ab_thread_pool *pool) {
  pthread_mutex_unlock(&pool->lock);
}

/* There are as many threads as there may be, or more than that: those whose requests were aside and
 * have gone on. Without the GVL it is as good as true. */
bool ab__thread_pool_is_grown(const ab_thread_pool *pool);
bool ab__thread_pool_has_surplus(const ab_thread_pool *pool);
/* All threads are busy, and there will not be more of them. The lock is held. */
bool ab__thread_pool_is_full(const ab_thread_pool *pool);
/* Starts a thread unless there are enough of them. Returns false when Ruby has none to give. */
bool ab__thread_pool_grow(ab_thread_pool *pool);
/* Runs a request on the calling thread, whose worker it is. Raises only what kills the thread. */
void ab__thread_pool_serve(ab_worker *worker, const ab_taken *taken);
/* The thread that turns the engine must do so now, if anything waits for that. */
void ab__thread_pool_wake_turn(ab_run *run);
/* Waits for at most `time` without the GVL and the lock, which is held. Returns false when the time
 * is over. */
bool ab__thread_pool_sleep(ab_thread_pool *pool, pthread_cond_t *wake, ab_nsec time);
int ab__thread_pool_init_cond(pthread_cond_t *wake);
/* Raises an exception in the thread that runs the request, where it waits: in this request, however
 * long that takes. */
void ab__thread_pool_raise(ab_worker *worker, VALUE exception);

#endif
