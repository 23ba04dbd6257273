/* An HTTP date from a Unix time, without locale, time zone or libc's state (RFC 9110 5.6.7). */
#include "http/date.h"

#include <string.h>

#define SECONDS_PER_DAY 86400
#define LAST_SECOND     INT64_C(253402300799) /* 9999-12-31 23:59:59 */

static char *put_two(char *dst, unsigned value) {
  dst[0] = (char)('0' + value / 10);
  dst[1] = (char)('0' + value % 10);
  return dst + 2;
}

/* The Gregorian date of the day number `days` since 1970-01-01. Years are counted from March, so
 * that the leap day is a year's last, and from 0000-03-01, which begins a cycle of 400 years. */
static void civil_date(unsigned days, unsigned *year, unsigned *month, unsigned *day) {
  unsigned since = days + 719468; /* from 0000-03-01 to 1970-01-01 */
  unsigned cycle = since / 146097, rest = since % 146097;
  unsigned of_cycle = (rest - rest / 1460 + rest / 36524 - rest / 146096) / 365;
  unsigned of_year = rest - (365 * of_cycle + of_cycle / 4 - of_cycle / 100);
  unsigned from_march = (5 * of_year + 2) / 153;
  *day = of_year - (153 * from_march + 2) / 5 + 1;
  *month = from_march < 10 ? from_march + 2 : from_march - 10;
  *year = cycle * 400 + of_cycle + (*month < 2);
}

char *ab_write_date(char *dst, int64_t unix_time) {
  static const char weekdays[] = "ThuFriSatSunMonTueWed"; /* from 1970-01-01 on */
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (unix_time < 0) unix_time = 0;
  if (unix_time > LAST_SECOND) unix_time = LAST_SECOND;
  unsigned days = (unsigned)(unix_time / SECONDS_PER_DAY);
  unsigned second = (unsigned)(unix_time % SECONDS_PER_DAY);
  unsigned year, month, day;
  civil_date(days, &year, &month, &day);
  memcpy(dst, &weekdays[days % 7 * 3], 3);
  memcpy(dst + 3, ", ", 2);
  put_two(dst + 5, day);
  dst[7] = ' ';
  memcpy(dst + 8, &months[month * 3], 3);
  dst[11] = ' ';
  put_two(put_two(dst + 12, year / 100), year % 100);
  dst[16] = ' ';
  put_two(dst + 17, second / 3600);
  dst[19] = ':';
  put_two(dst + 20, second / 60 % 60);
  dst[22] = ':';
  put_two(dst + 23, second % 60);
  memcpy(dst + 25, " GMT", 4);
  return dst + AB_DATE_LEN;
}
