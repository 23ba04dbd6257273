/* What the engine sends from memory of Ruby's: see rb_borrow.h. */
#include "rb/rack/rb_borrow.h"

ab_borrow *ab_borrow_make(ab_rack *rack, VALUE object, int fd) {
  ab_borrow *borrow = rack->spare;
  if (borrow) {
    rack->spare = borrow->next;
  } else {
    borrow = ab_alloc(&ab_mem_libc, sizeof(*borrow));
    if (!borrow) return NULL;
  }
  *borrow = (ab_borrow){.object = object, .fd = fd};
  ab_list_append(&rack->borrowed, &borrow->link);
  return borrow;
}

void ab_borrow_return(ab_rack *rack, ab_borrow *borrow) {
  ab_list_remove(&borrow->link);
  if (borrow->fd >= 0) ab_fd_close(borrow->fd);
  borrow->next = rack->spare;
  rack->spare = borrow;
}

void ab_borrow_release(void *ctx, void *owner) {
  ab_rack *rack = ctx;
  ab_borrow *borrow = owner;
  borrow->next = rack->released;
  /* Relaxed: with the engine's lock, which orders the list; the look at it in rb_borrow.h has none.
   */
  __atomic_store_n(&rack->released, borrow, __ATOMIC_RELAXED);
}

void ab_borrow_reap(ab_rack *rack) {
  if (!ab_borrow_released(rack)) return;
  ab_engine_lock(rack->engine);
  ab_borrow *borrow = rack->released;
  __atomic_store_n(&rack->released, NULL, __ATOMIC_RELAXED);
  ab_engine_unlock(rack->engine);
  while (borrow) {
    ab_borrow *next = borrow->next;
    ab_borrow_return(rack, borrow);
    borrow = next;
  }
}

void ab_borrow_mark(const ab_rack *rack) {
  ab_list_each (node, next, &rack->borrowed) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_borrow, link)->object);
  }
}

void ab_borrow_fini(ab_rack *rack) {
  for (ab_borrow *borrow = rack->released; borrow; borrow = borrow->next) {
    if (borrow->fd >= 0) ab_fd_close(borrow->fd);
  }
  ab_list_each (node, next, &rack->borrowed) {
    ab_free(&ab_mem_libc, AB_CONTAINER_OF(node, ab_borrow, link));
  }
  while (rack->spare) {
    ab_borrow *next = rack->spare->next;
    ab_free(&ab_mem_libc, rack->spare);
    rack->spare = next;
  }
}
