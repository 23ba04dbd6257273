/* Something to be done on a loop's root fiber at a time, without keeping the loop running for it.
 */
#ifndef AB_RB_CHORE_H
#define AB_RB_CHORE_H

#include "rb/scheduler/rb_scheduler.h"

typedef struct ab_chore {
  ab_timeout timeout;
  ab_loop *loop; /* while it is armed */
  void (*run)(struct ab_chore *chore, ab_nsec now);
} ab_chore;

void ab_chore_init(ab_chore *chore, void (*run)(ab_chore *chore, ab_nsec now));

/* Arms it; an armed one stays as it is. `owner`, the object that the chore lives in, is kept alive
 * until it has run or is cancelled. Raises NoMemoryError. */
void ab_chore_arm(ab_chore *chore, ab_loop *loop, VALUE owner, ab_nsec deadline);
/* Idempotent. */
void ab_chore_cancel(ab_chore *chore);

static inline bool ab_chore_armed(const ab_chore *chore) {
  return chore->loop != NULL;
}

/* For chores that are not functions of ours: keeps `owner` alive for as long as the loop lives, or
 * until `key` is dropped. */
void ab_chore_keep(ab_loop *loop, const void *key, VALUE owner);
void ab_chore_drop(ab_loop *loop, const void *key);

#endif
