/* A node lies in the slot of the tick at which it is due, modulo the number of slots; nodes of
 * later rounds stay where they are when their slot comes by.
 * Invariants: a bit of `occupied` is set exactly when its slot has members; a node in a slot is due
 * after `tick`, or was past already when it was armed and lies in the slot that came next then;
 * `count` counts the members of all slots and of `due`. */
#include "io/timer.h"

static uint64_t tick_of(ab_nsec deadline) {
  return deadline / AB_WHEEL_TICK + (deadline % AB_WHEEL_TICK != 0);
}

void ab_wheel_init(ab_wheel *wheel, ab_nsec now) {
  *wheel = (ab_wheel){.tick = now / AB_WHEEL_TICK};
  ab_list_init(&wheel->due);
  for (size_t i = 0; i < AB_WHEEL_SLOTS; i++) ab_list_init(&wheel->slots[i]);
}

void ab_wheel_fini(ab_wheel *wheel) {
  while (ab_list_shift(&wheel->due)) {
  }
  for (size_t i = 0; i < AB_WHEEL_SLOTS; i++)
    while (ab_list_shift(&wheel->slots[i])) {
    }
  for (size_t i = 0; i < AB_ARRAY_LEN(wheel->occupied); i++) wheel->occupied[i] = 0;
  wheel->count = 0;
}

void ab_wheel_node_init(ab_wheel_node *node) {
  ab_list_init(&node->link);
  node->deadline = 0;
}

static void mark(ab_wheel *wheel, size_t slot) {
  wheel->occupied[slot / 64] |= (uint64_t)1 << (slot % 64);
}

static void unmark(ab_wheel *wheel, size_t slot) {
  wheel->occupied[slot / 64] &= ~((uint64_t)1 << (slot % 64));
}

static void unlink_node(ab_wheel *wheel, ab_wheel_node *node) {
  ab_list *head = node->link.next;
  bool last = head == node->link.prev;
  ab_list_remove(&node->link);
  wheel->count--;
  /* The neighbour of a slot's last member is the head of the list, and its place in the array is
   * the slot's number, so a node need not store its slot. The list of due nodes lies outside the
   * array. */
  uintptr_t offset = (uintptr_t)head - (uintptr_t)wheel->slots;
  if (last && offset < sizeof wheel->slots) unmark(wheel, offset / sizeof(ab_list));
}

void ab_wheel_arm(ab_wheel *wheel, ab_wheel_node *node, ab_nsec deadline) {
  uint64_t tick = tick_of(deadline);
  if (ab_wheel_armed(node)) {
    /* A busy connection moves its deadline many times within one tick. A node that is due, or was
     * past when it was armed, has a tick that is over, so this one lies in the slot of its tick. */
    if (tick > wheel->tick && tick == tick_of(node->deadline)) {
      node->deadline = deadline;
      return;
    }
    unlink_node(wheel, node);
  }
  node->deadline = deadline;
  size_t slot = (tick > wheel->tick ? tick : wheel->tick + 1) % AB_WHEEL_SLOTS;
  ab_list_append(&wheel->slots[slot], &node->link);
  mark(wheel, slot);
  wheel->count++;
}

void ab_wheel_cancel(ab_wheel *wheel, ab_wheel_node *node) {
  if (ab_wheel_armed(node)) unlink_node(wheel, node);
}

/* Ticks after `tick` until the next occupied slot, 1 .. AB_WHEEL_SLOTS; 0 if all are empty. */
static uint64_t next_occupied(const ab_wheel *wheel, uint64_t tick) {
  size_t start = (tick + 1) % AB_WHEEL_SLOTS, words = AB_ARRAY_LEN(wheel->occupied);
  /* One word more than there are: the first is searched from the start bit upwards, and again as
   * the last one for the bits below the start. */
  for (size_t i = 0; i <= words; i++) {
    size_t word = (start / 64 + i) % words;
    uint64_t bits = wheel->occupied[word];
    if (i == 0) bits &= ~(uint64_t)0 << (start % 64);
    if (!bits) continue;
    size_t slot = word * 64 + (size_t)__builtin_ctzll(bits);
    return (slot + AB_WHEEL_SLOTS - start) % AB_WHEEL_SLOTS + 1;
  }
  return 0;
}

ab_nsec ab_wheel_deadline(const ab_wheel *wheel) {
  if (wheel->count == 0) return 0;
  uint64_t tick = wheel->tick;
  if (ab_list_empty(&wheel->due)) tick += next_occupied(wheel, tick);
  /* 0 would mean that nothing is armed. */
  return tick ? tick * AB_WHEEL_TICK : 1;
}

static void empty_slot(ab_wheel *wheel, size_t slot, uint64_t tick) {
  ab_list *head = &wheel->slots[slot];
  ab_list_each (link, next, head) {
    ab_wheel_node *node = AB_CONTAINER_OF(link, ab_wheel_node, link);
    if (tick_of(node->deadline) > tick) continue;
    ab_list_remove(link);
    ab_list_append(&wheel->due, link);
  }
  if (ab_list_empty(head)) unmark(wheel, slot);
}

/* Advances the wheel to `tick`. Each slot is visited at most once, however long we have slept. */
static void turn(ab_wheel *wheel, uint64_t tick) {
  uint64_t at = wheel->tick;
  if (tick - at > AB_WHEEL_SLOTS) at = tick - AB_WHEEL_SLOTS;
  for (;;) {
    uint64_t step = next_occupied(wheel, at);
    if (step == 0 || step > tick - at) break;
    at += step;
    empty_slot(wheel, at % AB_WHEEL_SLOTS, tick);
  }
  wheel->tick = tick;
}

ab_wheel_node *ab_wheel_due(ab_wheel *wheel, ab_nsec now) {
  uint64_t tick = now / AB_WHEEL_TICK;
  if (tick > wheel->tick) turn(wheel, tick);
  ab_list *link = ab_list_shift(&wheel->due);
  if (!link) return NULL;
  wheel->count--;
  return AB_CONTAINER_OF(link, ab_wheel_node, link);
}
