#include "page/rows.h"

int ab_rows_init(ab_rows *self, const ab_mem *mem, ab_row *rows, uint32_t count, uint32_t *mark,
                 uint64_t *missed) {
  *self = (ab_rows){.mem = *mem, .rows = rows, .count = count, .mark = mark, .missed = missed};
  if (count == 0) return AB_OK;
  self->free = ab_alloc(mem, count * sizeof(*self->free));
  return self->free ? AB_OK : AB_ENOMEM;
}

void ab_rows_fini(ab_rows *self) {
  ab_free(&self->mem, self->free);
  self->free = NULL;
  self->count = self->fresh = self->returned = 0;
}

ab_row *ab_rows_take(ab_rows *self) {
  if (AB_LIKELY(self->returned > 0)) return &self->rows[self->free[--self->returned]];
  if (AB_UNLIKELY(self->fresh == self->count)) {
    AB_ADD(*self->missed, 1);
    return NULL;
  }
  ab_row *row = &self->rows[self->fresh++];
  ab_rows_show(self);
  AB_PUT(row->touched, 0); /* a process that was killed may have left anything: it is not plain */
  return row;
}

void ab_rows_give(ab_rows *self, ab_row *row) {
  ab_row_end(row);
  self->free[self->returned++] = ab_rows_index(self, row);
}
