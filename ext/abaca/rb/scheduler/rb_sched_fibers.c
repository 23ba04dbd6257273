/* Scheduler#fibers: what each fiber waits for, derived on demand from the waiters. */
#include "rb/scheduler/rb_scheduler.h"

static const char *const kind_names[] = {
    [AB_WAIT_BLOCK] = "block",
    [AB_WAIT_SLEEP] = "sleep",
    [AB_WAIT_IO] = "io",
    [AB_WAIT_FILE] = "io",
    [AB_WAIT_PROCESS] = "process",
    [AB_WAIT_DNS] = "dns",
    [AB_WAIT_OPERATION] = "blocking_operation",
    [AB_WAIT_REQUIRE] = "require",
    [AB_WAIT_REQUEST_BODY] = "request_body",
    [AB_WAIT_RESPONSE_DRAIN] = "response_drain",
    [AB_WAIT_STREAM] = "stream",
};

static VALUE symbol(const char *name) {
  return ID2SYM(rb_intern(name));
}

static void put(VALUE hash, const char *key, VALUE value) {
  rb_hash_aset(hash, symbol(key), value);
}

static bool fibers_is_a(VALUE object, const char *class_name) {
  return RTEST(rb_obj_is_kind_of(object, rb_path2class(class_name)));
}

/* A wait is named after the object when Ruby's own classes block on it. */
static const char *kind_name(const ab_waiter *waiter) {
  if (waiter->wake != AB_WAKE_PENDING || waiter->kind >= AB_ARRAY_LEN(kind_names)) return "ready";
  if (waiter->kind != AB_WAIT_BLOCK) return kind_names[waiter->kind];
  if (fibers_is_a(waiter->object, "Thread::Mutex")) return "mutex";
  if (fibers_is_a(waiter->object, "Thread::Queue")) return "queue";
  if (fibers_is_a(waiter->object, "Thread")) return "thread";
  return kind_names[AB_WAIT_BLOCK];
}

static VALUE seconds(ab_nsec time) {
  return DBL2NUM((double)time / 1e9);
}

static VALUE event_names(uint32_t events) {
  VALUE names = rb_ary_new();
  if (events & AB_POLL_IN) rb_ary_push(names, symbol("readable"));
  if (events & AB_POLL_OUT) rb_ary_push(names, symbol("writable"));
  if (events & AB_POLL_PRI) rb_ary_push(names, symbol("priority"));
  return names;
}

/* ---- the owner of a Mutex ---- */

static VALUE owner_in(const ab_loop *loop, const ab_list *list, VALUE mutex) {
  for (const ab_list *node = list->next; node != list; node = node->next) {
    const ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (ab__mutex_owner_is(&loop->mutex_owner, mutex, waiter->fiber)) return waiter->fiber;
    if (ab__mutex_owner_is(&loop->mutex_owner, mutex, waiter->carrier)) return waiter->carrier;
  }
  return Qnil;
}

static VALUE owner_of(const ab_loop *loop, VALUE mutex) {
  VALUE current = rb_fiber_current(), owner;
  if (ab__mutex_owner_is(&loop->mutex_owner, mutex, current)) return current;
  if (!NIL_P(loop->root) && ab__mutex_owner_is(&loop->mutex_owner, mutex, loop->root))
    return loop->root;
  owner = owner_in(loop, &loop->parked, mutex);
  return NIL_P(owner) ? owner_in(loop, &loop->ready, mutex) : owner;
}

/* ---- one fiber ---- */

VALUE ab_loop_waiting(const ab_loop *loop, VALUE fiber) {
  const ab_waiter *waiter = ab_waiters_find(&loop->waiters, fiber);
  if (waiter && waiter->kind != AB_WAIT_STRAY) return fiber;
  const ab_list *list = &loop->parked;
  for (const ab_list *node = list->next; node != list; node = node->next) {
    waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (waiter->carrier == fiber) return waiter->fiber;
  }
  return Qnil;
}

/* ---- the list ---- */

static VALUE describe(const ab_loop *loop, const ab_waiter *waiter) {
  VALUE hash = rb_hash_new();
  const char *name = kind_name(waiter);
  bool parked = waiter->wake == AB_WAKE_PENDING;
  put(hash, "fiber", waiter->fiber);
  put(hash, "waiting_for", symbol(name));
  put(hash, "object", parked ? waiter->object : Qnil);
  put(hash, "since", seconds(waiter->since));
  if (waiter->carrier != waiter->fiber) put(hash, "resumed_by", waiter->carrier);
  if (!parked) return hash;
  if (ab_heap_armed(&waiter->timer)) put(hash, "until", seconds(waiter->timer.deadline));
  bool one = waiter->kind == AB_WAIT_IO || waiter->kind == AB_WAIT_FILE;
  if (one && waiter->events != 0) {
    put(hash, "fd", INT2NUM(waiter->fd));
    put(hash, "events", event_names(waiter->events));
  }
  if (ab__mutex_owner_known(&loop->mutex_owner) && waiter->kind == AB_WAIT_BLOCK &&
      fibers_is_a(waiter->object, "Thread::Mutex"))
    put(hash, "owner", owner_of(loop, waiter->object));
  return hash;
}

static void collect(VALUE fibers, const ab_list *list) {
  for (const ab_list *node = list->next; node != list; node = node->next)
    rb_ary_push(fibers, AB_CONTAINER_OF(node, ab_waiter, link)->fiber);
}

/* @!method fibers
 * What every fiber that is not running waits for: an Array of Hashes (docs/scheduler.md). */
static VALUE sched_fibers(VALUE self) {
  ab_loop *loop = ab__loop_get(self);
  VALUE result = rb_ary_new(), fibers = rb_ary_new();
  if (ab__loop_forked(loop)) return result;
  int state = ab__mutex_owner_learn(&loop->mutex_owner);
  if (state) rb_jump_tag(state);
  collect(fibers, &loop->ready);
  collect(fibers, &loop->parked);
  for (long i = 0; i < RARRAY_LEN(fibers); i++) {
    VALUE fiber = RARRAY_AREF(fibers, i);
    /* Each is looked up again: code that runs to describe one may end the wait of another. */
    const ab_waiter *waiter = ab__loop_waiter(loop, fiber);
    if (!waiter) continue;
    VALUE hash = describe(loop, waiter);
    put(hash, "backtrace", rb_funcall(fiber, rb_intern("backtrace"), 0));
    rb_ary_push(result, hash);
  }
  return result;
}

void ab__init_sched_fibers(VALUE klass) {
  rb_define_method(klass, "fibers", sched_fibers, 0);
}
