/* The threads of a pool: how they start, get their requests and end. See rb_thread_pool.h.
 *
 * A thread's worker is on pool->workers from its start to its end, and on pool->idle while it
 * waits for work. Lists with Ruby objects in them change with the GVL only, so that the GC may walk
 * them.
 */
#include "rb/run/rb_thread_pool_parts.h"

#include <errno.h>
#include <ruby/fiber/scheduler.h>
#include <time.h>

#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"
#include "rb/rack/rb_cancel.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_rack_setup.h"
#include "rb/run/rb_turn.h"
#include "rb/run/rb_worker_lead.h"

/* Threads that are broken off get this time to end by the exception, and then by the kill. */
#define FORCE_TIME (5 * AB_NSEC_PER_SEC)
#define KILL_TIME  AB_NSEC_PER_SEC
/* Seconds between two looks at a thread. */
#define JOIN_PAUSE 0.005

/* --- life --- */

int ab__thread_pool_init_cond(pthread_cond_t *wake) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int err = pthread_cond_init(wake, &attr);
  pthread_condattr_destroy(&attr);
  return err;
}

/* All but the runner. */
static void init_worker(ab_worker *worker, ab_thread_pool *pool) {
  worker->pool = pool;
  worker->driver.run = pool->run;
  worker->driver.runner.participant.pulse.bell = pool->bell;
  ab_list_init(&worker->link);
  ab_list_init(&worker->idle_link);
  ab__thread_pool_init_cond(&worker->wake);
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
  ab_runner_init_bare(&pool->watch.driver.runner, &run->rack, &ab_executor_thread);
  init_worker(&pool->watch, pool);
  pool->leader.run = pool->watcher.run = run;
  ab_runner_init_bare(&pool->leader.runner, &run->rack, &ab_executor_thread);
  ab_runner_init_bare(&pool->watcher.runner, &run->rack, &ab_executor_thread);
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
  if (!ab_rack_forked(
          &pool->run->rack)) { /* there a thread that does not exist may hold the lock */
    pthread_cond_destroy(&pool->watch.wake);
    pthread_mutex_destroy(&pool->lock);
  }
  ab_free(&ab_mem_libc, pool);
}

void ab_thread_pool_mark(const ab_thread_pool *pool) {
  rb_gc_mark(pool->forward);
  rb_gc_mark(pool->threads);
  rb_gc_mark(pool->mode_key);
  rb_gc_mark(pool->mode_name);
  ab_list_each (node, next, &pool->jobs) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_job, link)->taken.env);
  }
  ab_list_each (node, next, &pool->workers) {
    const ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, link);
    rb_gc_mark(worker->driver.runner.thread);
    if (worker->job) rb_gc_mark(worker->job->taken.env);
  }
}

/* --- how many --- */

/* Those that are aside do not count. */
static size_t most_live(const ab_thread_pool *pool) {
  return (size_t)pool->options.max + pool->run->slow.threads.aside_count;
}

bool ab__thread_pool_is_grown(const ab_thread_pool *pool) {
  return pool->live >= most_live(pool);
}

bool ab__thread_pool_has_surplus(const ab_thread_pool *pool) {
  return pool->live > most_live(pool);
}

bool ab__thread_pool_is_full(const ab_thread_pool *pool) {
  return ab_list_empty(&pool->idle) && ab__thread_pool_is_grown(pool) && pool->starting == 0;
}

unsigned ab_thread_pool_most(const ab_thread_pool *pool) {
  return pool->options.max;
}

bool ab_thread_pool_has_jobs(const ab_thread_pool *pool) {
  return pool->job_count > 0;
}

size_t ab_thread_pool_wanted(const ab_thread_pool *pool) {
  if (pool->led) {
    if (!ab__thread_pool_is_full(pool)) return 0;
    ab_engine_stats stats = ab_engine_get_stats(pool->run->rack.engine);
    return stats.waiting - stats.held;
  }
  return ab__thread_pool_is_grown(pool) && pool->starting == 0 ? pool->job_count : 0;
}

/* --- work for them --- */

/* Gives the job to a thread that waits for one. The lock is held: a thread that is about to wait
 * either is found here, or finds the job. */
static bool give(ab_thread_pool *pool, ab_job *job) {
  ab_list *node = ab__thread_pool_has_surplus(pool) ? NULL : ab_list_shift(&pool->idle);
  if (!node) return false;
  ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, idle_link);
  worker->job = job;
  pool->given++;
  pthread_cond_signal(&worker->wake);
  return true;
}

/* Has an idle thread look for jobs that wait, if one may run. */
static void call_idle(ab_thread_pool *pool) {
  if (pool->job_count == 0 || ab__thread_pool_has_surplus(pool)) return;
  ab__thread_pool_lock(pool);
  if (!ab_list_empty(&pool->idle)) {
    pthread_cond_signal(&AB_CONTAINER_OF(pool->idle.next, ab_worker, idle_link)->wake);
  }
  ab__thread_pool_unlock(pool);
}

/* Its request waits for a thread, or has one: a client that goes away while it waits has asked
 * nothing. */
static void hand_over(ab_thread_pool *pool, ab_job *job, bool waits) {
  ab_engine *engine = pool->run->rack.engine;
  job->waits = waits;
  ab_engine_lock(engine);
  ab_exchange_hand_over(job->taken.exchange, waits);
  ab_engine_unlock(engine);
}

/* Gives the job away, or has it wait: as the first one, if it has waited already. */
static void place(ab_thread_pool *pool, ab_job *job, bool first) {
  ab__thread_pool_lock(pool);
  bool given = give(pool, job);
  if (!given) {
    ab_list_insert_between(&job->link, first ? &pool->jobs : pool->jobs.prev,
                           first ? pool->jobs.next : &pool->jobs);
    pool->job_count++;
    pool->queued += !first;
    if (job->until && (pool->due == 0 || job->until < pool->due)) pool->due = job->until;
  }
  ab__thread_pool_unlock(pool);
  if (!given && ab__thread_pool_is_grown(pool)) hand_over(pool, job, true);
}

/* --- waiting --- */

bool ab__thread_pool_sleep(ab_thread_pool *pool, pthread_cond_t *wake, ab_nsec time) {
  ab_nsec end = ab_clock_monotonic() + time;
  struct timespec ts = {.tv_sec = (time_t)(end / AB_NSEC_PER_SEC),
                        .tv_nsec = (long)(end % AB_NSEC_PER_SEC)};
  return pthread_cond_timedwait(wake, &pool->lock, &ts) != ETIMEDOUT;
}

static void interrupt_worker(void *arg) {
  ab_worker *worker = arg;
  ab__thread_pool_lock(worker->pool);
  worker->interrupted = true;
  pthread_cond_signal(&worker->wake);
  ab__thread_pool_unlock(worker->pool);
}

static void *wait_for_job(void *arg) {
  ab_worker *worker = arg;
  ab_thread_pool *pool = worker->pool;
  ab__thread_pool_lock(pool);
  bool in_time = true;
  ab_list_prepend(&pool->idle, &worker->idle_link);
  while (in_time && pool->job_count == 0 && !worker->job && !worker->interrupted && !pool->ending) {
    in_time = ab__thread_pool_sleep(pool, &worker->wake, AB_THREAD_POOL_IDLE_TIME);
  }
  ab_list_remove(&worker->idle_link);
  ab__thread_pool_unlock(pool);
  worker->late = !in_time;
  return NULL;
}

/* The oldest request that waits for a thread, or the one that the worker was given. */
static ab_job *take_job(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_job *job = worker->job;
  worker->job = NULL;
  if (job) pool->given--;
  if (job) return job;
  ab_list *node = ab_list_shift(&pool->jobs);
  if (!node) return NULL;
  pool->job_count--;
  job = AB_CONTAINER_OF(node, ab_job, link);
  if (job->waits) hand_over(pool, job, false);
  return job;
}

/* Of its own frame nothing is left while the thread waits. */
static AB_NOINLINE void do_job(ab_worker *worker, ab_job *job) {
  ab_taken taken = job->taken;
  ab_free(&ab_mem_libc, job);
  ab__thread_pool_serve(worker, &taken);
  RB_GC_GUARD(taken.env);
}

/* Returns false when the thread has to end. */
static bool work(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_job *job = take_job(worker);
  if (job) {
    do_job(worker, job);
    return !ab__thread_pool_has_surplus(pool);
  }
  if (pool->ending) return false;
  worker->interrupted = worker->late = false;
  ab_stack_wipe(); /* what is kept for an idle thread is kept for long */
  rb_nogvl(wait_for_job, worker, interrupt_worker, worker, RB_NOGVL_INTR_FAIL);
  rb_thread_check_ints();
  return !worker->late || worker->job || pool->live <= pool->options.min;
}

/* --- one request --- */

typedef struct serving {
  ab_worker *worker;
  const ab_taken *taken;
} serving;

static VALUE serve(VALUE arg) {
  serving *s = (serving *)arg;
  ab_serve_request(&s->worker->driver.runner, s->taken, s->worker->call);
  return Qnil;
}

/* What concerns the process is for the thread that called run. In a forked child that is this one.
 * Returns the state of a kill, which goes on. */
static int ended(ab_thread_pool *pool, int state) {
  if (AB_LIKELY(!state)) return 0;
  VALUE exception = rb_errinfo();
  if (!ab_is_exception(exception)) return state;
  if (ab_rack_forked(&pool->run->rack)) ab_end_child(state);
  rb_set_errinfo(Qnil);
  bool short_of_memory = RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError)); /* our own code */
  if (!ab_is_fatal(exception) && !short_of_memory) return 0;
  pool->forward = exception;
  ab__thread_pool_lock(pool);
  pool->told = true;
  pthread_cond_signal(&pool->watch.wake);
  ab__thread_pool_unlock(pool);
  if (pool->run->rack.poller) ab_poller_wakeup(pool->run->rack.poller);
  return 0;
}

static void *wait_for_raisers(void *arg) {
  ab_worker *worker = arg;
  ab__thread_pool_lock(worker->pool);
  while (worker->raising > 0 && !worker->interrupted) {
    pthread_cond_wait(&worker->wake, &worker->pool->lock);
  }
  ab__thread_pool_unlock(worker->pool);
  return NULL;
}

static VALUE await_exceptions(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  while (worker->raising > 0) {
    worker->interrupted = false;
    rb_nogvl(wait_for_raisers, worker, interrupt_worker, worker, RB_NOGVL_INTR_FAIL);
    rb_thread_check_ints();
  }
  rb_thread_check_ints();
  return Qnil;
}

/* An exception that was sent to the request and has not reached it, or is about to be sent by a
 * thread that has other things to do first, must not hit the next one. */
static int discard_exceptions(ab_worker *worker) {
  for (;;) {
    int state = 0;
    rb_protect(await_exceptions, (VALUE)worker, &state);
    worker->raised = false;
    if (AB_LIKELY(!state)) return 0;
    int killed = ended(worker->pool, state);
    if (killed) return killed;
  }
}

static VALUE scrub(VALUE fiber) {
  VALUE thread = rb_thread_current();
  VALUE names = rb_funcall(thread, rb_intern("thread_variables"), 0);
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    rb_funcall(thread, rb_intern("thread_variable_set"), 2, RARRAY_AREF(names, i), Qnil);
  }
  return ab__scrub_fiber(fiber, Qnil);
}

void ab__thread_pool_serve(ab_worker *worker, const ab_taken *taken) {
  ab_thread_pool *pool = worker->pool;
  ab_run *run = pool->run;
  if (AB_UNLIKELY(run->ending.forced)) {
    ab_serve_refuse(&worker->driver.runner, taken, AB_REJECT_SHUTDOWN);
    ab__thread_pool_wake_turn(run);
    return;
  }
  worker->call = ab_call_take(&run->rack);
  if (AB_UNLIKELY(!worker->call)) {
    ab_serve_refuse(&worker->driver.runner, taken, AB_REJECT_NO_FIBER);
    ab__thread_pool_wake_turn(run);
    return;
  }
  serving s = {worker, taken};
  pool->busy++;
  if (pool->led) ab__worker_begin(worker);
  int state = 0;
  rb_protect(serve, (VALUE)&s, &state);
  int killed = ended(pool, state);
  if (AB_UNLIKELY(killed && ab_rack_forked(&run->rack))) rb_jump_tag(killed);
  worker->call = NULL;
  pool->busy--;
  if (AB_UNLIKELY(worker->raising > 0 || worker->raised) && !killed)
    killed = discard_exceptions(worker);
  if (pool->options.clean && !killed) {
    rb_protect(scrub, rb_fiber_current(), &state);
    killed = ended(pool, state);
  }
  if (!pool->led || !ab__worker_end(worker)) ab__thread_pool_wake_turn(run);
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
}

void ab__thread_pool_wake_turn(ab_run *run) {
  ab_engine_lock(run->rack.engine);
  /* A stop waits for the last request, too. */
  bool needed = run->rack.draining || ab_engine_needs_turn(run->rack.engine);
  ab_engine_unlock(run->rack.engine);
  if (needed && run->rack.poller) ab_poller_wakeup(run->rack.poller);
}

typedef struct raising {
  ab_worker *worker;
  VALUE thread, exception;
} raising;

static VALUE raise_in_thread(VALUE arg) {
  const raising *r = (const raising *)arg;
  return rb_funcall(r->thread, rb_intern("raise"), 1, r->exception);
}

static VALUE has_raised(VALUE arg) {
  ab_worker *worker = ((raising *)arg)->worker;
  worker->raised = true;
  ab__thread_pool_lock(worker->pool);
  worker->raising--;
  pthread_cond_signal(&worker->wake);
  ab__thread_pool_unlock(worker->pool);
  return Qnil;
}

/* The call may let the thread run on, to the end of its request: there it waits for us. */
void ab__thread_pool_raise(ab_worker *worker, VALUE exception) {
  raising r = {worker, worker->driver.runner.thread, exception};
  ab__thread_pool_lock(worker->pool);
  worker->raising++;
  ab__thread_pool_unlock(worker->pool);
  rb_ensure(raise_in_thread, (VALUE)&r, has_raised, (VALUE)&r);
}

/* --- threads --- */

/* The worker has no thread any more. */
static void remove_worker(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (!worker->begun) pool->starting--;
  pool->live--;
  worker->driver.runner.thread = Qnil;
  worker->job = NULL;
  ab_list_remove(&worker->link);
  ab_list_prepend(&pool->retired, &worker->link);
}

/* The worker's thread ends; what it was given goes to another one. */
static VALUE retire(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  ab_thread_pool *pool = worker->pool;
  if (ab_rack_forked(&pool->run->rack)) return Qnil; /* the workers are the parent's */
  ab__worker_leave(worker);
  ab_job *job = worker->job;
  if (job) pool->given--;
  remove_worker(worker);
  if (job) place(pool, job, true);
  call_idle(pool);
  if (pool->job_count > 0 && !pool->ending) ab__thread_pool_grow(pool);
  return Qnil;
}

typedef struct worker_turn {
  ab_worker *worker;
  bool stays;
} worker_turn;

static VALUE run_turn(VALUE arg) {
  worker_turn *t = (worker_turn *)arg;
  t->stays = t->worker->pool->led ? ab__worker_turn(t->worker) : work(t->worker);
  return Qnil;
}

/* A stray exception, for a thread that other code has kept a reference to, ends nothing. */
static VALUE run_worker(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  ab_thread_pool *pool = worker->pool;
  int state = 0;
  rb_protect(scrub, rb_fiber_current(), &state); /* what its maker had is nothing of its own */
  int killed = ended(pool, state);
  worker->begun = true;
  pool->starting--;
  worker_turn t = {worker, true};
  while (t.stays && !killed) {
    rb_protect(run_turn, (VALUE)&t, &state);
    killed = ended(pool, state);
  }
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
  return Qnil;
}

static VALUE worker_main(void *arg) {
  ab_worker *worker = arg;
  /* Keeps the engine alive as long as this stack. */
  volatile VALUE self = worker->pool->run->rack.self;
  rb_ensure(run_worker, (VALUE)worker, retire, (VALUE)worker);
  RB_GC_GUARD(self);
  return Qnil;
}

static VALUE create(RB_BLOCK_CALL_FUNC_ARGLIST(unused, arg)) {
  (void)unused;
  ab_worker *worker = (ab_worker *)arg;
  worker->driver.runner.thread = rb_thread_create(worker_main, worker);
  rb_ary_push(worker->pool->threads, worker->driver.runner.thread);
  return Qnil;
}

/* Cancellation reaches a thread where it reaches a fiber: where it waits, and not in the middle of
 * a computation. A thread has the mask of its maker; one that it called for itself would stand
 * below the app in every backtrace, as a frame without a path, which Rails's pages of errors and
 * others that read sources cannot show. */
static void create_masked(ab_worker *worker) {
  VALUE mask = rb_hash_new();
  rb_hash_aset(mask, ab_class("Cancelled"), ID2SYM(rb_intern("on_blocking")));
  rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, create, (VALUE)worker);
}

static VALUE start(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  ab_thread_pool *pool = worker->pool;
  create_masked(worker);
  rb_funcall(worker->driver.runner.thread, rb_intern("name="), 1,
             rb_sprintf("abaca thread %u", pool->started));
  return Qnil;
}

/* Without those that have ended. */
static void prune(ab_thread_pool *pool) {
  if (RARRAY_LEN(pool->threads) < 2 * (long)pool->live + 8) return;
  VALUE alive = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(pool->threads); i++) {
    VALUE thread = RARRAY_AREF(pool->threads, i);
    if (RTEST(rb_funcall(thread, rb_intern("alive?"), 0))) rb_ary_push(alive, thread);
  }
  pool->threads = alive;
}

static ab_worker *make_worker(ab_thread_pool *pool) {
  ab_list *node = ab_list_shift(&pool->retired);
  if (node) {
    ab_worker *used = AB_CONTAINER_OF(node, ab_worker, link);
    used->begun = used->interrupted = used->late = used->raised = false;
    ab_pulse_return(&used->driver.runner.participant.pulse);
    return used;
  }
  ab_worker *worker = ab_alloc_zero(&ab_mem_libc, sizeof(*worker));
  if (!worker) return NULL;
  if (ab_runner_init(&worker->driver.runner, &pool->run->rack, &ab_executor_thread) != AB_OK) {
    ab_free(&ab_mem_libc, worker);
    return NULL;
  }
  init_worker(worker, pool);
  return worker;
}

bool ab__thread_pool_grow(ab_thread_pool *pool) {
  if (ab__thread_pool_is_grown(pool)) return true;
  ab_worker *worker = make_worker(pool);
  if (!worker) return false;
  ab_list_append(&pool->workers, &worker->link);
  pool->live++;
  pool->started++;
  pool->starting++;
  int state = 0;
  rb_protect(start, (VALUE)worker, &state);
  /* Once it runs, an interrupt that came meanwhile is another matter, and its name too. */
  if (AB_LIKELY(!state)) {
    prune(pool);
    return true;
  }
  bool runs = !NIL_P(worker->driver.runner.thread);
  if (!runs) remove_worker(worker);
  VALUE exception = rb_errinfo();
  bool no_thread = !runs && RTEST(rb_obj_is_kind_of(exception, rb_eThreadError));
  if (!no_thread) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  return false;
}

void ab_thread_pool_begin(ab_thread_pool *pool) {
  pool->threads = rb_ary_new();
  pool->mode_key = rb_str_to_interned_str(rb_str_new_cstr("abaca.mode"));
  pool->mode_name = ID2SYM(rb_intern("thread"));
  while (pool->live < pool->options.min) {
    if (!ab__thread_pool_grow(pool))
      rb_raise(rb_eThreadError, "cannot start %u threads", pool->options.min);
  }
}

void ab_thread_pool_beside(ab_thread_pool *pool, rb_block_call_func_t body, VALUE arg) {
  VALUE thread = rb_block_call(rb_cThread, rb_intern("new"), 0, NULL, body, arg);
  rb_ary_push(pool->threads, thread);
  prune(pool);
}

/* --- the end --- */

static void end_idle(ab_thread_pool *pool) {
  ab__thread_pool_lock(pool);
  pool->ending = true;
  ab_list_each (node, next, &pool->idle) {
    pthread_cond_signal(&AB_CONTAINER_OF(node, ab_worker, idle_link)->wake);
  }
  ab__thread_pool_unlock(pool);
}

/* On a fiber a join of Ruby 3.1 is never given up: there the thread is looked at between sleeps.
 * Returns whether it has ended in time. */
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
static VALUE interrupt(VALUE arg) {
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
  end_idle(pool);
  VALUE exception = rb_errinfo();
  if (!in_order) ab_quietly(interrupt, (VALUE)pool);
  ab_quietly(end_threads, (VALUE)pool);
  rb_set_errinfo(exception);
}

/* --- requests that wait for a thread --- */

static void drop_job(ab_thread_pool *pool, ab_job *job) {
  ab_list_remove(&job->link);
  pool->job_count--;
  ab_free(&ab_mem_libc, job);
}

static void turn_away(ab_thread_pool *pool, ab_job *job, enum ab_rejection why) {
  ab_taken taken = job->taken;
  drop_job(pool, job);
  ab_serve_refuse(&pool->watch.driver.runner, &taken, why);
}

static void turn_all_away(ab_thread_pool *pool) {
  while (!ab_list_empty(&pool->jobs)) {
    turn_away(pool, AB_CONTAINER_OF(pool->jobs.next, ab_job, link), AB_REJECT_NO_FIBER);
  }
}

ab_nsec ab_thread_pool_turn_away(ab_thread_pool *pool, ab_nsec now) {
  if (AB_LIKELY(pool->due == 0 || now < pool->due)) return pool->due;
  pool->due = 0;
  ab_list_each (node, next, &pool->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->until && job->until <= now) {
      turn_away(pool, job, AB_REJECT_QUEUE_TIMEOUT);
    } else if (job->until && (pool->due == 0 || job->until < pool->due)) {
      pool->due = job->until;
    }
  }
  return pool->due;
}

void ab_thread_pool_relieve(ab_thread_pool *pool) {
  call_idle(pool);
  while (AB_UNLIKELY(pool->job_count > pool->starting) && !ab__thread_pool_is_grown(pool)) {
    if (!ab__thread_pool_grow(pool)) return;
  }
}

void ab_thread_pool_event(ab_thread_pool *pool, ab_exchange *exchange, unsigned events) {
  ab_list_each (node, next, &pool->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->taken.exchange != exchange) continue;
    if (events & AB_EVENT_GONE) {
      drop_job(pool, job);
      pool->gone++;
      ab_engine_lock(pool->run->rack.engine);
      ab_exchange_finish(exchange, AB_FINISH_BROKEN);
      ab_engine_unlock(pool->run->rack.engine);
    } else if (events & AB_EVENT_DEADLINE) {
      turn_away(pool, job, AB_REJECT_REQUEST_TIMEOUT);
    }
    return;
  }
}

/* --- handing over --- */

static VALUE keep(VALUE arg) {
  ab_job *job = (ab_job *)((void **)arg)[0];
  ab_thread_pool *pool = (ab_thread_pool *)((void **)arg)[1];
  ab_serve_keep((ab_runner *)((void **)arg)[2], &job->taken);
  VALUE env = job->taken.env;
  rb_hash_aset(env, pool->mode_key, pool->mode_name);
  RB_GC_GUARD(env);
  return Qnil;
}

/* NULL when it cannot be kept. */
static ab_job *make_job(ab_thread_pool *pool, ab_driver *from, const ab_taken *taken) {
  ab_job *job = ab_alloc_zero(&ab_mem_libc, sizeof(*job));
  if (!job) return NULL;
  job->taken = *taken;
  ab_list_init(&job->link);
  uint64_t patience = ab_exchange_limits(taken->exchange)->queue_timeout;
  if (patience) job->until = ab_clock_monotonic() + ab_limit_nsec(patience);
  int state = 0;
  rb_protect(keep, (VALUE)(void *[]){job, pool, &from->runner}, &state);
  if (AB_LIKELY(!state)) return job;
  rb_set_errinfo(Qnil);
  ab_free(&ab_mem_libc, job);
  return NULL;
}

/* Threads that have no request, or can be had, take theirs at once. They need not be idle: between
 * two requests a thread is cleaned. */
static bool has_room(const ab_thread_pool *pool) {
  size_t engaged = pool->job_count + pool->busy + pool->given;
  return engaged < pool->options.most + most_live(pool);
}

void ab_thread_pool_take(ab_thread_pool *pool, ab_driver *from) {
  ab_taken taken = ab_turn_taken(from);
  bool room = has_room(pool);
  ab_job *job = room ? make_job(pool, from, &taken) : NULL;
  if (!job) {
    ab_serve_refuse(&pool->watch.driver.runner, &taken,
                    room ? AB_REJECT_NO_FIBER : AB_REJECT_QUEUE_FULL);
    return;
  }
  VALUE env = job->taken.env;
  place(pool, job, false);
  if (pool->job_count > pool->starting && !ab__thread_pool_grow(pool) && pool->live == 0) {
    turn_all_away(pool); /* the job may be no more by now, but no thread comes for any */
  }
  RB_GC_GUARD(env);
}

VALUE ab_thread_pool_forwarded(ab_thread_pool *pool) {
  VALUE exception = pool->forward;
  pool->forward = Qnil;
  pool->told = false;
  return exception;
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
  stats.jobs = (uint32_t)pool->job_count;
  stats.queued = pool->queued;
  stats.gone = pool->gone;
  stats.waiting = pool->led ? ab_engine_get_stats(pool->run->rack.engine).waiting : stats.jobs;
  return stats;
}

void ab_thread_pool_each_job(const ab_thread_pool *pool,
                             void (*fn)(const ab_taken *taken, void *ctx), void *ctx) {
  for (const ab_list *node = pool->jobs.next; node != &pool->jobs; node = node->next) {
    fn(&AB_CONTAINER_OF(node, ab_job, link)->taken, ctx);
  }
}
