/* The fiber that holds a Mutex. Ruby has no call that tells: the first word of a locked Mutex names
 * the fiber, up to Ruby 3.4 by its address and from 4.0 on by a serial number that the fiber has in
 * one of its own words. Which it is, and which word, is tried out; without an answer no owner is
 * told. */
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
 * for it where the address is not it. Returns what rb_protect said of an exception that concerns
 * the caller, else 0. */
int ab__mutex_owner_learn(ab_mutex_owner *how);

static inline bool ab__mutex_owner_known(const ab_mutex_owner *how) {
  return how->kind == AB_OWNER_BY_ADDRESS || how->kind == AB_OWNER_BY_WORD;
}

/* Whether `fiber` holds the Mutex. Call it only when it is known how to tell. */
bool ab__mutex_owner_is(const ab_mutex_owner *how, VALUE mutex, VALUE fiber);

#endif
