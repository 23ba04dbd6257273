/* For how long Ruby has collected garbage within a stretch of running. Ruby's hooks for that would
 * make every allocation slower; what it counts itself is asked for where a stretch was long. */
#ifndef AB_RB_COLLECTED_H
#define AB_RB_COLLECTED_H

#include <ruby.h>

#include "base/base.h"

/* A shorter stretch is not looked at: Ruby counts in milliseconds. */
#define AB_COLLECTED_MIN AB_NSEC_PER_MS

typedef struct ab_collected {
  size_t count;  /* of collections that had begun at the last look, ... */
  ab_nsec total; /* ... and what all had taken */
} ab_collected;

void ab__collected_look(ab_collected *collected);
ab_nsec ab__collected_part(ab_collected *collected, ab_nsec ran);

/* A stretch begins: what was collected before is none of its time. */
static inline void ab_collected_begin(ab_collected *collected) {
  if (AB_UNLIKELY(rb_gc_count() != collected->count)) ab__collected_look(collected);
}

/* It has ended; how much of the time that it has run. Makes no object. */
static inline ab_nsec ab_collected_end(ab_collected *collected, ab_nsec ran) {
  return AB_LIKELY(ran < AB_COLLECTED_MIN) ? 0 : ab__collected_part(collected, ran);
}

#endif
