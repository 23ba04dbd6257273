/* The machine stack of a fiber that runs jobs: was it used deeply, and can its memory be given
 * back? */
#ifndef AB_RB_STACK_H
#define AB_RB_STACK_H

#include "base/base.h"

typedef struct ab_stack {
  char *base;   /* a place in the frame that is below all jobs */
  size_t depth; /* bytes below `base` that certainly belong to the stack; 0: not known */
} ab_stack;

/* The bytes of a fiber's machine stack that may be checked; 0 if Ruby does not tell. */
size_t ab_stack_size(void);

/* Call it in the fiber's outermost frame, with what ab_stack_size said. A stack that an earlier
 * fiber used deeply is given back first, so that the watermark is clean. */
void ab_stack_init(ab_stack *stack, size_t size);

/* True if something has been written around the watermark, 64 KiB down, since memory was last given
 * back. Only while the stack is not used below it. */
bool ab_stack_deep(const ab_stack *stack);

/* Overwrites what the last job has left on the stack just below the caller's frame, where the next
 * switch will have its frames: a collection takes what looks like a reference there for one. */
void ab_stack_wipe(void);

/* Gives back everything well below the base. Only while nothing there is in use: between two jobs,
 * or for a fiber that waits for one. */
void ab_stack_give_back(const ab_stack *stack);

#endif
