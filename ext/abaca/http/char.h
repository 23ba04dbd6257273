/* Classes of bytes in HTTP's grammar, comparisons, and scans. Each scan returns the first byte in
 * [ptr, end) that is not of its class, or end, and reads nothing at or behind end. ab_skip_class is
 * the plain form of all of them. */
#ifndef AB_HTTP_CHAR_H
#define AB_HTTP_CHAR_H

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/base.h"

#define AB_CHAR_TOKEN  0x01 /* tchar (RFC 9110 5.6.2) */
#define AB_CHAR_VALUE  0x02 /* HTAB, SP, VCHAR, obs-text (RFC 9110 5.5) */
#define AB_CHAR_PATH   0x04 /* of a request target, before the first "?" */
#define AB_CHAR_QUERY  0x08 /* of a request target, behind the first "?" */
#define AB_CHAR_HOST   0x10 /* unreserved and sub-delims (RFC 3986 3.2.2); no percent-encoding */
#define AB_CHAR_QUOTED 0x20 /* qdtext (RFC 9110 5.6.4) */

extern const uint8_t ab_char_class[256];

static inline bool ab_char_is(char byte, unsigned class) {
  return (ab_char_class[(unsigned char)byte] & class) != 0;
}

static inline bool ab_is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

static inline bool ab_is_blank(char byte) {
  return byte == ' ' || byte == '\t';
}

/* An ASCII letter in lower case; any other byte as it is. */
static inline char ab_lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte | 0x20) : byte;
}

/* The value of a hexadecimal digit, or -1. */
static inline int ab_hex_value(char byte) {
  if (ab_is_digit(byte)) return byte - '0';
  char lower = (char)(byte | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static inline const char *ab_skip_class(const char *ptr, const char *end, unsigned class) {
  while (ptr < end && ab_char_is(*ptr, class)) ptr++;
  return ptr;
}

/* True when one of the eight bytes is below 0x20 or is DEL. It may be true for a byte above such
 * a one as well, so it tells whether there is one, not where. */
static inline bool ab_word_has_control(uint64_t word) {
  const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
  uint64_t del = word ^ (ones * 0x7f);
  return ((((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & highs) != 0;
}

#ifdef __SSE2__

/* A bit for each of the sixteen bytes that is below 0x20 or DEL; also HTAB, a value byte. */
static inline unsigned ab_block_controls(__m128i block) {
  __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
  __m128i del = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f));
  return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, del));
}

/* The bytes that are of neither AB_CHAR_PATH nor AB_CHAR_QUERY. Two pairs differ in one bit only:
 * DQUOTE and "#", and "<" and ">". */
static inline __m128i ab_block_not_target(__m128i block) {
  __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x20)), block);
  __m128i del = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f));
  __m128i hash =
      _mm_cmpeq_epi8(_mm_and_si128(block, _mm_set1_epi8((char)0xfe)), _mm_set1_epi8('"'));
  __m128i angle =
      _mm_cmpeq_epi8(_mm_and_si128(block, _mm_set1_epi8((char)0xfd)), _mm_set1_epi8('<'));
  return _mm_or_si128(_mm_or_si128(low, del), _mm_or_si128(hash, angle));
}

/* All bits of the bytes that are one of the `count` from `first` on. */
static inline __m128i ab_block_range(__m128i block, char first, char count) {
  __m128i from = _mm_sub_epi8(block, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(from, _mm_set1_epi8((char)(count - 1))), from);
}

/* A bit for each of the sixteen bytes that is no letter, digit or "-": rare in tokens. */
static inline unsigned ab_block_unusual(__m128i block) {
  __m128i letter = ab_block_range(_mm_or_si128(block, _mm_set1_epi8(0x20)), 'a', 26);
  __m128i digit = ab_block_range(block, '0', 10);
  __m128i dash = _mm_cmpeq_epi8(block, _mm_set1_epi8('-'));
  return 0xffff & ~(unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letter, digit), dash));
}

#endif

static inline const char *ab_skip_token(const char *ptr, const char *end) {
#ifdef __SSE2__
  while (end - ptr >= 16) {
    unsigned hits = ab_block_unusual(_mm_loadu_si128((const __m128i *)ptr));
    if (hits == 0) {
      ptr += 16;
      continue;
    }
    ptr += __builtin_ctz(hits);
    if (!ab_char_is(*ptr, AB_CHAR_TOKEN)) return ptr;
    ptr++;
  }
#endif
  return ab_skip_class(ptr, end, AB_CHAR_TOKEN);
}

static inline const char *ab_skip_value(const char *ptr, const char *end) {
#ifdef __SSE2__
  while (end - ptr >= 16) {
    unsigned hits = ab_block_controls(_mm_loadu_si128((const __m128i *)ptr));
    if (hits == 0) {
      ptr += 16;
      continue;
    }
    ptr += __builtin_ctz(hits);
    if (*ptr != '\t') return ptr;
    ptr++;
  }
#endif
  while (end - ptr >= 8) {
    uint64_t word;
    memcpy(&word, ptr, sizeof(word));
    if (ab_word_has_control(word)) {
      const char *stop = ab_skip_class(ptr, ptr + 8, AB_CHAR_VALUE);
      if (stop < ptr + 8) return stop;
    }
    ptr += 8;
  }
  return ab_skip_class(ptr, end, AB_CHAR_VALUE);
}

static inline const char *ab_skip_path(const char *ptr, const char *end) {
#ifdef __SSE2__
  for (; end - ptr >= 16; ptr += 16) {
    __m128i block = _mm_loadu_si128((const __m128i *)ptr);
    __m128i mark = _mm_cmpeq_epi8(block, _mm_set1_epi8('?'));
    __m128i back = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    unsigned hits = (unsigned)_mm_movemask_epi8(
        _mm_or_si128(ab_block_not_target(block), _mm_or_si128(mark, back)));
    if (hits) return ptr + __builtin_ctz(hits);
  }
#endif
  return ab_skip_class(ptr, end, AB_CHAR_PATH);
}

static inline const char *ab_skip_query(const char *ptr, const char *end) {
#ifdef __SSE2__
  for (; end - ptr >= 16; ptr += 16) {
    __m128i block = _mm_loadu_si128((const __m128i *)ptr);
    unsigned hits = (unsigned)_mm_movemask_epi8(ab_block_not_target(block));
    if (hits) return ptr + __builtin_ctz(hits);
  }
#endif
  return ab_skip_class(ptr, end, AB_CHAR_QUERY);
}

/* What is between, without the white space around it. */
static inline ab_view ab_view_trim(const char *ptr, const char *end) {
  while (ptr < end && ab_is_blank(*ptr)) ptr++;
  while (end > ptr && ab_is_blank(end[-1])) end--;
  return (ab_view){ptr, (size_t)(end - ptr)};
}

/* *value is what 1 to 18 digits say; false for anything else. */
static inline bool ab_parse_digits(const char *ptr, size_t len, uint64_t *value) {
  if (len == 0 || len > 18) return false;
  uint64_t number = 0;
  for (const char *end = ptr + len; ptr < end; ptr++) {
    if (!ab_is_digit(*ptr)) return false;
    number = number * 10 + (uint64_t)(*ptr - '0');
  }
  *value = number;
  return true;
}

/* Takes the next element off a comma-separated list (RFC 9110 5.6.1), without the white space
 * around it; it may be empty. Returns false when none is left. */
bool ab_next_element(ab_view *rest, ab_view *element);

/* True for a token (RFC 9110 5.6.2). */
bool ab_is_token(const char *ptr, size_t len);
/* True when no byte is a control character other than HTAB (RFC 9110 5.5). */
bool ab_is_field_value(const char *ptr, size_t len);
/* True when `ptr` spells `lower`, a lower-case ASCII string of the same length, in any case. */
bool ab_equals_nocase(const char *ptr, const char *lower, size_t len);
/* True when the view is `text`, of `len` bytes. */
static inline bool ab_view_is(ab_view view, const char *text, size_t len) {
  return view.len == len && memcmp(view.ptr, text, len) == 0;
}
/* True when the view spells `lower`, of `len` bytes, in any case. */
static inline bool ab_view_spells(ab_view view, const char *lower, size_t len) {
  return view.len == len && ab_equals_nocase(view.ptr, lower, len);
}

#endif
