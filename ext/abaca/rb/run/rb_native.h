/* The usual executor: see rb_native.c. */
#ifndef AB_RB_NATIVE_H
#define AB_RB_NATIVE_H

#include "rb/run/rb_run.h"

extern const ab_executor ab_executor_native;

/* Lets a fiber of the pool that has ended a request within a dispatch go on with the next one. */
void ab_native_begin(ab_driver *driver);
void ab_native_end(ab_driver *driver);

#endif
