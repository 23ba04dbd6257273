/* Cancellation of requests whose client has gone, whose time is over, or that an operator ends. */
#ifndef AB_RB_CANCEL_H
#define AB_RB_CANCEL_H

#include "rb/rack/rb_call.h"

/* What was cancelled gets this long to end. */
#define AB_CANCEL_GRACE (5 * AB_NSEC_PER_SEC)

/* What a request may have to be told beside the engine's events. */
enum ab_news {
  AB_NEWS_CLOSING = 256,  /* the server stops, and waits for it */
  AB_NEWS_SHUTDOWN = 512, /* it waits no longer */
  AB_NEWS_OPERATOR = 1024 /* somebody has asked for its end */
};

/* Notes news, a set of enum ab_event and enum ab_news, for ab_cancel_run. */
void ab_cancel_note(ab_call *call, unsigned events);
/* Does what follows from the news: on the fiber that turns the engine, between its steps. Raises
 * what concerns the process. */
void ab_cancel_run(ab_rack *rack, ab_nsec now);
/* True when ab_cancel_run is to be called at `now`. */
static inline bool ab_cancel_pending(const ab_rack *rack, ab_nsec now) {
  return rack->cancel_retry || !ab_list_empty(&rack->cancels) ||
         (rack->overdue && now >= rack->overdue);
}
/* The request is waited for no longer: it gets the server's answer, if none has begun, and its
 * connection is closed. Its fiber goes on. */
void ab_cancel_abandon(ab_call *call, int status);
/* True when ab_cancel_end has nothing to do. */
static inline bool ab_cancel_has_nothing(const ab_call *call) {
  return ab_list_empty(&call->cancel_link) && NIL_P(call->cancelled) && NIL_P(call->on_gone);
}
/* The app is done with the request: nothing is raised in its fiber from now on, and on_gone's
 * blocks are called if the client has gone. Returns 0, or the state of an exception that concerns
 * the process, with rb_errinfo set. */
int ab__cancel_end(ab_call *call);
static inline int ab_cancel_end(ab_call *call) {
  return AB_LIKELY(ab_cancel_has_nothing(call)) ? 0 : ab__cancel_end(call);
}
/* What is raised in requests when the server waits for them no longer. */
VALUE ab_cancel_shutdown(void);

#endif
