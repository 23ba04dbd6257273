/* Abaca::Input, the rack.input of a request with a body: see rb_input.c. */
#ifndef AB_RB_INPUT_H
#define AB_RB_INPUT_H

#include "rb/rack/rb_call.h"

/* The Abaca::Input of a request with a body. */
VALUE ab_input_make(ab_call *call);
void ab_init_input(VALUE mAbaca);

#endif
