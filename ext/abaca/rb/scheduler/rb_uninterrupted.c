/* Waits that no exception may end: in a postponed job of Ruby's it would be lost; while another
 * fiber loads a file, Ruby may catch it, leave the hook's frame behind, and crash later. What
 * reaches a fiber there is delivered at its next wait; what concerns the thread goes to the
 * loop. */
#include "rb/scheduler/rb_scheduler.h"

#include <stdlib.h>

/* An exception, or AB_FIBER_KILLED, that waits for its fiber to wait. */
typedef struct deferred {
  ab_list link;
  VALUE fiber, exception;
} deferred;

static void drop(deferred *entry) {
  ab_list_remove(&entry->link);
  free(entry);
}

static void fixed_prune(ab_loop *loop) {
  ab_list_each (node, tmp, &loop->deferred) {
    deferred *entry = AB_CONTAINER_OF(node, deferred, link);
    if (!RTEST(rb_fiber_alive_p(entry->fiber))) drop(entry);
  }
}

static void defer(ab_loop *loop, VALUE fiber, VALUE exception) {
  fixed_prune(loop);
  deferred *entry = ab_alloc_zero(&ab_mem_libc, sizeof *entry);
  if (!entry) {
    /* It must be delivered; a kill fires again by itself after the next wait. */
    if (exception != AB_FIBER_KILLED) loop->forward = exception;
    return;
  }
  entry->fiber = fiber;
  entry->exception = exception;
  ab_list_append(&loop->deferred, &entry->link);
}

VALUE ab__uninterrupted_deferred(ab_loop *loop, VALUE fiber) {
  ab_list_each (node, tmp, &loop->deferred) {
    deferred *entry = AB_CONTAINER_OF(node, deferred, link);
    if (entry->fiber != fiber) continue;
    VALUE exception = entry->exception;
    drop(entry);
    return exception;
  }
  return Qnil;
}

void ab__uninterrupted_mark(const ab_loop *loop) {
  for (const ab_list *node = loop->deferred.next; node != &loop->deferred; node = node->next) {
    const deferred *entry = AB_CONTAINER_OF(node, deferred, link);
    rb_gc_mark(entry->fiber);
    rb_gc_mark(entry->exception);
  }
}

void ab__uninterrupted_fini(ab_loop *loop) {
  ab_list *node;
  while ((node = ab_list_shift(&loop->deferred))) free(AB_CONTAINER_OF(node, deferred, link));
}

bool ab__uninterrupted(ab_loop *loop, ab_waiter *waiter, VALUE (*wait)(VALUE), VALUE arg) {
  int state;
  rb_protect(wait, arg, &state);
  if (AB_LIKELY(state == 0)) return true;
  VALUE error = rb_errinfo();
  if (rb_obj_is_kind_of(error, rb_eNoMemError)) rb_jump_tag(state); /* no such wait is possible */
  rb_set_errinfo(Qnil);
  if (error == AB_FIBER_KILLED) {
    defer(loop, waiter->fiber, error);
    return true;
  }
  if (!rb_obj_is_kind_of(error, rb_eException)) {
    loop->fatal = state; /* Thread#kill */
    return false;
  }
  if (!waiter->dispatched) {
    defer(loop, waiter->fiber, error); /* a sibling's Fiber#raise */
    return NIL_P(loop->forward);
  }
  loop->forward = error; /* Thread#raise, a trap handler */
  return false;
}
