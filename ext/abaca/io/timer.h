/* - ab_heap: exact deadlines. Arm and cancel in O(log n), next deadline in O(1).
 * - ab_wheel: coarse deadlines, which are nearly always moved or cancelled. Arm and cancel in O(1).
 * Neither reads a clock: the time is an argument. Nodes are embedded in their owners. */
#ifndef AB_IO_TIMER_H
#define AB_IO_TIMER_H

#include "base/base.h"
#include "base/list.h"
#include "base/mem.h"

#define AB_HEAP_NONE UINT32_MAX

typedef struct ab_heap_node {
  ab_nsec deadline;
  uint32_t index; /* in the heap; AB_HEAP_NONE when not armed */
} ab_heap_node;

/* Entries hold the deadline beside the pointer, so that sifting stays in one array. */
typedef struct ab_heap_entry {
  ab_nsec deadline;
  uint64_t sequence; /* equal deadlines fire in the order in which they were armed */
  ab_heap_node *node;
} ab_heap_entry;

typedef struct ab_heap {
  const ab_mem *mem;
  ab_heap_entry *entries;
  uint32_t count, capacity;
  uint64_t sequence;
} ab_heap;

void ab_heap_init(ab_heap *heap, const ab_mem *mem);
/* Armed nodes are forgotten, not touched. */
void ab_heap_fini(ab_heap *heap);
/* A node must be initialised before its first use; armed ones must not be. */
static inline void ab_heap_node_init(ab_heap_node *node) {
  node->deadline = 0;
  node->index = AB_HEAP_NONE;
}
static inline bool ab_heap_armed(const ab_heap_node *node) {
  return node->index != AB_HEAP_NONE;
}
/* Arms, or moves an armed node, which cannot fail. Returns AB_OK or AB_ENOMEM. */
int ab_heap_arm(ab_heap *heap, ab_heap_node *node, ab_nsec deadline) AB_WARN_UNUSED;
/* Idempotent. */
void ab_heap_cancel(ab_heap *heap, ab_heap_node *node);
/* The earliest deadline, or 0 if nothing is armed. */
ab_nsec ab_heap_deadline(const ab_heap *heap);
/* Takes the earliest node off if its deadline is <= now; NULL if none is due. */
ab_heap_node *ab_heap_due(ab_heap *heap, ab_nsec now);

#define AB_WHEEL_SLOTS 512
#define AB_WHEEL_TICK  (250 * AB_NSEC_PER_MS) /* precision; a round takes 128 s */

typedef struct ab_wheel_node {
  ab_list link;
  ab_nsec deadline;
} ab_wheel_node;

typedef struct ab_wheel {
  uint64_t tick;                          /* up to this tick nodes were taken out of the slots */
  uint32_t count;                         /* armed nodes */
  ab_list due;                            /* taken out of the slots, and not yet handed out */
  uint64_t occupied[AB_WHEEL_SLOTS / 64]; /* one bit for each slot that has members */
  ab_list slots[AB_WHEEL_SLOTS];
} ab_wheel;

void ab_wheel_init(ab_wheel *wheel, ab_nsec now);
/* Armed nodes are unlinked. */
void ab_wheel_fini(ab_wheel *wheel);
void ab_wheel_node_init(ab_wheel_node *node);
static inline bool ab_wheel_armed(const ab_wheel_node *node) {
  return !ab_list_empty(&node->link);
}
/* Arms, or moves an armed node. It comes out at the first tick that is not before its deadline, and
 * never at a tick that has been handed out already: a past deadline comes out at the next tick. A
 * deadline further away than a round is kept for later rounds. */
void ab_wheel_arm(ab_wheel *wheel, ab_wheel_node *node, ab_nsec deadline);
void ab_wheel_cancel(ab_wheel *wheel, ab_wheel_node *node);
/* The time of the next tick at which a node may be due (it may turn out to be early when the node
 * is of a later round), or 0 when nothing is armed. */
ab_nsec ab_wheel_deadline(const ab_wheel *wheel);
/* Takes a node that is due off the wheel; NULL if there is none up to `now`. */
ab_wheel_node *ab_wheel_due(ab_wheel *wheel, ab_nsec now);

/* CLOCK_MONOTONIC, in nanoseconds. */
ab_nsec ab_clock_monotonic(void);
/* CLOCK_REALTIME_COARSE, in seconds since 1970. */
int64_t ab_clock_unix(void);
/* The same in nanoseconds; 0 before 1970. */
ab_nsec ab_clock_unix_nsec(void);

#endif
