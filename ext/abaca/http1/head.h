/* The head of an HTTP/1 request: request line and field lines (RFC 9112 2 to 5, RFC 9110 5). The
 * parser allocates nothing and keeps no pointer; what it returns points into the caller's bytes. It
 * may be called again with the same bytes and more behind them: the verdict does not depend on the
 * split. */
#ifndef AB_HTTP1_HEAD_H
#define AB_HTTP1_HEAD_H

#include "base/base.h"
#include "base/limits.h"
#include "http/error.h"
#include "http/methods.h"
#include "http/request.h"
#include "http1/framing.h"

/* A request as it came in HTTP/1. */
typedef struct ab_head {
  ab_request request;
  ab_framing framing;
  uint32_t size; /* bytes, leading empty lines and last CRLF included */
} ab_head;

/* How far an incomplete head has been checked; zeroed by the caller before the first call. */
typedef struct ab_head_progress {
  uint32_t checked; /* bytes from the start of the head which are complete, valid lines */
  uint32_t lines;   /* field lines among them */
} ab_head_progress;

/* Parses the head that starts at buf[0].
 *
 * buf, len   the bytes received so far; borrowed
 * limits     max_request_line, max_header_line, max_header_count, max_head_size
 * methods    that are served; NULL: the registry's, see methods.h
 * progress   of the same head's earlier calls
 * head       filled when it is complete; the request's fields are `fields`
 * fields     room for limits->max_header_count entries
 *
 * Returns the size of the head in bytes (> 0) when it is complete and valid; AB_AGAIN when more
 * bytes are needed; a negative enum ab_http_error as soon as no continuation could be valid.
 * After an error the connection cannot be used for another request. A complete request whose head
 * is well formed but which we will not serve (501, 417, 505) is an error as well.
 *
 * Calls on a growing head take time linear in its size, plus for each call the size of its last,
 * incomplete line.
 */
int ab_head_parse(const char *buf, size_t len, const ab_limits *limits, const ab_methods *methods,
                  ab_head_progress *progress, ab_head *head, ab_field *fields) AB_WARN_UNUSED;

#endif
