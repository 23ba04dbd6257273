/* Sharing Ruby's lock. A thread that always has something to do keeps it for Ruby's quantum of
 * 100 ms, whoever waits for it with something short. So such a thread gives way where it can bear
 * to; and since it may be long before it has the lock again, where others compute, it keeps the
 * lock then for as long as that took, up to a millisecond.
 */
#ifndef AB_RB_SHARE_H
#define AB_RB_SHARE_H

#include "io/timer.h"

typedef struct ab_share {
  ab_nsec until; /* it need not give way before that */
} ab_share;

/* The thread has the lock, which it has waited for since then. */
void ab_share_waited(ab_share *share, ab_nsec since);
/* Lets those have the lock first that wait for it, if it is time to. Returns the state of
 * rb_protect: an interrupt may raise. */
int ab_share_give_way(ab_share *share);

#endif
