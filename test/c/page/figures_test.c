/* What an engine counts: faults by status. */
#include "check.h"
#include "http/error.h"
#include "page/page.h"

CHECK_CASE(each_status_of_an_error_is_counted_by_itself) {
  static const int given[] = {
#define STATUS_OF(name, status, reason, rfc) status,
      AB_HTTP_ERRORS(STATUS_OF)
#undef STATUS_OF
          421,
      0};
  ab_figures figures = {0};
  for (size_t i = 0; i < AB_ARRAY_LEN(given); i++) {
    ab_figures before = figures;
    ab_figures_fault(&figures, given[i]);
    CHECK_INT(before.errors + 1, figures.errors);
    for (unsigned j = 0; j < AB_FAULT_COUNT; j++) {
      bool same = ab_fault_status((enum ab_fault)j) == given[i];
      CHECK_INT(before.faults[j] + same, figures.faults[j]);
    }
  }
  CHECK_INT(1, figures.faults[AB_FAULT_421]);
  CHECK_INT(1, figures.faults[AB_FAULT_OTHER]);
}

/* Whatever else an engine may say one day. */
CHECK_CASE(a_status_that_is_none_of_them_is_another) {
  ab_figures figures = {0}, sum = {0};
  ab_figures_fault(&figures, 418);
  CHECK_INT(1, figures.faults[AB_FAULT_OTHER]);
  ab_figures_add(&sum, &figures);
  ab_figures_add(&sum, &figures);
  CHECK_INT(2, sum.faults[AB_FAULT_OTHER]);
  ab_figures_since(&sum, &figures);
  CHECK_INT(1, ab_figures_load(&sum).faults[AB_FAULT_OTHER]);
}

/* The words of a copy may be of different moments. */
CHECK_CASE(what_waits_for_a_thread_waits) {
  ab_figures figures = {.in_app = 7, .waiting = 2, .for_thread = 3};
  ab_figures_put_back(&figures);
  CHECK_INT(4, figures.in_app);
  CHECK_INT(5, figures.waiting);
  figures = (ab_figures){.in_app = 1, .for_thread = 3};
  ab_figures_put_back(&figures);
  CHECK_INT(0, figures.in_app);
  CHECK_INT(1, figures.waiting);
}

CHECK_MAIN()
