/* Where outboxes and chunks come from and go back to: what is kept, what is freed, and what happens
 * when there is no memory. */
#include "fixture.h"

static ab_outbox_pool *make(check_mem *mem, size_t outboxes, size_t chunks) {
  check_mem_init(mem, 0);
  ab_outbox_pool *pool = ab_outbox_pool_init(&mem->mem, fixture_release, NULL, outboxes, chunks);
  if (!pool) abort();
  return pool;
}

CHECK_CASE(the_last_chunk_that_went_back_comes_first) {
  check_mem mem;
  ab_outbox_pool *pool = make(&mem, 0, 2);
  ab__chunk *first = ab__chunk_take(pool), *second = ab__chunk_take(pool);
  CHECK_INT(2, pool->chunks_out);
  ab__chunk_recycle(pool, first);
  ab__chunk_recycle(pool, second);
  CHECK_INT(2, pool->spare_chunks);
  CHECK(ab__chunk_take(pool) == second);
  CHECK(ab__chunk_take(pool) == first);
  CHECK_INT(1, first->refs);
  ab__chunk_recycle(pool, first);
  ab__chunk_recycle(pool, second);
  ab_outbox_pool_fini(pool);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(what_is_beyond_the_bounds_is_freed) {
  check_mem mem;
  ab_outbox_pool *pool = make(&mem, 1, 1);
  size_t empty = ab_outbox_pool_memory(pool);
  ab__chunk *chain = ab__chunk_take_chain(pool, 3);
  ab_outbox *outboxes[2] = {ab_outbox_init(pool), ab_outbox_init(pool)};
  CHECK_INT(6, mem.live);
  CHECK(ab_outbox_pool_memory(pool) >= empty + 3 * pool->room + 2 * sizeof(ab_outbox));
  ab__chunk_recycle_chain(pool, chain);
  for (int i = 0; i < 2; i++) ab__outbox_recycle(outboxes[i]);
  CHECK_INT(1, pool->spare_chunks);
  CHECK_INT(1, pool->spare_outboxes);
  CHECK_INT(3, mem.live);
  ab_outbox_pool_fini(pool);
  CHECK_INT(0, mem.live);
}

/* Only one long string needed its memory. */
CHECK_CASE(a_chunk_of_another_size_is_never_kept) {
  check_mem mem;
  ab_outbox_pool *pool = make(&mem, 0, 4);
  ab__chunk *chunk = ab__chunk_take_sized(pool, 100000);
  CHECK(chunk != NULL && !chunk->standard);
  memset(chunk->bytes, 'x', 100000);
  ab__chunk_unref(pool, chunk);
  CHECK_INT(0, pool->spare_chunks);
  CHECK_INT(1, mem.live);
  CHECK(ab__chunk_take_sized(pool, SIZE_MAX) == NULL);
  CHECK_INT(0, pool->chunks_out);
  ab_outbox_pool_fini(pool);
  CHECK_INT(0, mem.live);
}

/* At each of the calls in turn. */
CHECK_CASE(a_chain_is_all_or_nothing) {
  for (size_t fail = 1; fail <= 3; fail++) {
    check_mem mem;
    ab_outbox_pool *pool = make(&mem, 0, 4);
    mem.fail_at = mem.calls + fail;
    CHECK(ab__chunk_take_chain(pool, 3) == NULL);
    CHECK_INT(0, pool->chunks_out);
    CHECK_INT(fail - 1, pool->spare_chunks);
    ab__chunk *chain = ab__chunk_take_chain(pool, 3);
    CHECK(chain && chain->next && chain->next->next && !chain->next->next->next);
    ab__chunk_recycle_chain(pool, chain);
    ab_outbox_pool_fini(pool);
    CHECK_INT(0, mem.live);
  }
}

CHECK_CASE(without_memory_there_is_neither_pool_nor_outbox) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(ab_outbox_pool_init(&mem.mem, fixture_release, NULL, 1, 1) == NULL);
  ab_outbox_pool *pool = make(&mem, 1, 1);
  mem.fail_at = mem.calls + 1;
  CHECK(ab_outbox_init(pool) == NULL);
  CHECK_INT(0, pool->outboxes_out);
  ab_outbox_pool_fini(pool);
  CHECK_INT(0, mem.live);
}

/* As new: nothing of the last use is left. */
CHECK_CASE(an_outbox_starts_anew) {
  fixture f;
  fixture_init(&f);
  ab_outbox *outbox = f.outbox;
  CHECK_INT(AB_OK, ab_outbox_write(outbox, "abc", 3));
  ab_outbox_close(outbox);
  ab_outbox_fini(outbox);
  f.outbox = ab_outbox_init(f.pool);
  CHECK(f.outbox == outbox);
  CHECK_INT(0, ab_outbox_pending(outbox));
  CHECK_INT(AB_OK, ab_outbox_write(outbox, "d", 1));
  CHECK_SLICES(outbox, "d");
  fixture_fini(&f);
}

/* Many slices need room on the heap, of which a little is kept. */
CHECK_CASE(room_for_many_slices_is_given_back) {
  for (int keep = 0; keep < 2; keep++) {
    fixture f;
    owner lender = {0};
    fixture_init_with(&f, keep ? 1 : 0, 0);
    for (uint32_t i = 0; i < 2 * AB__SLICES_KEEP; i++)
      CHECK_INT(AB_OK, ab_outbox_borrow(f.outbox, "x", 1, &lender));
    CHECK_INT(3, f.mem.live);
    ab_outbox_fini(f.outbox);
    f.outbox = NULL;
    CHECK_INT(keep ? 2 : 1, f.mem.live);
    CHECK_INT(2 * AB__SLICES_KEEP, lender.released);
    fixture_fini(&f);
  }
}

CHECK_MAIN()
