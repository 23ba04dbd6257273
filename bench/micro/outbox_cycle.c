/* What one response costs in the outbox, in nanoseconds: the best of several runs, warm.
 *
 * gcc -std=c11 -D_GNU_SOURCE -O2 -Iext/abaca bench/micro/outbox_cycle.c ext/abaca/base/mem.c \
 *     ext/abaca/outbox/deque.c ext/abaca/outbox/outbox.c ext/abaca/outbox/outbox_pool.c \
 *     -o tmp/outbox_cycle && tmp/outbox_cycle
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "outbox/outbox.h"

enum { RUNS = 15, CYCLES = 200000, HEAD = 150, BODY = 65536 };

typedef struct bench {
  ab_outbox_pool *pool;
  ab_outbox *outbox; /* stays open for the cycles that do not take one of their own */
  ab_outbox_next_op next;
  char head[HEAD], *body;
  uint64_t allocations, released;
} bench;

static void *counting_realloc(void *ctx, void *ptr, size_t size) {
  if (size > 0) ++*(uint64_t *)ctx;
  return ab_mem_libc.realloc(NULL, ptr, size);
}

static void count_release(void *ctx, void *owner) {
  (void)owner;
  ((bench *)ctx)->released++;
}

static void need(int result) {
  if (result == AB_OK) return;
  fprintf(stderr, "the outbox refused: %d\n", result);
  exit(1);
}

/* next and shift, as after a writev that took everything. */
static void send_all(bench *self, ab_outbox *outbox) {
  ab_outbox_next(outbox, &self->next);
  need(ab_outbox_shift(outbox, self->next.bytes));
}

static void write_cycle(bench *self) {
  need(ab_outbox_write(self->outbox, self->head, HEAD));
  send_all(self, self->outbox);
}

static void whole_life(bench *self) {
  ab_outbox *outbox = ab_outbox_init(self->pool);
  if (!outbox) need(AB_ENOMEM);
  need(ab_outbox_write(outbox, self->head, HEAD));
  send_all(self, outbox);
  ab_outbox_fini(outbox);
}

static void borrow_cycle(bench *self) {
  need(ab_outbox_write(self->outbox, self->head, HEAD));
  need(ab_outbox_borrow(self->outbox, self->body, BODY, self));
  send_all(self, self->outbox);
}

static void small_writes(bench *self) {
  for (int i = 0; i < 10; i++) need(ab_outbox_write(self->outbox, self->head, HEAD / 10));
  send_all(self, self->outbox);
}

static void long_copy(bench *self) {
  need(ab_outbox_write(self->outbox, self->body, 16384));
  send_all(self, self->outbox);
}

static void pipelined(bench *self) {
  for (int i = 0; i < 16; i++) need(ab_outbox_write(self->outbox, self->head, HEAD));
  send_all(self, self->outbox);
}

static void flushed(void *arg, enum ab_flush_reason reason) {
  (void)reason;
  ((bench *)arg)->released++;
}

static void flush_cycle(bench *self) {
  need(ab_outbox_write(self->outbox, self->head, HEAD));
  need(ab_outbox_flush(self->outbox, flushed, self));
  send_all(self, self->outbox);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(bench *self, const char *name, void (*cycle)(bench *)) {
  double best = 1e9;
  for (int i = 0; i < 1000; i++) cycle(self);
  uint64_t before = self->allocations;
  for (int run = 0; run < RUNS; run++) {
    double start = seconds_now();
    for (int i = 0; i < CYCLES; i++) cycle(self);
    double each = (seconds_now() - start) / CYCLES;
    if (each < best) best = each;
  }
  printf("%-44s %7.1f ns  %.3f allocations\n", name, best * 1e9,
         (double)(self->allocations - before) / RUNS / CYCLES);
}

int main(void) {
  bench self = {.body = calloc(1, BODY)};
  const ab_mem mem = {counting_realloc, &self.allocations};
  self.pool = ab_outbox_pool_init(&mem, count_release, &self, 16, 16);
  self.outbox = self.pool ? ab_outbox_init(self.pool) : NULL;
  if (!self.outbox || !self.body) need(AB_ENOMEM);
  measure(&self, "write 150, next, shift", write_cycle);
  measure(&self, "init, write 150, next, shift, fini", whole_life);
  measure(&self, "write 150, borrow 64 KiB, next, shift", borrow_cycle);
  measure(&self, "write 150, flush mark, next, shift", flush_cycle);
  measure(&self, "10 writes of 15, next, shift", small_writes);
  measure(&self, "16 writes of 150, next, shift", pipelined);
  measure(&self, "write 16 KiB, next, shift", long_copy);
  ab_outbox_fini(self.outbox);
  ab_outbox_pool_fini(self.pool);
  free(self.body);
  return 0;
}
