#include "http/trailer.h"

#include <string.h>

#include "http/char.h"

bool ab_trailer_next(ab_view *section, ab_view *name, ab_view *value) {
  const char *line = section->ptr;
  const char *end = section->len ? memchr(line, '\n', section->len) : NULL;
  const char *colon = end ? memchr(line, ':', (size_t)(end - line)) : NULL;
  if (!colon) return false;
  section->ptr = end + 1;
  section->len -= (size_t)(end + 1 - line);
  *name = (ab_view){line, (size_t)(colon - line)};
  *value = ab_view_trim(colon + 1, end - 1); /* before the CR */
  return true;
}

bool ab_trailer_allowed(ab_view name) {
  static const char *const forbidden[] = {
      /* framing and connection */
      "connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer",
      "transfer-encoding", "upgrade",
      /* routing */
      "forwarded", "host", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port",
      "x-forwarded-proto",
      /* control and conditions */
      "age", "cache-control", "date", "expect", "expires", "if-match", "if-modified-since",
      "if-none-match", "if-range", "if-unmodified-since", "location", "max-forwards", "pragma",
      "range", "retry-after", "status", "vary", "warning",
      /* who asks */
      "authorization", "cookie", "origin", "proxy-authenticate", "proxy-authorization",
      "set-cookie", "www-authenticate",
      /* what the content is */
      "accept-ranges", "content-encoding", "content-range", "content-type"};
  for (size_t i = 0; i < AB_ARRAY_LEN(forbidden); i++) {
    if (ab_view_spells(name, forbidden[i], strlen(forbidden[i]))) return false;
  }
  return true;
}
