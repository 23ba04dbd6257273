/* Stints: how long a piece of work on a fiber keeps its loop at a stretch. A stretch ends when the
 * fiber, or one that it has resumed, gives the loop back; the wait's waiter remembers whose it was.
 * Where a fiber is left by other ways (a sibling's Fiber#raise, a stray transfer), what it keeps
 * the loop for afterwards is nobody's.
 *
 * A fiber that the work has resumed may be left in the middle of a wait, and wake up when the work
 * is over. So the memory of stints is the loop's for as long as that lives, and a waiter looks at
 * the serial of whose it is. */
#include "rb/scheduler/rb_scheduler.h"

#include <time.h>

#define UNKNOWN UINT64_MAX

ab_nsec ab_clock_of_thread(void) {
  struct timespec ts;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts)) return UNKNOWN;
  return (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
}

/* Ruby may give the GVL to another thread in the middle of it, at any time, for 100 ms and more. So
 * where others compute only what it computes itself counts. That clock costs a system call. */
static void begin_stretch(ab_loop *loop, ab_stint *stint) {
  const ab_loop_client *client = loop->client;
  bool contended = client && client->contended && client->contended(loop->client_ctx);
  stint->computed = AB_UNLIKELY(contended) ? ab_clock_of_thread() : UNKNOWN;
  stint->since = ab_clock_monotonic();
}

static void end_stretch(ab_stint *stint) {
  ab_nsec now = ab_clock_monotonic();
  /* What was excused may be longer than what was measured, by a tick of the clock. */
  ab_nsec time = now > stint->since ? now - stint->since : 0;
  if (time <= stint->longest) return;
  if (AB_UNLIKELY(stint->computed != UNKNOWN)) {
    ab_nsec computed = ab_clock_of_thread();
    if (computed != UNKNOWN && computed - stint->computed < time) time = computed - stint->computed;
  }
  if (time > stint->longest) stint->longest = time;
}

static ab_stint *make(ab_loop *loop) {
  ab_stint *stint = ab_alloc_zero(&ab_mem_libc, sizeof(*stint));
  if (!stint) return NULL;
  stint->next = loop->stints;
  loop->stints = stint;
  return stint;
}

ab_stint *ab_loop_begin_stint(ab_loop *loop) {
  ab_stint *stint = loop->idle_stints;
  if (AB_LIKELY(stint != NULL)) {
    loop->idle_stints = stint->next_idle;
  } else if (!(stint = make(loop))) {
    return NULL;
  }
  stint->longest = 0;
  begin_stretch(loop, stint);
  loop->stint = stint;
  return stint;
}

ab_nsec ab_loop_end_stint(ab_loop *loop, ab_stint *stint) {
  if (AB_LIKELY(loop->stint == stint)) {
    loop->stint = NULL;
    end_stretch(stint);
  }
  stint->serial++;
  stint->next_idle = loop->idle_stints;
  loop->idle_stints = stint;
  return stint->longest;
}

void ab_loop_excuse(ab_loop *loop, ab_nsec time) {
  if (loop->stint) loop->stint->since += time;
}

void ab__stint_pause(ab_loop *loop, ab_waiter *waiter) {
  ab_stint *stint = loop->stint;
  loop->stint = NULL;
  waiter->stint = stint;
  waiter->stint_serial = stint->serial;
  end_stretch(stint);
}

void ab__stint_go_on(ab_loop *loop, const ab_waiter *waiter) {
  ab_stint *stint = waiter->stint;
  if (stint->serial != waiter->stint_serial) return;
  begin_stretch(loop, stint);
  loop->stint = stint;
}

void ab__stints_fini(ab_loop *loop) {
  for (ab_stint *stint = loop->stints, *next; stint; stint = next) {
    next = stint->next;
    ab_free(&ab_mem_libc, stint);
  }
}
