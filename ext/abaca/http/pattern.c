#include "http/pattern.h"

#include "http/char.h"

/* One byte of a path as the application reads it. */
typedef struct byte {
  int value; /* -1: the path has ended */
  size_t next;
} byte;

static byte read_byte(ab_view path, size_t at) {
  if (at >= path.len) return (byte){-1, at};
  if (path.ptr[at] == '%' && path.len - at > 2) {
    int high = ab_hex_value(path.ptr[at + 1]), low = ab_hex_value(path.ptr[at + 2]);
    if (high >= 0 && low >= 0) return (byte){high * 16 + low, at + 3};
  }
  return (byte){(unsigned char)path.ptr[at], at + 1};
}

/* The path has ended: what is left of the pattern may be stars, and a slash and a star at last. */
static bool rest_is_empty(ab_view pattern, size_t at) {
  while (at < pattern.len && pattern.ptr[at] == '*') at++;
  size_t left = pattern.len - at;
  return left == 0 || (left == 2 && at > 0 && memcmp(pattern.ptr + at, "/*", 2) == 0);
}

/* A star takes nothing at first, and a byte more each time that what follows it does not match;
 * only the last star passed has to be remembered. */
bool ab_path_matches(ab_view pattern, ab_view path) {
  size_t at = 0, p = 0, star = SIZE_MAX, retry = 0;
  for (;;) {
    byte seen = read_byte(path, at);
    if (seen.value < 0) return rest_is_empty(pattern, p);
    if (p < pattern.len && pattern.ptr[p] == '*') {
      star = ++p;
      retry = at;
    } else if (p < pattern.len && (unsigned char)pattern.ptr[p] == seen.value) {
      p++;
      at = seen.next;
    } else if (star != SIZE_MAX) {
      p = star;
      at = retry = read_byte(path, retry).next;
    } else {
      return false;
    }
  }
}

const ab_path_rule *ab_path_rule_find(const ab_path_rule *rules, size_t count, ab_view path) {
  for (size_t i = 0; i < count; i++) {
    if (ab_path_matches(rules[i].pattern, path)) return &rules[i];
  }
  return NULL;
}
