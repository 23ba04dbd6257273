/* A connection: what joins socket, protocol and outbox. Internal to engine/.
 *
 *        +---- keep-alive ----+
 *        |                    |
 *        v                    |
 *   --> HEAD --------------> BUSY --+--> CLOSING --> LINGER --> DEAD
 *        |                    |     ^       |                    ^
 *        +------- error ------------+       |                    |
 *        |                    |             |                    |
 *        +--------------------+-- peer gone +--------------------+
 *
 * HEAD     waits for a request, or for the rest of its head; before the first one perhaps for a
 *          PROXY header. One that speaks HTTP/2 stays in this state (http2.h)
 * BUSY     has an exchange, whose state says how far it is (exchange.h)
 * CLOSING  the last response is being sent
 * LINGER   all is sent and said; what the peer still sends is thrown away, so that the reset for
 *          unread bytes cannot destroy the response on its way (RFC 9112 9.6)
 * DEAD     the socket is closed; the structure waits for the application, if that has the exchange,
 *          or the end of the turn, and is freed
 */
#ifndef AB_ENGINE_CONN_H
#define AB_ENGINE_CONN_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/slab.h"
#include "engine/arena.h"
#include "engine/engine.h"
#include "engine/exchange.h"
#include "engine/link.h"
#include "engine/protocol.h"
#include "io/blocking.h"
#include "io/timer.h"

enum ab_conn_state {
  AB_CONN_FREE,
  AB_CONN_HEAD,
  AB_CONN_BUSY,
  AB_CONN_CLOSING,
  AB_CONN_LINGER,
  AB_CONN_DEAD
};

/* What it speaks, once that is known. */
enum ab_speaks {
  AB_SPEAKS_HTTP1,
  AB_SPEAKS_HTTP2,  /* it has a session */
  AB_SPEAKS_STREAM, /* it is a stream of one, and has no socket */
  AB_SPEAKS_TLS,    /* its handshake is not done yet */
  AB_SPEAKS_TUNNEL  /* the application has it: bytes go to and fro */
};

typedef struct ab_session ab_session;
typedef struct ab_stream ab_stream;
typedef struct ab_handshake ab_handshake;
typedef struct ab_tunnel ab_tunnel;
typedef struct ab_redirect ab_redirect;
typedef struct ab_stall ab_stall;
typedef struct ab_load ab_load;

/* What is asked about the file that is sent next (io/storage.h); tests have calls of their own. */
typedef struct ab_storage_calls {
  bool (*is_warm)(int fd, uint64_t offset, size_t len);
  void (*warm)(int fd, uint64_t offset, size_t len); /* on another thread */
} ab_storage_calls;
extern const ab_storage_calls ab__storage_calls;

/* A listener, and what applies to the connections that it accepts. */
typedef struct ab_service {
  ab_watch watch;
  ab_engine *engine;
  ab_listener *listener;
  struct ab_service *next;
  ab_net *proxies;         /* whose connections begin with a PROXY header */
  size_t proxy_count;      /* 0: all */
  uint32_t budget;         /* connections that it may still accept in this turn */
  uint32_t told;           /* how often the poller has told of some */
  unsigned proxy_versions; /* set of enum ab_proxy_accept; 0: no PROXY header */
  bool http2;              /* its connections may begin with HTTP/2 at once */
  bool redirects_clear;    /* HTTP in clear, where TLS is spoken, is redirected */
  bool secure;             /* its connections speak TLS; read without the lock */
  ab_tls_context *tls;     /* what new connections begin with; NULL unless `secure` */
  ab_redirect *redirect;   /* NULL: requests are served */
  ab_limits limits;
} ab_service;

/* Kept small: an idle connection is this structure and its entry in the poller's table. */
struct ab_conn {
  ab_link link;
  ab_list ready_link; /* in engine->ready, ->later, ->app_later, ->batch, ->signers or ->dead */
  ab_wheel_node timer;
  ab_nsec deadline; /* the true one; the timer may come earlier. 0: none */
  ab_engine *engine;
  ab_service *service;
  ab_exchange *exchange; /* NULL while it waits for a request, and once it closes */
  ab_outbox *out;        /* NULL while nothing is pending */
  ab_stall *stall;       /* NULL while the peer takes all at once */
  char *in;              /* input not yet used, in the arena or in `own` */
  char *own;             /* memory of the connection's own, or NULL */
  uint32_t in_len, own_capacity;
  union {
    ab_head_progress progress; /* by `speaks` */
    ab_session *session;
    ab_stream *stream;
    ab_handshake *handshake;
    ab_tunnel *tunnel;
  };
  uint32_t served; /* requests taken so far */
  ab_addr peer;
  uint8_t state;         /* enum ab_conn_state */
  uint8_t speaks;        /* enum ab_speaks; read without the lock while the application has it */
  uint8_t turn_requests; /* begun in this turn, for fairness */
  uint16_t turn_cost;    /* what it has used of AB_TURN_SHARE since its turn began */
  bool readable : 1;     /* the socket may have input */
  bool hung_up : 1;      /* the peer has closed its side: read until the end */
  bool touched : 1;      /* in engine->touched */
  bool registered : 1;   /* with the poller */
  bool blocked : 1;      /* the socket takes no more output */
  bool parsed : 1;       /* `in` was parsed as far as it goes */
  bool timed : 1;        /* the deadline of this phase has been set */
  bool begun : 1;        /* ... for a head whose first byte has come */
  bool resets : 1;       /* the end of the connection must not look like the end of the response */
  bool lingers : 1;      /* unread input is on its way: linger before closing */
  bool parting : 1;      /* closes unless the next read brings something */
  bool proxied : 1;      /* a PROXY header has to come before the first request */
  bool undecided : 1;    /* it may begin with HTTP/2 */
  bool misplaced : 1;    /* it came in clear where TLS is spoken: no request of it is served */
  bool checked : 1;      /* what is pending of files was found in memory just now */
  bool untimed : 1;      /* the application has it, and judges itself how slow its peer may be */
};

#define AB_NOTICES 16 /* that wait for the log */

/* Heads copy the date without the lock: it stays what it was for AB_DATES - 1 seconds. */
#define AB_DATES 8

struct ab_engine {
  ab_mem mem;
  ab_service default_service; /* of connections without a listener; the server's limits */
  ab_poller *poller;
  ab_outbox_pool *outboxes;
  ab_service *services;
  ab_arena arena;
  ab_wheel wheel;
  ab_nsec now;            /* of the turn, which may take long */
  ab_nsec turned_at;      /* when the turn began */
  ab_nsec latest;         /* the time that was last told, in the turn or in its requests */
  ab_list ready;          /* connections to be served in the next turn */
  ab_list later;          /* heavy connections, which are served behind those in `ready`; ... */
  ab_list app_later;      /* ... those that the application waits to read from or to write to */
  ab_list batch;          /* connections to be served in this turn */
  ab_list requests;       /* exchanges in state QUEUED, by their rank */
  ab_route_stats *routes; /* what requests compute; NULL: all are equal */
  bool heavy_first;       /* the next one that is taken */
  ab_long_waits long_waits;
  ab_list events;     /* exchanges with something else to tell */
  ab_list dead;       /* connections to be freed when the step ends */
  ab_list taken_over; /* sockets that the application owns, looked at longest ago first */
  ab_conn **touched;  /* connections to look at when the step ends */
  uint32_t touched_count;
  ab_list sessions;        /* HTTP/2: what may have frames to send when the step ends */
  ab_list handshakes;      /* ab_handshake: TLS, accepted longest ago first */
  ab_list signers;         /* connections that wait for a signature, longest first */
  uint32_t signs;          /* signatures that this step may still make */
  ab_link_scratch scratch; /* of TLS, for all links */
  ab_nsec tls_rest_until;  /* no TLS connection is accepted meanwhile; 0: they are */
  ab_nsec tls_due;         /* when the next handshake is due at tls_handshake_rate */
  ab_slab_pool conns, exchanges, streams;
  size_t request_room; /* bytes that a parsed request takes at most */
  ab_arena next_arena; /* for a new listener's requests, from the next turn on; or empty */
  size_t next_room;
  ab_nsec told_deadline; /* what ab_engine_deadline said last */
  ab_list readers;       /* ab_stall: peers for which files wait, longest without progress first */
  size_t descriptors;    /* that the process may have open */
  const ab_storage_calls *storage;
  ab_blocking_pool *readers_pool; /* threads that read files; NULL until one has to be read */
  ab_poller *readers_poller;      /* held for them */
  ab_list cold;                   /* ab_load: what waits for one of them, oldest first */
  ab_path_rule *path_times;       /* request_timeout by path */
  ab_methods *methods;            /* that are served; NULL: the registry's */
  size_t path_time_count;
  uint32_t capacity;  /* requests that the application takes at once */
  uint32_t aside;     /* of those that it has, they take none of its places */
  uint32_t max_queue; /* requests that may wait when a step ends */
  ab_nsec look_at;    /* while paused, when to look at the listeners; 0: when one is ready */
  ab_nsec busy_until; /* when a connection was accepted last, or a request was done */
  ab_nsec rest_until; /* accepting rests, because descriptors or memory ran out; 0: it does not */
  int64_t date_second;
  uint64_t taken;       /* requests, of which the application has some */
  ab_figures *stats;    /* where it counts: the next one, or a slot of the page */
  ab_figures own_stats; /* what there is now, which the page only shows (AB_NOW); while it counts
                           in the page, also the counters that it has found there */
  struct ab_hold *hold; /* NULL: nothing was held back yet */
  struct ab_balance *balance;       /* NULL: it has no siblings */
  ab_view health[AB_HEALTH_COUNT];  /* the engine's own copies */
  ab_rows *rows;                    /* of the page, for requests that wait; NULL: there is none */
  uint64_t row_id;                  /* of the last one */
  ab_opens *opens;                  /* connections by address, for the page; NULL: not counted */
  ab_buffering_rule buffering_rule; /* whose body is buffered; NULL: none */
  void *buffering_ctx;
  uint64_t buffer_most; /* bytes of all that are buffered */
  bool answers;         /* some requests are answered by the engine itself (own_answer.h) */
  bool verify_differs;  /* listeners ask differently for certificates of clients */
  bool retired;         /* not ready any more */
  bool handed_over;     /* its listeners live on in another process */
  bool paused, draining;
  bool withheld;      /* no request is taken, and no connection accepted */
  bool knocked;       /* while paused, there was a connection to accept */
  bool refusing;      /* nothing more goes to the application */
  uint8_t half_close; /* enum ab_half_close */
  bool watches_peers;
  ab_notice notices[AB_NOTICES]; /* a ring */
  uint8_t notice_first;
  atomic_uchar notice_count; /* changed with the lock; the look without it is only for none */
  bool starved; /* a request could not be taken in this step, for want of room in the arena */
#ifdef AB_POISON
  uint32_t lent; /* heads */
#endif
  char dates[AB_DATES][AB_DATE_FIELD_LEN + 1]; /* a ring: the last one of them is the present one */
  _Atomic(const char *) date;
  ab_outbox_next_op next_op;
};

#define AB_STEP_REQUESTS 8    /* requests that wait and end a step */
#define AB_STEP_SIGNS    4    /* signatures of TLS handshakes in a step */
#define AB_STEP_CONNS    1024 /* connections touched in one step; the others wait for the next */
#define AB_TURN_REQUESTS 16   /* requests of one connection in a turn */
#define AB_TURN_STEPS    8    /* steps of one connection's protocol in a turn */
#define AB_TURN_SHARE    UINT16_MAX /* bytes in the arena of one connection in a turn; in these: */
#define AB_READ_COST     8192       /* the cost of a read */
#define AB_SEND_COST     2048       /* the cost of a send, */
#define AB_SENT_COST     8          /* and bytes of it that cost one more */
#define AB_TURN_LATER    4          /* heavy connections in a turn, from each list */
#define AB_TURN_ACCEPTS  64         /* connections of one listener in a turn */
#define AB_SHARE_ACCEPTS 8          /* ... with siblings that would accept the others */
#define AB_LOOK_ACCEPTS  512        /* ... while no requests are taken, at each look */
#define AB_DRAIN_ACCEPTS 1024       /* ... and when it is closed */
#define AB_LOOK          (10 * AB_NSEC_PER_MS)  /* the time between two such looks */
#define AB_LATE          (100 * AB_NSEC_PER_MS) /* whoever ends its side is gone after that wait */
#define AB_RECV_MAX      65536                  /* bytes of one read */
#define AB_RECV_MIN      4096 /* with less room in the arena a read waits for the next turn */
#define AB_REST          (200 * AB_NSEC_PER_MS) /* without accepting, after EMFILE */

/* conn.c: life, and input. */

/* Takes the socket. NULL when memory runs out. */
ab_conn *ab__conn_open(ab_engine *engine, int fd, const ab_addr *peer, ab_service *service);
/* The one way from state to state. With AB_POISON it aborts at a step that is not drawn above. */
#ifdef AB_POISON
void ab__conn_become(ab_conn *conn, enum ab_conn_state state);
#else
static inline void ab__conn_become(ab_conn *conn, enum ab_conn_state state) {
  conn->state = (uint8_t)state;
}
#endif
/* True when it has an exchange in this state, and its socket. */
static inline bool ab__conn_has(const ab_conn *conn, enum ab_exchange_state state) {
  return conn->state == AB_CONN_BUSY && conn->exchange->state == state;
}
static inline const ab_protocol *ab__conn_protocol(const ab_conn *conn) {
  static const ab_protocol *const others[] = {[AB_SPEAKS_HTTP2] = &ab__http2,
                                              [AB_SPEAKS_STREAM] = &ab__http2_stream,
                                              [AB_SPEAKS_TLS] = &ab__handshake,
                                              [AB_SPEAKS_TUNNEL] = &ab__tunnel};
  return AB_LIKELY(conn->speaks == AB_SPEAKS_HTTP1) ? &ab__http1 : others[conn->speaks];
}
/* A connection of which nothing is set but its engine; NULL without memory. */
ab_conn *ab__conn_take(ab_engine *engine);
/* Serves a ready connection as far as it goes. */
void ab__conn_advance(ab_conn *conn);
/* Makes `in` independent of the arena, and forgets the parsed form of a request not yet taken. */
void ab__conn_settle(ab_conn *conn);
/* Closes the socket, and frees the structure unless the application has its exchange. */
void ab__conn_drop(ab_conn *conn);
/* It is no connection to a client any more. */
void ab__conn_uncount(ab_conn *conn);
/* Frees what a connection without socket still has, its exchange too. */
void ab__conn_free(ab_conn *conn);
/* The step has ended: the structures of freed connections may be used again. */
void ab__conns_free_dead(ab_engine *engine);

/* The peer has ended its side while its request waits for a place. */
bool ab__conn_is_unwanted(const ab_conn *conn);
/* The exchange is over, if there was one: the next request may come. */
void ab__conn_await_request(ab_conn *conn);
/* Forgets the input, which has been used up. */
void ab__conn_free_input(ab_conn *conn);
/* One read. Returns as ab_link_receive; the end of the stream and errors are left to the caller. */
ssize_t ab__conn_receive(ab_conn *conn, const struct iovec *iov, int count) AB_WARN_UNUSED;
/* One read into the arena, when there is no input. False without bytes; it may have ended. */
bool ab__conn_fill(ab_conn *conn);
/* Copies bytes behind the input. False without memory. */
bool ab__conn_append(ab_conn *conn, const char *ptr, size_t len);
/* One read behind the input, into the connection's own memory. Returns as ab__conn_fill. */
bool ab__conn_read_behind(ab_conn *conn, size_t room);
/* No request can come any more; responses to earlier ones still go out. */
void ab__conn_leave(ab_conn *conn);
/* It waits for a head, for which there is less time from now on. The next turn sets the deadline,
 * since this one's clock may be late. */
void ab__conn_hurry(ab_conn *conn);
/* Idle, and its time is over: leaves, unless a request has come all the same. */
void ab__conn_part(ab_conn *conn);
/* Bytes that a read into the arena may take; 0 when it has to wait for the next step. */
static inline size_t ab__arena_room(const ab_engine *engine) {
  size_t left = ab_arena_left(&engine->arena), kept = engine->request_room;
  if (AB_UNLIKELY(left < kept + AB_RECV_MIN)) return 0;
  return left - kept < AB_RECV_MAX ? left - kept : AB_RECV_MAX;
}
/* Bytes that the connection may read into the arena now. 0: it has to wait, and is served again. */
size_t ab__conn_room(ab_conn *conn);
/* The connection has read `len` bytes into the arena. */
void ab__conn_spend(ab_conn *conn, size_t len);

/* Takes what costs as much as `bytes` in the arena off the connection's share of the turn. */
static inline void ab__conn_charge(ab_conn *conn, uint64_t bytes) {
  uint64_t left = AB_TURN_SHARE - conn->turn_cost;
  conn->turn_cost += (uint16_t)(bytes < left ? bytes : left);
}
static inline bool ab__conn_has_share(const ab_conn *conn) {
  return conn->turn_cost < AB_TURN_SHARE;
}
/* The connection has used up its share, or had more to send than its socket took. */
static inline bool ab__conn_is_heavy(const ab_conn *conn) {
  return !ab__conn_has_share(conn) || conn->stall;
}

/* TLS has something of its own to send. */
static inline bool ab__conn_owes(const ab_conn *conn) {
  return AB_UNLIKELY(ab_link_is_tls(&conn->link)) && ab_link_owes(&conn->link);
}

static inline const ab_limits *ab__conn_limits(const ab_conn *conn) {
  return &conn->service->limits;
}

/* proxy_header.c */

/* Takes a PROXY header off the input. False: it is wrong, and the connection closes. With
 * conn->parsed more of it has to come. */
bool ab__conn_read_proxy_header(ab_conn *conn);

/* deadline.c: time. */

/* Arms the timer, unless it already comes out in time. */
void ab__conn_arm(ab_conn *conn);
/* Sets the deadline that follows from the state, unless this phase has one. */
void ab__conn_rearm(ab_conn *conn);
/* The earliest of its deadlines, and its exchange's; 0: none. */
ab_nsec ab__conn_due(const ab_conn *conn);
/* For how long the head that is complete now has come, if it came in pieces; else 0. */
ab_nsec ab__conn_head_for(const ab_conn *conn);
/* A response from its first full socket until it is sent. Only time with a full socket counts. */
struct ab_stall {
  ab_conn *conn;
  ab_list link;     /* in engine->readers */
  ab_nsec since;    /* the socket is full; 0: it is not */
  ab_nsec before;   /* for how long it was full in all, earlier times */
  ab_nsec progress; /* when the peer was last seen to take something */
  uint64_t given;   /* bytes that stood in the socket at first, and that were added */
  uint64_t taken;   /* of these, what the peer has taken when we last looked */
  ab_load *load;    /* NULL unless the next bytes are those of a file on a disk */
};

static inline ab_load *ab__conn_load(const ab_conn *conn) {
  return conn->stall ? conn->stall->load : NULL;
}

/* That of a connection whose socket is full; NULL without memory. */
ab_stall *ab__conn_stall(ab_conn *conn);
/* While conn->stall: the socket took more; all is sent. */
void ab__conn_stall_sent(ab_conn *conn, uint64_t bytes);
void ab__conn_stall_end(ab_conn *conn);
/* True if the peer has been too slow; otherwise there is a new deadline. */
bool ab__conn_stall_is_over(ab_conn *conn);

/* timeout.c: one of its deadlines may have passed. */
void ab__conn_timeout(ab_conn *conn);

/* files.c: files that wait to be sent. */

/* True at max_pending_files: the next request of the peer has to wait. */
bool ab__files_full(const ab_conn *conn);
/* The socket is full; when the peer has taken something before that, `progress`. */
void ab__files_blocked(ab_conn *conn, bool progress);
/* The slowest reader of files while there are too many in all, or NULL. */
ab_conn *ab__files_surplus(ab_engine *engine);

/* load.c: files that are not in memory. */

/* The next piece of a file that had to be read first. */
struct ab_load {
  ab_conn *conn;
  ab_list link;            /* in engine->cold, while it waits for a thread */
  struct ab_load_job *job; /* while it has one */
  bool read;               /* it is in memory, and sent without asking again */
  bool told;               /* ... and its session has heard of it, if it is a stream's */
};

/* How many bytes of the next file may be sent now, without waiting for a disk. 0: the connection
 * loads, and becomes ready when there are some. */
size_t ab__load_next(ab_conn *conn, const ab_outbox_next_op *next);
/* True while it loads: nothing may be sent. */
static inline bool ab__load_waits(const ab_conn *conn) {
  const ab_load *load = ab__conn_load(conn);
  return AB_UNLIKELY(load != NULL) && !load->read;
}
/* It is wanted no more, if it loads. */
void ab__load_drop(ab_conn *conn);
/* While there are threads: takes what they have read, and gives them more. */
void ab__loads_reap(ab_engine *engine);
/* Lets the threads go, without waiting for them. Without the lock. */
void ab__loads_fini(ab_engine *engine);

/* taken_over.c: connections that the application has taken over. */

/* The application owns the socket, by this descriptor. Returns AB_OK or AB_ENOMEM. */
int ab__taken_over_add(ab_engine *engine, int fd) AB_WARN_UNUSED;
/* When to look at them; 0: there are none. */
ab_nsec ab__taken_over_deadline(const ab_engine *engine);
/* Forgets those that are closed. While draining, ends the others' streams for their readers, and
 * after ab_engine_refuse in both directions. */
void ab__taken_over_look(ab_engine *engine);
/* Forgets all; `end` ends their streams. */
void ab__taken_over_forget(ab_engine *engine, bool end);

/* reply.c: the output side. */

/* Makes sure that there is an outbox. Returns AB_OK, AB_EPEER or AB_ENOMEM. */
int ab__conn_writable(ab_conn *conn);
/* Queues bytes, which are copied. Returns as ab__conn_writable. */
int ab__conn_write(ab_conn *conn, const char *ptr, size_t len) AB_WARN_UNUSED;
/* The same for a response's last bytes, which leave at once if nothing else can leave with them. */
int ab__conn_write_last(ab_conn *conn, const char *ptr, size_t len) AB_WARN_UNUSED;
/* Sends bytes at once, behind what is pending, and copies what the socket does not take. Returns as
 * ab__conn_writable; what has begun and cannot be kept has ended the connection. */
int ab__conn_send(ab_conn *conn, const struct iovec *iov, int count) AB_WARN_UNUSED;
/* Sends until all is sent or the socket is full, and does what follows from either. */
void ab__conn_flush(ab_conn *conn);
/* True when more output is pending than max_pending_output. */
bool ab__conn_is_full(const ab_conn *conn);
/* All that has come is read: the poller tells when there is more. */
static inline void ab__conn_emptied(ab_conn *conn) {
  conn->readable = false;
  ab_poller_exhausted(conn->engine->poller, &conn->link.watch, AB_POLL_IN);
}
/* The socket takes no more: the poller tells when it has room. */
void ab__conn_await_room(ab_conn *conn);
/* What is below takes no more now; `progress`: it has taken some. */
void ab__conn_block(ab_conn *conn, bool progress);
/* All output is sent, and gives its memory back. */
void ab__conn_end_output(ab_conn *conn);
/* Tells a writer that waits for room, if there is some. */
void ab__conn_tell_drained(ab_conn *conn);
/* No further request, and this one is over: closes once all is sent. */
void ab__conn_close(ab_conn *conn);
/* Answers a request that never reached the application with the error's status, and closes. */
void ab__conn_fail(ab_conn *conn, int error);
/* The same for one that has no exchange. */
void ab__conn_fail_head(ab_conn *conn, int error, bool answers_head);

/* Changes a figure of what there is now: in the engine's own memory, by which it decides, and in
 * the page, where it is only shown and any process may write over it. */
#define AB_SHOW(engine, figure, number)                                                            \
  AB_PUT((engine)->stats->figure, (engine)->own_stats.figure = (number))
#define AB_NOW(engine, figure, change)                                                             \
  AB_SHOW(engine, figure, (engine)->own_stats.figure + (change))

/* admission.c: what is not taken. */

/* Places in the application that are taken. */
static inline uint32_t ab__engine_taken(const ab_engine *engine) {
  uint32_t in_app = engine->own_stats.in_app;
  return in_app > engine->aside ? in_app - engine->aside : 0;
}
static inline bool ab__engine_crowded(const ab_engine *engine) {
  return engine->capacity > 0 && ab__engine_taken(engine) >= engine->capacity;
}
/* Requests wait that the application has places for. */
static inline bool ab__engine_has_beginners(const ab_engine *engine) {
  return !ab_list_empty(&engine->requests) && !ab__engine_crowded(engine);
}
/* Rejects what waits beyond max_queue. */
void ab__engine_shed(ab_engine *engine);
/* True when another request would be beyond it now. */
bool ab__engine_full(const ab_engine *engine);
/* A turn begins while accepting is paused. */
void ab__engine_look(ab_engine *engine);
/* As ab_engine_pause. */
void ab__engine_set_paused(ab_engine *engine, bool paused);
/* Some of what the listeners have is still to be accepted in this turn. */
bool ab__engine_is_accepting(const ab_engine *engine);

/* balance.c: where there are siblings. */

/* A drain begins: if no other worker serves, takes what is left in the relay. */
void ab__balance_adopt_the_last(ab_engine *engine);
/* It drains, and others go on: they get the connections between two requests. */
void ab__balance_hand_on_all(ab_engine *engine);
/* Whether they would get one now. */
bool ab__balance_hands_on(const ab_engine *engine);
/* A connection ends with its response. */
static inline bool ab__engine_closes(const ab_engine *engine) {
  if (AB_LIKELY(!engine->draining)) return false;
  return !engine->balance || !ab__balance_hands_on(engine);
}

/* own_answer.c: what the engine answers itself. */

/* Answers the complete request at `in` if it is not for the application; false for any other. */
bool ab__own_answer(ab_conn *conn, const ab_head *head);
void ab__health_fini(ab_engine *engine);

/* handshake.c: how connections begin that speak TLS. */

/* A new connection of such a listener. False without memory. */
bool ab__handshake_begin(ab_conn *conn) AB_WARN_UNUSED;
/* May another one be accepted? If not, they are to rest until engine->tls_rest_until. */
bool ab__handshakes_have_room(ab_engine *engine);
/* A step begins: serves those that waited for a signature. */
void ab__handshakes_sign(ab_engine *engine);

/* tunnel.c: connections over TLS that the application has taken over. */

/* Bytes go to and fro between the connection's link, which moves to another structure, and `own`.
 * Returns AB_OK, or AB_ENOMEM and does nothing. */
int ab__tunnel_begin(ab_conn *conn, int own) AB_WARN_UNUSED;

/* service.c: listeners. */

/* From the next turn on the arena fits requests within these limits. AB_OK or AB_ENOMEM. */
int ab__engine_make_room(ab_engine *engine, const ab_limits *limits);
/* Registers the listeners with the poller, or takes them off it, as the engine's state says. */
void ab__engine_listen(ab_engine *engine);
/* Each may accept so many connections in this turn. */
void ab__services_invite(ab_engine *engine, uint32_t budget);
/* Accepting rests, for want of descriptors or memory. */
void ab__engine_rest(ab_engine *engine);
/* Accepts one connection; NULL when the service has no more for this turn. */
ab_conn *ab__service_accept(ab_service *service);
/* Connections that have sent nothing are accepted at once. Returns whether there are any. */
bool ab__services_hasten(ab_engine *engine);
/* Takes the listeners off the poller, which is left. */
void ab__services_unset(ab_engine *engine);
/* Lets the listeners go. The services themselves stay: connections refer to them. */
void ab__services_close(ab_engine *engine);
void ab__services_fini(ab_engine *engine);

/* lists.c: what is to be done. */

/* The connection is looked at when the step ends. False when the step is full. */
bool ab__engine_touch(ab_conn *conn);
/* The connection is served in the next turn, or in this one if its turn is still to come. If it has
 * used up its share, it is served behind all others, perhaps some turns later. */
void ab__engine_ready(ab_conn *conn);
/* Something for the log; dropped while AB_NOTICES wait. */
void ab__engine_notice(ab_conn *conn, const char *what);

#endif
