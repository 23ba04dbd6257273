/* The gate: which requests compute, where one thread at a time has the interpreter's lock.
 *
 * What is begun is ended first: a request begins beside others only if it is lighter than all that
 * compute, so that of equally heavy ones no two take the lock from each other. For a lighter one
 * the thread that computes parks, when it has had its slice: it waits here, without the lock, until
 * the lighter ones are done. So at most one heavy thread of ours wants the lock at a time.
 *
 * It says nothing about threads that are not ours, and nothing waits for one that blocks. */
#ifndef AB_LEAD_GATE_H
#define AB_LEAD_GATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "lead/level.h"
#include "lead/pulse.h"
#include "os/cpu_time.h"

/* What a thread does with the interpreter's lock, as far as the interpreter says. */
enum ab_grip {
  AB_GRIP_HAS,   /* it has it, or the interpreter does not say */
  AB_GRIP_GONE,  /* it has given it up, in a call that waits or computes without it */
  AB_GRIP_WANTS, /* it waits for it */
  AB_GRIP_MASK
};

/* A thread that runs requests. It computes while its pulse is away and not starved. */
typedef struct ab_contender {
  ab_list link; /* in gate->contenders */
  const ab_pulse *pulse;
  /* The beat in which it runs something known to be heavy, and the level. Partner: level_of. */
  _Atomic uint64_t beat_claimed;
  _Atomic uint8_t level_claimed;
  _Atomic uint32_t grip; /* enum ab_grip; above it, how often it has changed */

  /* The rest is guarded by the gate's lock. */
  ab_os_thread_clock clock;
  uint64_t beat;         /* of which the following is known */
  ab_nsec from, used;    /* CPU time of the thread: when that began, and at the last look */
  ab_nsec since;         /* the time when it began */
  ab_nsec looked;        /* the time of that */
  bool blocks;           /* it had hardly computed since the look before */
  bool blocked;          /* so it was at some look of the beat */
  uint32_t grip_seen;    /* `grip` at the last look */
  ab_nsec grip_since;    /* the time when a look first saw that */
  bool gone;             /* that is AB_GRIP_GONE for long enough: nothing waits for the thread */
  ab_nsec parked_for;    /* the time in which it was ever parked, ... */
  ab_nsec parked_before; /* ... and before that beat */

  ab_list parked;       /* in gate->parked */
  pthread_cond_t wake;  /* while it is parked */
  bool woken;           /* it is to go on */
  bool goes_on;         /* it does, and has not been seen to compute since */
  bool interrupted;     /* the interpreter wants something of it */
  ab_nsec slice_from;   /* CPU time of the thread when it last went on ... */
  ab_nsec slice_since;  /* ... and the time */
  ab_nsec slice_length; /* how long it computes before it parks */
} ab_contender;

typedef struct ab_gate {
  pthread_mutex_t lock;
  ab_list contenders;
  ab_list parked; /* lightest first; of one level, the last one that has parked */
  _Atomic unsigned parked_count;
  /* The leader has left requests to wait that are of this level at least, and is to be told when
   * they may begin; 0: it has not. */
  _Atomic uint8_t shut;
  ab_nsec ran_at; /* CPU time of the process when something heavy last computed */
} ab_gate;

/* Returns AB_OK or AB_ENOMEM. */
int ab_gate_init(ab_gate *gate) AB_WARN_UNUSED;
void ab_gate_fini(ab_gate *gate);

/* The calling thread takes part, with this pulse, and no longer. */
void ab_gate_join(ab_gate *gate, ab_contender *self, const ab_pulse *pulse);
void ab_gate_part(ab_gate *gate, ab_contender *self);

/* The same for a thread that runs no requests, and parks once, as something heavy. */
void ab_gate_join_for_once(ab_contender *self, ab_pulse *pulse);
void ab_gate_part_for_once(ab_contender *self);

/* In the beat that has begun the calling thread runs a request of this level. */
void ab_gate_claim(ab_gate *gate, ab_contender *self, uint8_t level);

/* The contender does this with the interpreter's lock. Any thread, but one at a time. */
static inline void ab_gate_tell_grip(ab_contender *contender, enum ab_grip grip) {
  uint32_t before = atomic_load_explicit(&contender->grip, memory_order_relaxed);
  uint32_t count = (before & ~(uint32_t)AB_GRIP_MASK) + AB_GRIP_MASK + 1;
  atomic_store(&contender->grip, count | grip);
}

/* Requests may begin that are below this level: AB_LEVELS: all; the lightest may always. */
uint8_t ab_gate_below(ab_gate *gate, const ab_contender *self);

/* Has the leader left requests to wait, and may one of them begin now? */
bool ab_gate_has_opened(ab_gate *gate);

/* Has light work gone on for long enough while nothing heavy had begun, so that something heavy is
 * to begin before what is lighter? */
bool ab_gate_owes_heavy(ab_gate *gate);

/* For the standby: notes what the threads have computed, and which block. */
void ab_gate_look(ab_gate *gate);
/* What a thread has spent since it takes part. */
typedef struct ab_spent {
  ab_nsec used;   /* CPU time; 0: not known */
  ab_nsec parked; /* time */
} ab_spent;

/* Until now; and until its beat began, or until now if nobody has looked since. */
ab_spent ab_gate_spent(ab_gate *gate, const ab_contender *contender);
ab_spent ab_gate_spent_before(ab_gate *gate, const ab_contender *contender, uint64_t beat);
/* What the thread has computed in its beat, as of the last look; UINT64_MAX: it blocks. */
ab_nsec ab_gate_used(ab_gate *gate, const ab_contender *contender, uint64_t beat);
/* What the calling thread has computed since its request was first seen, and to be safe a little
 * more. UINT64_MAX: it is not known. */
ab_nsec ab_gate_used_here(ab_gate *gate, const ab_contender *self);
/* How long the calling thread has been off the processor in this beat, as far as is known. With
 * `blocks`, time in blocking calls counts too; without it, a beat with such a call returns 0. */
ab_nsec ab_gate_lost_here(ab_gate *gate, const ab_contender *self, bool blocks);
/* The level of what it runs; 0 when it does not. */
uint8_t ab_gate_level(const ab_contender *contender);

/* With the interpreter's lock: has the calling thread had its slice, and wants another that is
 * lighter the lock, or is one parked? `waits`: some thread waits for the lock. */
bool ab_gate_yields(ab_gate *gate, ab_contender *self, bool waits);
/* Without it: waits for lighter work to be done. `wanted`: more of that is on its way. Returns the
 * time for which it waited. */
ab_nsec ab_gate_park(ab_gate *gate, ab_contender *self, bool (*wanted)(void *ctx), void *ctx);
/* The interpreter wants the parked thread. Any thread; idempotent. */
void ab_gate_interrupt(ab_gate *gate, ab_contender *contender);
/* The calling thread is about to wait for something else than the interpreter's lock, which it has:
 * the first one that is parked may go on. */
static inline void ab_gate_rest(ab_gate *gate, const ab_contender *self);

void ab__gate_wake(ab_gate *gate, const ab_contender *self);
static inline void ab_gate_rest(ab_gate *gate, const ab_contender *self) {
  /* Relaxed: one parks with the interpreter's lock, which the calling thread has. */
  unsigned count = atomic_load_explicit(&gate->parked_count, memory_order_relaxed);
  if (AB_UNLIKELY(count > 0)) ab__gate_wake(gate, self);
}

#endif
