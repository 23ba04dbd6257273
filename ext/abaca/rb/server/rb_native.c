/* The server's usual host: the loop of an Abaca::Scheduler, which the engine shares with the waits
 * of fibers, and a pool whose fibers run one request after another. */
#include "rb/scheduler/rb_scheduler.h"
#include "rb/server/rb_spare.h"

/* --- starting --- */

static void run_exchange(void *arg) {
  ab_runner *runner = arg;
  ab_exchange *exchange = ab_exchange_take(runner->server);
  ab_taken taken = ab_server_taken(runner);
  if (AB_LIKELY(exchange != NULL)) {
    ab_server_serve(runner, &taken, exchange);
  } else {
    ab_server_refuse(runner, &taken, AB_REJECT_NO_FIBER);
  }
}

static bool next_job(void *ctx, ab_job_fn *fn, void **arg) {
  ab_runner *runner = ctx;
  if (!runner->dispatching || !ab_server_next(runner)) {
    /* Ruby may give the GVL to another thread at the switch to the loop, for as long as it likes.
     */
    ab_pulse_starve(&runner->seat.pulse);
    return false;
  }
  *fn = run_exchange;
  *arg = runner;
  return true;
}

void ab_native_begin(ab_runner *runner) {
  ab_pool_set_next(runner->pool, next_job, runner);
}

void ab_native_end(ab_runner *runner) {
  ab_pool_set_next(runner->pool, NULL, NULL);
}

/* Each pool has as many fibers as there may be in all, those that are aside included. */
static bool native_available(const ab_runner *runner) {
  const ab_server *server = runner->server;
  if (!ab_pool_available(runner->pool)) return false;
  return ab_crew_busy(server) < (size_t)server->max_fibers + server->slow.fibers.aside_count;
}

static bool native_start(ab_runner *runner) {
  return ab_pool_start(runner->pool, runner->loop, run_exchange, runner);
}

/* --- waiting --- */

/* One waiting fiber; on its stack. */
typedef struct native_wait {
  ab_list link; /* in exchange->waits */
  ab_loop *loop;
  ab_waiter waiter;
} native_wait;

static VALUE park(VALUE arg) {
  native_wait *wait = (native_wait *)arg;
  ab_loop_park(wait->loop, &wait->waiter, 0);
  return Qnil;
}

static VALUE parked(VALUE arg) {
  ab_list_remove(&((native_wait *)arg)->link);
  return Qnil;
}

/* What it waits for may have to be seen to by another: a deadline, or octets that are here. */
static void tell_leader(const ab_exchange *exchange) {
  ab_server *server = exchange->server;
  if (AB_LIKELY(ab_lead_is(&server->lead, &exchange->runner->seat))) return;
  ab_engine_lock(server->engine);
  bool tell = ab_server_must_tell(exchange->runner);
  ab_engine_unlock(server->engine);
  if (tell) ab_server_tell_leader(server);
}

static void wait_for_exchange(ab_exchange *exchange, enum ab_wait_kind kind) {
  tell_leader(exchange);
  native_wait wait = {.loop = exchange->runner->loop};
  wait.waiter.kind = (uint8_t)kind;
  wait.waiter.object = exchange->env;
  ab_list_append(&exchange->waits, &wait.link);
  rb_ensure(park, (VALUE)&wait, parked, (VALUE)&wait);
}

/* All of them: it needs no Ruby. */
static bool wake_all(ab_exchange *exchange) {
  ab_list_each (node, next, &exchange->waits) {
    native_wait *wait = AB_CONTAINER_OF(node, native_wait, link);
    ab_loop_wake(wait->loop, &wait->waiter);
  }
  return false;
}

static bool native_can_wait(const ab_runner *runner) {
  return rb_thread_current() == runner->thread && rb_fiber_current() != ab_loop_root(runner->loop);
}

/* Its waits end in order, so there is nothing to let pass. */
static void native_settle(ab_runner *runner) {
  (void)runner;
}

static bool native_interrupt(ab_exchange *exchange, VALUE exception) {
  return ab__loop_interrupt(exchange->runner->loop, exchange->fiber, exception);
}

static void native_interrupt_others(ab_runner *runner, VALUE exception) {
  ab__loop_interrupt_all(runner->loop, exception);
}

const ab_host ab_host_native = {
    .mode = AB_MODE_FIBER,
    .available = native_available,
    .start = native_start,
    .can_wait = native_can_wait,
    .wait = wait_for_exchange,
    .wake_one = wake_all,
    .settle = native_settle,
    .interrupt = native_interrupt,
    .interrupt_others = native_interrupt_others,
    .in_turns = true,
};
