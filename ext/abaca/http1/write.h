/* Writes status lines and fields of responses into memory of the caller. Nothing invalid passes: a
 * field that would break the framing is refused (RFC 9110 5.1, 5.5). */
#ifndef AB_HTTP1_WRITE_H
#define AB_HTTP1_WRITE_H

#include "base/base.h"

#define AB_STATUS_LINE_MAX 64 /* bytes of the longest status line we write */

/* "HTTP/1.1 200 OK\r\n". `status` is 100 to 999; one without a registered phrase gets an empty one
 * (RFC 9112 4). Returns the end of what was written; needs AB_STATUS_LINE_MAX bytes. */
char *ab_write_status_line(char *dst, int status);

/* "name: value\r\n". Returns the end of what was written, or NULL when the name is not a token or
 * the value has a byte that no field value may have (then dst's content is undefined). Needs
 * name_len + value_len + 4 bytes. White space around the value is not trimmed. */
char *ab_write_field(char *dst, const char *name, size_t name_len, const char *value,
                     size_t value_len);

/* The decimal digits of n. Returns the end; needs AB_DECIMAL_MAX bytes. */
#define AB_DECIMAL_MAX 20
char *ab_write_decimal(char *dst, uint64_t n);

#endif
