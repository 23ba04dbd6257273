/* Shares Ruby's lock. A thread that is always busy keeps it for Ruby's quantum of 100 ms. So it
 * gives way where it can afford to, and then keeps the lock for as long as it waited, up to a
 * millisecond. */
#ifndef AB_RB_SHARE_H
#define AB_RB_SHARE_H

#include "io/timer.h"

typedef struct ab_share {
  ab_nsec until; /* it need not give way before that */
} ab_share;

void ab_share_waited(ab_share *share, ab_nsec since);
/* Lets waiting threads have the lock if it is time to. Returns rb_protect's state. */
int ab_share_give_way(ab_share *share);

#endif
