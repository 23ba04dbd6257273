/* The first switch to a new fiber, which is when Ruby makes the stack. Two things need care:
 *
 * When the kernel has no stack (vm.max_map_count) the switch raises FiberError, and Ruby (up to 3.4
 * at least) has miscounted the thread's blocking fibers if it came from one: from then on no fiber
 * of the thread finds its scheduler. So a blocking fiber, the root fiber above all, does not switch
 * to a new one itself; the nurse, which is not blocking, does it for the other.
 *
 * And fibers that ended by a transfer keep their stacks until they are collected. Where collections
 * are rare, it may be the dead that are too many: so one comes before the refusal.
 */
#ifndef AB_RB_NURSERY_H
#define AB_RB_NURSERY_H

#include <ruby.h>

#include "io/timer.h"

typedef struct ab_nursery {
  VALUE owner;      /* has the private method #make_nurse */
  VALUE nurse;      /* nil before she is needed */
  VALUE newborn;    /* whom she shall switch to; nil: back to `home` */
  VALUE home;       /* who has sent her */
  VALUE error;      /* what she met instead, or nil */
  int state;        /* as rb_protect said it */
  size_t born;      /* since the last collection */
  ab_nsec patience; /* when the next may be, though the last one did not help */
} ab_nursery;

/* `owner` lives as long as the nursery. */
void ab_nursery_init(ab_nursery *nursery, VALUE owner);
void ab_nursery_mark(const ab_nursery *nursery);

/* The body of #make_nurse. A fiber keeps the frame in which it was made, and that frame's block, so
 * the nurse needs a frame without one. */
VALUE ab_nursery_make_nurse(ab_nursery *nursery);

/* Switches to a fiber that has not run yet, and returns when control comes back. Raises FiberError
 * when there is no stack for it, and what an interrupt has raised before it ran. */
void ab_nursery_enter(ab_nursery *nursery, VALUE fiber);

/* True until it runs for the first time. It takes a while to find out. */
bool ab_fiber_is_new(VALUE fiber);

/* For those who switch themselves, from a fiber that is not blocking, and got the exception $!.
 * Returns true, without $!, when they should try again: it was about the stack of a new fiber, and
 * there has been a collection now. When the last one has hardly helped, it is not repeated soon. */
bool ab_nursery_made_room(ab_nursery *nursery, VALUE fiber);

#endif
