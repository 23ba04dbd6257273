/* Abaca::Engine: the object, which has all that belongs to one server. */
#ifndef AB_RB_SERVER_H
#define AB_RB_SERVER_H

#include "page/page.h"
#include "rb/run/rb_run.h"

/* rb_shutdown.c */
typedef struct ab_shutdown {
  ab_nsec timeout;           /* 0: wait for ever */
  ab_nsec delay;             /* for which a server that is not ready any more goes on */
  ab_nsec idle_timeout;      /* without a request for that time it stops by itself; 0: never */
  _Atomic ab_nsec idle_look; /* when to look whether that is over; 0: never */
  bool handed_over;          /* another process continues with the listeners */
  ab_nsec stage_end;         /* of the stage of the shutdown; 0: none */
  ab_nsec last_words;        /* when the app is done: for what is still being sent */
} ab_shutdown;

/* What a process has collected so far, as Ruby counts it. */
typedef struct ab_collections {
  size_t time; /* milliseconds */
  size_t minor, major;
  bool looked;
} ab_collections;

/* rb_server_history.c: what is compared with the next second */
typedef struct ab_second {
  ab_history history;                 /* the standby's thread has it, while there is one */
  uint64_t rejected[AB_REJECT_COUNT]; /* the same one's */
  ab_collections collections;
} ab_second;

typedef struct ab_server {
  ab_run run; /* first, and in it the Rack side: see ab_rack_of */
  ab_shutdown shutdown;
  VALUE slot;              /* Abaca::Page::Slot, or nil */
  ab_page *page;           /* the slot's, held since the run began; or NULL */
  ab_page_slot *part;      /* the slot, while the server runs; or NULL */
  ab_nsec slow_after;      /* requests that take longer are kept there; 0: none is */
  uint32_t metrics_routes; /* that are told apart there */
  bool balances;           /* connections move to and from the workers of the page's other slots */
  ab_second second;
  ab_nsec asked; /* when the engine was last asked to turn, for a heartbeat */
  bool running;
  bool ended; /* the main loop has come to its end by itself */
} ab_server;

/* The server of an Abaca::Engine. Raises RuntimeError when it was not initialized. */
ab_server *ab_server_of(VALUE engine);
/* The same for Ruby code. In a child forked while or after the server ran, its state is unknown:
 * there this raises RuntimeError, and the other returns NULL. */
ab_server *ab_server_own(VALUE engine);
ab_server *ab_server_own_or_null(VALUE engine);

/* Changes the limits that a Hash, or nil, names. Raises ArgumentError, TypeError, RangeError. */
void ab_server_set_limits(ab_limits *limits, VALUE given);

/* --- rb_server_slot.c: the server in the page that processes share --- */

/* Raises TypeError. */
void ab_server_set_slot(ab_server *server, VALUE slot, bool balances);
/* Raises Abaca::Error unless this process has claimed the slot, for no other server. */
void ab_server_check_slot(const ab_server *server);
/* From the beginning of the run to its end the engine counts there. */
void ab_server_enter_slot(ab_server *server);
void ab_server_leave_slot(ab_server *server);
/* --- rb_server_sight.c: its requests there --- */

/* Takes slow_after, metrics_routes, metrics_ignore and services. Raises ArgumentError, TypeError,
 * NoMemoryError. */
void ab_server_configure_sight(ab_server *server, VALUE options);
void ab_server_open_sight(ab_server *server);
void ab_server_close_sight(ab_server *server);

/* --- rb_server_history.c: what it does in each second --- */

void ab_server_begin_history(ab_server *server);
/* Without the GVL, on one thread at a time. */
void ab_server_second(ab_run *run, ab_nsec now);
/* With the GVL, each second while it has a slot. */
void ab_server_look_at_process(ab_server *server, uint32_t offloads, ab_nsec now);

/* The slot's state from now on. */
void ab_server_say(ab_server *server, enum ab_page_state state);

/* Defines Abaca::Engine; the others add the methods of their files to it. */
VALUE ab_init_server(VALUE mAbaca);
void ab_init_control(VALUE cEngine);
void ab_init_hold(VALUE cEngine);
void ab_init_life(VALUE cEngine);
void ab_init_listen(VALUE mAbaca, VALUE cEngine);
void ab_init_orphans(VALUE cEngine);
void ab_init_requests(VALUE cEngine);
void ab_init_samples(VALUE mAbaca, VALUE cEngine);
void ab_init_server_slot(VALUE cEngine);
void ab_init_shutdown(VALUE cEngine);
void ab_init_signals(VALUE cEngine);
void ab_init_stats(VALUE cEngine);

#endif
