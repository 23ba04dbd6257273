/* Status lines, field lines, chunk heads and dates. What is copied is checked in the same pass; a
 * field that would break out of its line never leaves here (RFC 9110 5.5). */
#include "http1/write.h"

#include <string.h>

#include "http1/char.h"

/* The registered status codes and their phrases (RFC 9110 15 and the IANA registry). */
#define STATUS_PHRASES(X)                                                                          \
  X(100, "Continue")                                                                               \
  X(101, "Switching Protocols")                                                                    \
  X(102, "Processing")                                                                             \
  X(103, "Early Hints")                                                                            \
  X(200, "OK")                                                                                     \
  X(201, "Created")                                                                                \
  X(202, "Accepted")                                                                               \
  X(203, "Non-Authoritative Information")                                                          \
  X(204, "No Content")                                                                             \
  X(205, "Reset Content")                                                                          \
  X(206, "Partial Content")                                                                        \
  X(207, "Multi-Status")                                                                           \
  X(208, "Already Reported")                                                                       \
  X(226, "IM Used")                                                                                \
  X(300, "Multiple Choices")                                                                       \
  X(301, "Moved Permanently")                                                                      \
  X(302, "Found")                                                                                  \
  X(303, "See Other")                                                                              \
  X(304, "Not Modified")                                                                           \
  X(305, "Use Proxy")                                                                              \
  X(307, "Temporary Redirect")                                                                     \
  X(308, "Permanent Redirect")                                                                     \
  X(400, "Bad Request")                                                                            \
  X(401, "Unauthorized")                                                                           \
  X(402, "Payment Required")                                                                       \
  X(403, "Forbidden")                                                                              \
  X(404, "Not Found")                                                                              \
  X(405, "Method Not Allowed")                                                                     \
  X(406, "Not Acceptable")                                                                         \
  X(407, "Proxy Authentication Required")                                                          \
  X(408, "Request Timeout")                                                                        \
  X(409, "Conflict")                                                                               \
  X(410, "Gone")                                                                                   \
  X(411, "Length Required")                                                                        \
  X(412, "Precondition Failed")                                                                    \
  X(413, "Content Too Large")                                                                      \
  X(414, "URI Too Long")                                                                           \
  X(415, "Unsupported Media Type")                                                                 \
  X(416, "Range Not Satisfiable")                                                                  \
  X(417, "Expectation Failed")                                                                     \
  X(421, "Misdirected Request")                                                                    \
  X(422, "Unprocessable Content")                                                                  \
  X(423, "Locked")                                                                                 \
  X(424, "Failed Dependency")                                                                      \
  X(425, "Too Early")                                                                              \
  X(426, "Upgrade Required")                                                                       \
  X(428, "Precondition Required")                                                                  \
  X(429, "Too Many Requests")                                                                      \
  X(431, "Request Header Fields Too Large")                                                        \
  X(451, "Unavailable For Legal Reasons")                                                          \
  X(500, "Internal Server Error")                                                                  \
  X(501, "Not Implemented")                                                                        \
  X(502, "Bad Gateway")                                                                            \
  X(503, "Service Unavailable")                                                                    \
  X(504, "Gateway Timeout")                                                                        \
  X(505, "HTTP Version Not Supported")                                                             \
  X(506, "Variant Also Negotiates")                                                                \
  X(507, "Insufficient Storage")                                                                   \
  X(508, "Loop Detected")                                                                          \
  X(510, "Not Extended")                                                                           \
  X(511, "Network Authentication Required")

const char *ab_status_phrase(int status) {
  switch (status) {
#define PHRASE(code, phrase)                                                                       \
  case code:                                                                                       \
    return phrase;
    STATUS_PHRASES(PHRASE)
#undef PHRASE
  default:
    return "";
  }
}

static char *put(char *dst, const char *src, size_t len) {
  memcpy(dst, src, len);
  return dst + len;
}

char *ab_write_status_line(char *dst, int status) {
  if (AB_LIKELY(status == 200)) return put(dst, "HTTP/1.1 200 OK\r\n", 17);
  const char *phrase = ab_status_phrase(status);
  dst = put(dst, "HTTP/1.1 ", 9);
  *dst++ = (char)('0' + status / 100 % 10);
  *dst++ = (char)('0' + status / 10 % 10);
  *dst++ = (char)('0' + status % 10);
  *dst++ = ' ';
  dst = put(dst, phrase, strlen(phrase));
  return put(dst, "\r\n", 2);
}

#ifdef __SSE2__
static bool put_block(char *dst, const char *src) {
  __m128i block = _mm_loadu_si128((const __m128i *)src);
  if (AB_UNLIKELY(ab__block_controls(block)) && !ab_is_field_value(src, 16)) return false;
  _mm_storeu_si128((__m128i *)dst, block);
  return true;
}
#endif

static bool put_word(char *dst, const char *src) {
  uint64_t word;
  memcpy(&word, src, 8);
  if (AB_UNLIKELY(ab__word_has_control(word)) && !ab_is_field_value(src, 8)) return false;
  memcpy(dst, &word, 8);
  return true;
}

/* Copies a value, if it is valid. Returns the end of the copy, or NULL. What is left behind the
 * last whole block is copied with the octets before it, once more. */
static char *put_value(char *dst, const char *src, size_t len) {
  size_t at = 0;
#ifdef __SSE2__
  for (; len - at >= 16; at += 16) {
    if (!put_block(dst + at, src + at)) return NULL;
  }
  if (at > 0) return at == len || put_block(dst + len - 16, src + len - 16) ? dst + len : NULL;
#endif
  for (; len - at >= 8; at += 8) {
    if (!put_word(dst + at, src + at)) return NULL;
  }
  if (at > 0) return at == len || put_word(dst + len - 8, src + len - 8) ? dst + len : NULL;
  for (; at < len; at++) {
    if (AB_UNLIKELY(!ab__char_is(src[at], AB__VALUE))) return NULL;
    dst[at] = src[at];
  }
  return dst + len;
}

/* Names are short, and hardly ever wrong. */
static char *put_name(char *dst, const char *src, size_t len) {
  unsigned class = len > 0 ? AB__TOKEN : 0;
  for (size_t i = 0; i < len; i++) {
    dst[i] = src[i];
    class &= ab__char_class[(unsigned char)src[i]];
  }
  return class ? dst + len : NULL;
}

char *ab_write_field(char *dst, const char *name, size_t name_len, const char *value,
                     size_t value_len) {
  dst = put_name(dst, name, name_len);
  if (AB_UNLIKELY(!dst)) return NULL;
  dst = put_value(put(dst, ": ", 2), value, value_len);
  return dst ? put(dst, "\r\n", 2) : NULL;
}

char *ab_write_decimal(char *dst, uint64_t n) {
  char *end = dst + 1;
  for (uint64_t rest = n; rest >= 10; rest /= 10) end++;
  for (char *digit = end; digit > dst; n /= 10) *--digit = (char)('0' + n % 10);
  return end;
}

char *ab_write_chunk_head(char *dst, uint64_t size) {
  int shift = size ? (63 - __builtin_clzll(size)) & ~3 : 0;
  for (; shift >= 0; shift -= 4) *dst++ = "0123456789abcdef"[size >> shift & 15];
  return put(dst, "\r\n", 2);
}

static char *put_text(char *dst, const char *text) {
  return put(dst, text, strlen(text));
}

char *ab_write_error(char *dst, int status, ab_view date, enum ab_write_connection connection,
                     bool answers_head, size_t *content) {
  const char *phrase = ab_status_phrase(status);
  size_t length = strlen(phrase) + 5;
  char *p = ab_write_status_line(dst, status);
  p = put(p, date.ptr, date.len);
  p = put_text(p, "Content-Type: text/plain\r\nContent-Length: ");
  p = ab_write_decimal(p, length);
  p = put_text(p, "\r\n");
  if (status == 503) p = put_text(p, "Retry-After: 1\r\n");
  if (connection == AB_WRITE_CLOSE) p = put_text(p, "Connection: close\r\n");
  if (connection == AB_WRITE_KEEP_IN_1_0) p = put_text(p, "Connection: keep-alive\r\n");
  p = put_text(p, "\r\n");
  *content = answers_head ? 0 : length;
  if (answers_head) return p;
  p = ab_write_decimal(p, (uint64_t)status);
  *p++ = ' ';
  p = put_text(p, phrase);
  *p++ = '\n';
  return p;
}
