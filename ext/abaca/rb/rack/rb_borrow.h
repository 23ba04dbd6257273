/* What the engine sends from memory of Ruby's: it is kept alive until the engine lets it go. */
#ifndef AB_RB_BORROW_H
#define AB_RB_BORROW_H

#include "rb/rack/rb_rack.h"

/* Shorter bodies are copied, others sent from the Ruby string: up to here a copy is cheaper. */
#define AB_BORROW_MIN 16384

/* Borrowed by the engine until released; keeps `object` alive, closes `fd` when it is not -1. */
typedef struct ab_borrow {
  ab_list link;
  struct ab_borrow *next;
  VALUE object;
  int fd;
} ab_borrow;

/* NULL when memory runs out. */
ab_borrow *ab_borrow_make(ab_rack *rack, VALUE object, int fd);
/* Gives back one that the engine did not take. */
void ab_borrow_return(ab_rack *rack, ab_borrow *borrow);
/* [locked] The engine calls this, perhaps without the GVL: Ruby's side follows later. */
void ab_borrow_release(void *rack, void *borrow);
/* Does what is left to do about those. */
void ab_borrow_reap(ab_rack *rack);
/* True when there is any of that. Without the GVL too. */
static inline bool ab_borrow_released(const ab_rack *rack) {
  return __atomic_load_n(&rack->released, __ATOMIC_RELAXED) != NULL;
}

void ab_borrow_mark(const ab_rack *rack);
/* Frees all of it. */
void ab_borrow_fini(ab_rack *rack);

#endif
