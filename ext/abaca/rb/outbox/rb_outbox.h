/* Abaca::Outbox: the output queue of outbox/ as a Ruby class. It works without a server and without
 * a scheduler. Every function here needs the GVL. */
#ifndef AB_RB_OUTBOX_H
#define AB_RB_OUTBOX_H

#include <ruby.h>

/* Defines the class. */
void ab_init_outbox(VALUE mAbaca);

#endif
