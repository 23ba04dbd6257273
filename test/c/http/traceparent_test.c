/* traceparent: what W3C Trace Context allows, and what it does not. */
#include "check.h"

#include "http/traceparent.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static bool parse(const char *text, ab_traceparent *parent) {
  /* In memory of its own length, so that reading behind it is seen. */
  size_t len = strlen(text);
  char *exact = malloc(len ? len : 1);
  memcpy(exact, text, len);
  bool result = ab_traceparent_parse((ab_view){exact, len}, parent);
  free(exact);
  return result;
}

CHECK_CASE(a_trace_and_a_span) {
  static const uint8_t trace[] = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                  0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};
  static const uint8_t span[] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
  ab_traceparent parent;
  CHECK(parse("00-" TRACE "-" SPAN "-01", &parent));
  CHECK(memcmp(parent.trace, trace, sizeof(trace)) == 0);
  CHECK(memcmp(parent.span, span, sizeof(span)) == 0);
  CHECK(parent.sampled);
  CHECK(parse("00-" TRACE "-" SPAN "-02", &parent) && !parent.sampled);
  CHECK(parse("00-" TRACE "-" SPAN "-ff", &parent) && parent.sampled);
}

CHECK_CASE(later_versions_may_say_more) {
  ab_traceparent parent;
  CHECK(parse("cc-" TRACE "-" SPAN "-01", &parent));
  CHECK(parse("cc-" TRACE "-" SPAN "-01-", &parent));
  CHECK(parse("cc-" TRACE "-" SPAN "-01-what-comes", &parent));
  CHECK(!parse("cc-" TRACE "-" SPAN "-01.what", &parent));
}

CHECK_CASE(no_trace) {
  static const char *const texts[] = {
      "",
      "00",
      "00-" TRACE "-" SPAN,
      "00-" TRACE "-" SPAN "-",
      "00-" TRACE "-" SPAN "-0",
      "00-" TRACE "-" SPAN "-01-",
      "00-" TRACE "-" SPAN "-011",
      "ff-" TRACE "-" SPAN "-01",
      "0-" TRACE "-" SPAN "-001",
      "0x-" TRACE "-" SPAN "-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
      "00-" TRACE "-00F067AA0BA902B7-01",
      "00-" TRACE "-" SPAN "-0A",
      "00_" TRACE "-" SPAN "-01",
      "00-" TRACE "_" SPAN "-01",
      "00-" TRACE "-" SPAN "_01",
      "00-00000000000000000000000000000000-" SPAN "-01",
      "00-" TRACE "-0000000000000000-01",
      "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7g-01",
  };
  ab_traceparent parent;
  for (size_t i = 0; i < AB_ARRAY_LEN(texts); i++) CHECK(!parse(texts[i], &parent));
}

CHECK_MAIN()
