/* The fiber that holds a Mutex. The first word of a locked Mutex names it: up to Ruby 3.4 by
 * address, from 4.0 on by a serial number that is also in a word of the fiber. Which one is
 * found by trial. */
#ifndef AB_RB_MUTEX_OWNER_H
#define AB_RB_MUTEX_OWNER_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ab_mutex_owner {
  enum {
    AB_OWNER_UNTRIED,
    AB_OWNER_BY_ADDRESS,
    AB_OWNER_BY_WORD,
    AB_OWNER_UNKNOWN,
  } kind;
  uint16_t word; /* of a fiber, for AB_OWNER_BY_WORD */
} ab_mutex_owner;

/* Finds out how a Mutex names its owner, on two fibers if it is not the address; again after a
 * failure for want of memory. Returns rb_protect's state for an exception that concerns the
 * caller, else 0. */
int ab__mutex_owner_learn(ab_mutex_owner *how);

static inline bool ab__mutex_owner_known(const ab_mutex_owner *how) {
  return how->kind == AB_OWNER_BY_ADDRESS || how->kind == AB_OWNER_BY_WORD;
}

/* Whether `fiber` holds the Mutex. Call it only if the way to tell is known. */
bool ab__mutex_owner_is(const ab_mutex_owner *how, VALUE mutex, VALUE fiber);

#endif
