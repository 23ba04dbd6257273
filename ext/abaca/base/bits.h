/* Arithmetic that detects overflow, for every size that comes from the wire. */
#ifndef AB_BASE_BITS_H
#define AB_BASE_BITS_H

#include "base/base.h"

/* *sum = a + b. Returns false, and leaves *sum undefined, if the sum does not fit. */
static inline bool ab_add_size(size_t a, size_t b, size_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}

static inline bool ab_mul_size(size_t a, size_t b, size_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

static inline bool ab_add_u64(uint64_t a, uint64_t b, uint64_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/* *value = *value * base + digit, for number parsers. Returns false on overflow. */
static inline bool ab_push_digit_u64(uint64_t *value, unsigned base, unsigned digit) {
  uint64_t scaled;
  return !__builtin_mul_overflow(*value, (uint64_t)base, &scaled) &&
         !__builtin_add_overflow(scaled, (uint64_t)digit, value);
}

/* The smallest power of two that is at least n; n must be in 1 .. 2^31. */
static inline uint32_t ab_round_up_pow2(uint32_t n) {
  return n <= 1 ? 1 : (uint32_t)1 << (32 - __builtin_clz(n - 1));
}

#endif
