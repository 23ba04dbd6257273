/* A 4-ary heap: four children share one or two cache lines, and the tree is half as high as a
 * binary one. The key is (deadline, sequence): no two entries are equal and the order is stable.
 * Invariants: entries[i].node->index == i; no entry sorts before its parent. */
#include "base/bits.h"
#include "io/timer.h"

#define ARITY             4u
#define HEAP_MIN_CAPACITY 16u

void ab_heap_init(ab_heap *heap, const ab_mem *mem) {
  *heap = (ab_heap){.mem = mem};
}

void ab_heap_fini(ab_heap *heap) {
  ab_free(heap->mem, heap->entries);
  *heap = (ab_heap){.mem = heap->mem};
}

static bool before(const ab_heap_entry *a, const ab_heap_entry *b) {
  return a->deadline != b->deadline ? a->deadline < b->deadline : a->sequence < b->sequence;
}

static void place(ab_heap *heap, uint32_t index, ab_heap_entry entry) {
  heap->entries[index] = entry;
  entry.node->index = index;
}

static void sift_up(ab_heap *heap, uint32_t index, ab_heap_entry entry) {
  while (index > 0) {
    uint32_t parent = (index - 1) / ARITY;
    if (!before(&entry, &heap->entries[parent])) break;
    place(heap, index, heap->entries[parent]);
    index = parent;
  }
  place(heap, index, entry);
}

/* The smallest child of `index`, or count when it has none. */
static uint32_t smallest_child(const ab_heap *heap, uint32_t index) {
  uint64_t first = (uint64_t)index * ARITY + 1;
  if (first >= heap->count) return heap->count;
  uint64_t end = first + ARITY < heap->count ? first + ARITY : heap->count;
  uint32_t best = (uint32_t)first;
  for (uint32_t child = best + 1; child < end; child++)
    if (before(&heap->entries[child], &heap->entries[best])) best = child;
  return best;
}

static void sift_down(ab_heap *heap, uint32_t index, ab_heap_entry entry) {
  for (;;) {
    uint32_t child = smallest_child(heap, index);
    if (child == heap->count || !before(&heap->entries[child], &entry)) break;
    place(heap, index, heap->entries[child]);
    index = child;
  }
  place(heap, index, entry);
}

/* Fills the hole at `index` with an entry that may belong above or below it. */
static void sift(ab_heap *heap, uint32_t index, ab_heap_entry entry) {
  if (index > 0 && before(&entry, &heap->entries[(index - 1) / ARITY]))
    sift_up(heap, index, entry);
  else
    sift_down(heap, index, entry);
}

static int heap_grow(ab_heap *heap) {
  if (heap->capacity > UINT32_MAX / 2) return AB_ENOMEM;
  uint32_t capacity = heap->capacity ? heap->capacity * 2 : HEAP_MIN_CAPACITY;
  size_t size;
  if (!ab_mul_size(capacity, sizeof(ab_heap_entry), &size)) return AB_ENOMEM;
  ab_heap_entry *entries = ab_realloc(heap->mem, heap->entries, size);
  if (!entries) return AB_ENOMEM;
  heap->entries = entries;
  heap->capacity = capacity;
  return AB_OK;
}

int ab_heap_arm(ab_heap *heap, ab_heap_node *node, ab_nsec deadline) {
  if (!ab_heap_armed(node)) {
    if (heap->count == heap->capacity && heap_grow(heap) != AB_OK) return AB_ENOMEM;
    node->deadline = deadline;
    sift_up(heap, heap->count++, (ab_heap_entry){deadline, heap->sequence++, node});
    return AB_OK;
  }
  node->deadline = deadline;
  sift(heap, node->index, (ab_heap_entry){deadline, heap->sequence++, node});
  return AB_OK;
}

void ab_heap_cancel(ab_heap *heap, ab_heap_node *node) {
  if (!ab_heap_armed(node)) return;
  uint32_t index = node->index;
  node->index = AB_HEAP_NONE;
  ab_heap_entry last = heap->entries[--heap->count];
  if (index < heap->count) sift(heap, index, last);
}

ab_nsec ab_heap_deadline(const ab_heap *heap) {
  if (heap->count == 0) return 0;
  /* 0 would mean that nothing is armed; a time in the past is as good as any other. */
  return heap->entries[0].deadline ? heap->entries[0].deadline : 1;
}

ab_heap_node *ab_heap_due(ab_heap *heap, ab_nsec now) {
  if (heap->count == 0 || heap->entries[0].deadline > now) return NULL;
  ab_heap_node *node = heap->entries[0].node;
  ab_heap_cancel(heap, node);
  return node;
}
