/* The allocator that the C core is given. Tests inject one that fails at the n-th call. */
#ifndef AB_BASE_MEM_H
#define AB_BASE_MEM_H

#include "base/base.h"

typedef struct ab_mem {
  void *(*realloc)(void *ctx, void *ptr, size_t size); /* size 0 frees and returns NULL */
  void *ctx;
} ab_mem;

/* libc's allocator. It does not touch Ruby's heap, so it may be called without the GVL. */
extern const ab_mem ab_mem_libc;

/* NULL if the allocator refuses; size must not be 0. The caller owns the memory. */
static inline void *ab_alloc(const ab_mem *mem, size_t size) {
  return mem->realloc(mem->ctx, NULL, size);
}

/* As ab_alloc, filled with zeroes. */
void *ab_alloc_zero(const ab_mem *mem, size_t size);

/* Grows or shrinks; on NULL the old block is untouched and still owned by the caller. */
static inline void *ab_realloc(const ab_mem *mem, void *ptr, size_t size) {
  return mem->realloc(mem->ctx, ptr, size);
}

static inline void ab_free(const ab_mem *mem, void *ptr) {
  if (ptr) mem->realloc(mem->ctx, ptr, 0);
}

#endif
