/* Sliding p95 over the last 128 durations, compared with a limit after each of them. */
#ifndef AB_BASE_SLIDING_P95_H
#define AB_BASE_SLIDING_P95_H

#include "base/base.h"

#define AB_SLIDING_P95_SIZE 128

typedef struct ab_sliding_p95 {
  ab_nsec limit;
  uint32_t times[AB_SLIDING_P95_SIZE]; /* in microseconds, rounded up */
  uint16_t count, next;                /* of durations; where the next one goes */
  uint16_t above;                      /* how many of them exceed the limit */
} ab_sliding_p95;

/* Forgets all durations. */
void ab_sliding_p95_begin(ab_sliding_p95 *window, ab_nsec limit);
/* Adds a duration; with AB_SLIDING_P95_SIZE of them, the oldest one is dropped. */
void ab_sliding_p95_add(ab_sliding_p95 *window, ab_nsec time);
/* The shortest duration that at least 95 of 100 do not exceed; 0 without any. */
ab_nsec ab_sliding_p95_p95(const ab_sliding_p95 *window);

/* How many of `count` durations may exceed their p95. */
static inline unsigned ab_sliding_p95_spare(unsigned count) {
  return count / 20;
}
/* True when the p95 is above the limit. */
static inline bool ab_sliding_p95_exceeds(const ab_sliding_p95 *window) {
  return window->above > ab_sliding_p95_spare(window->count);
}

#endif
