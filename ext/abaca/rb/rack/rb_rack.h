/* The Rack side of a server: what a request needs of it, whatever runs the request. It reaches
 * rb/run and rb/server only through the tables here. */
#ifndef AB_RB_RACK_H
#define AB_RB_RACK_H

#include <ruby.h>

#include "os/fork_page.h"
#include "base/list.h"
#include "engine/engine.h"
#include "lead/standby.h"
#include "rb/rack/rb_env.h"
#include "rb/scheduler/rb_collected.h"
#include "rb/scheduler/rb_loop.h"

struct ab_call;
struct ab_sight;
struct ab_rack;
struct ab_runner;

/* On what a request runs. */
enum ab_mode {
  AB_MODE_FIBER,
  AB_MODE_THREAD,
  AB_MODES,
  AB_MODE_HYBRID = AB_MODES /* one of these, as rb/run/rb_hybrid.c finds */
};

/* Counted with the GVL held. */
typedef struct ab_mode_counts {
  uint64_t rejected;  /* requests that were answered 503 because there was no room for them */
  uint64_t cancelled; /* requests that got an exception from us where they waited */
  uint64_t swallowed; /* ... and whose app went on and did not end by it */
  uint64_t abandoned; /* ... and that were waited for no longer */
} ab_mode_counts;

/* How requests start, wait and are interrupted, chosen once for a run: rb_native.c, rb_guest.c or
 * rb_thread_executor.c. */
typedef struct ab_executor {
  enum ab_mode mode;
  /* True when `start` would find or could make a fiber. */
  bool (*available)(const struct ab_runner *runner);
  /* Gives the taken request to a fiber; false when there is none. NULL: the runner runs it. */
  bool (*start)(struct ab_runner *runner);
  /* True when the current fiber can be parked. */
  bool (*can_wait)(const struct ab_runner *runner);
  /* As ab_call_wait. */
  void (*wait)(struct ab_call *call, enum ab_wait_kind kind);
  /* Wakes one fiber that waits for the call, or more of them. Returns false if none is left. Where
   * it calls Ruby the call may be over afterwards. */
  bool (*wake_one)(struct ab_call *call);
  /* Runs every fiber that is about to run, so that `interrupt` finds none. NULL: not needed. */
  void (*settle)(struct ab_runner *runner);
  /* Raises the exception in the call's fiber, where it waits; the call may be over afterwards.
   * Returns false, without having raised it, when that is not possible now. */
  bool (*interrupt)(struct ab_call *call, VALUE exception);
  /* Runs body(arg) beside the requests. NULL: on a fiber of the thread's scheduler, at once. */
  void (*run_beside)(struct ab_runner *runner, rb_block_call_func_t body, VALUE arg);
  /* Fibers that can be parked run within the turns of the runner, when it leads: the engine's step
   * ends soon after them. */
  bool in_turns;
} ab_executor;

#define AB_SCRATCH_SIZE 8192  /* bytes of a runner for response heads, at first */
#define AB_SCRATCH_KEEP 65536 /* ... and at most from one response to the next */

/* A Ruby thread that runs requests, as they see it. */
typedef struct ab_runner {
  struct ab_rack *rack;
  const ab_executor *executor;
  VALUE thread;
  char *scratch; /* response heads are put together here */
  size_t scratch_capacity;
  ab_participant participant;
  ab_nsec moment;         /* when it has ended a request, if nothing has run since; 0: unknown */
  ab_collected collected; /* where no loop looks at it */
  uint16_t place;         /* its number among those of the server */
  uint8_t shown_mode;     /* ... and enum ab_row_mode */
  ab_loop *loop;          /* that it is; NULL: none */
  ab_loop_line *line;     /* of its loop or thread in the page; NULL: none */
} ab_runner;

/* Called by the way of a request, for what rb/run measures and limits. None calls Ruby code. */
typedef struct ab_call_hooks {
  /* The request of a call with a route or a row begins, where no loop runs it, and is over. */
  void (*begins)(struct ab_call *call, ab_nsec now);
  void (*ends)(struct ab_call *call, ab_nsec now);
  /* What its row has run until now is charged, collections told apart. */
  void (*settle)(struct ab_call *call, ab_nsec now);
  /* The request begins to wait for its client. False: of no interest, goes_on is not called. */
  bool (*waits)(struct ab_call *call);
  void (*goes_on)(struct ab_call *call);
  /* The request is over, whose client was closed while it waited. */
  void (*left)(struct ab_call *call);
} ab_call_hooks;

typedef struct ab_rack {
  VALUE self; /* the Abaca::Engine, whose memory begins with this */
  ab_engine *engine;
  ab_poller *poller;   /* while it runs, else NULL */
  ab_runner *main;     /* of the thread that called run */
  ab_lead lead;        /* which thread turns the engine */
  ab_standby *standby; /* turns it while no runner can; NULL: there is none */
  const ab_call_hooks *hooks;
  struct ab_sight *sight;        /* what the page shows of it; NULL: nothing */
  volatile uint32_t *fork_guard; /* of the process that runs it */
  pid_t owner;
  ab_env_builder env;
  VALUE app, log;
  VALUE exchange_class, input_class, rewindable_class;
  VALUE hints_class;   /* Abaca::EarlyHints when it is offered, else Qnil */
  VALUE plain_fields;  /* an Abaca::PlainFields */
  VALUE error_answers; /* an Abaca::ErrorAnswers, or Qnil */
  VALUE access_log;    /* an Abaca::AccessLog, or Qnil */
  VALUE timing_guard;  /* an Abaca::ServerTiming; Qnil: each client may know */
  ID id_call;
  ab_list tls_infos; /* of its connections, see rb_tls_info.c */
  VALUE tls_info_class;
  ab_list calls;       /* every one there is, in the order of their beginning */
  uint64_t last_id;    /* of a call */
  ab_list spare_calls; /* memory for the next ones, see rb_call_memory.c */
  unsigned spare_count;
  ab_mode_counts counts[AB_MODES];
  ab_list cancels, attended;  /* calls of which there is news, see rb_cancel.c */
  ab_nsec cancel_retry;       /* when to look at them again; 0: there are none */
  _Atomic ab_nsec overdue;    /* the earliest of its calls; 0: none is */
  ab_list borrowed;           /* ab_borrow: strings and files that the engine still sends from */
  struct ab_borrow *released; /* guarded by the engine's lock */
  struct ab_borrow *spare;
  bool guest; /* fibers are another scheduler's */
  bool app_is_proc;
  bool cancel_on_disconnect;
  bool rewindable_input;
  bool newline_values; /* Rack 2: "a\nb" is two field lines */
  bool to_ary_closes;  /* Rack 3: Body#to_ary closes the body */
  bool logs_times;     /* the access log has times of all requests */
  bool tells_timing;   /* responses may have a Server-Timing: rb_timing.h */
  bool draining;       /* the server stops, and waits for the requests that it has */
  bool tells_end;      /* the leader has to know when the last of the calls is over */
} ab_rack;

/* Of an Abaca::Engine that is initialized. */
static inline ab_rack *ab_rack_of(VALUE engine) {
  return RTYPEDDATA_DATA(engine);
}

/* True in a process that the app forked: it must not answer for its parent. */
static inline bool ab_rack_forked(const ab_rack *rack) {
  return ab_fork_page_forked(rack->fork_guard, rack->owner);
}

/* Makes the thread that turns the engine look at it. Any thread may call it. */
static inline void ab_rack_tell_leader(const ab_rack *rack) {
  if (rack->poller) ab_poller_wakeup(rack->poller);
}

/* The same if it has left requests to wait and more may begin now. */
static inline void ab_rack_tell_opened(ab_rack *rack) {
  ab_gate *gate = &rack->lead.gate;
  if (ab_gate_has_opened(gate) && atomic_exchange(&gate->shut, 0)) ab_rack_tell_leader(rack);
}

/* [locked] True when the runner's fibers write within a turn of the engine: what they leave for the
 * end of the step is sent then. */
static inline bool ab_runner_in_turn(const ab_runner *runner) {
  return runner->executor->in_turns && ab_lead_is(&runner->rack->lead, &runner->participant);
}

/* [locked] Something was done to the engine: true when its leader is another, and has to know. Then
 * ab_rack_tell_leader is to be called, without the lock. On threads the pool does it. */
static inline bool ab_runner_must_tell(const ab_runner *runner) {
  const ab_rack *rack = runner->rack;
  if (AB_UNLIKELY(runner->executor->mode == AB_MODE_THREAD)) return false;
  return AB_UNLIKELY(!ab_lead_is(&rack->lead, &runner->participant)) &&
         ab_engine_needs_turn(rack->engine);
}

/* The head of a request has been read: the engine has it again, and the step may end. */
static inline void ab_runner_has_read(ab_runner *runner, ab_exchange *exchange,
                                      ab_head_loan *head) {
  ab_exchange_give_back(exchange, head);
  ab_participant_has_read(&runner->participant);
}

/* [locked] For an answer outside of the engine's turns: deadlines begin now. */
static inline void ab_runner_pass_time(const ab_runner *runner) {
  if (runner->executor->in_turns) return;
  ab_engine_pass_time(runner->rack->engine, ab_clock_monotonic());
}

#endif
