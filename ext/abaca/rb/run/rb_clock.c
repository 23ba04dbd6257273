#include "rb/run/rb_clock.h"

#include "rb/rack/rb_sight.h"
#include "rb/run/rb_hybrid.h"

/* --- a request --- */

void ab_clock_begin(ab_call *call, ab_nsec now) {
  ab_loop *loop = ab_driver_of(call->runner)->loop;
  bool measured = call->measure.route.serial != 0;
  if (loop) {
    call->work = ab_loop_begin_work(loop, call->row, measured, now);
  } else if (measured) {
    call->measure.computed = ab_clock_of_thread();
  }
}

/* Without memory for its work nothing but its beginning and its end is known. */
void ab_clock_end(ab_call *call, ab_nsec now) {
  ab_nsec longest = 0;
  bool measured = call->measure.route.serial != 0;
  if (AB_LIKELY(call->work != NULL)) {
    longest = ab_loop_end_work(ab_driver_of(call->runner)->loop, call->work, now);
  } else if (call->row) {
    ab_sight_turn(call, AB_STATE_RUN, NULL, now);
  }
  if (AB_UNLIKELY(measured)) ab_hybrid_end(call, longest);
  call->work = NULL;
}

/* --- the threads that run requests --- */

static void waited(void *sight, enum ab_state state, ab_nsec time) {
  ab_sight_waited(sight, state, time);
}

void ab_clock_attach(ab_driver *driver) {
  ab_run *run = driver->run;
  driver->runner.place = run->places++;
  if (!run->rack.sight) return;
  if (driver->loop) {
    ab_loop_set_sight(
        driver->loop,
        &(ab_loop_sight){.services = &run->services, .waited = waited, .ctx = run->rack.sight});
  }
  ab__clock_set_thread(run, driver);
  driver->attached = true;
}

void ab_clock_detach(ab_driver *driver) {
  if (driver->loop) ab_loop_set_sight(driver->loop, NULL);
  if (driver->attached) ab__clock_set_thread(driver->run, NULL);
  driver->attached = false;
}
