/* Abaca::Exchange: see rb_handle.c. */
#ifndef AB_RB_HANDLE_H
#define AB_RB_HANDLE_H

#include <ruby.h>

void ab_init_handle(VALUE mAbaca);

#endif
