/* A build without OpenSSL. */
#include "check.h"
#include "tls/context.h"
#include "tls/session.h"

CHECK_CASE(without_the_library_there_is_no_context) {
  ab_tls_options options = {0};
  ab_tls_problem problem;
  CHECK(!ab_tls_library());
  CHECK(!ab_tls_context_new(&ab_mem_libc, &options, 0, &problem));
  CHECK(strstr(problem.text, "OpenSSL") != NULL);
  CHECK(!ab_tls_context_hold(NULL));
  ab_tls_context_release(NULL);
  ab_tls_fini(NULL);
}

CHECK_MAIN()
