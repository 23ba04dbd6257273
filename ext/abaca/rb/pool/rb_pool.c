/* The workers of an Abaca::FiberPool: fibers that run a job, are cleaned, and ask for the next;
 * without one they go to the free list and to the loop. Last in, first out: that stack is warm. */
#include "rb/pool/rb_pool_parts.h"

#include <ruby/fiber/scheduler.h>
#include <stdlib.h>
#include <unistd.h>

/* Waiting tickets that may follow a job on its fiber before the loop has its turn. */
#define CHAIN 64

/* After the kernel has refused a stack, no new one is requested for this time. */
#define REFUSAL_TIME (10 * AB_NSEC_PER_SEC)

void ab_pool_set_next(ab_pool *pool, ab_job_next next, void *ctx) {
  pool->next = next;
  pool->next_ctx = ctx;
}

/* ---- whose pool it is ---- */

static void check_owner(ab_pool *pool) {
  if (pool->owner != getpid())
    rb_raise(rb_eRuntimeError, "the pool belongs to the parent process: create a new one");
  VALUE thread = rb_thread_current();
  if (NIL_P(pool->thread)) pool->thread = thread;
  if (pool->thread != thread) rb_raise(rb_eThreadError, "the pool belongs to another thread");
}

static VALUE arm_grower(VALUE arg) {
  ab_pool *pool = (ab_pool *)arg;
  ab_loop_task_arm(&pool->grower, pool->loop, pool->self, pool->loop->now);
  return Qnil;
}

/* When the thread gets another loop, new jobs run there; what runs on the old one stays. */
static void adopt(ab_pool *pool, ab_loop *loop) {
  check_owner(pool);
  ab_loop_task_cancel(&pool->idle_timer);
  ab_loop_task_cancel(&pool->starter);
  ab_loop_task_cancel(&pool->grower);
  ab_loop_task_cancel(&pool->looker);
  pool->loop = loop;
  pool->scheduler = loop->self;
  if (pool->live >= ab_gc_pace_next(&pool->pace) || ab_gc_pace_paces(&pool->pace))
    arm_grower((VALUE)pool);
}

static void check_scheduler(ab_pool *pool, VALUE scheduler) {
  if (ab__loop_or_null(scheduler)) return;
  /* A thread that has nothing to do with the pool should be told. */
  if (!NIL_P(pool->thread) || pool->owner != getpid()) check_owner(pool);
  rb_raise(rb_eRuntimeError,
           "the pool runs jobs on an Abaca::Scheduler, and the thread's scheduler is %" PRIsVALUE
           ": call Fiber.set_scheduler(Abaca::Scheduler.new) first",
           rb_inspect(scheduler));
}

ab_loop *ab__pool_loop(ab_pool *pool) {
  VALUE scheduler = rb_fiber_scheduler_get();
  if (AB_LIKELY(scheduler == pool->scheduler && pool->loop)) {
    ab__loop_check(pool->loop);
    return pool->loop;
  }
  check_scheduler(pool, scheduler);
  ab_loop *loop = ab_loop_of(scheduler);
  if (pool->loop != loop) adopt(pool, loop);
  return loop;
}

/* ---- scrubbing ---- */

/* Singleton methods cannot be removed, nor anything from a frozen fiber. */
static bool scrubbed(const ab_worker *w) {
  if (AB_UNLIKELY(RBASIC_CLASS(w->fiber) != w->pool->fiber_class)) return false;
  if (AB_UNLIKELY(OBJ_FROZEN(w->fiber))) return false;
  return ab__scrub_job(w->fiber, w->pool->words, w->block);
}

static VALUE scrub_again(VALUE arg) {
  ab_worker *w = (ab_worker *)arg;
  w->clean = scrubbed(w);
  return Qnil;
}

/* ---- the life of a worker ---- */

/* The loop raises what is raised here: it concerns the process. */
static void arm(ab_worker *w, VALUE (*body)(VALUE)) {
  int state;
  rb_protect(body, (VALUE)w->pool, &state);
  if (AB_UNLIKELY(state && !ab__loop_ended(w->pool->loop, state))) rb_jump_tag(state);
}

static VALUE arm_idle_timer(VALUE arg) {
  ab_pool *pool = (ab_pool *)arg;
  pool->least_idle = pool->least_long = pool->idle_count;
  pool->full_tick = pool->loop->now + pool->idle_timeout;
  ab_loop_task_arm(&pool->idle_timer, pool->loop, pool->self,
                   pool->loop->now + ab__pool_tick(pool));
  return Qnil;
}

static VALUE arm_starter(VALUE arg) {
  ab__tickets_start_soon((ab_pool *)arg);
  return Qnil;
}

/* A stack that gets deep with each job would only be faulted in again: its memory is given back
 * after the 1st, 2nd, 4th, 8th ... time. The idle timer takes care of unused fibers. */
static void went_deep(ab_worker *w) {
  w->deep++;
  if ((w->deep & (w->deep - 1)) != 0) return;
  ab_stack_give_back(&w->stack);
  w->pool->trimmed_stacks++;
}

/* Returns false if there are enough idle fibers, and this one has to end. */
static bool rest(ab_worker *w) {
  ab_pool *pool = w->pool;
  w->reason = AB_RETIRED_SURPLUS;
  if (AB_UNLIKELY(pool->idle_count >= pool->max_idle)) return false;
  w->fn = NULL;
  w->arg = NULL;
  ab_list_remove(&w->link);
  ab_list_prepend(&pool->idle, &w->link);
  pool->busy_count--;
  pool->idle_count++;
  if (AB_UNLIKELY(ab_stack_deep(&w->stack))) went_deep(w);
  if (AB_UNLIKELY(!ab_loop_task_armed(&pool->idle_timer) && pool->idle_timeout))
    arm(w, arm_idle_timer);
  if (AB_UNLIKELY(!ab_list_empty(&pool->queue))) arm(w, arm_starter);
  return true;
}

void ab__worker_assign(ab_worker *w, ab_loop *loop, ab_job_fn fn, void *arg) {
  ab_pool *pool = w->pool;
  ab_loop_renew(loop, w->fiber);
  w->loop = loop;
  w->scheduler = loop->self;
  w->fn = fn;
  w->arg = arg;
  ab_list_remove(&w->link);
  ab_list_append(&pool->busy, &w->link);
  pool->idle_count--;
  pool->busy_count++;
  if (pool->busy_count > pool->high_water) pool->high_water = pool->busy_count;
  if (pool->idle_count < pool->least_idle) pool->least_idle = pool->idle_count;
}

void ab__worker_run(ab_worker *w, ab_loop *loop, ab_job_fn fn) {
  VALUE fiber = w->fiber;
  ab__worker_assign(w, loop, fn, w);
  if (ab__loop_on_root(loop))
    ab__loop_enter(loop, fiber);
  else
    ab_loop_transfer(loop, fiber);
  RB_GC_GUARD(fiber);
}

static void forget(ab_worker *w) {
  ab_pool *pool = w->pool;
  ab_list_remove(&w->link);
  if (w->fn)
    pool->busy_count--;
  else if (!w->ending)
    pool->idle_count--;
  pool->live--;
  free(w);
}

/* The fiber is about to end: a waiting ticket gets another, and its stack keeps no memory. */
static void retire(ab_worker *w, enum ab_retired reason) {
  ab_pool *pool = w->pool;
  if (ab_stack_deep(&w->stack)) ab_stack_give_back(&w->stack);
  if (!ab_list_empty(&pool->queue)) arm(w, arm_starter);
  pool->retired[reason]++;
  forget(w);
}

/* ---- running jobs ---- */

/* Handles what ended a job, or the scrubbing after it. Returns only if the fiber may live. */
static void recover(ab_worker *w, int state) {
  if (!NIL_P(w->ticket) && ab__ticket_failed(w)) state = 0;
  if (w->posted) {
    w->posted = false;
    state = ab__post_failed(w->pool, state);
  }
  for (int attempt = 0; attempt < 2; attempt++) {
    if (!ab__loop_ended(w->loop, state)) {
      /* Killed: the fiber has to unwind to its end. */
      retire(w, AB_RETIRED_KILLED);
      rb_jump_tag(state);
    }
    rb_protect(scrub_again, (VALUE)w, &state);
    if (state == 0) return;
  }
  w->clean = false;
  if (ab__loop_ended(w->loop, state)) return;
  retire(w, AB_RETIRED_KILLED);
  rb_jump_tag(state);
}

static bool next_job(ab_worker *w, unsigned chain) {
  ab_pool *pool = w->pool;
  if (AB_UNLIKELY(!ab_list_empty(&pool->queue))) {
    if (chain >= CHAIN) return false;
    ab__ticket_next(pool, w);
    return true;
  }
  return pool->next && pool->next(pool->next_ctx, &w->fn, &w->arg);
}

/* After a job. Returns false if the fiber has to end, for w->reason. */
static bool settle(ab_worker *w) {
  w->running = false;
  w->ticket = w->block = Qnil;
  rb_set_errinfo(Qnil);
  w->reason = AB_RETIRED_KILLED;
  if (AB_UNLIKELY(w->loop && ab_loop_forgive(w->loop, w->fiber))) return false;
  w->reason = AB_RETIRED_DIRTY;
  if (AB_UNLIKELY(!w->clean)) return false;
  w->reason = AB_RETIRED_JOBS;
  return AB_LIKELY(++w->jobs < w->pool->retire_after);
}

/* Runs jobs while there are any. Returns false if the fiber has to end, for w->reason. */
static bool run_jobs(ab_worker *w) {
  for (unsigned chain = 0;; chain++) {
    w->clean = false;
    w->running = true;
    w->fn(w->arg);
    w->clean = scrubbed(w);
    if (AB_UNLIKELY(!settle(w))) return false;
    if (!next_job(w, chain)) return rest(w);
    w->pool->reused++;
  }
}

static void leave(ab_worker *w) {
  ab_stack_wipe(); /* an idle fiber would keep it for long */
  if (w->loop)
    ab__loop_leave(w->loop);
  else
    rb_fiber_transfer(w->starter, 0, NULL);
}

/* Works until the fiber has to end. One rb_protect for many jobs costs a tenth of one for each. */
static VALUE work(VALUE arg) {
  ab_worker *w = (ab_worker *)arg;
  while (!w->ending) {
    if (!w->fn)
      leave(w);
    else if (!run_jobs(w))
      break;
  }
  return Qnil;
}

/* Something was raised in a fiber that waits for a job. With a job on its way it was meant for
 * the thread (Thread#raise, a signal), and the loop raises it. Otherwise it came through a
 * former job's Fiber.current: it is dropped, unless it is meant for the process. */
static void stray(ab_worker *w) {
  VALUE exception = rb_errinfo();
  rb_set_errinfo(Qnil);
  if (w->loop && (w->fn || ab__loop_concerns_process(exception))) w->loop->forward = exception;
}

/* Something was raised out of work(). Returns true if the worker can continue. */
static bool survives(ab_worker *w, int state) {
  if (w->running) {
    recover(w, state);
    /* After an accident the loop comes first: it may have something to raise. */
    return settle(w) && rest(w);
  }
  if (rb_obj_is_kind_of(rb_errinfo(), rb_eException)) {
    stray(w);
    return true;
  }
  retire(w, AB_RETIRED_KILLED);
  rb_jump_tag(state);
}

static VALUE worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  ab_worker *w = (ab_worker *)data;
  /* Keeps the pool alive as long as this stack. */
  volatile VALUE pool = w->pool->self;
  ab_stack_init(&w->stack, w->pool->stack_size);
  w->begun = true;
  int state;
  do rb_protect(work, (VALUE)w, &state);
  while (state && survives(w, state));
  retire(w, w->reason);
  RB_GC_GUARD(pool);
  return Qnil;
}

/* ---- making workers ---- */

static VALUE enter(VALUE arg) {
  const ab_worker *w = (const ab_worker *)arg;
  ab_first_switch_enter(&w->pool->first_switch, w->fiber);
  return Qnil;
}

/* Interrupted while a fiber was created, on which a job will run: the loop raises it. */
static void put_off(ab_pool *pool, int state) {
  VALUE exception = rb_errinfo();
  if (!pool->loop) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  if (rb_obj_is_kind_of(exception, rb_eException))
    pool->loop->forward = exception;
  else
    pool->loop->fatal = state;
}

/* Removes a worker that could not run; without a stack, there can be no more for a while. */
static void unmake(ab_pool *pool, ab_worker *w, int state) {
  forget(w);
  pool->created--;
  if (state && !rb_obj_is_kind_of(rb_errinfo(), rb_path2class("FiberError"))) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  pool->max = pool->live > 0 ? pool->live : 1;
  pool->refused = ab_clock_monotonic();
  pool->pace.on = false;
}

/* The stacks may be free again. */
static bool may_grow(ab_pool *pool) {
  if (AB_LIKELY(pool->live < pool->max)) return true;
  if (AB_LIKELY(pool->max == pool->wanted_max)) return false;
  if (ab_clock_monotonic() - pool->refused < REFUSAL_TIME) return false;
  pool->max = pool->wanted_max;
  return pool->live < pool->max;
}

/* Runs the new fiber to its first wait, which maps its stack. False: failed, the worker is gone. */
static bool warm_up(ab_pool *pool, ab_worker *w) {
  VALUE fiber = w->fiber;
  int state;
  w->starter = rb_fiber_current();
  rb_protect(enter, (VALUE)w, &state);
  if (AB_UNLIKELY(!w->begun)) {
    unmake(pool, w, state);
    return false;
  }
  w->starter = Qnil;
  if (!state && pool->created == 1) state = ab__scrub_learn(&pool->words);
  if (AB_UNLIKELY(state)) put_off(pool, state);
  RB_GC_GUARD(fiber);
  return true;
}

/* A fiber keeps the frame that it was created in with its block: in #run, a job with all it
 * captured. So fibers are created in a method that is called without a block. */
VALUE ab__pool_make_fiber(VALUE self) {
  ab_worker *w = ab_pool_of(self)->target;
  return w ? ab__fiber_new(worker_main, (VALUE)w) : Qnil;
}

static VALUE call_make_fiber(VALUE self) {
  return rb_funcall(self, rb_intern("make_fiber"), 0);
}

/* Returns false if no fiber could be had; then the worker is gone. */
static bool make_fiber(ab_pool *pool, ab_worker *w) {
  ab_worker *other = pool->target; /* that a trap handler has interrupted */
  int state;
  pool->target = w;
  w->fiber = rb_protect(call_make_fiber, pool->self, &state);
  pool->target = other;
  if (AB_LIKELY(state == 0)) return true;
  unmake(pool, w, state);
  return false;
}

static ab_worker *make_worker(ab_pool *pool) {
  ab_worker *w = ab_alloc_zero(&ab_mem_libc, sizeof *w);
  if (!w) rb_memerror();
  w->pool = pool;
  w->scheduler = w->starter = w->fiber = w->ticket = w->block = w->storage = Qnil;
  ab_list_init(&w->link);
  ab_list_prepend(&pool->idle, &w->link);
  pool->idle_count++;
  pool->live++;
  pool->created++;
  if (!make_fiber(pool, w) || !warm_up(pool, w)) return NULL;
  if (AB_UNLIKELY(pool->loop && pool->live >= ab_gc_pace_next(&pool->pace)))
    arm_grower((VALUE)pool);
  return w;
}

ab_worker *ab__pool_take(ab_pool *pool) {
  if (AB_UNLIKELY(ab_list_empty(&pool->idle))) return may_grow(pool) ? make_worker(pool) : NULL;
  pool->reused++;
  return AB_CONTAINER_OF(pool->idle.next, ab_worker, link);
}

bool ab_pool_available(ab_pool *pool) {
  return pool->idle_count > 0 || may_grow(pool);
}

size_t ab_pool_busy(const ab_pool *pool) {
  return pool->busy_count;
}

bool ab_pool_start(ab_pool *pool, ab_loop *loop, ab_job_fn fn, void *arg) {
  if (AB_UNLIKELY(pool->loop != loop)) adopt(pool, loop);
  ab_worker *w = ab__pool_take(pool);
  if (AB_UNLIKELY(!w)) return false;
  VALUE fiber = w->fiber;
  ab__worker_assign(w, loop, fn, arg);
  /* A fiber that has run is never refused: it waits in a transfer. */
  bool entered = ab__loop_enter(loop, fiber);
  RB_GC_GUARD(fiber);
  return entered;
}

void ab__pool_warm(ab_pool *pool, size_t count) {
  if (count > 0) check_owner(pool);
  while (pool->live < count) {
    if (!make_worker(pool))
      rb_raise(rb_path2class("FiberError"),
               "there is no memory for the stacks of %" PRIuSIZE " fibers", count);
  }
}

/* ---- ending workers ---- */

static void end_workers(ab_pool *pool, ab_loop *loop) {
  ab_list *node;
  while ((node = ab_list_shift(&pool->ending))) {
    ab_worker *w = AB_CONTAINER_OF(node, ab_worker, link);
    VALUE fiber = w->fiber;
    w->loop = loop;
    w->scheduler = loop->self;
    ab__loop_enter(loop, fiber);
    RB_GC_GUARD(fiber);
  }
}

size_t ab__pool_let_go(ab_pool *pool, ab_loop *loop, size_t count, enum ab_retired reason) {
  size_t gone = 0;
  for (; gone < count && !ab_list_empty(&pool->idle); gone++) {
    ab_worker *w = AB_CONTAINER_OF(pool->idle.prev, ab_worker, link);
    ab_list_remove(&w->link);
    ab_list_append(&pool->ending, &w->link);
    pool->idle_count--;
    w->ending = true;
    w->reason = (uint8_t)reason;
  }
  if (ab__loop_on_root(loop))
    end_workers(pool, loop);
  else if (gone > 0)
    ab__tickets_start_soon(pool);
  return gone;
}
