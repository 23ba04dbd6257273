/* The report itself is Ruby code: lib/abaca/fiber_pool/leak_report.rb. It is looked up only when a
 * job has left something, so a clean job pays nothing for it. */
#include "rb/pool/rb_leaks.h"

static VALUE constant(VALUE module, const char *name) {
  ID id = rb_intern(name);
  return rb_const_defined_at(module, id) ? rb_const_get_at(module, id) : Qnil;
}

/* The report if it is on, or nil. */
static VALUE report(void) {
  VALUE module = constant(rb_cObject, "Abaca");
  VALUE pool = NIL_P(module) ? Qnil : constant(module, "FiberPool");
  if (NIL_P(pool) || !RTEST(rb_attr_get(pool, rb_intern("@leak_report")))) return Qnil;
  return constant(pool, "LeakReport");
}

void ab__leaks_found(const char *kind, VALUE names, VALUE kept, VALUE job) {
  VALUE receiver = report();
  if (NIL_P(receiver)) return;
  VALUE left = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(names); i++) {
    VALUE name = RARRAY_AREF(names, i);
    if (NIL_P(kept) || rb_hash_lookup2(kept, name, Qundef) == Qundef) rb_ary_push(left, name);
  }
  rb_funcall(receiver, rb_intern("left"), 3, ID2SYM(rb_intern(kind)), left, job);
}
