/* The requests of a slot, counted: in which states they are, what they wait for, and how long they
 * have been in each state so far. A look costs a copy of each row, and no memory. */
#ifndef AB_PAGE_CROWD_H
#define AB_PAGE_CROWD_H

#include "page/page.h"

/* Pairs of a state and a peer that are told apart. Beyond them, a peer counts as unknown. */
#define AB_CROWD_WAITS 64

typedef struct ab_crowd_wait {
  uint32_t state; /* enum ab_state */
  uint32_t count;
  ab_nsec longest;
  ab_addr peer; /* family 0: none is known */
} ab_crowd_wait;

typedef struct ab_crowd {
  uint32_t now[AB_STATE_COUNT];
  uint64_t sums[AB_STATE_COUNT]; /* nanoseconds, up to the look */
  uint32_t wait_count;
  ab_crowd_wait waits[AB_CROWD_WAITS + AB_STATE_COUNT];
} ab_crowd;

/* Of a slot whose process is there; else there is nothing. */
void ab_page_crowd(const ab_page_parts *parts, ab_nsec now, ab_crowd *crowd);

#endif
