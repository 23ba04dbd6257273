/* Abaca::Outbox: the output queue of outbox/ as a Ruby class. It works without a server and without
 * a scheduler. Every function here needs the GVL. */
#ifndef AB_RB_OUTBOX_H
#define AB_RB_OUTBOX_H

#include <ruby.h>

#include "outbox/outbox.h"

/* Defines the class. */
void ab_init_outbox(VALUE mAbaca);

/* For code that takes bytes out of the queue itself, a server: */

/* True for an Abaca::Outbox. */
bool ab_box_is(VALUE object);
/* Its queue, from which ab_outbox_move may take all. Raises Busy if other code is taking bytes out
 * of it, IOError if a scheduled file has been closed. */
ab_outbox *ab_box_queue(VALUE outbox);
/* Call it when bytes have been taken: flush blocks are called, waiters wake. Raises what they
 * raise. */
void ab_box_moved_on(VALUE outbox);
/* Drops what is pending and closes the outbox. Raises what flush blocks raise. */
void ab_box_end(VALUE outbox);

/* Takes what is pending in the outbox; `arg` is the taker's own. `now`: hold nothing back in order
 * to gather more. May wait. */
typedef void (*ab_box_taker)(VALUE outbox, VALUE arg, bool now);

/* True if the outbox has a block that will fill it. */
bool ab_box_has_block(VALUE outbox);
/* Calls that block, once. While it runs, `take` is called when more than the high watermark is
 * pending, on flush and wait_writable, and once more after the block, when the outbox has been
 * closed. Raises what either raises. */
void ab_box_fill(VALUE outbox, ab_box_taker take, VALUE arg);

#endif
