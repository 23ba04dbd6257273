/* Cells: their bounds, the two histograms that follow from them, and percentiles. */
#include <math.h>

#include "check.h"
#include "page/cells.h"

static const double plain[] = {.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10};

/* The bounds as the schemas have them, counted out anew: ascending, each once. */
static unsigned bounds_of(ab_nsec *bounds) {
  unsigned count = 0;
  for (int i = -112; i <= 56; i++) {
    if (i % 8 == 0 && i >= 0)
      bounds[count++] = AB_NSEC_PER_SEC << (i / 8);
    else
      bounds[count++] = (ab_nsec)floorl(exp2l(i / 8.0L) * 1e9L);
  }
  for (unsigned i = 0; i < 14; i++) {
    ab_nsec bound = (ab_nsec)llround(plain[i] * 1e9);
    unsigned at = 0;
    while (bounds[at] < bound) at++;
    if (bounds[at] == bound) continue;
    memmove(&bounds[at + 1], &bounds[at], (count - at) * sizeof *bounds);
    bounds[at] = bound;
    count++;
  }
  return count;
}

CHECK_CASE(cells_end_where_the_schemas_say) {
  ab_nsec bounds[200];
  CHECK_INT(AB_CELLS - 1, bounds_of(bounds));
  for (unsigned i = 0; i < AB_CELLS - 1; i++) {
    CHECK_INT(bounds[i], ab_cells_end(i));
    CHECK_INT(i, ab_cells_find(bounds[i]));
    CHECK_INT(i + 1, ab_cells_find(bounds[i] + 1));
  }
  CHECK_INT(0, ab_cells_find(0));
  CHECK_INT(0, ab_cells_find(1));
  CHECK_INT(AB_CELLS - 1, ab_cells_find(UINT64_MAX));
  CHECK(ab_cells_end(AB_CELLS - 1) == UINT64_MAX);
  for (unsigned i = 0; i < 14; i++) CHECK_INT(llround(plain[i] * 1e9), ab_cells_plain_end(i));
}

/* Each time is counted once in each histogram, in the bucket where the schema wants it. */
CHECK_CASE(both_histograms_follow) {
  ab_nsec random = 1;
  for (int round = 0; round < 20000; round++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    ab_nsec time = random >> (random % 59 + 1);
    if (round < 14) time = (ab_nsec)llround(plain[round] * 1e9);
    ab_cells cells = {0};
    ab_cells_add(&cells, time);
    ab_cells_view view = ab_cells_view_of(&cells);
    unsigned coarse = 0;
    while (coarse < 14 && (double)time > plain[coarse] * 1e9) coarse++;
    CHECK_INT(1, view.plain[coarse]);
    CHECK_INT(1, view.count);
    CHECK_INT(time, cells.sum);
    uint64_t fine = view.least + view.most, all = 0;
    for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) all += view.plain[i];
    CHECK_INT(1, all);
    long double seconds = (long double)time / 1e9L;
    for (unsigned i = 0; i < AB_CELLS_FINE; i++) {
      fine += view.fine[i];
      if (!view.fine[i]) continue;
      long double end = exp2l(((int)i + AB_CELLS_FINE_FIRST) / 8.0L);
      CHECK(seconds <= end + 1e-9L &&
            seconds > exp2l(((int)i + AB_CELLS_FINE_FIRST - 1) / 8.0L) - 1e-9L);
    }
    CHECK_INT(1, fine);
    CHECK(!view.least || time <= 61035);
    CHECK(!view.most || time > 128 * AB_NSEC_PER_SEC);
  }
}

CHECK_CASE(sums_and_differences) {
  ab_cells a = {0}, b = {0}, sum = {0};
  ab_cells_add(&a, AB_NSEC_PER_MS);
  ab_cells_add(&a, 500 * AB_NSEC_PER_SEC);
  ab_cells before = a;
  ab_cells_add(&b, AB_NSEC_PER_MS);
  ab_cells_join(&sum, &a);
  ab_cells_join(&sum, &b);
  CHECK_INT(3, ab_cells_count(&sum));
  CHECK_INT(500 * AB_NSEC_PER_SEC + 2 * AB_NSEC_PER_MS, sum.sum);
  CHECK_INT(2, sum.counts[ab_cells_find(AB_NSEC_PER_MS)]);
  ab_cells_add(&a, 3);
  ab_cells_since(&a, &before);
  CHECK_INT(1, ab_cells_count(&a));
  CHECK_INT(3, a.sum);
}

CHECK_CASE(percentiles) {
  ab_cells cells = {0};
  CHECK_INT(0, ab_cells_rank(&cells, 500));
  for (unsigned i = 1; i <= 100; i++) ab_cells_add(&cells, i * AB_NSEC_PER_MS);
  for (unsigned part = 10; part <= 1000; part += 10) {
    ab_nsec end = ab_cells_rank(&cells, part), exact = part / 10 * AB_NSEC_PER_MS;
    CHECK(end >= exact && end <= exact + exact / 10);
  }
  CHECK(ab_cells_rank(&cells, 0) >= AB_NSEC_PER_MS);
  for (unsigned i = 0; i < 100; i++) ab_cells_add(&cells, 1000 * AB_NSEC_PER_SEC);
  CHECK_INT(128 * AB_NSEC_PER_SEC, ab_cells_rank(&cells, 990));
}

CHECK_MAIN()
