/* Calls that are over: nobody can use them by accident, and what still points there finds out. Ruby
 * itself is not here, only its headers. */
#include <sanitizer/asan_interface.h>
#include <setjmp.h>

#include "check.h"
#include "rb/rack/rb_call_memory.c"

static unsigned given;

void ab_sight_give_row(ab_sight *sight AB_UNUSED, ab_call *call) {
  if (call->own_row) given++;
  call->own_row = NULL;
}

static jmp_buf bug;

void rb_bug(const char *format AB_UNUSED, ...) {
  longjmp(bug, 1);
}

static ab_rack rack;

static ab_call *take(void) {
  ab_call *call = ab_call_take(&rack);
  if (!call) abort();
  return call;
}

/* Whether the mark is found out to be that of a request that is over. */
static bool is_stale(void *mark) {
  if (setjmp(bug)) return true;
  ab_call_at(mark);
  return false;
}

CHECK_CASE(a_mark_finds_its_call) {
  ab_list_init(&rack.spare_calls);
  ab_call *one = take(), *other = take();
  CHECK(ab_call_at(ab_call_mark(one)) == one);
  CHECK(ab_call_at(ab_call_mark(other)) == other);
  CHECK(!ab_call_at(NULL));
  ab_call_give_back(&rack, one);
  ab_call_give_back(&rack, other);
  ab_call_free_spares(&rack);
}

CHECK_CASE(what_is_over_is_poisoned) {
  ab_list_init(&rack.spare_calls);
  ab_call *call = take();
  call->exchange = NULL;
  ab_call_give_back(&rack, call);
  CHECK(__asan_address_is_poisoned(&call->exchange));
  CHECK(__asan_address_is_poisoned((char *)(call + 1) - 1));
  cure(call);
  CHECK_INT(POISON, *(unsigned char *)&call->exchange);
  CHECK_INT(POISON, *((unsigned char *)(call + 1) - 1));
  CHECK(take() == call);
  call->exchange = NULL; /* it can be used again */
  ab_call_give_back(&rack, call);
  ab_call_free_spares(&rack);
}

CHECK_CASE(its_mark_does_not_find_the_next_one) {
  ab_list_init(&rack.spare_calls);
  ab_call *call = take();
  void *marks[AB_CALL_ALIGNMENT];
  for (int i = 0; i < AB_CALL_ALIGNMENT; i++) {
    marks[i] = ab_call_mark(call);
    CHECK(!is_stale(marks[i]));
    ab_call_give_back(&rack, call);
    CHECK(is_stale(marks[i]));
    CHECK(take() == call);
    for (int k = i == AB_CALL_ALIGNMENT - 1; k <= i; k++) CHECK(is_stale(marks[k]));
  }
  ab_call_give_back(&rack, call);
  ab_call_free_spares(&rack);
}

CHECK_CASE(a_call_keeps_its_row_until_its_memory_goes) {
  ab_row row;
  ab_sight sight = {.rows.count = 1};
  rack.sight = &sight;
  given = 0;
  ab_list_init(&rack.spare_calls);
  ab_call *call = take();
  call->own_row = &row;
  ab_call_give_back(&rack, call);
  CHECK_INT(0, given);
  CHECK(take() == call && call->own_row == &row);
  ab_call_give_back(&rack, call);
  ab_call_free_spares(&rack);
  CHECK_INT(1, given);
  rack.sight = NULL;
}

CHECK_CASE(a_call_without_a_row_makes_room_for_one_that_has) {
  ab_sight sight = {.rows.count = 1};
  rack.sight = &sight;
  ab_list_init(&rack.spare_calls);
  ab_call_give_back(&rack, take());
  CHECK_INT(0, rack.spare_count);
  sight.rows.count = 0; /* nothing is shown: then it is as good as any */
  ab_call_give_back(&rack, take());
  CHECK_INT(1, rack.spare_count);
  ab_call_free_spares(&rack);
  rack.sight = NULL;
}

CHECK_MAIN()
