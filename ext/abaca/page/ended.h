/* A request that has ended, counted in its route and in the whole. What readers (tally.c) take for
 * the part without a route is the difference of both. */
#ifndef AB_PAGE_ENDED_H
#define AB_PAGE_ENDED_H

#include "page/page.h"

/* `route` is its number; a request with another one, such as AB_ROW_NO_ROUTE, has none. Wherever
 * the writer sleeps, or is killed, the whole has no request that its route lacks. One writer at a
 * time. */
static inline void ab_page_count_ended(const ab_page_parts *parts, const ab_row *row,
                                       uint32_t route, bool failed) {
  ab_page_app *app = &parts->slot->app;
  ab_seq_open(&app->seq);
  if (AB_UNLIKELY(route < parts->route_count))
    ab_page_route_add(&parts->routes[route], row, failed);
  /* Release: whoever sees what follows sees the route's counters. Partner: the fence in
   * copy_requests. */
  __atomic_thread_fence(__ATOMIC_RELEASE);
  AB_ADD(app->ended, 1);
  if (AB_UNLIKELY(failed)) AB_ADD(app->failed, 1);
  ab_row_add_sums(app->sums, row);
  ab_seq_close(&app->seq);
}

#endif
