#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static void *libc_realloc(void *ctx AB_UNUSED, void *ptr, size_t size) {
  if (size == 0) {
    free(ptr);
    return NULL;
  }
  return realloc(ptr, size);
}

const ab_mem ab_mem_libc = {libc_realloc, NULL};

void *ab_alloc_zero(const ab_mem *mem, size_t size) {
  void *ptr = ab_alloc(mem, size);
  if (ptr) memset(ptr, 0, size);
  return ptr;
}
