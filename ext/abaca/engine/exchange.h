/* An exchange: one request and its response. Internal to engine/, apart from what engine.h says.
 *
 *   complete head --> BEGUN --> (BUFFER) --> QUEUED --> APP --> (SKIP) --> over
 *                       |          |            |        |                   ^
 *                       +----------+------------+--------+-- error, or gone -+
 *
 * BEGUN   the head is here, and nothing is decided yet
 * BUFFER  the body is buffered before the request may be taken, see buffer_body.c
 * QUEUED  the request waits to be taken
 * APP     the application has the request, and reads the rest of its body from the socket; the
 *         connection may be dead meanwhile
 * SKIP    the response is given, and the little that is left of the body is thrown away
 */
#ifndef AB_ENGINE_EXCHANGE_H
#define AB_ENGINE_EXCHANGE_H

#include "base/list.h"
#include "engine/engine.h"

typedef struct ab_conn ab_conn;

enum ab_exchange_state {
  AB_EXCHANGE_FREE,
  AB_EXCHANGE_BEGUN,
  AB_EXCHANGE_BUFFER,
  AB_EXCHANGE_QUEUED,
  AB_EXCHANGE_APP,
  AB_EXCHANGE_SKIP
};

struct ab_exchange {
  ab_list event_link; /* in engine->requests or ->events, or in that of a pool (hold.h) */
  ab_conn *conn;      /* on which it is; it lives at least as long */
  void *app;
  const ab_request *request; /* parsed and not taken; in the arena, or the next */
  ab_request *own_head;      /* HTTP/2: its memory, until it was read; NULL: it has none */
  ab_body *body;             /* NULL: there is none */
  ab_nsec deadline;          /* of request_timeout, or queue_timeout. 0: none, or it has passed */
  ab_row *row;               /* while it waits; NULL: it has none */
  ab_nsec head_for;          /* how long its head came, if it came in pieces */
  ab_nsec arrived;           /* when the request was complete, so that it could be taken */
  ab_nsec rank;              /* its place in engine->requests */
  ab_route route;            /* while it waits, if that matters; or none */
  ab_nsec cost;              /* what it will compute, probably */
  uint32_t weighed;          /* how often routes had changed when its level was looked up */
  uint32_t consume;          /* bytes of the connection's input that go when it is taken */
  int32_t body_error;
  uint8_t state;         /* enum ab_exchange_state */
  uint8_t events;        /* set of enum ab_event: what is to be told */
  uint8_t level;         /* of the request that waits: lead/level.h */
  uint8_t held;          /* back, for the pool that has this place, counted from 1; 0: it is not */
  bool answers_head;     /* the request is a HEAD; this and the next are read without the lock */
  bool http_1_0;         /* the peer knows no interim responses, and no chunks */
  bool asks_close : 1;   /* the peer wants the connection closed after this */
  bool expects : 1;      /* the peer waits for "100 Continue" before it sends the body */
  bool wants_body : 1;   /* the application waits for bytes of the body */
  bool wants_room : 1;   /* the application waits for output to drain */
  bool wants_sent : 1;   /* ... until nothing is left of it */
  bool wants_turn : 1;   /* ... and until the connection's next turn */
  bool keep_decided : 1; /* ab_exchange_keep_alive was asked */
  bool keep : 1;         /* its answer */
  bool expired : 1;      /* request_timeout has passed */
  bool watched : 1;      /* it matters when the peer goes */
  bool asked : 1;        /* it was asked whether it is there */
  bool waits : 1;        /* the request has waited for more than a step */
  bool stood : 1;        /* ... while every place was taken, or held back */
  bool handed : 1;       /* the application has the request, and nothing to run it on */
  bool streams : 1;      /* its body is not buffered, whatever the rule says */
  bool measured : 1;     /* what it computes is charged to its route */
  bool framed : 1;       /* something stands around each piece of its response's content */
};

/* exchange.c: life. */

/* The connection's exchange, for a request whose head is complete. NULL without memory. A head that
 * does not stand in the arena becomes its own_head afterwards. */
ab_exchange *ab__exchange_begin(ab_conn *conn, const ab_request *request,
                                const ab_framing *framing);
/* It is over, and the connection has none any more. */
void ab__exchange_end(ab_exchange *exchange);
/* The one way from state to state. With AB_POISON it aborts at a step that is not drawn above. */
#ifdef AB_POISON
void ab__exchange_become(ab_exchange *exchange, enum ab_exchange_state state);
#else
static inline void ab__exchange_become(ab_exchange *exchange, enum ab_exchange_state state) {
  exchange->state = (uint8_t)state;
}
#endif
/* The request may be taken: the step's caller is told. */
void ab__exchange_queue(ab_exchange *exchange);
/* The queued request is dropped. */
void ab__exchange_unqueue(ab_exchange *exchange);
/* Answers it 503, and closes. */
void ab__exchange_reject(ab_exchange *exchange, enum ab_rejection why);
/* The same for a request that came after ab_engine_refuse. */
void ab__conn_reject_late(ab_conn *conn);
/* The request, which is queued, goes to the application. */
void ab__exchange_taken(ab_exchange *exchange);
/* Its head, which the application has from here on until ab_exchange_give_back. */
ab_head_loan ab__exchange_lend(ab_exchange *exchange);
/* The connection of a request that the application has is dead: tells its waiters. */
void ab__exchange_gone(ab_exchange *exchange);
/* Tells the application, which waits for the body, to look again. */
void ab__exchange_tell_body(ab_exchange *exchange, int error);
/* Asks a peer that has ended its side whether it is still there, if that matters. */
void ab__exchange_ask(ab_exchange *exchange);
/* As ab_exchange_keep_alive, which decides it. */
static inline bool ab__exchange_keeps(ab_exchange *exchange) {
  return exchange->keep_decided ? exchange->keep : ab_exchange_keep_alive(exchange);
}
/* True when what is left of the body is so little that it can be thrown away. */
bool ab__body_can_skip(const ab_exchange *exchange);
static inline bool ab__exchange_can_skip(const ab_exchange *exchange) {
  return !exchange->body || ab__body_can_skip(exchange);
}

/* deadline.c: time. */

/* From here on request_timeout counts. */
void ab__exchange_time(ab_exchange *exchange);

/* buffer_body.c: request bodies that are here before their requests are taken. */

/* Its request is queued, now or when enough of its body has been buffered, or answered with an
 * error. Returns whether another step may get further at once. */
bool ab__exchange_admit(ab_exchange *exchange, const ab_framing *framing);
/* Has the body of the request that was just parsed buffered, if the rule says so. */
bool ab__buffer_begin(ab_exchange *exchange);
/* Looks at what is here of it. Returns AB_OK when the request may be taken, AB_AGAIN when more has
 * to come, or the negative enum ab_http_error that it is to be answered with. */
int ab__buffer_look(ab_exchange *exchange);
/* Bytes to read next. */
size_t ab__buffer_room(const ab_exchange *exchange);

/* receive.c: request bodies. */

/* Throws away what is here of an unread body. True when it has ended. */
bool ab__exchange_skip(ab_exchange *exchange);

/* admission.c: what is not taken. */

/* The step has ended, and the request was not taken: from here on queue_timeout counts. */
void ab__exchange_wait(ab_exchange *exchange);
/* Drops a request that is about to be taken if its peer has gone. True when it was dropped. */
bool ab__exchange_has_left(ab_exchange *exchange);

/* queue_row.c: it waits no longer, and gives its row back, if it has one. */
void ab__exchange_hide(ab_exchange *exchange);

/* lists.c: events. */

/* Tells the application; 0 takes everything back. */
void ab__engine_event(ab_exchange *exchange, unsigned events);

#endif
