/* What was found out about stalls, to be logged: in the job that finds it out no Ruby code may be
 * called. */
#include "rb/run/rb_stall_log.h"

#include "rb/rack/rb_process.h"

static VALUE write_record(VALUE arg) {
  const VALUE *argv = (const VALUE *)arg;
  return rb_funcallv(argv[0], rb_intern("call"), 4, RARRAY_CONST_PTR(argv[1]));
}

void ab_stall_log_write(ab_stalls *stalls) {
  VALUE record;
  while (!NIL_P(record = rb_ary_shift(stalls->records))) {
    VALUE argv[] = {stalls->reporter, record};
    if (!NIL_P(argv[0])) ab_quietly(write_record, (VALUE)argv);
    RB_GC_GUARD(record);
  }
}
