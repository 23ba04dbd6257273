/* The watch over the helm: the thread that called run. See rb_helm_watch.h.
 *
 * In short sleeps it looks at the hand that leads; whose request has run from one look to the next
 * loses the lead. The thread event hook does the same for a request that blocks.
 */
#include "rb/server/rb_helm_watch.h"

#include "rb/server/rb_helm.h"

/* It looks less often when nobody has lost the lead in the last so many looks. */
#define CALM_LOOKS 16
#define CALM_TIME  (3 * AB_HELM_PATIENCE)
/* So long it leaves the lead to the first thread that is done, when all are busy. */
#define REST_TIME AB_NSEC_PER_MS
/* After so many looks at a lead that runs no app code it sleeps until it runs some. */
#define IDLE_LOOKS 4

/* --- looking --- */

/* Nothing runs: until a request does, or the watch is wanted. The lock is held. */
static void fall_asleep(ab_gang *gang, ab_hand *lead, uint64_t epoch) {
  atomic_store(&gang->asleep, true);
  /* Whoever began before it could see that we sleep is seen here. */
  while (atomic_load(&gang->asleep) && atomic_load(&gang->lead) == lead &&
         atomic_load(&lead->epoch) == epoch && !gang->watch.interrupted && !gang->told &&
         !gang->ending) {
    pthread_cond_wait(&gang->watch.call, &gang->lock);
  }
  atomic_store(&gang->asleep, false);
}

/* Once, while threads come and go too fast to do it themselves. The lock is held. */
static void turn_between(ab_gang *gang) {
  gang->steers = true;
  ab__gang_unlock(gang);
  ab__helm_turn_once(gang);
  ab__gang_lock(gang);
  gang->steers = false;
}

/* What the watch remembers from look to look. */
typedef struct sight {
  ab_hand *lead;
  uint64_t epoch, offers, turns;
  unsigned idle, calm; /* looks at a lead that ran nothing; without one that has run for too long */
} sight;

/* The watch has the lead for want of threads. Most often the first one that is done takes it up:
 * then the watch sees to it only that the engine is turned at all. Returns false when nobody has
 * come, or there is more to do than that. The lock is held. */
static bool leave_lead(ab_gang *gang, sight *sight) {
  if (gang->steers || !ab__helm_is_full(gang) || ab__helm_has_chores(gang)) return false;
  if (sight->offers == gang->offers) return false;
  bool turned = sight->turns != gang->turns;
  sight->offers = gang->offers;
  sight->turns = gang->turns;
  if (!turned) {
    turn_between(gang);
    if (!ab__helm_is_full(gang)) return false;
  }
  ab__gang_sleep(gang, &gang->watch.call, REST_TIME);
  return true;
}

/* The lock is held. */
static void look_at_hand(ab_gang *gang, sight *sight, ab_hand *lead) {
  uint64_t epoch = atomic_load(&lead->epoch);
  bool runs = epoch & 1, same = lead == sight->lead && epoch == sight->epoch;
  sight->lead = lead;
  sight->epoch = epoch;
  if (runs && same) {
    if (ab__helm_take_from(gang, lead)) sight->calm = 0;
    return;
  }
  sight->idle = runs ? 0 : sight->idle + 1;
  if (sight->idle >= IDLE_LOOKS) {
    fall_asleep(gang, lead, epoch);
    sight->idle = 0;
    return;
  }
  if (sight->calm < CALM_LOOKS) sight->calm++;
  ab__gang_sleep(gang, &gang->watch.call, sight->calm < CALM_LOOKS ? AB_HELM_PATIENCE : CALM_TIME);
}

/* Looks at whoever leads, until the watch has to lead itself or Ruby wants something. The lock is
 * held. */
static void look_at_lead(ab_gang *gang) {
  sight sight = {.offers = gang->offers - 1, .turns = gang->turns - 1};
  while (!gang->watch.interrupted && !gang->told && !gang->ending) {
    ab_hand *lead = atomic_load(&gang->lead);
    if (lead != &gang->watch) {
      look_at_hand(gang, &sight, lead);
    } else if (!leave_lead(gang, &sight)) {
      return;
    }
  }
}

/* Nobody may take the lead up any more, if the watch has it. The lock is held. */
static bool steers(ab_gang *gang) {
  return gang->steers = ab__helm_leads(&gang->watch);
}

static void keep_watch(ab_hand *watch) {
  ab_gang *gang = watch->gang;
  ab__gang_lock(gang);
  look_at_lead(gang);
  bool leads = steers(gang);
  ab__gang_unlock(gang);
  if (leads) ab__helm_look_out(watch);
}

static bool watch_leads(ab_gang *gang) {
  ab__gang_lock(gang);
  bool leads = steers(gang);
  ab__gang_unlock(gang);
  return leads;
}

/* One for each request that waits for a thread, all at once: it may be long before we have the GVL
 * again. */
static void start_threads(ab_gang *gang) {
  ab_engine_stats stats = ab_engine_get_stats(gang->server->engine);
  while (stats.waiting - stats.held > gang->starting && !ab__gang_is_grown(gang)) {
    if (ab__gang_grow(gang)) continue;
    if (gang->live > 0) return;
    /* Nobody would ever answer. */
    ab_stray_end_run(gang->server, rb_exc_new_cstr(rb_eThreadError, "cannot start a thread"));
  }
}

static VALUE watch_over(VALUE arg) {
  ab_gang *gang = (ab_gang *)arg;
  while (!gang->ending) {
    VALUE exception = ab_gang_forwarded(gang);
    if (!NIL_P(exception)) ab_stray_end_run(gang->server, exception);
    if (watch_leads(gang)) {
      ab__helm_lead_on(&gang->watch);
      start_threads(gang);
      if (gang->ending) break;
    }
    ab__helm_wait(&gang->watch, keep_watch);
  }
  VALUE exception = ab_gang_forwarded(gang);
  if (!NIL_P(exception)) ab_stray_end_run(gang->server, exception);
  return Qnil;
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
/* Called on the thread that gives up the GVL. */
static void suspended(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                      void *arg) {
  (void)event;
  (void)data;
  ab_gang *gang = arg;
  ab_hand *hand = atomic_load(&gang->lead);
  if (!hand || !(atomic_load(&hand->epoch) & 1)) return;
  if (pthread_equal(hand->native, pthread_self())) ab__helm_leave(hand);
}
#endif

/* --- the run --- */

void ab__helm_watch_end(ab_gang *gang) {
  ab__gang_lock(gang);
  gang->ending = true;
  pthread_cond_signal(&gang->watch.call);
  ab__gang_unlock(gang);
}

/* Nobody may turn the engine any more when the run ends. The lock is held. */
static void recall_lead(ab_gang *gang) {
  ab_hand *lead = atomic_load(&gang->lead);
  if (lead == &gang->watch) return;
  if (atomic_load(&lead->epoch) & 1) ab__helm_take_from(gang, lead);
  if (ab__helm_leads(&gang->watch)) return;
  pthread_cond_signal(&lead->call);
  ab_poller_wakeup(gang->server->poller);
  ab__gang_sleep(gang, &gang->watch.call, AB_NSEC_PER_MS);
}

static void *recall(void *arg) {
  ab_gang *gang = arg;
  ab__gang_lock(gang);
  while (!ab__helm_leads(&gang->watch)) recall_lead(gang);
  ab__gang_unlock(gang);
  return NULL;
}

typedef struct run {
  ab_gang *gang;
  bool in_order;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  rb_internal_thread_event_hook_t *hook;
#endif
} run;

static VALUE run_watch(VALUE arg) {
  run *r = (run *)arg;
  ab_gang_begin(r->gang);
  ab_stray_guard(r->gang->server, watch_over, (VALUE)r->gang);
  r->in_order = !r->gang->server->given_up;
  return Qnil;
}

static VALUE end_watch(VALUE arg) {
  run *r = (run *)arg;
  ab_gang *gang = r->gang;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  if (r->hook) rb_internal_thread_remove_event_hook(r->hook);
#endif
  if (ab_server_forked(gang->server)) return Qnil;
  ab__helm_watch_end(gang);
  rb_nogvl(recall, gang, NULL, NULL, 0);
  ab_gang_end(gang, r->in_order);
  ab_lead_part(&gang->server->lead, &gang->watch.runner.seat);
  ab_lead_part(&gang->server->lead, &gang->leader.seat);
  return Qnil;
}

void ab_helm_watch_run(ab_gang *gang) {
  run r = {.gang = gang};
  gang->led = true;
  ab_bell *bell = ab_standby_bell(gang->server->standby);
  ab_lead_join(&gang->server->lead, &gang->watch.runner.seat, bell);
  ab_lead_join(&gang->server->lead, &gang->leader.seat, bell);
  gang->watch.runner.thread = rb_thread_current();
  atomic_store(&gang->lead, &gang->watch);
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  r.hook = rb_internal_thread_add_event_hook(suspended, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, gang);
#endif
  rb_ensure(run_watch, (VALUE)&r, end_watch, (VALUE)&r);
}
