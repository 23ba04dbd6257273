/* What env builder, response writer and server share: the server's Ruby objects, and one exchange
 * for each request that the application has. */
#ifndef AB_RB_SERVER_H
#define AB_RB_SERVER_H

#include <ruby.h>
#include <signal.h>

#include "base/fork_page.h"
#include "base/list.h"
#include "engine/engine.h"
#include "engine/ledger.h"
#include "engine/standby.h"
#include "rb/server/rb_env.h"
#include "rb/server/rb_routes.h"
#include "rb/server/rb_slow.h"
#include "rb/server/rb_stats.h"
#include "rb/scheduler/rb_loop.h"
#include "rb/pool/rb_pool.h"

/* Bodies of this length and more are sent from the Ruby string; shorter ones are copied. A copy is
 * cheaper than a slice of its own up to here. */
#define AB_BORROW_MIN 16384

/* What was cancelled gets this long to end. */
#define AB_CANCEL_GRACE (5 * AB_NSEC_PER_SEC)

struct ab_server;
struct ab_runner;
struct ab_exchange;

/* Who runs the fibers of a runner, chosen once for a run: the loop of an Abaca::Scheduler with a
 * pool (rb_native.c), or a foreign scheduler, whose guest the server is (rb_guest.c). */
typedef struct ab_host {
  enum ab_mode mode;
  /* True when `start` would find or could make a fiber. */
  bool (*available)(const struct ab_runner *runner);
  /* Gives the request in next_conn and next_request to a fiber. Returns false when there is none.
   */
  bool (*start)(struct ab_runner *runner);
  /* True when the current fiber can be parked. */
  bool (*can_wait)(const struct ab_runner *runner);
  /* As ab_exchange_wait. */
  void (*wait)(struct ab_exchange *exchange, enum ab_wait_kind kind);
  /* Wakes one who waits for the exchange, or more of them. Returns false when nobody is left, or
   * none. Where it calls Ruby the exchange may be over afterwards. */
  bool (*wake_one)(struct ab_exchange *exchange);
  /* Lets every fiber that is about to run do so, where `interrupt` has to find none. */
  void (*settle)(struct ab_runner *runner);
  /* Raises the exception in the exchange's fiber, where it waits; the exchange may be over
   * afterwards. Returns false, without having raised it, when that is not possible now. */
  bool (*interrupt)(struct ab_exchange *exchange, VALUE exception);
  /* Raises the exception in every fiber that waits and has none on its way, after those of all
   * requests have been interrupted: in what the app has started beside its requests. */
  void (*interrupt_others)(struct ab_runner *runner, VALUE exception);
  /* Fibers that can be parked run within the turns of the runner, when it leads: the engine's step
   * ends soon after them. */
  bool in_turns;
} ab_host;

extern const ab_host ab_host_native, ab_host_guest, ab_host_thread;

/* Lets a fiber of the pool that has ended a request within a dispatch go on with the next one. */
void ab_native_begin(struct ab_runner *runner);
void ab_native_end(struct ab_runner *runner);

/* Octets that a runner has for response heads at first. */
#define AB_SCRATCH_SIZE 8192
/* ... and keeps from one response to the next. */
#define AB_SCRATCH_KEEP 65536

/* A Ruby thread that runs requests, and what belongs to it alone. */
typedef struct ab_runner {
  struct ab_server *server;
  const ab_host *host;
  VALUE thread;
  ab_loop *loop; /* native only, with the pool */
  ab_pool *pool;
  const ab_request *next_request; /* handed to the fiber that is started for it */
  ab_conn *next_conn;
  ab_route next_route; /* where it is measured, else none */
  char *scratch;       /* response heads are put together here */
  size_t scratch_capacity;
  bool late;        /* requests are left to the next turn: what has begun goes first */
  bool dispatching; /* events are being consumed: a fiber that is done may take the next */
  ab_seat seat;
  /* Of the standby, which wants to know where it is: the beat, 0: it does not; and the last one
   * that it was told of. */
  _Atomic uint64_t asked, told;
  _Atomic ab_nsec asked_at, asked_since; /* when, and since when the runner was away */
} ab_runner;

/* What is done about fibers that keep their loop, and about threads that keep the GVL. */
typedef struct ab_stalls {
  ab_standby_options options;
  _Atomic bool nudge;  /* whoever has the GVL shall pass it on, until it has come to one of ours */
  _Atomic bool rotate; /* ... to the next one, whoever that is */
  VALUE holder;        /* the thread that had the GVL at the last look; it may be no more */
  ab_nsec marked_at;   /* CPU time of the process when a collection last marked */
  uint64_t collected;  /* ms of it that collections had taken until then */
  /* The loop that was excused for a collection, or NULL; the beat, and until which CPU time. */
  const ab_pulse *excused;
  uint64_t excused_beat;
  ab_nsec excused_until;
  VALUE records;  /* Array of what is to be logged */
  VALUE reporter; /* ... by being called, or nil */
  unsigned job;   /* of Ruby's postponed jobs, where they have numbers */
} ab_stalls;

/* The spare loops, see rb_spare.h. */
typedef struct ab_crew {
  ab_list spares;
  VALUE maker;          /* a Proc that runs a spare on the thread that calls it, or nil */
  VALUE threads;        /* Array */
  VALUE keeper;         /* the thread that makes them when no other is in Ruby, or nil */
  ab_bell bell;         /* ... and is woken by */
  VALUE forward;        /* an exception that home has to raise, or nil */
  unsigned most, count; /* 0: there shall be none */
  _Atomic ab_nsec made; /* when one was last wanted that has not come yet */
  _Atomic bool making;  /* it is on its way */
  _Atomic bool wanted;  /* the thread of one has to be made */
  bool ending, abandoned;
} ab_crew;

typedef struct ab_server {
  VALUE self; /* the Abaca::Engine */
  ab_engine *engine;
  ab_poller *poller;   /* while it runs, else NULL */
  ab_runner home;      /* of the thread that called run; its loop has the poller */
  ab_lead lead;        /* who turns the engine */
  ab_standby *standby; /* turns it while home cannot; NULL: nobody does */
  ab_stalls stalls;
  ab_crew crew;
  struct ab_guest *guest;        /* guest only */
  struct ab_gang *gang;          /* threads for requests; NULL: no request can need them */
  _Atomic ab_nsec gang_deadline; /* when one has waited too long for them; 0: none has */
  ab_routes streams;             /* whose bodies are not gathered */
  ab_routes routes;              /* whose requests run on threads, and whose on fibers ... */
  enum ab_mode mode;             /* ... and all others */
  ab_ledger *ledger;             /* of those that may run on either; NULL: none may */
  volatile uint32_t *fork_guard; /* of the process that runs it */
  pid_t owner;
  ab_env_builder env;
  VALUE app, log, exchange_class, input_class, rewindable_class;
  VALUE hints_class;   /* Abaca::EarlyHints when it is offered, else Qnil */
  VALUE plain_fields;  /* an Abaca::PlainFields */
  VALUE error_answers; /* an Abaca::ErrorAnswers, or Qnil */
  ID id_call;
  ab_nsec shutdown_timeout;  /* 0: wait for ever */
  ab_nsec shutdown_delay;    /* for which a server that is not ready any more goes on */
  ab_nsec idle_timeout;      /* without a request for so long it stops by itself; 0: never */
  _Atomic ab_nsec idle_look; /* when to look whether that is over; 0: never */
  ab_nsec stage_end;         /* of the stage of the shutdown; 0: none */
  ab_nsec last_words;        /* when the app is done: for what is still being sent */
  uint32_t max_fibers;       /* requests in the app at once, but for slow.fibers.aside */
  ab_slow slow;
  ab_list exchanges;       /* every one there is, in the order of their beginning */
  ab_list spare_exchanges; /* memory for the next ones, see rb_exchange_memory.c */
  unsigned spare_count;
  ab_counts counts;
  ab_histogram lag;           /* of loops that run no longer, and as a guest */
  ab_list cancels, attended;  /* exchanges of which there is news, see rb_cancel.c */
  ab_nsec cancel_retry;       /* when to look at them again; 0: there are none */
  _Atomic ab_nsec overdue;    /* the earliest of its exchanges; 0: none is */
  ab_list borrowed;           /* ab_borrow: strings and files that the engine still sends from */
  struct ab_borrow *released; /* guarded by the engine's lock */
  struct ab_borrow *spare;
  volatile sig_atomic_t stop_requested, halt_requested;
  bool cancel_on_disconnect;
  bool app_is_proc;
  bool access_log;
  bool newline_values; /* Rack 2: "a\nb" is two field lines */
  bool to_ary_closes;  /* Rack 3: Body#to_ary closes the body */
  bool rewindable_input;
  bool retired, draining, forced, given_up; /* rb_shutdown.c */
  bool condemned;                           /* rb_stray.c: what is raised ends the run */
  unsigned strays;
  ab_nsec strays_since;
  bool running;
  bool ended; /* the loop of home has come to its end by itself */
} ab_server;

/* A request that was taken from the engine. */
typedef struct ab_taken {
  ab_conn *conn;
  const ab_request *request; /* while the step lasts; NULL once the env is built */
  VALUE env;                 /* Qnil until then */
  ab_route route;
  bool head_request, http_1_0;
} ab_taken;

/* A request in the application, in memory of the server's. It belongs to the fiber or thread that
 * is in ab_server_serve for it: that one alone may keep the pointer while Ruby runs. Whoever else
 * has it got it from a handle or from a list of the server's. Any call of Ruby's may let other
 * threads run, and the request end: after it the pointer is nothing, and ab_exchange_of or
 * ab_exchange_or_null gets it from the handle again. */
typedef struct ab_exchange {
  ab_list link;        /* in server->exchanges, or in ->spare_exchanges */
  void *memory;        /* that it lies in */
  unsigned generation; /* how many requests it was before */
  ab_server *server;
  ab_runner *runner;
  ab_conn *conn;             /* NULL once the engine has it again */
  const ab_request *request; /* until the env is built */
  VALUE env, result, body;
  VALUE input;         /* the Abaca::Input that points here, or Qnil */
  VALUE rewindable;    /* the Abaca::RewindableInput around it, or Qnil */
  VALUE ahead;         /* String of what a line left over, or Qnil */
  size_t ahead_used;   /* octets of it that have been read */
  VALUE trailers;      /* Hash to be filled when the body ends, or Qnil */
  VALUE handle;        /* an Abaca::Exchange that points here, or Qnil before there is one */
  VALUE finished;      /* rack.response_finished: an Array, or Qnil */
  VALUE replied;       /* rack.after_reply: the same */
  VALUE headers;       /* of the app's response, when that is what was sent; else Qnil */
  VALUE error;         /* the first exception of the app or its body, or Qnil */
  VALUE io;            /* the socket, once it is the app's */
  VALUE fiber;         /* the request's own */
  VALUE on_gone;       /* blocks to be called when the client goes: an Array, or Qnil */
  VALUE on_shutdown;   /* blocks to be called when the server stops: the same */
  VALUE on_cancel;     /* blocks to be called when it is cancelled: the same */
  VALUE cancelled;     /* the exception that the server has raised in the fiber, or Qnil */
  ab_nsec overdue;     /* its deadline has passed: when it is waited for no longer; 0: never */
  ab_list cancel_link; /* in server->cancels or ->attended, while there is news */
  unsigned news;       /* set of enum ab_event and ab_news */
  ab_list waits;       /* of fibers that wait for an event of this exchange */
  uint8_t wait_kind;   /* enum ab_wait_kind of the last one */
  uint8_t slow;        /* enum ab_slow_state */
  ab_list slow_link;   /* in a list of server->slow, while its fiber waits for the client ... */
  ab_nsec slow_since;  /* ... since then ... */
  ab_nsec slow_moved;  /* ... which was last seen to move then */
  ab_nsec began;       /* when its head was complete */
  ab_nsec started;     /* for the access log */
  ab_nsec flushed;     /* when a piece of content was last sent */
  uint64_t body_sent;  /* octets of content */
  uint64_t body_left;  /* octets that Content-Length still promises */
  ab_route route;      /* rb_hybrid.c: what it is measured for, how, ... */
  ab_stint *stint;     /* ... and on a fiber its own */
  ab_nsec computed;    /* on a thread: for so long that had computed before */
  int status;
  int failed; /* the status that Abaca::ErrorAnswers is asked for; 0: it is not */
  bool head_request, http_1_0;
  bool input_closed;
  bool head_sent; /* or at least queued */
  bool chunked, has_length, no_content;
  bool complete;          /* the response has been queued whole */
  bool body_open;         /* body.close has to be called */
  bool yields;            /* the body's each may yield */
  bool streams;           /* a streaming body may write */
  bool closed;            /* ... and has closed its stream */
  bool hijacked;          /* the socket is the app's */
  bool overrun;           /* the body was longer than its Content-Length */
  bool abandoned;         /* the shutdown waits for it no longer */
  bool over;              /* the app has been called and its response taken */
  bool pooled;            /* it has waited for a pool of the app's: rb_hold.c */
  struct ab_borrow *file; /* opened for the response and not yet queued */
} ab_exchange;

/* rb_response.c */

/* Writes the response in exchange->result, all of it. Raises Abaca::AppError for one that breaks
 * the Rack SPEC, Abaca::PeerError when the client has gone, and whatever the body raises. */
void ab_response_write(ab_exchange *exchange);
/* Writes a response of the server's own, if no head was sent yet. Never raises. */
void ab_response_error(ab_exchange *exchange, int status);
/* Calls body.close once. Raises what it raises. */
void ab_response_close_body(ab_exchange *exchange);
/* Gives memory back that a long head has taken. */
void ab__response_shrink(ab_runner *runner);
static inline void ab_response_over(ab_runner *runner) {
  if (AB_UNLIKELY(runner->scratch_capacity > AB_SCRATCH_KEEP)) ab__response_shrink(runner);
}
/* Queues content of a response whose head was queued; waits while the client is slow. */
void ab_response_content(ab_exchange *exchange, VALUE chunk);

/* rb_exchange.c */

/* Makes the Ruby handle of an exchange, and its env, unless there is one: then what belongs to the
 * exchange is set in that. Raises NoMemoryError. */
void ab_exchange_begin(ab_exchange *exchange);
/* The exchange behind a handle. Raises IOError once the request is over, and in a forked child. */
ab_exchange *ab_exchange_of(VALUE handle);
/* The same; NULL once the request is over. */
ab_exchange *ab_exchange_or_null(VALUE handle);
/* NULL in a forked child, too, for which a request of its parent's is over. All that Ruby code
 * calls passes this, ab_exchange_check_own or ab_exchange_of. */
ab_exchange *ab_exchange_own(ab_exchange *exchange);
/* Raises IOError in a forked child. */
void ab_exchange_check_own(const ab_exchange *exchange);
/* Nobody waits for the exchange any more, and the handle's methods raise. */
void ab_exchange_forget(ab_exchange *exchange);
/* Parks the current fiber until something happens to the exchange; callers look again at what they
 * wait for. */
void ab_exchange_wait(ab_exchange *exchange, enum ab_wait_kind kind);
/* Something has happened: all who wait are woken. The exchange may be over afterwards. */
void ab_exchange_wake(ab_exchange *exchange);
/* The exception classes of lib/abaca/errors.rb. */
VALUE ab_error_class(const char *name);
void ab_init_exchange(VALUE mAbaca);

/* rb_exchange_memory.c */

/* Memory for an exchange; NULL when there is none. */
ab_exchange *ab_exchange_take(ab_server *server);
/* The exchange is over, and on no list. */
void ab_exchange_give_back(ab_server *server, ab_exchange *exchange);
void ab_exchange_free_spares(ab_server *server);
/* What an object of Ruby's has to find the exchange by, and what it finds: NULL for NULL, and for a
 * request that is over. */
void *ab_exchange_mark(const ab_exchange *exchange);
ab_exchange *ab_exchange_at(void *mark);

/* rb_cancel.c */

/* What a request may have to be told beside the engine's events. */
enum ab_news {
  AB_NEWS_CLOSING = 256, /* the server stops, and waits for it */
  AB_NEWS_SHUTDOWN = 512 /* it waits no longer */
};

/* The client has gone, or the request's deadline has passed, or the server ends: a set of enum
 * ab_event and enum ab_news. */
void ab_cancel_note(ab_exchange *exchange, unsigned events);
/* Does what follows from the news: on the fiber that turns the engine, between its steps. Raises
 * what concerns the process. */
void ab_cancel_run(ab_server *server, ab_nsec now);
/* As much of it as a turn has to do, and when the next turn has to come for it; 0: never. */
static inline bool ab_cancel_pending(const ab_server *server, ab_nsec now) {
  return server->cancel_retry || !ab_list_empty(&server->cancels) ||
         (server->overdue && now >= server->overdue);
}
/* The request is waited for no longer: it gets the server's answer, if none has begun, and its
 * connection is closed. Its fiber goes on. */
void ab_cancel_abandon(ab_exchange *exchange, int status);
/* The app is done with the request: nothing is raised in its fiber from now on. Who wanted to be
 * told that the client has gone is told now, if it has. Returns 0, or the state of an exception
 * that concerns the process, with rb_errinfo set. */
int ab__cancel_end(ab_exchange *exchange);
static inline int ab_cancel_end(ab_exchange *exchange) {
  bool nothing = ab_list_empty(&exchange->cancel_link) && NIL_P(exchange->cancelled) &&
                 NIL_P(exchange->on_gone);
  return AB_LIKELY(nothing) ? 0 : ab__cancel_end(exchange);
}
/* Exchange#request_timeout=, #extend, #on_cancel, #gone?, #on_gone and #on_shutdown. */
void ab_cancel_set_time(ab_exchange *exchange, ab_nsec time);
void ab_cancel_extend(ab_exchange *exchange, ab_nsec time);
void ab_cancel_on_cancel(ab_exchange *exchange, VALUE block);
bool ab_cancel_gone(ab_exchange *exchange);
void ab_cancel_on_gone(ab_exchange *exchange, VALUE block);
void ab_cancel_on_shutdown(ab_exchange *exchange, VALUE block);

/* rb_deadline.c */

/* Seconds as a time; those that no clock counts are very long. Raises ArgumentError for what is not
 * above zero, TypeError; `what` is for the message. */
ab_nsec ab_seconds(VALUE seconds, const char *what);
/* What env["abaca.deadline"] can do. */
void ab_init_deadline(VALUE cExchange);

/* rb_finished.c */

/* Calls what the app has put into rack.response_finished and rack.after_reply. The connection may
 * serve its next request meanwhile. Exceptions are logged. Returns 0, or the state of one that
 * concerns the process, with rb_errinfo set: then the rest was not called. */
int ab_exchange_finished(ab_exchange *exchange);

/* rb_input.c */

/* The Abaca::Input of a request with a body. */
VALUE ab_exchange_input(ab_exchange *exchange);
/* After this its methods raise. */
void ab_exchange_forget_input(ab_exchange *exchange);
void ab_init_input(VALUE mAbaca);

/* rb_server.c */

/* The server of an Abaca::Engine. Raises RuntimeError when it was not initialized. */
ab_server *ab_server_of(VALUE engine);
/* The same for what Ruby code calls. In a child that was forked while or after the server ran
 * nobody knows what its threads were doing with it: there this raises RuntimeError, and the other
 * returns NULL. */
ab_server *ab_server_own(VALUE engine);
ab_server *ab_server_own_or_null(VALUE engine);

/* True in a process that the app forked: it must not answer for its parent. */
static inline bool ab_server_forked(const ab_server *server) {
  return ab_fork_page_forked(server->fork_guard, server->owner);
}

/* An option by its name, or nil. */
VALUE ab_server_option(VALUE options, const char *name);
/* Changes the limits that a Hash, or nil, names. Raises ArgumentError, TypeError, RangeError. */
void ab_server_set_limits(ab_limits *limits, VALUE given);

void ab_init_server(VALUE mAbaca);

/* rb_run.c: adds Engine#run, #run_on_threads and #run_as_guest. */
void ab_init_run(VALUE cEngine);

/* rb_turn.c */

bool ab__server_regain_lead(ab_runner *runner);
/* True when the runner leads. Home always does, unless it is away: who stood in for it stops. */
static inline bool ab_server_leads(ab_runner *runner) {
  if (AB_LIKELY(ab_lead_held(&runner->server->lead, &runner->seat))) return true;
  return ab__server_regain_lead(runner);
}

/* Takes events of the engine until there is a request: then it stands in the runner's next_conn and
 * next_request. False also when the runner does not lead. */
bool ab_server_next(ab_runner *runner);
/* The same for a thread of the gang, which knows that it leads. */
bool ab_server_take(ab_runner *runner);

/* [locked] True when the runner's fibers write within a turn of the engine: what they leave for the
 * end of the step is sent then. */
static inline bool ab_server_in_turn(const ab_runner *runner) {
  return runner->host->in_turns && ab_lead_is(&runner->server->lead, &runner->seat);
}
/* [locked] Something was done to the engine: true when its leader is another, and has to know. Then
 * ab_server_tell_leader is to be called, without the lock. */
static inline bool ab_server_must_tell(const ab_runner *runner) {
  const ab_server *server = runner->server;
  if (AB_UNLIKELY(runner->host == &ab_host_thread)) return false; /* the gang does it, rb_gang.c */
  return AB_UNLIKELY(!ab_lead_is(&server->lead, &runner->seat)) &&
         ab_engine_needs_turn(server->engine);
}
void ab_server_tell_leader(ab_server *server);

/* A turn of the engine, with its requests; the runner leads, and stops when it does not any more.
 * Returns true when the next one should follow at once. May raise what concerns the process. */
bool ab_server_turn(ab_runner *runner, ab_nsec now);
/* What belongs to a turn beside the engine's own: what has been sent is let go, notices are logged,
 * cancelled requests get their exceptions. Raises what concerns the process. */
void ab_server_tidy(ab_runner *runner, ab_nsec now);
/* When the next turn is due; 0: when something happens. */
ab_nsec ab_server_deadline(void *server);
/* [locked] For who answers outside of the engine's turns: deadlines begin now. */
static inline void ab_server_pass_time(const ab_runner *runner) {
  if (runner->host->in_turns) return;
  ab_engine_pass_time(runner->server->engine, ab_clock_monotonic());
}

/* rb_hold.c: adds Engine#pool_load and #pool_wait. */
void ab_init_hold(VALUE cEngine);

/* rb_borrow.c */

/* Borrowed by the engine until released; keeps `object` alive, closes `fd` when it is not -1. */
typedef struct ab_borrow {
  ab_list link;
  struct ab_borrow *next;
  VALUE object;
  int fd;
} ab_borrow;

/* NULL when memory runs out. */
ab_borrow *ab_server_borrow(ab_server *server, VALUE object, int fd);
/* Gives back one that the engine did not take. */
void ab_server_return(ab_server *server, ab_borrow *borrow);
/* The engine calls this with its lock held, perhaps without the GVL: Ruby's side follows later. */
void ab_server_release(void *server, void *borrow);
/* Does what is left to do about those. */
void ab_server_take_released(ab_server *server);

/* rb_listen.c: adds Engine#add_tcp, #add_unix, #add_fd, #listeners and #close. */
void ab_init_listen(VALUE cEngine);

/* rb_requests.c: adds Engine#requests. */
void ab_init_requests(VALUE cEngine);

/* rb_routes.c */

/* What a request for the path, as it was received and without its query, runs on, and the rule that
 * says so; NULL: none does. Without the GVL too. */
enum ab_mode ab_server_mode_of(const ab_server *server, ab_view path, const ab_path_rule **rule);
/* Has requests wait for their bodies, as the options say. Raises as ab_routes_init. */
void ab_server_gather_bodies(ab_server *server, VALUE options);

/* rb_shutdown.c */

/* Does what a stop or halt asks for at this time; on the fiber that turns the engine, before its
 * turn. */
void ab_shutdown_turn(ab_runner *runner, ab_nsec now);
/* A run begins. */
void ab_shutdown_begin(ab_server *server, ab_nsec now);
/* It may have been idle for so long that it stops: the next ab_shutdown_turn sees to it. */
bool ab_shutdown_idle_due(const ab_server *server, ab_nsec now);
/* When the next stage begins; 0: not by itself. */
ab_nsec ab_shutdown_deadline(const ab_server *server);
/* What is raised in requests. */
VALUE ab_shutdown_exception(void);
/* Takes shutdown_timeout, shutdown_delay, readiness and liveness of the options. */
void ab_shutdown_init(ab_server *server, VALUE options);
/* After an exception that concerns the process has ended the run: turns the engine once more, by
 * `run_on`, which gets the server, to break off what is left as halt does. */
void ab_shutdown_hasten(ab_server *server, VALUE (*run_on)(VALUE));
/* Answers 503 to every request that is left, as the run ends without having waited for it. */
void ab_shutdown_break_off(ab_server *server);
/* Raises Shutdown in every request on a thread, where it waits. */
void ab_shutdown_interrupt_threads(ab_server *server, ab_nsec now);
/* For the loop: nothing is left to serve; and nothing is waited for any more. */
bool ab_shutdown_done(void *server);
bool ab_shutdown_given_up(void *server);
/* Adds Engine#stop and #halt. */
void ab_init_shutdown(VALUE cEngine);

/* rb_stalls.c */

/* The settings of an engine about stalls. Raises ArgumentError. */
void ab_stalls_init(ab_server *server, VALUE options);
void ab_stalls_mark(ab_stalls *stalls);
/* Has a standby see to it that threads of the gang get the GVL, where they lead themselves. Raises
 * SystemCallError. */
void ab_stalls_begin_on_threads(ab_server *server);
/* Has a standby watch the loop of home, which is about to run. Raises SystemCallError. */
void ab_stalls_begin(ab_server *server);
/* Ends it, if it was begun. In a forked child too. */
void ab_stalls_end(ab_server *server);
/* Logs what was found; on whoever leads, between turns. */
void ab_stalls_log(ab_server *server);
static inline bool ab_stalls_found(const ab_server *server) {
  return AB_UNLIKELY(RARRAY_LEN(server->stalls.records) > 0);
}
/* With the GVL: has a loop just come back from a collection, and shall have time to go on? */
bool ab_stalls_excuses(const ab_server *server);
/* Does what the standby wants done with the GVL, without a call of Ruby code: it is called in the
 * middle of somebody's. Returns true when the GVL shall be passed on. */
bool ab_stalls_attend(ab_server *server);

/* rb_job.c */

/* Has Ruby call ab_stalls_attend when it is triggered, in the thread that has the GVL, at its next
 * safe point. Raises RuntimeError when it cannot. */
void ab_job_begin(ab_server *server);
/* Without the GVL. */
void ab_job_trigger(ab_server *server);
void ab_job_end(ab_server *server);

/* rb_serve.c */

/* The request in next_conn and next_request. */
ab_taken ab_server_taken(const ab_runner *runner);
/* Builds the env of a request that has to outlive the step. Raises NoMemoryError. */
void ab_server_keep(ab_runner *runner, ab_taken *taken);
/* Calls the app for the request, on a fiber of the request's own, and answers. `exchange`, of
 * ab_exchange_take, is the caller's to look at meanwhile; it is filled in here, and given back.
 * Raises only what concerns the process, or kills. */
void ab_server_serve(ab_runner *runner, const ab_taken *taken, ab_exchange *exchange);
/* Ends a forked child, which has nobody to raise an exception to, as the exception in rb_errinfo
 * says; `state` is that of rb_protect. */
NORETURN(void ab_server_end_child(int state));
/* Calls fn and swallows what it raises. */
void ab_server_quietly(VALUE (*fn)(VALUE), VALUE arg);
/* Logs an exception of the app's with its request. Never raises. */
void ab_server_log_error(ab_exchange *exchange, VALUE exception);
/* True for what ends the process, wherever it is raised. A NoMemoryError is no such thing in the
 * app: it has asked for more than there is, and what it held is free when it has ended. */
bool ab_server_is_fatal(VALUE exception);
/* Calls fn, again and again while an exception comes out of it that is meant for nobody here
 * (rb_stray.c). All others go on. */
void ab_stray_guard(ab_server *server, VALUE (*fn)(VALUE), VALUE arg);
/* Raises an exception that ends the run, whatever it is. */
NORETURN(void ab_stray_end_run(ab_server *server, VALUE exception));
/* How its response has ended, for the engine. */
enum ab_finish ab_exchange_finish(const ab_exchange *exchange);
/* As ab_response_error, and the connection is closed. */
void ab_server_answer_last(ab_exchange *exchange, int status);
/* Answers 503 without the app. */
void ab_server_refuse(ab_runner *runner, const ab_taken *taken, enum ab_rejection why);

#endif
