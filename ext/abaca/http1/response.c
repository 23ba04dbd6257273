#include "http1/response.h"

#include <string.h>

#include "http/status.h"

static char *response_put(char *dst, const char *text, size_t len) {
  memcpy(dst, text, len);
  return dst + len;
}

#define PUT(dst, literal) response_put(dst, literal, sizeof(literal) - 1)

static char *put_length(char *dst, uint64_t length) {
  return PUT(ab_write_decimal(PUT(dst, "Content-Length: "), length), "\r\n");
}

/* Without a known length (RFC 9112 6.1, 6.3). */
static char *put_unknown(char *dst, ab_content *content, bool answers_head, bool http_1_0) {
  if (http_1_0) {
    content->closes = true; /* the end of the connection is the end of the content */
    return dst;
  }
  if (answers_head && !content->coded) return dst;
  content->chunked = !content->coded;
  return PUT(dst, "Transfer-Encoding: chunked\r\n");
}

char *ab_write_framing(char *dst, ab_content *content, bool answers_head, bool http_1_0) {
  int status = content->status;
  content->none = answers_head || status == 204 || status == 205 || status == 304;
  content->has_length = content->chunked = false;
  if (status == 204) return dst; /* neither field may be there (RFC 9110 8.6) */
  if (status == 205) return put_length(dst, 0);
  /* Only chunks leave room for trailers. */
  bool known = content->known && !content->coded && (!content->trailers || http_1_0);
  if (content->declared || known) {
    content->has_length = true;
    /* A 304 describes what a 200 would have carried, which only the application can know. */
    return status == 304 && !content->declared ? dst : put_length(dst, content->length);
  }
  return status == 304 ? dst : put_unknown(dst, content, answers_head, http_1_0);
}

char *ab_write_empty_line(char *dst) {
  return PUT(dst, "\r\n");
}

char *ab_write_head_end(char *dst, enum ab_write_connection connection) {
  if (connection == AB_WRITE_CLOSE) dst = PUT(dst, "Connection: close\r\n");
  if (connection == AB_WRITE_KEEP_IN_1_0) dst = PUT(dst, "Connection: keep-alive\r\n");
  return ab_write_empty_line(dst);
}

char *ab_write_chunk_head(char *dst, uint64_t size) {
  int shift = size ? (63 - __builtin_clzll(size)) & ~3 : 0;
  for (; shift >= 0; shift -= 4) *dst++ = "0123456789abcdef"[size >> shift & 15];
  return PUT(dst, "\r\n");
}

char *ab_write_error(char *dst, int status, ab_view date, enum ab_write_connection connection,
                     bool answers_head, size_t *content) {
  const char *phrase = ab_status_phrase(status);
  size_t length = strlen(phrase) + 5;
  char *p = ab_write_status_line(dst, status);
  p = response_put(p, date.ptr, date.len);
  p = PUT(p, "Content-Type: text/plain\r\n");
  p = put_length(p, length);
  if (status == 503) p = PUT(p, "Retry-After: 1\r\n");
  p = ab_write_head_end(p, connection);
  *content = answers_head ? 0 : length;
  if (answers_head) return p;
  p = ab_write_decimal(p, (uint64_t)status);
  *p++ = ' ';
  p = response_put(p, phrase, strlen(phrase));
  *p++ = '\n';
  return p;
}
