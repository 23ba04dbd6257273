/* The loop of one Ruby thread: it runs fibers that are ready, waits in the poller, and lets a
 * client (the HTTP engine) take part. It lives on the thread's root fiber; everything else runs on
 * non-blocking fibers and comes back by rb_fiber_transfer.
 *
 * Every function here needs the GVL and, unless it says otherwise, the loop's own thread.
 */
#ifndef AB_RB_LOOP_H
#define AB_RB_LOOP_H

#include <ruby.h>

#include "base/histogram.h"
#include "base/list.h"
#include "io/poller.h"
#include "io/pulse.h"
#include "io/timer.h"

typedef struct ab_loop ab_loop;

/* What a waiter came out of ab_loop_park with. */
enum ab_wake {
  AB_WAKE_PENDING = 0, /* still parked */
  AB_WAKE_READY,       /* ab_loop_wake was called */
  AB_WAKE_TIMEOUT      /* its deadline passed */
};

/* One parked fiber; lives on that fiber's C stack. */
typedef struct ab_waiter {
  ab_list link;       /* in the ready queue, or in the list of parked fibers */
  ab_heap_node timer; /* armed when the wait has a deadline */
  VALUE fiber;
  VALUE exception; /* Qnil, or what ab_loop_park shall raise */
  uint64_t result; /* for whoever wakes: events, a count, ... */
  uint8_t wake;    /* enum ab_wake */
  uint8_t kind;    /* enum ab_wait_kind */
  VALUE object;    /* what it waits for, for introspection; marked */
  /* AB_WAIT_IO, for introspection: one descriptor and AB_POLL_*; no events: see `object`. */
  int fd;
  uint32_t events;
  /* ab_loop_park's own. */
  VALUE carrier; /* the fiber that resumed `fiber`, directly or not; `fiber` itself when none did */
  ab_nsec since; /* the turn in which it parked */
  bool dispatched; /* the loop gave it control, nobody else did */
  uint32_t stint_serial;
  struct ab_stint *stint; /* goes on when the wait is over; NULL: nobody measures */
} ab_waiter;

/* A piece of work that is measured while it runs on fibers of a loop: for how long it keeps that
 * at a stretch. What it waits does not count, nor do fibers that it schedules, nor the time that
 * other threads take; where these compete, as the client says, only what it computes counts. */
typedef struct ab_stint {
  ab_nsec since;    /* the stretch that it is in, if it runs */
  ab_nsec computed; /* by its thread until then, if that counts */
  ab_nsec longest;  /* of those that are over */
  uint32_t serial;  /* of the work */
  struct ab_stint *next, *next_idle;
} ab_stint;

/* What a fiber waits for, for Scheduler#fibers and messages. */
enum ab_wait_kind {
  AB_WAIT_BLOCK,
  AB_WAIT_SLEEP,
  AB_WAIT_IO,
  AB_WAIT_PROCESS,
  AB_WAIT_DNS,
  AB_WAIT_OFFLOAD,
  AB_WAIT_REQUIRE, /* a file that somebody else loads; see rb_shield.c */
  AB_WAIT_REQUEST_BODY,
  AB_WAIT_RESPONSE_DRAIN
};

/* A participant in the loop's turns. */
typedef struct ab_loop_client {
  /* Called on the root fiber once a turn, after the poller's events were delivered. It may run
   * fibers. Returns true when it has more to do at once, so that the loop must not block. */
  bool (*turn)(void *ctx, ab_nsec now);
  /* The time of the client's next timer; 0 for none. */
  ab_nsec (*deadline)(void *ctx);
  /* True when the client no longer keeps the loop running. */
  bool (*done)(void *ctx);
  /* True when the loop shall end although fibers are left. */
  bool (*given_up)(void *ctx);
  /* Called when the loop has waited without the GVL, before it dispatches; may be NULL. */
  void (*woken)(void *ctx);
  /* True while other threads may compute, in whose turn the loop's own has to wait; may be NULL. */
  bool (*contended)(void *ctx);
  /* True while other threads work for the client, to whom the loop gives way; may be NULL. */
  bool (*shares)(void *ctx);
} ab_loop_client;

/* The loop of an Abaca::Scheduler; raises TypeError for anything else, and what the scheduler's
 * rules say when it is closed or was made before a fork. */
ab_loop *ab_loop_of(VALUE scheduler);
ab_poller *ab_loop_poller(ab_loop *loop);
/* For how long the loop did not heed what had come, each time: from one look at the poller to the
 * next, and from the end of a wait until the thread had the GVL. What has become ready in such a
 * span was late by that at most. */
const ab_histogram *ab_loop_lag(const ab_loop *loop);

/* At most one client. ctx is borrowed until detach. */
void ab_loop_attach(ab_loop *loop, const ab_loop_client *client, void *ctx);
void ab_loop_detach(ab_loop *loop);

/* True when no fiber of the loop waits or is ready. With the GVL any thread may ask. */
bool ab_loop_idle(const ab_loop *loop);

/* To be asked before the client's turn begins one more piece of work (a request). What has begun
 * already goes first: while fibers of the loop wait, a turn begins new work for a millisecond at
 * most, and where more of them are ready than could be run before it, for a small part of that; at
 * least one piece always. False: not before the next turn. */
bool ab_loop_may_begin(ab_loop *loop);

/* Has the loop say whether it is there or away, in a fiber or waiting for the GVL. Borrowed; NULL:
 * no more. Whoever stands in for the loop meanwhile gives the poller back in the client's turn and
 * when it is `woken`. */
void ab_loop_set_pulse(ab_loop *loop, ab_pulse *pulse);

/* Measures what the current fiber does until ab_loop_end_stint, which returns the longest stretch.
 * NULL without memory. */
ab_stint *ab_loop_begin_stint(ab_loop *loop);
ab_nsec ab_loop_end_stint(ab_loop *loop, ab_stint *stint);
/* For how long the calling thread has computed; UINT64_MAX when nobody knows. */
ab_nsec ab_clock_of_thread(void);
/* For so long it was not the current fiber that kept the loop: its thread had to wait. */
void ab_loop_excuse(ab_loop *loop, ab_nsec time);

/* Runs until nothing is parked, ready or pending and the client is done. Root fiber only. An
 * exception of a trap handler, of Thread#raise, or one that a fiber's end forwards (SystemExit,
 * Interrupt, NoMemoryError) is raised out of it; it may be called again. */
void ab_loop_run(ab_loop *loop);

/* Parks the current fiber until ab_loop_wake, `deadline` (0: none) or an exception. The waiter is
 * zeroed except for kind and object by the caller; it is off every list when this returns or
 * raises. Returns the enum ab_wake. Never call it on the root fiber. */
int ab_loop_park(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline);

/* Queues the parked waiter's fiber; a waiter that is not parked is left alone. From another thread
 * with the GVL it is allowed, and ends a blocking wait. Never raises, never switches. */
void ab_loop_wake(ab_loop *loop, ab_waiter *waiter);

/* Queues any live fiber that is not parked, for instance one that a sibling's Fiber#raise left
 * behind. */
void ab_loop_ready(ab_loop *loop, VALUE fiber);

/* Runs a fiber from the root fiber, or from any other, until it parks or ends. */
void ab_loop_transfer(ab_loop *loop, VALUE fiber);
/* Other work begins on the fiber: wake-ups that have come since the former was over are forgotten.
 */
void ab_loop_renew(ab_loop *loop, VALUE fiber);
/* The fiber's work is over: what was raised in it where nothing may be (rb_shield.c) is meant for
 * nobody any more. Returns true when it was killed, and ends when it is switched to. */
bool ab_loop_forgive(ab_loop *loop, VALUE fiber);
/* Its Abaca::Scheduler. */
VALUE ab_loop_scheduler(const ab_loop *loop);
/* The fiber that ab_loop_run runs on. */
VALUE ab_loop_root(const ab_loop *loop);

/* Defines Abaca::Scheduler. */
void ab_init_scheduler(VALUE mAbaca);

#endif
