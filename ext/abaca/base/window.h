/* What 95 of 100 of the last so many times do not exceed, and whether that is above a limit: for a
 * decision that is looked at after each time, and that follows when things change.
 */
#ifndef AB_BASE_WINDOW_H
#define AB_BASE_WINDOW_H

#include "base/base.h"

/* So many times are remembered. */
#define AB_WINDOW_SIZE 128

typedef struct ab_window {
  ab_nsec limit;
  uint32_t times[AB_WINDOW_SIZE]; /* in microseconds, rounded up */
  uint16_t count, next;           /* of times; where the next one goes */
  uint16_t above;                 /* of them are longer than the limit */
} ab_window;

/* Forgets all times. */
void ab_window_begin(ab_window *window, ab_nsec limit);
/* Takes a time; the oldest one goes when there are AB_WINDOW_SIZE. */
void ab_window_add(ab_window *window, ab_nsec time);
/* The shortest of the times that at least 95 of 100 are not longer than; 0 without any. */
ab_nsec ab_window_p95(const ab_window *window);

/* How many of `count` times may be longer than their p95. */
static inline unsigned ab_window_spare(unsigned count) {
  return count / 20;
}
/* True when the p95 is above the limit. */
static inline bool ab_window_exceeds(const ab_window *window) {
  return window->above > ab_window_spare(window->count);
}

#endif
