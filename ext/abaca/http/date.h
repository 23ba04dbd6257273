/* HTTP's dates. */
#ifndef AB_HTTP_DATE_H
#define AB_HTTP_DATE_H

#include <stdint.h>

#define AB_DATE_LEN 29 /* bytes of an IMF-fixdate */

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 5.6.7) for a Unix time, clamped to 0 and the year 9999:
 * exactly AB_DATE_LEN bytes, no NUL. Returns the end. */
char *ab_write_date(char *dst, int64_t unix_time);

#endif
