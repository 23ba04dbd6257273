/* The usual executor: the loop of an Abaca::Scheduler, and a pool of fibers for requests. */
#include "rb/run/rb_run.h"

#include "rb/run/rb_clock.h"
#include "rb/run/rb_spare.h"
#include "rb/run/rb_turn.h"
#include "rb/scheduler/rb_scheduler.h"

/* --- starting --- */

static void native_run_request(void *arg) {
  ab_driver *driver = arg;
  ab_call *call = ab_call_take(&driver->run->rack);
  ab_taken taken = ab_turn_taken(driver);
  ab_participant *participant = &driver->runner.participant;
  if (AB_UNLIKELY(taken.level > 0)) {
    ab_gate_claim(&driver->run->rack.lead.gate, &participant->contender, taken.level);
  }
  if (AB_LIKELY(call != NULL)) {
    ab_serve_request(&driver->runner, &taken, call);
  } else {
    ab_serve_refuse(&driver->runner, &taken, AB_REJECT_NO_FIBER);
  }
}

static bool next_job(void *ctx, ab_job_fn *fn, void **arg) {
  ab_driver *driver = ctx;
  if (!driver->dispatching || !ab_turn_next(driver)) {
    /* Ruby may give the GVL to another thread at the switch to the loop, for long. */
    ab_pulse_starve(&driver->runner.participant.pulse);
    driver->runner.moment = 0;
    return false;
  }
  *fn = native_run_request;
  *arg = driver;
  return true;
}

void ab_native_begin(ab_driver *driver) {
  ab_pool_set_next(driver->pool, next_job, driver);
  ab_clock_attach(driver);
}

void ab_native_end(ab_driver *driver) {
  ab_pool_set_next(driver->pool, NULL, NULL);
  ab_clock_detach(driver);
}

/* Each pool has as many fibers as there may be in all, those that are aside included. */
static bool native_available(const ab_runner *runner) {
  const ab_driver *driver = ab_driver_of(runner);
  const ab_run *run = driver->run;
  if (!ab_pool_available(driver->pool)) return false;
  return ab_spares_busy(run) < (size_t)run->max_fibers + run->slow.fibers.aside_count;
}

static bool native_start(ab_runner *runner) {
  ab_driver *driver = ab_driver_of(runner);
  return ab_pool_start(driver->pool, driver->loop, native_run_request, driver);
}

/* --- waiting --- */

/* One waiting fiber; on its stack. */
typedef struct parked_fiber {
  ab_list link; /* in call->waits */
  ab_loop *loop;
  ab_waiter waiter;
} parked_fiber;

static VALUE park(VALUE arg) {
  parked_fiber *wait = (parked_fiber *)arg;
  ab_loop_park(wait->loop, &wait->waiter, 0);
  return Qnil;
}

static VALUE parked(VALUE arg) {
  ab_list_remove(&((parked_fiber *)arg)->link);
  return Qnil;
}

static ab_loop *loop_of(const ab_call *call) {
  return ab_driver_of(call->runner)->loop;
}

/* What it waits for may have to be seen to by another: a deadline, or bytes that are here. */
static void tell_leader(const ab_call *call) {
  ab_rack *rack = call->rack;
  if (AB_LIKELY(ab_lead_is(&rack->lead, &call->runner->participant))) return;
  ab_engine_lock(rack->engine);
  bool tell = ab_runner_must_tell(call->runner);
  ab_engine_unlock(rack->engine);
  if (tell) ab_rack_tell_leader(rack);
}

static void native_wait_for(ab_call *call, enum ab_wait_kind kind) {
  tell_leader(call);
  parked_fiber wait = {.loop = loop_of(call)};
  wait.waiter.kind = (uint8_t)kind;
  wait.waiter.object = call->env;
  ab_list_append(&call->waits, &wait.link);
  rb_ensure(park, (VALUE)&wait, parked, (VALUE)&wait);
}

/* All of them: it needs no Ruby. */
static bool native_wake_all(ab_call *call) {
  ab_list_each (node, next, &call->waits) {
    parked_fiber *wait = AB_CONTAINER_OF(node, parked_fiber, link);
    ab_loop_wake(wait->loop, &wait->waiter);
  }
  return false;
}

static bool native_can_wait(const ab_runner *runner) {
  return rb_thread_current() == runner->thread &&
         rb_fiber_current() != ab_driver_of(runner)->loop->root;
}

static bool native_interrupt(ab_call *call, VALUE exception) {
  return ab__loop_interrupt(loop_of(call), call->fiber, exception);
}

const ab_executor ab_executor_native = {
    .mode = AB_MODE_FIBER,
    .available = native_available,
    .start = native_start,
    .can_wait = native_can_wait,
    .wait = native_wait_for,
    .wake_one = native_wake_all,
    .interrupt = native_interrupt,
    .in_turns = true,
};
