/* What the workers of a thread pool and the watch over them (rb_lead_watch.h) do with the lead. See
 * rb_worker_lead.c for how. "Locked": the pool's lock is held. */
#ifndef AB_RB_WORKER_LEAD_H
#define AB_RB_WORKER_LEAD_H

#include "rb/run/rb_thread_pool_parts.h"

/* A request may keep the lead for this time. */
#define AB_LEAD_PATIENCE (200000)

/* The lead is passed among the workers and the watch, and goes to nothing else meanwhile. */
static inline ab_lead *ab__worker_lead(const ab_thread_pool *pool) {
  return &pool->run->rack.lead;
}
static inline ab_participant *ab__worker_participant(ab_worker *worker) {
  return &worker->driver.runner.participant;
}
static inline bool ab__worker_leads(const ab_worker *worker) {
  const ab_participant *holder = atomic_load(&ab__worker_lead(worker->pool)->holder);
  return holder == &worker->driver.runner.participant;
}
/* The worker that leads, or the watch. Locked: at other times it may be neither. */
static inline ab_worker *ab__worker_leading(const ab_thread_pool *pool) {
  ab_participant *holder = atomic_load(&ab__worker_lead(pool)->holder);
  return AB_CONTAINER_OF(ab_driver_of_participant(holder), ab_worker, driver);
}
/* Is it in app code that the lead was used for, or in the app's log? */
static inline bool ab__worker_is_away(const ab_worker *worker) {
  return atomic_load(&worker->driver.runner.participant.pulse.beat) & 1;
}

/* For a thread of the pool. */

/* The calling thread's worker looks for work, and does it. Returns false when the thread has to
 * end.
 */
bool ab__worker_turn(ab_worker *worker);
/* Gives the lead away, if the worker has it. Without the GVL too. */
void ab__worker_leave(ab_worker *worker);
/* App code begins and ends; the second returns whether the worker still leads. */
void ab__worker_begin(ab_worker *worker);
bool ab__worker_end(ab_worker *worker);

/* For the watch. */

/* All threads are busy, and there will not be more of them. Locked. */
bool ab__worker_is_full(const ab_thread_pool *pool);
/* Passes on the worker's lead, if the worker still runs app code. Locked. Returns whether another
 * thread has it then. */
bool ab__worker_take_from(ab_thread_pool *pool, ab_worker *worker);

/* Is there something for ab_run_stages.turn or ab_turn_tidy? An end that has begun is looked at
 * after each turn. */
bool ab__worker_has_housekeeping(const ab_thread_pool *pool);
/* Takes what waits, and does what belongs to a turn. Returns false when the lead has gone. Raises
 * what concerns the process. */
bool ab__worker_lead_on(ab_worker *worker);
/* Turns the engine without the GVL, until that is needed. */
void ab__worker_look_out(ab_worker *worker);
/* Ends the step of the last turn and begins another one, which waits for nothing. No requests are
 * taken, and no GVL is needed. */
void ab__worker_turn_once(ab_thread_pool *pool);

/* Calls `fn` without the GVL, until it returns. Ruby sets worker->interrupted, signals worker->wake
 * and wakes the poller when it wants something of the thread. Raises what an interrupt raises. */
void ab__worker_wait(ab_worker *worker, void (*fn)(ab_worker *worker));

#endif
