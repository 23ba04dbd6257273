/* See rb_hold.c. */
#ifndef AB_RB_HOLD_H
#define AB_RB_HOLD_H

#include <ruby.h>

/* Adds Engine#pool_load and #pool_wait. */
void ab_init_hold(VALUE cEngine);

#endif
