/* The table of waits. At most half of its slots are taken; it never shrinks. */
#include "rb/scheduler/rb_waiters.h"

#include "base/bits.h"

#define MIN_SLOTS 64

void ab_waiters_fini(ab_waiters *table) {
  ab_free(&ab_mem_libc, table->slots);
  *table = (ab_waiters){0};
}

size_t ab_waiters_size(const ab_waiters *table) {
  return table->mask == 0 ? 0 : (table->mask + 1) * sizeof *table->slots;
}

static void insert(ab_waiters *table, VALUE fiber, struct ab_waiter *waiter) {
  size_t i = ab_waiters_first(table, fiber);
  while (table->slots[i].fiber != 0) i = (i + 1) & table->mask;
  table->slots[i] = (ab_waiters_slot){fiber, waiter};
}

static int grow(ab_waiters *table) {
  size_t count = table->mask == 0 ? MIN_SLOTS : (table->mask + 1) * 2, size;
  if (!ab_mul_size(count, sizeof *table->slots, &size)) return AB_ENOMEM;
  ab_waiters grown = {.slots = ab_alloc_zero(&ab_mem_libc, size), .mask = count - 1};
  if (!grown.slots) return AB_ENOMEM;
  for (size_t i = 0; table->mask != 0 && i <= table->mask; i++)
    if (table->slots[i].fiber != 0) insert(&grown, table->slots[i].fiber, table->slots[i].waiter);
  grown.count = table->count;
  ab_free(&ab_mem_libc, table->slots);
  *table = grown;
  return AB_OK;
}

int ab_waiters_put(ab_waiters *table, VALUE fiber, struct ab_waiter *waiter) {
  if (table->mask == 0 || table->count >= table->mask / 2) {
    int err = grow(table);
    if (err != AB_OK) return err;
  }
  insert(table, fiber, waiter);
  table->count++;
  return AB_OK;
}

/* May the entry at `from`, whose search begins at `start`, move back to the gap? */
static bool may_fill(size_t gap, size_t from, size_t start, size_t mask) {
  return ((from - start) & mask) >= ((from - gap) & mask);
}

void ab_waiters_remove(ab_waiters *table, VALUE fiber) {
  if (table->mask == 0) return;
  size_t gap = ab_waiters_first(table, fiber);
  while (table->slots[gap].fiber != fiber) {
    if (table->slots[gap].fiber == 0) return;
    gap = (gap + 1) & table->mask;
  }
  /* Those behind it move up, so that no search stops at the gap. */
  for (size_t i = (gap + 1) & table->mask; table->slots[i].fiber != 0; i = (i + 1) & table->mask) {
    size_t start = ab_waiters_first(table, table->slots[i].fiber);
    if (!may_fill(gap, i, start, table->mask)) continue;
    table->slots[gap] = table->slots[i];
    gap = i;
  }
  table->slots[gap].fiber = 0;
  table->count--;
}
