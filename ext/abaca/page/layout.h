/* The layout of the page that the processes of a server share: a head, then its slots, one for each
 * worker; in a slot its core, then its areas. Numbers are in the machine's byte order, times in
 * nanoseconds. README.md says how a reader finds the page and reads it, docs/page.md how it looks
 * from outside.
 *
 * Whoever changes an offset or a meaning here, or in the headers of the areas, gives
 * AB_PAGE_VERSION the next number. Bytes that are not named are 0 and belong to later versions. */
#ifndef AB_PAGE_LAYOUT_H
#define AB_PAGE_LAYOUT_H

#include "page/clients.h"
#include "page/events.h"
#include "page/exemplars.h"
#include "page/figures.h"
#include "page/history.h"
#include "page/kept.h"
#include "page/loops.h"
#include "page/pools.h"
#include "page/routes.h"
#include "page/series.h"

#define AB_PAGE_MAGIC     "abacapag" /* 8 bytes, without the NUL */
#define AB_PAGE_VERSION   5
#define AB_PAGE_NAME      "abaca-page" /* of the memory, as /proc/PID/fd/N tells it */
#define AB_PAGE_HEAD_SIZE 4096
#define AB_PAGE_CORE_SIZE 4096
#define AB_PAGE_MAX_SLOTS 4096
/* Of a slot, those of the queue included. */
#define AB_PAGE_MAX_ROWS 65536

/* name, type of a record. The order is a part of the layout. */
#define AB_PAGE_AREAS(AREA)                                                                        \
  AREA(LOOPS, ab_loop_line)                                                                        \
  AREA(ROWS, ab_row)   /* of requests in the application */                                        \
  AREA(QUEUED, ab_row) /* of those that wait to be taken */                                        \
  AREA(ROUTES, ab_page_route)                                                                      \
  AREA(SERIES, ab_series)                                                                          \
  AREA(EVENTS, ab_page_event)                                                                      \
  AREA(KEPT, ab_row)                                                                               \
  AREA(SECONDS, ab_history_record)                                                                 \
  AREA(TENS, ab_history_record)                                                                    \
  AREA(CLIENTS, ab_page_client)                                                                    \
  AREA(EXEMPLARS, ab_exemplars) /* of the series of the same number */                             \
  AREA(POOLS, ab_page_pool)

enum ab_page_area_name {
#define AB_PAGE_AREA_NAME(name, type) AB_PAGE_AREA_##name,
  AB_PAGE_AREAS(AB_PAGE_AREA_NAME)
#undef AB_PAGE_AREA_NAME
      AB_PAGE_AREA_COUNT
};

/* Where an area stands, in each slot. */
typedef struct ab_page_area {
  uint32_t offset; /* from the beginning of the slot */
  uint32_t count;  /* of records */
  uint32_t size;   /* of a record */
  uint32_t reserved;
} ab_page_area;

/* Written once, before the page is shared; `magic` last. Slot i begins at head_size + i *
 * slot_size, both as they stand here. */
typedef struct ab_page_head {
  uint64_t magic; /* the bytes of AB_PAGE_MAGIC */
  uint32_t version;
  uint32_t head_size;
  uint32_t slot_size;
  uint32_t slot_count;
  uint64_t size;         /* of the whole page */
  uint32_t creator;      /* the process that made it: the master */
  uint32_t area_count;   /* AB_PAGE_AREA_COUNT */
  uint8_t id[16];        /* random: a page made later has another one */
  uint64_t made_at;      /* by the monotonic clock, ... */
  uint64_t made_at_unix; /* ... and at the same moment by the wall clock */
  uint8_t line_1[56];
  ab_page_area areas[AB_PAGE_AREA_COUNT];
} ab_page_head;

enum ab_page_state {
  AB_PAGE_EMPTY,    /* no process has it */
  AB_PAGE_BOOTING,  /* its process loads the application */
  AB_PAGE_SERVING,  /* ... serves */
  AB_PAGE_DRAINING, /* ... finishes what is in flight */
  AB_PAGE_ENDED,    /* ... has ended */
  AB_PAGE_STATES
};

/* Why another process was to follow. The order is a part of the layout. */
#define AB_PAGE_RESTARTS(REASON)                                                                   \
  REASON(DEATH, "death")     /* it has ended, though nobody asked */                               \
  REASON(TIMEOUT, "timeout") /* it was killed: no heartbeat, or no boot, for too long */           \
  REASON(RESTART, "restart") /* a phased restart */                                                \
  REASON(REFORK, "refork")                                                                         \
  REASON(RECYCLE, "recycle") /* its time has come, or somebody wants a fresh one */                \
  REASON(DRAIN, "drain")     /* somebody wants it to end */

enum ab_page_restart {
#define AB_PAGE_RESTART_NAME(name, text) AB_PAGE_RESTART_##name,
  AB_PAGE_RESTARTS(AB_PAGE_RESTART_NAME)
#undef AB_PAGE_RESTART_NAME
      AB_PAGE_RESTART_COUNT
};

/* By threads of the process that have Ruby's lock: what its requests have done. Counters go on from
 * what earlier processes have counted. */
typedef struct ab_page_app {
  uint32_t mark;           /* of the rows (page/rows.h) */
  uint32_t routes;         /* how many have names */
  uint32_t series;         /* how many have keys */
  uint32_t seq;            /* odd while a request is added to what follows and to its route; one
                              without a route may be added by single words */
  uint64_t missed;         /* requests in the application without a row */
  uint64_t routes_dropped; /* requests whose route has no name, since there are too many */
  uint64_t series_dropped; /* times that are counted as others */
  uint64_t kept;           /* requests that were kept: the next number */
  uint64_t stalls;
  uint64_t stall_time; /* nanoseconds */

  uint64_t ended;                /* requests that were in the application, and what ... */
  uint64_t failed;               /* ... of them was answered with 5xx, or not at all */
  uint64_t sums[AB_STATE_COUNT]; /* nanoseconds of all that have ended, by state */
  uint64_t exemplars;            /* how many were noted */
  uint64_t pools_dropped;        /* pools of the app without a record, since there are too many */
  uint32_t pools;                /* how many have names */
  uint8_t padding[116];
} ab_page_app;

/* By a thread that has the engine's lock. */
typedef struct ab_page_queue {
  uint32_t mark; /* of the queue's rows */
  uint32_t reserved;
  uint64_t missed; /* requests that waited without a row */
  uint8_t padding[48];
} ab_page_queue;

/* By threads of the process that have Ruby's lock: what it is as a whole. */
typedef struct ab_page_process {
  uint64_t gc_time; /* nanoseconds, as all times; counters, as the next two */
  uint64_t gc_minor;
  uint64_t gc_major;
  uint64_t cpu;         /* of this process, since it began */
  uint64_t stall_after; /* the setting; 0: never */
  uint32_t rss;         /* megabytes */
  uint32_t fibers;
  uint32_t fibers_most;
  uint32_t threads;
  uint32_t threads_most;
  uint32_t offloads;
  uint32_t places;     /* requests that may be in the application at once; 0: not known */
  uint32_t queue_most; /* ... and wait to be taken; UINT32_MAX: any number */
  uint8_t padding[56];
} ab_page_process;

_Static_assert(sizeof(ab_page_app) == 6 * AB_CACHE_LINE && sizeof(ab_page_queue) == AB_CACHE_LINE &&
                   sizeof(ab_page_process) == 2 * AB_CACHE_LINE,
               "writers share no cache line");

/* Each line of 64 bytes has one writer at a time. The areas follow, as the head says. */
typedef struct ab_page_slot {
  /* By the process that takes the slot; `state` also later, and by the creator when that process is
   * no more. */
  uint64_t holder;     /* low half: how often the slot was taken; high half: the process */
  uint32_t settled;    /* the low half of `holder`, when the rest was written for it */
  uint32_t state;      /* enum ab_page_state */
  uint32_t phase;      /* the generation of the code that it runs */
  uint32_t reserved;   /* 0 */
  uint64_t taken_at;   /* by the monotonic clock */
  uint64_t started_at; /* the same by the wall clock */
  uint8_t line_0[24];

  /* By a thread of the process that has Ruby's lock, once a second. */
  ab_nsec beat; /* monotonic: it ran then, and the engine had turned, or it boots; 0: not yet */
  uint8_t line_1[56];

  /* By the thread that leads the engine. Counters go on from what earlier processes have counted,
   * so a sum over the slots never falls. */
  ab_figures figures;

  /* By the process that takes the slot: `figures` as they were then. */
  ab_figures before;

  ab_page_app app;
  ab_page_queue queue;
  ab_page_process process;

  /* By any thread of any process, by atomic additions. */
  uint64_t events; /* how many were written: the next number */
  uint8_t line_events[56];

  /* By the page's creator: processes that have ended and were, or are to be, followed by others. */
  uint64_t restarts[AB_PAGE_RESTART_COUNT];
  uint8_t line_restarts[16];

  uint8_t rest[AB_PAGE_CORE_SIZE - 13 * AB_CACHE_LINE - 2 * sizeof(ab_figures)];
} ab_page_slot;

_Static_assert(offsetof(ab_page_head, magic) == 0 && offsetof(ab_page_head, version) == 8 &&
                   offsetof(ab_page_head, head_size) == 12 &&
                   offsetof(ab_page_head, slot_size) == 16 &&
                   offsetof(ab_page_head, slot_count) == 20 && offsetof(ab_page_head, size) == 24 &&
                   offsetof(ab_page_head, creator) == 32 &&
                   offsetof(ab_page_head, area_count) == 36 && offsetof(ab_page_head, id) == 40 &&
                   offsetof(ab_page_head, made_at) == 56 &&
                   offsetof(ab_page_head, made_at_unix) == 64 &&
                   offsetof(ab_page_head, areas) == 128 && sizeof(ab_page_area) == 16,
               "the head");
_Static_assert(offsetof(ab_page_slot, holder) == 0 && offsetof(ab_page_slot, settled) == 8 &&
                   offsetof(ab_page_slot, state) == 12 && offsetof(ab_page_slot, phase) == 16 &&
                   offsetof(ab_page_slot, taken_at) == 24 &&
                   offsetof(ab_page_slot, started_at) == 32,
               "the first line of a slot");
_Static_assert(offsetof(ab_page_slot, beat) == 64 && offsetof(ab_page_slot, figures) == 128 &&
                   offsetof(ab_page_slot, before) == 512 && offsetof(ab_page_slot, app) == 896 &&
                   offsetof(ab_page_slot, queue) == 1280 &&
                   offsetof(ab_page_slot, process) == 1344 &&
                   offsetof(ab_page_slot, events) == 1472 &&
                   offsetof(ab_page_slot, restarts) == 1536 &&
                   sizeof(ab_page_slot) == AB_PAGE_CORE_SIZE,
               "the other lines of a slot");
_Static_assert(AB_PAGE_HEAD_SIZE % 4096 == 0 && AB_PAGE_CORE_SIZE % 4096 == 0,
               "slots begin with a page of memory");

#endif
