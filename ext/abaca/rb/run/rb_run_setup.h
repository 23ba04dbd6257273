/* The life of what runs requests: made, told its options, marked and freed. */
#ifndef AB_RB_RUN_SETUP_H
#define AB_RB_RUN_SETUP_H

#include "rb/run/rb_run.h"

/* Of the engine object `self`, in memory that is zero. */
void ab_run_init(ab_run *run, VALUE self);
/* Takes what Engine.new was given, beside its Rack side's options, when the engine is there. Raises
 * ArgumentError, TypeError, NoMemoryError. */
void ab_run_configure(ab_run *run, VALUE options);
void ab_run_mark(ab_run *run);
/* All but the engine, which is freed before. */
void ab_run_fini(ab_run *run);

#endif
