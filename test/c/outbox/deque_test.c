/* The double-ended array: where items go when there is no room behind them. */
#include "outbox/deque.h"

#include "check.h"

enum { OWN = 4 };

typedef struct numbers {
  check_mem mem;
  ab__deque deque;
  int own[OWN];
  int next; /* the number that is pushed next; those in the deque end before it */
} numbers;

static void numbers_init(numbers *self, size_t fail_at) {
  *self = (numbers){.next = 0};
  check_mem_init(&self->mem, fail_at);
  ab__deque_init(&self->deque, self->own, OWN);
}

static int push(numbers *self) {
  int err = ab__deque_ensure(&self->deque, &self->mem.mem, sizeof(int), self->own, 1);
  if (err == AB_OK) ((int *)self->deque.items)[self->deque.back++] = self->next++;
  return err;
}

/* Checks that the deque holds the last numbers that were pushed, in order. */
static void check_numbers(const numbers *self) {
  const int *items = self->deque.items;
  int expected = self->next - (int)ab__deque_count(&self->deque);
  for (uint32_t i = self->deque.front; i < self->deque.back; i++) CHECK_INT(expected++, items[i]);
}

/* Drops all, and checks that all memory goes back. */
static void numbers_fini(numbers *self) {
  while (ab__deque_count(&self->deque) > 0) ab__deque_drop_front(&self->deque);
  ab__deque_trim(&self->deque, &self->mem.mem, self->own, OWN, 0);
  CHECK(self->deque.items == self->own);
  CHECK_INT(OWN, self->deque.capacity);
  CHECK_INT(0, self->mem.live);
}

CHECK_CASE(the_first_items_need_no_memory) {
  numbers n;
  numbers_init(&n, 0);
  for (int i = 0; i < OWN; i++) CHECK_INT(AB_OK, push(&n));
  CHECK_INT(0, n.mem.calls);
  CHECK_INT(AB_OK, push(&n));
  CHECK_INT(1, n.mem.live);
  CHECK_INT(OWN + 1, ab__deque_count(&n.deque));
  check_numbers(&n);
  numbers_fini(&n);
}

/* Half of the slots are free in front: the items move there. */
CHECK_CASE(items_move_to_the_front_rather_than_grow) {
  numbers n;
  numbers_init(&n, 0);
  for (int i = 0; i < OWN; i++) CHECK_INT(AB_OK, push(&n));
  for (int i = 0; i < OWN / 2; i++) ab__deque_drop_front(&n.deque);
  CHECK_INT(AB_OK, push(&n));
  CHECK_INT(0, n.mem.calls);
  CHECK_INT(0, n.deque.front);
  check_numbers(&n);
  numbers_fini(&n);
}

/* One free slot in front is not worth moving all the others. */
CHECK_CASE(a_deque_that_is_nearly_full_grows) {
  numbers n;
  numbers_init(&n, 0);
  for (int i = 0; i < OWN; i++) CHECK_INT(AB_OK, push(&n));
  ab__deque_drop_front(&n.deque);
  CHECK_INT(AB_OK, push(&n));
  CHECK_INT(1, n.mem.live);
  CHECK_INT(2 * OWN, n.deque.capacity);
  check_numbers(&n);
  numbers_fini(&n);
}

CHECK_CASE(without_memory_they_move_while_that_helps) {
  numbers n;
  numbers_init(&n, 1);
  for (int i = 0; i < OWN; i++) CHECK_INT(AB_OK, push(&n));
  ab__deque_drop_front(&n.deque);
  CHECK_INT(AB_OK, push(&n));
  CHECK_INT(1, n.mem.calls);
  check_numbers(&n);
  n.mem.fail_at = 2;
  CHECK_INT(AB_ENOMEM, push(&n));
  CHECK_INT(OWN, ab__deque_count(&n.deque));
  check_numbers(&n);
  CHECK_INT(AB_OK, push(&n));
  check_numbers(&n);
  numbers_fini(&n);
}

CHECK_CASE(more_than_can_be_counted_is_refused) {
  numbers n;
  numbers_init(&n, 0);
  CHECK_INT(AB_OK, push(&n));
  static const uint32_t counts[] = {UINT32_MAX, UINT32_MAX - 1, (uint32_t)1 << 31};
  for (size_t i = 0; i < AB_ARRAY_LEN(counts); i++)
    CHECK_INT(AB_ENOMEM, ab__deque_make_room(&n.deque, &n.mem.mem, sizeof(int), n.own, counts[i]));
  CHECK_INT(0, n.mem.calls);
  check_numbers(&n);
  numbers_fini(&n);
}

CHECK_CASE(trimming_keeps_what_is_small) {
  numbers n;
  numbers_init(&n, 0);
  for (int i = 0; i < 3 * OWN; i++) CHECK_INT(AB_OK, push(&n));
  for (int i = 0; i < 3 * OWN; i++) ab__deque_drop_back(&n.deque);
  CHECK_INT(0, n.deque.back);
  ab__deque_trim(&n.deque, &n.mem.mem, n.own, OWN, n.deque.capacity);
  CHECK_INT(1, n.mem.live);
  numbers_fini(&n);
}

/* Pushes and drops in long waves, as a connection with a slow client has them. */
CHECK_CASE(waves_keep_the_order) {
  numbers n;
  numbers_init(&n, 0);
  for (int wave = 1; wave < 60; wave++) {
    for (int i = 0; i < wave % 13 + 2; i++) CHECK_INT(AB_OK, push(&n));
    check_numbers(&n);
    for (int i = 0; i < wave % 11 && ab__deque_count(&n.deque) > 0; i++)
      ab__deque_drop_front(&n.deque);
    check_numbers(&n);
  }
  numbers_fini(&n);
}

CHECK_MAIN()
