/* Loops lead in turns, the standby seizes the lead from those that are away, and only one of them
 * is in the engine at a time: what is in it is no atomic, so that ThreadSanitizer tells (`rake
 * races`).
 */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "lead/lead.h"

#define ROUNDS 30000
#define LOOPS  2

typedef struct stage {
  ab_lead lead;
  ab_participant loops[LOOPS];
  ab_bell bell;        /* nobody waits for it */
  pthread_mutex_t gvl; /* Ruby's lock: whoever has it may take the lead from another loop */
  unsigned engine;     /* whoever leads counts here */
  atomic_uint led, seized, taken, read, running;
} stage;

static void end_step(void *engine) {
  ++*(unsigned *)engine;
}

static const ab_lead_turns turns = {.end_step = end_step};

/* The standby's looks, each with a turn where it leads. */
static void *stand_by(void *arg) {
  stage *self = arg;
  while (atomic_load(&self->running) > 0) {
    pthread_mutex_lock(&self->lead.lock);
    ab_participant *holder = atomic_load(&self->lead.holder);
    if (holder && (atomic_load(&holder->pulse.beat) & 1) && ab__lead_seize(&self->lead, holder))
      atomic_fetch_add(&self->seized, 1);
    if (!atomic_load(&self->lead.holder)) self->engine++;
    pthread_mutex_unlock(&self->lead.lock);
    sched_yield();
  }
  return NULL;
}

/* With Ruby's lock: a turn, and a request that it is away in. */
static void turn(stage *self, ab_participant *own, unsigned i) {
  if (!ab_lead_held(&self->lead, own)) {
    if (!ab_lead_take(&self->lead, own)) return;
    atomic_fetch_add(&self->taken, 1);
  }
  self->engine++;
  atomic_fetch_add(&self->led, 1);
  if (i % 2) {
    ab_participant_read(own);
    self->engine++; /* the request is still where the engine has it */
    ab_participant_has_read(own);
    atomic_fetch_add(&self->read, 1);
  } else {
    ab_pulse_leave(&own->pulse);
  }
}

typedef struct part {
  stage *stage;
  ab_participant *own;
} part;

static void *run_loop(void *arg) {
  part *self = arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&self->stage->gvl);
    turn(self->stage, self->own, i);
    pthread_mutex_unlock(&self->stage->gvl);
    if (i % 16 == 0) sched_yield();
  }
  pthread_mutex_lock(&self->stage->gvl);
  ab_lead_part(&self->stage->lead, self->own);
  pthread_mutex_unlock(&self->stage->gvl);
  atomic_fetch_sub(&self->stage->running, 1);
  return NULL;
}

CHECK_CASE(one_at_a_time_is_in_the_engine) {
  stage self;
  memset(&self, 0, sizeof self);
  CHECK_INT(AB_OK, ab_lead_init(&self.lead, &turns, &self.engine));
  CHECK_INT(AB_OK, ab_bell_init(&self.bell));
  CHECK_INT(0, pthread_mutex_init(&self.gvl, NULL));
  atomic_store(&self.running, LOOPS);
  pthread_t standby, threads[LOOPS];
  part parts[LOOPS];
  for (int i = 0; i < LOOPS; i++) {
    ab_participant_init(&self.loops[i]);
    ab_lead_join(&self.lead, &self.loops[i], &self.bell);
    parts[i] = (part){&self, &self.loops[i]};
  }
  CHECK_INT(0, pthread_create(&standby, NULL, stand_by, &self));
  for (int i = 0; i < LOOPS; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, run_loop, &parts[i]));
  for (int i = 0; i < LOOPS; i++) pthread_join(threads[i], NULL);
  pthread_join(standby, NULL);
  CHECK(atomic_load(&self.led) > 0 && atomic_load(&self.taken) > 0 && atomic_load(&self.read) > 0);
  CHECK(atomic_load(&self.seized) > 0);
  CHECK(self.engine >= atomic_load(&self.led) + atomic_load(&self.read));
  CHECK(!atomic_load(&self.lead.holder));
  ab_lead_fini(&self.lead);
  ab_bell_fini(&self.bell);
  pthread_mutex_destroy(&self.gvl);
}

CHECK_MAIN()
