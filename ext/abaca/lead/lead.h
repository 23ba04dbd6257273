/* The lead: the right to turn an engine; see README.md. A thread that comes back stores its beat,
 * then reads the holder; the standby sets the holder, then reads the beat: one sees the other. */
#ifndef AB_LEAD_LEAD_H
#define AB_LEAD_LEAD_H

#include <pthread.h>

#include "base/list.h"
#include "lead/gate.h"
#include "lead/pulse.h"

/* What is turned. The engine is passed to each of them. */
typedef struct ab_lead_turns {
  /* Ends the step that another leader has left open. */
  void (*end_step)(void *engine);
  /* A whole turn that takes no request. Returns true when the next should follow at once. */
  bool (*turn)(void *engine, ab_nsec now);
  /* When the next turn is due; 0: when something happens. */
  ab_nsec (*deadline)(void *engine);
  /* True when there are requests below the level, or events, that only the application's side can
   * take. */
  bool (*has_news)(void *engine, uint8_t below);
  /* True when more requests than so many are in the application. */
  bool (*runs_more)(void *engine, unsigned count);
  /* Sends what was put off, whichever thread leads. */
  void (*flush)(void *engine);
  /* How many requests so far could not be taken at once. */
  uint64_t (*waited)(const void *engine);
} ab_lead_turns;

typedef struct ab_participant {
  ab_pulse pulse; /* which reads while a request is in the memory of the engine's step */
  ab_contender contender;

  /* The rest is guarded by the lead's lock; what the standby knows of the thread: */
  ab_list link;     /* in lead->participants */
  uint64_t beat;    /* when it last looked */
  ab_nsec since;    /* when it first saw this beat */
  bool deprived;    /* it lost the lead in this beat */
  bool stalled;     /* ... and is away for so much time that another thread has to lead */
  bool delays;      /* something lighter has waited since */
  bool kept;        /* it was to be reported, perhaps in vain */
  uint8_t reported; /* that it is away was told, and whether it delays others */
  ab_spent before;  /* what it had spent before this beat, once it was to be reported */
  uint64_t waited;  /* how many requests had waited when it began */
} ab_participant;

typedef struct ab_lead {
  /* NULL: the standby. Operations without a named order are seq_cst, as those on beats. */
  _Atomic(ab_participant *) holder;
  const ab_lead_turns *turns;
  void *engine;
  pthread_mutex_t lock; /* held to take the lead, and by the standby while it turns */
  ab_list participants;
  ab_gate gate;
  ab_participant passing; /* has it between ab_lead_suspend and ab_lead_pass */
} ab_lead;

/* The standby has it at first. Borrows `engine`. Returns AB_OK or AB_ENOMEM. */
int ab_lead_init(ab_lead *lead, const ab_lead_turns *turns, void *engine) AB_WARN_UNUSED;
void ab_lead_fini(ab_lead *lead);

void ab_participant_init(ab_participant *participant);
/* Takes part from now on; `bell` is the standby's, or NULL when there is none. */
void ab_lead_join(ab_lead *lead, ab_participant *participant, ab_bell *bell);
/* Takes part no more, and does not lead any more: then the standby does. */
void ab_lead_part(ab_lead *lead, ab_participant *participant);

/* The participant's thread is there. Returns whether it leads; to be asked whenever it comes back
 * from the application, before it does anything that only the leader may do. */
static inline bool ab_lead_held(ab_lead *lead, ab_participant *participant) {
  /* Relaxed: its own. Then the beat before the holder, in one order. Partner: seize, in lead.c. */
  uint64_t beat = atomic_load_explicit(&participant->pulse.beat, memory_order_relaxed);
  atomic_store(&participant->pulse.beat, (beat + 1) & ~(uint64_t)1);
  return AB_LIKELY(atomic_load(&lead->holder) == participant);
}

/* The same without coming back, for a write within a turn or beside it. Under the engine's lock a
 * yes says that the step will be ended after this, by whatever leads then. */
static inline bool ab_lead_is(const ab_lead *lead, const ab_participant *participant) {
  /* Acquire: what the last holder did is seen. Partner: the stores of the holder in lead.c. */
  return atomic_load_explicit(&lead->holder, memory_order_acquire) == participant;
}

/* Takes the lead from its holder and ends the step left open. The caller's thread must be there,
 * and hold the lock (Ruby's) without which no other participant can be turning the engine. Waits
 * for the standby's turn, which is short. Returns false if the holder reads a request. */
bool ab_lead_take(ab_lead *lead, ab_participant *participant) AB_WARN_UNUSED;
/* Takes it from the standby alone; false when that has not got it. */
bool ab_lead_claim(ab_lead *lead, ab_participant *participant) AB_WARN_UNUSED;

/* For threads of a pool, under the pool's lock; they have not joined, and the next holder ends the
 * step itself. Gives the lead to `to`; NULL: to the standby, until the next call. */
static inline void ab_lead_pass(ab_lead *lead, ab_participant *to) {
  /* What the last holder did in the engine is seen with it. Partner: ab_lead_held. */
  atomic_store(&lead->holder, to);
}
/* Takes the lead from `from` if that is away and does not read: then it is to be passed on. Returns
 * false when `from` has come back, and still leads. */
bool ab_lead_suspend(ab_lead *lead, ab_participant *from) AB_WARN_UNUSED;

/* True while a participant waits for the interpreter's lock, or may wait for it. */
bool ab_lead_starves(ab_lead *lead);

/* The participant's thread leaves with a request that is still where the engine has it. */
static inline void ab_participant_read(ab_participant *participant) {
  /* Relaxed: seen by a thread that sees the beat. Partner: seize, and take. */
  atomic_store_explicit(&participant->pulse.reading, true, memory_order_relaxed);
  ab_pulse_leave(&participant->pulse);
}
/* It needs the engine's memory no more. Idempotent. */
static inline void ab_participant_has_read(ab_participant *participant) {
  /* Release: whoever takes the lead then has the engine's memory as it was left. Partner: as above.
   */
  atomic_store_explicit(&participant->pulse.reading, false, memory_order_release);
}

/* For the standby, from a participant that is away. The lead's lock is held. */
bool ab__lead_seize(ab_lead *lead, ab_participant *participant) AB_WARN_UNUSED;

#endif
