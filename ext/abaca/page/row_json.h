/* Requests in flight as JSON: those of all slots, the oldest first. */
#ifndef AB_PAGE_ROW_JSON_H
#define AB_PAGE_ROW_JSON_H

#include "page/page.h"

/* --- which ones --- */

typedef struct ab_row_found {
  ab_nsec began;
  const ab_row *row;
  uint32_t slot;
} ab_row_found;

/* How many there may be in a slot. */
size_t ab_row_found_most(const ab_page_parts *parts);
/* Those that are there, in any order; no more than `most`. Returns how many. */
size_t ab_row_find(ab_row_found *found, size_t most, const ab_page_parts *parts, uint32_t slot);
void ab_row_sort(ab_row_found *found, size_t count);

/* --- one of them --- */

/* What a look knows beside the row. */
typedef struct ab_row_beside {
  ab_nsec now; /* the time in its state counts until then */
  uint32_t slot, worker;
  ab_view route; /* NULL: not known */
  bool waits;    /* its last waits are wanted */
} ab_row_beside;

/* The room for each of them. */
#define AB_ROW_JSON_MAX 8192
/* An object as the control server gives it: docs/control.md. Times are what Ruby would write; after
 * eleven days they may have more digits. Returns the end. */
char *ab_row_json(char *at, const ab_row *row, const ab_row_beside *beside);
/* ... and as the screen of requests has it: fewer keys, those without a value left out,
 * microseconds. */
char *ab_row_json_short(char *at, const ab_row *row, const ab_row_beside *beside);

#endif
