#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* --- texts --- */

bool ab_json_text_room(size_t len, size_t *room) {
  return ab_mul_size(len, AB_JSON_STAND_IN_MAX, room) && ab_add_size(*room, 2, room);
}

static bool is_plain(uint8_t byte) {
  return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* How many bytes belong together: a character, if they are `whole`, or the beginning of one (RFC
 * 3629, section 4). */
static size_t sequence(const uint8_t *ptr, size_t left, bool *whole) {
  uint8_t first = ptr[0], low = 0x80, high = 0xbf;
  size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2, i;
  *whole = false;
  if (first < 0xc2 || first > 0xf4) return 1;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (i = 1; i < size; i++) {
    if (i == left || ptr[i] < low || ptr[i] > high) return i;
    low = 0x80;
    high = 0xbf;
  }
  *whole = true;
  return size;
}

static char *put(char *at, const void *bytes, size_t len) {
  memcpy(at, bytes, len);
  return at + len;
}

static char *put_code(char *at, uint32_t code) {
  static const char digits[] = "0123456789abcdef";
  at = put(at, "\\u", 2);
  for (int shift = 12; shift >= 0; shift -= 4) *at++ = digits[code >> shift & 15];
  return at;
}

static char *put_escaped(char *at, uint8_t byte) {
  static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (const char *name = names; *name; name += 2) {
    if (byte != (uint8_t)name[0]) continue;
    *at++ = '\\';
    *at++ = name[1];
    return at;
  }
  return put_code(at, byte);
}

/* The character of a whole sequence of two or three bytes; of four, something beyond the others. */
static uint32_t character(const uint8_t *ptr, size_t size) {
  if (size == 2) return (ptr[0] & 0x1fu) << 6 | (ptr[1] & 0x3fu);
  if (size == 3) return (ptr[0] & 0xfu) << 12 | (ptr[1] & 0x3fu) << 6 | (ptr[2] & 0x3fu);
  return UINT32_MAX;
}

/* What a terminal, or whatever shows the text, would obey: control characters of Latin-1, line
 * separators, and what turns the direction of text (Unicode's Bidi_Control). Log::Text::CONTROL has
 * the same. */
static bool is_obeyed(uint32_t code) {
  return code < 0xa0 || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

static char *put_sequence(char *at, const uint8_t *ptr, size_t size) {
  uint32_t code = character(ptr, size);
  return is_obeyed(code) ? put_code(at, code) : put(at, ptr, size);
}

char *ab_json_text(char *at, ab_view text, ab_view stand_in) {
  const uint8_t *ptr = (const uint8_t *)text.ptr, *end = ptr + text.len;
  *at++ = '"';
  while (ptr < end) {
    const uint8_t *begin = ptr;
    while (ptr < end && is_plain(*ptr)) ptr++;
    at = put(at, begin, (size_t)(ptr - begin));
    if (ptr == end) break;
    if (*ptr < 0x80) {
      at = put_escaped(at, *ptr++);
      continue;
    }
    bool whole;
    size_t size = sequence(ptr, (size_t)(end - ptr), &whole);
    at = whole ? put_sequence(at, ptr, size) : put(at, stand_in.ptr, stand_in.len);
    ptr += size;
  }
  *at++ = '"';
  return at;
}

/* --- numbers --- */

char *ab_json_count(char *at, uint64_t count) {
  char digits[20];
  size_t used = 0;
  do digits[used++] = (char)('0' + count % 10);
  while ((count /= 10) > 0);
  while (used > 0) *at++ = digits[--used];
  return at;
}

bool ab_json_billionths(double value, uint64_t *billionths) {
  if (!(value >= 0 && value < (double)AB_JSON_BILLIONTHS_MAX / 1e9) || signbit(value)) return false;
  *billionths = (uint64_t)(value * 1e9 + 0.5);
  return *billionths < AB_JSON_BILLIONTHS_MAX && (double)*billionths / 1e9 == value;
}

/* Nine digits behind the point, without zeros at the end. */
static char *put_rest(char *at, uint32_t rest, unsigned digits) {
  char text[9];
  for (unsigned i = digits; i > 0; rest /= 10) text[--i] = (char)('0' + rest % 10);
  while (digits > 1 && text[digits - 1] == '0') digits--;
  return put(at, text, digits);
}

/* Below 0.0001, Ruby writes 1.25e-05. */
static char *put_small(char *at, uint32_t billionths) {
  unsigned digits = 1;
  uint32_t unit = 1;
  while (billionths / unit >= 10) {
    unit *= 10;
    digits++;
  }
  *at++ = (char)('0' + billionths / unit);
  *at++ = '.';
  if (digits == 1)
    *at++ = '0';
  else
    at = put_rest(at, billionths % unit, digits - 1);
  at = put(at, "e-0", 3);
  *at++ = (char)('0' + 10 - digits);
  return at;
}

char *ab_json_fraction(char *at, uint64_t billionths) {
  if (billionths > 0 && billionths < 100000) return put_small(at, (uint32_t)billionths);
  at = ab_json_count(at, billionths / 1000000000);
  *at++ = '.';
  return put_rest(at, (uint32_t)(billionths % 1000000000), 9);
}
