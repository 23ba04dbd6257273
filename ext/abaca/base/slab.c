#include "base/slab.h"

#include <string.h>

#include "base/hide.h"

#define SLAB_COUNT 64 /* structures */

struct ab_slab {
  ab_slab *next;
  _Alignas(8) char bytes[];
};

/* Under AddressSanitizer, what still uses a free structure fails. The chain stays as it is. */
#define POISON_FROM sizeof(void *)

static void hide(const ab_slab_pool *pool, void *one) {
  ab_hide((char *)one + POISON_FROM, pool->size - POISON_FROM);
}

static void show(const ab_slab_pool *pool, void *one) {
  ab_show((char *)one + POISON_FROM, pool->size - POISON_FROM);
}

#ifdef __SANITIZE_ADDRESS__
/* Free structures, too, until fn has seen them. */
static void visit(const ab_slab_pool *pool, void (*fn)(void *ctx, void *one), void *ctx,
                  void *one) {
  bool hidden = pool->size > POISON_FROM && __asan_address_is_poisoned((char *)one + POISON_FROM);
  show(pool, one);
  fn(ctx, one);
  if (hidden) hide(pool, one);
}
#else
static void visit(const ab_slab_pool *pool AB_UNUSED, void (*fn)(void *ctx, void *one), void *ctx,
                  void *one) {
  fn(ctx, one);
}
#endif

void ab_slab_pool_init(ab_slab_pool *pool, const ab_mem *mem, size_t size) {
  *pool = (ab_slab_pool){.mem = mem, .size = size};
}

void ab_slab_pool_fini(ab_slab_pool *pool) {
  for (ab_slab *slab = pool->slabs, *next; slab; slab = next) {
    next = slab->next;
    ab_show(slab->bytes, SLAB_COUNT * pool->size);
    ab_free(pool->mem, slab);
  }
  pool->slabs = NULL;
  pool->free = NULL;
}

/* The first of the slab's structures is taken first. */
static bool grow(ab_slab_pool *pool) {
  ab_slab *slab = ab_alloc_zero(pool->mem, sizeof(*slab) + SLAB_COUNT * pool->size);
  if (!slab) return false;
  slab->next = pool->slabs;
  pool->slabs = slab;
  for (size_t i = SLAB_COUNT; i-- > 0;) ab_slab_give(pool, slab->bytes + i * pool->size);
  return true;
}

void *ab_slab_take(ab_slab_pool *pool) {
  if (AB_UNLIKELY(!pool->free) && !grow(pool)) return NULL;
  void *one = pool->free;
  memcpy(&pool->free, one, sizeof(void *));
  show(pool, one);
  return one;
}

void ab_slab_give(ab_slab_pool *pool, void *one) {
  memcpy(one, &pool->free, sizeof(void *));
  pool->free = one;
  hide(pool, one);
}

void ab_slab_each(ab_slab_pool *pool, void (*fn)(void *ctx, void *one), void *ctx) {
  for (ab_slab *slab = pool->slabs; slab; slab = slab->next) {
    for (size_t i = 0; i < SLAB_COUNT; i++) visit(pool, fn, ctx, slab->bytes + i * pool->size);
  }
}
