/* A watcher: a native thread that looks at pulses (lead/pulse.h), and sleeps while none is away.
 * Its owner says what a look means: lead/standby.h, rb/scheduler/rb_watchdog.h. */
#ifndef AB_LEAD_WATCHER_H
#define AB_LEAD_WATCHER_H

#include <pthread.h>

#include "lead/pulse.h"

/* Called on the watcher's thread. */
typedef struct ab_watcher_calls {
  /* Returns the time until the next look; AB_POLL_FOREVER: until a thread leaves. `fd` is -1: set,
   * it ends the wait when it is readable. */
  ab_nsec (*look)(void *ctx, int *fd);
  /* Has a thread left since the last look? */
  bool (*away)(void *ctx);
} ab_watcher_calls;

typedef struct ab_watcher {
  ab_bell bell; /* that of the pulses */
  pthread_t thread;
  _Atomic bool stopping; /* stored, then the bell is rung: the kernel orders both */
  ab_nsec nap;           /* it sleeps for no longer; a look may change that */
  const ab_watcher_calls *calls;
  void *ctx;
} ab_watcher;

/* Starts the thread. Borrows `calls`. Returns AB_OK or AB_ESYS, with errno set. */
int ab_watcher_start(ab_watcher *watcher, const ab_watcher_calls *calls, void *ctx) AB_WARN_UNUSED;
/* Ends the thread. No pulse has the bell any more. */
void ab_watcher_stop(ab_watcher *watcher);
/* The same in a forked child, where the thread does not exist. */
void ab_watcher_forget(ab_watcher *watcher);

#endif
