/* The last so many times: see window.h. How many are above the limit is counted as they come and
 * go; they are put in order only when somebody wants the figure. */
#include "base/window.h"

#include <stdlib.h>
#include <string.h>

#define NSEC_PER_USEC 1000

void ab_window_begin(ab_window *window, ab_nsec limit) {
  window->limit = limit;
  window->count = window->next = window->above = 0;
}

/* What is above a limit by less than that shall be above it as well. */
static uint32_t usec_of(ab_nsec time) {
  ab_nsec usec = time / NSEC_PER_USEC + (time % NSEC_PER_USEC != 0);
  return usec < UINT32_MAX ? (uint32_t)usec : UINT32_MAX;
}

static bool is_above(const ab_window *window, uint32_t usec) {
  return (ab_nsec)usec * NSEC_PER_USEC > window->limit;
}

void ab_window_add(ab_window *window, ab_nsec time) {
  uint32_t usec = usec_of(time);
  if (window->count == AB_WINDOW_SIZE) {
    window->above -= is_above(window, window->times[window->next]);
  } else {
    window->count++;
  }
  window->times[window->next] = usec;
  window->next = (uint16_t)((window->next + 1) % AB_WINDOW_SIZE);
  window->above += is_above(window, usec);
}

static int compare(const void *a, const void *b) {
  uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
  return (one > other) - (one < other);
}

ab_nsec ab_window_p95(const ab_window *window) {
  if (window->count == 0) return 0;
  uint32_t sorted[AB_WINDOW_SIZE];
  memcpy(sorted, window->times, window->count * sizeof(*sorted));
  qsort(sorted, window->count, sizeof(*sorted), compare);
  return (ab_nsec)sorted[window->count - 1 - ab_window_spare(window->count)] * NSEC_PER_USEC;
}
