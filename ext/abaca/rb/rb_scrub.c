/* Scrubbing: what Ruby code can leave on a fiber is found and taken off, or put back to what it was
 * when the fiber had not had a job yet. */
#include "rb/rb_scrub.h"

#include "base/base.h"
#include "rb/rb_leaks.h"

enum { LOCALS, VARIABLES, STORAGE, PARTS };

static VALUE part_of(VALUE baseline, int part) {
  return NIL_P(baseline) ? Qnil : RARRAY_AREF(baseline, part);
}

static long size_of(VALUE hash) {
  return NIL_P(hash) ? 0 : (long)RHASH_SIZE(hash);
}

static bool keeps(VALUE hash, VALUE key) {
  return !NIL_P(hash) && rb_hash_lookup2(hash, key, Qundef) != Qundef;
}

/* --- fiber-locals --- */

static VALUE local_keys(VALUE thread) {
  return rb_funcall(thread, rb_intern("keys"), 0);
}

static int put_local(VALUE key, VALUE value, VALUE thread) {
  rb_thread_local_aset(thread, SYM2ID(key), value);
  return ST_CONTINUE;
}

static void scrub_locals(VALUE kept, VALUE job) {
  VALUE thread = rb_thread_current(), keys = local_keys(thread);
  if (AB_LIKELY(RARRAY_LEN(keys) == 0 && NIL_P(kept))) return;
  ab__leaks_found("local", keys, kept, job);
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    VALUE key = RARRAY_AREF(keys, i);
    if (!keeps(kept, key)) put_local(key, Qnil, thread);
  }
  if (!NIL_P(kept)) rb_hash_foreach(kept, put_local, thread);
}

/* --- instance variables --- */

static int put_variable(VALUE name, VALUE value, VALUE fiber) {
  rb_ivar_set(fiber, SYM2ID(name), value);
  return ST_CONTINUE;
}

static bool scrub_variables(VALUE fiber, VALUE kept, VALUE job) {
  if (AB_LIKELY(rb_ivar_count(fiber) == 0 && NIL_P(kept))) return true;
  VALUE names = rb_obj_instance_variables(fiber);
  ab__leaks_found("variable", names, kept, job);
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    VALUE name = RARRAY_AREF(names, i);
    if (!keeps(kept, name)) rb_obj_remove_instance_variable(fiber, name);
  }
  if (!NIL_P(kept)) rb_hash_foreach(kept, put_variable, fiber);
  /* The count may still include removed ones (Ruby 3.3). */
  return RARRAY_LEN(rb_obj_instance_variables(fiber)) == size_of(kept);
}

/* --- storage --- */

#ifdef HAVE_RB_FIBER_NEW_STORAGE
static VALUE storage_of(VALUE fiber) {
  return rb_funcall(fiber, rb_intern("storage"), 0);
}

static int put_stored(VALUE key, VALUE value, VALUE klass) {
  rb_funcall(klass, rb_intern("[]="), 2, key, value);
  return ST_CONTINUE;
}

static bool scrub_storage(VALUE fiber, VALUE kept, VALUE job) {
  VALUE storage = storage_of(fiber);
  if (size_of(storage) == 0 && NIL_P(kept)) return true;
  VALUE klass = rb_path2class("Fiber");
  if (!NIL_P(storage)) {
    VALUE names = rb_funcall(storage, rb_intern("keys"), 0);
    ab__leaks_found("storage", names, kept, job);
    for (long i = 0; i < RARRAY_LEN(names); i++) {
      VALUE name = RARRAY_AREF(names, i);
      if (!keeps(kept, name)) put_stored(name, Qnil, klass);
    }
  }
  if (!NIL_P(kept)) rb_hash_foreach(kept, put_stored, klass);
  /* A key that stays (Ruby 3.2 keeps them with nil) is not clean enough. */
  return size_of(storage_of(fiber)) == size_of(kept);
}
#endif

/* --- both ways --- */

static VALUE nil_if_empty(VALUE hash) {
  return size_of(hash) == 0 ? Qnil : hash;
}

VALUE ab__scrub_baseline(VALUE fiber) {
  VALUE thread = rb_thread_current(), keys = local_keys(thread), locals = rb_hash_new();
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    VALUE key = RARRAY_AREF(keys, i);
    rb_hash_aset(locals, key, rb_thread_local_aref(thread, SYM2ID(key)));
  }
  VALUE names = rb_obj_instance_variables(fiber), variables = rb_hash_new(), stored = Qnil;
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    VALUE name = RARRAY_AREF(names, i);
    rb_hash_aset(variables, name, rb_ivar_get(fiber, SYM2ID(name)));
  }
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  stored = storage_of(fiber);
#endif
  return rb_ary_new_from_args(PARTS, nil_if_empty(locals), nil_if_empty(variables),
                              nil_if_empty(stored));
}

/* Instance variables come last: the leak report has its notes in one. */
VALUE ab__scrub_job(VALUE fiber, VALUE baseline, VALUE job) {
  scrub_locals(part_of(baseline, LOCALS), job);
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  if (!scrub_storage(fiber, part_of(baseline, STORAGE), job)) return Qfalse;
#endif
  if (!scrub_variables(fiber, part_of(baseline, VARIABLES), job)) return Qfalse;
  RB_GC_GUARD(baseline);
  return Qtrue;
}

VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline) {
  return ab__scrub_job(fiber, baseline, Qnil);
}
