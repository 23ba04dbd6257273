/* Passing pending bytes on to another outbox of the pool: what is lent by an owner is not copied,
 * and the owner is released once, when the last of its bytes has gone. */
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

CHECK_MAIN()
