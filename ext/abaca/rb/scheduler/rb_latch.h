/* Wake-ups that come before their fiber has parked (rb_latch.c). */
#ifndef AB_RB_LATCH_H
#define AB_RB_LATCH_H

#include <ruby.h>
#include <ruby/st.h>

#include "base/base.h"
#include "rb/scheduler/rb_loop.h"

typedef struct ab_latches {
  st_table *by_fiber; /* its first ab_latch; NULL before the first one of all */
  size_t prune_at;    /* with this many fibers, those that have ended are searched for */
  VALUE queue_class, mutex_class, condition_class; /* 0 before the first use */
} ab_latches;

void ab_latches_fini(ab_latches *latches);
void ab_latches_mark(const ab_latches *latches);

/* What #unblock does: ends the fiber's wait if the wake-up is for it, or keeps the wake-up for the
 * right one. May raise NoMemoryError. */
void ab__latch_wake(ab_loop *loop, VALUE blocker, VALUE fiber);
/* Takes what was kept for this wait of the current fiber, which is about to begin. Returns false if
 * there is nothing. */
bool ab__latch_take(ab_latches *latches, const ab_waiter *waiter, bool forever);

static inline bool ab__latch_any(const ab_latches *latches) {
  return latches->by_fiber && latches->by_fiber->num_entries > 0;
}

#endif
