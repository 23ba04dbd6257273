/* The HTTP engine: listeners, connections and exchanges on a poller, without Ruby. It never calls
 * up: what the application has to know becomes an event of an exchange (one request and its
 * response), which the leading thread takes with ab_engine_next.
 *
 * Everything here is guarded by the poller's lock. Functions marked [locked] must be called with it
 * held (ab_engine_lock); the others take it themselves. None of them calls Ruby or blocks. One
 * thread at a time turns the engine: the one that leads (lead/lead.h). The others may answer. */
#ifndef AB_ENGINE_ENGINE_H
#define AB_ENGINE_ENGINE_H

#include "base/limits.h"
#include "base/mem.h"
#include "engine/body.h"
#include "engine/route_stats.h"
#include "http/date.h"
#include "http1/head.h"
#include "http/pattern.h"
#include "http1/proxy.h"
#include "http1/response.h"
#include "io/poller.h"
#include "io/socket.h"
#include "outbox/outbox.h"
#include "page/figures.h"
#include "page/opens.h"
#include "page/rows.h"
#include "page/page.h"
#include "tls/context.h"
#include "tls/session.h"

typedef struct ab_engine ab_engine;
typedef struct ab_exchange ab_exchange;

/* What an exchange has to tell, as bits. */
enum ab_event {
  AB_EVENT_REQUEST = 1,  /* a request waits to be taken */
  AB_EVENT_BODY = 2,     /* ab_exchange_read_body, which had nothing, is worth another call */
  AB_EVENT_DRAINED = 4,  /* output is below the mark that ab_exchange_want_room waited for */
  AB_EVENT_GONE = 8,     /* the peer has gone; the exchange lives until ab_exchange_finish */
  AB_EVENT_DEADLINE = 16 /* request_timeout has passed; told once */
};

/* mem and limits are copied. `release` gets `ctx` and the owner of
 * each borrowed slice once it is written or dropped; it is called with the lock held, perhaps in
 * another thread, and must not call the engine. Returns NULL when memory runs out. */
ab_engine *ab_engine_init(const ab_mem *mem, const ab_limits *limits, ab_outbox_release release,
                          void *ctx);
/* Detaches, closes every connection. The application must have finished all requests before. */
void ab_engine_fini(ab_engine *engine);

/* Where a listener's requests are sent to: https, the same host and path. */
typedef struct ab_redirect_terms {
  /* Hosts that are known, "*.example.com" for those with one label more; others are answered 421.
   * 0: those that certificates of the engine's listeners name. */
  const ab_view *hosts;
  size_t host_count;
  uint16_t port; /* to be named; 0: none, for 443 */
} ab_redirect_terms;

/* What applies to the connections of a listener from the first one on. */
typedef struct ab_listener_terms {
  const ab_limits *limits; /* NULL: the engine's */
  /* Set of enum ab_proxy_accept: connections begin with a PROXY header, and the source that it
   * names takes the place of the socket's address. 0: there is none. */
  unsigned proxy_accept;
  const ab_net *proxies; /* whose connections have to, and may, send one */
  size_t proxy_count;    /* 0: all */
  bool http2;            /* a client may begin with HTTP/2 at once (RFC 9113 3.3) */
  ab_tls_context *tls;   /* its connections speak TLS, behind a PROXY header; held. NULL: none do */
  bool redirects_clear;  /* HTTP in clear where TLS is spoken: 308 to https. false: 400 */
  /* Its requests are not served but redirected: 301, or 308 to other methods than GET and HEAD.
   * Health checks are answered, and ACME challenges go to the application. NULL: they are served */
  const ab_redirect_terms *redirect;
} ab_listener_terms;

/* Takes the listener; copies the terms, NULL for the usual ones. Returns AB_OK or AB_ENOMEM (then
 * the listener stays the caller's). */
int ab_engine_add_listener(ab_engine *engine, ab_listener *listener,
                           const ab_listener_terms *terms) AB_WARN_UNUSED;
/* The i-th listener, NULL behind the last. Borrowed. */
const ab_listener *ab_engine_listener(const ab_engine *engine, size_t i);
/* The i-th listener's connections from now on have `fresh`, which is held; those that are open keep
 * what they have. False, and nothing changes, if there is no such listener or it speaks no TLS. */
bool ab_engine_replace_tls(ab_engine *engine, size_t i, ab_tls_context *fresh);
/* Their socket files are removed. */
void ab_engine_close_listeners(ab_engine *engine);

/* What a peer's FIN means while its request is in the application: the peer may wait for the
 * response (RFC 9112 9.6) or have closed. Only bytes that are sent to it tell, since a closed
 * socket answers them by a reset. A request that waits for a place is dropped, but for ANSWER. */
enum ab_half_close {
  AB_HALF_CLOSE_ASK,    /* a watched peer is sent an interim response, which a client discards */
  AB_HALF_CLOSE_ANSWER, /* it waits for the response */
  AB_HALF_CLOSE_GONE    /* it has gone, also while the request waits to be taken */
};

/* To be called before attach; AB_HALF_CLOSE_ASK and false without. `watch` watches every peer. */
void ab_engine_set_half_close(ab_engine *engine, enum ab_half_close meaning, bool watch);

/* The request_timeout of some paths, in seconds, 0 for none; the first rule that matches counts,
 * and wins over the listener's. Copies the rules. Before attach. Returns AB_OK or AB_ENOMEM. */
int ab_engine_set_path_times(ab_engine *engine, const ab_path_rule *rules,
                             size_t count) AB_WARN_UNUSED;
/* Methods to serve instead of the registry's. Copies them. Before attach. AB_OK or AB_ENOMEM. */
int ab_engine_set_methods(ab_engine *engine, const ab_methods *methods) AB_WARN_UNUSED;
/* Whether the body of a request is buffered. */
enum ab_buffering {
  AB_BUFFER_NOT,     /* the application reads it as it comes */
  AB_BUFFER_UNASKED, /* it is, unless the client waits for "100 Continue" */
  AB_BUFFER_ANY      /* it is, and the client is told to send what will be held of it */
};

/* By the path, as received and without its query. Called with the lock held, perhaps without the
 * GVL; must not call the engine. */
typedef enum ab_buffering (*ab_buffering_rule)(void *ctx, ab_view path);

/* A request that the rule selects waits to be taken until its body, or max_body_memory of it, has
 * come; but not while `most` bytes are buffered in all. Before attach. */
void ab_engine_buffer_bodies(ab_engine *engine, ab_buffering_rule rule, void *ctx, uint64_t most);

/* What a health path tells. */
enum ab_health {
  AB_HEALTH_READY, /* 200; 503 once the server has retired */
  AB_HEALTH_LIVE,  /* 200 */
  AB_HEALTH_COUNT
};

/* From now on the engine itself answers GET and HEAD of the path, compared byte by byte and without
 * the query. Copies the path. Returns AB_OK or AB_ENOMEM. */
int ab_engine_set_health(ab_engine *engine, enum ab_health which, const char *path,
                         size_t len) AB_WARN_UNUSED;
/* Not ready from now on; everything else continues. Idempotent. Returns the time after which each
 * connection that is open now has been accepted: 0 unless the kernel holds silent ones back. */
ab_nsec ab_engine_retire(ab_engine *engine);

/* Another process continues with the listeners: a drain leaves them what waits in the kernel's
 * queues, keeps their socket files, and stays ready for the health path. Idempotent. */
void ab_engine_hand_over(ab_engine *engine);

/* Registers all with `poller`, borrowed until detach. Returns AB_OK, AB_ENOMEM or AB_ESYS. */
int ab_engine_attach(ab_engine *engine, ab_poller *poller, ab_nsec now) AB_WARN_UNUSED;
void ab_engine_detach(ab_engine *engine);
/* Forgets the poller without touching it: it was freed, or is the parent's; and the memory where
 * figures are kept. */
void ab_engine_abandon(ab_engine *engine);

void ab_engine_lock(ab_engine *engine);
void ab_engine_unlock(ab_engine *engine);

/* What the poller's dispatch found ready becomes the turn's batch. The caller then repeats step,
 * next until there is no event, and end_step, as long as step says so. */
void ab_engine_begin_turn(ab_engine *engine, ab_nsec now);
/* Serves the batch until a few requests wait; few, so that a connection is read, answered and
 * written while it is warm. Returns true when some of it is left; after the last deadlines pass. */
bool ab_engine_step(ab_engine *engine);
/* Sends what is pending, copies what must outlive the step, registers new connections. Returns true
 * when more work waits, so that the caller must not block. */
bool ab_engine_end_step(ab_engine *engine);
/* When the leading thread has to turn the engine at the latest; 0: never. */
ab_nsec ab_engine_deadline(ab_engine *engine);
/* [locked] True if the leading thread has to know what another thread did: there is something to do
 * now, or earlier than ab_engine_deadline last said. */
bool ab_engine_needs_turn(ab_engine *engine);
/* True if ab_engine_next, with the same `below`, or ab_engine_next_notice has something. */
bool ab_engine_tells(ab_engine *engine, uint8_t below);
/* [locked] Sets the engine's clock and date, for an answer outside its turns. */
void ab_engine_pass_time(ab_engine *engine, ab_nsec now);

/* The head of a request that was taken, on loan to the application, which reads it without the
 * lock. It lives until it is given back, whatever becomes of its connection meanwhile; until then
 * the step may not end. A loan has one holder: who passes it on has none any more. */
typedef struct ab_head_loan {
  const ab_request *request; /* NULL: passed on, or given back */
} ab_head_loan;

static inline ab_head_loan ab_head_pass_on(ab_head_loan *from) {
  ab_head_loan loan = *from;
  from->request = NULL;
  return loan;
}

/* Takes the next exchange with events, a set of enum ab_event; NULL when there is none. Requests of
 * the level `below` and above (lead/level.h) are left where they are: 0: all, AB_LEVELS: none. With
 * AB_EVENT_REQUEST the exchange is the application's until ab_exchange_finish, and *head lends its
 * head, to be given back before that. `now` is the time, or 0 if the caller would have to ask. */
ab_exchange *ab_engine_next(ab_engine *engine, uint8_t below, ab_nsec now, unsigned *events,
                            ab_head_loan *head);
/* Of a request that was taken: its level, and its route. The route is empty unless the CPU time of
 * the request is to be measured. */
uint8_t ab_exchange_level(const ab_exchange *exchange);
ab_route ab_exchange_route(const ab_exchange *exchange);
/* The next request that is taken is the first one above the lowest level, if one waits. */
void ab_engine_prefer_heavy(ab_engine *engine);
/* Requests above the lowest level that have waited for AB_LONG_WAIT or more before they were taken,
 * and the longest of those waits, since the last call. */
typedef struct ab_long_waits {
  uint64_t count;
  ab_nsec longest;
} ab_long_waits;
#define AB_LONG_WAIT (100 * AB_NSEC_PER_MS)
ab_long_waits ab_engine_take_long_waits(ab_engine *engine);
/* From now on requests have their turn by what those of their routes usually compute. Borrows
 * `routes`; NULL: no longer. Before attach. */
void ab_engine_weigh(ab_engine *engine, ab_route_stats *routes);
/* The head of the exchange's request has been read. Nothing happens if the loan is empty. */
void ab_exchange_give_back(ab_exchange *exchange, ab_head_loan *head);

/* Something for the server's log. */
typedef struct ab_notice {
  const char *what; /* "a TLS handshake": what a client has sent that is no HTTP/1; static memory */
  ab_addr peer;
} ab_notice;

/* Takes the oldest notice; false when there is none. Only a few are kept. One thread at a time. */
bool ab_engine_next_notice(ab_engine *engine, ab_notice *notice);

/* Whether no request can be taken now. Then new connections are left in the kernel's queue for a
 * moment, for other processes that listen there; longer if one of them is a worker with room. */
void ab_engine_pause(ab_engine *engine, bool paused);
/* From now on no request is taken and no connection accepted, until it is called with false. */
void ab_engine_withhold(ab_engine *engine, bool withheld);
/* The application takes `capacity` requests at once, and at most `max_queue` more may wait when a
 * step ends: the newest beyond that are answered 503. Without this, no limit. Before attach. */
void ab_engine_set_queue(ab_engine *engine, uint32_t capacity, uint32_t max_queue);
/* [locked] Other requests may wait from now on. */
void ab_engine_set_max_queue(ab_engine *engine, uint32_t max_queue);

/* [locked] This many requests in the application wait for their peers, and take no place. */
void ab_engine_set_aside(ab_engine *engine, uint32_t count);

/* [locked, as the other two] From now on holds back requests that could only wait for a pool of the
 * application's (hold.h). The seed is secret. Idempotent. Returns AB_OK or AB_ENOMEM. */
int ab_engine_hold(ab_engine *engine, uint64_t seed) AB_WARN_UNUSED;
/* This many wait now for the pool, which has `size` places and any number but 0 as its name.
 * Returns true if requests that were held back may go: the leading thread has to look. */
bool ab_engine_pool_load(ab_engine *engine, uint64_t id, uint32_t size, uint32_t waiters);
/* A request for the path, as it was received and without its query, waits for the pool. */
void ab_engine_pool_wait(ab_engine *engine, uint64_t id, ab_view path);

/* Retires, accepts no more, answers requests with `Connection: close`, tells taken-over
 * connections, and closes kept ones on which for AB_DRAIN_GRACE, from now or from the end of a
 * response that did not say so, nothing comes. After ab_engine_hand_over, siblings with room get
 * all connections between two requests instead. Idempotent. */
void ab_engine_drain(ab_engine *engine, ab_nsec now);
#define AB_DRAIN_GRACE AB_NSEC_PER_SEC
/* Since when there has been neither a new connection nor a request; 0: there is a request now. */
ab_nsec ab_engine_idle_since(ab_engine *engine);
/* After drain: nothing more goes to the application. Requests that wait to be taken, and those
 * whose heads follow, are answered 503. Idempotent. */
void ab_engine_refuse(ab_engine *engine, ab_nsec now);
/* Closes every connection at once; those that the application has get AB_EVENT_GONE. */
void ab_engine_abort(ab_engine *engine);

/* A request that waits to be taken, for introspection. */
typedef struct ab_waiting {
  ab_addr peer;
  ab_nsec arrived;
  uint32_t len;
  char line[200]; /* method, SP and target without its query, cut off behind the last byte */
} ab_waiting;

/* Copies what waits as far as there is room, what is held back first, and each oldest first.
 * Returns how many there are. */
size_t ab_engine_waiting(ab_engine *engine, ab_waiting *out, size_t room);

/* The engine counts in `figures` from now on, where counters go on from what they are;
 * NULL: in memory of its own. To be called while nothing turns the engine. */
void ab_engine_count_in(ab_engine *engine, ab_figures *figures);
/* Shows there once more what there is now, since others may have written over it. Returns when the
 * engine has turned last; 0: not yet. */
ab_nsec ab_engine_show_now(ab_engine *engine);
/* A server's workers, as one of them sees it. */
typedef struct ab_siblings {
  const ab_page *page; /* theirs; borrowed until ab_engine_part */
  uint32_t own;        /* the slot in which this one counts */
  bool moves;          /* connections with requests that wait go to workers that have less to do */
  bool computes;       /* requests in the application count as work: few of them only wait */
} ab_siblings;

/* It is one of several workers from now on, and leaves new connections to the others while it is
 * full or stalls. To be detached before ab_engine_part. Returns AB_OK or AB_ENOMEM. */
int ab_engine_join(ab_engine *engine, const ab_siblings *siblings) AB_WARN_UNUSED;
/* Idempotent. */
void ab_engine_part(ab_engine *engine);
bool ab_engine_has_siblings(const ab_engine *engine);
/* With siblings, between two steps of a turn, which may take long: it may give some of its work to
 * them. */
void ab_engine_go_on(ab_engine *engine, ab_nsec now);
/* What this engine has counted, and what there is now. */
ab_figures ab_engine_get_stats(ab_engine *engine);
/* Those that ab_engine_init was given. */
const ab_limits *ab_engine_limits(const ab_engine *engine);
/* "Date: ...\r\n" of this second, AB_DATE_LEN + 8 bytes. */
const char *ab_engine_date(const ab_engine *engine);
#define AB_DATE_FIELD_LEN (AB_DATE_LEN + 8)

/* A pointer of the application's, NULL at first. [locked: no] */
void ab_exchange_set_app(ab_exchange *exchange, void *app);
void *ab_exchange_app(const ab_exchange *exchange);

/* The socket's address, or the one that a PROXY header has named. */
const ab_addr *ab_exchange_peer(const ab_exchange *exchange);
/* When the request could be taken first: with its head, and its body if that was buffered. */
ab_nsec ab_exchange_arrived(const ab_exchange *exchange);
/* For how long before that its body was buffered. */
ab_nsec ab_exchange_buffered_for(const ab_exchange *exchange);
/* It has no body, and its head came in one piece. */
bool ab_exchange_came_at_once(const ab_exchange *exchange);
/* For how long the head came, if it came in pieces; else 0. */
ab_nsec ab_exchange_head_for(const ab_exchange *exchange);
/* NULL for a connection that came otherwise. */
const ab_listener *ab_exchange_listener(const ab_exchange *exchange);
/* Those of its listener, or the engine's. */
const ab_limits *ab_exchange_limits(const ab_exchange *exchange);

/* [locked] True when the response may leave the connection open. The first answer is final. */
bool ab_exchange_keep_alive(ab_exchange *exchange);
/* [locked] The response shall be the connection's last. */
void ab_exchange_close_after(ab_exchange *exchange);
/* [locked] True when the peer has gone, or the connection was detached: output is dropped. */
bool ab_exchange_gone(const ab_exchange *exchange);

/* [locked] As ab_exchange_gone, after a look at the socket. */
bool ab_exchange_look(ab_exchange *exchange);
/* [locked] From now on it matters when the peer of this request goes: see enum ab_half_close. */
void ab_exchange_watch_peer(ab_exchange *exchange);
/* [locked] The request has this much time from now on, in place of request_timeout; 0: no limit. */
void ab_exchange_set_time(ab_exchange *exchange, ab_nsec time);
/* [locked] Adds to what is left; once that has passed, the request has `time` from now on. Nothing
 * changes without a deadline. */
void ab_exchange_add_time(ab_exchange *exchange, ab_nsec time);
/* [locked] When request_timeout passes; 0: never, or it has passed, which ab_exchange_news tells.
 */
ab_nsec ab_exchange_deadline(const ab_exchange *exchange);
/* [locked] A set of AB_EVENT_GONE and AB_EVENT_DEADLINE: what has happened so far, told or not. */
unsigned ab_exchange_news(const ab_exchange *exchange);

/* True for a request that came over TLS: its scheme is https, unless a trusted proxy says something
 * else. Any time. */
bool ab_exchange_is_secure(const ab_exchange *exchange);
/* [locked] The TLS session of its connection, for questions; NULL without TLS, and once the
 * connection is gone. Borrowed while the lock is held. */
const ab_tls *ab_exchange_tls(const ab_exchange *exchange);
/* True for a request that came on a stream of HTTP/2. Any time. */
bool ab_exchange_is_stream(const ab_exchange *exchange);

/* The request's body; NULL when it has none. Whether there is one, its framing and its trailers,
 * once it is done, stay as they are; the rest is [locked], since a stream's body comes by itself.
 */
const ab_body *ab_exchange_body(const ab_exchange *exchange);
/* [locked] Takes up to `len` bytes of the body's content, len > 0, from what is here or straight
 * from the socket. A peer that waits for "100 Continue" gets it when nothing is here and no
 * response has begun. Returns bytes > 0; 0 at the end; AB_AGAIN: AB_EVENT_BODY follows; AB_EPEER:
 * the peer has gone or ended its side too early; a negative enum ab_http_error. An error stays. */
ssize_t ab_exchange_read_body(ab_exchange *exchange, char *buf, size_t len) AB_WARN_UNUSED;
/* [locked] Sends "100 Continue" to a peer that waits for it, before a response's head. */
void ab_exchange_continue(ab_exchange *exchange);
/* [locked] AB_EVENT_BODY is not awaited any more: no deadline counts. */
void ab_exchange_leave_body(ab_exchange *exchange);
/* [locked] Bytes of the body, framing included, and of what follows it, that are here already. */
size_t ab_exchange_input_len(const ab_exchange *exchange);
/* [locked] Why the body failed: a negative enum ab_http_error or AB_EPEER; AB_OK otherwise. */
int ab_exchange_body_error(const ab_exchange *exchange);
/* [locked] Another descriptor of the socket, for waits outside the engine; -1 if there is none, as
 * over TLS. */
int ab_exchange_duplicate(const ab_exchange *exchange);

/* --- the response: interim heads, one final head, content, the end ---
 *
 * A head is written by the caller, status line and field lines, by http1/write.h: `text` has it,
 * and behind its `len` bytes there is room for AB_HEAD_END_MAX more. What delimits its content, and
 * what becomes of the connection, is said by the exchange. All of these are [locked] but the first,
 * and return AB_OK, AB_EPEER (gone; nothing is queued) or AB_ENOMEM. */

/* Decides how the content is delimited, and writes the field that says so: the last one of a final
 * head. Returns the end; needs AB_FRAMING_MAX bytes. Any time. */
char *ab_exchange_put_framing(const ab_exchange *exchange, char *dst, ab_content *content);
/* Queues the final head. `whole` is all of its content, `count` bytes for which there is room
 * behind the head's end as well: ab_exchange_finish follows, and where nothing else can leave with
 * it, it leaves at once. NULL: the content follows. */
int ab_exchange_head(ab_exchange *exchange, char *text, size_t len, const ab_content *content,
                     const char *whole, size_t count) AB_WARN_UNUSED;
/* Queues a whole response of the server's own, in place of the application's, and sets *content to
 * the bytes of its content. */
int ab_exchange_answer_error(ab_exchange *exchange, int status, size_t *content) AB_WARN_UNUSED;
/* Sends an interim head. */
int ab_exchange_inform(ab_exchange *exchange, char *text, size_t len) AB_WARN_UNUSED;
/* Queues a head behind which another protocol begins; ab_exchange_detach follows. */
int ab_exchange_switch(ab_exchange *exchange, char *text, size_t len) AB_WARN_UNUSED;

/* Queue content, as the head has said that it is delimited; len > 0. All of it is queued, or
 * nothing. On an error a borrowed owner stays the caller's. */
int ab_exchange_write(ab_exchange *exchange, const char *ptr, size_t len) AB_WARN_UNUSED;
int ab_exchange_borrow(ab_exchange *exchange, const char *ptr, size_t len,
                       void *owner) AB_WARN_UNUSED;
int ab_exchange_file(ab_exchange *exchange, int fd, uint64_t offset, uint64_t len,
                     void *owner) AB_WARN_UNUSED;
/* Queues all that is pending in another outbox, without a copy: see ab_outbox_move. */
int ab_exchange_move(ab_exchange *exchange, ab_outbox *from, ab_outbox_adopt adopt,
                     void *ctx) AB_WARN_UNUSED;
/* Sends content at once, behind what is pending, and copies what the socket does not take. What has
 * begun and cannot be kept has ended the connection. */
int ab_exchange_send(ab_exchange *exchange, const char *ptr, size_t len) AB_WARN_UNUSED;
/* Ends the content; trailer field lines, perhaps none, follow where the framing has room. */
int ab_exchange_end(ab_exchange *exchange, const char *trailers, size_t len) AB_WARN_UNUSED;

/* [locked] Sends what the socket takes now. */
void ab_exchange_flush(ab_exchange *exchange);
/* [locked] As ab_exchange_flush, but at the end of the step, for a writer within the engine's
 * turns. Returns false, and does nothing, when the step is full. */
bool ab_exchange_flush_later(ab_exchange *exchange) AB_WARN_UNUSED;
/* [locked] True when the response has used up its share of the turn, which others wait for:
 * AB_EVENT_DRAINED follows in a later one. */
bool ab_exchange_want_turn(ab_exchange *exchange);
/* [locked] Bytes that wait to be sent. */
uint64_t ab_exchange_pending(const ab_exchange *exchange);
/* [locked] True when more than max_pending_output is pending: AB_EVENT_DRAINED follows. */
bool ab_exchange_want_room(ab_exchange *exchange);
/* [locked] True when any output is pending: AB_EVENT_DRAINED follows when all of it is sent. */
bool ab_exchange_want_sent(ab_exchange *exchange);
/* [locked] When the peer that the application waits for was last seen to send, or take, anything;
 * 0: the application does not wait for it. */
ab_nsec ab_exchange_moved(ab_exchange *exchange);
/* What the application gets of a connection that it takes over. */
typedef struct ab_handover {
  int fd;  /* the application's: another descriptor of the socket; over TLS one end of a pair, and
            * what is written to it is encrypted and sent by the engine, as long as that turns */
  int own; /* the engine's end of such a pair; -1 without TLS */
} ab_handover;

/* [locked] Makes what ab_exchange_detach gives away. AB_OK: both descriptors are the caller's to
 * close until then. AB_ESYS with errno. */
int ab_exchange_prepare_handover(const ab_exchange *exchange, ab_handover *handover) AB_WARN_UNUSED;
/* [locked] Gives the connection to the application, which owns handover->fd: the engine closes its
 * own descriptor, or takes handover->own, and neither reads nor closes that one. What had been read
 * already is in *ptr and *len, valid until the step ends and at most until ab_exchange_finish. All
 * output must have been sent. To the application the request's connection is gone from here on,
 * without AB_EVENT_GONE; ab_exchange_finish is still to be called. While the application's
 * descriptor is open the connection counts as taken over: after drain it is shut down for reading,
 * after refuse and by abort in both directions. Returns AB_OK, or AB_ENOMEM and does nothing. */
int ab_exchange_detach(ab_exchange *exchange, const ab_handover *handover, const char **ptr,
                       size_t *len) AB_WARN_UNUSED;

/* How a response ended. */
enum ab_finish {
  AB_FINISH_BROKEN = 0, /* broke off; its framing shows that something is missing */
  AB_FINISH_COMPLETE = 1,
  AB_FINISH_RESET = 2 /* broke off, and only a reset can show it: the close would end the content */
};

/* [locked] The response will not end: sends what the socket takes and closes it, by a reset if only
 * that shows the loss. The application has the exchange until ab_exchange_finish. */
void ab_exchange_abandon(ab_exchange *exchange, enum ab_finish how);

/* [locked] The exchange is over; after a broken response the connection is closed. */
void ab_exchange_finish(ab_exchange *exchange, enum ab_finish how);
/* Requests that wait have rows of these from now on; lent. NULL: none. */
void ab_engine_show_queue(ab_engine *engine, ab_rows *rows);
/* From now on connections are counted by address there; NULL: nowhere. Before the first one. */
void ab_engine_show_opens(ab_engine *engine, ab_opens *opens);
/* [locked] The request, which was taken, waits for something to run on, or no longer: if its peer
 * goes, also by ending its side, AB_EVENT_GONE follows. */
void ab_exchange_hand_over(ab_exchange *exchange, bool waits);
/* [locked] The request waits for a thread; figures and a row of the queue show that. */
void ab_exchange_await_thread(ab_exchange *exchange, ab_view method, ab_view path);
/* [locked] It no longer waits for a thread. */
void ab_exchange_end_wait(ab_exchange *exchange);
/* [locked] Counts a request that was taken as given to the application. False takes that back: the
 * request has to wait for a thread first, or is rejected. */
void ab_engine_count_begun(ab_engine *engine, bool begun);
/* [locked] Counts a request that was taken, and is answered 503 without the application. */
void ab_engine_note_rejection(ab_engine *engine, enum ab_rejection why);

#endif
