/* The standby: a native thread that watches the participants (lead/lead.h). When the one that leads
 * has been away for half as long as it may, in the application or waiting for the interpreter's
 * lock, the standby takes the lead and turns the engine meanwhile. It takes no requests; when the
 * time is over it calls another thread for them.
 *
 * It sends, too, what a thread that is away has put off for a moment and then forgets.
 *
 * It sleeps while none is away.
 */
#ifndef AB_LEAD_STANDBY_H
#define AB_LEAD_STANDBY_H

#include "io/poller.h"
#include "lead/lead.h"

typedef struct ab_standby ab_standby;

typedef struct ab_standby_options {
  ab_nsec stall_after;  /* the leader may be away for this time, before another is called */
  ab_nsec stall_again;  /* ... while another participant stalls as well */
  ab_nsec report_after; /* one that is away for this time is told; 0: none is */
  ab_nsec starve_after; /* one may wait for the interpreter's lock for this time; 0: for ever */
} ab_standby_options;

/* What the standby calls, in its own thread, without any lock but those that it says; none may call
 * back into it or the lead. */
typedef struct ab_standby_calls {
  /* The standby leads, and there are requests or events that only the application's side can take:
   * another participant has to claim the lead, if one stalls. Called again at each look until one
   * has. `stalled` is the number of stalled participants. */
  void (*call)(void *ctx, unsigned stalled);
  /* A participant waits for the interpreter's lock. Several times in starve_after: at first to see
   * which thread has it, then, when it has waited for long, for the lock to be passed on. */
  void (*nudge)(void *ctx, bool long_enough);
  /* The thread has been away for report_after, in this beat, whether it led or not. At each look,
   * until it returns true; the lead's lock is held. */
  bool (*report)(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec since);
  /* True when the application's side is needed for another reason. */
  bool (*wanted)(void *ctx);
} ab_standby_calls;

typedef struct ab_standby_stats {
  uint64_t stalls;   /* times that the leader was away for too long */
  uint64_t reported; /* times that one was away for report_after, and that was told */
  uint64_t nudges;
  ab_nsec longest; /* of those that were told and are over */
} ab_standby_stats;

/* Starts the thread for the participants of `lead`, whose engine is attached to `poller`. `call`,
 * `nudge` and `wanted` may be NULL, and `report` where there is no report_after. Returns NULL, with
 * errno set, when there is no memory, descriptor or thread.
 */
ab_standby *ab_standby_start(ab_lead *lead, ab_poller *poller, const ab_standby_options *options,
                             const ab_standby_calls *calls, void *ctx);
/* Ends the thread; it may still lead, and the next participant takes the lead from it as ever.
 * Participants must have no bell of it any more. */
void ab_standby_stop(ab_standby *standby);
/* The same in a forked child, where the thread does not exist. */
void ab_standby_forget(ab_standby *standby);

ab_bell *ab_standby_bell(ab_standby *standby);
/* Output was put off (ab_exchange_flush_later) that must not wait for long: if it is still there in
 * a millisecond the standby sends it, whichever thread leads. */
void ab_standby_soon(ab_standby *standby);
ab_standby_stats ab_standby_get_stats(ab_standby *standby);

#endif
