/* Abaca::FiberPool#run and Abaca::FiberPool::Ticket: a job of a block, and what its owner may do to
 * it. The Fiber itself is never handed out: it will run other jobs.
 *
 * Invariant: a running ticket and its worker know each other, from when the worker gets the job
 * until the block has ended; so nothing that is sent to a ticket can reach another job.
 */
#include "rb/rb_pool_parts.h"

#include <string.h>

enum ticket_state {
  TICKET_WAITING,
  TICKET_RUNNING,
  TICKET_DONE,
  TICKET_FAILED,
  TICKET_CANCELLED,
  TICKET_KILLED
};

typedef struct ab_ticket {
  ab_list link;  /* in the pool's queue */
  ab_list waits; /* who waits for the end */
  VALUE self, pool, block;
  VALUE storage; /* of the fiber that called run (Ruby 3.2); nil when there is none */
  VALUE value, exception;
  VALUE cancelled; /* what #cancel raises; nil before */
  ab_worker *worker;
  ab_loop *loop; /* of the worker; alive as long as the scheduler */
  VALUE scheduler;
  ab_timeout late; /* an exception that cannot be delivered yet */
  uint8_t state;
} ab_ticket;

typedef struct ticket_wait {
  ab_list link;
  ab_waiter waiter;
  ab_loop *loop;
  ab_nsec deadline;
  bool passed;
} ticket_wait;

static void ticket_mark(void *ptr) {
  const ab_ticket *t = ptr;
  rb_gc_mark(t->pool);
  rb_gc_mark(t->block);
  rb_gc_mark(t->storage);
  rb_gc_mark(t->value);
  rb_gc_mark(t->exception);
  rb_gc_mark(t->cancelled);
  rb_gc_mark(t->scheduler);
  rb_gc_mark(t->late.fiber);
  rb_gc_mark(t->late.exception);
}

/* A queued ticket is marked by its pool, so both die together or it is off the queue. */
static void ticket_free(void *ptr) {
  xfree(ptr);
}

static size_t ticket_size(const void *ptr) {
  return sizeof(ab_ticket);
}

static const rb_data_type_t ticket_type = {
    .wrap_struct_name = "Abaca::FiberPool::Ticket",
    .function = {.dmark = ticket_mark, .dfree = ticket_free, .dsize = ticket_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static ab_ticket *ticket_of(VALUE self) {
  return rb_check_typeddata(self, &ticket_type);
}

static VALUE constant_of(ab_pool *pool, const char *name) {
  return rb_const_get(rb_obj_class(pool->self), rb_intern(name));
}

static VALUE ticket_new(ab_pool *pool, VALUE block) {
  ab_ticket *t;
  VALUE self = TypedData_Make_Struct(constant_of(pool, "Ticket"), ab_ticket, &ticket_type, t);
  ab_list_init(&t->link);
  ab_list_init(&t->waits);
  t->self = self;
  t->pool = pool->self;
  t->block = block;
  t->storage = t->value = t->exception = t->cancelled = t->scheduler = Qnil;
  t->late = (ab_timeout){.fiber = Qnil, .exception = Qnil, .message = Qnil};
  ab_heap_node_init(&t->late.timer);
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  t->storage = rb_funcall(rb_fiber_current(), rb_intern("storage"), 0);
#endif
  return self;
}

/* ---- the end of a ticket ---- */

static void drop_late(ab_ticket *t) {
  if (NIL_P(t->late.fiber)) return;
  ab_heap_cancel(&t->loop->timeouts, &t->late.timer);
  ab_chore_drop(t->loop, t);
  t->late.fiber = t->late.exception = Qnil;
}

static void wake_waits(ab_ticket *t) {
  ab_list *node;
  while ((node = ab_list_shift(&t->waits))) {
    ticket_wait *wait = AB_CONTAINER_OF(node, ticket_wait, link);
    ab_loop_wake(wait->loop, &wait->waiter);
  }
}

static void finish(ab_ticket *t, enum ticket_state state, VALUE value, VALUE exception) {
  drop_late(t);
  t->worker = NULL;
  t->state = (uint8_t)state;
  t->value = value;
  t->exception = exception;
  t->block = t->storage = Qnil;
  wake_waits(t);
}

static void unqueue(ab_ticket *t, ab_pool *pool) {
  if (ab_list_empty(&t->link)) return;
  ab_list_remove(&t->link);
  pool->waiting--;
}

/* ---- the job ---- */

#ifdef HAVE_RB_FIBER_NEW_STORAGE
static int inherit_one(VALUE key, VALUE value, VALUE klass) {
  rb_funcall(klass, rb_intern("[]="), 2, key, value);
  return ST_CONTINUE;
}
#endif

static VALUE call_block(VALUE arg) {
  const ab_ticket *t = (const ab_ticket *)arg;
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  if (!NIL_P(t->storage)) rb_hash_foreach(t->storage, inherit_one, rb_path2class("Fiber"));
#endif
  return rb_proc_call_kw(t->block, rb_ary_new(), RB_NO_KEYWORDS);
}

/* The job of a pooled fiber. What the block raises goes to the ticket, and to the pool as well: it
 * reports it, or forwards what concerns the process. */
static void run_ticket(void *arg) {
  ab_ticket *t = arg;
  volatile VALUE self = t->self;
  int state;
  t->state = TICKET_RUNNING;
  VALUE value = rb_protect(call_block, (VALUE)t, &state);
  if (AB_LIKELY(state == 0)) {
    finish(t, TICKET_DONE, value, Qnil);
    RB_GC_GUARD(self);
    return;
  }
  VALUE exception = rb_errinfo();
  if (!rb_obj_is_kind_of(exception, rb_eException)) {
    finish(t, TICKET_KILLED, Qnil, Qnil);
  } else if (exception == t->cancelled) {
    finish(t, TICKET_CANCELLED, Qnil, Qnil);
    rb_set_errinfo(Qnil);
    state = 0;
  } else {
    finish(t, TICKET_FAILED, Qnil, exception);
  }
  RB_GC_GUARD(self);
  if (state) rb_jump_tag(state);
}

static void bind_worker(ab_ticket *t, ab_worker *w, ab_loop *loop) {
  w->ticket = t->self;
  w->block = t->block;
  t->worker = w;
  t->loop = loop;
  t->scheduler = loop->self;
}

void ab__ticket_next(ab_pool *pool, ab_worker *w) {
  ab_ticket *t = AB_CONTAINER_OF(pool->queue.next, ab_ticket, link);
  unqueue(t, pool);
  bind_worker(t, w, w->loop);
  w->fn = run_ticket;
  w->arg = t;
}

/* ---- starting ---- */

typedef struct entry {
  ab_loop *loop;
  VALUE fiber;
  bool begun;
} entry;

static VALUE enter(VALUE arg) {
  const entry *e = (const entry *)arg;
  if (ab__loop_at_home(e->loop))
    ab__loop_enter(e->loop, e->fiber);
  else
    ab_loop_transfer(e->loop, e->fiber);
  return Qnil;
}

/* Runs the ticket's job until it first waits, from any fiber. Returns false when there is no fiber
 * for it. What ended the switch is raised: an exception that is meant for the caller, or that the
 * job has sent to the loop. */
static bool start(ab_pool *pool, ab_loop *loop, ab_ticket *t) {
  bool fresh;
  int state;
  ab_worker *w = ab__pool_take(pool, &fresh);
  if (!w) return false;
  entry e = {.loop = loop, .fiber = w->fiber, .begun = !fresh};
  if (fresh) w->begun = &e.begun;
  bind_worker(t, w, loop);
  ab__worker_assign(w, loop, run_ticket, t);
  rb_protect(enter, (VALUE)&e, &state);
  if (AB_UNLIKELY(!e.begun)) {
    t->worker = NULL;
    bool full = !state || rb_obj_is_kind_of(rb_errinfo(), rb_path2class("FiberError"));
    ab__pool_unmake(pool, w, full);
    if (full) rb_set_errinfo(Qnil);
    if (full) state = 0;
  }
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
  RB_GC_GUARD(e.fiber);
  return e.begun;
}

static void enqueue(ab_pool *pool, ab_ticket *t) {
  ab_list_append(&pool->queue, &t->link);
  pool->waiting++;
}

static VALUE no_stack(void) {
  return rb_exc_new_cstr(rb_path2class("FiberError"),
                         "there is no memory for the stack of a fiber");
}

/* How many tickets are started before the rest of the loop gets its turn. */
#define BATCH 64

void ab__tickets_start(ab_pool *pool, ab_loop *loop) {
  for (int i = 0; !ab_list_empty(&pool->queue) && ab_pool_available(pool); i++) {
    if (i == BATCH) {
      ab_chore_arm(&pool->starter, loop, pool->self, loop->now + 1);
      return;
    }
    ab_ticket *t = AB_CONTAINER_OF(pool->queue.next, ab_ticket, link);
    volatile VALUE self = t->self;
    unqueue(t, pool);
    if (!start(pool, loop, t)) {
      /* With a live fiber it is next when that one has ended its job, without one never. */
      if (pool->live == 0) {
        finish(t, TICKET_FAILED, Qnil, no_stack());
      } else {
        ab_list_prepend(&pool->queue, &t->link);
        pool->waiting++;
      }
      return;
    }
    RB_GC_GUARD(self);
  }
}

void ab__tickets_start_soon(ab_pool *pool) {
  ab_chore_arm(&pool->starter, pool->loop, pool->self, pool->loop->now);
}

void ab__tickets_mark(ab_pool *pool) {
  ab_list_each (node, tmp, &pool->queue) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_ticket, link)->self);
  }
}

NORETURN(static void raise_full(ab_pool *pool));

static void raise_full(ab_pool *pool) {
  rb_raise(constant_of(pool, "Full"), "all %" PRIuSIZE " fibers of the pool are busy", pool->max);
}

/* @!method run { ... }
 * Runs the block on a fiber of the pool, at once, until it first waits. When all are busy it runs
 * later, in the order of the calls. On the thread whose scheduler is an Abaca::Scheduler, from any
 * fiber.
 * @return [Abaca::FiberPool::Ticket]
 * @raise [Abaca::FiberPool::Full] when all are busy, with on_full: :raise
 * @raise [RuntimeError] without a scheduler, and after a fork
 * @raise [ThreadError] on another thread than before
 * @raise [FiberError] when there is no memory for even one fiber */
static VALUE pool_run(VALUE self) {
  ab_pool *pool = ab_pool_of(self);
  rb_need_block();
  ab_loop *loop = ab__pool_loop(pool);
  VALUE block = rb_block_proc();
  /* Those who wait already come first. */
  bool wait = !ab_list_empty(&pool->queue) || !ab_pool_available(pool);
  if (wait && pool->refuse) raise_full(pool);
  VALUE ticket = ticket_new(pool, block);
  ab_ticket *t = ticket_of(ticket);
  if (wait || !start(pool, loop, t)) {
    if (pool->live == 0) rb_exc_raise(no_stack());
    if (pool->refuse) raise_full(pool);
    enqueue(pool, t);
    if (ab_pool_available(pool)) ab__tickets_start_soon(pool);
  }
  RB_GC_GUARD(self);
  return ticket;
}

/* ---- what the owner may do ---- */

static bool is_over(const ab_ticket *t) {
  return t->state >= TICKET_DONE;
}

/* The loop on which the ticket can be waited for. */
static ab_loop *check_use(ab_ticket *t) {
  ab_loop *loop = ab__pool_loop(ab_pool_of(t->pool));
  if (t->state == TICKET_RUNNING && t->loop != loop)
    rb_raise(rb_eRuntimeError, "the job's scheduler is closed: the job will not go on");
  return loop;
}

/* True when the job, or a fiber that it has resumed, is what runs now. */
static bool is_current(const ab_ticket *t) {
  if (!t->worker) return false;
  VALUE fiber = t->worker->fiber;
  return rb_fiber_current() == fiber || t->loop->carrier == fiber;
}

static VALUE park(VALUE arg) {
  ticket_wait *wait = (ticket_wait *)arg;
  wait->passed = ab_loop_park(wait->loop, &wait->waiter, wait->deadline) == AB_WAKE_TIMEOUT;
  return Qnil;
}

static VALUE park_end(VALUE arg) {
  ab_list_remove(&((ticket_wait *)arg)->link);
  return Qnil;
}

/* Returns whether the ticket is over. */
static bool await(ab_ticket *t, bool forever, ab_nsec timeout) {
  if (is_over(t)) return true;
  ab_loop *loop = check_use(t);
  if (is_current(t)) rb_raise(rb_eThreadError, "a job cannot wait for itself");
  if (!forever && timeout == 0) return false;
  ab_nsec deadline = forever ? 0 : ab__deadline_after(timeout);
  /* Scheduler#unblock is public, so a wait may end for no reason. */
  for (bool passed = false; !is_over(t) && !passed;) {
    ticket_wait wait = {.waiter = {.kind = AB_WAIT_BLOCK, .object = t->self}, .loop = loop};
    wait.deadline = deadline;
    ab_list_append(&t->waits, &wait.link);
    rb_ensure(park, (VALUE)&wait, park_end, (VALUE)&wait);
    passed = wait.passed;
  }
  return is_over(t);
}

/* @!method wait(timeout = nil)
 * Waits until the job has ended, however it did.
 * @param timeout seconds; nil for as long as it takes
 * @return [Ticket, nil] itself, or nil when the time has passed */
static VALUE ticket_wait_m(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  ab_nsec timeout = 0;
  bool forever = !ab__timeout_of(argc == 1 ? argv[0] : Qnil, &timeout);
  return await(ticket_of(self), forever, timeout) ? self : Qnil;
}

/* @!method value
 * Waits until the job has ended.
 * @return what the block returned; nil when it was cancelled or killed
 * @raise what the block raised */
static VALUE ticket_value(VALUE self) {
  ab_ticket *t = ticket_of(self);
  await(t, true, 0);
  if (t->state == TICKET_FAILED) rb_exc_raise(t->exception);
  return t->value;
}

/* @!method alive?
 * True while the job waits for a fiber, runs or waits in its block. From any thread. */
static VALUE ticket_alive_p(VALUE self) {
  const ab_ticket *t = ticket_of(self);
  if (is_over(t)) return Qfalse;
  return t->state == TICKET_RUNNING && t->loop->closed ? Qfalse : Qtrue;
}

/* @!method cancelled?
 * True when #cancel has ended the job. From any thread. */
static VALUE ticket_cancelled_p(VALUE self) {
  return ticket_of(self)->state == TICKET_CANCELLED ? Qtrue : Qfalse;
}

/* @!method status
 * :waiting (for a fiber), :running, :done, :failed, :cancelled or :killed. From any thread. */
static VALUE ticket_status(VALUE self) {
  static const char *const names[] = {"waiting", "running",   "done",
                                      "failed",  "cancelled", "killed"};
  return ID2SYM(rb_intern(names[ticket_of(self)->state]));
}

/* The job's fiber is ready already, perhaps with another exception: the loop tries again until it
 * can be delivered, or the job is over. */
static bool deliver_late(ab_ticket *t, VALUE exception, bool replace) {
  bool armed = ab_heap_armed(&t->late.timer);
  if (armed && !replace) return false;
  t->late.fiber = t->worker->fiber;
  t->late.exception = exception;
  if (armed) return true;
  if (ab_heap_arm(&t->loop->timeouts, &t->late.timer, t->loop->now) != AB_OK) rb_memerror();
  ab_chore_keep(t->loop, t, t->self);
  return true;
}

static bool deliver(ab_ticket *t, VALUE exception, bool replace) {
  ab_pool *pool = ab_pool_of(t->pool);
  if (is_over(t)) return false;
  check_use(t);
  if (t->state == TICKET_WAITING) {
    unqueue(t, pool);
    if (exception == t->cancelled)
      finish(t, TICKET_CANCELLED, Qnil, Qnil);
    else
      finish(t, TICKET_FAILED, Qnil, exception);
    return true;
  }
  if (is_current(t)) rb_exc_raise(exception);
  const ab_waiter *waiter = ab__loop_waiter(t->loop, t->worker->fiber);
  if (waiter && waiter->exception == exception) return true; /* on its way */
  return ab__loop_interrupt(t->loop, t->worker->fiber, exception) ||
         deliver_late(t, exception, replace);
}

/* @!method raise(exception = RuntimeError, message = nil, backtrace = nil)
 * Raises in the job, at the place where it waits, as soon as it gets its turn. A job that has not
 * started never does: it has failed with the exception. From within the job it is as Kernel#raise.
 * @return [Boolean] false when the job is over, and when two exceptions are on their way already */
static VALUE ticket_raise(int argc, VALUE *argv, VALUE self) {
  VALUE exception = rb_make_exception(argc, argv);
  if (NIL_P(exception)) exception = rb_exc_new_cstr(rb_eRuntimeError, "unhandled exception");
  return deliver(ticket_of(self), exception, false) ? Qtrue : Qfalse;
}

/* @!method cancel
 * Ends the job: raises Cancelled in it, which no `rescue` of StandardError catches, and which
 * nobody gets to see when it has unwound the block. A job that has not started never does.
 * @return [Boolean] false when the job is over */
static VALUE ticket_cancel(VALUE self) {
  ab_ticket *t = ticket_of(self);
  if (is_over(t)) return Qfalse;
  if (NIL_P(t->cancelled)) {
    VALUE message = rb_str_new_cstr("the job was cancelled");
    t->cancelled =
        rb_class_new_instance(1, &message, constant_of(ab_pool_of(t->pool), "Cancelled"));
  }
  return deliver(t, t->cancelled, true) ? Qtrue : Qfalse;
}

void ab__init_ticket(VALUE klass) {
  VALUE ticket = rb_define_class_under(klass, "Ticket", rb_cObject);
  rb_undef_alloc_func(ticket);
  rb_undef_method(CLASS_OF(ticket), "new");
  rb_define_method(klass, "run", pool_run, 0);
  rb_define_method(ticket, "wait", ticket_wait_m, -1);
  rb_define_method(ticket, "value", ticket_value, 0);
  rb_define_method(ticket, "alive?", ticket_alive_p, 0);
  rb_define_method(ticket, "cancelled?", ticket_cancelled_p, 0);
  rb_define_method(ticket, "status", ticket_status, 0);
  rb_define_method(ticket, "raise", ticket_raise, -1);
  rb_define_method(ticket, "cancel", ticket_cancel, 0);
}
