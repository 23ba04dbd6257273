/* The gang: Ruby threads that run requests on stacks of their own, for code that is not made for
 * fibers. Where the server's loop leads, requests of thread routes are handed over to it with their
 * env built (ab_gang_take). Without a loop (mode :thread) one thread of the gang at a time turns
 * the engine and runs what it takes from it itself (rb_helm.c, rb_helm_watch.c).
 *
 * Everything here needs the GVL unless it says otherwise.
 */
#ifndef AB_RB_GANG_H
#define AB_RB_GANG_H

#include "rb/server/rb_server.h"

typedef struct ab_gang ab_gang;

typedef struct ab_gang_stats {
  bool leads; /* there is no loop */
  uint32_t min, max;
  uint32_t threads, busy, waiting; /* now: threads; those in the app; requests that wait for one */
  uint32_t jobs;                   /* of these, those that the engine has handed over already */
  uint64_t queued;                 /* of those that were handed over so far, how many had to wait */
  uint64_t gone;                   /* ... and how many clients did not wait for so long */
} ab_gang_stats;

typedef struct ab_gang_options {
  unsigned min, max; /* threads */
  size_t most;       /* requests that may wait for one, where a loop leads */
  bool clean;        /* what a request leaves on its thread is taken off */
} ab_gang_options;

/* Raises NoMemoryError. */
ab_gang *ab_gang_init(ab_server *server, const ab_gang_options *options);
/* NULL is allowed; no thread of it may be left. */
void ab_gang_fini(ab_gang *gang);
void ab_gang_mark(const ab_gang *gang);

/* Starts the first threads. Raises ThreadError. */
void ab_gang_begin(ab_gang *gang);
/* Ends the threads: those that are idle at once, the others when their request is over. They get
 * Shutdown first when not `in_order`, and are killed when that has not helped. */
void ab_gang_end(ab_gang *gang, bool in_order);

/* Hands the request in the runner's next_conn and next_request over to a thread. For want of
 * memory, or with too many requests waiting, it is refused by a 503. Raises only what an interrupt
 * raises.
 */
void ab_gang_take(ab_gang *gang, ab_runner *from);
/* Refuses those that have waited for a thread for queue_timeout. Returns when the next one will
 * have; 0: none waits. */
ab_nsec ab_gang_turn_away(ab_gang *gang, ab_nsec now);
/* Starts threads for those that wait for one, as far as there may be more of them now. */
void ab_gang_relieve(ab_gang *gang);
/* Something has happened to a request that has no exchange yet: it waits no more. */
void ab_gang_event(ab_gang *gang, ab_conn *conn, unsigned events);
/* What a request has raised for the process (SystemExit, Interrupt, NoMemoryError), once; else
 * Qnil.
 */
VALUE ab_gang_forwarded(ab_gang *gang);
/* True while any of its threads has a request. */
bool ab_gang_busy(const ab_gang *gang);
/* ... or was given one, or is on its way to one. */
bool ab_gang_works(const ab_gang *gang);
/* Threads that there may be, but for those that are aside. */
unsigned ab_gang_most(const ab_gang *gang);
/* Whether requests wait that the engine has handed over. Without the GVL too. */
bool ab_gang_has_jobs(const ab_gang *gang);
/* Requests that wait for a thread, of which there will be none for them. */
size_t ab_gang_wanted(const ab_gang *gang);
ab_gang_stats ab_gang_get_stats(ab_gang *gang);
/* Calls fn for each request that waits for a thread, the oldest first; fn must not run Ruby code.
 */
void ab_gang_each_job(const ab_gang *gang, void (*fn)(const ab_taken *taken, void *ctx), void *ctx);

/* Runs `body` with `arg` on a thread of its own, which ends with the gang at the latest. Raises
 * ThreadError. */
void ab_gang_beside(ab_gang *gang, rb_block_call_func_t body, VALUE arg);

#endif
