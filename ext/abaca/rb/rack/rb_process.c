/* Exceptions by what they concern, and how a forked child ends: see rb_process.h. */
#include "rb/rack/rb_process.h"

#include <stdlib.h>

/* A log that raises is not worth a request. */
void ab_quietly(VALUE (*fn)(VALUE), VALUE arg) {
  int state = 0;
  rb_protect(fn, arg, &state);
  if (state) rb_set_errinfo(Qnil);
}

bool ab_is_fatal(VALUE exception) {
  return RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit)) ||
         RTEST(rb_obj_is_kind_of(exception, rb_eSignal));
}

void ab_end_child(int state) {
  /* It finds the exit's status in the exception; a status of its own would be taken for a state. */
  ruby_stop(state);
  abort();
}

static VALUE report_to_stderr(VALUE exception) {
  VALUE text = rb_funcall(exception, rb_intern("full_message"), 0);
  return rb_funcall(rb_stderr, rb_intern("write"), 1, text);
}

void ab_leave_child(int state) {
  VALUE exception = rb_errinfo();
  bool is_exception = state && ab_is_exception(exception);
  if (state && (!is_exception || RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit)))) {
    rb_jump_tag(state);
  }
  if (is_exception) {
    ab_quietly(report_to_stderr, exception);
  } else {
    rb_warn("a forked child came back from the app into the server: it ends here");
  }
  rb_funcall(rb_mProcess, rb_intern("exit!"), 1, state ? Qfalse : Qtrue);
  abort();
}
