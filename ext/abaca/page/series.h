/* Series: histograms of times, each for one kind, route, method and status. */
#ifndef AB_PAGE_SERIES_H
#define AB_PAGE_SERIES_H

#include "page/cells.h"

#define AB_PAGE_SERIES 512

/* What is measured. The order is a part of the page's layout. */
#define AB_SERIES_KINDS(KIND)                                                                      \
  KIND(REQUEST, "request")         /* from its first instant to its end */                         \
  KIND(QUEUE, "queue")             /* complete, until it was taken */                              \
  KIND(PROXY, "proxy")             /* since a proxy has noted its arrival */                       \
  KIND(LOOP_LAG, "loop_lag")       /* a loop's time between two turns */                           \
  KIND(GVL_LOOP, "gvl_loop")       /* for Ruby's lock: the main loop, ... */                       \
  KIND(GVL_SPARE, "gvl_spare")     /* ... a spare one, */                                          \
  KIND(GVL_THREAD, "gvl_thread")   /* ... a thread of the pool, */                                 \
  KIND(GVL_OFFLOAD, "gvl_offload") /* ... one that offloads */                                     \
  KIND(DB, "db")                   /* one wait in that state, as all below */                      \
  KIND(CACHE, "cache")                                                                             \
  KIND(HTTP, "http")                                                                               \
  KIND(IO, "io")                                                                                   \
  KIND(POOL, "pool")                                                                               \
  KIND(LOCK, "lock")                                                                               \
  KIND(DNS, "dns")                                                                                 \
  KIND(GC, "gc")                                                                                   \
  KIND(STALL, "stall")                                                                             \
  KIND(LOOP_LAG_SPARE, "loop_lag_spare") /* as LOOP_LAG, of a spare loop */

enum ab_series_kind {
#define AB_SERIES_KIND_NAME(name, text) AB_SERIES_##name,
  AB_SERIES_KINDS(AB_SERIES_KIND_NAME)
#undef AB_SERIES_KIND_NAME
      AB_SERIES_KIND_COUNT
};

/* The route of a series that has none. */
#define AB_SERIES_NO_ROUTE UINT32_MAX

typedef struct ab_series_key {
  uint8_t kind;    /* enum ab_series_kind */
  uint8_t method;  /* enum ab_row_method; 0 where there is none */
  uint16_t status; /* 0 where there is none */
  uint32_t route;  /* its number; AB_SERIES_NO_ROUTE */
} ab_series_key;

typedef struct ab_series {
  ab_series_key key; /* written once */
  ab_cells cells;    /* by one thread at a time */
  uint8_t padding[8];
} ab_series;

_Static_assert(sizeof(ab_series_key) == sizeof(ab_word), "a key is a word");
_Static_assert(offsetof(ab_series, cells) == 8 && sizeof(ab_series) == 23 * 64,
               "series fill cache lines");

/* A process's table of the series in its slot: it knows the keys without the page. One thread at a
 * time. The last series of the area, one for each kind, take what finds no place: the sum over a
 * kind's series is always whole. */
typedef struct ab_series_table {
  ab_series *series;                   /* lent */
  uint32_t most;                       /* how many have a key of their own, ... */
  uint32_t used;                       /* ... and how many do */
  uint32_t *shown;                     /* lent; in the page: `used` */
  uint64_t *dropped;                   /* lent; in the page: times that are counted as others */
  uint64_t keys[AB_PAGE_SERIES];       /* each as a word */
  uint16_t places[2 * AB_PAGE_SERIES]; /* by hash: number + 1 */
} ab_series_table;

/* Over the series of a slot that this process has claimed, AB_SERIES_KIND_COUNT or more: it goes on
 * with those that are there. */
void ab_series_table_over(ab_series_table *self, ab_series *series, uint32_t count, uint32_t *shown,
                          uint64_t *dropped);
/* The one with that key, or that of all others of its kind. It stays the same one. */
ab_series *ab_series_find(ab_series_table *self, ab_series_key key);

static inline void ab_series_add(ab_series *series, ab_nsec time) {
  ab_cells_add(&series->cells, time);
}

/* --- reading --- */

/* How many series have keys. */
uint32_t ab_series_used(const uint32_t *used, uint32_t count);
/* From one series to the next that may be in use: between those with keys and those of all others
 * there is none. Loops go from ab_series_skip(0, ...) to below count. */
static inline uint32_t ab_series_skip(uint32_t i, uint32_t used, uint32_t count) {
  uint32_t others = count > AB_SERIES_KIND_COUNT ? count - AB_SERIES_KIND_COUNT : 0;
  return i >= used && i < others ? others : i;
}
/* The key of series i, for i below that and from count - AB_SERIES_KIND_COUNT on: those of all
 * others have the number of the last route `other`. False if it is not a known one. */
bool ab_series_key_of(const ab_series *series, uint32_t count, uint32_t i, uint32_t other,
                      ab_series_key *key) AB_WARN_UNUSED;
const char *ab_series_kind_name(enum ab_series_kind kind);

#endif
