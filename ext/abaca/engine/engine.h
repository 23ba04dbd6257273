/* The HTTP engine: listeners and connections on a poller, without Ruby.
 *
 * The engine never calls up. A turn of it receives, parses and sends; what the application has to
 * know becomes an event of a connection, which whoever leads takes with ab_engine_next. Answers are
 * given with the ab_conn_* functions.
 *
 * Everything here is guarded by the poller's lock. Functions marked [locked] must be called with it
 * held (ab_engine_lock); the others take it themselves. None of them calls Ruby or blocks. One
 * thread at a time turns the engine; which one, is engine/lead.h's business. The others may answer.
 */
#ifndef AB_ENGINE_ENGINE_H
#define AB_ENGINE_ENGINE_H

#include "base/limits.h"
#include "base/mem.h"
#include "engine/body.h"
#include "http1/head.h"
#include "http1/pattern.h"
#include "http1/proxy.h"
#include "http1/write.h"
#include "io/poller.h"
#include "io/socket.h"
#include "outbox/outbox.h"

typedef struct ab_engine ab_engine;
typedef struct ab_conn ab_conn;

/* What a connection has to tell, as bits. */
enum ab_event {
  AB_EVENT_REQUEST = 1,  /* a request waits to be taken */
  AB_EVENT_BODY = 2,     /* ab_conn_read_body, which had nothing, is worth another call */
  AB_EVENT_DRAINED = 4,  /* output is below the mark that ab_conn_want_room waited for */
  AB_EVENT_GONE = 8,     /* the peer has gone; the connection lives until ab_conn_finish */
  AB_EVENT_DEADLINE = 16 /* request_timeout has passed; told once */
};

/* Why a request was answered 503 without the application. */
enum ab_rejection {
  AB_REJECT_QUEUE_FULL,      /* max_queue others waited already */
  AB_REJECT_QUEUE_TIMEOUT,   /* nobody took it for queue_timeout */
  AB_REJECT_REQUEST_TIMEOUT, /* nobody took it for request_timeout */
  AB_REJECT_SHUTDOWN,        /* the server has ended before anybody took it */
  AB_REJECT_NO_FIBER,        /* there was no memory for what it would have run on */
  AB_REJECT_COUNT
};

typedef struct ab_engine_stats {
  uint64_t accepted; /* connections */
  uint64_t refused;  /* connections, for want of descriptors or memory */
  uint64_t requests; /* handed to the application */
  uint64_t errors;   /* requests that the engine itself answered with 4xx or 5xx */
  uint64_t timeouts; /* connections closed by a deadline, idle ones included */
  uint64_t expired;  /* requests whose request_timeout has passed */
  uint64_t received; /* octets */
  uint64_t sent;     /* octets */
  uint64_t detached; /* connections that the application has taken over */
  uint64_t probes;   /* requests for a health path, which the engine has answered */
  uint64_t queued;   /* requests that were not taken at once */
  uint64_t left;     /* ... and whose peers had gone before anybody took them */
  uint64_t rejected[AB_REJECT_COUNT];
  uint32_t connections; /* open now */
  uint32_t in_app;      /* requests that the application has now */
  uint32_t waiting;     /* requests that wait to be taken now, */
  uint32_t held;        /* ... and are held back meanwhile, since they could only wait */
  uint32_t gathering;   /* requests that wait for their body now, before they may be taken */
  uint64_t gathered;    /* octets kept of bodies that were gathered */
} ab_engine_stats;

/* mem and limits are copied. `release` gets `ctx` and the owner of each borrowed slice once it is
 * written or dropped; it is called with the lock held, perhaps in another thread, and must not call
 * the engine. Returns NULL when memory runs out. */
ab_engine *ab_engine_init(const ab_mem *mem, const ab_limits *limits, ab_outbox_release release,
                          void *ctx);
/* Detaches first, and closes every connection at once. Requests still in the application must have
 * been finished. */
void ab_engine_fini(ab_engine *engine);

/* What holds for the connections of a listener from the first one on. */
typedef struct ab_listener_terms {
  const ab_limits *limits; /* NULL: the engine's */
  /* Set of enum ab_proxy_accept: connections begin with a PROXY header, and the source that it
   * names takes the place of the socket's address. 0: there is none. */
  unsigned proxy_accept;
  const ab_net *proxies; /* whose connections have to, and may, send one */
  size_t proxy_count;    /* 0: everybody's */
} ab_listener_terms;

/* Takes the listener; copies the terms, NULL for the usual ones. Returns AB_OK or AB_ENOMEM (then
 * the listener stays the caller's). */
int ab_engine_add_listener(ab_engine *engine, ab_listener *listener,
                           const ab_listener_terms *terms) AB_WARN_UNUSED;
/* The i-th listener, NULL behind the last. Borrowed. */
const ab_listener *ab_engine_listener(const ab_engine *engine, size_t i);
/* Stops listening and lets the listeners go; their socket files are removed. */
void ab_engine_close_listeners(ab_engine *engine);

/* What it means that a peer ends its side of the connection while a request of it is in the
 * application. (One that has to wait for a place there is dropped then, but for
 * AB_HALF_CLOSE_ANSWER.) It may be waiting for the response (RFC 9112 9.6) or have closed: both
 * send the same FIN, and only octets that are sent to it tell, since a closed socket answers them
 * by a reset. */
enum ab_half_close {
  AB_HALF_CLOSE_ASK,    /* who is watched is sent an interim response, which a client discards */
  AB_HALF_CLOSE_ANSWER, /* it waits for the response */
  AB_HALF_CLOSE_GONE    /* it has gone, also while the request waits to be taken */
};

/* To be called before attach; AB_HALF_CLOSE_ASK and false without. `watch` watches every peer. */
void ab_engine_set_half_close(ab_engine *engine, enum ab_half_close meaning, bool watch);

/* The request_timeout, in seconds and 0 for none, of requests for some paths, whatever their
 * listener says: the first rule that matches counts. Rules and patterns are copied. To be called
 * before attach. Returns AB_OK or AB_ENOMEM. */
int ab_engine_set_path_times(ab_engine *engine, const ab_path_rule *rules,
                             size_t count) AB_WARN_UNUSED;
/* The methods that are served, in place of the registry's; the set is copied. To be called before
 * attach. Returns AB_OK or AB_ENOMEM. */
int ab_engine_set_methods(ab_engine *engine, const ab_methods *methods) AB_WARN_UNUSED;
/* Whether the body of a request is gathered. */
enum ab_gather {
  AB_GATHER_NOT,     /* whoever takes the request reads it as it comes */
  AB_GATHER_UNASKED, /* it is, unless the client waits for "100 Continue" */
  AB_GATHER_ANY      /* it is, and the client is told to send what will be held of it */
};

/* Tells which by the path, as it was received and without its query. It is called with the lock
 * held, perhaps without the GVL, and must not call the engine. */
typedef enum ab_gather (*ab_gathers)(void *ctx, ab_view path);

/* A request of which `gathers` says so waits to be taken only when its body is here, or so much of
 * it as max_body_memory: whoever takes it does not have to wait for a slow client. What counts is
 * what has come, not what was announced. `most` is the limit of octets for all that are gathered:
 * beyond it requests do not wait for their bodies any more. To be called before attach. */
void ab_engine_gather(ab_engine *engine, ab_gathers gathers, void *ctx, uint64_t most);

/* What a health path tells. */
enum ab_health {
  AB_HEALTH_READY, /* 200; 503 once the server has retired */
  AB_HEALTH_LIVE,  /* 200 */
  AB_HEALTH_COUNT
};

/* From now on GET and HEAD of the path, compared octet by octet and without the query, are answered
 * by the engine itself, in its turns: neither is such a request handed to the application, nor does
 * it wait for it. The path is copied. Returns AB_OK or AB_ENOMEM. */
int ab_engine_set_health(ab_engine *engine, enum ab_health which, const char *path,
                         size_t len) AB_WARN_UNUSED;
/* From now on it is not ready. Everything else goes on. Idempotent. Returns the time after which
 * each connection that is open now, silent ones too, has been accepted and will hear of the end: 0
 * unless the kernel holds some back. */
ab_nsec ab_engine_retire(ab_engine *engine);

/* Registers everything with `poller`, which is borrowed until detach. Returns AB_OK, AB_ENOMEM or
 * AB_ESYS. */
int ab_engine_attach(ab_engine *engine, ab_poller *poller, ab_nsec now) AB_WARN_UNUSED;
void ab_engine_detach(ab_engine *engine);
/* Forgets the poller without touching it: it has been freed, as happens when a process exits in the
 * middle of a run. */
void ab_engine_abandon(ab_engine *engine);

void ab_engine_lock(ab_engine *engine);
void ab_engine_unlock(ab_engine *engine);

/* Begins a turn: what the poller's dispatch found ready becomes the turn's batch. The caller then
 * repeats step, next until there is no event, and end_step, as long as step says so. */
void ab_engine_begin_turn(ab_engine *engine, ab_nsec now);
/* Serves the batch until a few requests wait. Returns true when some of the batch is left; after
 * the last of it deadlines pass. Few, so that a connection is read, answered and written while it
 * is warm in the caches. */
bool ab_engine_step(ab_engine *engine);
/* Ends the step, after its events have been taken: sends what is pending, copies what must outlive
 * the step, registers new connections. Returns true when more work waits, so that the caller must
 * not block. */
bool ab_engine_end_step(ab_engine *engine);
/* The time of the next deadline; 0 when there is none. To be called by whoever leads, who turns the
 * engine then at the latest. */
ab_nsec ab_engine_deadline(ab_engine *engine);
/* [locked] True when whoever leads has to know that something was done to the engine by another: it
 * has something to do now, or earlier than ab_engine_deadline said last. */
bool ab_engine_needs_turn(const ab_engine *engine);
/* [locked] True when ab_engine_next would have something to tell. */
bool ab_engine_has_news(const ab_engine *engine);
/* A whole turn without the application: requests and events are left to be taken. Returns true when
 * the next turn should follow at once. */
bool ab_engine_turn(ab_engine *engine, ab_nsec now);
/* Sends what ab_conn_flush_later has put off, for whoever does not lead and finds that this takes
 * too long. */
void ab_engine_flush(ab_engine *engine);
/* True when ab_engine_next, asked with the same take_requests, or ab_engine_next_notice has
 * something to give. To be called by whoever leads. */
bool ab_engine_tells(ab_engine *engine, bool take_requests);
/* [locked] Sets the clock by which deadlines begin, and the date, for who answers outside of the
 * engine's turns: the last one may be long ago. */
void ab_engine_pass_time(ab_engine *engine, ab_nsec now);

/* Takes the next connection with events; NULL when there is none. *events is a set of enum
 * ab_event. With take_requests false, connections that only wait with a request are left where they
 * are. For AB_EVENT_REQUEST *request is set: it is valid until the step ends or ab_conn_finish.
 * From then on the connection belongs to the application until ab_conn_finish. */
ab_conn *ab_engine_next(ab_engine *engine, bool take_requests, unsigned *events,
                        const ab_request **request);

/* Something that whoever runs the server may want to know. */
typedef struct ab_notice {
  const char *what; /* "a TLS handshake": what a client has sent that is no HTTP/1; static memory */
  ab_addr peer;
} ab_notice;

/* Takes the oldest notice; false when there is none. A few are kept: more are dropped. By one
 * thread at a time. */
bool ab_engine_next_notice(ab_engine *engine, ab_notice *notice);

/* Whether nobody can take a request now. Then new connections wait in the kernel's queue for a
 * moment, so that other processes which listen there can have them; those that are still there
 * afterwards are accepted, and their requests wait in ours. */
void ab_engine_pause(ab_engine *engine, bool paused);
/* The application takes `capacity` requests at once, and at most `max_queue` more may wait when a
 * step ends, also of one that nobody took from: the newest beyond that are answered 503. Without
 * this there is no limit. To be called before attach. */
void ab_engine_set_queue(ab_engine *engine, uint32_t capacity, uint32_t max_queue);

/* [locked] So many of the requests in the application take none of its places: they wait for their
 * own peers. */
void ab_engine_set_aside(ab_engine *engine, uint32_t count);

/* From now on requests that could only wait for a pool of the application's are held back, once one
 * of their route has (hold.h). Nobody else shall know the seed. Idempotent. Returns AB_OK or
 * AB_ENOMEM. [locked, as the other two] */
int ab_engine_hold(ab_engine *engine, uint64_t seed) AB_WARN_UNUSED;
/* So many wait now for the pool, which has `size` places and whatever number names it, not 0.
 * Returns true when requests that were held back may go: whoever leads has to look. */
bool ab_engine_pool_load(ab_engine *engine, uint64_t id, uint32_t size, uint32_t waiters);
/* A request for the path, as it was received and without its query, waits for the pool. */
void ab_engine_pool_wait(ab_engine *engine, uint64_t id, ab_view path);

/* Retires, accepts no more and closes idle connections; requests in flight are answered, with
 * `Connection: close`. A connection that had a request just now may have the next one on its way,
 * and stays open for AB_DRAIN_GRACE after it. Idempotent. */
void ab_engine_drain(ab_engine *engine, ab_nsec now);
#define AB_DRAIN_GRACE (200 * AB_NSEC_PER_MS)
/* Since when there has been neither a new connection nor a request; 0: there is a request now. */
ab_nsec ab_engine_idle_since(ab_engine *engine);
/* To be called after drain: nothing more goes to the application. Requests that wait to be taken,
 * and those whose head is complete soon, are answered 503. Those that the application has are left
 * alone. Idempotent. */
void ab_engine_refuse(ab_engine *engine, ab_nsec now);
/* Closes every connection at once; those that the application has get AB_EVENT_GONE. */
void ab_engine_abort(ab_engine *engine);

/* A request that waits to be taken, for whoever looks into the server. */
typedef struct ab_waiting {
  ab_addr peer;
  ab_nsec arrived;
  uint32_t len;
  char line[200]; /* method, SP and target without its query, cut off behind the last octet */
} ab_waiting;

/* Copies what waits, what is held back first and each oldest first, as far as there is room.
 * Returns how many there are. */
size_t ab_engine_waiting(ab_engine *engine, ab_waiting *out, size_t room);

ab_engine_stats ab_engine_get_stats(ab_engine *engine);
/* Those that ab_engine_init was given. */
const ab_limits *ab_engine_limits(const ab_engine *engine);
/* "Date: ...\r\n" of this second, AB_DATE_LEN + 8 octets. */
const char *ab_engine_date(const ab_engine *engine);
#define AB_DATE_FIELD_LEN (AB_DATE_LEN + 8)

/* A pointer of the application's, NULL at first. [locked: no] */
void ab_conn_set_app(ab_conn *conn, void *app);
void *ab_conn_app(const ab_conn *conn);

/* The socket's address, or the one that a PROXY header has named. */
const ab_addr *ab_conn_peer(const ab_conn *conn);
/* When the request that the application has was complete, so that it could be taken: its head, and
 * its body too if that was gathered. The time of that turn. */
ab_nsec ab_conn_arrived(const ab_conn *conn);
/* For how long before that its body was gathered. */
ab_nsec ab_conn_gathered_for(const ab_conn *conn);
/* NULL for a connection that came otherwise. */
const ab_listener *ab_conn_listener(const ab_conn *conn);
/* Those of its listener, or the engine's. */
const ab_limits *ab_conn_limits(const ab_conn *conn);

/* [locked] True when the response may leave the connection open; from then on the answer stays the
 * same for this response, and ab_conn_finish goes by it. */
bool ab_conn_keep_alive(ab_conn *conn);
/* [locked] The response shall be the connection's last. */
void ab_conn_close_after(ab_conn *conn);
/* [locked] True when the peer has gone, or the connection was detached: output is dropped. */
bool ab_conn_gone(const ab_conn *conn);

/* [locked] As ab_conn_gone, after a look at the socket: for a caller that has not given the engine
 * a turn for long. */
bool ab_conn_look(ab_conn *conn);
/* [locked] Somebody wants to know when the peer of this request goes: see enum ab_half_close. */
void ab_conn_watch_peer(ab_conn *conn);
/* [locked] The request in the application has so much time from now on, in place of what
 * request_timeout has left of it; 0: as much as it wants. */
void ab_conn_set_time(ab_conn *conn, ab_nsec time);
/* [locked] ... so much more than it has; once it has passed, so much from now on. Nothing changes
 * for one that has as much as it wants. */
void ab_conn_extend(ab_conn *conn, ab_nsec time);
/* When request_timeout passes; 0: never, or it has passed, which ab_conn_news tells. */
ab_nsec ab_conn_deadline(const ab_conn *conn);
/* [locked] What has happened to a request in the application so far, told by an event or not: a set
 * of AB_EVENT_GONE and AB_EVENT_DEADLINE. */
unsigned ab_conn_news(const ab_conn *conn);

/* The request's body: its framing and how far it has been read; NULL when it has none. */
const ab_body *ab_conn_body(const ab_conn *conn);
/* [locked] Takes up to `len` octets of the body's content, len > 0: those that are here already, or
 * else straight from the socket. A peer that waits for "100 Continue" is told when nothing is here
 * and no response has begun. Returns octets > 0; 0 at the end of the body; AB_AGAIN: AB_EVENT_BODY
 * follows; AB_EPEER: the peer has gone or ended its side too early; a negative enum ab_http1_error.
 * An error stays. Any thread may call it. */
ssize_t ab_conn_read_body(ab_conn *conn, char *buf, size_t len) AB_WARN_UNUSED;
/* [locked] Sends "100 Continue" to a peer that waits for it, before the head of a response after
 * which the body will be read. */
void ab_conn_continue(ab_conn *conn);
/* [locked] Nobody waits for AB_EVENT_BODY any more: no deadline counts. */
void ab_conn_leave_body(ab_conn *conn);
/* Octets of the body, framing included, and of what follows it, that are here already. */
size_t ab_conn_input_len(const ab_conn *conn);
/* [locked] Why the body failed: a negative enum ab_http1_error or AB_EPEER; AB_OK otherwise. */
int ab_conn_body_error(const ab_conn *conn);
/* [locked] Another descriptor of the socket, for who has to wait outside of the engine; -1 when
 * there is none. */
int ab_conn_duplicate(const ab_conn *conn);

/* [locked] Queues output. Returns AB_OK, AB_EPEER (gone; nothing is queued) or AB_ENOMEM. On an
 * error a borrowed owner stays the caller's. */
int ab_conn_write(ab_conn *conn, const char *ptr, size_t len) AB_WARN_UNUSED;
int ab_conn_borrow(ab_conn *conn, const char *ptr, size_t len, void *owner) AB_WARN_UNUSED;
int ab_conn_file(ab_conn *conn, int fd, uint64_t offset, uint64_t len, void *owner) AB_WARN_UNUSED;
/* [locked] Queues all that is pending in another outbox, without a copy: see ab_outbox_move. */
int ab_conn_move(ab_conn *conn, ab_outbox *from, ab_outbox_adopt adopt, void *ctx) AB_WARN_UNUSED;
/* [locked] The same as one chunk (RFC 9112 7.1): all of it is queued, its framing included, or
 * nothing. */
int ab_conn_write_chunk(ab_conn *conn, const char *ptr, size_t len) AB_WARN_UNUSED;
int ab_conn_borrow_chunk(ab_conn *conn, const char *ptr, size_t len, void *owner) AB_WARN_UNUSED;
int ab_conn_move_chunk(ab_conn *conn, ab_outbox *from, ab_outbox_adopt adopt,
                       void *ctx) AB_WARN_UNUSED;
/* [locked] Sends octets at once, behind what is pending, and copies what the socket does not take.
 * Returns as ab_conn_write does; what has begun and cannot be kept has ended the connection. */
int ab_conn_send(ab_conn *conn, const struct iovec *iov, int count) AB_WARN_UNUSED;
/* [locked] As ab_conn_write, for the last octets of a response, which ab_conn_finish follows: where
 * nothing else can leave with them, they leave at once. That spares the outbox. */
int ab_conn_answer(ab_conn *conn, const char *ptr, size_t len) AB_WARN_UNUSED;
/* [locked] Sends what the socket takes now. */
void ab_conn_flush(ab_conn *conn);
/* [locked] As ab_conn_flush, but at the end of the step: for a writer that runs within the engine's
 * turns and has more to write. Returns false, and does nothing, when the step is full. */
bool ab_conn_flush_later(ab_conn *conn) AB_WARN_UNUSED;
/* [locked] Octets that wait to be sent. */
uint64_t ab_conn_pending(const ab_conn *conn);
/* [locked] True when so much output is pending that the writer should wait: then AB_EVENT_DRAINED
 * follows. */
bool ab_conn_want_room(ab_conn *conn);

/* [locked] True when any output is pending: then AB_EVENT_DRAINED follows once all of it has been
 * sent. */
bool ab_conn_want_sent(ab_conn *conn);
/* [locked] The application waits for the peer, for octets of the body or until it has taken more of
 * the response: when it was last seen to send, or take, anything. 0: it is nothing of the peer's
 * that is waited for. */
ab_nsec ab_conn_moved(ab_conn *conn);
/* [locked] Gives the socket away: returns its descriptor, which the engine forgets, and what had
 * been read of it already in *ptr and *len, valid until the step ends and at most until
 * ab_conn_finish. All output must have been sent. To the application the connection is gone from
 * here on, without AB_EVENT_GONE; ab_conn_finish is still to be called. */
int ab_conn_detach(ab_conn *conn, const char **ptr, size_t *len);

/* How a response ended. */
enum ab_finish {
  AB_FINISH_BROKEN = 0, /* broke off; its framing shows that something is missing */
  AB_FINISH_COMPLETE = 1,
  AB_FINISH_RESET = 2 /* broke off, and only a reset can show it: the close would end the content */
};

/* [locked] The response will not end any more, or nobody waits for it: sends what the socket takes
 * and closes it, by a reset when only that can show that something is missing. The application has
 * the connection, as one whose peer has gone, until ab_conn_finish. */
void ab_conn_abandon(ab_conn *conn, enum ab_finish how);

/* [locked] The response has ended; after a broken one the connection is closed. The application
 * must not use the connection afterwards. */
void ab_conn_finish(ab_conn *conn, enum ab_finish how);
/* [locked] The request, which was taken, waits for something to run on, or does not any more: if
 * its peer has gone, also by ending its side, AB_EVENT_GONE follows. */
void ab_conn_hand_over(ab_conn *conn, bool waits);
/* [locked] Counts a request that was taken, and is answered 503 without the application all the
 * same. */
void ab_engine_note_rejection(ab_engine *engine, enum ab_rejection why);

#endif
