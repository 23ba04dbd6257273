/* The lead: taking it and giving it away. */
#include "lead/lead.h"

int ab_lead_init(ab_lead *lead, const ab_lead_turns *turns, void *engine) {
  atomic_init(&lead->holder, NULL);
  lead->turns = turns;
  lead->engine = engine;
  ab_list_init(&lead->participants);
  ab_participant_init(&lead->passing);
  int err = ab_gate_init(&lead->gate);
  if (err != AB_OK) return err;
  if (pthread_mutex_init(&lead->lock, NULL) == 0) return AB_OK;
  ab_gate_fini(&lead->gate);
  return AB_ENOMEM;
}

void ab_lead_fini(ab_lead *lead) {
  ab_gate_fini(&lead->gate);
  pthread_mutex_destroy(&lead->lock);
}

void ab_participant_init(ab_participant *participant) {
  *participant = (ab_participant){0};
  ab_list_init(&participant->link);
}

void ab_lead_join(ab_lead *lead, ab_participant *participant, ab_bell *bell) {
  pthread_mutex_lock(&lead->lock);
  participant->pulse.bell = bell;
  ab_list_append(&lead->participants, &participant->link);
  pthread_mutex_unlock(&lead->lock);
}

void ab_lead_part(ab_lead *lead, ab_participant *participant) {
  pthread_mutex_lock(&lead->lock);
  ab_list_remove(&participant->link);
  participant->pulse.bell = NULL;
  if (atomic_load(&lead->holder) == participant) {
    atomic_store(&lead->holder, NULL);
    lead->turns->end_step(lead->engine);
  }
  pthread_mutex_unlock(&lead->lock);
}

static bool take(ab_lead *lead, ab_participant *participant, bool from_anybody) {
  pthread_mutex_lock(&lead->lock);
  ab_participant *holder = atomic_load(&lead->holder);
  /* Of loops only one has Ruby's lock, by which it sees what the others did; `reading` may become
   * false without it. Partner: ab_participant_has_read. */
  bool free = !holder || (from_anybody && !atomic_load(&holder->pulse.reading));
  if (free && holder != participant) {
    atomic_store(&lead->holder, participant);
    lead->turns->end_step(lead->engine);
  }
  pthread_mutex_unlock(&lead->lock);
  return free || holder == participant;
}

bool ab_lead_take(ab_lead *lead, ab_participant *participant) {
  return take(lead, participant, true);
}

bool ab_lead_claim(ab_lead *lead, ab_participant *participant) {
  return take(lead, participant, false);
}

bool ab_lead_starves(ab_lead *lead) {
  bool starves = false;
  pthread_mutex_lock(&lead->lock);
  ab_list_each (node, tmp, &lead->participants) {
    const ab_participant *participant = AB_CONTAINER_OF(node, ab_participant, link);
    if (ab_pulse_waits(&participant->pulse)) starves = true;
  }
  pthread_mutex_unlock(&lead->lock);
  return starves;
}

/* From a participant that is away and does not read, to the other. */
static bool seize(ab_lead *lead, ab_participant *from, ab_participant *to) {
  ab_participant *expected = from;
  /* The holder before the beat, in one order. Partner: ab_lead_held. */
  if (!atomic_compare_exchange_strong(&lead->holder, &expected, to)) return false;
  bool away = atomic_load(&from->pulse.beat) & 1;
  /* A request is read from before the thread left; so a beat that was seen shows that as well. */
  if (away && !atomic_load(&from->pulse.reading)) return true;
  atomic_store(&lead->holder, from);
  return false;
}

bool ab__lead_seize(ab_lead *lead, ab_participant *participant) {
  if (!seize(lead, participant, NULL)) return false;
  lead->turns->end_step(lead->engine);
  return true;
}

bool ab_lead_suspend(ab_lead *lead, ab_participant *from) {
  return seize(lead, from, &lead->passing);
}
