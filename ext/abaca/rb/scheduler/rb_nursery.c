#include "rb/scheduler/rb_nursery.h"

#include <string.h>

#include "rb/scheduler/rb_scheduler.h"

/* A collection that made room for so many has helped. */
#define HELPED 256

/* After one that did not, this many times as long as it took goes by before the next. */
#define PATIENCE 20

void ab_nursery_init(ab_nursery *nursery, VALUE owner) {
  *nursery =
      (ab_nursery){.owner = owner, .nurse = Qnil, .newborn = Qnil, .home = Qnil, .error = Qnil};
}

void ab_nursery_mark(const ab_nursery *nursery) {
  rb_gc_mark(nursery->owner);
  rb_gc_mark(nursery->nurse);
  rb_gc_mark(nursery->newborn);
  rb_gc_mark(nursery->home);
  rb_gc_mark(nursery->error);
}

static VALUE switch_to(VALUE fiber) {
  return rb_fiber_transfer(fiber, 0, NULL);
}

/* Nothing but its text says whether a fiber has run. */
static VALUE says_new(VALUE fiber) {
  static const char created[] = "(created)>";
  VALUE text = rb_funcall(fiber, rb_intern("to_s"), 0);
  long len = (long)sizeof created - 1;
  bool ends = RSTRING_LEN(text) > len &&
              memcmp(RSTRING_PTR(text) + RSTRING_LEN(text) - len, created, (size_t)len) == 0;
  return ends ? Qtrue : Qfalse;
}

bool ab_fiber_is_new(VALUE fiber) {
  int state;
  VALUE error = rb_errinfo(), is_new = rb_protect(says_new, fiber, &state);
  if (state) rb_set_errinfo(error);
  return !state && RTEST(is_new);
}

bool ab_nursery_made_room(ab_nursery *nursery, VALUE fiber) {
  VALUE error = rb_errinfo();
  if (!rb_obj_is_kind_of(error, ab__fiber_error())) return false;
  ab_nsec start = ab_clock_monotonic();
  if (nursery->born < HELPED && start < nursery->patience) return false;
  if (!ab_fiber_is_new(fiber)) return false;
  rb_set_errinfo(Qnil);
  rb_gc_start();
  ab_nsec end = ab_clock_monotonic();
  nursery->patience = end + PATIENCE * (end - start);
  nursery->born = 0;
  return true;
}

/* She waits in the switch to the last newborn until she is sent to the next. When she finds herself
 * here otherwise (a trap handler has run on her fiber, and what it waited for is over), she ends.
 */
static VALUE nurse_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  ab_nursery *nursery = (ab_nursery *)data;
  volatile VALUE owner = nursery->owner; /* as long as this stack */
  for (;;) {
    VALUE newborn = nursery->newborn;
    nursery->newborn = Qnil;
    if (AB_UNLIKELY(NIL_P(newborn) && !nursery->state)) break;
    int state;
    rb_protect(switch_to, NIL_P(newborn) ? nursery->home : newborn, &state);
    if (AB_LIKELY(!state)) continue;
    if (!NIL_P(newborn) && ab_nursery_made_room(nursery, newborn)) {
      nursery->newborn = newborn;
      continue;
    }
    if (NIL_P(newborn) && NIL_P(nursery->newborn)) break;
    nursery->state = state;
    nursery->error = rb_errinfo();
    nursery->newborn = Qnil;
    if (rb_obj_is_kind_of(nursery->error, rb_eException)) rb_set_errinfo(Qnil);
  }
  RB_GC_GUARD(owner);
  return Qnil;
}

VALUE ab_nursery_make_nurse(ab_nursery *nursery) {
  return ab__fiber_new(nurse_main, (VALUE)nursery);
}

static void raise_error(ab_nursery *nursery) {
  VALUE error = nursery->error;
  int state = nursery->state;
  nursery->error = Qnil;
  nursery->state = 0;
  if (rb_obj_is_kind_of(error, rb_eException)) rb_exc_raise(error);
  rb_jump_tag(state); /* her thread is being killed */
}

/* Returns false when a trap handler has run on her fiber, and waits there. */
static bool send(ab_nursery *nursery, VALUE fiber) {
  if (NIL_P(nursery->nurse) || !RTEST(rb_fiber_alive_p(nursery->nurse)))
    nursery->nurse = rb_funcall(nursery->owner, rb_intern("make_nurse"), 0);
  nursery->newborn = fiber;
  switch_to(nursery->nurse);
  if (AB_UNLIKELY(nursery->state)) raise_error(nursery);
  if (AB_LIKELY(nursery->newborn != fiber)) return true;
  nursery->nurse = nursery->newborn = Qnil;
  return false;
}

void ab_nursery_enter(ab_nursery *nursery, VALUE fiber) {
  nursery->born++;
  nursery->home = rb_fiber_current();
  while (!send(nursery, fiber)) continue;
}
