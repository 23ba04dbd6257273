/* What runs the requests of a server. The server embeds a run, and a run the Rack side. */
#ifndef AB_RB_RUN_H
#define AB_RB_RUN_H

#include <stdatomic.h>

#include "base/histogram.h"
#include "engine/route_stats.h"
#include "http/pattern.h"
#include "page/services.h"
#include "rb/pool/rb_pool.h"
#include "rb/rack/rb_rack.h"
#include "rb/rack/rb_serve.h"

/* --- threads that turn the engine --- */

/* A runner that turns the engine when it leads, and takes requests from it. */
typedef struct ab_driver {
  ab_runner runner;
  struct ab_run *run;
  ab_loop *loop; /* native only, with the pool */
  ab_pool *pool;
  ab_taken next;    /* a request, without its env, for the fiber that is started for it */
  bool attached;    /* its thread is known: rb_clock_events.c */
  bool late;        /* requests are left to the next turn: what has begun goes first */
  bool dispatching; /* events are being consumed: a fiber that is done may take the next */
  /* The beat in which the standby wants to know where the thread is, or 0; the last one known. What
   * belongs to a question is stored before its beat, and loaded after it: all seq_cst. Partners:
   * report, and tell. */
  _Atomic uint64_t asked, told;
  _Atomic bool asked_delays, told_delays; /* whether something lighter has waited */
  _Atomic ab_nsec asked_at, asked_since;  /* when, and since when the thread was away */
  /* How the last stall that was told has ended; `over` is its beat, or 0, and ordered as above. */
  _Atomic uint64_t over;
  _Atomic ab_nsec over_length, over_computed;
  _Atomic uint64_t over_waited;
  uint64_t number; /* of that stall */
  /* rb_stall_samples.c: the beat of which the standby wants a sample, or 0, and from when on its
   * time counts; the last one of which there is one, and when that was taken. Ordered as above. */
  _Atomic uint64_t sample;
  _Atomic ab_nsec sample_from;
  uint64_t sampled;
  ab_nsec sampled_at;
} ab_driver;

static inline ab_driver *ab_driver_of(const ab_runner *runner) {
  return AB_CONTAINER_OF(runner, ab_driver, runner);
}

static inline ab_driver *ab_driver_of_participant(const ab_participant *participant) {
  return ab_driver_of(AB_CONTAINER_OF(participant, ab_runner, participant));
}

/* --- what the files keep --- */

/* rb_routes.c */
typedef struct ab_routes {
  ab_path_rule *rules; /* the value is an enum ab_mode */
  size_t count;
} ab_routes;

/* rb_slow.c. Requests on fibers, or on threads; both lists in the order in which they have begun to
 * wait, and all of `aside` before the first of `held`. */
typedef struct ab_slow_kind {
  ab_list aside, held;
  unsigned aside_count, held_count;
  unsigned most;      /* aside at once */
  unsigned leaving;   /* whose clients were closed, and that have not ended yet */
  ab_nsec dropped_at; /* when the last one was */
} ab_slow_kind;

typedef struct ab_slow {
  ab_slow_kind fibers, threads;
  /* Each says nothing of others: looked at without Ruby's lock, and looked at again with it. */
  _Atomic bool crowded; /* there are more than can be aside */
  _Atomic ab_nsec looked;
  uint64_t closed; /* clients, so far */
} ab_slow;

/* stall_after where no loop stalls. */
#define AB_STALLS_NEVER (UINT64_MAX / 4)

/* rb_stall_samples.c: one stack of one route, and how long it has kept a loop. */
typedef struct ab_stall_sample {
  uint64_t hash;          /* of its label and frames */
  VALUE label, backtrace; /* String, Array of Strings */
  ab_nsec time;           /* beyond stall_after */
  uint64_t times;         /* samples */
} ab_stall_sample;

/* Stacks at most. */
#define AB_STALL_SAMPLES 50

typedef struct ab_stall_samples {
  ab_stall_sample list[AB_STALL_SAMPLES];
  unsigned count;
  ab_nsec rest_time; /* of stacks that had no place */
  uint64_t rest_times;
} ab_stall_samples;

/* rb_stalls.c: what is done about fibers that keep their loop, and threads that keep the GVL. */
typedef struct ab_stalls {
  ab_standby_options options;
  /* Set before the job is triggered, and taken in it, by an exchange. */
  _Atomic bool nudge; /* the thread that has the GVL is to pass it on, if it has had its slice */
  VALUE holder;       /* the thread that had the GVL at the last look; it may be no more */
  ab_nsec held_since; /* by that */
  ab_nsec marked_at;  /* CPU time of the process when a collection last marked */
  uint64_t collected; /* ms of it that collections had taken until then */
  /* The loop that was excused for a collection, or NULL; the beat, and until which CPU time. */
  const ab_pulse *excused;
  uint64_t excused_beat;
  ab_nsec excused_until;
  VALUE records;  /* Array of pending reports: [method of the reporter, *arguments] */
  VALUE reporter; /* StallReports, or nil */
  unsigned job;   /* of Ruby's postponed jobs, where they have numbers */
  uint64_t count; /* times that a request kept its loop for longer than stall_report */
  ab_nsec longest;
  ab_stall_samples kept, asked; /* since the run began, and of the profile */
  bool profiled;                /* there is one */
} ab_stalls;

/* rb_spare.c: the spare loops. */
typedef struct ab_spares {
  ab_list loops;
  VALUE maker;          /* a Proc that runs a spare on the thread that calls it, or nil */
  VALUE threads;        /* Array */
  VALUE keeper;         /* the thread that makes them when no other is in Ruby, or nil */
  ab_bell bell;         /* ... and is woken by */
  VALUE forward;        /* an exception that the main runner has to raise, or nil */
  unsigned most, count; /* 0: none */
  /* The standby stores these in this order, and `wanted` is taken by an exchange. */
  _Atomic ab_nsec made; /* when one was last wanted that has not come yet */
  _Atomic bool making;  /* it is on its way */
  _Atomic bool wanted;  /* the thread of one has to be made */
  bool ending, abandoned;
} ab_spares;

/* rb_out_of_band.c */
typedef struct ab_out_of_band {
  VALUE begin;     /* called when the hooks may begin; nil: there are none */
  uint64_t seen;   /* requests so far, when they last began */
  _Atomic bool on; /* they have begun, and not ended */
} ab_out_of_band;

/* rb_stray.c */
typedef struct ab_strays {
  bool condemned; /* what is raised ends the run */
  unsigned count;
  ab_nsec since;
} ab_strays;

/* --- the run --- */

struct ab_run;
typedef struct ab_clock_events ab_clock_events;

/* How far the end has come (rb/server/rb_shutdown.c); `draining` is the Rack side's. */
typedef struct ab_ending {
  _Atomic bool stop_requested, halt_requested; /* seq_cst; the standby looks at them as well */
  bool retired;                                /* not ready any more, says the health path */
  bool forced;                                 /* requests get an exception; none begins any more */
  bool given_up;                               /* what runs all the same is waited for no longer */
} ab_ending;

/* What the server does about its end in the turns of the leading thread. */
typedef struct ab_run_stages {
  /* Does what is due; on the fiber or thread that turns the engine, before its turn. */
  void (*turn)(struct ab_driver *driver, ab_nsec now);
  /* When the next stage begins; 0: not by itself. */
  ab_nsec (*deadline)(const struct ab_run *run);
  /* Without the GVL: the next `turn` has something to do, though nothing was requested. */
  bool (*due)(const struct ab_run *run, ab_nsec now);
  /* Each second, on one thread at a time; without the GVL. */
  void (*second)(struct ab_run *run, ab_nsec now);
  /* Nothing is left to serve. */
  bool (*done)(const struct ab_run *run);
} ab_run_stages;

typedef struct ab_run {
  ab_rack rack;
  const ab_run_stages *stages;
  ab_driver main; /* of the thread that called run; its loop has the poller */
  ab_stalls stalls;
  ab_spares spares;
  struct ab_guest *guest;           /* guest only */
  struct ab_thread_pool *threads;   /* for requests; NULL: none can need a thread */
  _Atomic ab_nsec threads_deadline; /* when one has waited too long for them; 0: none has */
  ab_clock_events *events;          /* rb_clock_events.c; NULL: nothing is told */
  ab_services services;             /* that the settings name */
  uint16_t places;                  /* how many loops and threads have run requests */
  ab_routes streams;                /* whose bodies are not buffered */
  ab_routes ignored;                /* their requests are in no histogram */
  ab_routes routes;                 /* whose requests run on threads, and whose on fibers ... */
  enum ab_mode mode;                /* ... and all others */
  bool hybrid;                      /* some may run on either */
  ab_route_stats *route_stats;      /* what requests compute; NULL: nobody asks */
  uint32_t max_fibers;              /* requests in the app at once, but for slow.fibers.aside */
  ab_slow slow;
  ab_out_of_band out_of_band;
  ab_strays strays;
  ab_ending ending;
  ab_histogram lag; /* of loops that run no longer, and as a guest */
} ab_run;

/* --- rb_run_setup.c --- */

/* Of the engine object `self`, in memory that is zero. */
void ab_run_init(ab_run *run, VALUE self);
/* Takes what Engine.new was given, beside its Rack side's options, when the engine is there. Raises
 * ArgumentError, TypeError, NoMemoryError. */
void ab_run_configure(ab_run *run, VALUE options);
void ab_run_mark(ab_run *run);
/* All but the engine, which is freed before. */
void ab_run_fini(ab_run *run);

/* --- rb_stray.c --- */

/* Calls fn, again while a stray exception comes out of it. All other exceptions go on. */
void ab_stray_guard(ab_run *run, VALUE (*fn)(VALUE), VALUE arg);
/* Raises an exception that ends the run, whatever it is. */
NORETURN(void ab_stray_end_run(ab_run *run, VALUE exception));

/* --- rb_native.c --- */

extern const ab_executor ab_executor_native;
/* Lets a fiber of the pool that has ended a request within a dispatch go on with the next one. */
void ab_native_begin(ab_driver *driver);
void ab_native_end(ab_driver *driver);

static inline ab_run *ab_run_of(const ab_rack *rack) {
  return AB_CONTAINER_OF(rack, ab_run, rack);
}

#endif
