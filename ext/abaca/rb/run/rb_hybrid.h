/* Mode :hybrid: requests of routes that keep their loop too often (engine/route_stats.h) go to
 * threads. What counts is, on a fiber, the longest stretch for which it kept its loop
 * (rb_work.c); on a thread, and on a fiber while other threads compute (ab_spares_contended),
 * the time for which it computed: waiting for the GVL is no fault of the request. */
#ifndef AB_RB_HYBRID_H
#define AB_RB_HYBRID_H

#include "rb/run/rb_run.h"

/* Finds the route of the driver's next request, which is hybrid. Returns true if it is to run on a
 * thread. */
bool ab_hybrid_takes_thread(ab_driver *driver);

/* A call that has a route ends, on a thread or on a fiber; longest is the longest time it computed
 * without giving way. Does nothing in other modes. */
void ab_hybrid_end(const ab_call *call, bool thread, ab_nsec longest);

/* Logs which routes were moved; on the leading thread, between turns. */
void ab_hybrid_log(ab_run *run);
static inline bool ab_hybrid_has_news(const ab_run *run) {
  return AB_UNLIKELY(run->hybrid) && ab_route_stats_has_moves(run->route_stats);
}

/* For Server#stats: a Hash. */
VALUE ab_hybrid_stats(const ab_run *run);

#endif
