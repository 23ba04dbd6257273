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
  CHECK_TEXT("\\u0000\\u001b[31m\\u001f \x7f", "\0\x1b[31m\x1f \x7f");
  CHECK_TEXT("Zo\xc3\xab \xe2\x80\xa8 \xf0\x9f\x98\x80",
             "Zo\xc3\xab \xe2\x80\xa8 \xf0\x9f\x98\x80");
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
