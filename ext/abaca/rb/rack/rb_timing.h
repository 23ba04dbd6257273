/* What a request tells of its time while somebody still listens: to the access log, and to its
 * client in the field Server-Timing. */
#ifndef AB_RB_TIMING_H
#define AB_RB_TIMING_H

#include "page/row.h"
#include "rb/rack/rb_response.h"

/* --- for the access log --- */

/* How it has ended, or does now. */
enum ab_row_end ab__timing_end(const ab_call *call);
static inline enum ab_row_end ab_timing_end(const ab_call *call) {
  bool done = NIL_P(call->error) && (call->complete || call->hijacked);
  return AB_LIKELY(done) ? AB_ROW_END_DONE : ab__timing_end(call);
}
/* An Array for Abaca::AccessLog: how it has ended, a Symbol, or nil for a response that is
 * complete; seconds by state, a Hash; the trace that it belongs to, a String or nil. Those two are
 * nil where the page has no row of it, or the line no room for them: some formats have them only of
 * what was slow or has failed. nil: there is nothing to tell. */
VALUE ab_timing_account(ab_call *call, ab_nsec now);

/* --- for the client --- */

/* What was told with the head: the trailer has the rest. */
typedef struct ab_timing {
  uint64_t told[AB_STATE_COUNT];
  bool trailer; /* its client takes trailers */
} ab_timing;

/* Finds out whether its client gets to know, where the settings allow that to some. May run Ruby
 * code. */
void ab__timing_allow(ab_call *call);
static inline void ab_timing_allow(ab_call *call) {
  const ab_rack *rack = call->rack;
  if (AB_LIKELY(!rack->tells_timing)) return;
  if (call->row && !call->timing) ab__timing_allow(call);
}
void ab_timing_forget(ab_call *call);

/* A line of a final head: what has passed until now. */
void ab__timing_put(ab_lines *head);
static inline void ab_timing_put(ab_lines *head) {
  if (AB_UNLIKELY(head->call->timing != NULL)) ab__timing_put(head);
}
/* ... which announces a trailer, if the content leaves room for one, ... */
void ab_timing_announce(ab_lines *head);
/* ... and a line of the trailers: what has passed since then. */
void ab_timing_put_rest(ab_lines *lines);

#endif
