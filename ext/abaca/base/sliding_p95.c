/* Counts the times above the limit as they come and go; sorts only when the p95 is asked for. */
#include "base/sliding_p95.h"

#include <stdlib.h>
#include <string.h>

#define NSEC_PER_USEC 1000

void ab_sliding_p95_begin(ab_sliding_p95 *window, ab_nsec limit) {
  window->limit = limit;
  window->count = window->next = window->above = 0;
}

/* A time that exceeds the limit by less than this counts as above it, too. */
static uint32_t usec_of(ab_nsec time) {
  ab_nsec usec = time / NSEC_PER_USEC + (time % NSEC_PER_USEC != 0);
  return usec < UINT32_MAX ? (uint32_t)usec : UINT32_MAX;
}

static bool is_above(const ab_sliding_p95 *window, uint32_t usec) {
  return (ab_nsec)usec * NSEC_PER_USEC > window->limit;
}

void ab_sliding_p95_add(ab_sliding_p95 *window, ab_nsec time) {
  uint32_t usec = usec_of(time);
  if (window->count == AB_SLIDING_P95_SIZE) {
    window->above -= is_above(window, window->times[window->next]);
  } else {
    window->count++;
  }
  window->times[window->next] = usec;
  window->next = (uint16_t)((window->next + 1) % AB_SLIDING_P95_SIZE);
  window->above += is_above(window, usec);
}

static int compare(const void *a, const void *b) {
  uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
  return (one > other) - (one < other);
}

ab_nsec ab_sliding_p95_p95(const ab_sliding_p95 *window) {
  if (window->count == 0) return 0;
  uint32_t sorted[AB_SLIDING_P95_SIZE];
  memcpy(sorted, window->times, window->count * sizeof(*sorted));
  qsort(sorted, window->count, sizeof(*sorted), compare);
  return (ab_nsec)sorted[window->count - 1 - ab_sliding_p95_spare(window->count)] * NSEC_PER_USEC;
}
