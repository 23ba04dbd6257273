/* A thread of the pool, and its request. Its worker is on pool->workers while it lives, on
 * pool->idle while it waits. Lists with Ruby objects change with the GVL only, for the GC. */
#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_rack_setup.h"
#include "rb/run/rb_clock.h"
#include "rb/run/rb_thread_parts.h"

/* --- exceptions --- */

/* What concerns the process is for the main thread. In a forked child that is this one.
 * Returns the state of a kill, which goes on. */
static int worker_ended(ab_thread_pool *pool, int state) {
  if (AB_LIKELY(!state)) return 0;
  VALUE exception = rb_errinfo();
  if (!ab_is_exception(exception)) return state;
  if (ab_rack_forked(&pool->run->rack)) ab_end_child(state);
  rb_set_errinfo(Qnil);
  bool short_of_memory = RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError)); /* our own code */
  if (!ab_is_fatal(exception) && !short_of_memory) return 0;
  pool->forward = exception;
  ab__threads_lock(pool);
  pool->told = true;
  pthread_cond_signal(&pool->main.wake);
  ab__threads_unlock(pool);
  if (pool->run->rack.poller) ab_poller_wakeup(pool->run->rack.poller);
  return 0;
}

static void wait_for_raisers(ab_worker *worker) {
  ab__threads_lock(worker->pool);
  while (worker->raising > 0 && !worker->interrupted) {
    pthread_cond_wait(&worker->wake, &worker->pool->lock);
  }
  ab__threads_unlock(worker->pool);
}

static VALUE await_exceptions(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  while (worker->raising > 0) ab__worker_wait(worker, wait_for_raisers);
  rb_thread_check_ints();
  return Qnil;
}

/* A late exception, or one that a thread is about to send, must not hit the next request. */
static int discard_exceptions(ab_worker *worker) {
  for (;;) {
    int state = 0;
    rb_protect(await_exceptions, (VALUE)worker, &state);
    worker->raised = false;
    if (AB_LIKELY(!state)) return 0;
    int killed = worker_ended(worker->pool, state);
    if (killed) return killed;
  }
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
  ab__threads_lock(worker->pool);
  worker->raising--;
  pthread_cond_signal(&worker->wake);
  ab__threads_unlock(worker->pool);
  return Qnil;
}

/* The call may let the thread run on, to the end of its request: there it waits for us. */
void ab__threads_raise(ab_worker *worker, VALUE exception) {
  raising r = {worker, worker->driver.runner.thread, exception};
  ab__threads_lock(worker->pool);
  worker->raising++;
  ab__threads_unlock(worker->pool);
  rb_ensure(raise_in_thread, (VALUE)&r, has_raised, (VALUE)&r);
}

/* --- one request --- */

static VALUE worker_serve(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  worker->driver.runner.moment = 0; /* it has waited for the request */
  ab_serve_request(&worker->driver.runner, worker->taken, worker->call);
  return Qnil;
}

static VALUE worker_scrub(VALUE fiber) {
  VALUE thread = rb_thread_current();
  VALUE names = rb_funcall(thread, rb_intern("thread_variables"), 0);
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    rb_funcall(thread, rb_intern("thread_variable_set"), 2, RARRAY_AREF(names, i), Qnil);
  }
  return ab__scrub_fiber(fiber, Qnil);
}

void ab__threads_serve(ab_worker *worker, ab_taken *taken) {
  ab_thread_pool *pool = worker->pool;
  ab_run *run = pool->run;
  bool forced = run->ending.forced;
  worker->call = forced ? NULL : ab_call_take(&run->rack);
  if (AB_UNLIKELY(!worker->call)) {
    ab_serve_refuse(&worker->driver.runner, taken,
                    forced ? AB_REJECT_SHUTDOWN : AB_REJECT_NO_FIBER);
    ab__threads_wake_turn(run);
    return;
  }
  worker->taken = taken;
  pool->busy++;
  ab__worker_begin(worker);
  if (AB_UNLIKELY(taken->level > 0)) {
    ab_contender *contender = &ab__worker_participant(worker)->contender;
    ab_gate_claim(&run->rack.lead.gate, contender, taken->level);
  }
  int state = 0;
  rb_protect(worker_serve, (VALUE)worker, &state);
  int killed = worker_ended(pool, state);
  if (AB_UNLIKELY(killed && ab_rack_forked(&run->rack))) rb_jump_tag(killed);
  worker->call = NULL;
  pool->busy--;
  bool raised = AB_UNLIKELY(worker->raising > 0 || worker->raised);
  if (raised && !killed) killed = discard_exceptions(worker);
  if (pool->options.clean && !killed) {
    rb_protect(worker_scrub, rb_fiber_current(), &state);
    killed = worker_ended(pool, state);
  }
  if (!ab__worker_end(worker)) ab__threads_wake_turn(run);
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
}

/* --- jobs --- */

static void wait_for_job(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab__threads_lock(pool);
  bool in_time = true;
  ab_list_prepend(&pool->idle, &worker->idle_link);
  while (in_time && pool->job_count == 0 && !worker->job && !worker->interrupted && !pool->ending) {
    in_time = ab__threads_sleep(pool, &worker->wake, AB_THREAD_POOL_IDLE_TIME);
  }
  ab_list_remove(&worker->idle_link);
  ab__threads_unlock(pool);
  worker->late = !in_time;
}

/* Of its own frame nothing is left while the thread waits. */
static AB_NOINLINE void do_job(ab_worker *worker, ab_job *job) {
  ab_taken taken = job->taken;
  ab_free(&ab_mem_libc, job);
  ab__threads_serve(worker, &taken);
  RB_GC_GUARD(taken.env);
}

static bool work(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_job *job = ab__threads_take_job(worker);
  if (job) {
    do_job(worker, job);
    return !ab__threads_has_surplus(pool);
  }
  if (pool->ending) return false;
  worker->late = false;
  ab_stack_wipe(); /* what is kept for an idle thread is kept for long */
  ab__worker_wait(worker, wait_for_job);
  return !worker->late || worker->job || pool->live <= pool->options.min;
}

/* --- threads --- */

static void remove_worker(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (!worker->begun) pool->starting--;
  pool->live--;
  worker->driver.runner.thread = Qnil;
  worker->job = NULL;
  ab_list_remove(&worker->link);
  ab_list_prepend(&pool->retired, &worker->link);
}

static VALUE worker_retire(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  ab_thread_pool *pool = worker->pool;
  if (ab_rack_forked(&pool->run->rack)) return Qnil; /* the workers are the parent's */
  ab_clock_detach(&worker->driver);
  ab_gate_part(&ab__threads_lead(pool)->gate, &ab__worker_participant(worker)->contender);
  ab_waiting_off_thread();
  ab__worker_leave(worker);
  ab_job *job = worker->job;
  if (job) pool->given--;
  remove_worker(worker);
  if (job) ab__threads_place(pool, job, true);
  ab__threads_call_idle(pool);
  if (pool->job_count > 0 && !pool->ending) ab__threads_grow(pool);
  return Qnil;
}

static VALUE run_turn(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  bool stays = worker->pool->led ? ab__worker_turn(worker) : work(worker);
  return stays ? Qtrue : Qfalse;
}

static VALUE worker_call(VALUE hook) {
  return rb_funcall(hook, rb_intern("call"), 0);
}

/* It may take long, so it does not keep the lead. Returns the state of a kill. */
static int call_hook(ab_worker *worker, VALUE hook) {
  if (NIL_P(hook) || ab_rack_forked(&worker->pool->run->rack)) return 0;
  ab__worker_leave(worker);
  int state = 0;
  rb_protect(worker_call, hook, &state);
  return worker_ended(worker->pool, state);
}

static VALUE take_part(VALUE arg) {
  ab_waiting_on_thread(&((ab_worker *)arg)->call);
  return Qnil;
}

/* Its requests are found from here on. Returns the state of a kill. */
static int show(ab_worker *worker) {
  ab_participant *participant = ab__worker_participant(worker);
  ab_clock_attach(&worker->driver);
  ab_gate_join(&ab__threads_lead(worker->pool)->gate, &participant->contender, &participant->pulse);
  int state = 0;
  rb_protect(take_part, (VALUE)worker, &state);
  return worker_ended(worker->pool, state);
}

/* A stray exception, for a thread that other code has kept a reference to, ends nothing. */
static VALUE run_worker(VALUE arg) {
  ab_worker *worker = (ab_worker *)arg;
  ab_thread_pool *pool = worker->pool;
  int state = 0;
  rb_protect(worker_scrub, rb_fiber_current(),
             &state); /* what its maker had is nothing of its own */
  int killed = worker_ended(pool, state);
  if (!killed) killed = call_hook(worker, pool->options.begins);
  worker->begun = true;
  pool->starting--;
  if (!killed) killed = show(worker);
  for (VALUE stays = Qtrue; stays != Qfalse && !killed;) {
    stays = rb_protect(run_turn, (VALUE)worker, &state); /* nil after an exception */
    killed = worker_ended(pool, state);
  }
  if (!killed) killed = call_hook(worker, pool->options.ends);
  if (AB_UNLIKELY(killed)) rb_jump_tag(killed);
  return Qnil;
}

static VALUE worker_main(void *arg) {
  ab_worker *worker = arg;
  /* Keeps the engine alive as long as this stack. */
  volatile VALUE self = worker->pool->run->rack.self;
  rb_ensure(run_worker, (VALUE)worker, worker_retire, (VALUE)worker);
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

/* Cancellation reaches a thread only where it waits, as a fiber. The mask is inherited: one that
 * the thread called for itself would be a frame without a path below the app in every backtrace,
 * which Rails's pages of errors cannot show. */
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
  ab__worker_init(worker, pool);
  return worker;
}

bool ab__threads_grow(ab_thread_pool *pool) {
  if (ab__threads_is_grown(pool)) return true;
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
    ab__threads_prune(pool);
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
