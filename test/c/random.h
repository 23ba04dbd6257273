/* Random numbers for tests that play against a model: the same ones in each run. */
#ifndef AB_TEST_RANDOM_H
#define AB_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* xorshift64*; the state must not be 0. */
static AB_UNUSED uint64_t random_next(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1dULL;
}

/* 0 .. bound - 1 */
static AB_UNUSED size_t random_below(uint64_t *state, size_t bound) {
  return (size_t)((random_next(state) >> 11) % bound);
}

#endif
