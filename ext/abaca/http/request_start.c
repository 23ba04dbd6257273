#include "http/request_start.h"

#include "http/char.h"

#define DIGITS_MAX 19 /* they fit into 64 bits, and nanoseconds have no more */

/* What unit a number of this size has to be: seconds have ten digits until the year 2286. */
static ab_nsec unit_of(uint64_t number) {
  if (number < 100000000000u) return AB_NSEC_PER_SEC;
  if (number < 100000000000000u) return AB_NSEC_PER_MS;
  return number < 100000000000000000u ? 1000 : 1;
}

/* The time that the field says, in nanoseconds; 0: none. */
static ab_nsec parse(const char *value, size_t len) {
  const char *p = value, *end = value + len;
  if (len > 2 && p[0] == 't' && p[1] == '=') p += 2;
  const char *start = p;
  uint64_t number = 0;
  for (; p < end && ab_is_digit(*p) && p - start < DIGITS_MAX; p++) {
    number = number * 10 + (uint64_t)(*p - '0');
  }
  if (p == start) return 0;
  ab_nsec unit = unit_of(number), time;
  if (__builtin_mul_overflow(number, unit, &time)) return 0;
  if (p < end && *p == '.') {
    ab_nsec fraction = unit / 10;
    for (p++; p < end && ab_is_digit(*p); p++, fraction /= 10) {
      time += (ab_nsec)(*p - '0') * fraction;
    }
  }
  return p == end ? time : 0;
}

ab_nsec ab_request_start_age(const char *value, size_t len, ab_nsec now) {
  ab_nsec start = parse(value, len);
  if (start == 0 || start > now || now - start > AB_REQUEST_START_MAX) return 0;
  return now - start;
}
