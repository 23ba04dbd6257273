/* Levels: how much a request computes, by which it gets its turn (lead/gate.h). */
#ifndef AB_LEAD_LEVEL_H
#define AB_LEAD_LEVEL_H

#include "base/base.h"

/* Below 5 ms, 80 ms, 640 ms of CPU time, and all others. */
#define AB_LEVELS 4

static inline uint8_t ab_level_of(ab_nsec computed) {
  if (computed < 5 * AB_NSEC_PER_MS) return 0;
  if (computed < 80 * AB_NSEC_PER_MS) return 1;
  return computed < 640 * AB_NSEC_PER_MS ? 2 : 3;
}

/* The time by which lighter requests may go before one that came earlier. */
static inline ab_nsec ab_level_slack(uint8_t level) {
  static const ab_nsec slack[AB_LEVELS] = {0, 6 * AB_NSEC_PER_SEC, 8 * AB_NSEC_PER_SEC,
                                           10 * AB_NSEC_PER_SEC};
  return slack[level];
}

#endif
