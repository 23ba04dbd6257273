/* Abaca::FiberPool#run and Ticket: a job made of a block, and what its owner may do with it. The
 * Fiber, which will run other jobs, is never handed out.
 * Invariant: a running ticket and its worker know each other until the block has ended, so what
 * is sent to a ticket reaches no other job. */
#include "rb/pool/rb_pool_parts.h"

#include <stdlib.h>

enum ticket_state {
  TICKET_WAITING,
  TICKET_RUNNING,
  TICKET_DONE,
  TICKET_FAILED,
  TICKET_CANCELLED,
  TICKET_KILLED
};

/* What few tickets need. */
typedef struct ticket_more {
  ab_list link;  /* in the pool's queue */
  ab_list waits; /* waiters for the end */
  VALUE self;
  VALUE cancelled; /* what #cancel raises; nil before */
  ab_timeout late; /* an exception that cannot be delivered yet */
} ticket_more;

/* Small: there is one for each job. With write barriers, since Ruby allocates others slowly. */
typedef struct ab_ticket {
  VALUE pool;
  VALUE matter;      /* the block; in the end what it returned or raised */
  VALUE storage;     /* of the fiber that called run (Ruby 3.2); nil for none, and in the end */
  ab_worker *worker; /* that runs it */
  ticket_more *more; /* until the end; NULL before it is needed */
  uint8_t state;
  bool posted; /* a job of #post: the ticket is never handed out */
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
  rb_gc_mark(t->matter);
  rb_gc_mark(t->storage);
  if (!t->more) return;
  rb_gc_mark(t->more->cancelled);
  rb_gc_mark(t->more->late.fiber);
  rb_gc_mark(t->more->late.exception);
}

/* A queued ticket is marked by its pool, so both die together or it is off the queue. */
static void ticket_free(void *ptr) {
  ab_ticket *t = ptr;
  free(t->more);
  xfree(t);
}

static size_t ticket_size(const void *ptr) {
  const ab_ticket *t = ptr;
  return sizeof *t + (t->more ? sizeof *t->more : 0);
}

static const rb_data_type_t ticket_type = {
    .wrap_struct_name = "Abaca::FiberPool::Ticket",
    .function = {.dmark = ticket_mark, .dfree = ticket_free, .dsize = ticket_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static ab_ticket *ticket_of(VALUE self) {
  return rb_check_typeddata(self, &ticket_type);
}

static VALUE constant_of(ab_pool *pool, const char *name) {
  return rb_const_get(rb_obj_class(pool->self), rb_intern(name));
}

static VALUE ticket_new(ab_pool *pool, VALUE block) {
  ab_ticket *t;
  VALUE storage = ab__scrub_storage(pool->words);
  /* With its class from the start, Ruby would look up its allocator each time. */
  VALUE self = TypedData_Make_Struct(0, ab_ticket, &ticket_type, t);
  /* A new object needs no write barriers. */
  t->pool = pool->self;
  t->matter = block;
  t->storage = storage;
  return rb_obj_reveal(self, pool->ticket_class);
}

static ticket_more *more_of(VALUE self, ab_ticket *t) {
  if (t->more) return t->more;
  ticket_more *more = ab_alloc_zero(&ab_mem_libc, sizeof *more);
  if (!more) rb_memerror();
  ab_list_init(&more->link);
  ab_list_init(&more->waits);
  more->self = self;
  more->cancelled = Qnil;
  more->late = (ab_timeout){.fiber = Qnil, .exception = Qnil, .message = Qnil};
  ab_heap_node_init(&more->late.timer);
  return t->more = more;
}

/* ---- the end of a ticket ---- */

static void drop_late(ab_loop *loop, ticket_more *more) {
  if (NIL_P(more->late.fiber)) return;
  ab_heap_cancel(&loop->timeouts, &more->late.timer);
  ab_loop_task_drop(loop, more);
  more->late.fiber = more->late.exception = Qnil;
}

static void wake_waits(ticket_more *more) {
  ab_list *node;
  while ((node = ab_list_shift(&more->waits))) {
    ticket_wait *wait = AB_CONTAINER_OF(node, ticket_wait, link);
    ab_loop_wake(wait->loop, &wait->waiter);
  }
}

/* `matter`: what the block returned or raised. */
static void ticket_finish(VALUE self, ab_ticket *t, enum ticket_state state, VALUE matter) {
  ab_worker *w = t->worker;
  t->worker = NULL;
  t->state = (uint8_t)state;
  t->storage = Qnil;
  RB_OBJ_WRITE(self, &t->matter, matter);
  ticket_more *more = t->more;
  if (AB_LIKELY(!more)) return;
  t->more = NULL;
  if (w) drop_late(w->loop, more);
  wake_waits(more);
  free(more);
}

static void unqueue(ab_pool *pool, ticket_more *more) {
  if (ab_list_empty(&more->link)) return;
  ab_list_remove(&more->link);
  pool->waiting--;
}

static ticket_more *first_queued(ab_pool *pool) {
  return AB_CONTAINER_OF(pool->queue.next, ticket_more, link);
}

/* ---- the job ---- */

/* The job of a pooled fiber. */
static void run_ticket(void *arg) {
  ab_worker *w = arg;
  VALUE self = w->ticket;
  ab_ticket *t = ticket_of(self);
  if (AB_UNLIKELY(t->worker != w)) return; /* a trap handler was faster */
  t->state = TICKET_RUNNING;
  ab__scrub_inherit(t->storage, w->pool->fiber_class);
  VALUE value = ab__job_call(w->block);
  w->posted = false;
  ticket_finish(self, t, TICKET_DONE, value);
}

/* What the block raises goes to the ticket, and to the pool, which reports or forwards it. */
bool ab__ticket_failed(ab_worker *w) {
  VALUE self = w->ticket, exception = rb_errinfo();
  ab_ticket *t = ticket_of(self);
  if (t->worker != w) return false; /* the block has ended: this was the scrubbing */
  if (!rb_obj_is_kind_of(exception, rb_eException)) {
    ticket_finish(self, t, TICKET_KILLED, Qnil);
  } else if (t->more && exception == t->more->cancelled) {
    ticket_finish(self, t, TICKET_CANCELLED, Qnil);
    rb_set_errinfo(Qnil);
    return true;
  } else {
    ticket_finish(self, t, TICKET_FAILED, exception);
  }
  return false;
}

static void bind_worker(VALUE self, ab_ticket *t, ab_worker *w) {
  w->ticket = self;
  w->block = t->matter;
  w->posted = t->posted;
  t->worker = w;
}

void ab__ticket_next(ab_pool *pool, ab_worker *w) {
  ticket_more *more = first_queued(pool);
  unqueue(pool, more);
  bind_worker(more->self, ticket_of(more->self), w);
  w->fn = run_ticket;
  w->arg = w;
}

/* ---- starting ---- */

/* Runs the ticket's job until it first waits, from any fiber. False: no fiber for it. */
static bool ticket_start(ab_pool *pool, ab_loop *loop, VALUE ticket) {
  ab_worker *w = ab__pool_take(pool);
  if (!w) return false;
  bind_worker(ticket, ticket_of(ticket), w);
  ab__worker_run(w, loop, run_ticket);
  RB_GC_GUARD(ticket);
  return true;
}

static void enqueue(ab_pool *pool, VALUE ticket) {
  ab_list_append(&pool->queue, &more_of(ticket, ticket_of(ticket))->link);
  pool->waiting++;
}

static VALUE no_stack(void) {
  return rb_exc_new_cstr(rb_path2class("FiberError"),
                         "there is no memory for the stack of a fiber");
}

static void fail_without_fiber(ab_pool *pool, ab_loop *loop, VALUE ticket) {
  ab_ticket *t = ticket_of(ticket);
  VALUE exception = no_stack();
  ticket_finish(ticket, t, TICKET_FAILED, exception);
  if (t->posted) ab__post_lost(pool, loop, exception);
}

/* How many tickets are started before the rest of the loop gets its turn. */
#define BATCH 64

void ab__tickets_start(ab_pool *pool, ab_loop *loop) {
  for (int i = 0; !ab_list_empty(&pool->queue) && ab_pool_available(pool); i++) {
    if (i == BATCH) {
      ab_loop_task_arm(&pool->starter, loop, pool->self, loop->now + 1);
      return;
    }
    ticket_more *more = first_queued(pool);
    volatile VALUE self = more->self;
    unqueue(pool, more);
    if (!ticket_start(pool, loop, self)) {
      /* With a live fiber it is next when that one has ended its job; without one it never is. */
      if (pool->live == 0) {
        fail_without_fiber(pool, loop, self);
      } else {
        ab_list_prepend(&pool->queue, &more->link);
        pool->waiting++;
      }
      return;
    }
    RB_GC_GUARD(self);
  }
}

void ab__tickets_start_soon(ab_pool *pool) {
  ab_loop_task_arm(&pool->starter, pool->loop, pool->self, pool->loop->now);
}

void ab__tickets_mark(ab_pool *pool) {
  ab_list_each (node, tmp, &pool->queue) {
    rb_gc_mark(AB_CONTAINER_OF(node, ticket_more, link)->self);
  }
}

NORETURN(static void raise_full(ab_pool *pool));

static void raise_full(ab_pool *pool) {
  rb_raise(constant_of(pool, "Full"), "all %" PRIuSIZE " fibers of the pool are busy", pool->max);
}

bool ab__ticket_waits(ab_pool *pool) {
  bool wait = !ab_list_empty(&pool->queue) || !ab_pool_available(pool);
  if (AB_UNLIKELY(wait && pool->refuse)) raise_full(pool);
  return wait;
}

/* There is no fiber for the ticket's job now. */
static void wait_for_fiber(ab_pool *pool, VALUE ticket) {
  if (pool->live == 0) rb_exc_raise(no_stack());
  if (pool->refuse) raise_full(pool);
  enqueue(pool, ticket);
  if (ab_pool_available(pool)) ab__tickets_start_soon(pool);
}

void ab__ticket_post(ab_pool *pool, VALUE job) {
  VALUE ticket = ticket_new(pool, job);
  ticket_of(ticket)->posted = true;
  wait_for_fiber(pool, ticket);
}

static VALUE pool_run(VALUE self) {
  ab_pool *pool = ab_pool_of(self);
  rb_need_block();
  ab_loop *loop = ab__pool_loop(pool);
  VALUE block = rb_block_proc();
  bool wait = ab__ticket_waits(pool);
  VALUE ticket = ticket_new(pool, block);
  if (wait || !ticket_start(pool, loop, ticket)) wait_for_fiber(pool, ticket);
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
  if (t->state == TICKET_RUNNING && t->worker->loop != loop)
    rb_raise(rb_eRuntimeError, "the job's scheduler is closed: the job will not go on");
  return loop;
}

/* True if the job, or a fiber that it has resumed, is running now. */
static bool is_current(const ab_ticket *t) {
  if (!t->worker) return false;
  VALUE fiber = t->worker->fiber;
  return rb_fiber_current() == fiber || t->worker->loop->carrier == fiber;
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
static bool await(VALUE self, bool forever, ab_nsec timeout) {
  ab_ticket *t = ticket_of(self);
  if (is_over(t)) return true;
  ab_loop *loop = check_use(t);
  if (is_current(t)) rb_raise(rb_eThreadError, "a job cannot wait for itself");
  if (!forever && timeout == 0) return false;
  ab_nsec deadline = forever ? 0 : ab__deadline_after(timeout);
  /* Scheduler#unblock is public, so a wait may end without a reason. */
  for (bool passed = false; !is_over(t) && !passed;) {
    ticket_wait wait = {.waiter = {.kind = AB_WAIT_BLOCK, .object = self}, .loop = loop};
    wait.deadline = deadline;
    ab_list_append(&more_of(self, t)->waits, &wait.link);
    rb_ensure(park, (VALUE)&wait, park_end, (VALUE)&wait);
    passed = wait.passed;
  }
  RB_GC_GUARD(self);
  return is_over(t);
}

static VALUE ticket_wait_m(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  ab_nsec timeout = 0;
  bool forever = !ab__timeout_of(argc == 1 ? argv[0] : Qnil, &timeout);
  return await(self, forever, timeout) ? self : Qnil;
}

static VALUE ticket_value(VALUE self) {
  await(self, true, 0);
  const ab_ticket *t = ticket_of(self);
  if (t->state == TICKET_FAILED) rb_exc_raise(t->matter);
  return t->matter;
}

static VALUE ticket_alive_p(VALUE self) {
  const ab_ticket *t = ticket_of(self);
  if (is_over(t)) return Qfalse;
  return t->state == TICKET_RUNNING && t->worker->loop->closed ? Qfalse : Qtrue;
}

static VALUE ticket_cancelled_p(VALUE self) {
  return ticket_of(self)->state == TICKET_CANCELLED ? Qtrue : Qfalse;
}

static VALUE ticket_status(VALUE self) {
  static const char *const names[] = {"waiting", "running",   "done",
                                      "failed",  "cancelled", "killed"};
  return ID2SYM(rb_intern(names[ticket_of(self)->state]));
}

/* The fiber is ready, perhaps with an exception: the loop tries again until the job is over. */
static bool deliver_late(VALUE self, ab_ticket *t, VALUE exception, bool replace) {
  ab_loop *loop = t->worker->loop;
  ticket_more *more = more_of(self, t);
  bool armed = ab_heap_armed(&more->late.timer);
  if (armed && !replace) return false;
  RB_OBJ_WRITE(self, &more->late.fiber, t->worker->fiber);
  RB_OBJ_WRITE(self, &more->late.exception, exception);
  if (armed) return true;
  if (ab_heap_arm(&loop->timeouts, &more->late.timer, loop->now) != AB_OK) rb_memerror();
  ab_loop_task_keep(loop, more, self);
  return true;
}

static bool deliver(VALUE self, VALUE exception, bool replace) {
  ab_ticket *t = ticket_of(self);
  if (is_over(t)) return false;
  check_use(t);
  if (t->state == TICKET_WAITING) {
    bool cancel = t->more && exception == t->more->cancelled;
    if (t->more) unqueue(ab_pool_of(t->pool), t->more);
    ticket_finish(self, t, cancel ? TICKET_CANCELLED : TICKET_FAILED, cancel ? Qnil : exception);
    return true;
  }
  if (is_current(t)) rb_exc_raise(exception);
  ab_loop *loop = t->worker->loop;
  VALUE fiber = t->worker->fiber;
  const ab_waiter *waiter = ab__loop_waiter(loop, fiber);
  if (waiter && waiter->exception == exception) return true; /* on its way */
  return ab__loop_interrupt(loop, fiber, exception) || deliver_late(self, t, exception, replace);
}

static VALUE ticket_raise(int argc, VALUE *argv, VALUE self) {
  VALUE exception = rb_make_exception(argc, argv);
  if (NIL_P(exception)) exception = rb_exc_new_cstr(rb_eRuntimeError, "unhandled exception");
  return deliver(self, exception, false) ? Qtrue : Qfalse;
}

static VALUE ticket_cancel(VALUE self) {
  ab_ticket *t = ticket_of(self);
  if (is_over(t)) return Qfalse;
  ticket_more *more = more_of(self, t);
  if (NIL_P(more->cancelled)) {
    VALUE message = rb_str_new_cstr("the job was cancelled");
    VALUE klass = constant_of(ab_pool_of(t->pool), "Cancelled");
    RB_OBJ_WRITE(self, &more->cancelled, rb_class_new_instance(1, &message, klass));
  }
  return deliver(self, more->cancelled, true) ? Qtrue : Qfalse;
}

VALUE ab__ticket_class(VALUE klass) {
  return rb_const_get(klass, rb_intern("Ticket"));
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
