/* The inside of a thread pool. "Locked": the pool's lock is held; never over a call of Ruby's. */
#ifndef AB_RB_THREAD_PARTS_H
#define AB_RB_THREAD_PARTS_H

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

/* A thread of the pool, or the main one, which called run. */
typedef struct ab_worker {
  ab_driver driver;
  ab_thread_pool *pool;
  ab_list link;      /* in pool->workers */
  ab_list idle_link; /* in pool->idle, while it waits for work */
  pthread_cond_t wake;
  ab_job *job;      /* given to it while it was idle */
  ab_taken *taken;  /* the request that it runs, and ... */
  ab_call *call;    /* ... its call; NULL: it runs none */
  pthread_t native; /* of the app code that the lead was used for: its pulse is away then */
  bool interrupted; /* Ruby wants something of the thread */
  bool late;        /* nothing has come for long */
  bool begun;       /* it runs, and has a clean thread */
  unsigned raising; /* others that are about to use Thread#raise on it; locked */
  bool raised;      /* they have */
  ab_nsec wanted;   /* when it began to wait for the GVL, to lead */
  ab_nsec left;     /* when it gave the lead away for this request; 0: it did not */
} ab_worker;

struct ab_thread_pool {
  ab_run *run;
  ab_thread_pool_options options;
  VALUE forward;             /* what the main thread has to raise, or nil */
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
  unsigned starting; /* have not looked for work yet */
  pthread_mutex_t lock;
  ab_list idle;    /* locked; last in, first out: the warmest stack runs next */
  ab_list retired; /* workers without a thread, for the next ones: others may still look at them */
  _Atomic bool ending;
  _Atomic bool told; /* the main thread has to look at `forward` */

  /* Where threads lead in turns (rb_thread_lead.c). Most of it changes with the lead. */
  bool led;
  ab_worker main;
  ab_bell *bell;     /* the standby's; NULL: a loop leads */
  ab_worker *suitor; /* wants the GVL for the lead, unless another uses that meanwhile */
  /* For the standby: the leading or main thread waits for the GVL. Only participants are used. */
  ab_driver leader_wait, main_wait;
  _Atomic bool paused; /* the listeners are, for want of threads */
  bool comes;          /* the main thread was woken to lead */
  bool steers;         /* it does; else the next idle thread takes the lead up from it */
  uint64_t offers;     /* times that the main thread was given the lead */
  uint64_t turns;      /* of the engine */
  uint64_t seen_offers, seen_turns; /* at the standby's last look at a lead that is not in use */
  ab_nsec rests_until;              /* when it looks again */
  bool batch;                       /* the engine's turn has more for another step */
  ab_nsec turned_at;                /* when the last one began */
  bool turned;       /* there was a turn since the end of the server was last looked at */
  unsigned in_a_row; /* requests that were begun, or woken, since the lead gave way */
  ab_share share;
  unsigned slow; /* by how many the long ones of the last requests outnumber the quick ones */
};

static inline void ab__threads_lock(ab_thread_pool *pool) {
  pthread_mutex_lock(&pool->lock);
}
static inline void ab__threads_unlock(ab_thread_pool *pool) {
  pthread_mutex_unlock(&pool->lock);
}

/* --- rb_thread_pool.c --- */

/* All but the runner. */
void ab__worker_init(ab_worker *worker, ab_thread_pool *pool);
/* Threads that there may be. Those whose requests are aside do not count. */
size_t ab__threads_most(const ab_thread_pool *pool);
/* There are as many threads as there may be; or more, when requests that were aside have gone on.
 * Without the GVL it is as good as true. */
bool ab__threads_is_grown(const ab_thread_pool *pool);
bool ab__threads_has_surplus(const ab_thread_pool *pool);
/* All threads are busy, and there will not be more of them. Locked. */
bool ab__threads_is_full(const ab_thread_pool *pool);
/* The thread that turns the engine must do so now, if anything waits for that. */
void ab__threads_wake_turn(ab_run *run);
/* Waits for at most `time`, giving up the held lock; without the GVL. False when it is over. */
bool ab__threads_sleep(ab_thread_pool *pool, pthread_cond_t *wake, ab_nsec time);
/* Takes those off the pool's Array of threads that have ended. */
void ab__threads_prune(ab_thread_pool *pool);
/* No thread takes a request any more; those that are idle end. */
void ab__threads_stop(ab_thread_pool *pool);

/* --- rb_thread_jobs.c --- */

/* Gives the job away, or has it wait: as the first one, if it has waited already. */
void ab__threads_place(ab_thread_pool *pool, ab_job *job, bool first);
/* The oldest request that waits for a thread, or the one that the worker was given; NULL: none. */
ab_job *ab__threads_take_job(ab_worker *worker);
/* Has an idle thread look for jobs that wait, if one may run. */
void ab__threads_call_idle(ab_thread_pool *pool);

/* --- rb_thread_worker.c --- */

/* Starts a thread unless there are enough of them. Returns false when Ruby has none to give. */
bool ab__threads_grow(ab_thread_pool *pool);
/* Runs a request on the calling thread, whose worker it is. Raises only what kills the thread. */
void ab__threads_serve(ab_worker *worker, ab_taken *taken);
/* Raises in the thread, where it waits: in its present request, however long that takes. */
void ab__threads_raise(ab_worker *worker, VALUE exception);

/* --- rb_thread_lead.c --- */

static inline ab_lead *ab__threads_lead(const ab_thread_pool *pool) {
  return &pool->run->rack.lead;
}
static inline ab_participant *ab__worker_participant(ab_worker *worker) {
  return &worker->driver.runner.participant;
}
static inline bool ab__worker_leads(const ab_worker *worker) {
  const ab_participant *holder = atomic_load(&ab__threads_lead(worker->pool)->holder);
  return holder == &worker->driver.runner.participant;
}
static inline ab_worker *ab__worker_of(ab_participant *participant) {
  return AB_CONTAINER_OF(ab_driver_of_participant(participant), ab_worker, driver);
}

/* Looks for work on the calling thread, and does it. Returns false when the thread has to end. */
bool ab__worker_turn(ab_worker *worker);
/* Gives the lead away, if the worker has it. Without the GVL too. */
void ab__worker_leave(ab_worker *worker);
/* Takes the lead from the worker if that is away. Locked. */
void ab__worker_take_from(ab_worker *worker);
/* App code begins and ends; the second returns whether the worker still leads. */
void ab__worker_begin(ab_worker *worker);
bool ab__worker_end(ab_worker *worker);
/* Takes what waits, then tidies. False when the lead has gone. Raises what concerns the process. */
bool ab__worker_lead_on(ab_worker *worker);
/* Turns the engine without the GVL, until that is needed. */
void ab__worker_look_out(ab_worker *worker);
/* Calls `fn` without the GVL. When Ruby wants the thread it sets worker->interrupted, signals
 * worker->wake and wakes the poller. Raises what an interrupt raises. */
void ab__worker_wait(ab_worker *worker, void (*fn)(ab_worker *worker));

#endif
