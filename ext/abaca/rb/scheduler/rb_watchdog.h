/* A native thread that notices when a loop's fiber runs for longer than its quantum, and asks Ruby
 * to call a function at that thread's next safe point (a "postponed job"). It never takes the GVL,
 * and sleeps while the loop has nothing to do.
 */
#ifndef AB_RB_WATCHDOG_H
#define AB_RB_WATCHDOG_H

#include <stdatomic.h>

#include "base/base.h"

typedef struct ab_watchdog {
  _Atomic uint64_t epoch;  /* odd while a fiber runs; a new number for each */
  _Atomic uint64_t wanted; /* the epoch that has to end; 0 for none */
  _Atomic bool asleep;
} ab_watchdog;

/* Starts the thread. `job` is what Ruby calls; it has to find out by itself whether it is meant.
 * Returns NULL and sets errno when there is no memory or no thread. */
ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused));
/* Ends the thread and frees everything. */
void ab_watchdog_stop(ab_watchdog *watchdog);
/* The same in a forked child, where the thread does not exist. */
void ab_watchdog_forget(ab_watchdog *watchdog);
/* Wakes a thread that sleeps. */
void ab_watchdog_alert(ab_watchdog *watchdog);

/* A fiber begins to run: the loop runs it, or one that parks hands over to it. */
static inline void ab_watchdog_begin(ab_watchdog *watchdog) {
  uint64_t epoch = atomic_load_explicit(&watchdog->epoch, memory_order_relaxed);
  atomic_store(&watchdog->epoch, (epoch + 1) | 1);
  if (AB_UNLIKELY(atomic_load(&watchdog->asleep))) ab_watchdog_alert(watchdog);
}

/* The loop runs again. */
static inline void ab_watchdog_end(ab_watchdog *watchdog) {
  uint64_t epoch = atomic_load_explicit(&watchdog->epoch, memory_order_relaxed);
  atomic_store_explicit(&watchdog->epoch, (epoch + 1) & ~(uint64_t)1, memory_order_relaxed);
}

/* True when the fiber that runs has to make room; once for each time that it was found out. */
static inline bool ab_watchdog_take(ab_watchdog *watchdog) {
  uint64_t epoch = atomic_load_explicit(&watchdog->epoch, memory_order_relaxed);
  return atomic_exchange(&watchdog->wanted, 0) == epoch && (epoch & 1) != 0;
}

#endif
