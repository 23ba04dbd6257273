/* The machine stack of a fiber that runs jobs: its depth, and giving its memory back. */
#ifndef AB_RB_STACK_H
#define AB_RB_STACK_H

#include "base/base.h"

typedef struct ab_stack {
  char *base;   /* a place in the frame that is below all jobs */
  size_t depth; /* bytes below `base` that certainly belong to the stack; 0: not known */
} ab_stack;

/* The bytes of a fiber's machine stack that may be checked; 0 if Ruby does not tell. */
size_t ab_stack_size(void);

/* For the fiber's outermost frame, with ab_stack_size. Gives back what was used deeply. */
void ab_stack_init(ab_stack *stack, size_t size);

/* Was 64 KiB used since memory was last given back? Only while the stack is not used there. */
bool ab_stack_deep(const ab_stack *stack);

/* Overwrites the stack just below the caller's frame, where the next switch has its frames: a
 * collection would take what a job left there for references. */
void ab_stack_wipe(void);

/* Gives back everything well below the base; where the system does not take it, the stack is not
 * looked at any more. Only between two jobs, or for an idle fiber. */
void ab_stack_give_back(ab_stack *stack);

#endif
