/* Status lines, field lines and numbers, each written into a block of the promised
 * size, so that ASan sees one byte more. */
#include "check.h"

#include "http/char.h"
#include "http1/write.h"

static void check_status_line(const char *expected, int status) {
  char *dst = malloc(AB_STATUS_LINE_MAX);
  char *end = ab_write_status_line(dst, status);
  CHECK_BYTES(expected, dst, (size_t)(end - dst));
  free(dst);
}

CHECK_CASE(status_lines_are_written) {
  check_status_line("HTTP/1.1 200 OK\r\n", 200);
  check_status_line("HTTP/1.1 100 Continue\r\n", 100);
  check_status_line("HTTP/1.1 431 Request Header Fields Too Large\r\n", 431);
  check_status_line("HTTP/1.1 299 \r\n", 299);
  check_status_line("HTTP/1.1 999 \r\n", 999);
  for (int status = 100; status <= 999; status++) {
    char *dst = malloc(AB_STATUS_LINE_MAX);
    char *end = ab_write_status_line(dst, status);
    CHECK(end - dst >= 15 && end - dst <= AB_STATUS_LINE_MAX);
    CHECK(memcmp(end - 2, "\r\n", 2) == 0);
    CHECK_INT(status, atoi(dst + 9));
    free(dst);
  }
}

/* Writes into exactly what the header asks for; NULL when it is refused. */
static char *field(const char *name, const char *value, size_t value_len, size_t *len) {
  size_t name_len = strlen(name);
  char *dst = malloc(name_len + value_len + 4);
  char *end = ab_write_field(dst, name, name_len, value, value_len);
  if (end) *len = (size_t)(end - dst);
  if (!end) free(dst), dst = NULL;
  return dst;
}

CHECK_CASE(fields_are_written) {
  size_t len = 0;
  char *text = field("X-A", "v", 1, &len);
  CHECK(text != NULL);
  CHECK_BYTES("X-A: v\r\n", text, len);
  free(text);
  text = field("x", "", 0, &len);
  CHECK(text != NULL);
  CHECK_BYTES("x: \r\n", text, len);
  free(text);
  const char *value = "0123456789abcdef\t\xff long enough for blocks and a tail";
  text = field("x", value, strlen(value), &len);
  CHECK(text && len == strlen(value) + 5 && memcmp(text + 3, value, strlen(value)) == 0);
  free(text);
}

/* Every byte, at every place of values of every length up to three blocks: what is written has no
 * byte that could end or hide a line. */
CHECK_CASE(fields_that_would_break_out_are_refused) {
  for (size_t len = 1; len <= 48; len++) {
    for (size_t at = 0; at<len; at += len> 20 ? 3 : 1) {
      for (int byte = 0; byte < 256; byte++) {
        char value[48];
        size_t written = 0;
        memset(value, 'v', len);
        value[at] = (char)byte;
        char *text = field("n", value, len, &written);
        bool valid = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
        if ((text != NULL) != valid) CHECK_INT(valid, text != NULL);
        if (text && memcmp(text + 3, value, len) != 0) CHECK(!"the value is copied");
        check_count++;
        free(text);
      }
    }
  }
}

CHECK_CASE(names_must_be_tokens) {
  size_t len;
  for (int byte = 1; byte < 256; byte++) {
    char name[] = {'a', (char)byte, 'b', 0};
    char *text = field(name, "v", 1, &len);
    CHECK_INT(ab_char_is((char)byte, AB_CHAR_TOKEN), text != NULL);
    free(text);
  }
  CHECK(field("", "v", 1, &len) == NULL);
  char dst[16];
  CHECK(ab_write_field(dst, "a\0b", 3, "v", 1) == NULL);
}

/* Names and values of each length, with each byte at each place: blocks overlap where they end. */
CHECK_CASE(every_place_is_looked_at) {
  for (size_t len = 1; len <= 50; len++) {
    char name[51], value[51], expected[110];
    memset(name, 'n', len), memset(value, 'v', len);
    name[len] = value[len] = '\0';
    int size = snprintf(expected, sizeof expected, "%s: %.*s\r\n", name, (int)len, value);
    size_t got = 0;
    char *text = field(name, value, len, &got);
    CHECK(text != NULL);
    CHECK_INT(size, got);
    CHECK_BYTES(expected, text, got);
    free(text);
    for (size_t at = 0; at < len; at++) {
      value[at] = '\n';
      CHECK(field(name, value, len, &got) == NULL);
      value[at] = '\t'; /* a control that may be there */
      text = field(name, value, len, &got);
      CHECK(text != NULL);
      CHECK_BYTES(value, text + len + 2, len);
      free(text);
      value[at] = 'v';
      name[at] = ' ';
      CHECK(field(name, value, len, &got) == NULL);
      name[at] = 'n';
    }
  }
}

static void check_decimal(const char *expected, uint64_t n) {
  char *dst = malloc(20);
  char *end = ab_write_decimal(dst, n);
  CHECK_BYTES(expected, dst, (size_t)(end - dst));
  free(dst);
}

CHECK_CASE(numbers_are_written) {
  check_decimal("0", 0);
  check_decimal("9", 9);
  check_decimal("10", 10);
  check_decimal("99", 99);
  check_decimal("1000", 1000);
  check_decimal("18446744073709551615", UINT64_MAX);
}

CHECK_MAIN()
