/* Wake-ups that come before their fiber has parked (rb_latch.c). */
#ifndef AB_RB_LATCH_H
#define AB_RB_LATCH_H

#include <ruby.h>
#include <ruby/st.h>

#include "base/base.h"
#include "rb/scheduler/rb_loop.h"

typedef struct ab_latches {
  st_table *by_fiber; /* its first ab_latch; NULL before the first one of all */
  size_t prune_at;    /* with so many fibers there it is looked for those that have ended */
  VALUE queue_class, mutex_class, condition_class; /* 0 before the first use */
} ab_latches;

void ab_latches_fini(ab_latches *latches);
void ab_latches_mark(const ab_latches *latches);

/* What #unblock does: ends the fiber's wait if it is the one that this is for, or keeps it for
 * that. May raise NoMemoryError. */
void ab__latch_wake(ab_loop *loop, VALUE blocker, VALUE fiber);
/* Takes what was kept for this wait of the current fiber, which is about to begin. Returns false
 * when there is none. */
bool ab__latch_take(ab_latches *latches, const ab_waiter *waiter, bool forever);
/* The fiber's work is over: nothing is left for the next. */
void ab__latch_forget(ab_latches *latches, VALUE fiber);

static inline bool ab__latch_any(const ab_latches *latches) {
  return latches->by_fiber && latches->by_fiber->num_entries > 0;
}

#endif
