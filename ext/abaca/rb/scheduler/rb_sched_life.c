#include "rb/scheduler/rb_scheduler.h"

#include <unistd.h>

#include "os/fork_page.h"

/* ---- memory ---- */

static void mark_waiters(ab_list *list) {
  ab_list_each (node, tmp, list) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    rb_gc_mark(waiter->fiber);
    rb_gc_mark(waiter->carrier);
    rb_gc_mark(waiter->exception);
    rb_gc_mark(waiter->object);
  }
}

/* A timeout_after block of a fiber that has yielded is in the heap: the fiber's stack must stay. */
static void mark_timeouts(const ab_heap *heap) {
  for (uint32_t i = 0; i < heap->count; i++) {
    const ab_timeout *timeout = AB_CONTAINER_OF(heap->entries[i].node, ab_timeout, timer);
    if (timeout->task) continue; /* marked by its owner */
    rb_gc_mark(timeout->fiber);
    rb_gc_mark(timeout->exception);
    rb_gc_mark(timeout->message);
  }
}

/* Everything is pinned: waiters hold fibers by address, and `waiters` is keyed by it. */
static void loop_mark(void *ptr) {
  ab_loop *loop = ptr;
  mark_waiters(&loop->ready);
  mark_waiters(&loop->parked);
  mark_timeouts(&loop->timeouts);
  ab__preempt_mark(loop);
  ab__uninterrupted_mark(loop);
  ab_latches_mark(&loop->latches);
  ab_callers_mark(&loop->callers);
  rb_gc_mark(loop->self);
  rb_gc_mark(loop->thread);
  rb_gc_mark(loop->root);
  rb_gc_mark(loop->fiber_class);
  rb_gc_mark(loop->own_class);
  rb_gc_mark(loop->parker);
  rb_gc_mark(loop->carrier);
  rb_gc_mark(loop->current);
  rb_gc_mark(loop->forward);
  ab_first_switch_mark(&loop->first_switch);
}

static void close_poller(ab_loop *loop) {
  for (size_t i = 0; i < AB_POOLS; i++) {
    if (loop->pools[i]) ab_blocking_fini(loop->pools[i]);
    loop->pools[i] = NULL;
  }
  if (loop->poller) ab_poller_fini(loop->poller);
  loop->poller = NULL;
}

/* Waiters on fibers' stacks are not touched: those fibers may be gone already. */
static void loop_free(void *ptr) {
  ab_loop *loop = ptr;
  ab__preempt_stop(loop);
  ab__uninterrupted_fini(loop);
  close_poller(loop);
  ab_heap_fini(&loop->timers);
  ab_heap_fini(&loop->timeouts);
  ab__fd_fini(loop);
  ab__works_fini(loop);
  ab_latches_fini(&loop->latches);
  ab_waiters_fini(&loop->waiters);
  ab_fork_page_fini(loop->fork_guard);
  xfree(loop);
}

static size_t loop_size(const void *ptr) {
  const ab_loop *loop = ptr;
  return sizeof *loop + ab_waiters_size(&loop->waiters) +
         (size_t)(loop->timers.capacity + loop->timeouts.capacity) * sizeof(ab_heap_entry) +
         loop->fds.count * sizeof(void *);
}

const rb_data_type_t ab__loop_type = {
    .wrap_struct_name = "Abaca::Scheduler",
    .function = {.dmark = loop_mark, .dfree = loop_free, .dsize = loop_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE loop_alloc(VALUE klass) {
  ab_loop *loop;
  VALUE self = TypedData_Make_Struct(klass, ab_loop, &ab__loop_type, loop);
  ab_list_init(&loop->ready);
  ab_list_init(&loop->parked);
  ab_list_init(&loop->regions);
  ab_list_init(&loop->deferred);
  ab_list_init(&loop->unproven);
  ab_list_init(&loop->writes);
  ab_heap_init(&loop->timers, &ab_mem_libc);
  ab_heap_init(&loop->timeouts, &ab_mem_libc);
  loop->self = self;
  loop->thread = loop->root = loop->parker = loop->carrier = loop->current = loop->forward = Qnil;
  loop->fiber_class = rb_path2class("Fiber"); /* rb_cFiber is not exported */
  loop->own_class = klass;
  for (VALUE above; (above = rb_class_superclass(loop->own_class)) != rb_cObject;)
    loop->own_class = above;
  ab_first_switch_init(&loop->first_switch, self);
  loop->owner = getpid();
  loop->now = ab_clock_monotonic();
  loop->fork_guard = ab_fork_page_init();
  loop->poller = ab_poller_init(&ab_mem_libc);
  if (!loop->poller) rb_sys_fail("Abaca::Scheduler: poller");
  return self;
}

/* ---- run and close ---- */

void ab__loop_close(ab_loop *loop) {
  loop->closed = true;
  ab__preempt_stop(loop);
  close_poller(loop);
}

/* @!method run
 * Runs fibers until none is left; again after it raised what concerns the thread or process. */
static VALUE sched_run(VALUE self) {
  ab_loop_run(ab_loop_of(self));
  return Qnil;
}

static VALUE run_loop(VALUE arg) {
  ab_loop_run((ab_loop *)arg);
  return Qnil;
}

static VALUE end_loop(VALUE arg) {
  ab__loop_close((ab_loop *)arg);
  return Qnil;
}

static void finish(ab_loop *loop) {
  if (ab__loop_forked(loop) || NIL_P(loop->thread)) {
    ab__loop_close(loop);
    return;
  }
  loop->closing = true;
  rb_ensure(run_loop, (VALUE)loop, end_loop, (VALUE)loop);
}

/* Closing under a running loop would take its poller away, and cannot run the remaining fibers. */
static void check_closable(ab_loop *loop) {
  if (ab__loop_forked(loop) || NIL_P(loop->thread)) return;
  ab__loop_check(loop);
  ab__loop_check_idle(loop);
}

static VALUE call_close(VALUE self) {
  return rb_funcall(self, rb_intern("close"), 0);
}

static VALUE detach(VALUE none) {
  return rb_fiber_scheduler_set(none);
}

static VALUE end_detaching(VALUE arg) {
  ((ab_loop *)arg)->detaching = false;
  return Qnil;
}

/* @!method scheduler_close
 * Runs the remaining fibers, then closes through #close. Ruby calls it when the thread ends or
 * gets another scheduler. */
static VALUE sched_scheduler_close(VALUE self) {
  ab_loop *loop = ab__loop_get(self);
  if (loop->closed || loop->closing) return Qnil;
  check_closable(loop);
  if (!loop->detaching) {
    loop->detaching = true;
    rb_ensure(call_close, self, end_detaching, (VALUE)loop);
  }
  if (!loop->closed && !loop->closing) finish(loop);
  RB_GC_GUARD(self);
  return Qnil;
}

/* @!method close
 * Runs the remaining fibers, closes and detaches. Raises RuntimeError while the scheduler runs. */
static VALUE sched_close(VALUE self) {
  ab_loop *loop = ab__loop_get(self);
  if (loop->closed || loop->closing) return Qnil;
  check_closable(loop);
  if (loop->detaching || rb_fiber_scheduler_get() != self) {
    finish(loop);
  } else {
    loop->detaching = true;
    rb_ensure(detach, Qnil, end_detaching, (VALUE)loop);
  }
  RB_GC_GUARD(self);
  return Qnil;
}

static VALUE sched_closed_p(VALUE self) {
  return ab__loop_get(self)->closed ? Qtrue : Qfalse;
}

void ab__init_sched_life(VALUE klass) {
  rb_define_alloc_func(klass, loop_alloc);
  rb_define_method(klass, "run", sched_run, 0);
  rb_define_method(klass, "close", sched_close, 0);
  rb_define_method(klass, "scheduler_close", sched_scheduler_close, 0);
  rb_define_method(klass, "closed?", sched_closed_p, 0);
}
