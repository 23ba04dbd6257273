/* env["abaca.deadline"]: see rb_deadline.c. */
#ifndef AB_RB_DEADLINE_H
#define AB_RB_DEADLINE_H

#include <ruby.h>

#include "io/timer.h"

/* Seconds as a time; those that no clock counts are very long. Raises ArgumentError for what is not
 * above zero, TypeError; `what` is for the message. */
ab_nsec ab_seconds(VALUE seconds, const char *what);
/* What env["abaca.deadline"] can do. */
void ab_init_deadline(VALUE cExchange);

#endif
