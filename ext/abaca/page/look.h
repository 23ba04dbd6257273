/* What a slot says as a whole: the rows in use, counted by state, and the totals that its history
 * is made of. */
#ifndef AB_PAGE_LOOK_H
#define AB_PAGE_LOOK_H

#include "page/page.h"

/* How many rows of an area were ever taken, whatever stands there. */
uint32_t ab_page_rows_marked(const ab_page_parts *parts);
uint32_t ab_page_queued_marked(const ab_page_parts *parts);

/* The requests that have rows now, by state: each is looked at once, by a word. */
typedef struct ab_page_states {
  uint32_t now[AB_STATE_COUNT];
} ab_page_states;

ab_page_states ab_page_states_of(const ab_page_parts *parts);

/* The same, by method. */
typedef struct ab_page_methods {
  uint32_t now[AB_ROW_METHOD_COUNT];
} ab_page_methods;

/* Adds those of this slot. */
void ab_page_count_methods(const ab_page_parts *parts, ab_page_methods *methods);

/* A name that the page knows, copied into `name`; "_OTHER" for the last number, NULL for other
 * numbers. */
ab_view ab_page_route_of(const ab_page_parts *parts, uint32_t number,
                         char name[AB_PAGE_ROUTE_NAME]);

/* The times of all requests that have ended, whatever their routes. */
void ab_page_requests(const ab_page_parts *parts, ab_cells *cells);
/* Of this slot: what ab_history_tick needs. */
ab_history_totals ab_page_totals(const ab_page_parts *parts);

#endif
