/* The gate: see gate.h. All that has the lock does little with it, and calls nothing. */
#include "lead/gate.h"

#include <errno.h>

#include "io/timer.h"
#include "os/process.h"
#include "os/time.h"

/* A thread computes for this time before it parks. After longer work of others it has what that
 * took, so that much light work does not stop the heavy. */
#define SLICE      (5 * AB_NSEC_PER_MS)
#define SLICE_MOST (20 * AB_NSEC_PER_MS)
/* A thread may keep the interpreter's lock and hardly compute, in a call that blocks or on a busy
 * machine: then it parks after this many times the time. */
#define WALL 4
/* Requests wait for no thread that has computed for this time. One that has it for so many times as
 * long, and cannot have computed all the while, counts like one that has computed. */
#define ENDLESS (5 * AB_NSEC_PER_SEC)
#define LATE    8
/* A thread that computes for less than this share of the time, and could not more, blocks. */
#define HARDLY 20
/* ... and is looked at no more often than this: it takes system calls to know. */
#define BLOCK_LOOK (2 * AB_NSEC_PER_MS)
/* One that has given up the interpreter's lock for less is about to want it back: nothing begins in
 * the pauses of a page that is compressed piece by piece. */
#define GONE_TIME (2 * AB_NSEC_PER_MS)
/* The first one that is parked looks so often whether the interpreter's lock is of use to others,
 * and goes on when the process has computed for the longer time without anything heavy. */
#define TICK     AB_NSEC_PER_MS
#define PATIENCE (100 * AB_NSEC_PER_MS)

/* --- life --- */

int ab_gate_init(ab_gate *gate) {
  ab_list_init(&gate->contenders);
  ab_list_init(&gate->parked);
  atomic_init(&gate->parked_count, 0);
  atomic_init(&gate->shut, 0);
  gate->ran_at = 0;
  return pthread_mutex_init(&gate->lock, NULL) == 0 ? AB_OK : AB_ENOMEM;
}

void ab_gate_fini(ab_gate *gate) {
  pthread_mutex_destroy(&gate->lock);
}

static void gate_begin(ab_contender *self, const ab_pulse *pulse) {
  *self = (ab_contender){.pulse = pulse, .clock = ab_os_thread_clock_here()};
  ab_list_init(&self->link);
  ab_list_init(&self->parked);
  self->slice_length = SLICE;
  ab_os_cond_init(&self->wake);
}

void ab_gate_join(ab_gate *gate, ab_contender *self, const ab_pulse *pulse) {
  gate_begin(self, pulse);
  pthread_mutex_lock(&gate->lock);
  ab_list_append(&gate->contenders, &self->link);
  pthread_mutex_unlock(&gate->lock);
}

void ab_gate_part(ab_gate *gate, ab_contender *self) {
  if (!self->pulse) return;
  pthread_mutex_lock(&gate->lock);
  ab_list_remove(&self->link);
  pthread_mutex_unlock(&gate->lock);
  pthread_cond_destroy(&self->wake);
  self->pulse = NULL;
}

void ab_gate_join_for_once(ab_contender *self, ab_pulse *pulse) {
  *pulse = (ab_pulse){.beat = 1};
  gate_begin(self, pulse);
  self->beat = 1;
  self->level_claimed = 1;
  self->beat_claimed = 1;
}

void ab_gate_part_for_once(ab_contender *self) {
  pthread_cond_destroy(&self->wake);
}

/* --- who computes --- */

static bool gate_is_away(uint64_t beat) {
  return beat & 1;
}

static uint64_t beat_of(const ab_contender *contender) {
  /* Before what else the pulse says, which was stored before it. Partner: ab_pulse_leave. */
  return atomic_load(&contender->pulse->beat);
}

static bool is_parked(const ab_contender *contender) {
  return !ab_list_empty(&contender->parked);
}

static uint8_t gate_level_of(const ab_contender *contender, uint64_t beat) {
  /* The level is stored first. Partner: claim. */
  if (atomic_load(&contender->beat_claimed) != beat) return 0;
  return atomic_load(&contender->level_claimed);
}

static void gate_claim(ab_contender *contender, uint64_t beat, uint8_t level) {
  atomic_store(&contender->level_claimed, level);
  atomic_store(&contender->beat_claimed, beat);
}

uint8_t ab_gate_level(const ab_contender *contender) {
  return contender->pulse ? gate_level_of(contender, beat_of(contender)) : 0;
}

static void begin_beat(ab_contender *contender, uint64_t beat, ab_nsec used) {
  contender->beat = beat;
  contender->from = contender->used = used;
  contender->since = contender->looked = ab_clock_monotonic();
  contender->parked_before = contender->parked_for;
  contender->blocks = contender->blocked = false;
}

void ab_gate_claim(ab_gate *gate, ab_contender *self, uint8_t level) {
  if (AB_UNLIKELY(!self->pulse)) return;
  ab_nsec used = ab_os_thread_cpu_time(), process = ab_os_process_cpu_time();
  pthread_mutex_lock(&gate->lock);
  begin_beat(self, beat_of(self), used);
  gate_claim(self, self->beat, level);
  gate->ran_at = process;
  pthread_mutex_unlock(&gate->lock);
}

/* Does it compute, or would, if it were not parked? */
static bool computes(const ab_contender *contender, uint64_t beat) {
  if (!gate_is_away(beat)) return false;
  if (is_parked(contender) || contender->woken || contender->goes_on) return true;
  if (atomic_load(&contender->pulse->starved)) return false;
  uint32_t grip = atomic_load(&contender->grip);
  if (grip != contender->grip_seen) return true; /* nobody has looked since */
  if (grip & AB_GRIP_MASK) return !contender->gone;
  return contender->beat != beat || !contender->blocks;
}

uint8_t ab_gate_below(ab_gate *gate, const ab_contender *self) {
  uint8_t below = AB_LEVELS;
  pthread_mutex_lock(&gate->lock);
  ab_list_each (node, next, &gate->contenders) {
    const ab_contender *other = AB_CONTAINER_OF(node, ab_contender, link);
    uint64_t beat = beat_of(other);
    if (other == self || !computes(other, beat)) continue;
    uint8_t level = gate_level_of(other, beat);
    if (level < below) below = level;
  }
  pthread_mutex_unlock(&gate->lock);
  return below > 0 ? below : 1;
}

bool ab_gate_has_opened(ab_gate *gate) {
  uint8_t shut = atomic_load(&gate->shut);
  return AB_UNLIKELY(shut > 0) && ab_gate_below(gate, NULL) > shut;
}

bool ab_gate_owes_heavy(ab_gate *gate) {
  ab_nsec used = ab_os_process_cpu_time();
  pthread_mutex_lock(&gate->lock);
  bool owes = used - gate->ran_at >= SLICE_MOST;
  pthread_mutex_unlock(&gate->lock);
  return owes;
}

/* --- looking --- */

/* Above all levels it is in nobody's way any more: it may never end. */
static uint8_t level_now(ab_nsec used, ab_nsec time) {
  if (time / LATE > used) used = time / LATE;
  return used >= ENDLESS ? AB_LEVELS : ab_level_of(used);
}

/* A thread that was just told to go on waits for the interpreter's lock; it does not block. */
static void look_for_block(ab_contender *contender, ab_nsec used, ab_nsec now) {
  bool hardly = used - contender->used < (now - contender->looked) / HARDLY;
  contender->blocks =
      hardly && !contender->goes_on && !ab_os_thread_is_runnable(contender->clock.thread);
  contender->blocked |= contender->blocks;
  contender->used = used;
  contender->looked = now;
}

/* Returns whether it may compute: not while it waits for the interpreter's lock. */
static bool look_at_grip(ab_contender *contender, ab_nsec now) {
  uint32_t grip = atomic_load(&contender->grip);
  if (grip != contender->grip_seen) {
    contender->grip_seen = grip;
    contender->grip_since = now;
  }
  bool gone = (grip & AB_GRIP_MASK) == AB_GRIP_GONE;
  contender->gone = gone && now - contender->grip_since >= GONE_TIME;
  return (grip & AB_GRIP_MASK) != AB_GRIP_WANTS && !atomic_load(&contender->pulse->starved);
}

static void gate_look_at(ab_contender *contender, ab_nsec now) {
  uint64_t beat = beat_of(contender);
  /* Of one that cannot compute there is nothing new, and it takes system calls to know. */
  if (!gate_is_away(beat) || is_parked(contender) || !look_at_grip(contender, now)) return;
  ab_nsec used = ab_os_thread_clock_read(&contender->clock);
  if (!contender->woken && used != contender->slice_from) contender->goes_on = false;
  if (contender->beat != beat) {
    begin_beat(contender, beat, used);
    return;
  }
  if (now - contender->looked >= BLOCK_LOOK) look_for_block(contender, used, now);
  uint8_t level = level_now(used - contender->from, now - contender->since);
  if (level > gate_level_of(contender, beat)) gate_claim(contender, beat, level);
}

/* Does something heavy compute, or is about to? */
static bool heavy_computes(const ab_gate *gate, const ab_contender *self) {
  ab_list_each (node, next, &gate->contenders) {
    const ab_contender *other = AB_CONTAINER_OF(node, ab_contender, link);
    uint64_t beat = beat_of(other);
    if (other == self || is_parked(other) || !computes(other, beat)) continue;
    if (gate_level_of(other, beat) > 0) return true;
  }
  return false;
}

void ab_gate_look(ab_gate *gate) {
  ab_nsec now = ab_clock_monotonic();
  pthread_mutex_lock(&gate->lock);
  ab_list_each (node, next, &gate->contenders) {
    gate_look_at(AB_CONTAINER_OF(node, ab_contender, link), now);
  }
  if (heavy_computes(gate, NULL)) gate->ran_at = ab_os_process_cpu_time();
  pthread_mutex_unlock(&gate->lock);
}

static ab_spent spent(const ab_contender *contender) {
  bool known = contender->pulse && contender->clock.known;
  return (ab_spent){known ? ab_os_thread_clock_read(&contender->clock) : 0, contender->parked_for};
}

ab_spent ab_gate_spent(ab_gate *gate, const ab_contender *contender) {
  pthread_mutex_lock(&gate->lock);
  ab_spent now = spent(contender);
  pthread_mutex_unlock(&gate->lock);
  return now;
}

ab_spent ab_gate_spent_before(ab_gate *gate, const ab_contender *contender, uint64_t beat) {
  pthread_mutex_lock(&gate->lock);
  ab_spent before = spent(contender);
  if (contender->beat == beat) before.parked = contender->parked_before;
  if (contender->beat == beat && before.used) before.used = contender->from;
  pthread_mutex_unlock(&gate->lock);
  return before;
}

ab_nsec ab_gate_used(ab_gate *gate, const ab_contender *contender, uint64_t beat) {
  pthread_mutex_lock(&gate->lock);
  bool known = contender->pulse && contender->beat == beat && contender->clock.known;
  ab_nsec used = known ? contender->used - contender->from : 0;
  if (!contender->pulse || !contender->clock.known || (known && contender->blocks))
    used = UINT64_MAX;
  pthread_mutex_unlock(&gate->lock);
  return used;
}

ab_nsec ab_gate_used_here(ab_gate *gate, const ab_contender *self) {
  if (!self->pulse) return UINT64_MAX;
  ab_nsec used = ab_os_thread_cpu_time();
  pthread_mutex_lock(&gate->lock);
  ab_nsec from = self->beat == beat_of(self) ? self->from : used;
  pthread_mutex_unlock(&gate->lock);
  return used > from ? used - from : 0;
}

ab_nsec ab_gate_lost_here(ab_gate *gate, const ab_contender *self, bool blocks) {
  if (!self->pulse) return 0;
  ab_nsec used = ab_os_thread_cpu_time(), now = ab_clock_monotonic();
  pthread_mutex_lock(&gate->lock);
  uint64_t beat = beat_of(self);
  bool known = gate_is_away(beat) && self->beat == beat && (blocks || !self->blocked);
  ab_nsec time = now - self->since, computed = used - self->from;
  pthread_mutex_unlock(&gate->lock);
  return known && time > computed ? time - computed : 0;
}

/* --- parking --- */

static ab_contender *first_parked(const ab_gate *gate) {
  if (ab_list_empty(&gate->parked)) return NULL;
  return AB_CONTAINER_OF(gate->parked.next, ab_contender, parked);
}

static bool slice_is_over(const ab_contender *self, ab_nsec used) {
  ab_nsec from = self->slice_from > self->from ? self->slice_from : self->from;
  ab_nsec since = self->slice_since > self->since ? self->slice_since : self->since;
  return used - from >= self->slice_length ||
         ab_clock_monotonic() - since >= WALL * self->slice_length;
}

bool ab_gate_yields(ab_gate *gate, ab_contender *self, bool waits) {
  ab_nsec used = ab_os_thread_cpu_time();
  bool yields = false;
  pthread_mutex_lock(&gate->lock);
  uint64_t beat = beat_of(self);
  if (self->beat != beat) begin_beat(self, beat, used);
  if (slice_is_over(self, used)) {
    const ab_contender *first = first_parked(gate);
    yields = waits || (first && gate_level_of(first, first->beat) < gate_level_of(self, beat));
  }
  pthread_mutex_unlock(&gate->lock);
  return yields;
}

/* Behind those that are lighter, before the others of its level: what was begun last is ended
 * first. */
static void add_parked(ab_gate *gate, ab_contender *self) {
  uint8_t level = gate_level_of(self, self->beat);
  ab_list *before = &gate->parked;
  while (before->next != &gate->parked) {
    const ab_contender *next = AB_CONTAINER_OF(before->next, ab_contender, parked);
    if (gate_level_of(next, next->beat) >= level) break;
    before = before->next;
  }
  ab_list_insert_between(&self->parked, before, before->next);
  atomic_fetch_add_explicit(&gate->parked_count, 1, memory_order_relaxed);
}

static void unpark(ab_gate *gate, ab_contender *self) {
  ab_list_remove(&self->parked);
  ab_list_init(&self->parked);
  atomic_fetch_sub_explicit(&gate->parked_count, 1, memory_order_relaxed);
  const ab_contender *first = first_parked(gate);
  if (first) pthread_cond_signal(&((ab_contender *)first)->wake); /* it ticks from now on */
}

/* Does another thread have, or want, the interpreter's lock? `idle`: one that is not runnable, and
 * does not wait for the lock, does not count. */
static bool others_compute(const ab_gate *gate, const ab_contender *self, bool idle) {
  ab_list_each (node, next, &gate->contenders) {
    const ab_contender *other = AB_CONTAINER_OF(node, ab_contender, link);
    if (other == self || is_parked(other) || !gate_is_away(beat_of(other))) continue;
    if (!idle || ab_os_thread_is_runnable(other->clock.thread)) return true;
  }
  return false;
}

typedef struct tick {
  ab_nsec at, used; /* the time, and the CPU time of the process then */
} tick;

static tick tick_now(void) {
  return (tick){ab_clock_monotonic(), ab_os_process_cpu_time()};
}

/* Is there nothing left to wait for, as far as the first one that is parked can tell? Light work
 * may be over without a word, wait for something, or for a lock of the application's that this
 * thread has. */
static bool may_go_on(ab_gate *gate, const ab_contender *self, const tick *last, bool wanted) {
  tick now = tick_now();
  if (heavy_computes(gate, self)) gate->ran_at = now.used;
  if (now.used - gate->ran_at >= PATIENCE) return true;
  if (wanted) return false; /* whoever has the lock, it is not idle */
  if (!others_compute(gate, self, false)) return true;
  bool idle = now.used - last->used < (now.at - last->at) / 2;
  return idle && !others_compute(gate, self, true);
}

static void wait_parked(ab_gate *gate, ab_contender *self, bool (*wanted)(void *ctx), void *ctx) {
  while (!self->woken && !self->interrupted) {
    if (first_parked(gate) != self) {
      pthread_cond_wait(&self->wake, &gate->lock);
      continue;
    }
    tick last = tick_now();
    if (ab_os_cond_wait(&self->wake, &gate->lock, last.at + TICK) != ETIMEDOUT) continue;
    pthread_mutex_unlock(&gate->lock);
    bool more = wanted(ctx); /* which takes other locks */
    pthread_mutex_lock(&gate->lock);
    if (may_go_on(gate, self, &last, more)) return;
  }
}

ab_nsec ab_gate_park(ab_gate *gate, ab_contender *self, bool (*wanted)(void *ctx), void *ctx) {
  tick from = tick_now();
  bool more = wanted(ctx);
  pthread_mutex_lock(&gate->lock);
  gate->ran_at = from.used;
  ab_contender *lighter = first_parked(gate);
  add_parked(gate, self);
  /* Nobody else would wake it. */
  if (!more && lighter && first_parked(gate) == lighter) {
    lighter->woken = true;
    unpark(gate, lighter);
    pthread_cond_signal(&lighter->wake);
  }
  wait_parked(gate, self, wanted, ctx);
  if (is_parked(self)) unpark(gate, self);
  tick now = tick_now();
  gate->ran_at = now.used;
  self->woken = self->interrupted = false;
  self->goes_on = true;
  self->slice_from = ab_os_thread_cpu_time();
  self->slice_since = now.at;
  self->parked_for += now.at - from.at;
  ab_nsec length = now.used - from.used;
  self->slice_length = length < SLICE ? SLICE : length > SLICE_MOST ? SLICE_MOST : length;
  pthread_mutex_unlock(&gate->lock);
  return now.at - from.at;
}

void ab_gate_interrupt(ab_gate *gate, ab_contender *contender) {
  pthread_mutex_lock(&gate->lock);
  contender->interrupted = true;
  pthread_cond_signal(&contender->wake);
  pthread_mutex_unlock(&gate->lock);
}

void ab__gate_wake(ab_gate *gate, const ab_contender *self) {
  pthread_mutex_lock(&gate->lock);
  ab_contender *first = first_parked(gate);
  if (first && !heavy_computes(gate, self)) {
    first->woken = true;
    unpark(gate, first);
    pthread_cond_signal(&first->wake);
  }
  pthread_mutex_unlock(&gate->lock);
}
