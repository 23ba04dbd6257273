/* The waits of a loop by their fibers, which are pinned: a table with open addressing, since
 * each wait is inserted and removed once, and looked up once or twice. */
#ifndef AB_RB_WAITERS_H
#define AB_RB_WAITERS_H

#include <ruby.h>

#include "base/base.h"
#include "base/mem.h"

struct ab_waiter;

typedef struct ab_waiters_slot {
  VALUE fiber; /* 0: free */
  struct ab_waiter *waiter;
} ab_waiters_slot;

/* All zero is an empty table. */
typedef struct ab_waiters {
  ab_waiters_slot *slots;
  size_t mask; /* their number less one; 0 before the first is put in */
  size_t count;
} ab_waiters;

void ab_waiters_fini(ab_waiters *table);
size_t ab_waiters_size(const ab_waiters *table);

/* The fiber must not be in the table. Returns AB_OK or AB_ENOMEM. */
int ab_waiters_put(ab_waiters *table, VALUE fiber, struct ab_waiter *waiter) AB_WARN_UNUSED;
/* Does nothing if it is not there. */
void ab_waiters_remove(ab_waiters *table, VALUE fiber);

static inline size_t ab_waiters_first(const ab_waiters *table, VALUE fiber) {
  uint64_t hash = (uint64_t)fiber * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 32) & table->mask;
}

/* NULL if the fiber is not there. */
static inline struct ab_waiter *ab_waiters_find(const ab_waiters *table, VALUE fiber) {
  if (table->mask == 0) return NULL;
  size_t i = ab_waiters_first(table, fiber);
  while (table->slots[i].fiber != 0) {
    if (table->slots[i].fiber == fiber) return table->slots[i].waiter;
    i = (i + 1) & table->mask;
  }
  return NULL;
}

#endif
