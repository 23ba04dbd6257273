/* The class table against the grammar, and each wide scan against the portable one. */
#include "check.h"

#include "http1/char.h"
#include "http1/write.h"

static bool in(const char *set, int octet) {
  return octet != 0 && octet < 0x80 && strchr(set, octet) != NULL;
}

static bool is_alnum(int octet) {
  return (octet >= '0' && octet <= '9') || (octet >= 'a' && octet <= 'z') ||
         (octet >= 'A' && octet <= 'Z');
}

static void the_table_is_the_grammar(void) {
  for (int octet = 0; octet < 256; octet++) {
    bool graphic = octet > 0x20 && octet != 0x7f; /* VCHAR and obs-text */
    bool blank = octet == ' ' || octet == '\t';
    char as_char = (char)octet;
    CHECK_INT(is_alnum(octet) || in("!#$%&'*+-.^_`|~", octet), ab__char_is(as_char, AB__TOKEN));
    CHECK_INT(graphic || blank, ab__char_is(as_char, AB__VALUE));
    CHECK_INT(graphic && !in("\"#<>\\?", octet), ab__char_is(as_char, AB__PATH));
    CHECK_INT(graphic && !in("\"#<>", octet), ab__char_is(as_char, AB__QUERY));
    CHECK_INT(is_alnum(octet) || in("-._~!$&'()*+,;=", octet), ab__char_is(as_char, AB__HOST));
    CHECK_INT((graphic || blank) && !in("\"\\", octet), ab__char_is(as_char, AB__QUOTED));
  }
}

static void hex_digits_have_values(void) {
  for (int octet = 0; octet < 256; octet++) {
    int expected = -1;
    if (octet >= '0' && octet <= '9') expected = octet - '0';
    if (octet >= 'a' && octet <= 'f') expected = octet - 'a' + 10;
    if (octet >= 'A' && octet <= 'F') expected = octet - 'A' + 10;
    CHECK_INT(expected, ab__hex_value((char)octet));
  }
}

typedef const char *(*scan)(const char *, const char *);

/* Every octet at every place of runs around the widths of the blocks, with a HTAB and an octet that
 * borrows in front of it now and then; the run has its exact size, so that ASan sees an over-read.
 */
static void check_scan(scan wide, scan plain, unsigned class) {
  for (size_t len = 0; len <= 40; len++) {
    char *octets = malloc(len + 1);
    for (size_t at = 0; at < len; at++) {
      for (int octet = 0; octet < 256; octet++) {
        memset(octets, octet & 1 ? 'a' : (char)0xff, len);
        if (at > 0) octets[at - 1] = octet & 2 ? '\t' : '!';
        octets[at] = (char)octet;
        const char *from = octets, *end = octets + len;
        const char *expected = ab__skip_class(from, end, class);
        if (wide(from, end) != expected || plain(from, end) != expected) {
          CHECK_INT(expected - from, wide(from, end) - from);
          CHECK_INT(expected - from, plain(from, end) - from);
        }
        check_count++;
      }
    }
    free(octets);
  }
}

static void scans_stop_where_the_table_does(void) {
  check_scan(ab__skip_token, ab__skip_token_plain, AB__TOKEN);
  check_scan(ab__skip_value, ab__skip_value_plain, AB__VALUE);
  check_scan(ab__skip_path, ab__skip_path_plain, AB__PATH);
  check_scan(ab__skip_query, ab__skip_query_plain, AB__QUERY);
}

static void tokens_and_values_are_told(void) {
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

static void comparison_folds_letters_only(void) {
  CHECK(ab_equals_nocase("ChUnKeD", "chunked", 7));
  CHECK(ab_equals_nocase("", "", 0));
  CHECK(!ab_equals_nocase("chunkee", "chunked", 7));
  CHECK(!ab_equals_nocase("keep\ralive", "keep-alive", 10));
  CHECK(!ab_equals_nocase("\x11", "1", 1));
  CHECK(!ab_equals_nocase("@", "`", 1));
  CHECK(!ab_equals_nocase("[", "{", 1));
  CHECK(!ab_equals_nocase("\xe1", "a", 1));
}

CHECK_MAIN(CHECK_CASE(the_table_is_the_grammar), CHECK_CASE(hex_digits_have_values),
           CHECK_CASE(scans_stop_where_the_table_does), CHECK_CASE(tokens_and_values_are_told),
           CHECK_CASE(comparison_folds_letters_only))
