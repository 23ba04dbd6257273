/* Abaca::FiberPool. A worker is a fiber whose body is a C loop: run a job, make the fiber fit for
 * the next one, ask for one, else lie down on the free list and switch to the loop.
 *
 * A worker is on `idle` (last in, first out: its stack is warm) or on `busy`, from the time it is
 * made until its fiber ends. A fiber that was killed, or that cannot be made clean, ends.
 */
#include "rb/rb_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <ruby/fiber/scheduler.h>

#include "rb/rb_scheduler.h"
#include "rb/rb_scrub.h"

#define DEFAULT_MAX  10000
#define DEFAULT_IDLE 256

/* Linux' own default, for where /proc does not say. */
#define DEFAULT_MAP_COUNT 65530

struct ab_pool {
  VALUE self;
  VALUE thread; /* whose fibers these are; nil before the first one */
  ab_list idle, busy;
  size_t live, idle_count, busy_count;
  size_t max, max_idle;
  size_t high_water; /* most fibers busy at a time */
  uint64_t created, reused, retired;
  ab_job_next next;
  void *next_ctx;
};

typedef struct worker {
  ab_list link;
  ab_pool *pool;
  ab_loop *loop; /* NULL while it is warmed up */
  VALUE home;    /* whom to switch to while there is no loop */
  VALUE fiber;
  ab_job_fn fn; /* NULL when idle */
  void *arg;
} worker;

/* ---- life ---- */

static void mark_workers(ab_list *list) {
  ab_list_each (node, tmp, list) {
    worker *w = AB_CONTAINER_OF(node, worker, link);
    rb_gc_mark(w->fiber);
    rb_gc_mark(w->home);
  }
}

static void pool_mark(void *ptr) {
  ab_pool *pool = ptr;
  rb_gc_mark(pool->self);
  rb_gc_mark(pool->thread);
  mark_workers(&pool->idle);
  mark_workers(&pool->busy);
}

static void free_workers(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list))) free(AB_CONTAINER_OF(node, worker, link));
}

/* A fiber that lives keeps the pool alive from its stack, so none can come back to its worker. */
static void pool_free(void *ptr) {
  ab_pool *pool = ptr;
  free_workers(&pool->idle);
  free_workers(&pool->busy);
  xfree(pool);
}

static size_t pool_size(const void *ptr) {
  const ab_pool *pool = ptr;
  return sizeof *pool + pool->live * sizeof(worker);
}

static const rb_data_type_t pool_type = {
    .wrap_struct_name = "Abaca::FiberPool",
    .function = {.dmark = pool_mark, .dfree = pool_free, .dsize = pool_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE pool_alloc(VALUE klass) {
  ab_pool *pool;
  VALUE self = TypedData_Make_Struct(klass, ab_pool, &pool_type, pool);
  pool->self = self;
  pool->thread = Qnil;
  ab_list_init(&pool->idle);
  ab_list_init(&pool->busy);
  pool->max = DEFAULT_MAX;
  pool->max_idle = DEFAULT_IDLE;
  return self;
}

ab_pool *ab_pool_of(VALUE pool) {
  return rb_check_typeddata(pool, &pool_type);
}

void ab_pool_set_next(ab_pool *pool, ab_job_next next, void *ctx) {
  pool->next = next;
  pool->next_ctx = ctx;
}

/* ---- scrubbing ---- */

static VALUE scrub_fiber(VALUE fiber) {
  return ab__scrub_fiber(fiber, Qnil);
}

static bool scrub(worker *w) {
  int state;
  VALUE clean = rb_protect(scrub_fiber, w->fiber, &state);
  if (AB_UNLIKELY(state && !ab__loop_ended(w->loop, state))) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  return clean == Qtrue;
}

/* ---- the worker ---- */

static void lie_down(worker *w) {
  ab_pool *pool = w->pool;
  w->fn = NULL;
  w->arg = NULL;
  ab_list_remove(&w->link);
  ab_list_prepend(&pool->idle, &w->link);
  pool->busy_count--;
  pool->idle_count++;
}

static void stand_up(worker *w, ab_loop *loop, ab_job_fn fn, void *arg) {
  ab_pool *pool = w->pool;
  w->loop = loop;
  w->fn = fn;
  w->arg = arg;
  ab_list_remove(&w->link);
  ab_list_append(&pool->busy, &w->link);
  pool->idle_count--;
  pool->busy_count++;
  if (pool->busy_count > pool->high_water) pool->high_water = pool->busy_count;
}

static void retire(worker *w) {
  ab_pool *pool = w->pool;
  ab_list_remove(&w->link);
  if (w->fn)
    pool->busy_count--;
  else
    pool->idle_count--;
  pool->live--;
  pool->retired++;
  free(w);
}

static VALUE call_job(VALUE arg) {
  worker *w = (worker *)arg;
  w->fn(w->arg);
  return Qnil;
}

/* Runs jobs as long as there are any. Returns false when the fiber has to end. */
static bool run_jobs(worker *w) {
  ab_pool *pool = w->pool;
  for (;;) {
    int state;
    rb_protect(call_job, (VALUE)w, &state);
    if (AB_UNLIKELY(state && !ab__loop_ended(w->loop, state))) {
      /* Killed: the fiber has to unwind to its end, and is gone then. */
      retire(w);
      rb_jump_tag(state);
    }
    if (AB_UNLIKELY(!scrub(w))) return false;
    if (state != 0 || !pool->next || !pool->next(pool->next_ctx, &w->fn, &w->arg)) break;
    pool->reused++;
  }
  return pool->idle_count < pool->max_idle;
}

static VALUE leave(VALUE arg) {
  worker *w = (worker *)arg;
  if (w->loop)
    ab__loop_leave(w->loop);
  else
    rb_fiber_transfer(w->home, 0, NULL);
  return Qnil;
}

/* Waits for a job. Whoever kept Fiber.current of a former job may switch to it or raise in it: that
 * is nobody's business any more. Only a kill is obeyed. */
static void await_job(worker *w) {
  while (!w->fn) {
    int state;
    rb_protect(leave, (VALUE)w, &state);
    if (AB_LIKELY(state == 0)) continue;
    if (rb_obj_is_kind_of(rb_errinfo(), rb_eException)) {
      rb_set_errinfo(Qnil);
      continue;
    }
    if (w->fn) w->pool->busy_count--, w->pool->idle_count++, w->fn = NULL;
    retire(w);
    rb_jump_tag(state);
  }
}

static VALUE worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  worker *w = (worker *)data;
  /* Keeps the pool alive as long as this stack. */
  volatile VALUE pool = w->pool->self;
  for (;;) {
    if (w->fn && !run_jobs(w)) break;
    if (w->fn) lie_down(w);
    await_job(w);
  }
  retire(w);
  RB_GC_GUARD(pool);
  return Qnil;
}

/* ---- starting ---- */

/* Returns an idle worker whose fiber has not run yet, or NULL. */
static worker *make_worker(ab_pool *pool) {
  worker *w = ab_alloc_zero(&ab_mem_libc, sizeof *w);
  if (!w) return NULL;
  w->pool = pool;
  w->home = w->fiber = Qnil;
  ab_list_init(&w->link);
  ab_list_prepend(&pool->idle, &w->link);
  pool->idle_count++;
  pool->live++;
  w->fiber = ab__fiber_new(worker_main, (VALUE)w);
  pool->created++;
  return w;
}

/* The kernel has no stack for a new fiber. There will not be more of them than there are now. */
static void unmake_worker(worker *w) {
  ab_pool *pool = w->pool;
  retire(w);
  pool->retired--;
  pool->created--;
  pool->max = pool->live > 0 ? pool->live : 1;
}

static void check_thread(ab_pool *pool) {
  VALUE thread = rb_thread_current();
  if (NIL_P(pool->thread)) pool->thread = thread;
  if (pool->thread != thread) rb_raise(rb_eThreadError, "the pool belongs to another thread");
}

bool ab_pool_available(const ab_pool *pool) {
  return pool->idle_count > 0 || pool->live < pool->max;
}

size_t ab_pool_busy(const ab_pool *pool) {
  return pool->busy_count;
}

bool ab_pool_start(ab_pool *pool, ab_loop *loop, ab_job_fn fn, void *arg) {
  check_thread(pool);
  worker *w;
  bool fresh = ab_list_empty(&pool->idle);
  if (!fresh) {
    w = AB_CONTAINER_OF(pool->idle.next, worker, link);
    pool->reused++;
  } else if (pool->live >= pool->max || !(w = make_worker(pool))) {
    return false;
  }
  VALUE fiber = w->fiber;
  stand_up(w, loop, fn, arg);
  bool entered = ab__loop_enter(loop, fiber);
  /* A fiber that has run is never refused: it waits in a transfer. */
  if (AB_UNLIKELY(!entered && fresh)) unmake_worker(w);
  RB_GC_GUARD(fiber);
  return entered;
}

size_t ab_pool_raise_all(ab_pool *pool, VALUE exception) {
  size_t count = 0;
  ab_list_each (node, tmp, &pool->busy) {
    worker *w = AB_CONTAINER_OF(node, worker, link);
    if (ab__loop_interrupt(w->loop, w->fiber, exception)) count++;
  }
  return count;
}

/* ---- Ruby ---- */

/* Two mappings for each fiber, and room for everybody else (D4). */
static size_t max_fibers(void) {
  unsigned long count = DEFAULT_MAP_COUNT;
  FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
  if (file) {
    if (fscanf(file, "%lu", &count) != 1) count = DEFAULT_MAP_COUNT;
    fclose(file);
  }
  return count / 5 * 2;
}

static size_t size_option(VALUE value, const char *name, size_t least) {
  long number = NUM2LONG(value);
  if (number < 0 || (size_t)number < least)
    rb_raise(rb_eArgError, "%s must be at least %" PRIuSIZE, name, least);
  return (size_t)number;
}

static VALUE enter_home(VALUE fiber) {
  return rb_fiber_transfer(fiber, 0, NULL);
}

/* Runs each new fiber as far as its first wait, which maps its stack. */
static void warm_up(ab_pool *pool, size_t count) {
  check_thread(pool);
  while (pool->live < count) {
    worker *w = make_worker(pool);
    if (!w) rb_memerror();
    VALUE fiber = w->fiber;
    w->home = rb_fiber_current();
    int state;
    rb_protect(enter_home, fiber, &state);
    RB_GC_GUARD(fiber);
    if (state == 0) {
      w->home = Qnil;
      continue;
    }
    if (rb_obj_is_kind_of(rb_errinfo(), rb_path2class("FiberError"))) unmake_worker(w);
    rb_jump_tag(state);
  }
}

/* @!method initialize(max: nil, warm: 0, idle: 256)
 * @param max how many fibers there may be; the default is 10,000 or what vm.max_map_count allows
 * @param warm how many to make now
 * @param idle how many to keep when they have nothing to do
 * @raise ArgumentError when max is more than 40 % of vm.max_map_count */
static VALUE pool_initialize(int argc, VALUE *argv, VALUE self) {
  static const char *const names[] = {"max", "warm", "idle"};
  ab_pool *pool = ab_pool_of(self);
  ID ids[AB_ARRAY_LEN(names)];
  for (size_t i = 0; i < AB_ARRAY_LEN(names); i++) ids[i] = rb_intern(names[i]);
  VALUE options, values[3] = {Qundef, Qundef, Qundef};
  rb_scan_args(argc, argv, "0:", &options);
  if (!NIL_P(options)) rb_get_kwargs(options, ids, 0, 3, values);
  size_t ceiling = max_fibers();
  pool->max = DEFAULT_MAX < ceiling ? DEFAULT_MAX : ceiling;
  if (values[0] != Qundef && !NIL_P(values[0])) {
    pool->max = size_option(values[0], "max", 1);
    if (pool->max > ceiling)
      rb_raise(rb_eArgError,
               "max is %" PRIuSIZE ", but vm.max_map_count of this machine allows %" PRIuSIZE
               " fibers",
               pool->max, ceiling);
  }
  size_t warm = values[1] == Qundef ? 0 : size_option(values[1], "warm", 0);
  if (warm > pool->max) rb_raise(rb_eArgError, "warm must not be above max");
  if (values[2] != Qundef) pool->max_idle = size_option(values[2], "idle", 0);
  if (pool->max_idle < warm) pool->max_idle = warm;
  warm_up(pool, warm);
  return self;
}

/* @!method max
 * How many fibers there may be. Smaller than what was asked for once the kernel has refused one. */
static VALUE pool_max(VALUE self) {
  return SIZET2NUM(ab_pool_of(self)->max);
}

static void put(VALUE hash, const char *name, uint64_t value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), ULL2NUM(value));
}

/* @!method stats
 * Counters, as a Hash: live, idle and busy fibers now; created, reused and retired since the start;
 * high_water, the most that were busy at a time; max. */
static VALUE pool_stats(VALUE self) {
  const ab_pool *pool = ab_pool_of(self);
  VALUE hash = rb_hash_new();
  put(hash, "live", pool->live);
  put(hash, "idle", pool->idle_count);
  put(hash, "busy", pool->busy_count);
  put(hash, "created", pool->created);
  put(hash, "reused", pool->reused);
  put(hash, "retired", pool->retired);
  put(hash, "high_water", pool->high_water);
  put(hash, "max", pool->max);
  return hash;
}

void ab_init_fiber_pool(VALUE mAbaca) {
  VALUE klass = rb_define_class_under(mAbaca, "FiberPool", rb_cObject);
  rb_define_alloc_func(klass, pool_alloc);
  rb_define_method(klass, "initialize", pool_initialize, -1);
  rb_define_method(klass, "max", pool_max, 0);
  rb_define_method(klass, "stats", pool_stats, 0);
}
