/* History: what a process did in each second of the last ten minutes, and in each ten seconds of
 * the last six hours. */
#ifndef AB_PAGE_HISTORY_H
#define AB_PAGE_HISTORY_H

#include "page/cells.h"

#define AB_PAGE_SECONDS 600
#define AB_PAGE_TENS    2160

/* The values of a record, in their order in the page, and how ten of them become one: their SUM,
 * the MOST, or the LAST of them. Times are milliseconds of all requests together, but for
 * percentiles. */
#define AB_HISTORY(SUM, MOST, LAST)                                                                \
  SUM(requests) /* that ended, or were rejected */                                                 \
  SUM(failed)   /* ... with 5xx: all that were rejected */                                         \
  MOST(in_app)                                                                                     \
  MOST(waiting)                                                                                    \
  LAST(p50) /* microseconds, of those that the application has had */                              \
  LAST(p95)                                                                                        \
  LAST(p99)                                                                                        \
  MOST(connections)                                                                                \
  SUM(cpu)  /* of the process */                                                                   \
  LAST(rss) /* megabytes */                                                                        \
  SUM(run)                                                                                         \
  SUM(db)                                                                                          \
  SUM(pool)                                                                                        \
  SUM(http)                                                                                        \
  SUM(stalls)                                                                                      \
  SUM(gc)

typedef struct ab_history_values {
#define AB_HISTORY_MEMBER(name) uint32_t name;
  AB_HISTORY(AB_HISTORY_MEMBER, AB_HISTORY_MEMBER, AB_HISTORY_MEMBER)
#undef AB_HISTORY_MEMBER
} ab_history_values;

typedef struct ab_history_record {
  uint32_t seq;
  uint32_t tick; /* of the monotonic clock: seconds, or tens of them; 0: none */
  ab_history_values values;
} ab_history_record;

_Static_assert(sizeof(ab_history_values) == 64 && sizeof(ab_history_record) == 72,
               "records are whole words");

/* What has been counted so far, and what there is now. Times are nanoseconds. */
typedef struct ab_history_totals {
  uint64_t requests, failed, cpu, run, db, pool, http, stalls, gc;
  uint32_t in_app, waiting, connections, rss;
} ab_history_totals;

/* The writer's own. One thread at a time. */
typedef struct ab_history {
  ab_history_record *seconds, *tens; /* lent */
  uint32_t second_count, ten_count;
  uint32_t tick; /* the last one; 0: only `totals` are known */
  ab_history_totals totals;
  ab_cells cells;        /* at the last tick, ... */
  ab_cells ten_cells;    /* ... and at the end of the last ten seconds */
  ab_history_values ten; /* since then */
} ab_history;

/* It begins with what was counted until now. */
void ab_history_over(ab_history *self, ab_history_record *seconds, uint32_t second_count,
                     ab_history_record *tens, uint32_t ten_count, const ab_history_totals *totals,
                     const ab_cells *requests);
/* To be called each second: the record of that second has what came since the last call. The first
 * call of the next ten seconds writes those that are over. Seconds without a call have no record.
 */
void ab_history_tick(ab_history *self, ab_nsec now, const ab_history_totals *totals,
                     const ab_cells *requests);

/* Copies the record of a tick; false if there is none any more, or was none. */
bool ab_history_load(const ab_history_record *records, uint32_t count, uint32_t tick,
                     ab_history_record *copy) AB_WARN_UNUSED;
/* The tick of a moment. */
static inline uint32_t ab_history_second(ab_nsec now) {
  return (uint32_t)(now / AB_NSEC_PER_SEC);
}

#endif
