/* What requests compute, by their routes (engine/route_stats.h). The order in which requests wait
 * (engine/queue.h) and which may compute side by side (lead/gate.h) follow from it. A request that
 * got a route when it was taken is measured by its work (rb_work.c), on a thread by the thread's
 * clock. While no route is heavy, no request gets a route, and one that has run for long is noticed
 * when it ends. */
#ifndef AB_RB_COSTS_H
#define AB_RB_COSTS_H

#include "rb/run/rb_run.h"

/* Takes hybrid_threshold and hybrid_requests of the options; without them no route moves. The
 * routes and the options about stalls are set already. Raises NoMemoryError. */
void ab_costs_init(ab_run *run, VALUE options);

/* A call that has a route ends. The times are those for which it kept its loop; on a thread they
 * are ignored. */
void ab_costs_end(const ab_call *call, ab_work_times times);
/* A call without a route ends. It has run for so long; UINT64_MAX if that is not known. */
void ab_costs_learn(const ab_call *call, ab_nsec ran);

#endif
