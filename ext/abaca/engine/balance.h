/* Balance between the workers of a server, which listen at the same sockets. Internal to engine/.
 *
 * The kernel wakes one of those that wait (AB_POLL_EXCLUSIVE). A worker that is full, or whose
 * application keeps its loop, leaves new connections to the others, as long as one of them seems to
 * have room; the page says which do.
 *
 * Connections that are kept stay where they were accepted, however busy that worker becomes. So
 * each worker estimates how long a request would wait: what those before it compute, at the
 * worker's own pace, and the time by which the present one takes longer than it should. Where that
 * is more than the mean of all, connections go into the relay, those whose requests would wait
 * longest first, until it is the mean, and a worker below the mean takes them, as from a listener.
 * Thus a request moves only if that shortens its own wait by more than it lengthens that of others.
 * What nobody has taken after a moment comes back. In the same way a worker that drains while
 * others go on hands on its connections. All functions run with the lock held. */
#ifndef AB_ENGINE_BALANCE_H
#define AB_ENGINE_BALANCE_H

#include "engine/conn.h"

typedef struct ab_balance {
  ab_siblings siblings;
  ab_watch watch;  /* of the relay's end where connections come out; fd -1: none move */
  int relay;       /* the other end */
  uint32_t budget; /* connections that may still be taken from the relay in this turn */
  uint32_t looks;  /* while it is shut: that found room elsewhere, in a row */
  ab_nsec wait;    /* how long a request that comes now will wait, at least */
  ab_nsec peak;    /* ... at most, at `peaked`, without what is overdue: as in the page */
  ab_nsec peaked;
  ab_nsec woke;             /* when the engine had waited for events last */
  ab_nsec begun, turn_time; /* of this turn; how long the last one took, if this followed at once */
  double busy, done;        /* time in which requests waited, and what those taken had to cost */
  ab_nsec taken;            /* what those cost that were taken since the last measure */
  ab_nsec last;             /* the time that the one taken last should take */
  ab_nsec due;        /* when that should be over; 0: the engine has waited for events since */
  uint64_t given;     /* connections, in all */
  ab_nsec looked;     /* when every listener, and the relay, was last looked at */
  ab_nsec sampled;    /* when pressure was measured last */
  ab_nsec offer_at;   /* no connection goes before */
  ab_nsec return_at;  /* until then what is in the relay is left to others; 0: it is not */
  ab_nsec hand_on_at; /* while it drains: when all idle connections are offered; 0: none are */
  uint8_t insists;    /* turns, this one included, in which what is in the relay has had its time */
  bool called;        /* there is something in it */
  bool rests;         /* the engine waits for events */
  bool waited;        /* requests did, at the last measure */
} ab_balance;

/* A turn begins, with its batch. */
void ab__balance_turn(ab_engine *engine);
/* When the next one is due; 0: none is. */
static inline ab_nsec ab__balance_deadline(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  return balance ? ab_earlier(balance->return_at, balance->hand_on_at) : 0;
}
/* Between two steps: measures how much waits, and may give some of it away. In a long turn accepts
 * some of the connections that the others had the time to take. */
void ab__balance_go_on(ab_engine *engine);
/* A request was taken that should cost this. */
void ab__balance_took(ab_engine *engine, ab_nsec cost);
/* The engine is about to wait for events. */
void ab__balance_rest(ab_engine *engine);
/* Whether new connections are left to the others has changed. */
void ab__balance_note(ab_engine *engine);
/* While it is shut: whether what waits in the kernel's queues is left to the others even now. */
bool ab__balance_leaves(ab_engine *engine);
/* A listener has connections. */
void ab__balance_stand_back(ab_service *service);
/* Whether the poller shall tell of the relay. */
void ab__balance_listen(ab_engine *engine, bool listen);
/* So many connections may be taken from the relay in this turn. */
void ab__balance_invite(ab_engine *engine, uint32_t budget);
/* Takes one connection from the relay. False when there are no more for this step. */
bool ab__balance_adopt(ab_engine *engine);

#endif
