/* The lead: taking it and giving it away. Everything here happens only when somebody stalls. */
#include "engine/lead.h"

int ab_lead_init(ab_lead *lead, ab_engine *engine) {
  atomic_init(&lead->holder, NULL);
  lead->engine = engine;
  ab_list_init(&lead->seats);
  return pthread_mutex_init(&lead->lock, NULL) == 0 ? AB_OK : AB_ENOMEM;
}

void ab_lead_fini(ab_lead *lead) {
  pthread_mutex_destroy(&lead->lock);
}

void ab_seat_init(ab_seat *seat) {
  *seat = (ab_seat){0};
  ab_list_init(&seat->link);
}

void ab_lead_join(ab_lead *lead, ab_seat *seat, ab_bell *bell) {
  pthread_mutex_lock(&lead->lock);
  seat->pulse.bell = bell;
  ab_list_append(&lead->seats, &seat->link);
  pthread_mutex_unlock(&lead->lock);
}

void ab_lead_part(ab_lead *lead, ab_seat *seat) {
  pthread_mutex_lock(&lead->lock);
  ab_list_remove(&seat->link);
  seat->pulse.bell = NULL;
  if (atomic_load(&lead->holder) == seat) {
    atomic_store(&lead->holder, NULL);
    ab_engine_end_step(lead->engine);
  }
  pthread_mutex_unlock(&lead->lock);
}

static bool take(ab_lead *lead, ab_seat *seat, bool from_anybody) {
  pthread_mutex_lock(&lead->lock);
  ab_seat *holder = atomic_load(&lead->holder);
  bool free = !holder || (from_anybody && !atomic_load(&holder->pulse.reading));
  if (free && holder != seat) {
    atomic_store(&lead->holder, seat);
    ab_engine_end_step(lead->engine);
  }
  pthread_mutex_unlock(&lead->lock);
  return free || holder == seat;
}

bool ab_lead_take(ab_lead *lead, ab_seat *seat) {
  return take(lead, seat, true);
}

bool ab_lead_claim(ab_lead *lead, ab_seat *seat) {
  return take(lead, seat, false);
}

bool ab_lead_starves(ab_lead *lead) {
  bool starves = false;
  pthread_mutex_lock(&lead->lock);
  ab_list_each (node, tmp, &lead->seats) {
    const ab_seat *seat = AB_CONTAINER_OF(node, ab_seat, link);
    if (ab_pulse_waits(&seat->pulse)) starves = true;
  }
  pthread_mutex_unlock(&lead->lock);
  return starves;
}

bool ab__lead_seize(ab_lead *lead, ab_seat *seat) {
  ab_seat *expected = seat;
  if (!atomic_compare_exchange_strong(&lead->holder, &expected, NULL)) return false;
  bool away = atomic_load(&seat->pulse.beat) & 1;
  /* A request is read from before the thread left; so a beat that was seen shows that as well. */
  if (away && !atomic_load(&seat->pulse.reading)) {
    ab_engine_end_step(lead->engine);
    return true;
  }
  atomic_store(&lead->holder, seat);
  return false;
}
