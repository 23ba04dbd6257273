/* The loop of one Ruby thread: runs fibers that are ready, waits in the poller, and lets a client
 * (the HTTP engine) take part. It lives on the root fiber; all else runs on non-blocking fibers and
 * comes back by rb_fiber_transfer.
 * Functions need the GVL and, unless they say otherwise, the loop's own thread. */
#ifndef AB_RB_LOOP_H
#define AB_RB_LOOP_H

#include <ruby.h>

#include "base/histogram.h"
#include "base/list.h"
#include "io/poller.h"
#include "lead/pulse.h"
#include "io/timer.h"
#include "page/loops.h"
#include "page/series.h"
#include "page/services.h"

typedef struct ab_loop ab_loop;

/* How a waiter came out of ab_loop_park. */
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
  uint64_t result; /* for the code that wakes it: events, a count, ... */
  uint8_t wake;    /* enum ab_wake */
  uint8_t kind;    /* enum ab_wait_kind */
  VALUE object;    /* what it waits for, for introspection; marked */
  /* AB_WAIT_IO, AB_WAIT_FILE, for introspection: one descriptor and AB_POLL_*; no events: see
   * `object`. */
  int fd;
  uint32_t events;
  /* ab_loop_park's own. */
  VALUE carrier;   /* the fiber that resumed `fiber`, directly or not; else `fiber` itself */
  ab_nsec since;   /* the turn in which it parked */
  bool dispatched; /* the loop, and nothing else, gave it control */
  uint32_t work_serial;
  struct ab_fd_state *descriptor; /* AB_WAIT_IO: the one; NULL: several */
  struct ab_work *work;           /* goes on when the wait is over; NULL: it is no work's */
} ab_waiter;

/* What a loop runs for a request. Its waits are states of its row; the fibers that it schedules are
 * not told apart. How long it keeps its loop at a stretch may be measured: waits do not count, nor
 * the time of other threads: where these compete, only computing time counts. */
/* How long measured work has kept its loop: at a stretch, and in all. */
typedef struct ab_work_times {
  ab_nsec longest, total;
} ab_work_times;

typedef struct ab_work {
  ab_row *row;      /* which shows what it does; NULL: none does */
  uint64_t ran;     /* nanoseconds, by its row, before the current stretch */
  ab_nsec since;    /* the current stretch, if it runs and is measured */
  ab_nsec computed; /* computed by its thread until then, if that counts */
  ab_nsec longest;  /* the longest of the finished ones */
  ab_nsec total;    /* all of them */
  uint32_t serial;  /* of the work */
  uint8_t said;     /* what its waits are for, in the app's words; AB_STATE_COUNT: it has none */
  bool measured;
  struct ab_work *next, *next_idle;
} ab_work;

/* What a fiber waits for, for Scheduler#fibers and messages. */
enum ab_wait_kind {
  AB_WAIT_BLOCK,
  AB_WAIT_SLEEP,
  AB_WAIT_IO,
  AB_WAIT_FILE, /* for a thread that reads or writes it */
  AB_WAIT_PROCESS,
  AB_WAIT_DNS,
  AB_WAIT_OPERATION,
  AB_WAIT_REQUIRE, /* a file that another fiber or thread loads; see rb_uninterrupted.c */
  AB_WAIT_REQUEST_BODY,
  AB_WAIT_RESPONSE_DRAIN,
  AB_WAIT_STREAM /* until the app, elsewhere, has closed the response */
};

/* The state of a request that waits so, as far as the kind tells. */
enum ab_state ab_state_of_wait(enum ab_wait_kind kind);

/* A participant in the loop's turns. */
typedef struct ab_loop_client {
  /* Once a turn, on the root fiber, after the poller's events. May run fibers. True if it has
   * more to do at once: the loop must not block. */
  bool (*turn)(void *ctx, ab_nsec now);
  /* The time of the client's next timer; 0 for none. */
  ab_nsec (*deadline)(void *ctx);
  /* True if the client no longer keeps the loop running. */
  bool (*done)(void *ctx);
  /* True if the loop must end although fibers are left. */
  bool (*given_up)(void *ctx);
  /* Called before the loop waits without the GVL; may be NULL. */
  void (*rests)(void *ctx);
  /* Called when the loop has waited without the GVL, before it dispatches; may be NULL. */
  void (*woken)(void *ctx);
  /* True while other threads may compute and make the loop's thread wait; may be NULL. */
  bool (*contended)(void *ctx);
  /* For how long others have had the processor since the loop last looked for events; may be NULL.
   */
  ab_nsec (*lost)(void *ctx);
  /* True while other threads work for the client, to which the loop gives way; may be NULL. */
  bool (*shares)(void *ctx);
} ab_loop_client;

/* The loop of an Abaca::Scheduler; raises TypeError, and RuntimeError if closed or a parent's. */
ab_loop *ab_loop_of(VALUE scheduler);
ab_poller *ab_loop_poller(ab_loop *loop);
/* The times in which the loop did not look for events: between two looks at the poller, and from
 * the end of a wait until the thread had the GVL. */
const ab_histogram *ab_loop_lag(const ab_loop *loop);

/* At most one client. ctx is borrowed until detach. */
void ab_loop_attach(ab_loop *loop, const ab_loop_client *client, void *ctx);
void ab_loop_detach(ab_loop *loop);

/* True if no fiber of the loop waits or is ready. Any thread with the GVL may ask. */
bool ab_loop_idle(const ab_loop *loop);

/* May the client's turn begin another piece of work? Work that has begun goes first: while
 * fibers wait, a turn begins new work for a millisecond, for less if more are ready than could
 * run; always at least one piece. False: not before the next turn. */
bool ab_loop_may_begin(ab_loop *loop);

/* Makes the loop report whether it is there or away, in a fiber or waiting for the GVL. Borrowed;
 * NULL: stop. A stand-in gives the poller back in the client's turn and when it is `woken`. */
void ab_loop_set_pulse(ab_loop *loop, ab_pulse *pulse);

/* What the current fiber does from `now` on is work, until its end: which shows in the row, unless
 * that is NULL, and is measured or not. NULL: no memory. The second function returns the longest
 * stretch. */
ab_work *ab_loop_begin_work(ab_loop *loop, ab_row *row, bool measured, ab_nsec now);
ab_work_times ab_loop_end_work(ab_loop *loop, ab_work *work, ab_nsec now);
/* What its row has run until now is charged, if it runs. */
void ab_loop_settle_work(ab_loop *loop, ab_work *work, ab_nsec now);
/* The work that runs now, or NULL. */
ab_work *ab_loop_work(const ab_loop *loop);
/* What a loop has for the rows of its work; all of it lent. */
typedef struct ab_loop_sight {
  const ab_services *services; /* what the settings name at the other ends of descriptors */
  void (*waited)(void *ctx, enum ab_state state, ab_nsec time); /* a wait of work has ended */
  void (*stalled)(void *ctx, ab_nsec time); /* the loop has made no turn for stall_after */
  ab_nsec stall_after;                      /* 0: never */
  ab_loop_line *line;                       /* of the loop; NULL: none */
  const ab_row *rows;                       /* of the area that its rows are in */
  ab_series *lag, *gvl;                     /* NULL: not counted */
  void *ctx;
} ab_loop_sight;

/* NULL: nothing shows its work any more. */
void ab_loop_set_sight(ab_loop *loop, const ab_loop_sight *sight);
/* For this long the current fiber did not keep the loop: its thread had to wait. */
void ab_loop_excuse(ab_loop *loop, ab_nsec time);

/* Runs until nothing is parked, ready or pending and the client is done, on the root fiber.
 * Raises what a trap handler or Thread#raise raises, and SystemExit, Interrupt and NoMemoryError
 * of a fiber; may be called again. */
void ab_loop_run(ab_loop *loop);

/* Parks the current fiber, never the root fiber, until ab_loop_wake, `deadline` (0: none) or an
 * exception. The caller zeroes the waiter except for kind and object. Returns the enum ab_wake. */
int ab_loop_park(ab_loop *loop, ab_waiter *waiter, ab_nsec deadline);

/* Queues the parked waiter's fiber; others are left alone. Another thread with the GVL may call
 * it, which ends a blocking wait. Never raises, never switches. */
void ab_loop_wake(ab_loop *loop, ab_waiter *waiter);

/* Queues a live fiber that is not parked, such as one that Fiber#raise left behind. */
void ab_loop_ready(ab_loop *loop, VALUE fiber);

/* Runs a fiber from the root fiber, or from any other, until it parks or ends. */
void ab_loop_transfer(ab_loop *loop, VALUE fiber);
/* Another job begins on the fiber: wake-ups since the end of the last are forgotten. */
void ab_loop_renew(ab_loop *loop, VALUE fiber);
/* Drops exceptions held back in a job that is over. True if the fiber was killed, and will end. */
bool ab_loop_forgive(ab_loop *loop, VALUE fiber);
VALUE ab_loop_scheduler(const ab_loop *loop);
/* The fiber that waits for this one: itself, or one that it has resumed; nil: none. */
VALUE ab_loop_waiting(const ab_loop *loop, VALUE fiber);

/* Defines Abaca::Scheduler. */
void ab_init_scheduler(VALUE mAbaca);

#endif
