/* A connection: what joins socket, protocol and outbox. Internal to engine/.
 *
 *        +-------------- keep-alive ---------------------------+
 *        |                                                     |
 *        v                                                     |
 *   --> HEAD --> (GATHER) --> QUEUED --> APP --> (SKIP) -------+--> CLOSING --> LINGER --> DEAD
 *        |          |            |        |                       ^  |                       ^
 *        +----------+-- error ---|--------|-----------------------+  |                       |
 *                   |            |        +------ late, broken ------+                       |
 *                   +------------+---------------- peer gone --------------------------------+
 *
 * HEAD     waits for a request, or for the rest of its head; before the first one perhaps for a
 *          PROXY header
 * GATHER   has a request whose body is gathered before it may be taken, see gather.c
 * QUEUED   has a request that waits to be taken
 * APP      the application has the request, and reads what is not here of its body from the socket
 *          as it comes
 * SKIP     the response is given, and the little that is left of the body is thrown away
 * CLOSING  the last response is being sent
 * LINGER   all is sent and said; what the peer still sends is thrown away, so that the reset for
 *          unread octets cannot destroy the response on its way (RFC 9112 9.6)
 * DEAD     the socket is closed; the structure waits for the application or the end of the turn,
 * and is freed
 */
#ifndef AB_ENGINE_CONN_H
#define AB_ENGINE_CONN_H

#include <stdatomic.h>

#include "base/list.h"
#include "engine/arena.h"
#include "engine/engine.h"
#include "io/offload.h"
#include "io/timer.h"

enum ab_conn_state {
  AB_CONN_FREE,
  AB_CONN_HEAD,
  AB_CONN_GATHER,
  AB_CONN_QUEUED,
  AB_CONN_APP,
  AB_CONN_SKIP,
  AB_CONN_CLOSING,
  AB_CONN_LINGER,
  AB_CONN_DEAD
};

typedef struct ab_stall ab_stall;
typedef struct ab_load ab_load;

/* What is asked about the file that is sent next (io/storage.h); tests have calls of their own. */
typedef struct ab_storage_calls {
  bool (*is_warm)(int fd, uint64_t offset, size_t len);
  void (*warm)(int fd, uint64_t offset, size_t len); /* on another thread */
} ab_storage_calls;
extern const ab_storage_calls ab__storage_calls;

/* A listener, and what holds for the connections that it accepts. */
typedef struct ab_service {
  ab_watch watch;
  ab_engine *engine;
  ab_listener *listener;
  struct ab_service *next;
  ab_net *proxies;         /* whose connections begin with a PROXY header */
  size_t proxy_count;      /* 0: everybody's */
  uint32_t budget;         /* connections that it may still accept in this turn */
  unsigned proxy_versions; /* set of enum ab_proxy_accept; 0: no PROXY header */
  ab_limits limits;
} ab_service;

/* Kept small: an idle connection is this structure and its entry in the poller's table. */
struct ab_conn {
  ab_watch watch;
  ab_list ready_link; /* in engine->ready, ->batch, ->dead or engine->free */
  ab_list event_link; /* in engine->requests or engine->events, or that of a pool (hold.h) */
  ab_wheel_node timer;
  ab_nsec deadline;         /* the true one; the timer may come earlier. 0: none */
  ab_nsec request_deadline; /* of request_timeout, or queue_timeout. 0: none, or it has passed */
  ab_nsec arrived;          /* when its request was complete, so that it could be taken */
  ab_engine *engine;
  ab_service *service;
  void *app;
  ab_outbox *out;            /* NULL while nothing is pending */
  ab_stall *stall;           /* NULL while the peer takes all at once */
  ab_load *load;             /* NULL unless its next octets are those of a file on a disk */
  char *in;                  /* input not yet used, in the arena or in `own` */
  char *own;                 /* memory of the connection's own, or NULL */
  const ab_request *request; /* parsed and not taken; in the arena */
  ab_body *body;
  uint32_t in_len, own_capacity;
  uint32_t consume; /* octets of `in` that go when the request is taken */
  ab_head_progress progress;
  uint32_t served; /* requests taken so far */
  int32_t body_error;
  ab_addr peer;
  uint8_t state; /* enum ab_conn_state */
  uint8_t events;
  uint8_t held;          /* back, for the pool that has this place, counted from 1; 0: it is not */
  uint8_t turn_requests; /* begun in this turn, for fairness */
  uint8_t turn_recvs;    /* of its body in this turn, for fairness */
  bool readable : 1;     /* the socket may have input */
  bool hung_up : 1;      /* the peer has closed its side: read until the end */
  bool touched : 1;      /* in engine->touched */
  bool registered : 1;   /* with the poller */
  bool blocked : 1;      /* the socket takes no more output */
  bool parsed : 1;       /* `in` was parsed as far as it goes */
  bool timed : 1;        /* the deadline of this phase has been set */
  bool begun : 1;        /* ... for a head whose first octet has come */
  bool asks_close : 1;   /* the peer wants the connection closed after this request */
  bool expects : 1;      /* the peer waits for "100 Continue" before it sends the body */
  bool wants_body : 1;   /* the application waits for octets of the body */
  bool wants_room : 1;   /* the application waits for output to drain */
  bool wants_sent : 1;   /* ... until nothing is left of it */
  bool keep_decided : 1; /* ab_conn_keep_alive was asked */
  bool keep : 1;         /* its answer */
  bool resets : 1;       /* the end of the connection must not look like the end of the response */
  bool answers_head : 1; /* the request that has begun is a HEAD */
  bool expired : 1;      /* request_timeout has passed */
  bool interim : 1;      /* the peer knows interim responses */
  bool watched : 1;      /* somebody wants to know when the peer goes */
  bool asked : 1;        /* it was asked whether it is there, in this request */
  bool lingers : 1;      /* unread input is on its way: linger before closing */
  bool waits : 1;        /* its request has waited for more than a step */
  bool stood : 1;        /* ... while every place was taken, or held back */
  bool handed : 1;       /* the application has the request, and nothing to run it on */
  bool last_chance : 1;  /* draining: a request may still come before the deadline */
  bool proxied : 1;      /* a PROXY header has to come before the first request */
};

#define AB_NOTICES 16 /* that wait for the log */

/* Who writes a head copies the date without the lock, while others may turn the engine: it stays
 * what it was for so many seconds less one. */
#define AB_DATES 8

struct ab_engine {
  ab_mem mem;
  ab_service home; /* of connections that no listener accepted; its limits are the server's */
  ab_poller *poller;
  ab_outbox_pool *outboxes;
  ab_service *services;
  ab_arena arena;
  ab_wheel wheel;
  ab_nsec now;
  ab_list ready;     /* connections to be served in the next turn */
  ab_list batch;     /* connections to be served in this turn */
  ab_list requests;  /* connections in state QUEUED, oldest first */
  ab_list events;    /* connections with something else to tell */
  ab_list dead;      /* structures to be freed when the step ends */
  ab_list free;      /* unused structures */
  ab_conn **touched; /* connections to look at when the step ends */
  uint32_t touched_count;
  struct ab_slab *slabs;
  size_t request_room; /* octets that a parsed request takes at most */
  ab_arena
      next_arena; /* with room for a new listener's requests: from the next turn on, or empty */
  size_t next_room;
  ab_nsec told_deadline; /* what ab_engine_deadline said last */
  ab_list
      readers; /* ab_stall: peers for which files wait, who has taken nothing for longest first */
  size_t descriptors; /* that the process may have open */
  const ab_storage_calls *storage;
  ab_offload *readers_pool;  /* threads that read files; NULL until one has to be read */
  ab_poller *readers_poller; /* held for them */
  ab_list cold;              /* ab_load: what waits for one of them, oldest first */
  ab_path_rule *path_times;  /* request_timeout by path */
  ab_methods *methods;       /* that are served; NULL: the registry's */
  size_t path_time_count;
  uint32_t capacity;  /* requests that the application takes at once */
  uint32_t aside;     /* of those that it has, they take none of its places */
  uint32_t max_queue; /* requests that may wait when a step ends */
  ab_nsec look_at;    /* while paused, when to look at the listeners; 0: when somebody knocks */
  ab_nsec busy_until; /* when a connection was accepted last, or a request was done */
  ab_nsec rest_until; /* accepting rests, because descriptors ran out; 0: it does not */
  int64_t date_second;
  ab_engine_stats stats;
  struct ab_hold *hold;            /* NULL: nothing was held back yet */
  ab_view health[AB_HEALTH_COUNT]; /* the engine's own copies */
  ab_gathers gathers;              /* whose body is gathered; NULL: nobody's */
  void *gathers_ctx;
  uint64_t gather_most; /* octets of all that are gathered */
  ab_body_store store;
  bool has_health;
  bool retired; /* not ready any more */
  bool paused, draining;
  bool knocked;       /* while paused, there was a connection to accept */
  bool refusing;      /* nothing more goes to the application */
  uint8_t half_close; /* enum ab_half_close */
  bool watches_peers;
  ab_notice notices[AB_NOTICES]; /* a ring */
  uint8_t notice_first;
  atomic_uchar notice_count;
  bool starved; /* a request could not be taken in this step, for want of room in the arena */
  char dates[AB_DATES][AB_DATE_FIELD_LEN + 1]; /* a ring: the last one of them is the present one */
  _Atomic(const char *) date;
  ab_outbox_next_op next_op;
};

#define AB_STEP_REQUESTS 8    /* a step ends when so many requests wait */
#define AB_STEP_CONNS    1024 /* connections touched in one step; the others wait for the next */
#define AB_TURN_REQUESTS 16   /* requests of one connection in a turn */
#define AB_TURN_RECVS    8    /* reads of one connection in a turn */
#define AB_TURN_ACCEPTS  64   /* connections of one listener in a turn */
#define AB_LOOK_ACCEPTS  512  /* ... when nobody takes requests, each time that we look */
#define AB_DRAIN_ACCEPTS 1024 /* ... and when it is closed */
#define AB_LOOK          (10 * AB_NSEC_PER_MS) /* for so long they are left to others then */
#define AB_RECV_MAX      65536                 /* octets of one read */
#define AB_RECV_MIN      4096 /* with less room in the arena a read waits for the next turn */
#define AB_REST          (200 * AB_NSEC_PER_MS) /* without accepting, after EMFILE */

/* conn.c: the input side. */

/* Takes the socket. NULL when memory runs out. */
ab_conn *ab__conn_open(ab_engine *engine, int fd, const ab_addr *peer, ab_service *service);
/* Serves a ready connection as far as it goes. */
void ab__conn_advance(ab_conn *conn);
/* Makes `in` independent of the arena, and forgets the parsed form of a request not yet taken. */
void ab__conn_settle(ab_conn *conn);
/* Parses a queued request again if it was settled. False when the arena has no room left. */
bool ab__conn_recall(ab_conn *conn);
/* Asks a peer that has ended its side whether it is still there, if somebody wants to know. */
void ab__conn_ask(ab_conn *conn);
/* The queued request goes to the application. */
void ab__conn_taken(ab_conn *conn);
/* The engine drains; and it refuses what has not come to the application yet. */
void ab__conn_drain(ab_conn *conn);
void ab__conn_refuse(ab_conn *conn);
/* Closes the socket, and frees the structure unless the application has it. */
void ab__conn_drop(ab_conn *conn);
/* Frees what a connection without socket still has; nobody may use it any more. */
void ab__conn_free(ab_conn *conn);

/* The request is over: the next one may come. */
void ab__conn_await_request(ab_conn *conn);
/* Forgets the input, which has been used up. */
void ab__conn_free_input(ab_conn *conn);
/* Octets that a read into the arena may take; 0 when it has to wait for the next turn. */
size_t ab__conn_arena_room(const ab_engine *engine);

static inline const ab_limits *ab__conn_limits(const ab_conn *conn) {
  return &conn->service->limits;
}

/* deadline.c: time. */

/* Sets the deadline that follows from the state, unless this phase has one. */
void ab__conn_rearm(ab_conn *conn);
/* From here on request_timeout counts. */
void ab__conn_begin_request(ab_conn *conn);
/* The step has ended, and nobody has taken the request: from here on queue_timeout counts. */
void ab__conn_wait(ab_conn *conn);
/* A request that had to wait was taken: queue_timeout counts no more. */
void ab__conn_waited(ab_conn *conn);
/* The earliest of its deadlines; 0: none. */
ab_nsec ab__conn_due(const ab_conn *conn);
/* Idle, while the engine drains: it may stay for AB_DRAIN_GRACE after its last request. */
void ab__conn_give_last_chance(ab_conn *conn);
/* One of its deadlines may have passed. */
void ab__conn_timeout(ab_conn *conn);
/* What a response has gone through from its first full socket until all of it is sent. Only time
 * with output pending and a full socket counts: a stream that has nothing to say, and an
 * application that is slow to say it, are not the peer's fault. */
struct ab_stall {
  ab_conn *conn;
  ab_list link;     /* in engine->readers */
  ab_nsec since;    /* the socket is full; 0: it is not */
  ab_nsec before;   /* for how long it was full in all, earlier times */
  ab_nsec progress; /* when the peer was last seen to take something */
  uint64_t given;   /* octets that stood in the socket at first, and that were added */
  uint64_t taken;   /* of these, what the peer has taken when we last looked */
};

/* That of a connection whose socket is full; NULL without memory. */
ab_stall *ab__conn_stall(ab_conn *conn);
/* While conn->stall: the socket took more; all is sent. */
void ab__conn_stall_sent(ab_conn *conn, uint64_t octets);
void ab__conn_stall_end(ab_conn *conn);

/* gather.c: request bodies that are here before their requests are taken. */

/* Has the body of the request that was just parsed gathered, if it shall be. */
bool ab__gather_begin(ab_conn *conn);
/* Looks at what is here of it. Returns AB_OK when the request may be taken, AB_AGAIN when more has
 * to come, or the negative enum ab_http1_error that it is to be answered with. */
int ab__gather_look(ab_conn *conn);
/* Octets to read next. */
size_t ab__gather_room(const ab_conn *conn);

/* receive.c: request bodies. */

/* Tells the application, which waits for the body, to look again. */
void ab__conn_tell_body(ab_conn *conn, int error);
/* True when what is left of the body is so little that it can be thrown away. */
bool ab__conn_can_skip(const ab_conn *conn);
/* Throws away what is here of a body that nobody reads. True when it has ended. */
bool ab__conn_skip(ab_conn *conn);

/* files.c: files that wait to be sent. */

/* True when there are so many for the peer that its next request has to wait. */
bool ab__files_full(const ab_conn *conn);
/* The socket is full; when the peer has taken something before that, `progress`. */
void ab__files_blocked(ab_conn *conn, bool progress);
/* Files were queued. When there are too many in all, the slowest readers are closed. */
void ab__files_queued(ab_conn *conn);

/* load.c: files that are not in memory. */

/* The next piece of a file that had to be read first. */
struct ab_load {
  ab_conn *conn;
  ab_list link;            /* in engine->cold, while it waits for a thread */
  struct ab_load_job *job; /* while it has one */
  bool read;               /* it is in memory, and sent without asking again */
};

/* How many octets of the file that is next may be sent now, without waiting for a disk. 0: none
 * yet, and the connection loads: it becomes ready when there are some. */
size_t ab__load_next(ab_conn *conn, const ab_outbox_next_op *next);
/* True while it loads: nothing may be sent. */
static inline bool ab__load_waits(const ab_conn *conn) {
  return AB_UNLIKELY(conn->load != NULL) && !conn->load->read;
}
/* While conn->load: it is wanted no more. */
void ab__load_drop(ab_conn *conn);
/* While there are threads: takes what they have read, and gives them more. */
void ab__loads_reap(ab_engine *engine);
/* Lets the threads go, without waiting for them. Without the lock; nobody loads any more, or the
 * process was forked. */
void ab__loads_fini(ab_engine *engine);

/* reply.c: the output side. */

/* Makes sure that there is an outbox. Returns AB_OK, AB_EPEER or AB_ENOMEM. */
int ab__conn_writable(ab_conn *conn);

/* Sends until all is sent or the socket is full, and does what follows from either. */
void ab__conn_flush(ab_conn *conn);
/* True when more output is pending than max_pending_output. */
bool ab__conn_is_full(const ab_conn *conn);
/* No further request: closes once all is sent. */
void ab__conn_close(ab_conn *conn);
/* The request that came last is none any more: the application will not get it. */
void ab__conn_forget(ab_conn *conn);
/* Answers a request that never reached the application with the error's status, and closes. */
void ab__conn_fail(ab_conn *conn, int error);

/* admission.c: what nobody takes. */

/* Answers the queued request 503, and closes. */
void ab__conn_reject(ab_conn *conn, enum ab_rejection why);
/* True when every place in the application is taken. */
bool ab__engine_crowded(const ab_engine *engine);
/* The peer has ended its side, and its request waits for a place: nobody waits for the answer. */
bool ab__conn_is_unwanted(const ab_conn *conn);
/* Its request, which waits to be taken, is dropped. */
void ab__conn_unqueue(ab_conn *conn);
/* The same for one that is about to be taken, if its peer has gone. True when it was dropped. */
bool ab__conn_has_left(ab_conn *conn);
/* Rejects what waits beyond max_queue. */
void ab__engine_shed(ab_engine *engine);
/* True when another request would be beyond it now. */
bool ab__engine_full(const ab_engine *engine);
/* A turn begins while accepting is paused. */
void ab__engine_look(ab_engine *engine);

/* health.c: what the engine answers itself. */

/* Answers the request at `in`, which is complete, if it asks for a health path: then the next may
 * come, or the connection is closed. False for any other. */
bool ab__health_answer(ab_conn *conn, const ab_request *request);
void ab__health_fini(ab_engine *engine);

/* service.c: listeners. */

/* Registers the listeners with the poller, or takes them off it, as the engine's state says. */
void ab__engine_listen(ab_engine *engine);
/* Accepts one connection; NULL when the service has no more for this turn. */
ab_conn *ab__service_accept(ab_service *service);
/* Connections that have sent nothing are accepted at once: nobody tells those that the kernel still
 * holds back when the listener closes. Returns whether there are any. */
bool ab__services_hasten(ab_engine *engine);
/* Lets the listeners go. The services themselves stay: connections refer to them. */
void ab__services_close(ab_engine *engine);
void ab__services_fini(ab_engine *engine);

/* engine.c: memory and the lists. */

/* Requests within these limits shall fit into the arena; a larger one serves from the next turn on.
 * Returns AB_OK or AB_ENOMEM. */
int ab__engine_make_room(ab_engine *engine, const ab_limits *limits);

/* The connection is looked at when the step ends. False when the step is full. */
bool ab__engine_touch(ab_conn *conn);
/* The connection is served in the next turn, or in this one if its turn is still to come. */
void ab__engine_ready(ab_conn *conn);
/* Tells the application; 0 takes everything back. */
void ab__engine_event(ab_conn *conn, unsigned events);
/* Something for the log; dropped when nobody takes them. */
void ab__engine_notice(ab_conn *conn, const char *what);
/* The structure is free once the step has ended. */
void ab__engine_bury(ab_conn *conn);
/* A zeroed structure, or NULL. */
ab_conn *ab__engine_conn(ab_engine *engine);

#endif
