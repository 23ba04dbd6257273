/* Requests that wait for their own clients: for bytes of the body, or until enough of the response
 * has left. Up to max_slow_clients of them, on fibers and on threads each, are *aside*: they take
 * no place. The others keep theirs, and the slowest clients are closed when requests want places.
 *
 * A request that is aside goes on when its client moves, even without a place: it may hold what
 * others wait for. So there are at most max_fibers + max_slow_clients fibers, and likewise threads.
 * A single place is never left: a limit of one request at a time is meant.
 *
 * Everything here needs the GVL unless it says otherwise. */
#ifndef AB_RB_SLOW_H
#define AB_RB_SLOW_H

#include "rb/run/rb_run.h"

/* `fibers` and `threads` are the places that there are. */
void ab_slow_init(ab_run *run, unsigned fibers, unsigned threads);
/* The request's own fiber or thread begins to wait for its client. False for any other, and then
 * there is no end to be told. */
bool ab_slow_begin(ab_call *call);
/* It waits no more. */
void ab_slow_end(ab_call *call);
/* The request is over, whose client was closed. */
void ab_slow_left(ab_call *call);

/* When ab_slow_look may have something to do; 0: nothing. Without the GVL too. */
ab_nsec ab_slow_due(const ab_run *run);
/* Closes the slowest clients if requests want places. For the leading thread, after its turn. */
void ab_slow_look(ab_run *run, ab_nsec now);

#endif
