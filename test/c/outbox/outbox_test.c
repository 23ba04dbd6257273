/* What an outbox promises, case by case: order and merging, limits, yield, flush marks, close,
 * drain, files, owners, counters and the pool. outbox_stream_test.c sends random streams through
 * it. */
#include "fixture.h"

static void put(ab_outbox *outbox, const char *text) {
  CHECK_INT(AB_OK, ab_outbox_write(outbox, text, strlen(text)));
}

static void lend(ab_outbox *outbox, const char *text, owner *lender) {
  CHECK_INT(AB_OK, ab_outbox_borrow(outbox, text, strlen(text), lender));
}

/* Fills the current chunk so that `left` bytes of room stay, and returns how many it wrote. */
static size_t fill_chunk(ab_outbox *outbox, size_t left) {
  static const char zeroes[AB_OUTBOX_CHUNK_SIZE];
  size_t room = outbox->room > 0 ? outbox->room : AB__CHUNK_ROOM;
  CHECK_INT(AB_OK, ab_outbox_write(outbox, zeroes, room - left));
  return room - left;
}

/* Notes which marks fired, in which order and why; `act`, if any, runs inside the callback. */
typedef struct journal {
  char names[16];
  enum ab_flush_reason reasons[16];
  size_t count;
} journal;

typedef struct mark {
  journal *log;
  char name;
  ab_outbox *outbox;
  void (*act)(struct mark *self);
  struct mark *then;
  owner *lender;
} mark;

static void mark_fired(void *arg, enum ab_flush_reason reason) {
  mark *self = arg;
  self->log->names[self->log->count] = self->name;
  self->log->reasons[self->log->count++] = reason;
  if (self->act) self->act(self);
}

static void flush(ab_outbox *outbox, mark *self) {
  CHECK_INT(AB_OK, ab_outbox_flush(outbox, mark_fired, self));
}

#define CHECK_FIRED(expected, log) CHECK_BYTES(expected, (log).names, (log).count)

CHECK_CASE(empty_is_idle) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  put(f.outbox, "");
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  lend(f.outbox, "", &lender);
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  CHECK_INT(1, lender.released);
  CHECK_INT(AB_OK, ab_outbox_file(f.outbox, 3, 10, 0, &lender));
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  CHECK_INT(2, lender.released);
  CHECK_INT(0, ab_outbox_pending(f.outbox));
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 0));
  CHECK_INT(0, ab_outbox_drain(f.outbox));
  fixture_fini(&f);
}

CHECK_CASE(copies_merge_into_one_slice) {
  fixture f;
  fixture_init(&f);
  char text[] = "test";
  put(f.outbox, text);
  memset(text, 'x', 4); /* copied: what the caller does afterwards does not matter */
  put(f.outbox, "te");
  put(f.outbox, "st");
  put(f.outbox, "t");
  put(f.outbox, "e");
  CHECK_SLICES(f.outbox, "testtestte");
  CHECK_INT(10, ab_outbox_pending(f.outbox));
  CHECK_INT(10, ab_outbox_queued(f.outbox));
  CHECK_INT(0, f.outbox->written);
  fixture_fini(&f);
}

CHECK_CASE(a_write_fills_the_chunk_then_takes_another) {
  fixture f;
  fixture_init(&f);
  size_t filled = fill_chunk(f.outbox, 1);
  put(f.outbox, "test");
  put(f.outbox, "te");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, filled));
  CHECK_SLICES(f.outbox, "t", "estte");
  fixture_fini(&f);
}

CHECK_CASE(an_exactly_full_chunk_is_followed_by_another) {
  fixture f;
  fixture_init(&f);
  size_t filled = fill_chunk(f.outbox, 4);
  put(f.outbox, "test");
  put(f.outbox, "next");
  CHECK_INT(2, f.pool->chunks_out);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, filled + 1));
  CHECK_SLICES(f.outbox, "est", "next");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 3));
  CHECK_INT(1, f.pool->chunks_out);
  CHECK_SLICES(f.outbox, "next");
  fixture_fini(&f);
}

CHECK_CASE(borrowed_slices_keep_their_place) {
  fixture f;
  fixture_init(&f);
  owner lenders[3] = {{0}};
  static const char first[] = "first";
  lend(f.outbox, first, &lenders[0]);
  put(f.outbox, "te");
  put(f.outbox, "st");
  lend(f.outbox, "mid", &lenders[1]);
  put(f.outbox, "more");
  lend(f.outbox, "last", &lenders[2]);
  CHECK_SLICES(f.outbox, "first", "test", "mid", "more", "last");
  ab_outbox_next_op next;
  ab_outbox_next(f.outbox, &next);
  CHECK(next.iov[0].iov_base == first); /* not copied */
  CHECK_INT(0, f.released);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 5 + 4 + 2));
  CHECK_INT(1, lenders[0].released);
  CHECK_INT(0, lenders[1].released);
  CHECK_SLICES(f.outbox, "d", "more", "last");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 9));
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  for (int i = 0; i < 3; i++) CHECK_INT(1, lenders[i].released);
  fixture_fini(&f);
  CHECK_INT(3, f.released);
}

CHECK_CASE(a_null_owner_is_not_released) {
  fixture f;
  fixture_init(&f);
  lend(f.outbox, "constant", NULL);
  lend(f.outbox, "", NULL);
  CHECK_SLICES(f.outbox, "constant");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 8));
  CHECK_INT(0, f.released);
  fixture_fini(&f);
}

CHECK_CASE(a_preparation_skips_the_rest_of_a_chunk) {
  fixture f;
  fixture_init(&f);
  size_t filled = fill_chunk(f.outbox, 3);
  CHECK_INT(AB_OK, ab_outbox_prepare(f.outbox, 1, 4));
  put(f.outbox, "four");
  CHECK_INT(2, f.pool->chunks_out);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, filled));
  CHECK_INT(1, f.pool->chunks_out);
  CHECK_SLICES(f.outbox, "four");
  fixture_fini(&f);
}

CHECK_CASE(an_unused_preparation_is_given_back) {
  fixture f;
  fixture_init(&f);
  CHECK_INT(AB_OK, ab_outbox_prepare(f.outbox, 1, 100));
  fixture_fini(&f);
}

CHECK_CASE(next_is_idempotent) {
  fixture f;
  fixture_init(&f);
  put(f.outbox, "same");
  lend(f.outbox, "again", NULL);
  for (int i = 0; i < 3; i++) CHECK_SLICES(f.outbox, "same", "again");
  CHECK_INT(9, ab_outbox_pending(f.outbox));
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  for (int i = 0; i < 3; i++) CHECK_SLICES(f.outbox, "ame", "again");
  fixture_fini(&f);
}

CHECK_CASE(next_leaves_the_rest_of_iov_alone) {
  fixture f;
  fixture_init(&f);
  ab_outbox_next_op next;
  memset(&next, 0x5a, sizeof next);
  put(f.outbox, "one");
  lend(f.outbox, "two", NULL);
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(2, next.iov_count);
  CHECK_INT(-1, next.file_fd);
  for (int i = 2; i < AB_OUTBOX_IOV_MAX; i++) CHECK_INT(0x5a5a5a5a5a5a5a5a, next.iov[i].iov_len);
  fixture_fini(&f);
}

CHECK_CASE(shift_beyond_pending_changes_nothing) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark late = {.log = &log, .name = 'l'};
  owner lender = {0};
  CHECK_INT(AB_EINVAL, ab_outbox_shift(f.outbox, 1));
  put(f.outbox, "abc");
  lend(f.outbox, "def", &lender);
  flush(f.outbox, &late);
  CHECK_INT(AB_EINVAL, ab_outbox_shift(f.outbox, 7));
  CHECK_INT(AB_EINVAL, ab_outbox_shift(f.outbox, UINT64_MAX));
  CHECK_INT(6, ab_outbox_pending(f.outbox));
  CHECK_INT(0, f.outbox->written);
  CHECK_INT(0, lender.released);
  CHECK_FIRED("", log);
  CHECK_SLICES(f.outbox, "abc", "def");
  fixture_fini(&f);
  CHECK_INT(1, lender.released);
}

CHECK_CASE(next_stops_at_the_slice_limit) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  for (int i = 0; i < AB_OUTBOX_IOV_MAX + 36; i++) lend(f.outbox, "xy", &lender);
  ab_outbox_next_op next;
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(AB_OUTBOX_IOV_MAX, next.iov_count);
  CHECK_INT(2 * AB_OUTBOX_IOV_MAX, next.bytes);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, next.bytes));
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(36, next.iov_count);
  fixture_fini(&f);
  CHECK_INT(AB_OUTBOX_IOV_MAX + 36, lender.released);
}

CHECK_CASE(next_stops_at_the_byte_limit) {
  fixture f;
  fixture_init(&f);
  char *big = calloc(1, 3 * AB_OUTBOX_BYTES_MAX);
  CHECK_INT(AB_OK, ab_outbox_borrow(f.outbox, big, 1000000, NULL));
  CHECK_INT(AB_OK, ab_outbox_borrow(f.outbox, big, 3 * AB_OUTBOX_BYTES_MAX, NULL));
  lend(f.outbox, "x", NULL);
  ab_outbox_next_op next;
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(2, next.iov_count);
  CHECK_INT(AB_OUTBOX_BYTES_MAX, next.bytes);
  CHECK_INT(AB_OUTBOX_BYTES_MAX - 1000000, next.iov[1].iov_len);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, next.bytes));
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(1, next.iov_count);
  CHECK_INT(AB_OUTBOX_BYTES_MAX, next.iov[0].iov_len);
  CHECK(next.iov[0].iov_base == big + AB_OUTBOX_BYTES_MAX - 1000000);
  fixture_fini(&f);
  free(big);
}

CHECK_CASE(files_come_in_order_and_alone) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  put(f.outbox, "head");
  CHECK_INT(AB_OK, ab_outbox_file(f.outbox, 7, 100, 50, &lender));
  put(f.outbox, "tail");
  CHECK_SLICES(f.outbox, "head");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 4));
  ab_outbox_next_op next;
  for (int i = 0; i < 2; i++) {
    ab_outbox_next(f.outbox, &next);
    CHECK_INT(AB_OUTBOX_FILE, next.op);
    CHECK_INT(7, next.file_fd);
    CHECK_INT(100, next.file_offset);
    CHECK_INT(50, next.file_len);
    CHECK_INT(0, next.iov_count);
    CHECK_INT(0, next.bytes);
  }
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 20));
  ab_outbox_next(f.outbox, &next);
  CHECK_INT(120, next.file_offset);
  CHECK_INT(30, next.file_len);
  CHECK_INT(0, lender.released);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 31));
  CHECK_INT(1, lender.released);
  CHECK_SLICES(f.outbox, "ail");
  fixture_fini(&f);
}

CHECK_CASE(file_ranges_are_checked) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  const uint64_t end = (uint64_t)INT64_MAX;
  CHECK_INT(AB_EINVAL, ab_outbox_file(f.outbox, -1, 0, 1, &lender));
  CHECK_INT(AB_EINVAL, ab_outbox_file(f.outbox, 3, end, 1, &lender));
  CHECK_INT(AB_EINVAL, ab_outbox_file(f.outbox, 3, UINT64_MAX, 2, &lender));
  CHECK_INT(AB_EINVAL, ab_outbox_file(f.outbox, 3, 0, end + 1, &lender));
  CHECK_INT(0, ab_outbox_pending(f.outbox));
  CHECK_INT(AB_OK, ab_outbox_file(f.outbox, 3, end - 1, 1, &lender));
  CHECK_INT(0, lender.released);
  fixture_fini(&f);
  CHECK_INT(1, lender.released);
}

CHECK_CASE(pending_is_bounded) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark all = {.log = &log, .name = 'a'};
  owner lenders[2] = {{0}};
  f.outbox->queued = f.outbox->written = UINT64_MAX - 100;
  CHECK_INT(AB_OK, ab_outbox_file(f.outbox, 3, 0, AB__PENDING_MAX, &lenders[0]));
  flush(f.outbox, &all);
  CHECK_INT(AB_ENOMEM, ab_outbox_write(f.outbox, "x", 1));
  CHECK_INT(AB_EINVAL, ab_outbox_borrow(f.outbox, "x", 1, &lenders[1]));
  CHECK_INT(AB_EINVAL, ab_outbox_file(f.outbox, 3, 0, 1, &lenders[1]));
  CHECK_INT(AB__PENDING_MAX, ab_outbox_pending(f.outbox));
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, AB__PENDING_MAX - 1));
  CHECK_FIRED("", log);
  put(f.outbox, "x");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("a", log);
  CHECK_INT(1, lenders[0].released);
  CHECK_INT(0, lenders[1].released);
  fixture_fini(&f);
}

CHECK_CASE(an_impossible_length_is_refused) {
  fixture f;
  fixture_init(&f);
  CHECK_INT(AB_ENOMEM, ab_outbox_write(f.outbox, "x", SIZE_MAX));
  CHECK_INT(AB_EINVAL, ab_outbox_borrow(f.outbox, "x", SIZE_MAX, NULL));
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  fixture_fini(&f);
}

CHECK_CASE(yield_holds_back_once) {
  fixture f;
  fixture_init(&f);
  put(f.outbox, "a");
  ab_outbox_yield(f.outbox);
  CHECK_INT(AB_OUTBOX_YIELD, next_op(f.outbox));
  CHECK_SLICES(f.outbox, "a");
  ab_outbox_yield(f.outbox);
  put(f.outbox, "b");
  CHECK_INT(AB_OUTBOX_YIELD, next_op(f.outbox));
  CHECK_SLICES(f.outbox, "ab");
  CHECK_SLICES(f.outbox, "ab");
  fixture_fini(&f);
}

CHECK_CASE(yield_is_spent_on_an_empty_outbox) {
  fixture f;
  fixture_init(&f);
  ab_outbox_yield(f.outbox);
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  put(f.outbox, "a");
  CHECK_SLICES(f.outbox, "a");
  fixture_fini(&f);
}

CHECK_CASE(flush_close_and_drain_cancel_yield) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark m = {.log = &log, .name = 'm'};
  ab_outbox_yield(f.outbox);
  flush(f.outbox, &m);
  put(f.outbox, "a");
  CHECK_SLICES(f.outbox, "a");
  ab_outbox_yield(f.outbox);
  flush(f.outbox, &m);
  CHECK_SLICES(f.outbox, "a");
  ab_outbox_yield(f.outbox);
  CHECK_INT(1, ab_outbox_drain(f.outbox));
  put(f.outbox, "b");
  CHECK_SLICES(f.outbox, "b");
  ab_outbox_yield(f.outbox);
  ab_outbox_close(f.outbox);
  CHECK_SLICES(f.outbox, "b");
  ab_outbox_yield(f.outbox);
  CHECK_SLICES(f.outbox, "b");
  fixture_fini(&f);
}

CHECK_CASE(flush_fires_at_once_when_nothing_is_pending) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark m = {.log = &log, .name = 'm'};
  flush(f.outbox, &m);
  CHECK_FIRED("m", log);
  CHECK_INT(AB_FLUSH_WRITTEN, log.reasons[0]);
  fixture_fini(&f);
  CHECK_FIRED("m", log);
}

CHECK_CASE(flush_waits_for_all_that_came_before) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark m = {.log = &log, .name = 'm'};
  put(f.outbox, "hello ");
  lend(f.outbox, "world", NULL);
  flush(f.outbox, &m);
  put(f.outbox, "after");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 5));
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 0));
  CHECK_FIRED("", log);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 6));
  CHECK_FIRED("m", log);
  CHECK_INT(AB_FLUSH_WRITTEN, log.reasons[0]);
  CHECK_SLICES(f.outbox, "after");
  fixture_fini(&f);
  CHECK_FIRED("m", log);
}

CHECK_CASE(one_shift_fires_several_marks_in_order) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark marks[6];
  for (int i = 0; i < 6; i++) {
    marks[i] = (mark){.log = &log, .name = (char)('a' + i)};
    put(f.outbox, i % 2 ? "" : "pieces");
    flush(f.outbox, &marks[i]);
  }
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 12));
  CHECK_FIRED("abcd", log);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 5));
  CHECK_FIRED("abcd", log);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("abcdef", log);
  fixture_fini(&f);
}

static void write_and_flush_again(mark *self) {
  CHECK_INT(0, ab_outbox_pending(self->outbox));
  put(self->outbox, "again");
  flush(self->outbox, self->then);
}

CHECK_CASE(a_callback_may_write_and_flush) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark last = {.log = &log, .name = 'l'};
  mark middle = {
      .log = &log, .name = 'm', .outbox = f.outbox, .act = write_and_flush_again, .then = &last};
  mark first = {
      .log = &log, .name = 'f', .outbox = f.outbox, .act = write_and_flush_again, .then = &middle};
  put(f.outbox, "once");
  flush(f.outbox, &first);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 4));
  CHECK_FIRED("f", log);
  CHECK_SLICES(f.outbox, "again");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 5));
  CHECK_FIRED("fm", log);
  CHECK_SLICES(f.outbox, "again");
  CHECK_INT(5, ab_outbox_drain(f.outbox));
  CHECK_FIRED("fml", log);
  CHECK_INT(AB_FLUSH_DRAINED, log.reasons[2]);
  fixture_fini(&f);
}

static void flush_then_only(mark *self) {
  flush(self->outbox, self->then);
}

/* With nothing pending a flush fires at once, but not before marks that came earlier. */
CHECK_CASE(a_flush_inside_a_callback_keeps_its_turn) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark third = {.log = &log, .name = '3'};
  mark second = {.log = &log, .name = '2'};
  mark first = {
      .log = &log, .name = '1', .outbox = f.outbox, .act = flush_then_only, .then = &third};
  put(f.outbox, "x");
  flush(f.outbox, &first);
  flush(f.outbox, &second);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("123", log);
  fixture_fini(&f);
}

static void shift_all(mark *self) {
  CHECK_INT(AB_OK, ab_outbox_shift(self->outbox, ab_outbox_pending(self->outbox)));
}

CHECK_CASE(a_callback_may_shift) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  mark first = {.log = &log, .name = '1', .outbox = f.outbox, .act = shift_all};
  mark second = {.log = &log, .name = '2'};
  put(f.outbox, "a");
  flush(f.outbox, &first);
  put(f.outbox, "b");
  flush(f.outbox, &second);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("12", log);
  CHECK_INT(0, ab_outbox_pending(f.outbox));
  fixture_fini(&f);
}

static void drain_all(mark *self) {
  ab_outbox_drain(self->outbox);
}

CHECK_CASE(a_callback_may_drain) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  owner lender = {0};
  mark first = {.log = &log, .name = '1', .outbox = f.outbox, .act = drain_all};
  mark second = {.log = &log, .name = '2'}, third = {.log = &log, .name = '3'};
  put(f.outbox, "a");
  flush(f.outbox, &first);
  flush(f.outbox, &second);
  lend(f.outbox, "b", &lender);
  flush(f.outbox, &third);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("123", log);
  CHECK_INT(AB_FLUSH_WRITTEN, log.reasons[0]);
  CHECK_INT(AB_FLUSH_WRITTEN, log.reasons[1]);
  CHECK_INT(AB_FLUSH_DRAINED, log.reasons[2]);
  CHECK_INT(1, lender.released);
  fixture_fini(&f);
}

CHECK_CASE(close_comes_after_all_output) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  owner lender = {0};
  mark m = {.log = &log, .name = 'm'};
  put(f.outbox, "bye");
  CHECK(!ab_outbox_closed(f.outbox));
  ab_outbox_close(f.outbox);
  ab_outbox_close(f.outbox);
  CHECK(ab_outbox_closed(f.outbox));
  CHECK_INT(AB_ECLOSED, ab_outbox_write(f.outbox, "x", 1));
  CHECK_INT(AB_ECLOSED, ab_outbox_write(f.outbox, "", 0));
  CHECK_INT(AB_ECLOSED, ab_outbox_borrow(f.outbox, "x", 1, &lender));
  CHECK_INT(AB_ECLOSED, ab_outbox_borrow(f.outbox, "", 0, &lender));
  CHECK_INT(AB_ECLOSED, ab_outbox_file(f.outbox, 1, 0, 1, &lender));
  CHECK_INT(0, lender.released);
  flush(f.outbox, &m);
  CHECK_SLICES(f.outbox, "bye");
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 2));
  CHECK_SLICES(f.outbox, "e");
  CHECK_FIRED("", log);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  CHECK_FIRED("m", log);
  for (int i = 0; i < 2; i++) CHECK_INT(AB_OUTBOX_CLOSE, next_op(f.outbox));
  flush(f.outbox, &m);
  CHECK_FIRED("mm", log);
  fixture_fini(&f);
}

CHECK_CASE(drain_works_open_and_closed) {
  for (int closed = 0; closed < 2; closed++) {
    fixture f;
    fixture_init(&f);
    journal log = {.count = 0};
    mark m = {.log = &log, .name = 'm'};
    owner lender = {0};
    put(f.outbox, "copied");
    lend(f.outbox, "borrowed", &lender);
    CHECK_INT(AB_OK, ab_outbox_file(f.outbox, 5, 0, 1000, &lender));
    flush(f.outbox, &m);
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 8));
    if (closed) ab_outbox_close(f.outbox);
    CHECK_INT(6 + 8 + 1000 - 8, ab_outbox_drain(f.outbox));
    CHECK_INT(2, lender.released);
    CHECK_FIRED("m", log);
    CHECK_INT(AB_FLUSH_DRAINED, log.reasons[0]);
    CHECK_INT(0, ab_outbox_pending(f.outbox));
    CHECK_INT(1014, f.outbox->written);
    CHECK_INT(closed ? AB_OUTBOX_CLOSE : AB_OUTBOX_IDLE, next_op(f.outbox));
    CHECK_INT(0, ab_outbox_drain(f.outbox));
    if (!closed) {
      put(f.outbox, "on");
      CHECK_SLICES(f.outbox, "on");
    }
    fixture_fini(&f);
    CHECK_INT(2, lender.released);
  }
}

static void write_refused(mark *self) {
  CHECK_INT(AB_ECLOSED, ab_outbox_write(self->outbox, "x", 1));
  CHECK_INT(AB_ECLOSED, ab_outbox_borrow(self->outbox, "x", 1, self->lender));
  CHECK_INT(0, self->lender->released);
  flush(self->outbox, self->then);
}

CHECK_CASE(fini_drops_and_fires) {
  fixture f;
  fixture_init(&f);
  journal log = {.count = 0};
  owner lenders[2] = {{0}};
  mark inner = {.log = &log, .name = 'i'};
  mark outer = {.log = &log,
                .name = 'o',
                .outbox = f.outbox,
                .act = write_refused,
                .then = &inner,
                .lender = &lenders[1]};
  lend(f.outbox, "dropped", &lenders[0]);
  flush(f.outbox, &outer);
  fixture_fini(&f);
  CHECK_FIRED("oi", log);
  CHECK_INT(AB_FLUSH_DRAINED, log.reasons[0]);
  CHECK_INT(1, lenders[0].released);
  CHECK_INT(0, lenders[1].released);
}

CHECK_CASE(an_emptied_outbox_starts_its_chunk_again) {
  fixture f;
  fixture_init(&f);
  put(f.outbox, "first");
  const char *start = f.outbox->chunk->bytes;
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 5));
  CHECK_INT(0, f.pool->chunks_out); /* an empty outbox holds none */
  size_t calls = f.mem.calls;
  put(f.outbox, "second");
  ab_outbox_next_op next;
  ab_outbox_next(f.outbox, &next);
  CHECK(next.iov[0].iov_base == start);
  CHECK_INT(calls, f.mem.calls);
  fixture_fini(&f);
}

CHECK_CASE(counters_wrap_around) {
  for (uint64_t before = 0; before < 12; before++) {
    fixture f;
    fixture_init(&f);
    journal log = {.count = 0};
    mark a = {.log = &log, .name = 'a'}, b = {.log = &log, .name = 'b'};
    f.outbox->queued = f.outbox->written = UINT64_MAX - before;
    put(f.outbox, "12345");
    flush(f.outbox, &a);
    lend(f.outbox, "67890", NULL);
    flush(f.outbox, &b);
    CHECK_INT(10, ab_outbox_pending(f.outbox));
    CHECK_INT(AB_EINVAL, ab_outbox_shift(f.outbox, 11));
    for (int i = 1; i <= 10; i++) {
      CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
      CHECK_INT((i >= 5) + (i >= 10), log.count);
      CHECK_INT(10 - i, ab_outbox_pending(f.outbox));
    }
    CHECK_FIRED("ab", log);
    CHECK(f.outbox->written == UINT64_MAX - before + 10);
    CHECK(ab_outbox_queued(f.outbox) == f.outbox->written);
    fixture_fini(&f);
  }
}

CHECK_CASE(chunks_live_as_long_as_their_bytes) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  put(f.outbox, "a");
  lend(f.outbox, "b", &lender);
  put(f.outbox, "c"); /* the same chunk in two slices */
  CHECK_INT(1, f.pool->chunks_out);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 2));
  CHECK_SLICES(f.outbox, "c");
  fill_chunk(f.outbox, 0);
  fill_chunk(f.outbox, 0);
  CHECK_INT(2, f.pool->chunks_out);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, AB__CHUNK_ROOM - 1));
  CHECK_INT(1, f.pool->chunks_out);
  fixture_fini(&f);
}

CHECK_CASE(long_writes_span_chunks_or_get_their_own) {
  char *text = malloc(20 * AB__CHUNK_ROOM);
  memset(text, 't', 20 * AB__CHUNK_ROOM);
  const struct {
    size_t len, chunks;
    bool recycled;
  } cases[] = {
      {AB__CHUNK_ROOM, 1, true},
      {AB__CHUNK_ROOM + 1, 2, true},
      {AB__SPAN_MAX * AB__CHUNK_ROOM, AB__SPAN_MAX, true},
      {AB__SPAN_MAX * AB__CHUNK_ROOM + 1, 1, false},
      {20 * AB__CHUNK_ROOM, 1, false},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    fixture f;
    fixture_init(&f);
    CHECK_INT(AB_OK, ab_outbox_write(f.outbox, text, cases[i].len));
    CHECK_INT(cases[i].chunks, f.pool->chunks_out);
    ab_outbox_next_op next;
    ab_outbox_next(f.outbox, &next);
    CHECK_INT(cases[i].chunks, next.iov_count);
    CHECK_INT(cases[i].len, next.bytes);
    put(f.outbox, "and more");
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, cases[i].len));
    CHECK_INT(1, f.pool->chunks_out);
    CHECK_SLICES(f.outbox, "and more");
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 8));
    CHECK_INT(0, f.pool->chunks_out);
    CHECK(!cases[i].recycled || f.pool->spare_chunks >= cases[i].chunks);
    CHECK(cases[i].recycled || f.pool->spare_chunks == 1);
    fixture_fini(&f);
  }
  free(text);
}

CHECK_CASE(a_long_copy_goes_with_its_bytes) {
  fixture f;
  fixture_init(&f);
  size_t len = 20 * AB__CHUNK_ROOM;
  char *text = calloc(1, len);
  CHECK_INT(AB_OK, ab_outbox_write(f.outbox, text, len));
  lend(f.outbox, "slow", NULL);
  CHECK_INT(3, f.mem.live);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, len));
  CHECK_INT(2, f.mem.live);
  CHECK_SLICES(f.outbox, "slow");
  fixture_fini(&f);
  free(text);
}

CHECK_CASE(a_queue_that_never_empties_stays_small) {
  fixture f;
  fixture_init(&f);
  owner lender = {0};
  for (int i = 0; i < 10; i++) lend(f.outbox, "x", &lender);
  for (int i = 0; i < 100; i++) { /* warm-up */
    lend(f.outbox, "x", &lender);
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  }
  size_t calls = f.mem.calls;
  for (int i = 0; i < 10000; i++) {
    lend(f.outbox, "x", &lender);
    put(f.outbox, "y");
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 2));
  }
  CHECK(f.mem.calls <= calls + 2); /* the list doubles at most once more */
  CHECK(f.outbox->slices.capacity <= 64);
  CHECK_INT(f.outbox->slices.capacity * sizeof(ab__slice), ab_outbox_list_memory(f.outbox));
  CHECK(f.pool->chunks_out <= 3);
  fixture_fini(&f);
  CHECK_INT(10 + 100 + 10000, lender.released);
}

CHECK_CASE(an_early_move_replaces_a_failed_growth) {
  fixture f;
  fixture_init(&f);
  for (int i = 0; i < AB__SLICES_OWN; i++) lend(f.outbox, i % 2 ? "b" : "a", NULL);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 1));
  f.mem.fail_at = f.mem.calls + 1;
  lend(f.outbox, "z", NULL);
  CHECK(f.mem.calls == f.mem.fail_at);
  CHECK_SLICES(f.outbox, "b", "a", "b", "z");
  f.mem.fail_at = f.mem.calls + 1;
  owner lender = {0};
  CHECK_INT(AB_ENOMEM, ab_outbox_borrow(f.outbox, "!", 1, &lender));
  CHECK_INT(0, lender.released);
  CHECK_SLICES(f.outbox, "b", "a", "b", "z");
  fixture_fini(&f);
}

static void cycle(fixture *f, owner *lender, mark *m) {
  static const char body[3 * AB__CHUNK_ROOM];
  ab_outbox *outbox = ab_outbox_init(f->pool);
  m->log->count = 0;
  CHECK_INT(AB_OK, ab_outbox_write(outbox, body, 150));
  CHECK_INT(AB_OK, ab_outbox_prepare(outbox, 1, 200));
  CHECK_INT(AB_OK, ab_outbox_write(outbox, body, 150));
  for (int i = 0; i < 6; i++) {
    CHECK_INT(AB_OK, ab_outbox_borrow(outbox, body, 1000, lender));
    CHECK_INT(AB_OK, ab_outbox_write(outbox, body, sizeof body));
    flush(outbox, m);
  }
  CHECK_INT(AB_OK, ab_outbox_file(outbox, 3, 0, 77, lender));
  ab_outbox_next_op next;
  ab_outbox_next(outbox, &next);
  CHECK_INT(AB_OK, ab_outbox_shift(outbox, next.bytes));
  CHECK_INT(AB_OK, ab_outbox_shift(outbox, ab_outbox_pending(outbox)));
  CHECK_INT(6, m->log->count);
  ab_outbox_fini(outbox);
}

CHECK_CASE(the_steady_state_allocates_nothing) {
  fixture f;
  fixture_init_with(&f, 1, 32);
  journal log = {.count = 0};
  mark m = {.log = &log, .name = 'm'};
  owner lender = {0};
  ab_outbox_fini(f.outbox);
  f.outbox = NULL;
  cycle(&f, &lender, &m);
  size_t calls = f.mem.calls, live = f.mem.live;
  for (int i = 0; i < 1000; i++) cycle(&f, &lender, &m);
  CHECK_INT(calls, f.mem.calls);
  CHECK_INT(live, f.mem.live);
  CHECK_INT(7 * 1001, lender.released);
  fixture_fini(&f);
}

CHECK_CASE(the_pool_keeps_no_more_than_it_may) {
  for (size_t spare = 0; spare < 6; spare++) {
    fixture f;
    fixture_init_with(&f, spare, spare);
    ab_outbox *outboxes[5] = {f.outbox};
    for (int i = 1; i < 5; i++) outboxes[i] = ab_outbox_init(f.pool);
    for (int i = 0; i < 5; i++) put(outboxes[i], "one chunk each");
    CHECK_INT(1 + 5 + 5, f.mem.live);
    for (int i = 0; i < 5; i++) ab_outbox_fini(outboxes[i]);
    f.outbox = NULL;
    size_t kept = spare < 5 ? spare : 5, calls = f.mem.calls;
    CHECK_INT(1 + kept + kept, f.mem.live);
    for (size_t i = 0; i < kept; i++) {
      outboxes[i] = ab_outbox_init(f.pool);
      put(outboxes[i], "from the pool");
    }
    CHECK_INT(calls, f.mem.calls);
    for (size_t i = 0; i < kept; i++) ab_outbox_fini(outboxes[i]);
    fixture_fini(&f);
  }
}

CHECK_CASE(the_pool_is_last_in_first_out) {
  fixture f;
  fixture_init(&f);
  ab_outbox *second = ab_outbox_init(f.pool);
  ab_outbox_fini(second);
  ab_outbox_fini(f.outbox);
  CHECK(ab_outbox_init(f.pool) == f.outbox);
  CHECK(ab_outbox_init(f.pool) == second);
  ab_outbox_fini(second);
  fixture_fini(&f);
}

CHECK_CASE(an_outbox_comes_back_as_new) {
  fixture f;
  fixture_init(&f);
  for (int i = 0; i < 500; i++) lend(f.outbox, "many", NULL);
  ab_outbox_yield(f.outbox);
  ab_outbox_close(f.outbox);
  ab_outbox_fini(f.outbox);
  CHECK_INT(2, f.mem.live); /* the pool and the outbox: its long list has been freed */
  f.outbox = ab_outbox_init(f.pool);
  CHECK(!ab_outbox_closed(f.outbox));
  CHECK_INT(0, ab_outbox_queued(f.outbox));
  CHECK_INT(0, f.outbox->written);
  CHECK_INT(AB_OUTBOX_IDLE, next_op(f.outbox));
  put(f.outbox, "new");
  CHECK_SLICES(f.outbox, "new");
  fixture_fini(&f);
}

CHECK_MAIN()
