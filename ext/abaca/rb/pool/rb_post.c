/* Abaca::FiberPool#post: a job without a ticket, which costs no object; what it raises goes to
 * `on_error`. If all fibers are busy, it waits in the queue with a ticket that is never handed
 * out. */
#include "rb/pool/rb_pool_parts.h"

VALUE ab__job_call(VALUE job) {
  if (AB_LIKELY(RTEST(rb_obj_is_proc(job)))) return rb_proc_call_with_block(job, 0, NULL, Qnil);
  return rb_funcallv(job, rb_intern("call"), 0, NULL);
}

static void run_posted(void *arg) {
  ab_worker *w = arg;
  VALUE storage = w->storage;
  w->storage = Qnil;
  ab__scrub_inherit(storage, w->pool->fiber_class);
  ab__job_call(w->block);
  w->posted = false;
}

/* ---- what a job raises ---- */

typedef struct telling {
  VALUE on_error, exception;
} telling;

static VALUE tell(VALUE arg) {
  const telling *t = (const telling *)arg;
  return rb_funcallv(t->on_error, rb_intern("call"), 1, &t->exception);
}

int ab__post_failed(ab_pool *pool, int state) {
  telling t = {pool->on_error, rb_errinfo()};
  if (NIL_P(t.on_error) || !RTEST(rb_obj_is_kind_of(t.exception, rb_eException))) return state;
  if (ab__loop_concerns_process(t.exception)) return state;
  rb_set_errinfo(Qnil);
  rb_protect(tell, (VALUE)&t, &state);
  return state;
}

static VALUE raise_it(VALUE exception) {
  rb_exc_raise(exception);
}

void ab__post_lost(ab_pool *pool, ab_loop *loop, VALUE exception) {
  int state;
  rb_protect(raise_it, exception, &state);
  state = ab__post_failed(pool, state);
  if (!ab__loop_ended(loop, state)) rb_jump_tag(state);
}

/* ---- starting ---- */

static bool post_start(ab_pool *pool, ab_loop *loop, VALUE job) {
  VALUE storage = ab__scrub_storage(pool->words);
  ab_worker *w = ab__pool_take(pool);
  if (!w) return false;
  w->block = job;
  w->storage = storage;
  w->posted = true;
  ab__worker_run(w, loop, run_posted);
  return true;
}

static VALUE pool_post(VALUE self, VALUE job) {
  ab_pool *pool = ab_pool_of(self);
  if (!RTEST(rb_obj_is_proc(job)) && !rb_respond_to(job, rb_intern("call")))
    rb_raise(rb_eTypeError, "post: %" PRIsVALUE " has no call", rb_obj_class(job));
  ab_loop *loop = ab__pool_loop(pool);
  if (ab__ticket_waits(pool) || !post_start(pool, loop, job)) ab__ticket_post(pool, job);
  RB_GC_GUARD(self);
  RB_GC_GUARD(job);
  return Qnil;
}

void ab__init_post(VALUE klass) {
  rb_define_method(klass, "post", pool_post, 1);
}
