/* Abaca::FiberPool for Ruby: options, figures, and periodic work. */
#include "rb/pool/rb_pool_parts.h"

#include <stdlib.h>
#include <unistd.h>

#include "os/process.h"

#define DEFAULT_IDLE_TIMEOUT (60 * AB_NSEC_PER_SEC)

/* Linux' own default, in case the system does not say. */
#define DEFAULT_MAP_COUNT 65530

/* Time between two slices of the heap's growth, and of the end of idle fibers. */
#define SLICE_INTERVAL AB_NSEC_PER_MS

/* Time between two checks of the cost of collections. */
#define LOOK_INTERVAL (AB_NSEC_PER_SEC / 2)

/* Fibers that end in one slice, in less than half a millisecond. */
#define SLICE_FIBERS 256

/* Ruby keeps stacks of ended fibers until it collects them; this many are worth a collection. */
#define MANY_STACKS 1024

/* ---- life ---- */

static void mark_workers(ab_list *list) {
  ab_list_each (node, tmp, list) {
    ab_worker *w = AB_CONTAINER_OF(node, ab_worker, link);
    rb_gc_mark(w->fiber);
    rb_gc_mark(w->scheduler);
    rb_gc_mark(w->starter);
    rb_gc_mark(w->ticket);
    rb_gc_mark(w->block);
    rb_gc_mark(w->storage);
  }
}

static void pool_mark(void *ptr) {
  ab_pool *pool = ptr;
  rb_gc_mark(pool->self);
  rb_gc_mark(pool->thread);
  rb_gc_mark(pool->scheduler);
  rb_gc_mark(pool->fiber_class);
  rb_gc_mark(pool->ticket_class);
  rb_gc_mark(pool->on_error);
  mark_workers(&pool->idle);
  mark_workers(&pool->busy);
  mark_workers(&pool->ending);
  ab__tickets_mark(pool);
  ab_gc_pace_mark(&pool->pace);
  ab_first_switch_mark(&pool->first_switch);
}

static void free_workers(ab_list *list) {
  ab_list *node;
  while ((node = ab_list_shift(list))) free(AB_CONTAINER_OF(node, ab_worker, link));
}

/* Live fibers keep the pool alive from their stacks, an armed task does as long as the loop. */
static void pool_free(void *ptr) {
  ab_pool *pool = ptr;
  free_workers(&pool->idle);
  free_workers(&pool->busy);
  free_workers(&pool->ending);
  xfree(pool);
}

static size_t pool_size(const void *ptr) {
  const ab_pool *pool = ptr;
  return sizeof *pool + pool->live * sizeof(ab_worker);
}

static const rb_data_type_t pool_type = {
    .wrap_struct_name = "Abaca::FiberPool",
    .function = {.dmark = pool_mark, .dfree = pool_free, .dsize = pool_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

ab_pool *ab_pool_of(VALUE pool) {
  return rb_check_typeddata(pool, &pool_type);
}

/* ---- periodic work ---- */

static void give_back_stacks(ab_pool *pool, size_t count) {
  for (ab_list *node = pool->idle.prev; count > 0 && node != &pool->idle;
       node = node->prev, count--) {
    ab_worker *w = AB_CONTAINER_OF(node, ab_worker, link);
    if (!ab_stack_deep(&w->stack)) continue;
    ab_stack_give_back(&w->stack);
    pool->trimmed_stacks++;
  }
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The number of fibers that are not needed. A crowd may be idle for a shorter time than a few. */
static size_t unneeded(ab_pool *pool, bool full) {
  size_t lately = least(pool->least_idle, pool->idle_count);
  pool->least_long = least(pool->least_long, lately);
  if (full) return pool->least_long;
  return lately > AB_POOL_CROWD ? lately - AB_POOL_CROWD : 0;
}

/* They end in slices. */
static void idle_tick(ab_loop_task *task, ab_nsec now) {
  ab_pool *pool = AB_CONTAINER_OF(task, ab_pool, idle_timer);
  bool full = now >= pool->full_tick;
  size_t unused = unneeded(pool, full);
  size_t count = least(unused, pool->live > pool->warm ? pool->live - pool->warm : 0);
  size_t gone = ab__pool_let_go(pool, pool->loop, least(count, SLICE_FIBERS), AB_RETIRED_IDLE);
  pool->uncollected += gone;
  if (full) pool->least_long -= gone;
  if (gone < count) {
    ab_loop_task_arm(task, pool->loop, pool->self, now + SLICE_INTERVAL);
    return;
  }
  ab_gc_pace_shrink(&pool->pace, pool->live);
  if (pool->uncollected >= MANY_STACKS) {
    pool->uncollected = 0;
    ab_gc_collect_in_slices();
  }
  pool->least_idle = pool->idle_count;
  if (full) {
    give_back_stacks(pool, unused - gone);
    pool->least_long = pool->idle_count;
    pool->full_tick = now + pool->idle_timeout;
    /* If there are only warm fibers at rest, there is nothing to do until one is used. */
    if (pool->live <= pool->warm && unused - gone >= pool->idle_count) return;
  }
  ab_loop_task_arm(task, pool->loop, pool->self, now + ab__pool_tick(pool));
}

static void starter_due(ab_loop_task *task, ab_nsec now) {
  ab_pool *pool = AB_CONTAINER_OF(task, ab_pool, starter);
  ab__pool_let_go(pool, pool->loop, 0, AB_RETIRED_TRIMMED);
  ab__tickets_start(pool, pool->loop);
}

static void grower_due(ab_loop_task *task, ab_nsec now) {
  ab_pool *pool = AB_CONTAINER_OF(task, ab_pool, grower);
  if (!pool->pace.on) return;
  ab_gc_pace_begin(&pool->pace, pool->live);
  if (ab_gc_pace_slice(&pool->pace))
    ab_loop_task_arm(task, pool->loop, pool->self, now + SLICE_INTERVAL);
  if (ab_gc_pace_paces(&pool->pace))
    ab_loop_task_arm(&pool->looker, pool->loop, pool->self, now + LOOK_INTERVAL);
}

static void looker_due(ab_loop_task *task, ab_nsec now) {
  ab_pool *pool = AB_CONTAINER_OF(task, ab_pool, looker);
  if (!ab_gc_pace_paces(&pool->pace)) return;
  if (ab_gc_pace_look(&pool->pace, pool->live))
    ab_loop_task_arm(&pool->grower, pool->loop, pool->self, now);
  ab_loop_task_arm(task, pool->loop, pool->self, now + LOOK_INTERVAL);
}

static VALUE pool_alloc(VALUE klass) {
  ab_pool *pool;
  VALUE self = TypedData_Make_Struct(klass, ab_pool, &pool_type, pool);
  pool->self = self;
  pool->thread = pool->scheduler = pool->fiber_class = pool->ticket_class = pool->on_error = Qnil;
  ab_gc_pace_init(&pool->pace);
  ab_first_switch_init(&pool->first_switch, self);
  ab_list_init(&pool->idle);
  ab_list_init(&pool->busy);
  ab_list_init(&pool->ending);
  ab_list_init(&pool->queue);
  ab_loop_task_init(&pool->idle_timer, idle_tick);
  ab_loop_task_init(&pool->starter, starter_due);
  ab_loop_task_init(&pool->grower, grower_due);
  ab_loop_task_init(&pool->looker, looker_due);
  pool->fiber_class = rb_path2class("Fiber");
  pool->ticket_class = ab__ticket_class(klass);
  pool->owner = getpid();
  pool->stack_size = ab_stack_size();
  pool->max = pool->wanted_max = 1;
  pool->max_idle = SIZE_MAX;
  pool->idle_timeout = DEFAULT_IDLE_TIMEOUT;
  pool->retire_after = UINT64_MAX;
  return self;
}

/* ---- options ---- */

/* Two mappings for each fiber, and room for everything else. */
static size_t ceiling(void) {
  size_t count = ab_os_most_mappings();
  return (count > 0 ? count : DEFAULT_MAP_COUNT) / 5 * 2;
}

static bool given(VALUE value) {
  return value != Qundef && !NIL_P(value);
}

static size_t size_option(VALUE value, const char *name, size_t least) {
  if (!RB_INTEGER_TYPE_P(value))
    rb_raise(rb_eTypeError, "%s must be an Integer, not %" PRIsVALUE, name, rb_inspect(value));
  /* A Bignum exceeds any machine, and gets the same message. */
  long number = FIXNUM_P(value) ? FIX2LONG(value) : RBIGNUM_POSITIVE_P(value) ? LONG_MAX : -1;
  if (number < 0 || (size_t)number < least)
    rb_raise(rb_eArgError, "%s must be at least %" PRIuSIZE, name, least);
  return (size_t)number;
}

static void set_max(ab_pool *pool, VALUE value) {
  size_t most = ceiling();
  pool->max = pool->wanted_max = given(value) ? size_option(value, "max", 1) : most;
  if (pool->max > most)
    rb_raise(rb_eArgError,
             "max is %" PRIuSIZE ", but vm.max_map_count of this machine allows %" PRIuSIZE
             " fibers",
             pool->max, most);
}

static void set_idle_timeout(ab_pool *pool, VALUE value) {
  if (value == Qundef) return;
  bool set = ab__timeout_of(value, &pool->idle_timeout);
  if (!set) pool->idle_timeout = 0;
  if (set && pool->idle_timeout == 0)
    rb_raise(rb_eArgError, "idle_timeout must be above 0, or nil");
}

static void set_on_full(ab_pool *pool, VALUE value) {
  if (value == Qundef || value == ID2SYM(rb_intern("wait"))) return;
  if (value != ID2SYM(rb_intern("raise")))
    rb_raise(rb_eArgError, "on_full must be :wait or :raise, not %" PRIsVALUE, rb_inspect(value));
  pool->refuse = true;
}

static void set_on_error(ab_pool *pool, VALUE value) {
  if (!given(value)) return;
  if (!rb_respond_to(value, rb_intern("call")))
    rb_raise(rb_eTypeError, "on_error must have a call, not %" PRIsVALUE, rb_inspect(value));
  pool->on_error = value;
}

/* The class's own setting is set by Ruby code; without one it is on. */
static void set_gc_pacing(ab_pool *pool, VALUE value) {
  if (!given(value))
    value = rb_check_funcall(rb_obj_class(pool->self), rb_intern("gc_pacing"), 0, NULL);
  if (value == Qundef || RTEST(value)) ab_gc_pace_start(&pool->pace);
}

static VALUE pool_initialize(int argc, VALUE *argv, VALUE self) {
  static const char *const names[] = {"max",          "warm",    "idle",     "idle_timeout",
                                      "retire_after", "on_full", "on_error", "gc_pacing"};
  enum { MAX, WARM, IDLE, IDLE_TIMEOUT, RETIRE_AFTER, ON_FULL, ON_ERROR, GC_PACING, COUNT };
  ab_pool *pool = ab_pool_of(self);
  ID ids[COUNT];
  VALUE options, values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    ids[i] = rb_intern(names[i]);
    values[i] = Qundef;
  }
  rb_scan_args(argc, argv, "0:", &options);
  if (!NIL_P(options)) rb_get_kwargs(options, ids, 0, COUNT, values);
  if (pool->live > 0) rb_raise(rb_eRuntimeError, "the pool is initialized already");
  set_max(pool, values[MAX]);
  pool->warm = given(values[WARM]) ? size_option(values[WARM], "warm", 0) : 0;
  if (pool->warm > pool->max) rb_raise(rb_eArgError, "warm must not be above max");
  if (given(values[IDLE])) pool->max_idle = size_option(values[IDLE], "idle", 0);
  if (pool->max_idle < pool->warm) pool->max_idle = pool->warm;
  set_idle_timeout(pool, values[IDLE_TIMEOUT]);
  if (given(values[RETIRE_AFTER]))
    pool->retire_after = size_option(values[RETIRE_AFTER], "retire_after", 1);
  set_on_full(pool, values[ON_FULL]);
  set_on_error(pool, values[ON_ERROR]);
  set_gc_pacing(pool, values[GC_PACING]);
  ab__pool_warm(pool, pool->warm);
  return self;
}

/* ---- methods ---- */

static VALUE pool_max(VALUE self) {
  return SIZET2NUM(ab_pool_of(self)->max);
}

static VALUE pool_trim(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  ab_pool *pool = ab_pool_of(self);
  size_t keep = argc == 1 ? size_option(argv[0], "keep", 0) : 0;
  ab_loop *loop = ab__pool_loop(pool);
  if (pool->idle_count <= keep) return INT2FIX(0);
  return SIZET2NUM(ab__pool_let_go(pool, loop, pool->idle_count - keep, AB_RETIRED_TRIMMED));
}

static void put(VALUE hash, const char *name, uint64_t value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), ULL2NUM(value));
}

static VALUE retired_stats(const ab_pool *pool) {
  static const char *const names[] = {
      [AB_RETIRED_KILLED] = "killed", [AB_RETIRED_DIRTY] = "dirty",
      [AB_RETIRED_JOBS] = "jobs",     [AB_RETIRED_SURPLUS] = "surplus",
      [AB_RETIRED_IDLE] = "idle",     [AB_RETIRED_TRIMMED] = "trimmed",
  };
  VALUE hash = rb_hash_new();
  for (size_t i = 0; i < AB_RETIRED_REASONS; i++) put(hash, names[i], pool->retired[i]);
  return hash;
}

static VALUE pool_stats(VALUE self) {
  const ab_pool *pool = ab_pool_of(self);
  VALUE hash = rb_hash_new();
  put(hash, "live", pool->live);
  put(hash, "idle", pool->idle_count);
  put(hash, "busy", pool->busy_count);
  put(hash, "waiting", pool->waiting);
  put(hash, "created", pool->created);
  put(hash, "reused", pool->reused);
  rb_hash_aset(hash, ID2SYM(rb_intern("retired")), retired_stats(pool));
  put(hash, "stacks_trimmed", pool->trimmed_stacks);
  put(hash, "high_water", pool->high_water);
  put(hash, "max", pool->max);
  put(hash, "paced_slots", ab_gc_pace_slots(&pool->pace));
  return hash;
}

static VALUE make_switcher(VALUE self) {
  return ab_first_switch_make_switcher(&ab_pool_of(self)->first_switch);
}

/* A class of lib/abaca/errors.rb; `otherwise` where only the native part is loaded. */
static VALUE error_of(VALUE mAbaca, const char *name, VALUE otherwise) {
  ID id = rb_intern(name);
  return rb_const_defined_at(mAbaca, id) ? rb_const_get_at(mAbaca, id) : otherwise;
}

void ab_init_fiber_pool(VALUE mAbaca) {
  VALUE klass = rb_define_class_under(mAbaca, "FiberPool", rb_cObject);
  rb_define_alloc_func(klass, pool_alloc);
  rb_define_class_under(klass, "Full", error_of(mAbaca, "Error", rb_eStandardError));
  rb_define_class_under(klass, "Cancelled", error_of(mAbaca, "Cancelled", rb_eException));
  rb_define_method(klass, "initialize", pool_initialize, -1);
  rb_define_private_method(klass, "make_fiber", ab__pool_make_fiber, 0);
  rb_define_private_method(klass, "make_switcher", make_switcher, 0);
  rb_define_method(klass, "max", pool_max, 0);
  rb_define_method(klass, "trim", pool_trim, -1);
  rb_define_method(klass, "stats", pool_stats, 0);
  ab__init_ticket(klass);
  ab__init_post(klass);
}
