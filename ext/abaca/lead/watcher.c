/* The watcher's thread. */
#include "lead/watcher.h"

#include <errno.h>

#include "io/poller.h"
#include "io/thread.h"

static void *watch(void *arg) {
  ab_watcher *watcher = arg;
  while (!atomic_load(&watcher->stopping)) {
    int fd = -1;
    ab_nsec time = watcher->calls->look(watcher->ctx, &fd);
    if (time == AB_POLL_FOREVER) {
      ab_bell_sleep(&watcher->bell, fd, watcher->nap, watcher->calls->away, watcher->ctx);
    } else {
      ab_bell_await(&watcher->bell, fd, time < watcher->nap ? time : watcher->nap,
                    watcher->calls->away, watcher->ctx);
    }
  }
  return NULL;
}

int ab_watcher_start(ab_watcher *watcher, const ab_watcher_calls *calls, void *ctx) {
  watcher->calls = calls;
  watcher->ctx = ctx;
  watcher->nap = AB_POLL_FOREVER;
  atomic_init(&watcher->stopping, false);
  int error = ab_bell_init(&watcher->bell);
  if (error) return error;
  int err = ab_thread_start(&watcher->thread, watch, watcher);
  if (err == 0) return AB_OK;
  ab_bell_fini(&watcher->bell);
  errno = err;
  return AB_ESYS;
}

void ab_watcher_stop(ab_watcher *watcher) {
  atomic_store(&watcher->stopping, true);
  ab_bell_ring(&watcher->bell);
  pthread_join(watcher->thread, NULL);
  ab_bell_fini(&watcher->bell);
}

void ab_watcher_forget(ab_watcher *watcher) {
  ab_bell_fini(&watcher->bell);
}
