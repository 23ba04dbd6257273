/* Free lists of outboxes and chunks: last in, first out, for the caches, and bounded. */
#include <assert.h>

#include "base/bits.h"
#include "outbox/internal.h"

static ab__chunk *chunk_new(ab_outbox_pool *pool, size_t size, bool standard) {
  ab__chunk *chunk = ab_alloc(pool->mem, size);
  if (!chunk) return NULL;
  pool->chunks_out++;
  chunk->next = NULL;
  chunk->refs = 1;
  chunk->standard = standard;
  return chunk;
}

ab__chunk *ab__chunk_take(ab_outbox_pool *pool) {
  ab__chunk *chunk = pool->free_chunks;
  if (AB_UNLIKELY(!chunk)) return chunk_new(pool, offsetof(ab__chunk, bytes) + pool->room, true);
  pool->free_chunks = chunk->next;
  pool->spare_chunks--;
  pool->chunks_out++;
  chunk->next = NULL;
  chunk->refs = 1;
  return chunk;
}

ab__chunk *ab__chunk_take_chain(ab_outbox_pool *pool, size_t count) {
  ab__chunk *chain = NULL;
  while (count-- > 0) {
    ab__chunk *chunk = ab__chunk_take(pool);
    if (!chunk) {
      ab__chunk_recycle_chain(pool, chain);
      return NULL;
    }
    chunk->next = chain;
    chain = chunk;
  }
  return chain;
}

ab__chunk *ab__chunk_take_sized(ab_outbox_pool *pool, size_t room) {
  size_t size;
  if (!ab_add_size(offsetof(ab__chunk, bytes), room, &size)) return NULL;
  return chunk_new(pool, size, false);
}

void ab__chunk_recycle(ab_outbox_pool *pool, ab__chunk *chunk) {
  pool->chunks_out--;
  if (!chunk->standard || pool->spare_chunks >= pool->spare_chunks_max) {
    ab_free(pool->mem, chunk);
    return;
  }
  chunk->next = pool->free_chunks;
  pool->free_chunks = chunk;
  pool->spare_chunks++;
}

void ab__chunk_recycle_chain(ab_outbox_pool *pool, ab__chunk *chain) {
  while (chain) {
    ab__chunk *next = chain->next;
    ab__chunk_recycle(pool, chain);
    chain = next;
  }
}

void ab__chunk_move(ab_outbox_pool *from, ab_outbox_pool *to, ab__chunk *chunk) {
  from->chunks_out--;
  to->chunks_out++;
  if (from->room != to->room) chunk->standard = false;
  ab__chunk *spare = to->free_chunks;
  if (!chunk->standard || !spare || from->spare_chunks >= from->spare_chunks_max) return;
  to->free_chunks = spare->next;
  to->spare_chunks--;
  spare->next = from->free_chunks;
  from->free_chunks = spare;
  from->spare_chunks++;
}

static ab_outbox *outbox_new(ab_outbox_pool *pool) {
  ab_outbox *outbox = ab_alloc_zero(pool->mem, sizeof(ab_outbox));
  if (!outbox) return NULL;
  outbox->pool = pool;
  ab__deque_init(&outbox->slices, outbox->own_slices, AB__SLICES_OWN);
  ab__deque_init(&outbox->marks, outbox->own_marks, AB__MARKS_OWN);
  pool->outboxes_out++;
  return outbox;
}

ab_outbox *ab_outbox_init(ab_outbox_pool *pool) {
  ab_outbox *outbox = pool->free_outboxes;
  if (AB_UNLIKELY(!outbox)) return outbox_new(pool);
  pool->free_outboxes = outbox->next;
  pool->spare_outboxes--;
  pool->outboxes_out++;
  /* No slice, mark or chunk is left (ab__outbox_recycle), and close has ended a yield. */
  outbox->next = NULL;
  outbox->queued = outbox->written = 0;
  outbox->closed = false;
  return outbox;
}

void ab__outbox_recycle(ab_outbox *outbox) {
  ab_outbox_pool *pool = outbox->pool;
  bool keep = pool->spare_outboxes < pool->spare_outboxes_max;
  pool->outboxes_out--;
  ab__deque_trim(&outbox->slices, pool->mem, outbox->own_slices, AB__SLICES_OWN,
                 keep ? AB__SLICES_KEEP : 0);
  ab__deque_trim(&outbox->marks, pool->mem, outbox->own_marks, AB__MARKS_OWN,
                 keep ? AB__MARKS_KEEP : 0);
  if (!keep) {
    ab_free(pool->mem, outbox);
    return;
  }
  outbox->next = pool->free_outboxes;
  pool->free_outboxes = outbox;
  pool->spare_outboxes++;
}

ab_outbox_pool *ab_outbox_pool_init(const ab_mem *mem, ab_outbox_release release, void *ctx,
                                    size_t spare_outboxes, size_t spare_chunks) {
  ab_outbox_pool *pool = ab_alloc(mem, sizeof(ab_outbox_pool));
  if (!pool) return NULL;
  *pool = (ab_outbox_pool){.mem = mem,
                           .release = release,
                           .ctx = ctx,
                           .room = AB__CHUNK_ROOM,
                           .spare_outboxes_max = spare_outboxes,
                           .spare_chunks_max = spare_chunks};
  return pool;
}

void ab_outbox_pool_set_room(ab_outbox_pool *pool, size_t room) {
  assert(room > 0 && pool->chunks_out == 0 && pool->spare_chunks == 0);
  pool->room = room;
}

size_t ab_outbox_pool_memory(const ab_outbox_pool *pool) {
  size_t chunks = pool->chunks_out + pool->spare_chunks;
  size_t outboxes = pool->outboxes_out + pool->spare_outboxes;
  return sizeof(*pool) + chunks * (offsetof(ab__chunk, bytes) + pool->room) +
         outboxes * sizeof(ab_outbox);
}

void ab_outbox_pool_fini(ab_outbox_pool *pool) {
  assert(pool->outboxes_out == 0 && pool->chunks_out == 0);
  pool->spare_outboxes_max = 0;
  while (pool->free_outboxes) ab__outbox_recycle(ab_outbox_init(pool));
  pool->spare_chunks_max = 0;
  while (pool->free_chunks) ab__chunk_recycle(pool, ab__chunk_take(pool));
  ab_free(pool->mem, pool);
}
