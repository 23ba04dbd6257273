/* Writes response heads and chunk framing into memory of the caller. Nothing invalid passes: a
 * field that would break the framing is refused (RFC 9110 5.1, 5.5). */
#ifndef AB_HTTP1_WRITE_H
#define AB_HTTP1_WRITE_H

#include "base/base.h"

#define AB_STATUS_LINE_MAX 64 /* octets of the longest status line we write */
#define AB_CHUNK_HEAD_MAX  18 /* 16 hexadecimal digits and CRLF */
#define AB_DATE_LEN        29 /* an IMF-fixdate */

/* "HTTP/1.1 200 OK\r\n". `status` is 100 to 999; one without a registered phrase gets an empty one
 * (RFC 9112 4). Returns the end of what was written; needs AB_STATUS_LINE_MAX octets. */
char *ab_write_status_line(char *dst, int status);

/* The registered reason phrase, or "". */
const char *ab_status_phrase(int status);

/* "name: value\r\n". Returns the end of what was written, or NULL when the name is not a token or
 * the value has an octet that no field value may have (then dst's content is undefined). Needs
 * name_len + value_len + 4 octets. White space around the value is not trimmed. */
char *ab_write_field(char *dst, const char *name, size_t name_len, const char *value,
                     size_t value_len);

/* How the connection goes on after a response of the server's own. */
enum ab_write_connection {
  AB_WRITE_KEEP,        /* HTTP/1.1 keeps it without a word */
  AB_WRITE_KEEP_IN_1_0, /* "Connection: keep-alive" */
  AB_WRITE_CLOSE
};

#define AB_ERROR_MAX 512 /* octets of the longest response of ab_write_error */
/* A whole response of the server's own: the head, with the line `date`, and as content "400 Bad
 * Request\n", unless it answers HEAD: nothing of what the peer sent comes back. 503 says when to
 * try again. Returns its end and sets *content to the octets of content; needs AB_ERROR_MAX octets.
 */
char *ab_write_error(char *dst, int status, ab_view date, enum ab_write_connection connection,
                     bool answers_head, size_t *content);

/* True for a token (RFC 9110 5.6.2). */
bool ab_is_token(const char *ptr, size_t len);
/* True when no octet is a control character other than HTAB (RFC 9110 5.5). */
bool ab_is_field_value(const char *ptr, size_t len);
/* True when `ptr` spells `lower`, a lower-case ASCII string of the same length, in any case. */
bool ab_equals_nocase(const char *ptr, const char *lower, size_t len);
/* True when the view spells `lower`, of `len` octets, in any case. */
static inline bool ab_view_spells(ab_view view, const char *lower, size_t len) {
  return view.len == len && ab_equals_nocase(view.ptr, lower, len);
}

/* The decimal digits of n. Returns the end; needs AB_DECIMAL_MAX octets. */
#define AB_DECIMAL_MAX 20
char *ab_write_decimal(char *dst, uint64_t n);

/* "1f4\r\n" (RFC 9112 7.1). Returns the end; needs AB_CHUNK_HEAD_MAX octets; size > 0. */
char *ab_write_chunk_head(char *dst, uint64_t size);

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 5.6.7) for a Unix time from 0 to the year 9999, and
 * the nearer end of that span for a time outside it: exactly AB_DATE_LEN octets, no NUL. Returns
 * the end. */
char *ab_write_date(char *dst, int64_t unix_time);

#endif
