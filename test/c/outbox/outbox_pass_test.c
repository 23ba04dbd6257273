/* Passing pending bytes on to another outbox of the pool: what is lent by an owner, and files, are
 * not copied, and the owner is released once, when the last of its bytes has gone. */
#include "fixture.h"

enum { SOURCE_LEN = 1 << 16, PART = 16384 };

static char source[SOURCE_LEN];

/* All that is pending in `outbox`, compared with `len` bytes of the source from `from`. */
static void check_pending(ab_outbox *outbox, size_t from, size_t len) {
  ab_outbox_next_op next;
  while (len > 0) {
    ab_outbox_next(outbox, &next);
    CHECK_INT(AB_OUTBOX_WRITE, next.op);
    size_t part = next.iov[0].iov_len;
    CHECK(part <= len);
    CHECK(memcmp(next.iov[0].iov_base, source + from, part) == 0);
    CHECK_INT(AB_OK, ab_outbox_shift(outbox, part));
    from += part;
    len -= part;
  }
  CHECK_INT(0, ab_outbox_pending(outbox));
}

typedef struct two {
  fixture from;
  ab_outbox *to;
  owner lender;
} two;

static void two_init(two *self) {
  for (size_t i = 0; i < SOURCE_LEN; i++) source[i] = (char)(i * 31 + i / 251);
  memset(self, 0, sizeof *self);
  fixture_init_with(&self->from, 2, 8);
  self->to = ab_outbox_init(self->from.pool);
  CHECK_INT(AB_OK, ab_outbox_borrow(self->from.outbox, source, SOURCE_LEN, &self->lender));
}

static void two_fini(two *self) {
  ab_outbox_fini(self->to);
  fixture_fini(&self->from);
  CHECK_INT(1, self->lender.released);
}

CHECK_CASE(parts_are_not_copied) {
  two t;
  two_init(&t);
  for (size_t at = 0; at < SOURCE_LEN; at += PART) {
    CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, PART));
    ab_outbox_slice slice;
    CHECK(ab_outbox_slice_at(t.to, (uint32_t)(at / PART), &slice));
    CHECK(slice.ptr == source + at);
    CHECK(slice.owner == &t.lender);
    CHECK_INT(0, t.lender.released);
  }
  CHECK_INT(0, ab_outbox_pending(t.from.outbox));
  check_pending(t.to, 0, SOURCE_LEN);
  CHECK_INT(1, t.lender.released);
  two_fini(&t);
}

CHECK_CASE(a_whole_slice_takes_its_owner_along) {
  two t;
  two_init(&t);
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, SOURCE_LEN));
  CHECK_INT(0, t.lender.released);
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, SOURCE_LEN - 1));
  CHECK_INT(0, t.lender.released);
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, 1));
  CHECK_INT(1, t.lender.released);
  two_fini(&t);
}

/* Its stream was reset: what was passed on is still to be written. */
CHECK_CASE(the_rest_is_dropped) {
  two t;
  two_init(&t);
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, PART));
  CHECK_INT(SOURCE_LEN - PART, ab_outbox_drain(t.from.outbox));
  CHECK_INT(0, t.lender.released);
  check_pending(t.to, 0, PART);
  CHECK_INT(1, t.lender.released);
  two_fini(&t);
}

CHECK_CASE(what_was_passed_on_is_dropped_first) {
  two t;
  two_init(&t);
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, PART));
  CHECK_INT(PART, ab_outbox_drain(t.to));
  CHECK_INT(0, t.lender.released);
  check_pending(t.from.outbox, PART, SOURCE_LEN - PART);
  two_fini(&t);
}

/* Copies, short parts, and what nobody will say is done with. */
CHECK_CASE(the_rest_is_copied) {
  two t;
  two_init(&t);
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, 10));
  ab_outbox_slice slice;
  CHECK(ab_outbox_slice_at(t.to, 0, &slice) && !slice.owner && slice.ptr != source);
  check_pending(t.to, 0, 10);
  CHECK_INT(SOURCE_LEN - 10, ab_outbox_drain(t.from.outbox));
  CHECK_INT(1, t.lender.released);
  CHECK_INT(AB_OK, ab_outbox_write(t.from.outbox, source, 5000));
  CHECK_INT(AB_OK, ab_outbox_borrow(t.from.outbox, source + 5000, 5000, NULL));
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, 10000));
  for (uint32_t i = 0; ab_outbox_slice_at(t.to, i, &slice); i++) {
    CHECK(slice.ptr < source || slice.ptr >= source + SOURCE_LEN);
  }
  check_pending(t.to, 0, 10000);
  CHECK_INT(AB_EINVAL, ab_outbox_pass(t.from.outbox, t.to, 1));
  two_fini(&t);
}

/* A moved outbox that has shared slices: each part gets an owner of its own. */
static void *adopt(void *ctx, ab_outbox_slice *slice) {
  CHECK(slice->owner == ctx);
  return slice->owner;
}

CHECK_CASE(shared_slices_are_moved) {
  two t;
  two_init(&t);
  owner other = {0};
  ab_outbox *moved = ab_outbox_init(t.from.pool);
  CHECK_INT(AB_OK, ab_outbox_drain(t.from.outbox) == SOURCE_LEN ? AB_OK : AB_EINVAL);
  CHECK_INT(AB_OK, ab_outbox_borrow(t.from.outbox, source, SOURCE_LEN, &other));
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, PART));
  CHECK_INT(AB_OK, ab_outbox_move(t.to, moved, adopt, &other));
  CHECK_INT(0, other.released);
  check_pending(moved, 0, PART);
  CHECK_INT(1, other.released); /* the adopted one */
  ab_outbox_drain(t.from.outbox);
  CHECK_INT(2, other.released);
  ab_outbox_fini(moved);
  two_fini(&t);
}

CHECK_CASE(memory_may_run_out) {
  for (size_t fail_at = 1, failed = 1; failed > 0; fail_at++) {
    two t;
    two_init(&t);
    t.from.mem.fail_at = t.from.mem.calls + fail_at;
    failed = 0;
    for (size_t at = 0; at < SOURCE_LEN; at += SOURCE_LEN / 8) {
      failed += ab_outbox_pass(t.from.outbox, t.to, SOURCE_LEN / 8) == AB_ENOMEM;
      failed += ab_outbox_write(t.to, source, 1) == AB_ENOMEM;
    }
    CHECK(failed > 0 || fail_at > 2); /* the share, the slices' list, a chunk */
    two_fini(&t);
  }
}

/* --- files --- */

enum { FILE_FD = 7, FILE_AT = 1000 };

/* The same with `len` bytes of a file in place of the memory. */
static void files_init(two *self, uint64_t len) {
  memset(self, 0, sizeof *self);
  fixture_init_with(&self->from, 2, 8);
  self->to = ab_outbox_init(self->from.pool);
  CHECK_INT(AB_OK, ab_outbox_file(self->from.outbox, FILE_FD, FILE_AT, len, &self->lender));
}

static void check_file(const ab_outbox *outbox, uint32_t index, uint64_t offset, uint64_t len) {
  ab_outbox_slice slice;
  CHECK(ab_outbox_slice_at(outbox, index, &slice));
  CHECK(!slice.ptr);
  CHECK_INT(FILE_FD, slice.fd);
  CHECK_INT(offset, slice.offset);
  CHECK_INT(len, slice.len);
}

static void check_files(const two *self, uint32_t from, uint32_t to, size_t all) {
  CHECK_INT(from, ab_outbox_files(self->from.outbox));
  CHECK_INT(to, ab_outbox_files(self->to));
  CHECK_INT(all, ab_outbox_pool_files(self->from.pool));
}

/* As frames do: a head, and the part behind it. */
static void pass_frame(two *self, size_t len) {
  CHECK_INT(AB_OK, ab_outbox_write(self->to, "123456789", 9));
  CHECK_INT(AB_OK, ab_outbox_pass(self->from.outbox, self->to, len));
}

CHECK_CASE(parts_of_a_file_are_lent) {
  two t;
  files_init(&t, 3 * PART + 5);
  check_files(&t, 1, 0, 1);
  for (unsigned i = 0; i < 3; i++) {
    pass_frame(&t, PART);
    check_file(t.to, 2 * i + 1, FILE_AT + i * PART, PART);
    check_files(&t, 1, i + 1, 1); /* one descriptor */
  }
  CHECK_INT(5, ab_outbox_pending(t.from.outbox));
  check_file(t.from.outbox, 0, FILE_AT + 3 * PART, 5);
  pass_frame(&t, 5);
  check_files(&t, 0, 4, 1);
  CHECK_INT(4 * 9 + 3 * PART + 5, ab_outbox_pending(t.to));
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, ab_outbox_pending(t.to) - 1));
  check_files(&t, 0, 1, 1);
  CHECK_INT(0, t.lender.released);
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, 1));
  CHECK_INT(1, t.lender.released);
  check_files(&t, 0, 0, 0);
  two_fini(&t);
}

CHECK_CASE(a_whole_file_takes_its_owner_along) {
  two t;
  files_init(&t, PART);
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, PART));
  check_files(&t, 0, 1, 1);
  check_file(t.to, 0, FILE_AT, PART);
  CHECK_INT(0, t.lender.released);
  CHECK_INT(PART, ab_outbox_drain(t.to));
  CHECK_INT(1, t.lender.released);
  check_files(&t, 0, 0, 0);
  two_fini(&t);
}

/* What comes next, sent by any number of bytes at a time, across the ends of slices. */
CHECK_CASE(heads_and_parts_leave_in_order) {
  for (size_t step = 1; step < 12000; step = step * 3 + 1) {
    two t;
    files_init(&t, 3 * PART);
    for (int i = 0; i < 3; i++) pass_frame(&t, PART);
    for (size_t at = 0; at < 3 * (9 + PART);) {
      size_t in_frame = at % (9 + PART), frame = at / (9 + PART);
      ab_outbox_next_op next;
      ab_outbox_next(t.to, &next);
      if (in_frame < 9) {
        CHECK_INT(AB_OUTBOX_WRITE, next.op);
        CHECK_INT(9 - in_frame, next.bytes);
        CHECK(next.file_follows);
      } else {
        CHECK_INT(AB_OUTBOX_FILE, next.op);
        CHECK(!next.file_follows);
        CHECK_INT(FILE_AT + frame * PART + in_frame - 9, next.file_offset);
        CHECK_INT(9 + PART - in_frame, next.file_len);
      }
      size_t len = 3 * (9 + PART) - at < step ? 3 * (9 + PART) - at : step;
      CHECK_INT(AB_OK, ab_outbox_shift(t.to, len));
      at += len;
    }
    CHECK_INT(1, t.lender.released);
    two_fini(&t);
  }
}

CHECK_CASE(memory_behind_which_no_file_comes) {
  two t;
  files_init(&t, 1);
  ab_outbox_next_op next;
  CHECK_INT(AB_OK, ab_outbox_write(t.to, "x", 1));
  ab_outbox_next(t.to, &next);
  CHECK(!next.file_follows);
  for (int i = 0; i < AB_OUTBOX_IOV_MAX; i++) {
    CHECK_INT(AB_OK, ab_outbox_borrow(t.to, source, 1, NULL));
  }
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, 1));
  ab_outbox_next(t.to, &next);
  CHECK_INT(AB_OUTBOX_IOV_MAX, next.iov_count);
  CHECK(!next.file_follows); /* there is more memory before it */
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, 1));
  ab_outbox_next(t.to, &next);
  CHECK_INT(AB_OUTBOX_IOV_MAX, next.iov_count);
  CHECK(next.file_follows);
  two_fini(&t);
}

CHECK_CASE(the_rest_of_a_file_is_dropped) {
  two t;
  files_init(&t, 2 * PART);
  pass_frame(&t, PART);
  CHECK_INT(PART, ab_outbox_drain(t.from.outbox));
  CHECK_INT(0, t.lender.released);
  check_files(&t, 0, 1, 1);
  CHECK_INT(AB_OK, ab_outbox_shift(t.to, 9 + PART));
  CHECK_INT(1, t.lender.released);
  check_files(&t, 0, 0, 0);
  two_fini(&t);
}

CHECK_CASE(parts_of_a_file_are_dropped_first) {
  two t;
  files_init(&t, 2 * PART);
  pass_frame(&t, PART);
  CHECK_INT(9 + PART, ab_outbox_drain(t.to));
  CHECK_INT(0, t.lender.released);
  check_files(&t, 1, 0, 1);
  pass_frame(&t, PART);
  check_file(t.to, 1, FILE_AT + PART, PART);
  two_fini(&t);
}

CHECK_CASE(parts_of_a_file_are_taken_back) {
  two t;
  files_init(&t, 2 * PART);
  pass_frame(&t, PART);
  ab_outbox_take_back(t.to, 10);
  check_file(t.to, 1, FILE_AT, PART - 10);
  ab_outbox_take_back(t.to, PART - 10);
  check_files(&t, 1, 0, 1);
  CHECK_INT(0, t.lender.released);
  two_fini(&t);
}

/* A descriptor that nobody takes back. */
CHECK_CASE(a_file_without_an_owner) {
  two t;
  files_init(&t, 1);
  CHECK_INT(AB_OK, ab_outbox_file(t.from.outbox, FILE_FD, 0, 2 * PART, NULL));
  CHECK_INT(AB_OK, ab_outbox_pass(t.from.outbox, t.to, 1 + PART));
  check_file(t.to, 1, 0, PART);
  check_file(t.from.outbox, 0, PART, PART);
  ab_outbox_drain(t.from.outbox);
  ab_outbox_drain(t.to);
  check_files(&t, 0, 0, 0);
  CHECK_INT(1, t.from.released);
  two_fini(&t);
}

/* Another descriptor of the file, for each part. */
static void *adopt_file(void *ctx, ab_outbox_slice *slice) {
  CHECK(slice->owner == ctx);
  slice->fd++;
  return slice->owner;
}

CHECK_CASE(parts_of_files_are_moved) {
  two t;
  files_init(&t, 3 * PART);
  ab_outbox *moved = ab_outbox_init(t.from.pool);
  pass_frame(&t, PART);
  pass_frame(&t, PART);
  CHECK_INT(AB_OK, ab_outbox_move(t.to, moved, adopt_file, &t.lender));
  CHECK_INT(2, ab_outbox_files(moved));
  check_files(&t, 1, 0, 3);
  ab_outbox_slice slice;
  CHECK(ab_outbox_slice_at(moved, 3, &slice));
  CHECK_INT(FILE_FD + 1, slice.fd);
  CHECK_INT(FILE_AT + PART, slice.offset);
  ab_outbox_drain(moved);
  CHECK_INT(2, t.lender.released); /* the adopted ones */
  ab_outbox_drain(t.from.outbox);
  CHECK_INT(3, t.lender.released);
  check_files(&t, 0, 0, 0);
  t.lender.released = 1;
  ab_outbox_fini(moved);
  two_fini(&t);
}

/* Whatever fails: each byte is in one of the two, in order, and the owner is released once. */
CHECK_CASE(memory_may_run_out_for_files) {
  for (size_t fail_at = 1, failed = 1; failed > 0; fail_at++) {
    two t;
    files_init(&t, 8 * PART);
    t.from.mem.fail_at = t.from.mem.calls + fail_at;
    failed = 0;
    uint64_t passed = 0;
    for (int i = 0; i < 8; i++) {
      if (ab_outbox_write(t.to, "123456789", 9) != AB_OK) failed++;
      uint32_t index = ab_outbox_slices(t.to);
      int error = ab_outbox_pass(t.from.outbox, t.to, PART);
      if (error) {
        CHECK_INT(AB_ENOMEM, error);
        CHECK_INT(index, ab_outbox_slices(t.to));
        failed++;
      } else {
        check_file(t.to, index, FILE_AT + passed, PART);
        passed += PART;
      }
    }
    CHECK_INT(8 * PART - passed, ab_outbox_pending(t.from.outbox));
    CHECK_INT(1, ab_outbox_pool_files(t.from.pool));
    CHECK(failed > 0 || fail_at > 2); /* the share, the slices' list, a chunk */
    two_fini(&t);
  }
}

CHECK_MAIN()
