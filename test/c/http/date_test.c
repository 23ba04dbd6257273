/* Dates, against known ones and against libc. */
#include "check.h"

#include <time.h>

#include "http/date.h"

static void check_date(const char *expected, int64_t unix_time) {
  char *dst = malloc(AB_DATE_LEN);
  char *end = ab_write_date(dst, unix_time);
  CHECK_INT(AB_DATE_LEN, end - dst);
  CHECK_BYTES(expected, dst, AB_DATE_LEN);
  free(dst);
}

CHECK_CASE(known_dates_are_written) {
  check_date("Sun, 06 Nov 1994 08:49:37 GMT", 784111777); /* RFC 9110 5.6.7 */
  check_date("Thu, 01 Jan 1970 00:00:00 GMT", 0);
  check_date("Tue, 29 Feb 2000 12:00:00 GMT", 951825600); /* a century that is a leap year */
  check_date("Wed, 01 Mar 2000 00:00:00 GMT", 951868800);
  check_date("Thu, 29 Feb 2024 23:59:59 GMT", 1709251199);
  check_date("Sun, 28 Feb 2100 23:59:59 GMT", 4107542399); /* one that is not */
  check_date("Mon, 01 Mar 2100 00:00:00 GMT", 4107542400);
  check_date("Fri, 31 Dec 9999 23:59:59 GMT", 253402300799);
}

CHECK_CASE(times_out_of_range_take_the_nearer_end) {
  check_date("Thu, 01 Jan 1970 00:00:00 GMT", -1);
  check_date("Thu, 01 Jan 1970 00:00:00 GMT", INT64_MIN);
  check_date("Fri, 31 Dec 9999 23:59:59 GMT", 253402300800);
  check_date("Fri, 31 Dec 9999 23:59:59 GMT", INT64_MAX);
}

/* Steps of a little more than eleven days, and an odd number of seconds. */
CHECK_CASE(dates_are_libcs) {
  for (int64_t at = 0; at <= 253402300799; at += 1000003) {
    time_t time = (time_t)at;
    struct tm parts;
    char expected[64];
    gmtime_r(&time, &parts);
    strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    check_date(expected, at);
  }
}

CHECK_MAIN()
