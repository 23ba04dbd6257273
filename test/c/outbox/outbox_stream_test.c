/* Streams through an outbox: any partition of a string into writes, prepared writes, borrows and
 * files, with shifts at any place in between, comes out as that string; memory that runs out at any
 * call loses nothing; much data needs little memory. */
#include "fixture.h"

enum { SOURCE_LEN = 1 << 18, LENDERS_MAX = 4096, MARKS_MAX = 512 };

/* What goes in is a prefix of `source`; what comes out is compared with it byte by byte. A file
 * slice is a range of `source` too. */
typedef struct stream {
  fixture f;
  char *source;
  size_t in, out;
  owner lenders[LENDERS_MAX];
  size_t lent;
  size_t marks, fired;
  uint64_t thresholds[MARKS_MAX];
  uint64_t random;
  size_t refused; /* calls that failed for want of memory */
} stream;

static void stream_init(stream *self, uint64_t seed) {
  *self = (stream){.random = seed, .source = malloc(SOURCE_LEN)};
  random_fill(&self->random, self->source, SOURCE_LEN);
}

static void stream_fini(stream *self) {
  fixture_fini(&self->f);
  CHECK_INT(self->lent, self->f.released);
  for (size_t i = 0; i < self->lent; i++) CHECK_INT(1, self->lenders[i].released);
  CHECK_INT(self->marks, self->fired);
  free(self->source);
}

/* Marks fire in order, and not before their threshold. */
static void stream_fired(void *arg, enum ab_flush_reason reason AB_UNUSED) {
  stream *self = arg;
  CHECK(self->fired < self->marks);
  CHECK((int64_t)(self->f.outbox->written - self->thresholds[self->fired]) >= 0);
  self->fired++;
}

static void stream_flush(stream *self) {
  if (self->marks == MARKS_MAX) return;
  self->thresholds[self->marks++] = ab_outbox_queued(self->f.outbox);
  if (ab_outbox_flush(self->f.outbox, stream_fired, self) == AB_OK) return;
  self->marks--;
  self->refused++;
}

/* What was prepared for is written without another allocation. */
static bool stream_prepare(stream *self, size_t *len) {
  if (*len > AB_OUTBOX_PREPARE_MAX) *len = AB_OUTBOX_PREPARE_MAX;
  if (ab_outbox_prepare(self->f.outbox, 1, *len) != AB_OK) return false;
  *len = random_below(&self->random, *len + 1);
  CHECK_INT(AB_OK, ab_outbox_write(self->f.outbox, self->source + self->in, *len));
  return true;
}

/* Borrows, or queues a file range; a refused owner stays ours and is used again. */
static bool stream_lend(stream *self, size_t len, bool file) {
  if (self->lent == LENDERS_MAX) return false;
  owner *lender = &self->lenders[self->lent];
  int result = file ? ab_outbox_file(self->f.outbox, 9, self->in, len, lender)
                    : ab_outbox_borrow(self->f.outbox, self->source + self->in, len, lender);
  if (result == AB_OK) self->lent++;
  CHECK_INT(result == AB_OK && len == 0, lender->released);
  return result == AB_OK;
}

/* Queues up to `len` bytes of the source in one of the four ways. */
static void stream_put(stream *self, size_t len) {
  if (len > SOURCE_LEN - self->in) len = SOURCE_LEN - self->in;
  bool done;
  switch (random_below(&self->random, 8)) {
  case 0:
    done = stream_lend(self, len, false);
    break;
  case 1:
    done = stream_lend(self, len, true);
    break;
  case 2:
  case 3:
    done = stream_prepare(self, &len);
    break;
  default:
    done = ab_outbox_write(self->f.outbox, self->source + self->in, len) == AB_OK;
  }
  if (done)
    self->in += len;
  else
    self->refused++;
  CHECK_INT(self->in - self->out, ab_outbox_pending(self->f.outbox));
}

/* Takes back what was queued last, as far as no mark has reported it. */
static void stream_take_back(stream *self) {
  uint64_t free = ab_outbox_pending(self->f.outbox);
  if (self->marks > self->fired) {
    free = ab_outbox_queued(self->f.outbox) - self->thresholds[self->marks - 1];
  }
  uint64_t n = random_below(&self->random, free + 1);
  ab_outbox_take_back(self->f.outbox, n);
  self->in -= n;
  CHECK_INT(self->in - self->out, ab_outbox_pending(self->f.outbox));
}

static size_t compare_iov(const stream *self, const ab_outbox_next_op *next) {
  size_t at = self->out;
  CHECK(next->iov_count > 0 && next->iov_count <= AB_OUTBOX_IOV_MAX);
  for (int i = 0; i < next->iov_count; i++) {
    CHECK(next->iov[i].iov_len > 0);
    CHECK(memcmp(self->source + at, next->iov[i].iov_base, next->iov[i].iov_len) == 0);
    at += next->iov[i].iov_len;
  }
  CHECK_INT(next->bytes, at - self->out);
  return next->bytes;
}

/* Looks at what comes next, and shifts all of it or a part. Returns what ab_outbox_next said. */
static enum ab_outbox_op stream_take(stream *self, bool all) {
  ab_outbox_next_op next;
  ab_outbox_next(self->f.outbox, &next);
  size_t len = 0;
  if (next.op == AB_OUTBOX_WRITE) {
    len = compare_iov(self, &next);
    CHECK(len <= AB_OUTBOX_BYTES_MAX);
  } else if (next.op == AB_OUTBOX_FILE) {
    CHECK_INT(9, next.file_fd);
    CHECK_INT(self->out, next.file_offset);
    len = next.file_len;
  } else {
    CHECK_INT(self->in, self->out);
  }
  if (!all) len = random_below(&self->random, len + 1);
  CHECK_INT(AB_OK, ab_outbox_shift(self->f.outbox, len));
  self->out += len;
  return next.op;
}

/* Takes everything; an outbox that stops giving is a failure, not a hang. */
static void stream_take_rest(stream *self) {
  for (int turns = 0; turns < 10000; turns++) {
    enum ab_outbox_op op = stream_take(self, true);
    if (op == AB_OUTBOX_IDLE || op == AB_OUTBOX_CLOSE) break;
  }
  CHECK_INT(self->in, self->out);
}

static size_t piece_length(stream *self) {
  static const size_t bounds[] = {2, 20, 300, 5000, 50000};
  return random_below(&self->random, bounds[random_below(&self->random, AB_ARRAY_LEN(bounds))]);
}

CHECK_CASE(any_partition_serialises_to_the_string) {
  for (uint64_t round = 0; round < 200; round++) {
    stream s;
    stream_init(&s, 0x9e3779b97f4a7c15ULL * (round + 1));
    fixture_init_with(&s.f, round % 3, round % 7);
    s.f.outbox->queued = s.f.outbox->written =
        0 - (uint64_t)random_below(&s.random, 2 * SOURCE_LEN);
    size_t eagerness = 1 + random_below(&s.random, 6);
    for (int step = 0; step < 600 && s.in < SOURCE_LEN; step++) {
      stream_put(&s, piece_length(&s));
      if (random_below(&s.random, 8) == 0) stream_flush(&s);
      if (random_below(&s.random, 6) == 0) stream_take_back(&s);
      if (random_below(&s.random, eagerness) == 0) stream_take(&s, false);
    }
    CHECK_INT(0, s.refused);
    if (round % 2) ab_outbox_close(s.f.outbox);
    switch (round % 4) {
    case 0: /* what is pending is dropped by fini */
      break;
    case 1:
      CHECK_INT(s.in - s.out, ab_outbox_drain(s.f.outbox));
      break;
    default:
      stream_take_rest(&s);
      CHECK_INT(s.marks, s.fired);
      CHECK_INT(round % 2 ? AB_OUTBOX_CLOSE : AB_OUTBOX_IDLE, stream_take(&s, true));
    }
    stream_fini(&s);
  }
}

CHECK_CASE(one_byte_at_a_time) {
  stream s;
  stream_init(&s, 11);
  fixture_init(&s.f);
  while (s.in < 12000 && s.lent < LENDERS_MAX) {
    stream_put(&s, 1);
    if (s.in % 97 == 0) stream_flush(&s);
  }
  CHECK(s.in > 10000);
  while (s.out < s.in) {
    CHECK_INT(AB_OK, ab_outbox_shift(s.f.outbox, 1));
    s.out++;
    if (s.out % 100 == 0) stream_take(&s, false);
  }
  CHECK_INT(AB_OUTBOX_IDLE, stream_take(&s, true));
  CHECK_INT(s.marks, s.fired);
  stream_fini(&s);
}

/* One run with memory refused at call `fail_at`; false when the run needed fewer calls. */
static bool run_with_failure(size_t fail_at) {
  stream s;
  stream_init(&s, 77);
  check_mem_init(&s.f.mem, fail_at);
  s.f.pool = ab_outbox_pool_init(&s.f.mem.mem, fixture_release, &s.f, 1, 0);
  s.f.outbox = s.f.pool ? ab_outbox_init(s.f.pool) : NULL;
  if (!s.f.outbox) {
    if (s.f.pool) ab_outbox_pool_fini(s.f.pool);
    CHECK_INT(0, s.f.mem.live);
    free(s.source);
    return true;
  }
  for (int step = 0; step < 120; step++) {
    stream_put(&s, piece_length(&s));
    if (step % 3 == 0) stream_flush(&s);
    if (step % 10 == 9) stream_take(&s, false);
    if (step % 7 == 5) stream_take_back(&s);
  }
  stream_take_rest(&s);
  bool failed = s.f.mem.calls >= fail_at;
  /* A growth that fails may be made up for by a move, so a failure may go unseen. */
  CHECK(s.refused <= (failed ? 1 : 0));
  stream_put(&s, 1000);
  stream_take_rest(&s);
  stream_fini(&s);
  return failed;
}

CHECK_CASE(memory_may_run_out_at_any_call) {
  size_t fail_at = 1;
  while (fail_at < 10000 && run_with_failure(fail_at)) fail_at++;
  CHECK(fail_at > 25); /* the run does make that many calls */
  CHECK(fail_at < 10000);
}

/* Every call fails from some point on: nothing new gets in, and what was in comes out. */
CHECK_CASE(memory_may_stay_away) {
  stream s;
  stream_init(&s, 5);
  fixture_init_with(&s.f, 0, 0);
  for (int step = 0; step < 50; step++) stream_put(&s, piece_length(&s));
  for (int step = 0; step < 300; step++) {
    s.f.mem.fail_at = s.f.mem.calls + 1;
    stream_put(&s, piece_length(&s));
    s.f.mem.fail_at = s.f.mem.calls + 1;
    stream_flush(&s);
  }
  CHECK(s.refused > 0);
  stream_take_rest(&s);
  stream_fini(&s);
}

CHECK_CASE(ten_megabytes_need_little_memory) {
  enum { TOTAL = 10 << 20, PIECE = 16384 };
  fixture f;
  fixture_init(&f);
  uint64_t random = 3, written = 0, read = 0;
  char *piece = malloc(PIECE);
  random_fill(&random, piece, PIECE);
  size_t most_live = 0;
  while (read < TOTAL) {
    if (written < TOTAL && ab_outbox_pending(f.outbox) < 8 * PIECE) {
      CHECK_INT(AB_OK, ab_outbox_write(f.outbox, piece, PIECE));
      written += PIECE;
    }
    ab_outbox_next_op next;
    ab_outbox_next(f.outbox, &next);
    for (int i = 0; i < next.iov_count; i++) {
      const char *bytes = next.iov[i].iov_base;
      size_t taken = next.iov[i].iov_len, at = read % PIECE;
      size_t same = taken < PIECE - at ? taken : PIECE - at;
      CHECK(memcmp(bytes, piece + at, same) == 0);
      CHECK(memcmp(bytes + same, piece, taken - same) == 0);
      size_t shifted = i + 1 < next.iov_count ? taken : random_below(&random, taken + 1);
      CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, shifted));
      read += shifted;
    }
    if (f.mem.live > most_live) most_live = f.mem.live;
  }
  CHECK_INT(TOTAL, read);
  CHECK(most_live <= 2 + 1 + 10 * PIECE / AB_OUTBOX_CHUNK_SIZE + 2);
  fixture_fini(&f);
  free(piece);
}

CHECK_CASE(ten_megabytes_in_one_write) {
  enum { TOTAL = 10 << 20 };
  fixture f;
  fixture_init(&f);
  uint64_t random = 4;
  size_t read = 0;
  char *all = malloc(TOTAL);
  random_fill(&random, all, TOTAL);
  CHECK_INT(AB_OK, ab_outbox_write(f.outbox, "head", 4));
  CHECK_INT(AB_OK, ab_outbox_write(f.outbox, all, TOTAL));
  CHECK_INT(2, f.pool->chunks_out);
  CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, 4));
  while (read < TOTAL) {
    ab_outbox_next_op next;
    ab_outbox_next(f.outbox, &next);
    CHECK(next.bytes > 0 && next.bytes <= AB_OUTBOX_BYTES_MAX);
    size_t at = read;
    for (int i = 0; i < next.iov_count; i++) {
      CHECK(memcmp(all + at, next.iov[i].iov_base, next.iov[i].iov_len) == 0);
      at += next.iov[i].iov_len;
    }
    CHECK_INT(AB_OK, ab_outbox_shift(f.outbox, next.bytes));
    read += next.bytes;
  }
  CHECK_INT(TOTAL, read);
  CHECK_INT(0, f.pool->chunks_out);
  CHECK_INT(3, f.mem.live); /* pool, outbox and one standard chunk: the long one has been freed */
  fixture_fini(&f);
  free(all);
}

CHECK_MAIN()
