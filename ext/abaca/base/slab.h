/* Structures of one size, taken from slabs of many. The last one freed is the next one taken, since
 * its memory is the warmest; slabs are freed when the pool ends. */
#ifndef AB_BASE_SLAB_H
#define AB_BASE_SLAB_H

#include "base/mem.h"

typedef struct ab_slab ab_slab;

typedef struct ab_slab_pool {
  const ab_mem *mem;
  size_t size; /* of a structure */
  ab_slab *slabs;
  void *free; /* the first of a chain: each begins with a pointer to the next */
} ab_slab_pool;

/* Borrows `mem`. A structure is at least as large as a pointer, and not aligned more strictly. */
void ab_slab_pool_init(ab_slab_pool *pool, const ab_mem *mem, size_t size);
/* Frees all structures, taken or not. */
void ab_slab_pool_fini(ab_slab_pool *pool);

/* Zeroed when first taken; later as it was left, but for its first pointer. NULL without memory. */
void *ab_slab_take(ab_slab_pool *pool) AB_WARN_UNUSED;
void ab_slab_give(ab_slab_pool *pool, void *one);

/* Calls fn for each structure, free ones included. fn may give back its own, but take none. */
void ab_slab_each(ab_slab_pool *pool, void (*fn)(void *ctx, void *one), void *ctx);

#endif
