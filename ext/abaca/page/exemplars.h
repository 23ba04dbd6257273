/* Exemplars: for each of OpenTelemetry's buckets of a series, the last request that was counted
 * there and belongs to a trace that is kept. */
#ifndef AB_PAGE_EXEMPLARS_H
#define AB_PAGE_EXEMPLARS_H

#include "page/cells.h"
#include "page/row.h"

typedef struct ab_exemplar {
  uint32_t seq; /* see page/words.h */
  uint32_t reserved;
  ab_nsec time; /* what was counted */
  ab_nsec at;   /* when, by the monotonic clock; 0: there is none */
  uint8_t trace[16];
  uint8_t span[8];
} ab_exemplar;

typedef struct ab_exemplars {
  ab_exemplar of[AB_CELLS_PLAIN];
  uint8_t padding[48];
} ab_exemplars;

_Static_assert(offsetof(ab_exemplar, trace) == 24 && sizeof(ab_exemplar) == 48 &&
                   sizeof(ab_exemplars) == 12 * 64,
               "exemplars fill cache lines");

/* The row has been charged to its end, and was counted by the time since it began. One writer at a
 * time. */
void ab_exemplars_note(ab_exemplars *self, const ab_row *row);
/* Those that are newer take the place of those in `newest`. What somebody may be writing. */
void ab_exemplars_join(ab_exemplars *newest, const ab_exemplars *one);

#endif
