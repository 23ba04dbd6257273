/* What the workers of a thread pool and the watch over them (rb_lead_watch.h) do with the lead. See
 * rb_worker_lead.c for how. "Locked": the pool's lock is held. */
#ifndef AB_RB_WORKER_LEAD_H
#define AB_RB_WORKER_LEAD_H

#include "rb/run/rb_thread_pool_parts.h"

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
/* The worker that leads, or the watch; NULL: the standby turns the engine. Locked: at other times
 * it may be none of them. */
static inline ab_worker *ab__worker_leading(const ab_thread_pool *pool) {
  ab_participant *holder = atomic_load(&ab__worker_lead(pool)->holder);
  return holder ? AB_CONTAINER_OF(ab_driver_of_participant(holder), ab_worker, driver) : NULL;
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

/* Takes what waits, and does what belongs to a turn. Returns false when the lead has gone. Raises
 * what concerns the process. */
bool ab__worker_lead_on(ab_worker *worker);
/* Turns the engine without the GVL, until that is needed. */
void ab__worker_look_out(ab_worker *worker);
/* Takes the lead from the worker if that is away. Locked. */
void ab__worker_take_from(ab_worker *worker);

/* Calls `fn` without the GVL, until it returns. Ruby sets worker->interrupted, signals worker->wake
 * and wakes the poller when it wants something of the thread. Raises what an interrupt raises. */
void ab__worker_wait(ab_worker *worker, void (*fn)(ab_worker *worker));

#endif
