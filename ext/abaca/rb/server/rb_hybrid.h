/* Mode :hybrid: requests of routes that keep their loop too often go to threads. What is known of
 * routes is the ledger's (engine/ledger.h); here is what is measured for it, and what is told.
 *
 * On a fiber it is the longest time for which the request has kept its loop at a stretch
 * (rb_stint.c); on a thread, where waits are nobody's loss, the time for which it has computed. To
 * wait for the GVL is no fault of the request's: where other threads of the server compute, only
 * what it computes counts on a fiber, too.
 */
#ifndef AB_RB_HYBRID_H
#define AB_RB_HYBRID_H

#include "rb/server/rb_server.h"

/* Takes hybrid_threshold and hybrid_requests of the options; without them nothing is measured. The
 * routes are set already. Raises NoMemoryError. */
void ab_hybrid_init(ab_server *server, VALUE options);

/* Finds the route of the request in next_request, which is said to be hybrid by the rule or, if
 * that is NULL, by the mode. Returns true when it shall run on a thread. */
bool ab_hybrid_takes_thread(ab_runner *runner, const ab_path_rule *rule);

/* The same of a request that has just been read and is not taken yet; it may be otherwise then. Any
 * thread may ask, without the GVL. */
bool ab_hybrid_will_take_thread(const ab_server *server, const ab_path_rule *rule, ab_view path);

/* The request of an exchange with a route begins on its fiber or thread, and is over there. Neither
 * calls Ruby code. */
void ab_hybrid_begin(ab_exchange *exchange);
void ab_hybrid_end(ab_exchange *exchange);

/* For the loop of the runner: do other threads of the server compute? */
bool ab_hybrid_contended(const ab_runner *runner);

/* Logs which routes were moved; on whoever leads, between turns. */
void ab_hybrid_log(ab_server *server);
static inline bool ab_hybrid_has_news(const ab_server *server) {
  return AB_UNLIKELY(server->ledger != NULL) && ab_ledger_has_moves(server->ledger);
}

/* For Server#stats: a Hash. */
VALUE ab_hybrid_stats(const ab_server *server);

#endif
