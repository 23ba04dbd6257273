/* The class table against the grammar, and each wide scan against the portable one. */
#include "check.h"

#include "http/char.h"

static bool in(const char *set, int byte) {
  return byte != 0 && byte < 0x80 && strchr(set, byte) != NULL;
}

static bool is_alnum(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

CHECK_CASE(the_table_is_the_grammar) {
  for (int byte = 0; byte < 256; byte++) {
    bool graphic = byte > 0x20 && byte != 0x7f; /* VCHAR and obs-text */
    bool blank = byte == ' ' || byte == '\t';
    char as_char = (char)byte;
    CHECK_INT(is_alnum(byte) || in("!#$%&'*+-.^_`|~", byte), ab_char_is(as_char, AB_CHAR_TOKEN));
    CHECK_INT(graphic || blank, ab_char_is(as_char, AB_CHAR_VALUE));
    CHECK_INT(graphic && !in("\"#<>\\?", byte), ab_char_is(as_char, AB_CHAR_PATH));
    CHECK_INT(graphic && !in("\"#<>", byte), ab_char_is(as_char, AB_CHAR_QUERY));
    CHECK_INT(is_alnum(byte) || in("-._~!$&'()*+,;=", byte), ab_char_is(as_char, AB_CHAR_HOST));
    CHECK_INT((graphic || blank) && !in("\"\\", byte), ab_char_is(as_char, AB_CHAR_QUOTED));
  }
}

CHECK_CASE(hex_digits_have_values) {
  for (int byte = 0; byte < 256; byte++) {
    int expected = -1;
    if (byte >= '0' && byte <= '9') expected = byte - '0';
    if (byte >= 'a' && byte <= 'f') expected = byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') expected = byte - 'A' + 10;
    CHECK_INT(expected, ab_hex_value((char)byte));
  }
}

typedef const char *(*scan)(const char *, const char *);

/* Every byte at every place of runs around the widths of the blocks, with a HTAB and a byte that
 * borrows in front of it now and then; the run has its exact size, so that ASan sees an over-read.
 */
static void check_scan(scan scan, unsigned class) {
  for (size_t len = 0; len <= 40; len++) {
    char *bytes = malloc(len + 1);
    for (size_t at = 0; at < len; at++) {
      for (int byte = 0; byte < 256; byte++) {
        memset(bytes, byte & 1 ? 'a' : (char)0xff, len);
        if (at > 0) bytes[at - 1] = byte & 2 ? '\t' : '!';
        bytes[at] = (char)byte;
        const char *from = bytes, *end = bytes + len;
        const char *expected = ab_skip_class(from, end, class);
        if (scan(from, end) != expected) CHECK_INT(expected - from, scan(from, end) - from);
        check_count++;
      }
    }
    free(bytes);
  }
}

CHECK_CASE(scans_stop_where_the_table_does) {
  check_scan(ab_skip_token, AB_CHAR_TOKEN);
  check_scan(ab_skip_value, AB_CHAR_VALUE);
  check_scan(ab_skip_path, AB_CHAR_PATH);
  check_scan(ab_skip_query, AB_CHAR_QUERY);
}

CHECK_CASE(tokens_and_values_are_told) {
  CHECK(ab_is_token("Content-Type", 12));
  CHECK(!ab_is_token("", 0));
  CHECK(!ab_is_token("a b", 3));
  CHECK(!ab_is_token("a:", 2));
  CHECK(ab_is_field_value("", 0));
  CHECK(ab_is_field_value("a\tb \xff", 5));
  CHECK(!ab_is_field_value("a\nb", 3));
  CHECK(!ab_is_field_value("a\0b", 3));
  CHECK(!ab_is_field_value("a\x7f", 2));
}

CHECK_CASE(only_letters_have_a_lower_case) {
  static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", lower[] = "abcdefghijklmnopqrstuvwxyz";
  for (int i = 0; i < 256; i++) {
    const char *at = i ? strchr(upper, i) : NULL;
    CHECK_INT(at ? lower[at - upper] : (char)i, ab_lower((char)i));
  }
}

CHECK_CASE(comparison_folds_letters_only) {
  CHECK(ab_equals_nocase("ChUnKeD", "chunked", 7));
  CHECK(ab_equals_nocase("", "", 0));
  CHECK(!ab_equals_nocase("chunkee", "chunked", 7));
  CHECK(!ab_equals_nocase("keep\ralive", "keep-alive", 10));
  CHECK(!ab_equals_nocase("\x11", "1", 1));
  CHECK(!ab_equals_nocase("@", "`", 1));
  CHECK(!ab_equals_nocase("[", "{", 1));
  CHECK(!ab_equals_nocase("\xe1", "a", 1));
}

CHECK_MAIN()
