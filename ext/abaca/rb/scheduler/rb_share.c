#include "rb/scheduler/rb_share.h"

#include <ruby.h>

/* Where others compute, the standby makes them pass the lock on after little more than this. */
#define KEEP_MOST AB_NSEC_PER_MS

/* On 3.1, a call that gives the lock up and takes it back is faster than the waiting thread. */
static VALUE schedule(VALUE unused) {
  (void)unused;
  rb_thread_schedule();
  return Qnil;
}

void ab_share_waited(ab_share *share, ab_nsec since) {
  ab_nsec now = ab_clock_monotonic(), took = now - since;
  share->until = now + (took < KEEP_MOST ? took : KEEP_MOST);
}

int ab_share_give_way(ab_share *share) {
  ab_nsec since = ab_clock_monotonic();
  if (since < share->until) return 0;
  int state = 0;
  rb_protect(schedule, Qnil, &state);
  ab_share_waited(share, since);
  return state;
}
