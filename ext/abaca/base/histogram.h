/* Counts of times by power of two, for times that are measured often and read rarely. */
#ifndef AB_BASE_HISTOGRAM_H
#define AB_BASE_HISTOGRAM_H

#include "base/base.h"

#define AB_HISTOGRAM_BUCKETS 18
/* The first bucket ends at 65.5 us, each further one at twice that; the last begins at 4.3 s. */
#define AB_HISTOGRAM_FIRST ((ab_nsec)1 << 16)

typedef struct ab_histogram {
  uint64_t counts[AB_HISTOGRAM_BUCKETS];
  ab_nsec longest;
} ab_histogram;

/* Where a bucket ends; a time of exactly that length is in the next one. 0 for the last. */
static inline ab_nsec ab_histogram_end(unsigned bucket) {
  return bucket < AB_HISTOGRAM_BUCKETS - 1 ? AB_HISTOGRAM_FIRST << bucket : 0;
}

static inline void ab_histogram_add(ab_histogram *histogram, ab_nsec time) {
  uint64_t firsts = time / AB_HISTOGRAM_FIRST;
  unsigned bucket = firsts ? 64 - (unsigned)__builtin_clzll(firsts) : 0;
  if (AB_UNLIKELY(bucket >= AB_HISTOGRAM_BUCKETS)) bucket = AB_HISTOGRAM_BUCKETS - 1;
  histogram->counts[bucket]++;
  if (AB_UNLIKELY(time > histogram->longest)) histogram->longest = time;
}

/* Adds the counts of `other`. */
static inline void ab_histogram_join(ab_histogram *histogram, const ab_histogram *other) {
  for (unsigned i = 0; i < AB_HISTOGRAM_BUCKETS; i++) histogram->counts[i] += other->counts[i];
  if (other->longest > histogram->longest) histogram->longest = other->longest;
}

#endif
