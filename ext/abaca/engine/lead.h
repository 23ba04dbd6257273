/* The lead: the right to turn the engine (to wait in its poller and dispatch, and to call
 * ab_engine_begin_turn, _step, _next and _end_step). One has it at a time: one of the threads that
 * run requests, each on a seat of its own, or the standby (engine/standby.h), which turns the
 * engine while the thread that leads is away in the application.
 *
 * A thread that comes back from the application asks whether it still leads (ab_lead_held): two
 * atomic operations. The standby takes the lead only from a thread that is away and does not read a
 * request in the engine's memory (ab_seat_read): it first takes, then looks whether the thread is
 * away, and gives it back if not; the thread first says that it is there, then looks who leads. So
 * one of them sees the other.
 */
#ifndef AB_ENGINE_LEAD_H
#define AB_ENGINE_LEAD_H

#include <pthread.h>

#include "base/list.h"
#include "engine/engine.h"
#include "io/pulse.h"

/* The seat of a thread that may lead. */
typedef struct ab_seat {
  ab_pulse pulse; /* which reads while a request is in the memory of the engine's step */

  /* The rest is guarded by the lead's lock; what the standby knows of the thread: */
  ab_list link;  /* in lead->seats */
  uint64_t beat; /* when it last looked */
  ab_nsec since; /* when it first saw this beat */
  bool deprived; /* it lost the lead in this beat */
  bool stalled;  /* ... and is away for so long that another thread shall lead */
  bool reported; /* that it is away was told */
} ab_seat;

typedef struct ab_lead {
  _Atomic(ab_seat *) holder; /* NULL: the standby */
  ab_engine *engine;
  pthread_mutex_t lock; /* held by whoever takes the lead, and by the standby while it turns */
  ab_list seats;
} ab_lead;

/* Nobody leads at first. Returns AB_OK or AB_ENOMEM. */
int ab_lead_init(ab_lead *lead, ab_engine *engine) AB_WARN_UNUSED;
void ab_lead_fini(ab_lead *lead);

void ab_seat_init(ab_seat *seat);
/* Takes part from now on; `bell` is the standby's, or NULL when there is none. */
void ab_lead_join(ab_lead *lead, ab_seat *seat, ab_bell *bell);
/* Takes part no more, and does not lead any more: then the standby does. */
void ab_lead_part(ab_lead *lead, ab_seat *seat);

/* The seat's thread is there. Returns whether it leads; to be asked whenever it comes back from the
 * application, before it does anything that only the leader may do. */
static inline bool ab_lead_held(ab_lead *lead, ab_seat *seat) {
  uint64_t beat = atomic_load_explicit(&seat->pulse.beat, memory_order_relaxed);
  atomic_store(&seat->pulse.beat, (beat + 1) & ~(uint64_t)1);
  return AB_LIKELY(atomic_load(&lead->holder) == seat);
}

/* The same without coming back, for who writes within a turn or beside it. Under the engine's lock
 * a yes says that the step will be ended after this, whoever does it. */
static inline bool ab_lead_is(const ab_lead *lead, const ab_seat *seat) {
  return atomic_load_explicit(&lead->holder, memory_order_acquire) == seat;
}

/* Takes the lead from whoever has it, and ends the step that the other has left open. The caller's
 * thread must be there, and know that no other thread with a seat is turning the engine (all of
 * them need a lock of which the caller has the only one: Ruby's). The standby's turn is waited for:
 * it is short. Returns false when the other reads a request. */
bool ab_lead_take(ab_lead *lead, ab_seat *seat) AB_WARN_UNUSED;
/* Takes it from the standby alone; false when that has not got it. */
bool ab_lead_claim(ab_lead *lead, ab_seat *seat) AB_WARN_UNUSED;

/* True while a thread with a seat waits for the interpreter's lock, or, as far as one who has that
 * lock can tell, may wait for it. */
bool ab_lead_starves(ab_lead *lead);

/* The seat's thread leaves with a request that is still where the engine has it. */
static inline void ab_seat_read(ab_seat *seat) {
  /* Seen by whoever sees the beat. */
  atomic_store_explicit(&seat->pulse.reading, true, memory_order_relaxed);
  ab_pulse_leave(&seat->pulse);
}
/* It needs the engine's memory no more. Idempotent. */
static inline void ab_seat_has_read(ab_seat *seat) {
  atomic_store_explicit(&seat->pulse.reading, false, memory_order_release);
}

/* Takes the lead from the seat's thread, for the standby, if that is away. The lead's lock is held.
 */
bool ab__lead_seize(ab_lead *lead, ab_seat *seat) AB_WARN_UNUSED;

#endif
