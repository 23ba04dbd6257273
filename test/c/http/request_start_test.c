/* X-Request-Start in the spellings that are about, and what is none. */
#include "check.h"

#include "http/request_start.h"

#define NOW (1512379170ull * AB_NSEC_PER_SEC + 250 * AB_NSEC_PER_MS)

static ab_nsec age(const char *text) {
  /* In memory of its own length, so that reading behind it is seen. */
  size_t len = strlen(text);
  char *copy = malloc(len + 1);
  memcpy(copy, text, len);
  char *exact = realloc(copy, len ? len : 1);
  ab_nsec result = ab_request_start_age(exact, len, NOW);
  free(exact);
  return result;
}

CHECK_CASE(units) {
  CHECK_INT(2250 * AB_NSEC_PER_MS, age("t=1512379168"));
  CHECK_INT(2250 * AB_NSEC_PER_MS, age("1512379168"));
  CHECK_INT(1750 * AB_NSEC_PER_MS, age("t=1512379168.5"));
  CHECK_INT(2126 * AB_NSEC_PER_MS, age("t=1512379168.124"));
  CHECK_INT(2126 * AB_NSEC_PER_MS, age("1512379168124"));
  CHECK_INT(2126 * AB_NSEC_PER_MS - 500000, age("1512379168124.5"));
  CHECK_INT(2126 * AB_NSEC_PER_MS, age("t=1512379168124000"));
  CHECK_INT(2126 * AB_NSEC_PER_MS - 1, age("1512379168124000001"));
  CHECK_INT(2250 * AB_NSEC_PER_MS, age("1512379168."));
  CHECK_INT(2250 * AB_NSEC_PER_MS, age("1512379168.0000000000000000000000000000"));
}

CHECK_CASE(no_time) {
  static const char *const texts[] = {"",
                                      "t=",
                                      "t",
                                      "=1512379168",
                                      "t=-1",
                                      "soon",
                                      ".5",
                                      "t=.5",
                                      "0",
                                      "t=1512379168s",
                                      "t=1512379168.5.5",
                                      "1512379168 ",
                                      "t= 1512379168",
                                      "1512379168, 1512379168",
                                      "99999999999999999999",
                                      "15123791681240000010",
                                      "18446744073709551616",
                                      "9999999999999999999"};
  for (size_t i = 0; i < AB_ARRAY_LEN(texts); i++) {
    if (age(texts[i]) != 0) fprintf(stderr, "%s is taken for a time\n", texts[i]);
    CHECK_INT(0, age(texts[i]));
  }
}

CHECK_CASE(clocks_that_differ) {
  CHECK_INT(0, age("1512379170.25"));
  CHECK_INT(1, age("1512379170249999999"));
  CHECK_INT(0, age("1512379170250000001"));
  CHECK_INT(0, age("1512379199"));
  CHECK_INT(300 * AB_NSEC_PER_SEC, age("1512378870.25"));
  CHECK_INT(0, age("1512378870249999999"));
  CHECK_INT(0, age("1"));
}

CHECK_MAIN()
