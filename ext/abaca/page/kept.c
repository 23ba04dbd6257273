#include "page/kept.h"

void ab_kept_add(ab_row *kept, uint32_t count, uint64_t *next, const ab_row *row,
                 unsigned reasons) {
  if (count == 0) return;
  uint64_t n = *next;
  ab_row *to = &kept[n % count];
  const size_t head = offsetof(ab_row, since);
  ab_row_open(to);
  size_t size = row->wait_count ? sizeof(*row) : offsetof(ab_row, waits);
  ab_words_put(&to->since, &row->since, size - head);
  AB_PUT(to->state, row->state);
  AB_PUT(to->mode, row->mode);
  AB_PUT(to->phase, row->phase);
  AB_PUT(to->number, n);
  AB_PUT(to->reason, (uint8_t)reasons);
  AB_PUT(to->used, 1);
  ab_row_close(to);
  /* Release: whoever sees the number finds the row. Partner: ab_kept_next. */
  __atomic_store_n(next, n + 1, __ATOMIC_RELEASE);
}

uint64_t ab_kept_next(const uint64_t *next) {
  /* Acquire: partner is ab_kept_add. */
  return __atomic_load_n(next, __ATOMIC_ACQUIRE);
}

bool ab_kept_load(const ab_row *kept, uint32_t count, uint64_t n, ab_row *copy) {
  return ab_row_load(&kept[n % count], copy) && copy->number == n && copy->end < AB_ROW_ENDS;
}
