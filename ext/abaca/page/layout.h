/* The layout of the page that the processes of a server share: a head, then its slots, one for each
 * worker. Numbers are in the machine's byte order, times in nanoseconds. README.md says how a
 * reader finds the page and reads it, docs/page.md how it looks from outside.
 *
 * Whoever changes an offset or a meaning here gives AB_PAGE_VERSION the next number. Bytes that are
 * not named are 0 and belong to later versions. */
#ifndef AB_PAGE_LAYOUT_H
#define AB_PAGE_LAYOUT_H

#include "page/figures.h"

#define AB_PAGE_MAGIC     "abacapag" /* 8 bytes, without the NUL */
#define AB_PAGE_VERSION   2
#define AB_PAGE_NAME      "abaca-page" /* of the memory, as /proc/PID/fd/N tells it */
#define AB_PAGE_HEAD_SIZE 4096
#define AB_PAGE_SLOT_SIZE 8192
#define AB_PAGE_MAX_SLOTS 4096

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
  uint32_t reserved;     /* 0 */
  uint8_t id[16];        /* random: a page made later has another one */
  uint64_t made_at;      /* by the monotonic clock, ... */
  uint64_t made_at_unix; /* ... and at the same moment by the wall clock */
} ab_page_head;

enum ab_page_state {
  AB_PAGE_EMPTY,    /* no process has it */
  AB_PAGE_BOOTING,  /* its process loads the application */
  AB_PAGE_SERVING,  /* ... serves */
  AB_PAGE_DRAINING, /* ... finishes what is in flight */
  AB_PAGE_ENDED,    /* ... has ended */
  AB_PAGE_STATES
};

/* Each line of 64 bytes has one writer at a time. */
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

  uint8_t rest[AB_PAGE_SLOT_SIZE - 2 * AB_CACHE_LINE - 2 * sizeof(ab_figures)];
} ab_page_slot;

_Static_assert(offsetof(ab_page_head, magic) == 0 && offsetof(ab_page_head, version) == 8 &&
                   offsetof(ab_page_head, head_size) == 12 &&
                   offsetof(ab_page_head, slot_size) == 16 &&
                   offsetof(ab_page_head, slot_count) == 20 && offsetof(ab_page_head, size) == 24 &&
                   offsetof(ab_page_head, creator) == 32 && offsetof(ab_page_head, id) == 40 &&
                   offsetof(ab_page_head, made_at) == 56 &&
                   offsetof(ab_page_head, made_at_unix) == 64 && sizeof(ab_page_head) == 72,
               "the head");
_Static_assert(offsetof(ab_page_slot, holder) == 0 && offsetof(ab_page_slot, settled) == 8 &&
                   offsetof(ab_page_slot, state) == 12 && offsetof(ab_page_slot, phase) == 16 &&
                   offsetof(ab_page_slot, taken_at) == 24 &&
                   offsetof(ab_page_slot, started_at) == 32,
               "the first line of a slot");
_Static_assert(offsetof(ab_page_slot, beat) == 64 && offsetof(ab_page_slot, figures) == 128 &&
                   offsetof(ab_page_slot, before) == 384 && offsetof(ab_page_slot, rest) == 640 &&
                   sizeof(ab_page_slot) == AB_PAGE_SLOT_SIZE,
               "the other lines of a slot");
_Static_assert(AB_PAGE_HEAD_SIZE % 4096 == 0 && AB_PAGE_SLOT_SIZE % AB_CACHE_LINE == 0,
               "slots begin with a cache line");

#endif
