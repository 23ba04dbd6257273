/* A pool of threads: its life, its size and its end. See rb_thread_pool.h. */
#include "rb/run/rb_thread_parts.h"

#include <errno.h>
#include <ruby/fiber/scheduler.h>

#include "os/time.h"
#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_rack_setup.h"

/* Threads that are broken off get this time to end by the exception, and then by the kill. */
#define FORCE_TIME (5 * AB_NSEC_PER_SEC)
#define KILL_TIME  AB_NSEC_PER_SEC
/* Seconds between two looks at a thread. */
#define JOIN_PAUSE 0.005

/* --- life --- */

void ab__worker_init(ab_worker *worker, ab_thread_pool *pool) {
  worker->pool = pool;
  worker->driver.run = pool->run;
  ab__worker_participant(worker)->pulse.bell = pool->bell;
  ab_list_init(&worker->link);
  ab_list_init(&worker->idle_link);
  ab_os_cond_init(&worker->wake);
}

ab_thread_pool *ab_thread_pool_init(ab_run *run, const ab_thread_pool_options *options) {
  ab_thread_pool *pool = ab_alloc_zero(&ab_mem_libc, sizeof(*pool));
  if (!pool) rb_memerror();
  pool->run = run;
  pool->options = *options;
  pool->forward = pool->threads = pool->mode_key = pool->mode_name = Qnil;
  ab_list_init(&pool->workers);
  ab_list_init(&pool->jobs);
  ab_list_init(&pool->idle);
  ab_list_init(&pool->retired);
  pthread_mutex_init(&pool->lock, NULL);
  ab__worker_init(&pool->main, pool);
  pool->leader_wait.run = pool->main_wait.run = run;
  ab_runner_init_bare(&pool->main.driver.runner, &run->rack, &ab_executor_thread);
  ab_runner_init_bare(&pool->leader_wait.runner, &run->rack, &ab_executor_thread);
  ab_runner_init_bare(&pool->main_wait.runner, &run->rack, &ab_executor_thread);
  return pool;
}

void ab_thread_pool_fini(ab_thread_pool *pool) {
  if (!pool) return;
  for (ab_list *node; (node = ab_list_shift(&pool->jobs));) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, ab_job, link));
  }
  /* Only when the process exits in the middle of a run do any of them have a thread. */
  ab_list_splice(&pool->retired, &pool->workers);
  for (ab_list *node; (node = ab_list_shift(&pool->retired));) {
    ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, link);
    ab_free(&ab_mem_libc, worker->job);
    ab_free(&ab_mem_libc, worker->driver.runner.scratch);
    ab_free(&ab_mem_libc, worker);
  }
  /* In a forked child a thread that does not exist may hold the lock. */
  if (!ab_rack_forked(&pool->run->rack)) {
    pthread_cond_destroy(&pool->main.wake);
    pthread_mutex_destroy(&pool->lock);
  }
  ab_free(&ab_mem_libc, pool);
}

void ab_thread_pool_mark(const ab_thread_pool *pool) {
  rb_gc_mark(pool->options.begins);
  rb_gc_mark(pool->options.ends);
  rb_gc_mark(pool->forward);
  rb_gc_mark(pool->threads);
  rb_gc_mark(pool->mode_key);
  rb_gc_mark(pool->mode_name);
  ab_list_each (node, next, &pool->jobs) {
    ab_taken_mark(&AB_CONTAINER_OF(node, ab_job, link)->taken);
  }
  ab_list_each (node, next, &pool->workers) {
    const ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, link);
    rb_gc_mark(worker->driver.runner.thread);
    if (worker->job) ab_taken_mark(&worker->job->taken);
  }
}

/* --- how many --- */

size_t ab__threads_most(const ab_thread_pool *pool) {
  return (size_t)pool->options.max + pool->run->slow.threads.aside_count;
}

bool ab__threads_is_grown(const ab_thread_pool *pool) {
  return pool->live >= ab__threads_most(pool);
}

bool ab__threads_has_surplus(const ab_thread_pool *pool) {
  return pool->live > ab__threads_most(pool);
}

bool ab__threads_is_full(const ab_thread_pool *pool) {
  return ab_list_empty(&pool->idle) && ab__threads_is_grown(pool) && pool->starting == 0;
}

bool ab_thread_pool_has_jobs(const ab_thread_pool *pool) {
  return pool->job_count > 0;
}

size_t ab_thread_pool_wanted(const ab_thread_pool *pool) {
  if (pool->led) {
    if (!ab__threads_is_full(pool)) return 0;
    ab_figures stats = ab_engine_get_stats(pool->run->rack.engine);
    return stats.waiting - stats.held;
  }
  return ab__threads_is_grown(pool) && pool->starting == 0 ? pool->job_count : 0;
}

ab_driver *ab_thread_pool_driver_here(const ab_thread_pool *pool) {
  VALUE thread = rb_thread_current();
  ab_list_each (node, next, &pool->workers) {
    ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, link);
    if (worker->driver.runner.thread == thread) return &worker->driver;
  }
  return NULL;
}

bool ab_thread_pool_busy(const ab_thread_pool *pool) {
  return pool->busy > 0;
}

bool ab_thread_pool_works(const ab_thread_pool *pool) {
  return pool->busy > 0 || pool->given > 0 || pool->starting > 0;
}

ab_thread_pool_stats ab_thread_pool_get_stats(ab_thread_pool *pool) {
  ab_thread_pool_stats stats = {.min = pool->options.min, .max = pool->options.max};
  stats.leads = pool->led;
  stats.threads = pool->live;
  stats.busy = pool->busy;
  stats.queued = pool->queued;
  stats.gone = pool->gone;
  stats.waiting = pool->led ? ab_engine_get_stats(pool->run->rack.engine).waiting : pool->job_count;
  return stats;
}

/* --- waiting and waking --- */

bool ab__threads_sleep(ab_thread_pool *pool, pthread_cond_t *wake, ab_nsec time) {
  return ab_os_cond_wait(wake, &pool->lock, ab_clock_monotonic() + time) != ETIMEDOUT;
}

void ab__threads_wake_turn(ab_run *run) {
  ab_engine_lock(run->rack.engine);
  /* A stop waits for the last request, too. */
  bool needed = run->rack.draining || ab_engine_needs_turn(run->rack.engine);
  ab_engine_unlock(run->rack.engine);
  if (needed && run->rack.poller) ab_poller_wakeup(run->rack.poller);
}

void ab_thread_pool_raise(ab_thread_pool *pool) {
  VALUE exception = pool->forward;
  pool->forward = Qnil;
  pool->told = false;
  if (!NIL_P(exception)) ab_stray_end_run(pool->run, exception);
}

/* --- beginning --- */

void ab__threads_prune(ab_thread_pool *pool) {
  if (RARRAY_LEN(pool->threads) < 2 * (long)pool->live + 8) return;
  VALUE alive = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(pool->threads); i++) {
    VALUE thread = RARRAY_AREF(pool->threads, i);
    if (RTEST(rb_funcall(thread, rb_intern("alive?"), 0))) rb_ary_push(alive, thread);
  }
  pool->threads = alive;
}

void ab_thread_pool_begin(ab_thread_pool *pool) {
  pool->threads = rb_ary_new();
  pool->mode_key = rb_str_to_interned_str(rb_str_new_cstr("abaca.mode"));
  pool->mode_name = ID2SYM(rb_intern("thread"));
  while (pool->live < pool->options.min) {
    if (!ab__threads_grow(pool))
      rb_raise(rb_eThreadError, "cannot start %u threads", pool->options.min);
  }
}

void ab_thread_pool_beside(ab_thread_pool *pool, rb_block_call_func_t body, VALUE arg) {
  VALUE thread = rb_block_call(rb_cThread, rb_intern("new"), 0, NULL, body, arg);
  rb_ary_push(pool->threads, thread);
  ab__threads_prune(pool);
}

/* --- the end --- */

void ab__threads_stop(ab_thread_pool *pool) {
  ab__threads_lock(pool);
  pool->ending = true;
  pthread_cond_signal(&pool->main.wake);
  ab_list_each (node, next, &pool->idle) {
    pthread_cond_signal(&AB_CONTAINER_OF(node, ab_worker, idle_link)->wake);
  }
  ab__threads_unlock(pool);
}

/* Polls on a fiber, where a join of Ruby 3.1 never times out. Returns whether it ended in time. */
static bool join_until(VALUE thread, ab_nsec end) {
  bool on_fiber = !NIL_P(rb_fiber_scheduler_current());
  for (;;) {
    ab_nsec now = ab_clock_monotonic();
    double left = now < end ? (double)(end - now) / (double)AB_NSEC_PER_SEC : 0;
    if (!on_fiber) return !NIL_P(rb_funcall(thread, rb_intern("join"), 1, DBL2NUM(left)));
    if (!RTEST(rb_funcall(thread, rb_intern("alive?"), 0))) return true;
    if (left == 0) return false;
    rb_funcall(rb_mKernel, rb_intern("sleep"), 1, DBL2NUM(JOIN_PAUSE));
  }
}

/* Returns false when threads are left after the time. */
static bool join_all(ab_thread_pool *pool, ab_nsec time) {
  ab_nsec end = ab_clock_monotonic() + time;
  for (long i = 0; i < RARRAY_LEN(pool->threads); i++) {
    if (!join_until(RARRAY_AREF(pool->threads, i), end)) return false;
  }
  return true;
}

static void each_thread(ab_thread_pool *pool, const char *method) {
  for (long i = 0; i < RARRAY_LEN(pool->threads); i++) {
    rb_funcall(RARRAY_AREF(pool->threads, i), rb_intern(method), 0);
  }
}

/* What was given up has had the exception, and that time, before. */
static VALUE end_threads(VALUE arg) {
  ab_thread_pool *pool = (ab_thread_pool *)arg;
  bool late = pool->run->ending.forced && pool->run->ending.given_up;
  if (join_all(pool, late ? 0 : FORCE_TIME)) return Qnil;
  each_thread(pool, "kill");
  join_all(pool, KILL_TIME);
  return Qnil;
}

/* Raises Shutdown in every request on a thread, where it waits. */
static VALUE pool_interrupt(VALUE arg) {
  ab_rack *rack = &((ab_thread_pool *)arg)->run->rack;
  ab_list_each (node, next, &rack->calls) {
    ab_call *call = AB_CONTAINER_OF(node, ab_call, link);
    bool on_thread = call->runner->executor->mode == AB_MODE_THREAD;
    if (on_thread && !call->over) ab_cancel_note(call, AB_NEWS_SHUTDOWN);
  }
  ab_cancel_run(rack, ab_clock_monotonic());
  return Qnil;
}

void ab_thread_pool_end(ab_thread_pool *pool, bool in_order) {
  if (NIL_P(pool->threads) || ab_rack_forked(&pool->run->rack)) return;
  ab__threads_stop(pool);
  VALUE exception = rb_errinfo();
  if (!in_order) ab_quietly(pool_interrupt, (VALUE)pool);
  ab_quietly(end_threads, (VALUE)pool);
  rb_set_errinfo(exception);
}
