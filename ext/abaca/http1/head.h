/* The head of an HTTP/1 request: request line and field lines (RFC 9112 2 to 5, RFC 9110 5).
 *
 * The parser allocates nothing, keeps no pointer and does no I/O. What it returns points into the
 * caller's octets. It may be called again with the same octets and more behind them: the verdict
 * does not depend on how the octets were split.
 */
#ifndef AB_HTTP1_HEAD_H
#define AB_HTTP1_HEAD_H

#include "base/base.h"
#include "base/limits.h"
#include "http1/framing.h"
#include "http1/methods.h"

/* Fields that the server itself looks at; the others are AB_FIELD_OTHER. */
enum ab_field_id {
  AB_FIELD_OTHER = 0,
  AB_FIELD_HOST,
  AB_FIELD_CONNECTION,
  AB_FIELD_CONTENT_LENGTH,
  AB_FIELD_CONTENT_TYPE,
  AB_FIELD_TRANSFER_ENCODING,
  AB_FIELD_EXPECT,
  AB_FIELD_UPGRADE,
  AB_FIELD_COOKIE,
  AB_FIELD_REQUEST_START /* X-Request-Start */
};

typedef struct ab_field {
  const char *name;  /* as received */
  const char *value; /* without the white space around it (RFC 9110 5.5) */
  uint32_t value_len;
  uint16_t name_len;
  uint8_t id; /* enum ab_field_id */
} ab_field;

/* The forms of a request target (RFC 9112 3.2). */
enum ab_target_form {
  AB_TARGET_ORIGIN,
  AB_TARGET_ABSOLUTE,
  AB_TARGET_AUTHORITY,
  AB_TARGET_ASTERISK
};

typedef struct ab_request {
  ab_view method;
  ab_view target; /* as received */
  ab_view path;   /* of the target: "/" at least, "*" for the asterisk form; never empty */
  ab_view query;  /* without the "?"; ptr is NULL when the target has none */
  ab_view host; /* uri-host of the effective authority, brackets of an IPv6 literal included; len 0
                   when an HTTP/1.0 request names none */
  ab_view port; /* digits; len 0 when none is named */
  ab_view authority; /* host and port together, as they would stand in a Host field; an empty port's
                        colon is left out */
  ab_field *fields;  /* the caller's array */
  uint32_t field_count;
  uint32_t head_size;  /* octets of the head, leading empty lines and last CRLF included */
  uint16_t known;      /* bit (1 << id) for each enum ab_field_id among the fields */
  uint8_t minor;       /* 0 for HTTP/1.0, 1 for HTTP/1.1 and above */
  uint8_t target_form; /* enum ab_target_form */
  bool is_head;        /* the method is HEAD */
  ab_framing framing;
} ab_request;

/* What went wrong; each has one status (ab_http1_error_status) and one reason
 * (ab_http1_error_reason). The negative values go with AB_AGAIN of enum ab_err. */
enum ab_http1_error {
#define AB_HTTP1_ERRORS(X)                                                                         \
  X(METHOD_SYNTAX, 400, "method is not a token", "9110 9.1")                                       \
  X(METHOD_UNKNOWN, 501, "method is not implemented", "9110 9.1")                                  \
  X(METHOD_TOO_LONG, 501, "method is longer than any implemented", "9112 3")                       \
  X(REQUEST_LINE_SYNTAX, 400, "request line is malformed", "9112 3")                               \
  X(REQUEST_LINE_TOO_LONG, 414, "request line is too long", "9112 3")                              \
  X(TARGET_SYNTAX, 400, "request target is malformed", "9112 3.2")                                 \
  X(VERSION_SYNTAX, 400, "HTTP version is malformed", "9112 2.3")                                  \
  X(VERSION_UNSUPPORTED, 505, "HTTP version is not supported", "9110 15.6.6")                      \
  X(LINE_END, 400, "line does not end with CRLF", "9112 2.2")                                      \
  X(FIELD_NAME_SYNTAX, 400, "field name is not a token", "9110 5.1")                               \
  X(FIELD_VALUE_SYNTAX, 400, "field value has an invalid octet", "9110 5.5")                       \
  X(FIELD_FOLDED, 400, "field line is folded", "9112 5.2")                                         \
  X(FIELD_TOO_LONG, 431, "field line is too long", "6585 5")                                       \
  X(FIELD_TOO_MANY, 431, "too many field lines", "6585 5")                                         \
  X(HEAD_TOO_LONG, 431, "head is too long", "6585 5")                                              \
  X(HOST_MISSING, 400, "Host is missing", "9112 3.2")                                              \
  X(HOST_REPEATED, 400, "Host is repeated", "9112 3.2")                                            \
  X(HOST_SYNTAX, 400, "Host is malformed", "9110 7.2")                                             \
  X(LENGTH_SYNTAX, 400, "Content-Length is malformed", "9110 8.6")                                 \
  X(LENGTH_REPEATED, 400, "Content-Length is repeated", "9112 6.3")                                \
  X(LENGTH_WITH_CODING, 400, "Content-Length with Transfer-Encoding", "9112 6.1")                  \
  X(CODING_SYNTAX, 400, "Transfer-Encoding is malformed", "9112 6.1")                              \
  X(CODING_UNKNOWN, 501, "transfer coding is not implemented", "9112 6.1")                         \
  X(CODING_IN_1_0, 400, "Transfer-Encoding in HTTP/1.0", "9112 6.1")                               \
  X(EXPECTATION_UNKNOWN, 417, "expectation is not known", "9110 10.1.1")                           \
  X(CHUNK_SIZE_SYNTAX, 400, "chunk size is malformed", "9112 7.1")                                 \
  X(CHUNK_EXTENSION_SYNTAX, 400, "chunk extension is malformed", "9112 7.1.1")                     \
  X(CHUNK_LINE_TOO_LONG, 400, "chunk-size line is too long", "9112 7.1.1")                         \
  X(CHUNK_OVERHEAD, 400, "chunks carry too little for their framing", "9112 7.1.1")                \
  X(CHUNK_DATA_END, 400, "chunk data does not end with CRLF", "9112 7.1")                          \
  X(TRAILER_TOO_LONG, 431, "trailer section is too long", "9112 7.1.2")                            \
  X(BODY_TOO_LARGE, 413, "request body is too large", "9110 15.5.14")                              \
  X(REQUEST_TIMEOUT, 408, "request took too long", "9110 15.5.9")                                  \
  X(PROXY_SYNTAX, 400, "PROXY header is malformed or missing", "PROXY 2")                          \
  X(PROXY_TOO_LONG, 400, "PROXY header is too long", "PROXY 2")                                    \
  X(NO_FIBER, 503, "no fiber was free in time", "9110 15.6.4")                                     \
  X(SHUTDOWN, 503, "the server is shutting down", "9110 15.6.4")                                   \
  X(NO_MEMORY, 503, "no memory for the request", "9110 15.6.4")
  AB_HTTP1_ERROR_BASE = -100,
#define AB_HTTP1_ERROR_MEMBER(name, status, reason, rfc) AB_HTTP1_##name,
  AB_HTTP1_ERRORS(AB_HTTP1_ERROR_MEMBER)
#undef AB_HTTP1_ERROR_MEMBER
};

/* How far an incomplete head has been checked; zeroed by the caller before the first call. */
typedef struct ab_head_progress {
  uint32_t checked; /* octets from the start of the head which are complete, valid lines */
  uint32_t lines;   /* field lines among them */
} ab_head_progress;

/* Parses the head that starts at buf[0].
 *
 * buf, len   the octets received so far; borrowed
 * limits     max_request_line, max_header_line, max_header_count, max_head_size
 * methods    that are served; NULL: the registry's, see methods.h
 * progress   of the same head's earlier calls
 * request    filled when the head is complete; request->fields is `fields`
 * fields     room for limits->max_header_count entries
 *
 * Returns the size of the head in octets (> 0) when it is complete and valid; AB_AGAIN when more
 * octets are needed; a negative enum ab_http1_error as soon as no continuation could be valid.
 * After an error the connection cannot be used for another request. A complete request whose head
 * is well formed but which we will not serve (501, 417, 505) is an error as well.
 *
 * Calls on a growing head take time linear in its size, plus for each call the size of its last,
 * incomplete line.
 */
int ab_head_parse(const char *buf, size_t len, const ab_limits *limits, const ab_methods *methods,
                  ab_head_progress *progress, ab_request *request, ab_field *fields) AB_WARN_UNUSED;

/* The status that answers `error` (a negative enum ab_http1_error). */
int ab_http1_error_status(int error);
/* A sentence for the log, in static memory. */
const char *ab_http1_error_reason(int error);
/* "9112 5.1": the RFC and section that the request breaks, in static memory. */
const char *ab_http1_error_rfc(int error);

#endif
