/* The pulse of a thread that looks after a poller: there, or away in code or waiting for a lock
 * that is not ours. A watcher (lead/watcher.h) looks at pulses; a bell wakes it. */
#ifndef AB_LEAD_PULSE_H
#define AB_LEAD_PULSE_H

#include <stdatomic.h>

#include "base/base.h"
#include "os/bell.h"

/* Operations without a named order are seq_cst. */
typedef struct ab_bell {
  _Atomic bool asleep; /* a thread that goes away has to ring; partner: the beat */
  ab_os_bell os;
} ab_bell;

/* Returns AB_OK or AB_ESYS, with errno set. */
int ab_bell_init(ab_bell *bell) AB_WARN_UNUSED;
void ab_bell_fini(ab_bell *bell);
/* Makes the descriptor readable. Async-signal-safe. */
void ab_bell_ring(ab_bell *bell);
/* The same, once for each time that the watcher sleeps. */
void ab_bell_wake(ab_bell *bell);
/* The descriptor is not readable any more. */
void ab_bell_hush(ab_bell *bell);
/* The watcher waits: until it is rung for, `fd` is readable (-1: there is none), or the time is
 * over. With AB_POLL_FOREVER it sleeps, and threads that go away ring; `away` is asked after that
 * has become visible, and if it says true this returns at once. */
void ab_bell_await(ab_bell *bell, int fd, ab_nsec timeout, bool (*away)(void *ctx), void *ctx);
/* The same with AB_POLL_FOREVER, but it sleeps for `most` at most. */
void ab_bell_sleep(ab_bell *bell, int fd, ab_nsec most, bool (*away)(void *ctx), void *ctx);

typedef struct ab_pulse {
  _Atomic uint64_t beat; /* odd while it is away; a new number for each time */
  /* Stored before the beat, and loaded after it. Partner: ab_pulse_waits, and the lead's seize. */
  _Atomic bool starved; /* it is away because it waits for the interpreter's lock */
  _Atomic bool reading; /* it has taken something that is not its own yet: no time for others */
  ab_bell *bell;        /* of the watcher; NULL: there is none */
} ab_pulse;

/* The thread goes away, or on to something else there. */
static inline void ab_pulse_leave(ab_pulse *pulse) {
  /* Relaxed: its own, as in all that follows. */
  uint64_t beat = atomic_load_explicit(&pulse->beat, memory_order_relaxed);
  if (!pulse->bell) { /* relaxed: nobody looks at it */
    atomic_store_explicit(&pulse->beat, (beat + 1) | 1, memory_order_relaxed);
    return;
  }
  /* In one order with `asleep`: either we see that the watcher sleeps, or it sees us leave. Who
   * sees us leave sees what we did before. Partner: ab_bell_sleep, and the looks of watchers. */
  atomic_store(&pulse->beat, (beat + 1) | 1);
  if (AB_UNLIKELY(atomic_load(&pulse->bell->asleep))) ab_bell_wake(pulse->bell);
}

/* Does it wait for the interpreter's lock? A thread that reads has that, unless it was taken from
 * it: Ruby does so at any switch between fibers. */
static inline bool ab_pulse_waits(const ab_pulse *pulse) {
  return atomic_load(&pulse->starved) || atomic_load(&pulse->reading);
}

/* It is there again. Idempotent. */
static inline void ab_pulse_return(ab_pulse *pulse) {
  uint64_t beat = atomic_load_explicit(&pulse->beat, memory_order_relaxed);
  /* Release: who sees it there sees it fed. Partner: the looks of watchers. Whether it still leads,
   * ab_lead_held asks, with a store of its own. */
  atomic_store_explicit(&pulse->beat, (beat + 1) & ~(uint64_t)1, memory_order_release);
}

/* The thread goes where it may have to wait for the interpreter's lock, or lose it on the way. */
static inline void ab_pulse_starve(ab_pulse *pulse) {
  atomic_store_explicit(&pulse->starved, true, memory_order_relaxed); /* the beat releases it */
  ab_pulse_leave(pulse);
}

/* It is there, with the lock. Idempotent. */
static inline void ab_pulse_feed(ab_pulse *pulse) {
  atomic_store_explicit(&pulse->starved, false, memory_order_relaxed); /* as above */
  ab_pulse_return(pulse);
}

#endif
