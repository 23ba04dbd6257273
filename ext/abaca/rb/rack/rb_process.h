/* Exceptions by what they concern: one request, or the process. */
#ifndef AB_RB_PROCESS_H
#define AB_RB_PROCESS_H

#include <ruby.h>
#include <stdbool.h>

/* Calls fn and swallows what it raises. */
void ab_quietly(VALUE (*fn)(VALUE), VALUE arg);
/* True for what is an exception, and no throw or kill. */
static inline bool ab_is_exception(VALUE errinfo) {
  return RTEST(rb_obj_is_kind_of(errinfo, rb_eException));
}
/* True for what ends the process, wherever it is raised. A NoMemoryError is no such thing in the
 * app: it has asked for more than there is, and what it held is free when it has ended. */
bool ab_is_fatal(VALUE exception);
/* Ends a forked child, which cannot raise an exception to anything, as the exception in rb_errinfo
 * says; `state` is that of rb_protect. */
NORETURN(void ab_end_child(int state));
/* The same for one that has come back from the app into the server; `state` may be 0. `exit` in it
 * ends it in order, with its at_exit blocks; everything else at once. */
NORETURN(void ab_leave_child(int state));

#endif
