/* Mode :hybrid: requests of routes that keep their loop too often (engine/route_stats.h) go to
 * threads. What counts is, on a fiber, the longest stretch for which it kept its loop
 * (rb_work.c); on a thread, and on a fiber while other threads compute (ab_spares_contended),
 * the time for which it computed: waiting for the GVL is no fault of the request. */
#ifndef AB_RB_HYBRID_H
#define AB_RB_HYBRID_H

#include "rb/run/rb_run.h"

/* Takes hybrid_threshold and hybrid_requests of the options; without them no route moves. The
 * routes and the options about stalls are set already. Raises NoMemoryError. */
void ab_hybrid_init(ab_run *run, VALUE options);

/* Finds the route of the driver's next request, which is hybrid. Returns true if it is to run on a
 * thread. */
bool ab_hybrid_takes_thread(ab_driver *driver);

/* A call with a route ends on its fiber, whose loop it has kept for these times, or on its thread.
 * Calls no Ruby code. */
void ab_hybrid_end(const ab_call *call, ab_work_times times);
/* The same for one that was not measured, and has run for so long; UINT64_MAX: it is not known. */
void ab_hybrid_learn(const ab_call *call, ab_nsec ran);

/* Logs which routes were moved; on the leading thread, between turns. */
void ab_hybrid_log(ab_run *run);
static inline bool ab_hybrid_has_news(const ab_run *run) {
  return AB_UNLIKELY(run->hybrid) && ab_route_stats_has_moves(run->route_stats);
}

/* For Server#stats: a Hash. */
VALUE ab_hybrid_stats(const ab_run *run);

#endif
