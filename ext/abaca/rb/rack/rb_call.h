/* A call: one request in the application. */
#ifndef AB_RB_CALL_H
#define AB_RB_CALL_H

#include "engine/route_stats.h"
#include "rb/rack/rb_rack.h"

struct ab_borrow;

/* Its wait for a slow client: rb/run/rb_slow.h. */
enum ab_slow_state {
  AB_SLOW_NOT,
  AB_SLOW_HELD,   /* it waits, and keeps its place */
  AB_SLOW_ASIDE,  /* ... and takes none */
  AB_SLOW_LEAVING /* its client was closed */
};

typedef struct ab_call_slow {
  ab_list link;  /* in a list of those that wait ... */
  ab_nsec since; /* ... since then */
  ab_nsec moved; /* when its client was last seen to move */
  uint8_t state; /* enum ab_slow_state */
} ab_call_slow;

/* What is measured of it: rb/run/rb_hybrid.c. */
typedef struct ab_call_measure {
  ab_route route;   /* for which; none: nothing is */
  ab_nsec computed; /* on a thread: what that had computed before */
} ab_call_measure;

#define AB_CALL_ALIGNMENT 64 /* leaves bits of a pointer free for a part of the generation */

/* Memory of the server's that belongs to the fiber or thread in ab_serve_request for it: that one
 * alone may keep the pointer while Ruby runs. All others have it from a handle or a list of the
 * rack's. Any call of Ruby's may let other threads run, and the request end: after it the pointer
 * is void, and ab_call_of or ab_call_or_null gets it from the handle again. */
typedef struct ab_call {
  _Alignas(AB_CALL_ALIGNMENT) ab_list link; /* in rack->calls, or in ->spare_calls */
  unsigned generation;                      /* how many requests it was before */
  ab_row *own_row; /* that it has kept from request to request; NULL: none */
  uint64_t id;     /* no other request of this server has it */
  ab_rack *rack;
  ab_runner *runner;
  ab_exchange *exchange; /* NULL once the engine has it again */
  ab_head_loan head;     /* until the env is built */
  VALUE env, result, body;
  VALUE input;         /* the Abaca::Input that points here, or Qnil */
  VALUE rewindable;    /* the Abaca::RewindableInput around it, or Qnil */
  VALUE ahead;         /* String of what a line left over, or Qnil */
  size_t ahead_used;   /* bytes of it that have been read */
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
  ab_list cancel_link; /* in rack->cancels or ->attended, while there is news */
  unsigned news;       /* set of enum ab_event and ab_news */
  ab_list waits;       /* of fibers that wait for an event of this call */
  uint8_t wait_kind;   /* enum ab_wait_kind of the last one */
  ab_call_slow slow;
  ab_call_measure measure;
  size_t env_size;    /* entries of its env when the app was called */
  ab_row *row;        /* its own, while the page shows it: rb_sight.h; NULL: it does not */
  ab_work *work;      /* on a loop, where it has a row or is measured */
  uint8_t said;       /* elsewhere: what it waits for, in the app's words; AB_STATE_COUNT: none */
  uint8_t wait_state; /* elsewhere: what it waits for now; AB_STATE_COUNT: nothing */
  struct ab_timing *timing; /* for its client: rb_timing.h; NULL: nothing is told */
  ab_nsec began;            /* when its head was complete */
  ab_nsec started;          /* for the access log */
  ab_nsec flushed;          /* when a piece of content was last sent */
  uint64_t body_sent;       /* bytes of content */
  uint64_t body_left;       /* bytes that Content-Length still promises */
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
  bool by_operator;       /* somebody has asked for its end */
  bool over;              /* the app has been called and its response taken */
  bool pooled;            /* it has waited for a pool of the app's: rb/server/rb_hold.c */
  bool counted;           /* the page's counters have it */
  bool quiet;             /* nothing of the app's is called any more */
  struct ab_borrow *file; /* opened for the response and not yet queued */
} ab_call;

/* --- rb_call.c --- */

/* Makes the Ruby handle of a call, and its env, unless there is one: then what belongs to the call
 * is set in that. Raises NoMemoryError. */
void ab_call_begin(ab_call *call);
/* The call behind a handle. Raises IOError once the request is over, and in a forked child. */
ab_call *ab_call_of(VALUE handle);
/* The same; NULL once the request is over. */
ab_call *ab_call_or_null(VALUE handle);
/* NULL in a forked child, too, for which a request of its parent's is over. All that Ruby code
 * calls passes this, ab_call_check_own or ab_call_of. */
ab_call *ab_call_own(ab_call *call);
/* Raises IOError in a forked child. */
void ab_call_check_own(const ab_call *call);
/* Nothing waits for the call any more, and the handle's methods raise. */
void ab_call_forget(ab_call *call);
/* Parks the current fiber until something happens to the call; callers then check again. */
void ab_call_wait(ab_call *call, enum ab_wait_kind kind);
/* Something has happened: every fiber that waits is woken. The call may be over afterwards. */
void ab_call_wake(ab_call *call);
/* How its response has ended, for the engine. */
enum ab_finish ab_call_finish(const ab_call *call);
/* [locked] The engine gets the exchange back. Returns as ab_runner_must_tell. */
bool ab_call_end_exchange(ab_call *call);
/* True when the client has gone, or the socket is the app's. */
bool ab_call_gone(const ab_call *call);
/* Sends at once what the socket takes of what was queued. */
void ab_call_flush(const ab_call *call);
/* Logs an exception of the app's with its request. Never raises. */
void ab_call_log_error(const ab_rack *rack, VALUE exception, VALUE env);
/* Defines the class of handles, without its methods. */
VALUE ab_init_call(VALUE mAbaca);

/* --- rb_call_memory.c --- */

/* Memory for a call; NULL when there is none. */
ab_call *ab_call_take(ab_rack *rack);
/* The call is over, and on no list. */
void ab_call_give_back(ab_rack *rack, ab_call *call);
void ab_call_free_spares(ab_rack *rack);
/* What an object of Ruby's has to find the call by, and what it finds: NULL for NULL, and for a
 * request that is over. */
void *ab_call_mark(const ab_call *call);
ab_call *ab_call_at(void *mark);

/* --- rb_handle.c: Abaca::Exchange --- */
void ab_init_handle(VALUE mAbaca);

/* --- rb_input.c: Abaca::Input --- */

/* The rack.input of a request with a body. Raises NoMemoryError. */
VALUE ab_input_make(ab_call *call);
void ab_init_input(VALUE mAbaca);

/* --- rb_finished.c --- */

/* Calls what the app has put into rack.response_finished and rack.after_reply; logs exceptions.
 * Returns 0, or the state of one that concerns the process, with rb_errinfo set: the rest is not
 * called. */
int ab_finished_run(ab_call *call);

#endif
