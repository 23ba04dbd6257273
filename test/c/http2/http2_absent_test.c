/* A build without the library. */
#include "check.h"
#include "http2/session.h"

CHECK_CASE(without_the_library_there_is_no_session) {
  const ab_limits limits = ab_limits_default();
  const ab_h2_calls calls = {0};
  CHECK(ab_h2_library() == NULL);
  CHECK(ab_h2_init(&ab_mem_libc, &limits, NULL, &calls, NULL) == NULL);
  ab_h2_fini(NULL);
}

CHECK_MAIN()
