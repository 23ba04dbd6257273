/* A double-ended array: pushed at the back, taken from the front. It starts in its owner's
 * memory, and moves to the heap when it grows. The owner knows the type of the items. */
#ifndef AB_OUTBOX_DEQUE_H
#define AB_OUTBOX_DEQUE_H

#include "base/base.h"
#include "base/mem.h"

typedef struct ab__deque {
  void *items;
  uint32_t front, back; /* items[front .. back - 1] are in use */
  uint32_t capacity;
} ab__deque;

/* An empty deque in `items`, which has room for `capacity` of them and stays the caller's. */
static inline void ab__deque_init(ab__deque *deque, void *items, uint32_t capacity) {
  *deque = (ab__deque){.items = items, .capacity = capacity};
}

static inline uint32_t ab__deque_count(const ab__deque *deque) {
  return deque->back - deque->front;
}

/* Room for `count` more items; `own_items` as in ab__deque_init. AB_OK or AB_ENOMEM. */
int ab__deque_make_room(ab__deque *deque, const ab_mem *mem, size_t size, void *own_items,
                        uint32_t count) AB_WARN_UNUSED;

/* ab__deque_make_room, with the usual case inline. */
static inline int ab__deque_ensure(ab__deque *deque, const ab_mem *mem, size_t size,
                                   void *own_items, uint32_t count) {
  if (AB_LIKELY(deque->capacity - deque->back >= count)) return AB_OK;
  return ab__deque_make_room(deque, mem, size, own_items, count);
}

/* Forgets the first item. An empty deque starts again at its first slot. */
static inline void ab__deque_drop_front(ab__deque *deque) {
  deque->front++;
  if (deque->front == deque->back) deque->front = deque->back = 0;
}

static inline void ab__deque_drop_back(ab__deque *deque) {
  deque->back--;
  if (deque->front == deque->back) deque->front = deque->back = 0;
}

/* Frees heap memory if there are more than `keep` slots; the deque must be empty. */
void ab__deque_trim(ab__deque *deque, const ab_mem *mem, void *own_items, uint32_t own_capacity,
                    uint32_t keep);

#endif
