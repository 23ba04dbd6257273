/* Requests that are kept when they have ended: the slow ones, those that failed, and some others. A
 * ring of rows. */
#ifndef AB_PAGE_KEPT_H
#define AB_PAGE_KEPT_H

#include "page/row.h"

#define AB_PAGE_KEPT 200

/* A set. The bits are a part of the page's layout. */
enum ab_kept_reason { AB_KEPT_SLOW = 1, AB_KEPT_FAILED = 2, AB_KEPT_SAMPLED = 4 };

/* Copies a row that its thread has charged to its end, which is its `since`. One thread at a time;
 * `*next` is how many were kept. */
void ab_kept_add(ab_row *kept, uint32_t count, uint64_t *next, const ab_row *row, unsigned reasons);
/* How many were kept: the rows below that are there, until they are overwritten. */
uint64_t ab_kept_next(const uint64_t *next);
/* Copies kept row n, from 0 below ab_kept_next; false if it was overwritten, or is not whole. */
bool ab_kept_load(const ab_row *kept, uint32_t count, uint64_t n, ab_row *copy) AB_WARN_UNUSED;

#endif
