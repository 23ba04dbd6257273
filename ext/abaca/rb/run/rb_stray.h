/* Exceptions that nothing in a run is meant to get: see rb_stray.c. */
#ifndef AB_RB_STRAY_H
#define AB_RB_STRAY_H

#include "rb/run/rb_run.h"

/* Calls fn, again while a stray exception comes out of it. All other exceptions go on. */
void ab_stray_guard(ab_run *run, VALUE (*fn)(VALUE), VALUE arg);
/* Raises an exception that ends the run, whatever it is. */
NORETURN(void ab_stray_end_run(ab_run *run, VALUE exception));

#endif
