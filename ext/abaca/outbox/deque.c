/* Growth. Items move to the front only if at least half of the slots before them are free, else
 * the array doubles: each item moves O(1) times on average. */
#include "outbox/deque.h"

#include <string.h>

#include "base/bits.h"

static int grow(ab__deque *deque, const ab_mem *mem, size_t size, void *own_items,
                uint32_t needed) {
  uint32_t capacity = deque->capacity;
  while (capacity < needed)
    if (__builtin_mul_overflow(capacity, (uint32_t)2, &capacity)) return AB_ENOMEM;
  size_t bytes;
  if (!ab_mul_size(capacity, size, &bytes)) return AB_ENOMEM;
  void *items = ab_alloc(mem, bytes);
  if (!items) return AB_ENOMEM;

  uint32_t count = ab__deque_count(deque);
  memcpy(items, (char *)deque->items + deque->front * size, count * size);
  if (deque->items != own_items) ab_free(mem, deque->items);
  *deque = (ab__deque){.items = items, .back = count, .capacity = capacity};
  return AB_OK;
}

static void move_to_front(ab__deque *deque, size_t size) {
  uint32_t count = ab__deque_count(deque);
  memmove(deque->items, (char *)deque->items + deque->front * size, count * size);
  deque->front = 0;
  deque->back = count;
}

int ab__deque_make_room(ab__deque *deque, const ab_mem *mem, size_t size, void *own_items,
                        uint32_t count) {
  uint32_t needed;
  if (__builtin_add_overflow(ab__deque_count(deque), count, &needed)) return AB_ENOMEM;
  bool fits = needed <= deque->capacity;
  if (!fits || deque->front < deque->capacity / 2) {
    uint32_t capacity = fits ? deque->capacity + 1 : needed;
    if (grow(deque, mem, size, own_items, capacity) == AB_OK) return AB_OK;
    if (!fits) return AB_ENOMEM;
  }
  /* Without memory to grow into, an early move is better than an error. */
  move_to_front(deque, size);
  return AB_OK;
}

void ab__deque_trim(ab__deque *deque, const ab_mem *mem, void *own_items, uint32_t own_capacity,
                    uint32_t keep) {
  if (deque->items == own_items || deque->capacity <= keep) return;
  ab_free(mem, deque->items);
  ab__deque_init(deque, own_items, own_capacity);
}
