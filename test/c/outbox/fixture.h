/* A pool on a counting allocator, one outbox, and owners that count how often they were released.
 */
#ifndef AB_TEST_OUTBOX_FIXTURE_H
#define AB_TEST_OUTBOX_FIXTURE_H

#include "check.h"
#include "outbox/internal.h"
#include "random.h"

typedef struct fixture {
  check_mem mem;
  ab_outbox_pool *pool;
  ab_outbox *outbox;
  size_t released;
} fixture;

typedef struct owner {
  int released;
} owner;

static AB_UNUSED void fixture_release(void *ctx, void *released) {
  ((fixture *)ctx)->released++;
  ((owner *)released)->released++;
}

static AB_UNUSED void fixture_init_with(fixture *self, size_t outboxes, size_t chunks) {
  self->released = 0;
  check_mem_init(&self->mem, 0);
  self->pool = ab_outbox_pool_init(&self->mem.mem, fixture_release, self, outboxes, chunks);
  self->outbox = ab_outbox_init(self->pool);
}

static AB_UNUSED void fixture_init(fixture *self) {
  fixture_init_with(self, 4, 16);
}

/* Checks that everything goes back: to the pool first, then to the system. */
static AB_UNUSED void fixture_fini(fixture *self) {
  if (self->outbox) ab_outbox_fini(self->outbox);
  CHECK_INT(0, self->pool->outboxes_out);
  CHECK_INT(0, self->pool->chunks_out);
  ab_outbox_pool_fini(self->pool);
  CHECK_INT(0, self->mem.live);
}

static AB_UNUSED enum ab_outbox_op next_op(ab_outbox *outbox) {
  ab_outbox_next_op next;
  ab_outbox_next(outbox, &next);
  return next.op;
}

/* Compares what comes next, slice by slice, with a list of literals that NULL ends. */
static AB_UNUSED void check_slices(ab_outbox *outbox, const char *const *expected) {
  ab_outbox_next_op next;
  ab_outbox_next(outbox, &next);
  CHECK_INT(AB_OUTBOX_WRITE, next.op);
  int count = 0;
  size_t bytes = 0;
  for (; expected[count] && count < next.iov_count; count++) {
    CHECK_BYTES(expected[count], next.iov[count].iov_base, next.iov[count].iov_len);
    bytes += next.iov[count].iov_len;
  }
  CHECK(!expected[count]);
  CHECK_INT(count, next.iov_count);
  CHECK_INT(bytes, next.bytes);
}

#define CHECK_SLICES(outbox, ...) check_slices(outbox, (const char *const[]){__VA_ARGS__, NULL})

static AB_UNUSED void random_fill(uint64_t *state, char *bytes, size_t len) {
  for (size_t i = 0; i < len; i++) bytes[i] = (char)random_next(state);
}

#endif
