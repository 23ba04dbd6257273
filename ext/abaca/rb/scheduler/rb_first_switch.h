/* The first switch to a new fiber, in which Ruby creates the stack.
 * Without a stack (vm.max_map_count) it raises FiberError. From a blocking fiber, Ruby (up to 3.4
 * at least) has then miscounted blocking fibers, and no fiber of the thread finds its scheduler any
 * more. So the root fiber leaves such switches to the switcher, a non-blocking fiber.
 * Fibers that ended by a transfer keep their stacks until they are collected, so a collection
 * comes before the refusal. */
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

/* The body of #make_switcher. A fiber keeps the frame it was created in, so that has no block. */
VALUE ab_first_switch_make_switcher(ab_first_switch *first_switch);

/* Switches to a fiber that has not run yet; returns when control comes back. Raises FiberError
 * without a stack, and what an interrupt has raised before it ran. */
void ab_first_switch_enter(ab_first_switch *first_switch, VALUE fiber);

/* True until it runs for the first time. Finding out is slow. */
bool ab_fiber_is_new(VALUE fiber);

/* For code that switches by itself, from a non-blocking fiber, and got $!. True, with $!
 * cleared, if it should try again: there was no stack, and a collection has run. Not repeated
 * soon if it hardly helped. */
bool ab_first_switch_made_room(ab_first_switch *first_switch, VALUE fiber);

#endif
