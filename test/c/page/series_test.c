/* Series: each key has one, and what finds no place is counted with others of its kind. */
#include "check.h"
#include "page/series.h"

#define OWN (AB_PAGE_SERIES - AB_SERIES_KIND_COUNT)

typedef struct area {
  ab_series series[AB_PAGE_SERIES];
  uint32_t used;
  uint64_t dropped;
  ab_series_table table;
} area;

static area here;

static void begin(void) {
  ab_series_table_over(&here.table, here.series, AB_PAGE_SERIES, &here.used, &here.dropped);
}

static ab_series_key request(uint32_t route, uint16_t status) {
  return (ab_series_key){.kind = AB_SERIES_REQUEST, .method = 1, .status = status, .route = route};
}

static uint64_t count_of(enum ab_series_kind kind) {
  uint32_t used = ab_series_used(&here.used, AB_PAGE_SERIES);
  uint64_t count = 0;
  for (uint32_t i = ab_series_skip(0, used, AB_PAGE_SERIES); i < AB_PAGE_SERIES;
       i = ab_series_skip(i + 1, used, AB_PAGE_SERIES)) {
    ab_series_key key;
    CHECK(ab_series_key_of(here.series, AB_PAGE_SERIES, i, 64, &key));
    if (key.kind == kind) count += ab_cells_count(&here.series[i].cells);
  }
  return count;
}

CHECK_CASE(a_key_has_one_series) {
  here = (area){.used = 0};
  begin();
  ab_series *one = ab_series_find(&here.table, request(3, 200));
  CHECK(one == &here.series[0]);
  CHECK(ab_series_find(&here.table, request(3, 404)) == &here.series[1]);
  CHECK(ab_series_find(&here.table, request(3, 200)) == one);
  CHECK(ab_series_find(&here.table, (ab_series_key){.kind = AB_SERIES_QUEUE}) == &here.series[2]);
  ab_series_add(one, 5);
  CHECK_INT(1, count_of(AB_SERIES_REQUEST));
  begin(); /* the next process */
  CHECK(ab_series_find(&here.table, request(3, 404)) == &here.series[1]);
  CHECK_INT(3, here.used);
}

CHECK_CASE(the_sum_of_a_kind_is_whole) {
  here = (area){.used = 0};
  begin();
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < 700; i++)
      ab_series_add(ab_series_find(&here.table, request(i % 64, (uint16_t)(i / 64 + 200))), i);
  }
  CHECK_INT(OWN, here.used);
  CHECK_INT(3 * 700, count_of(AB_SERIES_REQUEST));
  CHECK_INT(3 * (700 - OWN), here.dropped);
  CHECK_INT(3 * (700 - OWN), ab_cells_count(&here.series[OWN].cells));
  ab_series_add(ab_series_find(&here.table, (ab_series_key){.kind = AB_SERIES_STALL}), 7);
  CHECK_INT(1, count_of(AB_SERIES_STALL));
  CHECK_INT(1, ab_cells_count(&here.series[OWN + AB_SERIES_STALL].cells));
  ab_series_key key;
  CHECK(ab_series_key_of(here.series, AB_PAGE_SERIES, OWN, 64, &key));
  CHECK_INT(AB_SERIES_REQUEST, key.kind);
  CHECK_INT(64, key.route);
}

CHECK_CASE(an_area_that_is_smaller) {
  here = (area){.used = 0};
  const uint32_t count = AB_SERIES_KIND_COUNT + 2;
  ab_series_table_over(&here.table, here.series, count, &here.used, &here.dropped);
  for (uint16_t i = 0; i < 10; i++) ab_series_find(&here.table, request(0, i));
  CHECK_INT(2, here.used);
  CHECK_INT(8, here.dropped);
  CHECK_INT(2, ab_series_used(&here.used, count));
}

CHECK_CASE(garbage) {
  for (unsigned byte = 1; byte < 256; byte++) {
    memset(&here, (int)byte, sizeof here);
    uint32_t used = ab_series_used(&here.used, AB_PAGE_SERIES);
    CHECK_INT(OWN, used);
    for (uint32_t i = 0; i < AB_PAGE_SERIES; i++) {
      ab_series_key key;
      if (ab_series_key_of(here.series, AB_PAGE_SERIES, i, 64, &key))
        CHECK(ab_series_kind_name((enum ab_series_kind)key.kind) != NULL);
    }
    begin();
    CHECK(ab_series_find(&here.table, request(1, 200)) == &here.series[OWN]);
  }
}

CHECK_MAIN()
