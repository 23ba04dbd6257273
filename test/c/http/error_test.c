/* The table of errors. */
#include "check.h"

#include "http/error.h"
#include "http/status.h"

CHECK_CASE(every_error_has_a_status_a_reason_and_a_section) {
#define ENTRY(name, status, reason, rfc)                                                           \
  CHECK_INT(status, ab_http_error_status(AB_HTTP_##name));                                         \
  CHECK(strcmp(reason, ab_http_error_reason(AB_HTTP_##name)) == 0);                                \
  CHECK(*rfc != 0);                                                                                \
  CHECK((int)AB_HTTP_##name < (int)AB_ENOSPC);                                                     \
  CHECK(*ab_status_phrase(status) != 0);
  AB_HTTP_ERRORS(ENTRY)
#undef ENTRY
}

CHECK_CASE(another_number_is_a_bug_and_no_success) {
  static const int others[] = {0,       AB_AGAIN, AB_HTTP_ERROR_BASE, AB_HTTP_NO_MEMORY + 1,
                               -100000, 100000};
  for (size_t i = 0; i < AB_ARRAY_LEN(others); i++) {
    CHECK_INT(500, ab_http_error_status(others[i]));
    CHECK(ab_http_error_reason(others[i]) != NULL);
  }
}

CHECK_MAIN()
