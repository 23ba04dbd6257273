/* Memory of one step: bytes received and requests parsed from them, forgotten together at its end.
 * The connection copies what must live longer. */
#ifndef AB_ENGINE_ARENA_H
#define AB_ENGINE_ARENA_H

#include "base/hide.h"
#include "base/mem.h"

typedef struct ab_arena {
  char *start;
  size_t used, size;
} ab_arena;

static inline int ab_arena_init(ab_arena *arena, const ab_mem *mem, size_t size) {
  arena->start = ab_alloc(mem, size);
  arena->used = 0;
  arena->size = arena->start ? size : 0;
  ab_hide(arena->start, arena->size);
  return arena->start ? AB_OK : AB_ENOMEM;
}

static inline void ab_arena_fini(ab_arena *arena, const ab_mem *mem) {
  ab_show(arena->start, arena->size);
  ab_free(mem, arena->start);
  arena->start = NULL;
  arena->size = 0;
}

static inline size_t ab_arena_left(const ab_arena *arena) {
  return arena->size - arena->used;
}

/* The free part, aligned for any structure; it is not taken yet. */
static inline char *ab_arena_top(const ab_arena *arena) {
  ab_show(arena->start + arena->used, ab_arena_left(arena));
  return arena->start + arena->used;
}

/* Takes `len` bytes of the free part, which the caller has checked. */
static inline void ab_arena_take(ab_arena *arena, size_t len) {
  size_t aligned = (len + 15) & ~(size_t)15;
  arena->used = aligned > ab_arena_left(arena) ? arena->size : arena->used + aligned;
  ab_hide(arena->start + arena->used, ab_arena_left(arena));
}

static inline void ab_arena_reset(ab_arena *arena) {
  arena->used = 0;
  ab_hide(arena->start, arena->size);
}

#endif
