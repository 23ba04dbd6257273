/* Times in powers of two: each bucket's first and last value, what is beyond the last, joining. */
#include "base/histogram.h"
#include "check.h"

static unsigned only_bucket(const ab_histogram *histogram) {
  unsigned found = AB_HISTOGRAM_BUCKETS, count = 0;
  for (unsigned i = 0; i < AB_HISTOGRAM_BUCKETS; i++) {
    if (histogram->counts[i] > 0) found = i;
    count += (unsigned)histogram->counts[i];
  }
  CHECK_INT(1, count);
  return found;
}

static unsigned bucket_of(ab_nsec time) {
  ab_histogram histogram = {0};
  ab_histogram_add(&histogram, time);
  CHECK(histogram.longest == time);
  return only_bucket(&histogram);
}

CHECK_CASE(every_bucket_holds_what_is_below_its_end) {
  CHECK_INT(0, bucket_of(0));
  CHECK_INT(0, bucket_of(1));
  for (unsigned i = 0; i + 1 < AB_HISTOGRAM_BUCKETS; i++) {
    ab_nsec end = ab_histogram_end(i);
    CHECK_INT(i, bucket_of(end - 1));
    CHECK_INT(i + 1, bucket_of(end));
  }
}

CHECK_CASE(the_last_bucket_has_no_end) {
  CHECK_INT(0, ab_histogram_end(AB_HISTOGRAM_BUCKETS - 1));
  CHECK_INT(AB_HISTOGRAM_BUCKETS - 1, bucket_of(5 * AB_NSEC_PER_SEC));
  CHECK_INT(AB_HISTOGRAM_BUCKETS - 1, bucket_of(UINT64_MAX));
}

CHECK_CASE(joining_adds) {
  ab_histogram a = {0}, b = {0};
  ab_histogram_add(&a, AB_NSEC_PER_MS);
  ab_histogram_add(&b, AB_NSEC_PER_MS);
  ab_histogram_add(&b, 2 * AB_NSEC_PER_SEC);
  ab_histogram_join(&a, &b);
  CHECK_INT(2, a.counts[bucket_of(AB_NSEC_PER_MS)]);
  CHECK_INT(1, a.counts[bucket_of(2 * AB_NSEC_PER_SEC)]);
  CHECK(a.longest == 2 * AB_NSEC_PER_SEC);
  ab_histogram_join(&a, &(ab_histogram){0});
  CHECK(a.longest == 2 * AB_NSEC_PER_SEC);
}

CHECK_MAIN()
