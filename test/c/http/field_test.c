/* Ids of fields, and values of Content-Length and Expect. */
#include "check.h"

#include "http/field.h"

CHECK_CASE(known_names_have_an_id_in_any_case) {
  static const struct {
    const char *name;
    uint8_t id;
  } names[] = {
      {"host", AB_FIELD_HOST},
      {"HOST", AB_FIELD_HOST},
      {"connection", AB_FIELD_CONNECTION},
      {"Content-Length", AB_FIELD_CONTENT_LENGTH},
      {"content-type", AB_FIELD_CONTENT_TYPE},
      {"transfer-encoding", AB_FIELD_TRANSFER_ENCODING},
      {"Expect", AB_FIELD_EXPECT},
      {"upgrade", AB_FIELD_UPGRADE},
      {"cookie", AB_FIELD_COOKIE},
      {"x-request-start", AB_FIELD_REQUEST_START},
      {"Traceparent", AB_FIELD_TRACEPARENT},
      {"hosts", AB_FIELD_OTHER},
      {"hose", AB_FIELD_OTHER},
      {"content_length", AB_FIELD_OTHER},
      {"", AB_FIELD_OTHER},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(names); i++) {
    CHECK_INT(names[i].id, ab_field_id(names[i].name, strlen(names[i].name)));
  }
}

static bool read_length(const char *text, uint64_t *length) {
  return ab_read_length((ab_view){text, strlen(text)}, length);
}

CHECK_CASE(a_length_is_digits) {
  static const char *const bad[] = {
      "", "+1", "-1", "1,1", " 1", "1 ", "0x1", "1.0", "18446744073709551616"};
  uint64_t length;
  CHECK(read_length("0", &length) && length == 0);
  CHECK(read_length("0012", &length) && length == 12);
  CHECK(read_length("18446744073709551615", &length) && length == UINT64_MAX);
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) CHECK(!read_length(bad[i], &length));
}

CHECK_CASE(an_expectation_is_known_or_not) {
  static const struct {
    const char *value;
    bool known, unknown;
  } values[] = {
      {"100-continue", true, false},
      {"100-Continue", true, false},
      {"", false, false},
      {"luck", false, true},
      {"100-continue, luck", true, true},
      {", ,", false, false},
      {"100-continue;a=b", false, true},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(values); i++) {
    bool known = false, unknown = false;
    ab_read_expect((ab_view){values[i].value, strlen(values[i].value)}, &known, &unknown);
    CHECK_INT(values[i].known, known);
    CHECK_INT(values[i].unknown, unknown);
  }
}

CHECK_MAIN()
