/* The standby: the watcher (lead/watcher.h) of all threads that may lead. README.md says what it
 * does about each kind of delay. A loop loses the lead after half of stall_after; the standby takes
 * no requests itself, and calls another loop for them after stall_after. */
#ifndef AB_LEAD_STANDBY_H
#define AB_LEAD_STANDBY_H

#include "io/poller.h"
#include "lead/lead.h"

typedef struct ab_standby ab_standby;

typedef struct ab_standby_options {
  ab_nsec stall_after;  /* the leader may be away for this time, before another is called */
  ab_nsec stall_again;  /* ... while another participant stalls as well */
  ab_nsec heavy_after;  /* ... while it runs what is known to be heavy; 0: as long as above */
  ab_nsec report_after; /* one that is away for this time is reported; 0: none is */
  ab_nsec sample_after; /* of one that is away for this time samples are taken; 0: of none */
  ab_nsec starve_after; /* one may wait for the interpreter's lock for this time; 0: for ever */
  ab_nsec pass_after;   /* threads pass the lead among each other: the time between looks at the one
                         * that leads. 0: loops lead, and the standby takes the lead from them */
} ab_standby_options;

/* A stall that is over. */
typedef struct ab_stall_end {
  uint64_t beat;
  ab_nsec length;   /* without the time in which it was parked */
  ab_nsec computed; /* CPU time of the thread; 0: not known */
  uint64_t waited;  /* requests that could not be taken at once meanwhile */
} ab_stall_end;

/* On the standby's thread, without the lead's lock unless noted. None may call the standby. */
typedef struct ab_standby_calls {
  /* The standby leads, and only the application's side can take what has come: another participant
   * has to claim the lead, if one stalls (`stalled` of them do). At each look until then. */
  void (*call)(void *ctx, unsigned stalled);
  /* Requests may begin that the leader has left to wait. */
  void (*opened)(void *ctx);
  /* With pass_after: the leader is away; `again`: as it was at the last look. Returns true if the
   * lead was passed on. */
  bool (*pass)(void *ctx, ab_participant *leader, bool again);
  /* A participant waits for the interpreter's lock. Several times in starve_after: at first to see
   * which thread has it, then, when it has waited for long, for the lock to be passed on. */
  void (*nudge)(void *ctx, bool long_enough);
  /* The thread has computed or blocked for report_after in this beat, whether it led or not;
   * `delays`: something lighter has waited because of it, which may be told later than the rest. At
   * each look, until it returns true; the lead's lock is held. */
  bool (*report)(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec since, bool delays);
  /* A stall that was reported, perhaps in vain, is over; the lead's lock is held. */
  void (*ended)(void *ctx, ab_participant *participant, const ab_stall_end *end);
  /* A sample of the thread is due, which is away in this beat; what counts of it began at `from`.
   * The lead's lock is held. */
  void (*sample)(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec from);
  /* True when the application's side is needed for another reason; the lead's lock is held. */
  bool (*wanted)(void *ctx);
  /* Once in each second of the clock, whatever the participants do. */
  void (*second)(void *ctx, ab_nsec now);
} ab_standby_calls;

typedef struct ab_standby_stats {
  uint64_t stalls;   /* times that a loop that led was away for too long */
  uint64_t reported; /* times that a thread was reported */
  ab_nsec longest;   /* of the times that were to be reported and are over */
} ab_standby_stats;

/* Starts the thread for the participants of `lead`, whose engine is attached to `poller`. Calls
 * that the options do not need may be NULL. Returns NULL, with errno set, on failure. */
ab_standby *ab_standby_start(ab_lead *lead, ab_poller *poller, const ab_standby_options *options,
                             const ab_standby_calls *calls, void *ctx);
/* Ends the thread; it may still lead. No participant may have its bell any more. */
void ab_standby_stop(ab_standby *standby);
/* The same in a forked child, where the thread does not exist. */
void ab_standby_forget(ab_standby *standby);

ab_bell *ab_standby_bell(ab_standby *standby);
/* Output was put off (ab_exchange_flush_later): the standby sends it if it stays for 1 ms. */
void ab_standby_soon(ab_standby *standby);
ab_standby_stats ab_standby_get_stats(ab_standby *standby);

#endif
