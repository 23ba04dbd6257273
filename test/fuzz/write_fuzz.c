/* The writer of response heads. The first byte is the size of a field's name, which the value
 * follows: either exactly "name: value CRLF" leaves, or nothing. Its bytes are numbers as well,
 * for the status line, a chunk's size, a length and a date. */
#include "fuzz.h"

#include "http/date.h"
#include "http1/response.h"

/* The grammar once more, written as RFC 9110 5.6.2 and 5.5 have it. */
static bool token(const char *ptr, size_t len) {
  for (size_t i = 0; i < len; i++) {
    bool digit = ptr[i] >= '0' && ptr[i] <= '9', upper = ptr[i] >= 'A' && ptr[i] <= 'Z';
    bool lower = ptr[i] >= 'a' && ptr[i] <= 'z';
    bool mark = ptr[i] != '\0' && strchr("!#$%&'*+-.^_`|~", ptr[i]);
    if (!digit && !upper && !lower && !mark) return false;
  }
  return len > 0;
}

static bool value(const char *ptr, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)ptr[i];
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return false;
  }
  return true;
}

static void check_field(ab_view name, ab_view content) {
  size_t size = name.len + content.len + 4;
  char *dst = malloc(size), *name_copy = fuzz_copy(name.ptr, name.len);
  char *copy = fuzz_copy(content.ptr, content.len);
  if (!dst) abort();
  char *end = ab_write_field(dst, name_copy, name.len, copy, content.len);
  bool valid = token(name.ptr, name.len) && value(content.ptr, content.len);
  require((end != NULL) == valid, "a field leaves exactly when it is valid");
  if (end) {
    require(end == dst + size, "the field has its size");
    require(memcmp(dst, name.ptr, name.len) == 0, "the name is there");
    require(memcmp(dst + name.len, ": ", 2) == 0, "a colon follows");
    require(memcmp(dst + name.len + 2, copy, content.len) == 0, "the value is there");
    require(memcmp(end - 2, "\r\n", 2) == 0, "CRLF ends it");
  }
  free(copy);
  free(name_copy);
  free(dst);
}

/* Lines that the server writes by itself: one CRLF, at their end, and no other control. */
static void check_line(const char *line, const char *end, size_t max) {
  require((size_t)(end - line) <= max && end - line >= 2, "the line has its size");
  require(memcmp(end - 2, "\r\n", 2) == 0, "CRLF ends the line");
  require(value(line, (size_t)(end - line) - 2), "nothing else ends it");
}

static void check_numbers(uint64_t number) {
  char room[AB_STATUS_LINE_MAX], digits[24];
  check_line(room, ab_write_status_line(room, (int)(100 + number % 900)), sizeof(room));
  *ab_write_decimal(room, number) = '\0';
  snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
  require(strcmp(room, digits) == 0, "the number is written in decimal");
  char *end = ab_write_date(room, (int64_t)number);
  require(end == room + AB_DATE_LEN && value(room, AB_DATE_LEN), "the date has its size");
  if (number == 0) return;
  end = ab_write_chunk_head(room, number);
  check_line(room, end, AB_CHUNK_HEAD_MAX);
  end[-2] = '\0';
  snprintf(digits, sizeof(digits), "%llx", (unsigned long long)number);
  require(strcmp(room, digits) == 0, "the size is written in hexadecimal");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const char *bytes = (const char *)data + 1;
  size_t len = size - 1, name = data[0] < len ? data[0] : len;
  check_field((ab_view){bytes, name}, (ab_view){bytes + name, len - name});
  uint64_t number = 0;
  memcpy(&number, bytes, len < sizeof(number) ? len : sizeof(number));
  check_numbers(number);
  return 0;
}
