/* Requests that wait for their own clients: for octets of the body, or until enough of the response
 * has left. Up to max_slow_clients of them, on fibers and on threads each, are *aside*: they take
 * no place from requests that could run. Those beyond keep their places, and when requests wait for
 * these the clients that are slowest are closed.
 *
 * Who is aside goes on as soon as its client moves, without a place if there is none: it may hold
 * what those who have places wait for. So there are never more fibers than max_fibers and
 * max_slow_clients together, and never more threads than `threads` and those.
 *
 * A single place is not left: who asks for one request at a time means it. Everything here needs
 * the GVL unless it says otherwise.
 */
#ifndef AB_RB_SLOW_H
#define AB_RB_SLOW_H

#include "base/list.h"
#include "engine/engine.h"

struct ab_server;
struct ab_exchange;

/* Of one exchange. */
enum ab_slow_state {
  AB_SLOW_NOT,
  AB_SLOW_HELD,   /* it waits, and keeps its place */
  AB_SLOW_ASIDE,  /* ... and takes none */
  AB_SLOW_LEAVING /* its client was closed */
};

/* Those on fibers, or on threads; both lists in the order in which they have begun to wait, and all
 * of `aside` before the first of `held`. */
typedef struct ab_slow_kind {
  ab_list aside, held;
  unsigned aside_count, held_count;
  unsigned most;      /* aside at once */
  unsigned leaving;   /* whose clients were closed, and that have not ended yet */
  ab_nsec dropped_at; /* when the last one was */
} ab_slow_kind;

typedef struct ab_slow {
  ab_slow_kind fibers, threads;
  _Atomic bool crowded; /* there are more than can be aside */
  _Atomic ab_nsec looked;
  uint64_t closed; /* clients, so far */
} ab_slow;

/* `fibers` and `threads` are the places that there are. */
void ab_slow_init(struct ab_server *server, unsigned fibers, unsigned threads);
/* The request's own fiber or thread begins to wait for its client. False for any other, and then
 * there is no end to be told. */
bool ab_slow_begin(struct ab_exchange *exchange);
/* It waits no more. */
void ab_slow_end(struct ab_exchange *exchange);
/* The request is over, whose client was closed. */
void ab_slow_left(struct ab_exchange *exchange);

/* When ab_slow_look may have something to do; 0: nothing. Without the GVL too. */
ab_nsec ab_slow_due(const struct ab_server *server);
/* Closes the slowest clients, if requests wait for the places that their requests hold. To be
 * called by whoever leads, after its turn. */
void ab_slow_look(struct ab_server *server, ab_nsec now);

#endif
