/* A native thread that notices when a loop's fiber runs for longer than its quantum, and asks Ruby
 * to call a function at that thread's next safe point (a "postponed job"). It watches the pulse of
 * the loop, which is away while a fiber runs. It never takes the GVL, and sleeps while the loop has
 * nothing to do.
 */
#ifndef AB_RB_WATCHDOG_H
#define AB_RB_WATCHDOG_H

#include "lead/pulse.h"

typedef struct ab_watchdog {
  ab_pulse pulse;
  _Atomic uint64_t wanted; /* the beat that has to end; 0 for none */
} ab_watchdog;

/* Starts the thread. `job` is what Ruby calls; it has to find out by itself whether it is meant.
 * Returns NULL and sets errno when there is no memory, descriptor or thread. */
ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused));
/* Ends the thread and frees everything. */
void ab_watchdog_stop(ab_watchdog *watchdog);
/* The same in a forked child, where the thread does not exist. */
void ab_watchdog_forget(ab_watchdog *watchdog);

/* A fiber begins to run: the loop runs it, or one that parks hands over to it. */
static inline void ab_watchdog_begin(ab_watchdog *watchdog) {
  ab_pulse_leave(&watchdog->pulse);
}

/* The loop runs again. */
static inline void ab_watchdog_end(ab_watchdog *watchdog) {
  ab_pulse_return(&watchdog->pulse);
}

/* True when the fiber that runs has to make room; once for each time that it was found out. */
static inline bool ab_watchdog_take(ab_watchdog *watchdog) {
  uint64_t beat = atomic_load_explicit(&watchdog->pulse.beat, memory_order_relaxed);
  return atomic_exchange(&watchdog->wanted, 0) == beat && (beat & 1) != 0;
}

#endif
