/* What a server counts beside its engine, by the way in which requests run, and how Ruby sees all
 * of it. */
#ifndef AB_RB_STATS_H
#define AB_RB_STATS_H

#include <ruby.h>

#include "base/histogram.h"

struct ab_server;

/* On what a request runs. */
enum ab_mode {
  AB_MODE_FIBER,
  AB_MODE_THREAD,
  AB_MODES,
  AB_MODE_HYBRID = AB_MODES /* one of these, as rb_hybrid.c finds */
};

/* Whoever does one of these things counts it, with the GVL. What there is at the moment is not
 * counted but looked up when somebody asks. */
typedef struct ab_mode_counts {
  uint64_t rejected;  /* requests that were answered 503 because there was no room for them */
  uint64_t cancelled; /* requests that got an exception from us where they waited */
  uint64_t swallowed; /* ... and whose app went on and did not end by it */
  uint64_t abandoned; /* ... and that were waited for no longer */
} ab_mode_counts;

typedef struct ab_counts {
  ab_mode_counts modes[AB_MODES];
  uint64_t stalls; /* times that a request kept its loop for longer than stall_report */
  ab_nsec longest_stall;
} ab_counts;

/* Adds to a part of Engine#stats, a Hash, by its name. */
static inline void ab_stats_put(VALUE hash, const char *name, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}
static inline VALUE ab_stats_seconds(ab_nsec time) {
  return DBL2NUM((double)time / (double)AB_NSEC_PER_SEC);
}

/* Adds Engine#stats and #limits. */
void ab_init_stats(VALUE cEngine);

#endif
