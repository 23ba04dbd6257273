/* Moving what is pending from one pool's outbox to another's; how slices are shown; chunks of other
 * sizes than the usual one. */
#include "fixture.h"

enum { SOURCE_LEN = 1 << 16, LENDERS = 512 };

/* Two pools on one allocator. What `from` borrowed has an owner of `lent`, what `to` took over one
 * of `adopted`, with the same index. */
typedef struct pair {
  fixture from;
  ab_outbox_pool *pool;
  ab_outbox *to;
  owner lent[LENDERS], adopted[LENDERS];
  size_t lent_count, adopted_count, released;
  size_t refuse_at; /* the call of adopt that fails, from 1; 0: none */
} pair;

static void release_adopted(void *ctx, void *released) {
  ((pair *)ctx)->released++;
  ((owner *)released)->released++;
}

static void pair_init(pair *self, size_t chunks, size_t room) {
  memset(self, 0, sizeof(*self));
  fixture_init_with(&self->from, 1, chunks);
  self->pool = ab_outbox_pool_init(&self->from.mem.mem, release_adopted, self, 1, chunks);
  if (room) ab_outbox_pool_set_room(self->pool, room);
  self->to = ab_outbox_init(self->pool);
}

static void pair_fini(pair *self) {
  ab_outbox_fini(self->to);
  CHECK_INT(0, self->pool->outboxes_out);
  CHECK_INT(0, self->pool->chunks_out);
  ab_outbox_pool_fini(self->pool);
  fixture_fini(&self->from);
  CHECK_INT(self->lent_count, self->from.released);
  CHECK_INT(self->adopted_count, self->released);
  for (size_t i = 0; i < self->lent_count; i++) CHECK_INT(1, self->lent[i].released);
}

static void *adopt(void *ctx, ab_outbox_slice *slice) {
  pair *self = ctx;
  if (self->refuse_at > 0 && --self->refuse_at == 0) return NULL;
  if (!slice->ptr) slice->fd += 100;
  return &self->adopted[self->adopted_count++];
}

static void lend(pair *self, const char *ptr, size_t len, bool file) {
  owner *lender = &self->lent[self->lent_count];
  int result = file ? ab_outbox_file(self->from.outbox, 7, 0, len, lender)
                    : ab_outbox_borrow(self->from.outbox, ptr, len, lender);
  if (result == AB_OK) self->lent_count++;
}

static void put(ab_outbox *outbox, const char *text) {
  CHECK_INT(AB_OK, ab_outbox_write(outbox, text, strlen(text)));
}

CHECK_CASE(slices_are_shown) {
  pair p;
  pair_init(&p, 4, 0);
  ab_outbox *outbox = p.from.outbox;
  ab_outbox_slice slice;
  CHECK(!ab_outbox_slice_at(outbox, 0, &slice));
  put(outbox, "copied");
  lend(&p, "lent", 4, false);
  lend(&p, NULL, 9, true);
  CHECK(ab_outbox_slice_at(outbox, 0, &slice));
  CHECK_BYTES("copied", slice.ptr, slice.len);
  CHECK(slice.owner == NULL);
  CHECK(ab_outbox_slice_at(outbox, 1, &slice));
  CHECK_BYTES("lent", slice.ptr, slice.len);
  CHECK(slice.owner == &p.lent[0]);
  CHECK_INT(AB_OK, ab_outbox_shift(outbox, 12)); /* two bytes into the file */
  CHECK(ab_outbox_slice_at(outbox, 0, &slice));
  CHECK(slice.ptr == NULL && slice.owner == &p.lent[1]);
  CHECK_INT(7, slice.fd);
  CHECK_INT(2, slice.offset);
  CHECK_INT(7, slice.len);
  CHECK(!ab_outbox_slice_at(outbox, 1, &slice));
  pair_fini(&p);
}

CHECK_CASE(chunks_of_any_size) {
  static const size_t rooms[] = {1, 2, 16, 1000, 100000};
  for (size_t i = 0; i < AB_ARRAY_LEN(rooms); i++) {
    pair p;
    pair_init(&p, 4, rooms[i]);
    CHECK_INT(rooms[i], ab_outbox_room(p.to));
    put(p.to, "te");
    put(p.to, "s");
    put(p.to, "ting");
    CHECK_INT(rooms[i] - 7 % rooms[i], ab_outbox_room(p.to));
    char all[16];
    size_t used = 0;
    ab_outbox_slice slice;
    for (uint32_t k = 0; ab_outbox_slice_at(p.to, k, &slice); k++) {
      CHECK(slice.len <= rooms[i]);
      memcpy(all + used, slice.ptr, slice.len);
      used += slice.len;
    }
    CHECK_BYTES("testing", all, used);
    CHECK(rooms[i] >= AB_OUTBOX_PREPARE_MAX ||
          ab_outbox_prepare(p.to, 1, rooms[i] + 1) == AB_ENOMEM);
    CHECK(ab_outbox_pool_memory(p.pool) > used);
    pair_fini(&p);
  }
}

CHECK_CASE(moved_behind_what_is_there) {
  pair p;
  pair_init(&p, 4, 0);
  put(p.to, "head ");
  put(p.from.outbox, "one ");
  lend(&p, "two ", 4, false);
  put(p.from.outbox, "three");
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_SLICES(p.to, "head ", "one ", "two ", "three");
  CHECK_INT(18, ab_outbox_pending(p.to));
  CHECK_INT(0, ab_outbox_pending(p.from.outbox));
  CHECK_INT(13, p.from.outbox->written);
  CHECK_INT(1, p.lent[0].released);
  CHECK_INT(0, p.adopted[0].released);
  /* Both go on, and neither writes into the other's memory. */
  put(p.to, " tail");
  put(p.from.outbox, "again");
  CHECK_SLICES(p.to, "head ", "one ", "two ", "three", " tail");
  CHECK_SLICES(p.from.outbox, "again");
  CHECK_INT(AB_OK, ab_outbox_shift(p.to, 13));
  CHECK_INT(1, p.adopted[0].released);
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_SLICES(p.to, "three", " tail", "again");
  pair_fini(&p);
}

CHECK_CASE(files_get_the_new_descriptor) {
  pair p;
  pair_init(&p, 4, 0);
  lend(&p, NULL, 50, true);
  CHECK_INT(AB_OK, ab_outbox_shift(p.from.outbox, 20));
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  ab_outbox_next_op next;
  ab_outbox_next(p.to, &next);
  CHECK_INT(AB_OUTBOX_FILE, next.op);
  CHECK_INT(107, next.file_fd);
  CHECK_INT(20, next.file_offset);
  CHECK_INT(30, next.file_len);
  pair_fini(&p);
}

CHECK_CASE(constants_need_no_owner) {
  pair p;
  pair_init(&p, 4, 0);
  CHECK_INT(AB_OK, ab_outbox_borrow(p.from.outbox, "constant", 8, NULL));
  p.refuse_at = 1;
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_SLICES(p.to, "constant");
  CHECK_INT(0, p.adopted_count);
  pair_fini(&p);
}

static void count_fired(void *arg, enum ab_flush_reason reason) {
  if (reason == AB_FLUSH_WRITTEN) ++*(int *)arg;
}

CHECK_CASE(marks_fire) {
  pair p;
  pair_init(&p, 4, 0);
  int fired = 0;
  put(p.from.outbox, "bytes");
  CHECK_INT(AB_OK, ab_outbox_flush(p.from.outbox, count_fired, &fired));
  ab_outbox_yield(p.from.outbox);
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_INT(1, fired);
  CHECK_INT(AB_OUTBOX_IDLE, next_op(p.from.outbox));
  CHECK_INT(AB_OUTBOX_WRITE, next_op(p.to));
  pair_fini(&p);
}

CHECK_CASE(refused_and_unchanged) {
  pair p;
  pair_init(&p, 4, 0);
  put(p.to, "there");
  for (int i = 0; i < 6; i++) {
    put(p.from.outbox, "c");
    lend(&p, "b", 1, false);
  }
  for (size_t at = 1; at <= 6; at++) {
    p.refuse_at = at;
    CHECK_INT(AB_ENOMEM, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
    CHECK_SLICES(p.from.outbox, "c", "b", "c", "b", "c", "b", "c", "b", "c", "b", "c", "b");
    CHECK_SLICES(p.to, "there");
    CHECK_INT(p.adopted_count, p.released); /* those that it had taken were given back */
    CHECK_INT(0, p.from.released);
  }
  ab_outbox_close(p.to);
  CHECK_INT(AB_ECLOSED, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_INT(12, ab_outbox_pending(p.from.outbox));
  pair_fini(&p);
}

CHECK_CASE(too_much_to_count) {
  pair p;
  pair_init(&p, 4, 0);
  const uint64_t most = INT64_MAX;
  CHECK_INT(AB_OK, ab_outbox_file(p.to, 3, 0, most, NULL));
  put(p.from.outbox, "x");
  CHECK_INT(AB_EINVAL, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_SLICES(p.from.outbox, "x");
  pair_fini(&p);
}

/* With a spare chunk for each that goes, writing and moving for ever takes no memory. */
CHECK_CASE(the_steady_state_allocates_nothing) {
  static const char piece[10000];
  pair p;
  pair_init(&p, 8, 0);
  size_t calls = 0;
  for (int round = 0; round < 100; round++) {
    if (round == 10) calls = p.from.mem.calls;
    CHECK_INT(AB_OK, ab_outbox_write(p.from.outbox, piece, sizeof(piece)));
    CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
    CHECK_INT(AB_OK, ab_outbox_shift(p.to, sizeof(piece)));
  }
  CHECK_INT(calls, p.from.mem.calls);
  CHECK(p.pool->spare_chunks + p.from.pool->spare_chunks <= 16);
  pair_fini(&p);
}

/* Chunks of another size are freed when they are done, not recycled. */
CHECK_CASE(pools_of_different_rooms) {
  pair p;
  pair_init(&p, 8, 100);
  put(p.from.outbox, "usual chunk");
  put(p.to, "small chunk ");
  CHECK_INT(AB_OK, ab_outbox_move(p.from.outbox, p.to, adopt, &p));
  CHECK_SLICES(p.to, "small chunk ", "usual chunk");
  CHECK_INT(AB_OK, ab_outbox_shift(p.to, 23));
  CHECK_INT(1, p.pool->spare_chunks);
  CHECK_INT(100, ab_outbox_room(p.to));
  pair_fini(&p);
}

/* Random pieces go in at one end and come out at the other, with moves and shifts at any time. */
static bool play(uint64_t seed, size_t fail_at) {
  static char source[SOURCE_LEN];
  uint64_t random = seed;
  random_fill(&random, source, SOURCE_LEN);
  pair p;
  pair_init(&p, random_below(&random, 6), 0);
  if (fail_at) p.from.mem.fail_at = p.from.mem.calls + fail_at;
  size_t in = 0, moved = 0, out = 0;
  for (int step = 0; step < 400 && p.lent_count < LENDERS; step++) {
    size_t len = random_below(&random, step % 5 == 0 ? 9000 : 60);
    if (len > SOURCE_LEN - in) len = SOURCE_LEN - in;
    size_t before = (size_t)ab_outbox_pending(p.from.outbox);
    if (random_below(&random, 4) == 0) {
      lend(&p, source + in, len, false);
    } else {
      (void)!ab_outbox_write(p.from.outbox, source + in, len);
    }
    in += (size_t)ab_outbox_pending(p.from.outbox) - before;
    bool room = p.adopted_count + ab__deque_count(&p.from.outbox->slices) < LENDERS;
    if (room && random_below(&random, 5) == 0 &&
        ab_outbox_move(p.from.outbox, p.to, adopt, &p) == AB_OK)
      moved = in;
    CHECK_INT(in - moved, ab_outbox_pending(p.from.outbox));
    CHECK_INT(moved - out, ab_outbox_pending(p.to));
    if (random_below(&random, 3) > 0) continue;
    ab_outbox_next_op next;
    ab_outbox_next(p.to, &next);
    for (int i = 0; i < next.iov_count; i++) {
      CHECK(memcmp(source + out, next.iov[i].iov_base, next.iov[i].iov_len) == 0);
      size_t taken = random_below(&random, next.iov[i].iov_len + 1);
      CHECK_INT(AB_OK, ab_outbox_shift(p.to, taken));
      out += taken;
      if (taken < next.iov[i].iov_len) break;
    }
  }
  CHECK(out > 0 || fail_at);
  bool failed = fail_at && p.from.mem.calls >= p.from.mem.fail_at;
  pair_fini(&p);
  return failed;
}

CHECK_CASE(any_moves_keep_the_order) {
  for (uint64_t seed = 1; seed <= 100; seed++) play(seed * 0x9e3779b97f4a7c15ULL, 0);
}

CHECK_CASE(memory_may_run_out_at_any_call) {
  size_t fail_at = 1;
  while (fail_at < 5000 && play(77, fail_at)) fail_at++;
  CHECK(fail_at > 10); /* the run does make that many calls */
  CHECK(fail_at < 5000);
}

CHECK_MAIN()
