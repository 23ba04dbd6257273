#include "http/traceparent.h"

/* version "-" trace "-" span "-" flags */
#define LENGTH 55
enum { TRACE = 3, SPAN = 36, FLAGS = 53 };

/* Upper case is wrong. */
static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_bytes(const char *text, uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static bool any(const uint8_t *bytes, size_t count) {
  uint8_t all = 0;
  for (size_t i = 0; i < count; i++) all |= bytes[i];
  return all != 0;
}

/* Later versions may say more, behind another "-". */
static bool has_form(ab_view value, uint8_t version) {
  if (version == 0xff) return false;
  if (value.len > LENGTH && (version == 0 || value.ptr[LENGTH] != '-')) return false;
  return value.ptr[TRACE - 1] == '-' && value.ptr[SPAN - 1] == '-' && value.ptr[FLAGS - 1] == '-';
}

bool ab_traceparent_parse(ab_view value, ab_traceparent *parent) {
  uint8_t version, flags;
  if (value.len < LENGTH || !read_bytes(value.ptr, &version, 1) || !has_form(value, version) ||
      !read_bytes(value.ptr + TRACE, parent->trace, sizeof(parent->trace)) ||
      !read_bytes(value.ptr + SPAN, parent->span, sizeof(parent->span)) ||
      !read_bytes(value.ptr + FLAGS, &flags, 1))
    return false;
  parent->sampled = flags & 1;
  return any(parent->trace, sizeof(parent->trace)) && any(parent->span, sizeof(parent->span));
}
