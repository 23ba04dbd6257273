#include "rb/scheduler/rb_first_switch.h"

#include <string.h>

#include "rb/scheduler/rb_scheduler.h"

/* A collection that freed this many stacks has helped. */
#define HELPED 256

/* After one that did not help, the next waits for this many times as long as it took. */
#define PATIENCE 20

void ab_first_switch_init(ab_first_switch *first_switch, VALUE owner) {
  *first_switch = (ab_first_switch){
      .owner = owner, .switcher = Qnil, .target = Qnil, .sender = Qnil, .error = Qnil};
}

void ab_first_switch_mark(const ab_first_switch *first_switch) {
  rb_gc_mark(first_switch->owner);
  rb_gc_mark(first_switch->switcher);
  rb_gc_mark(first_switch->target);
  rb_gc_mark(first_switch->sender);
  rb_gc_mark(first_switch->error);
}

static VALUE first_switch_to(VALUE fiber) {
  return rb_fiber_transfer(fiber, 0, NULL);
}

/* Only its text says whether a fiber has run. */
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

bool ab_first_switch_made_room(ab_first_switch *first_switch, VALUE fiber) {
  VALUE error = rb_errinfo();
  if (!rb_obj_is_kind_of(error, ab__fiber_error())) return false;
  ab_nsec start = ab_clock_monotonic();
  if (first_switch->born < HELPED && start < first_switch->patience) return false;
  if (!ab_fiber_is_new(fiber)) return false;
  rb_set_errinfo(Qnil);
  rb_gc_start();
  ab_nsec end = ab_clock_monotonic();
  first_switch->patience = end + PATIENCE * (end - start);
  first_switch->born = 0;
  return true;
}

/* The switcher waits in the switch to its last target. It ends if it wakes up otherwise: a trap
 * handler has run on its fiber, and what that waited for is over. */
static VALUE switcher_main(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  ab_first_switch *first_switch = (ab_first_switch *)data;
  volatile VALUE owner = first_switch->owner; /* as long as this stack */
  for (;;) {
    VALUE target = first_switch->target;
    first_switch->target = Qnil;
    if (AB_UNLIKELY(NIL_P(target) && !first_switch->state)) break;
    int state;
    rb_protect(first_switch_to, NIL_P(target) ? first_switch->sender : target, &state);
    if (AB_LIKELY(!state)) continue;
    if (!NIL_P(target) && ab_first_switch_made_room(first_switch, target)) {
      first_switch->target = target;
      continue;
    }
    if (NIL_P(target) && NIL_P(first_switch->target)) break;
    first_switch->state = state;
    first_switch->error = rb_errinfo();
    first_switch->target = Qnil;
    if (rb_obj_is_kind_of(first_switch->error, rb_eException)) rb_set_errinfo(Qnil);
  }
  RB_GC_GUARD(owner);
  return Qnil;
}

VALUE ab_first_switch_make_switcher(ab_first_switch *first_switch) {
  return ab__fiber_new(switcher_main, (VALUE)first_switch);
}

static void raise_error(ab_first_switch *first_switch) {
  VALUE error = first_switch->error;
  int state = first_switch->state;
  first_switch->error = Qnil;
  first_switch->state = 0;
  if (rb_obj_is_kind_of(error, rb_eException)) rb_exc_raise(error);
  rb_jump_tag(state); /* the switcher's thread is being killed */
}

/* Returns false if a trap handler has run on the switcher's fiber, and waits there. */
static bool send_first(ab_first_switch *first_switch, VALUE fiber) {
  if (NIL_P(first_switch->switcher) || !RTEST(rb_fiber_alive_p(first_switch->switcher)))
    first_switch->switcher = rb_funcall(first_switch->owner, rb_intern("make_switcher"), 0);
  first_switch->target = fiber;
  first_switch_to(first_switch->switcher);
  if (AB_UNLIKELY(first_switch->state)) raise_error(first_switch);
  if (AB_LIKELY(first_switch->target != fiber)) return true;
  first_switch->switcher = first_switch->target = Qnil;
  return false;
}

void ab_first_switch_enter(ab_first_switch *first_switch, VALUE fiber) {
  first_switch->born++;
  first_switch->sender = rb_fiber_current();
  while (!send_first(first_switch, fiber)) continue;
}
