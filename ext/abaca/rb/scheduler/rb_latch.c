/* Wake-ups that come before their fiber has parked.
 * Ruby's classes list a fiber and then call #block or, for a ConditionVariable, #kernel_sleep. Code
 * that finds it there calls #unblock, once. Between the two the fiber may run or wait for something
 * else, if a subclass overrides the hook or a thread has its turn. The wake-up is kept for its own
 * wait, which the blocker identifies (Ruby does not always pass the same one to both hooks):
 * - a Queue: #block with it; a Thread, the waiting one: #block with any Thread;
 * - a Mutex: #block with it, or a sleep inside ConditionVariable#wait, and no other sleep;
 * - anything else, from code that calls the hooks itself: the next #block, or sleep without end.
 * Ruby's waits check again after each wake-up: one too many does no harm. */
#include "rb/scheduler/rb_scheduler.h"

#include <stdlib.h>

/* The most that are kept for one fiber: waits inside overridden hooks are not nested deeper. */
#define MOST_LATCHES 16

#define MIN_PRUNE   64
#define MOST_FRAMES 32 /* callers that are searched for ConditionVariable#wait */

enum blocker { QUEUE, THREAD, MUTEX, CONDITION, LOAD, FOREIGN };

typedef struct latch {
  struct latch *next;
  VALUE blocker;
  enum blocker kind;
} latch;

/* ---- what a wake-up is for ---- */

static void find_classes(ab_latches *latches) {
  if (AB_LIKELY(latches->condition_class != 0)) return;
  latches->queue_class = rb_path2class("Thread::Queue");
  latches->mutex_class = rb_path2class("Thread::Mutex");
  latches->condition_class = rb_path2class("Thread::ConditionVariable");
}

static bool latch_is_a(VALUE object, VALUE klass) {
  return RTEST(rb_obj_is_kind_of(object, klass));
}

static enum blocker latch_kind_of(ab_latches *latches, VALUE blocker) {
  if (RB_SPECIAL_CONST_P(blocker)) return FOREIGN;
  if (RBASIC_CLASS(blocker) == 0) return LOAD; /* the lock of a file that is being loaded */
  find_classes(latches);
  if (latch_is_a(blocker, latches->mutex_class)) return MUTEX;
  if (latch_is_a(blocker, latches->queue_class)) return QUEUE;
  if (latch_is_a(blocker, rb_cThread)) return THREAD;
  return latch_is_a(blocker, latches->condition_class) ? CONDITION : FOREIGN;
}

static bool is_thread(VALUE object) {
  return !RB_SPECIAL_CONST_P(object) && RBASIC_CLASS(object) != 0 && latch_is_a(object, rb_cThread);
}

static bool fits_block(VALUE object, VALUE blocker, enum blocker kind) {
  return object == blocker || kind == FOREIGN || (kind == THREAD && is_thread(object));
}

/* `what`: the method that returns it, label or base_label. */
static bool is_named(VALUE frames, long i, const char *what, const char *name) {
  VALUE label = rb_funcall(RARRAY_AREF(frames, i), rb_intern(what), 0);
  return RB_TYPE_P(label, T_STRING) && rb_str_equal(label, rb_str_new_cstr(name)) == Qtrue;
}

static bool is_sleep(VALUE frames, long i) {
  return is_named(frames, i, "base_label", "sleep");
}

/* Labels have their class from Ruby 3.4 on. */
static bool is_wait_of_condition(VALUE frames, long i) {
  return is_named(frames, i, "label", "Thread::ConditionVariable#wait");
}

/* Is the caller Mutex#sleep inside ConditionVariable#wait, or, from Ruby 4.0 on, the latter? The
 * innermost of these counts, since an overridden hook may sleep for itself. */
static bool is_condition_wait(VALUE frames) {
  if (!RB_TYPE_P(frames, T_ARRAY)) return false;
  long i = 0, count = RARRAY_LEN(frames);
  while (i < count && !is_sleep(frames, i) && !is_wait_of_condition(frames, i)) i++;
  while (i < count && is_sleep(frames, i)) i++;
  if (i == count) return false;
  return is_wait_of_condition(frames, i) || is_named(frames, i, "label", "wait");
}

static VALUE frames_of_caller(void) {
  return rb_funcall(rb_mKernel, rb_intern("caller_locations"), 2, INT2FIX(0), INT2FIX(MOST_FRAMES));
}

static VALUE frames_of(VALUE fiber) {
  return rb_funcall(fiber, rb_intern("backtrace_locations"), 2, INT2FIX(0), INT2FIX(MOST_FRAMES));
}

/* A sleep, perhaps over. Without overridden hooks none happens during a wait for a Mutex. */
static bool fits_sleep(const ab_loop *loop, const ab_waiter *waiter, enum blocker kind) {
  if (kind == FOREIGN) return true;
  if (kind != MUTEX && kind != CONDITION) return false;
  return RBASIC_CLASS(loop->self) == loop->own_class || is_condition_wait(frames_of(waiter->fiber));
}

/* Does a wake-up end this wait, or has it, if the wait is over? Otherwise another one is meant. */
static bool concerns(ab_loop *loop, const ab_waiter *waiter, VALUE blocker, enum blocker kind) {
  switch (waiter->kind) {
  case AB_WAIT_BLOCK:
    return fits_block(waiter->object, blocker, kind);
  case AB_WAIT_SLEEP:
    return fits_sleep(loop, waiter, kind);
  case AB_WAIT_REQUIRE:
  case AB_WAIT_OPERATION:
    return kind == FOREIGN || kind == LOAD;
  default:
    return false;
  }
}

/* ---- the table ---- */

static latch *first_of(const ab_latches *latches, VALUE fiber) {
  st_data_t first;
  bool found = latches->by_fiber && st_lookup(latches->by_fiber, (st_data_t)fiber, &first);
  return found ? (latch *)first : NULL;
}

static void free_all(latch *first) {
  while (first) {
    latch *next = first->next;
    free(first);
    first = next;
  }
}

static int free_entry(st_data_t fiber, st_data_t first, st_data_t ended_only) {
  if (ended_only && RTEST(rb_fiber_alive_p((VALUE)fiber))) return ST_CONTINUE;
  free_all((latch *)first);
  return ST_DELETE;
}

void ab_latches_fini(ab_latches *latches) {
  if (!latches->by_fiber) return;
  st_foreach(latches->by_fiber, free_entry, false);
  st_free_table(latches->by_fiber);
  latches->by_fiber = NULL;
}

static int mark_entry(st_data_t fiber, st_data_t first, st_data_t unused) {
  rb_gc_mark((VALUE)fiber);
  for (const latch *kept = (const latch *)first; kept; kept = kept->next) rb_gc_mark(kept->blocker);
  return ST_CONTINUE;
}

void ab_latches_mark(const ab_latches *latches) {
  if (latches->by_fiber) st_foreach(latches->by_fiber, mark_entry, 0);
  rb_gc_mark(latches->queue_class);
  rb_gc_mark(latches->mutex_class);
  rb_gc_mark(latches->condition_class);
}

static void latch_prune(ab_latches *latches) {
  if (latches->by_fiber->num_entries < latches->prune_at) return;
  st_foreach(latches->by_fiber, free_entry, true);
  latches->prune_at = 2 * (latches->by_fiber->num_entries + MIN_PRUNE);
}

static void add(ab_latches *latches, VALUE fiber, VALUE blocker, enum blocker kind) {
  if (!latches->by_fiber) latches->by_fiber = st_init_numtable();
  latch_prune(latches);
  latch *first = first_of(latches, fiber), *last = first;
  size_t count = 0;
  for (latch *kept = first; kept; last = kept, kept = kept->next, count++)
    if (kept->blocker == blocker) return;
  if (count >= MOST_LATCHES) return;
  latch *fresh = ab_alloc_zero(&ab_mem_libc, sizeof *fresh);
  if (!fresh) rb_memerror();
  fresh->blocker = blocker;
  fresh->kind = kind;
  if (last)
    last->next = fresh;
  else
    st_insert(latches->by_fiber, (st_data_t)fiber, (st_data_t)fresh);
}

static void replace_first(ab_latches *latches, VALUE fiber, latch *first) {
  st_data_t key = (st_data_t)fiber;
  if (first)
    st_insert(latches->by_fiber, key, (st_data_t)first);
  else
    st_delete(latches->by_fiber, &key, NULL);
}

/* ---- keeping and taking ---- */

static bool latch_is_alive(VALUE fiber) {
  return RTEST(rb_obj_is_fiber(fiber)) && RTEST(rb_fiber_alive_p(fiber));
}

void ab__latch_wake(ab_loop *loop, VALUE blocker, VALUE fiber) {
  ab_waiter *waiter = ab__loop_waiter(loop, fiber);
  if (AB_LIKELY(waiter && waiter->kind == AB_WAIT_BLOCK && waiter->object == blocker)) {
    ab_loop_wake(loop, waiter);
    return;
  }
  enum blocker kind = latch_kind_of(&loop->latches, blocker);
  bool concerned = waiter && concerns(loop, waiter, blocker, kind);
  waiter = ab__loop_waiter(loop, fiber); /* other threads may have run meanwhile */
  if (concerned) {
    if (waiter) ab_loop_wake(loop, waiter);
    return;
  }
  /* A fiber that waits for something else is none that user code may wake. */
  if (kind == FOREIGN && waiter && waiter->wake == AB_WAKE_PENDING) return;
  if (fiber != loop->root && latch_is_alive(fiber)) add(&loop->latches, fiber, blocker, kind);
}

/* `condition`: the sleep that is about to begin belongs to ConditionVariable#wait. */
static bool suits(const latch *kept, const ab_waiter *waiter, bool forever, bool condition) {
  if (waiter->kind != AB_WAIT_SLEEP) return fits_block(waiter->object, kept->blocker, kept->kind);
  if (kept->kind == FOREIGN) return forever;
  return condition && (kept->kind == MUTEX || kept->kind == CONDITION);
}

static bool may_be_signal(const latch *kept) {
  while (kept && kept->kind != MUTEX && kept->kind != CONDITION) kept = kept->next;
  return kept != NULL;
}

bool ab__latch_take(ab_latches *latches, const ab_waiter *waiter, bool forever) {
  VALUE fiber = rb_fiber_current();
  bool condition = waiter->kind == AB_WAIT_SLEEP && may_be_signal(first_of(latches, fiber)) &&
                   is_condition_wait(frames_of_caller());
  /* Only now: others may have been kept while Ruby looked at the callers. */
  latch *first = first_of(latches, fiber), *before = NULL, *kept = first;
  while (kept && !suits(kept, waiter, forever, condition)) before = kept, kept = kept->next;
  if (!kept) return false;
  if (before)
    before->next = kept->next;
  else
    replace_first(latches, fiber, kept->next);
  free(kept);
  return true;
}

/* ---- the next job of a pooled fiber ---- */

/* Not inline: a job without latches does not pay for the registers. */
static AB_NOINLINE void forget(ab_latches *latches, VALUE fiber) {
  latch *first = first_of(latches, fiber);
  if (!first) return;
  replace_first(latches, fiber, NULL);
  free_all(first);
}

void ab_loop_renew(ab_loop *loop, VALUE fiber) {
  if (AB_UNLIKELY(ab__latch_any(&loop->latches))) forget(&loop->latches, fiber);
}

bool ab_loop_forgive(ab_loop *loop, VALUE fiber) {
  ab_loop_renew(loop, fiber);
  if (AB_LIKELY(ab_list_empty(&loop->deferred))) return false;
  bool killed = false;
  for (VALUE exception; !NIL_P(exception = ab__uninterrupted_deferred(loop, fiber));) {
    if (exception == AB_FIBER_KILLED) killed = true;
  }
  return killed;
}
