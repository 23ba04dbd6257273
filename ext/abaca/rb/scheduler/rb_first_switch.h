/* The first switch to a new fiber, which is when Ruby creates the stack. Two things need care:
 *
 * If the kernel has no stack (vm.max_map_count), the switch raises FiberError. If it came from a
 * blocking fiber, Ruby (up to at least 3.4) has then miscounted the thread's blocking fibers: from
 * then on no fiber of the thread finds its scheduler. So a blocking fiber, above all the root
 * fiber, does not switch to a new one itself; the switcher, which is not blocking, does it instead.
 *
 * Fibers that ended by a transfer keep their stacks until they are collected. Where collections are
 * rare, there may be too many dead fibers, so a collection comes before the refusal.
 */
#ifndef AB_RB_FIRST_SWITCH_H
#define AB_RB_FIRST_SWITCH_H

#include <ruby.h>

#include "io/timer.h"

typedef struct ab_first_switch {
  VALUE owner;      /* has the private method #make_switcher */
  VALUE switcher;   /* nil before it is needed */
  VALUE target;     /* where it must switch to; nil: back to `sender` */
  VALUE sender;     /* the fiber that has sent it */
  VALUE error;      /* the exception that it met instead, or nil */
  int state;        /* as rb_protect said it */
  size_t born;      /* since the last collection */
  ab_nsec patience; /* when the next may be, if the last one did not help */
} ab_first_switch;

/* `owner` lives as long as the first_switch. */
void ab_first_switch_init(ab_first_switch *first_switch, VALUE owner);
void ab_first_switch_mark(const ab_first_switch *first_switch);

/* The body of #make_switcher. A fiber keeps the frame in which it was created, and that frame's
 * block, so the switcher needs a frame without one. */
VALUE ab_first_switch_make_switcher(ab_first_switch *first_switch);

/* Switches to a fiber that has not run yet, and returns when control comes back. Raises FiberError
 * if there is no stack for it, and what an interrupt has raised before it ran. */
void ab_first_switch_enter(ab_first_switch *first_switch, VALUE fiber);

/* True until it runs for the first time. Finding out is slow. */
bool ab_fiber_is_new(VALUE fiber);

/* For code that switches by itself, from a non-blocking fiber, and got the exception $!. Returns
 * true, with $! cleared, if it should try again: the exception was about the stack of a new fiber,
 * and there has been a collection. If the last one has hardly helped, it is not repeated soon. */
bool ab_first_switch_made_room(ab_first_switch *first_switch, VALUE fiber);

#endif
