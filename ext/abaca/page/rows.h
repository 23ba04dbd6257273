/* Which rows of an area are free: a list that one process has for itself. It has no lock: one
 * thread at a time uses it, the app's with Ruby's lock, the queue's with the engine's. */
#ifndef AB_PAGE_ROWS_H
#define AB_PAGE_ROWS_H

#include "base/mem.h"
#include "page/row.h"

/* The area's mark: how many rows, from the first on, have ever been taken. Readers go no further.
 */
typedef struct ab_rows {
  ab_mem mem;
  ab_row *rows; /* lent */
  uint32_t count;
  uint32_t fresh;    /* rows from here on were never taken */
  uint32_t returned; /* how many of `free` are in use */
  uint32_t *mark;    /* lent; in the page */
  uint64_t *missed;  /* lent; in the page: how often none was left */
  uint32_t *free;    /* rows that were given back, the last one on top */
} ab_rows;

/* Over rows that this process has claimed: none is in use. AB_OK or AB_ENOMEM. */
int ab_rows_init(ab_rows *self, const ab_mem *mem, ab_row *rows, uint32_t count, uint32_t *mark,
                 uint64_t *missed) AB_WARN_UNUSED;
void ab_rows_fini(ab_rows *self);

/* The row that was given back last, or the lowest that was never taken: so no more rows are touched
 * than were taken at once. NULL when all are, which counts as missed. The caller begins it, once or
 * several times in turn (row_taken.h), and ends it. */
ab_row *ab_rows_take(ab_rows *self);
/* Ends it, and takes it back. */
void ab_rows_give(ab_rows *self, ab_row *row);

/* Tells readers once more how far to go at least, since others may have written over the mark. One
 * that is too high only makes them look at rows that nobody has taken. */
static inline void ab_rows_show(const ab_rows *self) {
  if (AB_GET(*self->mark) < self->fresh) AB_PUT(*self->mark, self->fresh);
}

static inline uint32_t ab_rows_in_use(const ab_rows *self) {
  return self->fresh - self->returned;
}

/* The place of a row of the list in its area. */
static inline uint32_t ab_rows_index(const ab_rows *self, const ab_row *row) {
  return (uint32_t)(row - self->rows);
}

#endif
