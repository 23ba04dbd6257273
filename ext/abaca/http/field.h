/* Fields that the server itself looks at: their ids, and what their values say. */
#ifndef AB_HTTP_FIELD_H
#define AB_HTTP_FIELD_H

#include <string.h>

#include "http/request.h"

/* True when a token spells `lower`, letters and "-" only, in any case. Among tokens no other byte
 * folds onto these, so that a wide OR does for bytes that are known to be one. */
static inline bool ab__token_spells(const char *token, const char *lower, size_t len) {
  const uint64_t fold = UINT64_C(0x2020202020202020);
  size_t at = 0;
  for (; at + 8 <= len; at += 8) {
    uint64_t a, b;
    memcpy(&a, token + at, 8);
    memcpy(&b, lower + at, 8);
    if ((a | fold) != b) return false;
  }
  for (; at < len; at++) {
    if ((token[at] | 0x20) != lower[at]) return false;
  }
  return true;
}

/* The enum ab_field_id of a name, which is a token, in any case. */
static inline uint8_t ab_field_id(const char *name, size_t len) {
  switch (len) {
  case 4:
    return ab__token_spells(name, "host", 4) ? AB_FIELD_HOST : AB_FIELD_OTHER;
  case 6:
    if (ab__token_spells(name, "cookie", 6)) return AB_FIELD_COOKIE;
    return ab__token_spells(name, "expect", 6) ? AB_FIELD_EXPECT : AB_FIELD_OTHER;
  case 7:
    return ab__token_spells(name, "upgrade", 7) ? AB_FIELD_UPGRADE : AB_FIELD_OTHER;
  case 10:
    return ab__token_spells(name, "connection", 10) ? AB_FIELD_CONNECTION : AB_FIELD_OTHER;
  case 11:
    return ab__token_spells(name, "traceparent", 11) ? AB_FIELD_TRACEPARENT : AB_FIELD_OTHER;
  case 12:
    return ab__token_spells(name, "content-type", 12) ? AB_FIELD_CONTENT_TYPE : AB_FIELD_OTHER;
  case 14:
    return ab__token_spells(name, "content-length", 14) ? AB_FIELD_CONTENT_LENGTH : AB_FIELD_OTHER;
  case 15:
    return ab__token_spells(name, "x-request-start", 15) ? AB_FIELD_REQUEST_START : AB_FIELD_OTHER;
  case 17:
    return ab__token_spells(name, "transfer-encoding", 17) ? AB_FIELD_TRANSFER_ENCODING
                                                           : AB_FIELD_OTHER;
  default:
    return AB_FIELD_OTHER;
  }
}

/* Reads a Content-Length: 1*DIGIT and nothing else, no list, although RFC 9110 8.6 allows to
 * collapse one. False, with *length undefined, for anything else and for what 64 bits do not hold.
 */
bool ab_read_length(ab_view value, uint64_t *length) AB_WARN_UNUSED;

/* Reads a line of Expect (RFC 9110 10.1.1): sets *known if it has 100-continue, and *unknown if it
 * has anything else; leaves them as they are otherwise. */
void ab_read_expect(ab_view value, bool *known, bool *unknown);

#endif
