/* The executor of requests on threads of the pool. A thread that waits here gets an exception at
 * the end of its wait; one that waits elsewhere (a database, `sleep`) by Thread#raise, only where
 * it blocks (rb_thread_worker.c). One that computes on is at last killed with the pool. */
#include "os/time.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_thread_parts.h"

/* It need not be the request's own thread. */
typedef struct thread_wait {
  ab_list link; /* in call->waits */
  ab_thread_pool *pool;
  VALUE thread, exception;
  pthread_cond_t wake;
  bool woken, interrupted;
  ab_call *shown; /* the call, if it is its own thread and in its row; ... */
  uint8_t before; /* ... as which it was in a wait already */
} thread_wait;

static ab_worker *worker_of(const ab_runner *runner) {
  return AB_CONTAINER_OF(ab_driver_of(runner), ab_worker, driver);
}

static bool thread_available(const ab_runner *runner) {
  const ab_worker *worker = worker_of(runner);
  return worker != &worker->pool->main && !ab__threads_has_surplus(worker->pool);
}

static bool thread_can_wait(const ab_runner *runner AB_UNUSED) {
  return true;
}

static void *wait_without_gvl(void *arg) {
  thread_wait *wait = arg;
  ab__threads_lock(wait->pool);
  while (!wait->woken && !wait->interrupted) pthread_cond_wait(&wait->wake, &wait->pool->lock);
  ab__threads_unlock(wait->pool);
  return NULL;
}

static void interrupt_wait(void *arg) {
  thread_wait *wait = arg;
  ab__threads_lock(wait->pool);
  wait->interrupted = true;
  pthread_cond_signal(&wait->wake);
  ab__threads_unlock(wait->pool);
}

static VALUE executor_wait_until_woken(VALUE arg) {
  thread_wait *wait = (thread_wait *)arg;
  while (!wait->woken) {
    wait->interrupted = false;
    rb_nogvl(wait_without_gvl, wait, interrupt_wait, wait, RB_NOGVL_INTR_FAIL);
    rb_thread_check_ints();
  }
  return Qnil;
}

static VALUE executor_wait_ended(VALUE arg) {
  thread_wait *wait = (thread_wait *)arg;
  ab_list_remove(&wait->link);
  if (wait->shown && ab_call_own(wait->shown)) ab_sight_go_on(wait->shown, wait->before);
  pthread_cond_destroy(&wait->wake);
  return Qnil;
}

static void executor_wait_for_call(ab_call *call, enum ab_wait_kind kind) {
  ab_worker *worker = worker_of(call->runner);
  thread_wait wait = {.pool = worker->pool, .thread = rb_thread_current(), .exception = Qnil};
  if (ab_os_cond_init(&wait.wake)) rb_memerror();
  ab_list_append(&call->waits, &wait.link);
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  ab_runner_pass_time(call->runner);
  ab_engine_unlock(engine);
  ab__threads_wake_turn(worker->pool->run);
  if (worker->pool->job_count > 0) ab_rack_tell_leader(call->rack); /* for another thread */
  if (wait.thread == worker->driver.runner.thread) ab__worker_leave(worker);
  if (rb_fiber_current() == call->fiber) {
    wait.shown = call;
    wait.before = ab_sight_wait(call, ab_state_of_wait(kind), NULL);
  }
  rb_ensure(executor_wait_until_woken, (VALUE)&wait, executor_wait_ended, (VALUE)&wait);
  if (!NIL_P(wait.exception)) rb_exc_raise(wait.exception);
}

/* The caller holds the GVL, so the thread that waits cannot leave before this has ended. */
static void executor_wake(thread_wait *wait) {
  ab__threads_lock(wait->pool);
  wait->woken = true;
  pthread_cond_signal(&wait->wake);
  ab__threads_unlock(wait->pool);
  wait->pool->in_a_row++;
}

/* All of them: it needs no Ruby. */
static bool executor_wake_all(ab_call *call) {
  ab_list_each (node, next, &call->waits) {
    executor_wake(AB_CONTAINER_OF(node, thread_wait, link));
  }
  return false;
}

/* Other threads of the app that wait for the call find out by themselves. */
static bool interrupt_own_wait(ab_worker *worker, VALUE exception) {
  ab_list_each (node, next, &worker->call->waits) {
    thread_wait *wait = AB_CONTAINER_OF(node, thread_wait, link);
    if (wait->thread != worker->driver.runner.thread) continue;
    wait->exception = exception;
    executor_wake(wait);
    return true;
  }
  return false;
}

static bool thread_interrupt(ab_call *call, VALUE exception) {
  ab_worker *worker = worker_of(call->runner);
  if (!interrupt_own_wait(worker, exception)) ab__threads_raise(worker, exception);
  return true;
}

static void thread_run_beside(ab_runner *runner, rb_block_call_func_t body, VALUE arg) {
  ab_thread_pool_beside(ab_driver_of(runner)->run->threads, body, arg);
}

const ab_executor ab_executor_thread = {
    .mode = AB_MODE_THREAD,
    .available = thread_available,
    .start = NULL, /* the pool's threads start their requests themselves */
    .can_wait = thread_can_wait,
    .wait = executor_wait_for_call,
    .wake_one = executor_wake_all,
    .interrupt = thread_interrupt,
    .run_beside = thread_run_beside,
    .in_turns = false,
};
