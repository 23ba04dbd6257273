/* Preemption: a fiber that has computed for longer than the quantum makes room for others at a safe
 * point of the interpreter, as if it had called `sleep(0)`. Ruby calls `preempt` in whichever
 * thread and fiber runs; it acts only on a non-blocking fiber of a loop whose watchdog wants it. */
#include "rb/scheduler/rb_scheduler.h"

#include <ruby/debug.h>

/* Methods in which a switch would lose a value or exception (read after postponed jobs have
 * run), and hooks called while the core walks lists. */
static const char *const unsafe_methods[] = {
    "resume",      "transfer", "yield", "next",    "peek",     "next_values",
    "peek_values", "raise",    "kill",  "unblock", "io_close", "fiber_interrupt",
};

_Static_assert(AB_ARRAY_LEN(unsafe_methods) == AB_UNSAFE_METHODS, "ab_loop.unsafe");

/* The limits of a quantum: what the watchdog can resolve, and what is still useful. */
#define AB_QUANTUM_MIN (AB_NSEC_PER_MS / 2)
#define AB_QUANTUM_MAX (60 * AB_NSEC_PER_SEC)

/* ---- regions without preemption ---- */

typedef struct region {
  ab_list link; /* in the loop's `regions`, on the fiber's stack */
  VALUE fiber;
} region;

static VALUE run_region(VALUE unused) {
  return rb_yield_values(0);
}

static VALUE end_region(VALUE arg) {
  ab_list_remove(&((region *)arg)->link);
  return Qnil;
}

static bool in_region(const ab_loop *loop, VALUE fiber) {
  for (const ab_list *node = loop->regions.next; node != &loop->regions; node = node->next) {
    VALUE owner = AB_CONTAINER_OF(node, region, link)->fiber;
    /* A fiber that another one resumed is part of that one's region. */
    if (owner == fiber || owner == loop->carrier) return true;
  }
  return false;
}

/* @!method self.no_preempt
 * Runs the block without preemption; it may wait. Returns its value. */
static VALUE sched_no_preempt(VALUE klass) {
  rb_need_block();
  ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_get());
  if (!loop || loop->quantum == 0) return rb_yield_values(0);
  volatile VALUE self = loop->self;
  region here = {.fiber = rb_fiber_current()};
  ab_list_append(&loop->regions, &here.link);
  VALUE result = rb_ensure(run_region, Qnil, end_region, (VALUE)&here);
  RB_GC_GUARD(self);
  return result;
}

/* A region is on its fiber's stack, which must stay as long as it is in the list. */
void ab__preempt_mark(const ab_loop *loop) {
  for (const ab_list *node = loop->regions.next; node != &loop->regions; node = node->next)
    rb_gc_mark(AB_CONTAINER_OF(node, region, link)->fiber);
}

/* ---- preempting ---- */

static bool is_unsafe_here(const ab_loop *loop) {
  ID method = rb_frame_this_func();
  for (size_t i = 0; i < AB_ARRAY_LEN(unsafe_methods); i++)
    if (method == loop->unsafe[i]) return true;
  return false;
}

typedef struct turn_given {
  ab_loop *loop;
  ab_waiter waiter;
} turn_given;

static VALUE give_turn(VALUE arg) {
  turn_given *given = (turn_given *)arg;
  ab__loop_step_aside(given->loop, &given->waiter);
  return Qnil;
}

/* The postponed job. */
static void preempt(void *unused) {
  ab_loop *loop = ab__loop_or_null(rb_fiber_scheduler_current());
  if (!loop || !loop->watchdog || ab__loop_forked(loop) || !ab_watchdog_take(loop->watchdog))
    return;
  VALUE fiber = rb_fiber_current();
  if (!loop->running || fiber == loop->root || ab__loop_waiter(loop, fiber)) return;
  /* Ruby calls this at the end of the switch that starts a request's fiber, too. */
  if (loop->pulse && atomic_load(&loop->pulse->reading)) return;
  if (is_unsafe_here(loop) || in_region(loop, fiber)) return;
  turn_given given = {.loop = loop, .waiter = {.kind = AB_WAIT_PREEMPTED, .object = Qnil}};
  while (!ab__uninterrupted(loop, &given.waiter, give_turn, (VALUE)&given)) continue;
}

void ab__preempt_start(ab_loop *loop) {
  if (loop->quantum == 0 || loop->watchdog) return;
  for (size_t i = 0; i < AB_ARRAY_LEN(unsafe_methods); i++)
    loop->unsafe[i] = rb_intern(unsafe_methods[i]);
  loop->watchdog = ab_watchdog_start(loop->quantum, preempt);
  if (!loop->watchdog) rb_sys_fail("Abaca::Scheduler: a thread for the quantum");
}

void ab__preempt_stop(ab_loop *loop) {
  if (!loop->watchdog) return;
  if (ab__loop_forked(loop))
    ab_watchdog_forget(loop->watchdog);
  else
    ab_watchdog_stop(loop->watchdog);
  loop->watchdog = NULL;
}

/* The private writer behind Scheduler.new(quantum:). */
static VALUE sched_set_quantum(VALUE self, VALUE seconds) {
  ab_loop *loop = ab__loop_get(self);
  ab_nsec quantum = 0;
  if (!NIL_P(seconds)) {
    if (!ab__timeout_of(seconds, &quantum) || quantum < AB_QUANTUM_MIN || quantum > AB_QUANTUM_MAX)
      rb_raise(rb_eArgError, "the quantum must be nil or from 0.0005 to 60 seconds");
  }
  if (loop->running) rb_raise(rb_eRuntimeError, "the quantum cannot change while the loop runs");
  loop->quantum = quantum;
  return seconds;
}

/* @!method quantum
 * The seconds after which a fiber that only computes makes room for others; nil: never. */
static VALUE sched_quantum(VALUE self) {
  const ab_loop *loop = ab__loop_get(self);
  return loop->quantum == 0 ? Qnil : DBL2NUM((double)loop->quantum / 1e9);
}

void ab__init_preempt(VALUE klass) {
  rb_define_singleton_method(klass, "no_preempt", sched_no_preempt, 0);
  rb_define_method(klass, "quantum", sched_quantum, 0);
  rb_define_private_method(klass, "quantum=", sched_set_quantum, 1);
}
