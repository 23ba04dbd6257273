/* Events: what happened, in a ring. Any thread of any process that has the page mapped may write
 * one, without a lock: numbers are taken by an atomic addition. */
#ifndef AB_PAGE_EVENTS_H
#define AB_PAGE_EVENTS_H

#include "page/words.h"

#define AB_PAGE_EVENTS     256
#define AB_PAGE_EVENT_TEXT 80
/* A bit of `time`: the event is not over. */
#define AB_PAGE_EVENT_LASTS ((ab_nsec)1 << 63)

/* The order is a part of the page's layout. */
#define AB_PAGE_EVENT_KINDS(KIND)                                                                  \
  KIND(BOOT, "boot")     /* a worker serves */                                                     \
  KIND(DRAIN, "drain")   /* ... and finishes what is in flight */                                  \
  KIND(DEATH, "death")   /* ... and has ended, though nobody asked */                              \
  KIND(STALL, "stall")   /* a loop made no turn */                                                 \
  KIND(REJECT, "reject") /* 503 without the application */                                         \
  KIND(GC, "gc")         /* a long collection */                                                   \
  KIND(CANCEL, "cancel") /* a request was cancelled */                                             \
  KIND(ERROR, "error")   /* the application raised */                                              \
  KIND(MODE, "mode")     /* a route has moved to threads or back */                                \
  KIND(MEMORY, "memory") /* a worker was replaced for its memory */                                \
  KIND(MARK, "mark")     /* a deploy, or what an operator notes */                                 \
  KIND(LOG, "log")       /* lines of the log are lost */

enum ab_page_event_kind {
#define AB_PAGE_EVENT_KIND_NAME(name, text) AB_PAGE_EVENT_##name,
  AB_PAGE_EVENT_KINDS(AB_PAGE_EVENT_KIND_NAME)
#undef AB_PAGE_EVENT_KIND_NAME
      AB_PAGE_EVENT_KIND_COUNT
};

typedef struct ab_page_event {
  uint64_t number;  /* of event n: 2 n + 1 while it is written, 2 n + 2 when it is whole; 0: none */
  ab_nsec when;     /* monotonic; of a stall: when it began */
  uint64_t id;      /* of a request; 0: none */
  ab_nsec time;     /* how long it took; 0: not known; with AB_PAGE_EVENT_LASTS: so far */
  ab_nsec computed; /* CPU time of a stall that is over; 0: not known */
  uint32_t pid;
  uint8_t kind; /* enum ab_page_event_kind */
  uint8_t text_len;
  uint16_t status;
  char text[AB_PAGE_EVENT_TEXT]; /* cut off, not terminated */
} ab_page_event;

_Static_assert(sizeof(ab_page_event) == 128, "events fill cache lines");

/* Writes facts (without number and text) and text. A writer that is overtaken by a whole round of
 * others gives its event up. Returns the event's number. */
uint64_t ab_page_event_write(ab_page_event *events, uint32_t count, uint64_t *next,
                             const ab_page_event *facts, ab_view text);
/* Event n is over. Does nothing if a later event has its place. */
void ab_page_event_end(ab_page_event *events, uint32_t count, uint64_t n, ab_nsec time,
                       ab_nsec computed);
/* Copies event n, from 0 below *next; false if it was overwritten, or is not whole. */
bool ab_page_event_load(const ab_page_event *events, uint32_t count, uint64_t n,
                        ab_page_event *copy) AB_WARN_UNUSED;
const char *ab_page_event_kind_name(enum ab_page_event_kind kind);

#endif
