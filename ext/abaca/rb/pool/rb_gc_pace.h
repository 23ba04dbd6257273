/* Paces the garbage collector. A minor collection scans all fibers' stacks, so with many fibers
 * it must run less often: the heap grows in steps, in small slices of time, by number of live
 * fibers and by cost of collections. It may shrink again when fibers have gone. */
#ifndef AB_RB_GC_PACE_H
#define AB_RB_GC_PACE_H

#include <ruby.h>

#include "base/base.h"

#define AB_GC_PACE_SIZES 5
#define AB_GC_PACE_MIX   256

typedef struct ab_gc_pace {
  VALUE pegs; /* an object in each page that was filled: it keeps Ruby from freeing it; or nil */
  VALUE next_pegs;                   /* those of the step in progress */
  VALUE held;                        /* what that step has allocated so far; nil between steps */
  size_t step;                       /* how many marks were passed, including the one in progress */
  size_t multiple;                   /* of the free slots that the step has at first */
  size_t wanted;                     /* slots that the last step fills */
  uintptr_t pages[AB_GC_PACE_SIZES]; /* where the last object of each size went */
  size_t allocated[AB_GC_PACE_SIZES]; /* objects of each size at the last check */
  uint16_t ends[AB_GC_PACE_SIZES];    /* of AB_GC_PACE_MIX objects, where those of a size end */
  uint64_t collecting, working;       /* ms of collections and of CPU time until the last check */
  bool on;
} ab_gc_pace;

void ab_gc_pace_init(ab_gc_pace *pace);
/* Switches it on: allocations from now on tell the sizes of objects. */
void ab_gc_pace_start(ab_gc_pace *pace);
void ab_gc_pace_mark(const ab_gc_pace *pace);

/* The number of live fibers at which the next step is due; SIZE_MAX for never. */
size_t ab_gc_pace_next(const ab_gc_pace *pace);
/* Has a step been taken? Then check from time to time. */
bool ab_gc_pace_paces(const ab_gc_pace *pace);
/* Checks the cost of collections. True: too high, and ab_gc_pace_begin finds another step. */
bool ab_gc_pace_look(ab_gc_pace *pace, size_t live);
/* Begins the step for this many live fibers, if it has not been taken. */
void ab_gc_pace_begin(ab_gc_pace *pace, size_t live);
/* Works on it for a part of a millisecond. True: there is more. May raise NoMemoryError. */
bool ab_gc_pace_slice(ab_gc_pace *pace);
/* Gives back what this many live fibers do not need. */
void ab_gc_pace_shrink(ab_gc_pace *pace, size_t live);
/* Begins a major collection, which continues in slices as objects are allocated. */
void ab_gc_collect_in_slices(void);
/* The free slots that the steps have added so far. */
size_t ab_gc_pace_slots(const ab_gc_pace *pace);

#endif
