/* Shares Ruby's lock. A thread that always has something to do keeps the lock for Ruby's quantum of
 * 100 ms, even if others need it only briefly. So such a thread gives way where it can afford to.
 * Since it may wait long to get the lock back, where others compute, it then keeps the lock for as
 * long as it waited, up to a millisecond.
 */
#ifndef AB_RB_SHARE_H
#define AB_RB_SHARE_H

#include "io/timer.h"

typedef struct ab_share {
  ab_nsec until; /* it need not give way before that */
} ab_share;

/* The thread has the lock, which it has waited for since then. */
void ab_share_waited(ab_share *share, ab_nsec since);
/* Lets waiting threads have the lock first, if it is time to. Returns the state of rb_protect: an
 * interrupt may raise. */
int ab_share_give_way(ab_share *share);

#endif
