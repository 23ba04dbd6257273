/* Threads wake a poller up, at the same time and while it is about to wait: each is heard;
 * ThreadSanitizer looks on as well (`rake races`). */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "io/poller.h"
#include "io/timer.h"

#define ROUNDS  20000
#define THREADS 2
#define LOST    (20 * AB_NSEC_PER_SEC)

typedef struct waker {
  ab_poller *poller;
  _Atomic uint64_t work; /* how often there was something to do, and ... */
  _Atomic uint64_t done; /* ... how much of that the other thread has seen */
  bool lost;
} waker;

static void *wake_often(void *arg) {
  waker *self = arg;
  for (uint64_t n = 1; n <= ROUNDS; n++) {
    atomic_store_explicit(&self->work, n, memory_order_relaxed);
    ab_poller_wakeup(self->poller);
    ab_nsec began = ab_clock_monotonic();
    while (n % 3 && atomic_load_explicit(&self->done, memory_order_relaxed) < n) {
      if (ab_clock_monotonic() - began < LOST) continue;
      self->lost = true;
      return NULL;
    }
  }
  return NULL;
}

CHECK_CASE(each_waker_is_heard) {
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  waker wakers[THREADS] = {{.poller = poller}, {.poller = poller}};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, wake_often, &wakers[i]));
  bool over = false;
  ab_nsec began = ab_clock_monotonic();
  while (!over && ab_clock_monotonic() - began < 2 * LOST) {
    over = true;
    for (int i = 0; i < THREADS; i++) {
      uint64_t work = atomic_load_explicit(&wakers[i].work, memory_order_relaxed);
      atomic_store_explicit(&wakers[i].done, work, memory_order_relaxed);
      over = over && work == ROUNDS;
    }
    if (!over) ab_poller_wait(poller, 2 * LOST);
  }
  CHECK(over);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(!wakers[i].lost);
  }
  ab_poller_fini(poller);
}

CHECK_MAIN()
