/* Counts of times, so fine that two histograms follow from them: OpenTelemetry's, with 14 bounds,
 * and a native one of Prometheus's schema 3, with 8 buckets in each octave. A time is counted in
 * one cell, by one store: so both agree at each moment, also after the writer was killed. */
#ifndef AB_PAGE_CELLS_H
#define AB_PAGE_CELLS_H

#include "page/words.h"

#define AB_CELLS 181
/* OpenTelemetry's bounds for the duration of requests, and beyond the last one. */
#define AB_CELLS_PLAIN 15
/* From 2^-14 to 2^7 seconds. */
#define AB_CELLS_FINE 168
/* The schema's number of the first: bucket i ends at 2^(i/8) seconds. */
#define AB_CELLS_FINE_FIRST (-111)

typedef struct ab_cells {
  uint64_t counts[AB_CELLS]; /* the last one: more than 2^7 seconds */
  uint64_t sum;              /* nanoseconds */
} ab_cells;

/* As others know them. A bucket has the times up to its end, that included. */
typedef struct ab_cells_view {
  uint64_t count;                 /* the sum of `plain`, and of `least`, `fine` and `most` */
  uint64_t plain[AB_CELLS_PLAIN]; /* each without those before */
  uint64_t fine[AB_CELLS_FINE];
  uint64_t least; /* up to 2^-14 seconds */
  uint64_t most;  /* more than 2^7 */
} ab_cells_view;

/* Which cell counts a time: a clz, and few comparisons. */
unsigned ab_cells_find(ab_nsec time);
/* The longest time of a cell; UINT64_MAX for the last. */
ab_nsec ab_cells_end(unsigned cell);

/* One writer at a time. */
static inline void ab_cells_add(ab_cells *cells, ab_nsec time) {
  unsigned cell = ab_cells_find(time);
  AB_ADD(cells->counts[cell], 1);
  AB_ADD(cells->sum, time);
}

/* Adds what somebody may be writing. */
void ab_cells_join(ab_cells *sum, const ab_cells *one);
/* Takes off what was there before. */
void ab_cells_since(ab_cells *cells, const ab_cells *before);
uint64_t ab_cells_count(const ab_cells *cells);
/* The end of the cell that has the time of that rank: of 1,000 a part of `permille` is not longer.
 * 0 without any; 2^7 seconds for the last cell. */
ab_nsec ab_cells_rank(const ab_cells *cells, unsigned permille);
ab_cells_view ab_cells_view_of(const ab_cells *cells);
/* OpenTelemetry's bounds; i < AB_CELLS_PLAIN - 1. */
ab_nsec ab_cells_plain_end(unsigned i);

#endif
