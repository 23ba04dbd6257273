/* Which rows are free: low ones first, none twice, and none beyond the last. */
#include "check.h"
#include "page/rows.h"

#define COUNT 50

typedef struct area {
  ab_row rows[COUNT];
  uint32_t mark;
  uint64_t missed;
} area;

static const ab_row_start start = {.path = {"/", 1}};

static ab_row *take(ab_rows *rows) {
  ab_row *row = ab_rows_take(rows);
  if (row) ab_row_begin(row, &start);
  return row;
}

CHECK_CASE(rows_are_taken_from_below) {
  area here = {0};
  ab_rows rows;
  CHECK_INT(AB_OK, ab_rows_init(&rows, &ab_mem_libc, here.rows, COUNT, &here.mark, &here.missed));
  CHECK(take(&rows) == &here.rows[0]);
  CHECK(take(&rows) == &here.rows[1]);
  CHECK(take(&rows) == &here.rows[2]);
  CHECK_INT(3, here.mark);
  CHECK_INT(3, ab_rows_in_use(&rows));
  ab_rows_give(&rows, &here.rows[1]);
  CHECK_INT(0, here.rows[1].used);
  CHECK_INT(2, ab_rows_in_use(&rows));
  CHECK(take(&rows) == &here.rows[1]);
  CHECK_INT(3, here.mark);
  ab_rows_fini(&rows);
}

/* The mark is what was in use at once. */
CHECK_CASE(no_more_are_touched_than_were_in_use_at_once) {
  area here = {0};
  ab_rows rows;
  ab_row *mine[COUNT];
  unsigned count = 0, most = 0;
  uint32_t random = 1;
  CHECK_INT(AB_OK, ab_rows_init(&rows, &ab_mem_libc, here.rows, COUNT, &here.mark, &here.missed));
  for (int i = 0; i < 10000; i++) {
    random = random * 1664525 + 1013904223;
    if (random >> 31 && count < 20) {
      mine[count] = take(&rows);
      for (unsigned j = 0; j < count; j++) CHECK(mine[j] != mine[count]);
      count++;
    } else if (count) {
      unsigned which = (random >> 8) % count;
      ab_rows_give(&rows, mine[which]);
      mine[which] = mine[--count];
    }
    if (count > most) most = count;
    CHECK_INT(count, ab_rows_in_use(&rows));
    CHECK_INT(most, here.mark);
  }
  CHECK_INT(20, most);
  ab_rows_fini(&rows);
}

CHECK_CASE(none_is_left) {
  area here = {0};
  ab_rows rows;
  CHECK_INT(AB_OK, ab_rows_init(&rows, &ab_mem_libc, here.rows, COUNT, &here.mark, &here.missed));
  for (unsigned i = 0; i < COUNT; i++) CHECK(ab_rows_index(&rows, take(&rows)) == i);
  CHECK(!take(&rows));
  CHECK(!take(&rows));
  CHECK_INT(2, here.missed);
  ab_rows_give(&rows, &here.rows[COUNT - 1]);
  CHECK(take(&rows) == &here.rows[COUNT - 1]);
  ab_rows_fini(&rows);
  CHECK(!ab_rows_take(&rows));
}

CHECK_CASE(an_area_without_rows) {
  area here = {0};
  ab_rows rows;
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK_INT(AB_OK, ab_rows_init(&rows, &mem.mem, here.rows, 0, &here.mark, &here.missed));
  CHECK(!ab_rows_take(&rows));
  CHECK_INT(1, here.missed);
  ab_rows_fini(&rows);
}

CHECK_CASE(without_memory_there_is_no_list) {
  area here = {0};
  ab_rows rows;
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK_INT(AB_ENOMEM, ab_rows_init(&rows, &mem.mem, here.rows, COUNT, &here.mark, &here.missed));
  check_mem_init(&mem, 0);
  CHECK_INT(AB_OK, ab_rows_init(&rows, &mem.mem, here.rows, COUNT, &here.mark, &here.missed));
  CHECK_INT(1, mem.live);
  ab_rows_fini(&rows);
  CHECK_INT(0, mem.live);
}

CHECK_MAIN()
