/* The thread pool: Ruby threads that run requests on their own stacks, for code not made for
 * fibers. A loop that leads hands requests over (rb_thread_jobs.c); without a loop (mode :thread)
 * the threads lead in turns (rb_thread_lead.c, rb_thread_run.c).
 *
 * Everything here needs the GVL unless it says otherwise. */
#ifndef AB_RB_THREAD_POOL_H
#define AB_RB_THREAD_POOL_H

#include "rb/run/rb_run.h"

/* A request may keep the lead for this time, in nanoseconds. */
#define AB_LEAD_PATIENCE 200000

typedef struct ab_thread_pool ab_thread_pool;

extern const ab_executor ab_executor_thread;

typedef struct ab_thread_pool_stats {
  bool leads; /* there is no loop */
  uint32_t min, max;
  uint32_t threads, busy, waiting; /* now: threads; those in the app; requests that wait for one */
  uint64_t queued;                 /* of those that were handed over so far, how many had to wait */
  uint64_t gone;                   /* ... and how many clients went away before */
} ab_thread_pool_stats;

typedef struct ab_thread_pool_options {
  unsigned min, max; /* threads */
  size_t most;       /* requests that may wait for one, where a loop leads */
  bool clean;        /* what a request leaves on its thread is taken off */
  VALUE begins; /* called on each thread before its first request, or nil; marked by the pool */
  VALUE ends;   /* ... after its last one */
} ab_thread_pool_options;

/* Raises NoMemoryError. */
ab_thread_pool *ab_thread_pool_init(ab_run *run, const ab_thread_pool_options *options);
/* NULL is allowed; no thread of it may be left. */
void ab_thread_pool_fini(ab_thread_pool *pool);
void ab_thread_pool_mark(const ab_thread_pool *pool);

/* So many requests may wait from now on. With the GVL. */
void ab_thread_pool_set_most(ab_thread_pool *pool, size_t most);

/* Starts the first threads. Raises ThreadError. */
void ab_thread_pool_begin(ab_thread_pool *pool);
/* Ends the threads: those that are idle at once, the others when their request is over. They get
 * Shutdown first when not `in_order`, and are killed when that has not helped. */
void ab_thread_pool_end(ab_thread_pool *pool, bool in_order);

/* Serves on the threads alone, until the server is done. Raises what a request has raised for the
 * process, what a trap handler of this thread raises, ThreadError. */
void ab_thread_pool_run(ab_thread_pool *pool);
/* For the standby: the thread that leads is away, `again` in the beat of the last look. Takes the
 * lead from a long request, or turns the engine for want of threads. True if it was passed on. */
bool ab_thread_pool_pass(ab_thread_pool *pool, ab_participant *leader, bool again);

/* Hands the driver's next request over to a thread, or refuses it by a 503 (no memory, too many
 * waiting). Raises only what an interrupt raises. */
void ab_thread_pool_take(ab_thread_pool *pool, ab_driver *from);
/* Refuses jobs that have waited for queue_timeout. Returns when the next will have; 0: none. */
ab_nsec ab_thread_pool_turn_away(ab_thread_pool *pool, ab_nsec now);
/* Starts threads for those that wait for one, as far as there may be more of them now. */
void ab_thread_pool_relieve(ab_thread_pool *pool);
/* Something has happened to a request that has no call yet: it waits no more. */
void ab_thread_pool_event(ab_thread_pool *pool, ab_exchange *exchange, unsigned events);
/* Raises once what a request has raised for the process; on the thread that called run. */
void ab_thread_pool_raise(ab_thread_pool *pool);
/* The driver of the calling thread, if that belongs to the pool; else NULL. */
ab_driver *ab_thread_pool_driver_here(const ab_thread_pool *pool);
/* True while any of its threads has a request. */
bool ab_thread_pool_busy(const ab_thread_pool *pool);
/* ... or was given one, or is on its way to one. */
bool ab_thread_pool_works(const ab_thread_pool *pool);
/* Whether requests wait that the engine has handed over. Without the GVL too. */
bool ab_thread_pool_has_jobs(const ab_thread_pool *pool);
/* Requests that wait for a thread, of which there will be none for them. */
size_t ab_thread_pool_wanted(const ab_thread_pool *pool);
ab_thread_pool_stats ab_thread_pool_get_stats(ab_thread_pool *pool);
/* Calls fn for each request that waits for a thread, oldest first; fn must not run Ruby code. */
void ab_thread_pool_each_job(const ab_thread_pool *pool,
                             void (*fn)(const ab_taken *taken, void *ctx), void *ctx);

/* Runs `body` on a thread of its own, ended with the pool at the latest. Raises ThreadError. */
void ab_thread_pool_beside(ab_thread_pool *pool, rb_block_call_func_t body, VALUE arg);

#endif
