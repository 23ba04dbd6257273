/* Pieces of JSON. */
#include "check.h"

#include "base/json.h"

static const ab_view mark = {"?", 1}, stand_in = {"\xef\xbf\xbd", 3};

static void check_text(const char *expected, const char *text, size_t len, ab_view instead) {
  size_t room;
  CHECK(ab_json_text_room(len, &room));
  char *to = malloc(room);
  char *end = ab_json_text(to, (ab_view){text, len}, instead);
  CHECK((size_t)(end - to) <= room);
  CHECK_BYTES(expected, to, (size_t)(end - to));
  free(to);
}

#define CHECK_TEXT(expected, text) check_text("\"" expected "\"", text, sizeof(text) - 1, mark)

CHECK_CASE(texts_are_quoted) {
  CHECK_TEXT("", "");
  CHECK_TEXT("/items/1", "/items/1");
  CHECK_TEXT("\\\"\\\\\\b\\f\\n\\r\\t", "\"\\\b\f\n\r\t");
  CHECK_TEXT("\\u0000\\u001b[31m\\u001f ", "\0\x1b[31m\x1f ");
  CHECK_TEXT("Zo\xc3\xab \xf0\x9f\x98\x80", "Zo\xc3\xab \xf0\x9f\x98\x80");
}

/* First and last of each range, with their neighbours, which stay as they are. */
CHECK_CASE(what_a_terminal_would_obey_is_escaped) {
  CHECK_TEXT("~\\u007f", "~\x7f");
  CHECK_TEXT("\\u0080\\u009b\\u009f\xc2\xa0", "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0");
  CHECK_TEXT("\xd8\x9b\\u061c\xd8\x9d", "\xd8\x9b\xd8\x9c\xd8\x9d");
  CHECK_TEXT("\xe2\x80\x8d\\u200e\\u200f\xe2\x80\x90",
             "\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90");
  CHECK_TEXT("\xe2\x80\xa7\\u2028\\u2029\\u202a\\u202e\xe2\x80\xaf",
             "\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf");
  CHECK_TEXT("\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa",
             "\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa");
  CHECK_TEXT("\xf0\x92\x80\xa8", "\xf0\x92\x80\xa8"); /* U+12028 */
}

CHECK_CASE(what_is_no_utf8_has_a_stand_in) {
  CHECK_TEXT("?", "\xff");
  CHECK_TEXT("??", "\xc0\xaf");
  CHECK_TEXT("?(", "\xc3(");
  CHECK_TEXT("?", "\xe2\x82");
  CHECK_TEXT("?x", "\xf0\x9f\x98x");
  CHECK_TEXT("???", "\xed\xa0\x80");
  CHECK_TEXT("????", "\xf4\x90\x80\x80");
  CHECK_TEXT("??", "\xe0\x9f");
  CHECK_TEXT("\xed\x9f\xbf\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xf4\x8f\xbf\xbf");
  check_text("\"?\"", "\xe2\x82\xac", 2, mark); /* the rest of the character is not the text's */
  check_text("\"a\xef\xbf\xbd"
             "b\"",
             "a\x80"
             "b",
             3, stand_in);
}

CHECK_CASE(the_longest_text_has_room) {
  char text[8192];
  size_t room;
  memset(text, 1, sizeof text);
  CHECK(ab_json_text_room(sizeof text, &room));
  char *to = malloc(room);
  CHECK_INT(room, ab_json_text(to, (ab_view){text, sizeof text}, mark) - to);
  free(to);
  CHECK(!ab_json_text_room(SIZE_MAX / 2, &room));
  CHECK(!ab_json_text_room(SIZE_MAX / 6 + 1, &room));
}

CHECK_CASE(counts) {
  static const struct {
    uint64_t count;
    const char *text;
  } table[] = {{0, "0"}, {7, "7"}, {10, "10"}, {UINT64_MAX, "18446744073709551615"}};
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char text[AB_JSON_NUMBER_MAX];
    CHECK_BYTES(table[i].text, text, (size_t)(ab_json_count(text, table[i].count) - text));
  }
}

CHECK_CASE(fractions) {
  static const struct {
    uint64_t billionths;
    const char *text;
  } table[] = {{0, "0.0"},
               {1, "1.0e-09"},
               {15, "1.5e-08"},
               {12000, "1.2e-05"},
               {99999, "9.9999e-05"},
               {100000, "0.0001"},
               {250000000, "0.25"},
               {1000000000, "1.0"},
               {12034500000, "12.0345"},
               {AB_JSON_BILLIONTHS_MAX - 1, "999999.999999999"}};
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char text[AB_JSON_NUMBER_MAX];
    CHECK_BYTES(table[i].text, text, (size_t)(ab_json_fraction(text, table[i].billionths) - text));
    uint64_t found;
    CHECK(ab_json_billionths((double)table[i].billionths / 1e9, &found) &&
          found == table[i].billionths);
  }
}

CHECK_CASE(other_numbers_are_no_billionths) {
  static const double others[] = {-0.0, -1, 1e6, 1e300, 1e-10, 1.0 / 3, 0.1 + 0.2, 1e-9 * 1.5};
  uint64_t found;
  for (size_t i = 0; i < AB_ARRAY_LEN(others); i++) CHECK(!ab_json_billionths(others[i], &found));
  CHECK(!ab_json_billionths(strtod("nan", NULL), &found));
  CHECK(!ab_json_billionths(strtod("inf", NULL), &found));
}

CHECK_MAIN()
