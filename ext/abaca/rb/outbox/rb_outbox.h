/* Abaca::Outbox: the queue of outbox/ as a Ruby class, for any program. Needs the GVL. */
#ifndef AB_RB_OUTBOX_H
#define AB_RB_OUTBOX_H

#include <ruby.h>

#include "outbox/outbox.h"

/* Defines the class. */
void ab_init_outbox(VALUE mAbaca);

/* For code that takes bytes out of the queue itself, a server: */

bool ab_box_is(VALUE object);
/* Its queue, for ab_outbox_move. Raises Busy while it is taken, IOError if a file was closed. */
ab_outbox *ab_box_queue(VALUE outbox);
/* Bytes have been taken: calls flush blocks, wakes waiters, raises what they raise. */
void ab_box_moved_on(VALUE outbox);
/* Drops what is pending and closes the outbox. Raises what flush blocks raise. */
void ab_box_end(VALUE outbox);

/* Takes what is pending; `arg` is the taker's own. `now`: without gathering more. May wait. */
typedef void (*ab_box_taker)(VALUE outbox, VALUE arg, bool now);

/* True if the outbox has a block that will fill it. */
bool ab_box_has_block(VALUE outbox);
/* Calls that block, once. Meanwhile `take` is called above the high watermark, on flush and
 * wait_writable, and once more at the end, when the outbox is closed. Raises what either raises. */
void ab_box_fill(VALUE outbox, ab_box_taker take, VALUE arg);

#endif
