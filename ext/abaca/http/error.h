/* What can be wrong with a request: the table of errors. */
#ifndef AB_HTTP_ERROR_H
#define AB_HTTP_ERROR_H

/* Each has a status, a reason, and the section of an RFC that the request breaks. The negative
 * values go with AB_AGAIN of enum ab_err. */
enum ab_http_error {
#define AB_HTTP_ERRORS(X)                                                                          \
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
  X(FIELD_VALUE_SYNTAX, 400, "field value has an invalid byte", "9110 5.5")                        \
  X(FIELD_FOLDED, 400, "field line is folded", "9112 5.2")                                         \
  X(FIELD_TOO_LONG, 431, "field line is too long", "6585 5")                                       \
  X(FIELD_TOO_MANY, 431, "too many field lines", "6585 5")                                         \
  X(HEAD_TOO_LONG, 431, "head is too long", "6585 5")                                              \
  X(HOST_MISSING, 400, "Host is missing", "9112 3.2")                                              \
  X(HOST_REPEATED, 400, "Host is repeated", "9112 3.2")                                            \
  X(HOST_DIFFERS, 400, "Host is not the same as :authority", "9113 8.3.1")                         \
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
  AB_HTTP_ERROR_BASE = -100,
#define AB_HTTP_ERROR_MEMBER(name, status, reason, rfc) AB_HTTP_##name,
  AB_HTTP_ERRORS(AB_HTTP_ERROR_MEMBER)
#undef AB_HTTP_ERROR_MEMBER
};

/* The status that answers `error` (a negative enum ab_http_error). */
int ab_http_error_status(int error);
/* A sentence for the log, in static memory. */
const char *ab_http_error_reason(int error);

#endif
