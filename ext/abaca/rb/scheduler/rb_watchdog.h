/* A native thread that notices when a fiber runs for longer than the quantum, and has Ruby call
 * a function at that thread's next safe point (a "postponed job"). It watches the loop's pulse,
 * never takes the GVL, and sleeps while there is nothing to do. */
#ifndef AB_RB_WATCHDOG_H
#define AB_RB_WATCHDOG_H

#include "lead/pulse.h"

typedef struct ab_watchdog {
  ab_pulse pulse;
  _Atomic uint64_t wanted; /* the beat that has to end; 0 for none */
} ab_watchdog;

/* Starts the thread. Ruby calls `job`, which checks whether it is meant. NULL and errno without
 * memory, descriptor or thread. */
ab_watchdog *ab_watchdog_start(ab_nsec quantum, void (*job)(void *unused));
/* Ends the thread and frees everything. */
void ab_watchdog_stop(ab_watchdog *watchdog);
/* The same in a forked child, where the thread does not exist. */
void ab_watchdog_forget(ab_watchdog *watchdog);

/* True when the fiber that runs has to make room; once for each time that it was found out. */
static inline bool ab_watchdog_take(ab_watchdog *watchdog) {
  /* Relaxed: the loop's own, and its thread is here. The beat that is wanted says all that counts;
   * it is taken once. Partner: the store in look. */
  uint64_t beat = atomic_load_explicit(&watchdog->pulse.beat, memory_order_relaxed);
  return atomic_exchange(&watchdog->wanted, 0) == beat && (beat & 1) != 0;
}

#endif
