/* The host of requests that run on threads of the gang: how they wait for the engine, and how an
 * exception gets to them.
 *
 * A thread that waits here gets an exception at the end of its wait, as a fiber does. One that
 * waits elsewhere, for a database or in `sleep`, gets it by Thread#raise: the gang's threads take
 * Cancelled only where they block (Thread.handle_interrupt, rb_gang.c), so that no computation is
 * torn. A thread that computes on when the server cannot wait any longer is killed with the gang.
 */
#include "rb/server/rb_helm.h"

/* One waiting thread; on its stack. It need not be the request's own. */
typedef struct thread_wait {
  ab_list link; /* in exchange->waits */
  ab_gang *gang;
  VALUE thread, exception;
  pthread_cond_t call;
  bool woken, interrupted;
} thread_wait;

static ab_hand *hand_of(ab_exchange *exchange) {
  return AB_CONTAINER_OF(exchange->runner, ab_hand, runner);
}

static bool thread_available(const ab_runner *runner) {
  const ab_hand *hand = AB_CONTAINER_OF(runner, ab_hand, runner);
  return hand != &hand->gang->watch && !ab__gang_has_surplus(hand->gang);
}

static bool thread_can_wait(const ab_runner *runner) {
  (void)runner;
  return true;
}

static void *wait_without_gvl(void *arg) {
  thread_wait *wait = arg;
  ab__gang_lock(wait->gang);
  while (!wait->woken && !wait->interrupted) pthread_cond_wait(&wait->call, &wait->gang->lock);
  ab__gang_unlock(wait->gang);
  return NULL;
}

static void interrupt_wait(void *arg) {
  thread_wait *wait = arg;
  ab__gang_lock(wait->gang);
  wait->interrupted = true;
  pthread_cond_signal(&wait->call);
  ab__gang_unlock(wait->gang);
}

static VALUE wait_until_woken(VALUE arg) {
  thread_wait *wait = (thread_wait *)arg;
  while (!wait->woken) {
    wait->interrupted = false;
    rb_nogvl(wait_without_gvl, wait, interrupt_wait, wait, RB_NOGVL_INTR_FAIL);
    rb_thread_check_ints();
  }
  return Qnil;
}

static VALUE wait_ended(VALUE arg) {
  thread_wait *wait = (thread_wait *)arg;
  ab_list_remove(&wait->link);
  pthread_cond_destroy(&wait->call);
  return Qnil;
}

static void wait_for_exchange(ab_exchange *exchange, enum ab_wait_kind kind) {
  (void)kind;
  ab_hand *hand = hand_of(exchange);
  thread_wait wait = {.gang = hand->gang, .thread = rb_thread_current(), .exception = Qnil};
  if (ab__gang_init_cond(&wait.call)) rb_memerror();
  ab_list_append(&exchange->waits, &wait.link);
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  ab_server_pass_time(exchange->runner);
  ab_engine_unlock(engine);
  ab__gang_wake_turn(exchange->server);
  if (hand->gang->job_count > 0) ab_server_tell_leader(exchange->server); /* for another thread */
  if (wait.thread == hand->runner.thread) ab__helm_leave(hand);
  rb_ensure(wait_until_woken, (VALUE)&wait, wait_ended, (VALUE)&wait);
  if (!NIL_P(wait.exception)) rb_exc_raise(wait.exception);
}

/* Who waits has given up the GVL, which the caller holds: he cannot leave before this has ended. */
static void wake(thread_wait *wait) {
  ab__gang_lock(wait->gang);
  wait->woken = true;
  pthread_cond_signal(&wait->call);
  ab__gang_unlock(wait->gang);
}

/* All of them: it needs no Ruby. */
static bool wake_all(ab_exchange *exchange) {
  ab_list_each (node, next, &exchange->waits) {
    wake(AB_CONTAINER_OF(node, thread_wait, link));
  }
  return false;
}

static void thread_settle(ab_runner *runner) {
  (void)runner;
}

/* Other threads of the app that wait for the exchange find out by themselves. */
static bool interrupt_own_wait(ab_hand *hand, VALUE exception) {
  ab_list_each (node, next, &hand->exchange->waits) {
    thread_wait *wait = AB_CONTAINER_OF(node, thread_wait, link);
    if (wait->thread != hand->runner.thread) continue;
    wait->exception = exception;
    wake(wait);
    return true;
  }
  return false;
}

static bool thread_interrupt(ab_exchange *exchange, VALUE exception) {
  ab_hand *hand = hand_of(exchange);
  if (!interrupt_own_wait(hand, exception)) ab__gang_raise(hand, exception);
  return true;
}

/* Threads that the app has started are its own. */
static void thread_interrupt_others(ab_runner *runner, VALUE exception) {
  (void)runner;
  (void)exception;
}

const ab_host ab_host_thread = {
    .mode = AB_MODE_THREAD,
    .available = thread_available,
    .start = NULL, /* the gang's threads start their requests themselves */
    .can_wait = thread_can_wait,
    .wait = wait_for_exchange,
    .wake_one = wake_all,
    .settle = thread_settle,
    .interrupt = thread_interrupt,
    .interrupt_others = thread_interrupt_others,
    .in_turns = false,
};
