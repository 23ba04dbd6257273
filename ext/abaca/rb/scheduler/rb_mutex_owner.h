/* The fiber that holds a Mutex. Ruby has no call for it: the first word of a locked Mutex names the
 * fiber, up to Ruby 3.4 by its address, from 4.0 on by a serial number that is also in a word of
 * the fiber. Which it is, and which word, is found by trial; without an answer there is no
 * owner. */
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

/* Finds out how a Mutex names its owner; again after a failure for want of memory. Two fibers run
 * for it if it is not the address. Returns what rb_protect said of an exception that concerns the
 * caller, otherwise 0. */
int ab__mutex_owner_learn(ab_mutex_owner *how);

static inline bool ab__mutex_owner_known(const ab_mutex_owner *how) {
  return how->kind == AB_OWNER_BY_ADDRESS || how->kind == AB_OWNER_BY_WORD;
}

/* Whether `fiber` holds the Mutex. Call it only if the way to tell is known. */
bool ab__mutex_owner_is(const ab_mutex_owner *how, VALUE mutex, VALUE fiber);

#endif
