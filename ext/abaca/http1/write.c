/* Status lines, field lines and numbers. What is copied is checked in the same pass. */
#include "http1/write.h"

#include <string.h>

#include "http/char.h"
#include "http/status.h"

static char *write_put(char *dst, const char *src, size_t len) {
  memcpy(dst, src, len);
  return dst + len;
}

char *ab_write_status_line(char *dst, int status) {
  if (AB_LIKELY(status == 200)) return write_put(dst, "HTTP/1.1 200 OK\r\n", 17);
  const char *phrase = ab_status_phrase(status);
  dst = write_put(dst, "HTTP/1.1 ", 9);
  *dst++ = (char)('0' + status / 100 % 10);
  *dst++ = (char)('0' + status / 10 % 10);
  *dst++ = (char)('0' + status % 10);
  *dst++ = ' ';
  dst = write_put(dst, phrase, strlen(phrase));
  return write_put(dst, "\r\n", 2);
}

#ifdef __SSE2__
static bool put_block(char *dst, const char *src) {
  __m128i block = _mm_loadu_si128((const __m128i *)src);
  if (AB_UNLIKELY(ab_block_controls(block)) && !ab_is_field_value(src, 16)) return false;
  _mm_storeu_si128((__m128i *)dst, block);
  return true;
}

static bool put_word(char *dst, const char *src) {
  __m128i word = _mm_loadl_epi64((const __m128i *)src);
  if (AB_UNLIKELY(ab_block_controls(word) & 0xff) && !ab_is_field_value(src, 8)) return false;
  _mm_storel_epi64((__m128i *)dst, word);
  return true;
}

static bool put_name_word(char *dst, const char *src) {
  __m128i word = _mm_loadl_epi64((const __m128i *)src);
  if (AB_UNLIKELY(ab_block_unusual(word) & 0xff) && !ab_is_token(src, 8)) return false;
  _mm_storel_epi64((__m128i *)dst, word);
  return true;
}
#else
static bool put_word(char *dst, const char *src) {
  if (!ab_is_field_value(src, 8)) return false;
  memcpy(dst, src, 8);
  return true;
}

static bool put_name_word(char *dst, const char *src) {
  if (!ab_is_token(src, 8)) return false;
  memcpy(dst, src, 8);
  return true;
}
#endif

/* Copies a value, if it is valid. Returns the end of the copy, or NULL. What is left behind the
 * last whole block is copied with the bytes before it, once more. */
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
    if (AB_UNLIKELY(!ab_char_is(src[at], AB_CHAR_VALUE))) return NULL;
    dst[at] = src[at];
  }
  return dst + len;
}

static char *put_name(char *dst, const char *src, size_t len) {
  size_t at = 0;
  for (; len - at >= 8; at += 8) {
    if (!put_name_word(dst + at, src + at)) return NULL;
  }
  if (at > 0) return at == len || put_name_word(dst + len - 8, src + len - 8) ? dst + len : NULL;
  memcpy(dst, src, len);
  return ab_is_token(dst, len) ? dst + len : NULL;
}

char *ab_write_field(char *dst, const char *name, size_t name_len, const char *value,
                     size_t value_len) {
  dst = put_name(dst, name, name_len);
  if (AB_UNLIKELY(!dst)) return NULL;
  dst = put_value(write_put(dst, ": ", 2), value, value_len);
  return dst ? write_put(dst, "\r\n", 2) : NULL;
}

char *ab_write_decimal(char *dst, uint64_t n) {
  char *end = dst + 1;
  for (uint64_t rest = n; rest >= 10; rest /= 10) end++;
  for (char *digit = end; digit > dst; n /= 10) *--digit = (char)('0' + n % 10);
  return end;
}
