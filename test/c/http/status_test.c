/* The phrases of status codes. */
#include "http/status.h"

#include "check.h"

CHECK_CASE(phrases_are_the_registered_ones) {
  CHECK(strcmp(ab_status_phrase(200), "OK") == 0);
  CHECK(strcmp(ab_status_phrase(413), "Content Too Large") == 0);
  CHECK(strcmp(ab_status_phrase(418), "") == 0);
  CHECK(strcmp(ab_status_phrase(-1), "") == 0);
}

CHECK_MAIN()
