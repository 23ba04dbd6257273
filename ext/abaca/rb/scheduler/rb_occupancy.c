/* Occupancy: how long a job keeps its loop at a stretch, until its fiber, or one that it has
 * resumed, gives the loop back. The wait's waiter remembers the job. After a sibling's Fiber#raise
 * or a stray transfer nothing is charged.
 * A fiber that a job has resumed may wake up after its end. So the loop owns the memory of
 * occupancies, and a waiter checks the serial. */
#include "rb/scheduler/rb_scheduler.h"

#include <time.h>

#define UNKNOWN UINT64_MAX

ab_nsec ab_clock_of_thread(void) {
  struct timespec ts;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts)) return UNKNOWN;
  return (ab_nsec)ts.tv_sec * AB_NSEC_PER_SEC + (ab_nsec)ts.tv_nsec;
}

/* Ruby may give the GVL to another thread for 100 ms and more at any time. Where others compute,
 * only the thread's own computing time counts; that clock costs a system call. */
static void begin_stretch(ab_loop *loop, ab_occupancy *occupancy) {
  const ab_loop_client *client = loop->client;
  bool contended = client && client->contended && client->contended(loop->client_ctx);
  occupancy->computed = AB_UNLIKELY(contended) ? ab_clock_of_thread() : UNKNOWN;
  occupancy->since = ab_clock_monotonic();
}

static void end_stretch(ab_occupancy *occupancy) {
  ab_nsec now = ab_clock_monotonic();
  /* The excused time may exceed the measured time, by a tick of the clock. */
  ab_nsec time = now > occupancy->since ? now - occupancy->since : 0;
  if (time <= occupancy->longest) return;
  if (AB_UNLIKELY(occupancy->computed != UNKNOWN)) {
    ab_nsec computed = ab_clock_of_thread();
    if (computed != UNKNOWN && computed - occupancy->computed < time)
      time = computed - occupancy->computed;
  }
  if (time > occupancy->longest) occupancy->longest = time;
}

static ab_occupancy *make(ab_loop *loop) {
  ab_occupancy *occupancy = ab_alloc_zero(&ab_mem_libc, sizeof(*occupancy));
  if (!occupancy) return NULL;
  occupancy->next = loop->occupancies;
  loop->occupancies = occupancy;
  return occupancy;
}

ab_occupancy *ab_loop_begin_occupancy(ab_loop *loop) {
  ab_occupancy *occupancy = loop->idle_occupancies;
  if (AB_LIKELY(occupancy != NULL)) {
    loop->idle_occupancies = occupancy->next_idle;
  } else if (!(occupancy = make(loop))) {
    return NULL;
  }
  occupancy->longest = 0;
  begin_stretch(loop, occupancy);
  loop->occupancy = occupancy;
  return occupancy;
}

ab_nsec ab_loop_end_occupancy(ab_loop *loop, ab_occupancy *occupancy) {
  if (AB_LIKELY(loop->occupancy == occupancy)) {
    loop->occupancy = NULL;
    end_stretch(occupancy);
  }
  occupancy->serial++;
  occupancy->next_idle = loop->idle_occupancies;
  loop->idle_occupancies = occupancy;
  return occupancy->longest;
}

void ab_loop_excuse(ab_loop *loop, ab_nsec time) {
  if (loop->occupancy) loop->occupancy->since += time;
}

void ab__occupancy_pause(ab_loop *loop, ab_waiter *waiter) {
  ab_occupancy *occupancy = loop->occupancy;
  loop->occupancy = NULL;
  waiter->occupancy = occupancy;
  waiter->occupancy_serial = occupancy->serial;
  end_stretch(occupancy);
}

void ab__occupancy_go_on(ab_loop *loop, const ab_waiter *waiter) {
  ab_occupancy *occupancy = waiter->occupancy;
  if (occupancy->serial != waiter->occupancy_serial) return;
  begin_stretch(loop, occupancy);
  loop->occupancy = occupancy;
}

void ab__occupancies_fini(ab_loop *loop) {
  for (ab_occupancy *occupancy = loop->occupancies, *next; occupancy; occupancy = next) {
    next = occupancy->next;
    ab_free(&ab_mem_libc, occupancy);
  }
}
