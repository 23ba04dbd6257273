/* What a worker does with regard to its siblings: see balance.h. */
#include "engine/balance.h"

/* A worker turns each second, for its heartbeat: one that has not for this time stands still. */
#define STANDS_STILL (2500 * AB_NSEC_PER_MS)
/* Looks of a worker that is shut, AB_LOOK apart, that believe the page. */
#define TRUSTING_LOOKS 100
/* How often the kernel may tell a worker of connections before it is the last one to be told. */
#define TURNS_IN_FRONT 4

int ab_engine_join(ab_engine *engine, const ab_page *page, uint32_t own) {
  ab_balance *balance = ab_alloc_zero(&engine->mem, sizeof(*balance));
  if (!balance) return AB_ENOMEM;
  *balance = (ab_balance){.page = page, .own = own};
  ab_engine_lock(engine);
  engine->balance = balance;
  ab__engine_listen(engine); /* in another way than before */
  ab_engine_unlock(engine);
  return AB_OK;
}

void ab_engine_part(ab_engine *engine) {
  ab_free(&engine->mem, engine->balance);
  engine->balance = NULL;
}

bool ab_engine_has_siblings(const ab_engine *engine) {
  return engine->balance != NULL;
}

static void set(uint32_t *figure, uint32_t value) {
  __atomic_store_n(figure, value, __ATOMIC_RELAXED);
}

void ab__balance_note(ab_engine *engine) {
  set(&engine->stats->shut, engine->paused || engine->withheld);
  engine->balance->looks = 0;
  if (engine->paused) engine->look_at = engine->now + AB_LOOK;
}

static bool has_room(const ab_page_glance *other, ab_nsec now) {
  return other->state == AB_PAGE_SERVING && !other->shut && other->turned + STANDS_STILL > now;
}

static bool room_elsewhere(const ab_engine *engine) {
  const ab_balance *balance = engine->balance;
  for (uint32_t i = 0; i < ab_page_size(balance->page); i++) {
    if (i == balance->own) continue;
    ab_page_glance other = ab_page_glance_at(ab_page_slot_of(balance->page, i));
    if (has_room(&other, engine->now)) return true;
  }
  return false;
}

bool ab__balance_leaves(ab_engine *engine) {
  return ++engine->balance->looks % TRUSTING_LOOKS != 0 && room_elsewhere(engine);
}

void ab__balance_stand_back(ab_service *service) {
  if (++service->told % TURNS_IN_FRONT != 0) return;
  /* Without memory it stays mute until the next look (ab__balance_turn). */
  if (ab_poller_set(service->engine->poller, &service->watch, AB_POLL_IN | AB_POLL_EXCLUSIVE))
    service->watch.events = 0;
}

/* The kernel wakes one worker for a connection. If that is killed or stopped before it accepts,
 * nobody is woken again. */
static void look_at_listeners(ab_engine *engine) {
  engine->balance->looked = engine->now;
  ab__engine_listen(engine);
  ab__services_invite(engine, 1);
}

void ab__balance_turn(ab_engine *engine) {
  if (engine->now - engine->balance->looked < AB_NSEC_PER_SEC) return;
  bool shut = engine->paused || engine->withheld || engine->rest_until;
  if (!shut && !engine->draining) look_at_listeners(engine);
}
