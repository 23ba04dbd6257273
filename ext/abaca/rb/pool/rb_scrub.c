/* Scrubbing: removes what Ruby code can leave on a fiber, or restores what was there before. */
#include "rb/pool/rb_scrub.h"

#include <ruby/version.h>

#include "base/base.h"
#include "rb/scheduler/rb_scheduler.h"

enum { LOCALS, VARIABLES, STORAGE, PARTS };

static VALUE part_of(VALUE baseline, int part) {
  return NIL_P(baseline) ? Qnil : RARRAY_AREF(baseline, part);
}

static long scrub_size_of(VALUE hash) {
  return NIL_P(hash) ? 0 : (long)RHASH_SIZE(hash);
}

static bool keeps(VALUE hash, VALUE key) {
  return !NIL_P(hash) && rb_hash_lookup2(hash, key, Qundef) != Qundef;
}

/* --- the leak report --- */

static VALUE constant(VALUE module, const char *name) {
  ID id = rb_intern(name);
  return rb_const_defined_at(module, id) ? rb_const_get_at(module, id) : Qnil;
}

/* lib/abaca/fiber_pool/leak_report.rb, if it is on, or nil. A clean job pays nothing for it. */
static VALUE leak_report(void) {
  VALUE module = constant(rb_cObject, "Abaca");
  VALUE pool = NIL_P(module) ? Qnil : constant(module, "FiberPool");
  if (NIL_P(pool) || !RTEST(rb_attr_get(pool, rb_intern("@leak_report")))) return Qnil;
  return constant(pool, "LeakReport");
}

/* Reports `names`, found on the current fiber after `job` (or nil), except those in `kept`. */
static void report_leaks(const char *kind, VALUE names, VALUE kept, VALUE job) {
  VALUE receiver = leak_report();
  if (NIL_P(receiver)) return;
  VALUE left = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    VALUE name = RARRAY_AREF(names, i);
    if (!keeps(kept, name)) rb_ary_push(left, name);
  }
  rb_funcall(receiver, rb_intern("left"), 3, ID2SYM(rb_intern(kind)), left, job);
}

/* --- one part --- */

/* Sets a key's value on `holder`; Qundef removes it. */
typedef int set_key(VALUE key, VALUE value, VALUE holder);

/* Removes `keys`, which are on the current fiber, except those in `kept`, which get their values.
 */
static void scrub_part(const char *kind, VALUE keys, VALUE kept, VALUE job, set_key *set,
                       VALUE holder) {
  report_leaks(kind, keys, kept, job);
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    VALUE key = RARRAY_AREF(keys, i);
    if (!keeps(kept, key)) set(key, Qundef, holder);
  }
  if (!NIL_P(kept)) rb_hash_foreach(kept, set, holder);
}

/* --- fiber-locals --- */

static VALUE local_keys(VALUE thread) {
  return rb_funcall(thread, rb_intern("keys"), 0);
}

static int set_local(VALUE key, VALUE value, VALUE thread) {
  rb_thread_local_aset(thread, SYM2ID(key), value == Qundef ? Qnil : value);
  return ST_CONTINUE;
}

static void scrub_locals(VALUE kept, VALUE job) {
  VALUE thread = rb_thread_current(), keys = local_keys(thread);
  if (AB_LIKELY(RARRAY_LEN(keys) == 0 && NIL_P(kept))) return;
  scrub_part("local", keys, kept, job, set_local, thread);
}

/* --- instance variables --- */

static int set_variable(VALUE name, VALUE value, VALUE fiber) {
  if (value == Qundef)
    rb_obj_remove_instance_variable(fiber, name);
  else
    rb_ivar_set(fiber, SYM2ID(name), value);
  return ST_CONTINUE;
}

static bool scrub_variables(VALUE fiber, VALUE kept, VALUE job) {
  if (AB_LIKELY(rb_ivar_count(fiber) == 0 && NIL_P(kept))) return true;
  scrub_part("variable", rb_obj_instance_variables(fiber), kept, job, set_variable, fiber);
  /* The count may still include removed ones (Ruby 3.3). */
  return RARRAY_LEN(rb_obj_instance_variables(fiber)) == scrub_size_of(kept);
}

/* --- storage --- */

#ifdef HAVE_RB_FIBER_NEW_STORAGE
static VALUE storage_of(VALUE fiber) {
  return rb_funcall(fiber, rb_intern("storage"), 0);
}

static int set_stored(VALUE key, VALUE value, VALUE klass) {
  rb_funcall(klass, rb_intern("[]="), 2, key, value == Qundef ? Qnil : value);
  return ST_CONTINUE;
}

static bool scrub_storage(VALUE fiber, VALUE kept, VALUE job) {
  VALUE storage = storage_of(fiber);
  if (scrub_size_of(storage) == 0 && NIL_P(kept)) return true;
  VALUE keys = NIL_P(storage) ? rb_ary_new() : rb_funcall(storage, rb_intern("keys"), 0);
  scrub_part("storage", keys, kept, job, set_stored, rb_path2class("Fiber"));
  /* A key that stays (Ruby 3.2 keeps them with nil) is not clean enough. */
  return scrub_size_of(storage_of(fiber)) == scrub_size_of(kept);
}
#endif

/* --- both ways --- */

static VALUE nil_if_empty(VALUE hash) {
  return scrub_size_of(hash) == 0 ? Qnil : hash;
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
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline) {
  scrub_locals(part_of(baseline, LOCALS), Qnil);
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  if (!scrub_storage(fiber, part_of(baseline, STORAGE), Qnil)) return Qfalse;
#endif
  if (!scrub_variables(fiber, part_of(baseline, VARIABLES), Qnil)) return Qfalse;
  RB_GC_GUARD(baseline);
  return Qtrue;
}

/* --- the words of a fiber --- */

/* The only word that was `empty` and is not any more; 0 if there is none, or more than one. */
static uint16_t filled(VALUE fiber, const VALUE *before, size_t count, VALUE empty) {
  const VALUE *words = ab__fiber_words(fiber);
  uint16_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (before[i] != empty || words[i] == empty) continue;
    if (found) return 0;
    found = (uint16_t)i;
  }
  return found;
}

static VALUE learn(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data)) {
  ab_fiber_words *known = (ab_fiber_words *)data;
  VALUE fiber = rb_fiber_current(), before[AB_FIBER_WORDS_MAX];
  ID name = rb_intern("abaca");
  size_t count = ab__fiber_word_count(fiber);
  MEMCPY(before, ab__fiber_words(fiber), VALUE, count);
  rb_thread_local_aset(rb_thread_current(), name, Qtrue);
  known->locals = filled(fiber, before, count, 0);
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  MEMCPY(before, ab__fiber_words(fiber), VALUE, count);
  set_stored(ID2SYM(name), Qtrue, rb_path2class("Fiber"));
  known->storage = filled(fiber, before, count, Qnil);
#endif
  return Qnil;
}

/* A word filled by chance would hide what a request leaves: two fibers must agree. */
static VALUE run_learn(VALUE arg) {
  ab_fiber_words *known = (ab_fiber_words *)arg, again = {0};
  ab__fiber_run(learn, (VALUE)known);
  ab__fiber_run(learn, (VALUE)&again);
  if (known->locals != again.locals) known->locals = 0;
  if (known->storage != again.storage) known->storage = 0;
  return Qnil;
}

int ab__scrub_learn(ab_fiber_words *words) {
  int state;
  rb_protect(run_learn, (VALUE)words, &state);
  if (AB_LIKELY(state == 0)) return 0;
  *words = (ab_fiber_words){0};
  if (!rb_obj_is_kind_of(rb_errinfo(), rb_path2class("FiberError"))) return state;
  rb_set_errinfo(Qnil);
  return 0;
}

static bool is_empty(VALUE fiber, uint16_t word, VALUE empty) {
  return AB_LIKELY(word != 0) && AB_LIKELY(ab__fiber_words(fiber)[word] == empty);
}

/* --- the pool's --- */

bool ab__scrub_job(VALUE fiber, ab_fiber_words words, VALUE job) {
  if (!is_empty(fiber, words.locals, 0)) scrub_locals(Qnil, job);
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  if (!is_empty(fiber, words.storage, Qnil) && !scrub_storage(fiber, Qnil, job)) return false;
#endif
  return scrub_variables(fiber, Qnil, job);
}

VALUE ab__scrub_storage(ab_fiber_words words) {
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  VALUE fiber = rb_fiber_current();
  return is_empty(fiber, words.storage, Qnil) ? Qnil : nil_if_empty(storage_of(fiber));
#else
  return Qnil;
#endif
}

void ab__scrub_inherit(VALUE storage, VALUE fiber_class) {
#ifdef HAVE_RB_FIBER_NEW_STORAGE
  if (AB_UNLIKELY(!NIL_P(storage))) rb_hash_foreach(storage, set_stored, fiber_class);
#endif
}
