/* The watch over the lead: the thread that called run. See rb_lead_watch.h.
 *
 * In short sleeps it looks at the worker that leads; whose request has run from one look to the
 * next loses the lead. The thread event hook does the same for a request that blocks.
 */
#include "rb/run/rb_lead_watch.h"

#include "rb/rack/rb_process.h"
#include "rb/run/rb_stray.h"
#include "rb/run/rb_worker_lead.h"

/* It looks less often when no thread has lost the lead in as many looks. */
#define CALM_LOOKS 16
#define CALM_TIME  (3 * AB_LEAD_PATIENCE)
/* When all are busy it leaves the lead to the first thread that is done for this time. */
#define REST_TIME AB_NSEC_PER_MS
/* After as many looks at a leader that runs no app code it sleeps until that runs some. */
#define IDLE_LOOKS 4

/* --- looking --- */

/* What the watch remembers from look to look. */
typedef struct sight {
  ab_thread_pool *pool;
  ab_worker *lead;
  uint64_t beat, offers, turns;
  unsigned idle, calm; /* looks at a lead that ran nothing; without one that has run for too long */
} sight;

static uint64_t beat_of(ab_worker *worker) {
  return atomic_load(&ab__worker_participant(worker)->pulse.beat);
}

/* Is the watch wanted, for anything else than a worker that it has seen there? The lock is held. */
static bool is_called(const ab_thread_pool *pool) {
  return pool->watch.interrupted || pool->told || pool->ending;
}

/* The same, or has something changed since the look? */
static bool is_wanted(void *arg) {
  const sight *sight = arg;
  ab_thread_pool *pool = sight->pool;
  ab__thread_pool_lock(pool);
  bool wanted =
      is_called(pool) || !ab__worker_leads(sight->lead) || beat_of(sight->lead) != sight->beat;
  ab__thread_pool_unlock(pool);
  return wanted;
}

/* Nothing runs: until a request does, or the watch is wanted. The lock is held. */
static void fall_asleep(sight *sight) {
  ab_thread_pool *pool = sight->pool;
  ab__thread_pool_unlock(pool);
  ab_bell_await(&pool->bell, -1, AB_POLL_FOREVER, is_wanted, sight);
  ab__thread_pool_lock(pool);
}

/* Once, while threads come and go too fast to do it themselves. The lock is held. */
static void turn_between(ab_thread_pool *pool) {
  pool->steers = true;
  ab__thread_pool_unlock(pool);
  ab__worker_turn_once(pool);
  ab__thread_pool_lock(pool);
  pool->steers = false;
}

/* The watch has the lead for want of threads. Usually the first worker that is done takes it up:
 * then the watch only sees to it that the engine is turned at all. Returns false if none has come,
 * or there is more to do than that. The lock is held. */
static bool leave_lead(ab_thread_pool *pool, sight *sight) {
  if (pool->steers || !ab__worker_is_full(pool) || ab__worker_has_housekeeping(pool)) return false;
  if (sight->offers == pool->offers) return false;
  bool turned = sight->turns != pool->turns;
  sight->offers = pool->offers;
  sight->turns = pool->turns;
  if (!turned) {
    turn_between(pool);
    if (!ab__worker_is_full(pool)) return false;
  }
  ab__thread_pool_sleep(pool, &pool->watch.wake, REST_TIME);
  return true;
}

/* The lock is held. */
static void look_at_worker(ab_thread_pool *pool, sight *sight, ab_worker *lead) {
  uint64_t beat = beat_of(lead);
  bool runs = beat & 1, same = lead == sight->lead && beat == sight->beat;
  sight->lead = lead;
  sight->beat = beat;
  if (runs && same) {
    if (ab__worker_take_from(pool, lead)) sight->calm = 0;
    return;
  }
  sight->idle = runs ? 0 : sight->idle + 1;
  if (sight->idle >= IDLE_LOOKS) {
    fall_asleep(sight);
    sight->idle = 0;
    return;
  }
  if (sight->calm < CALM_LOOKS) sight->calm++;
  ab__thread_pool_sleep(pool, &pool->watch.wake,
                        sight->calm < CALM_LOOKS ? AB_LEAD_PATIENCE : CALM_TIME);
}

/* Watches the leader, until the watch has to lead itself or Ruby wants something. The lock is
 * held. */
static void look_at_lead(ab_thread_pool *pool) {
  sight sight = {.pool = pool, .offers = pool->offers - 1, .turns = pool->turns - 1};
  while (!is_called(pool)) {
    ab_worker *lead = ab__worker_leading(pool);
    if (lead != &pool->watch) {
      look_at_worker(pool, &sight, lead);
    } else if (!leave_lead(pool, &sight)) {
      return;
    }
  }
}

/* No worker may take up the lead any more, if the watch has it. The lock is held. */
static bool steers(ab_thread_pool *pool) {
  return pool->steers = ab__worker_leads(&pool->watch);
}

static void keep_watch(ab_worker *watch) {
  ab_thread_pool *pool = watch->pool;
  ab__thread_pool_lock(pool);
  look_at_lead(pool);
  bool leads = steers(pool);
  ab__thread_pool_unlock(pool);
  if (leads) ab__worker_look_out(watch);
}

static bool watch_leads(ab_thread_pool *pool) {
  ab__thread_pool_lock(pool);
  bool leads = steers(pool);
  ab__thread_pool_unlock(pool);
  return leads;
}

/* One for each request that waits for a thread, all at once: it may be long before we have the GVL
 * again. */
static void start_threads(ab_thread_pool *pool) {
  ab_engine_stats stats = ab_engine_get_stats(pool->run->rack.engine);
  while (stats.waiting - stats.held > pool->starting && !ab__thread_pool_is_grown(pool)) {
    if (ab__thread_pool_grow(pool)) continue;
    if (pool->live > 0) return;
    /* They would never be answered. */
    ab_stray_end_run(pool->run, rb_exc_new_cstr(rb_eThreadError, "cannot start a thread"));
  }
}

static VALUE watch_over(VALUE arg) {
  ab_thread_pool *pool = (ab_thread_pool *)arg;
  while (!pool->ending) {
    VALUE exception = ab_thread_pool_forwarded(pool);
    if (!NIL_P(exception)) ab_stray_end_run(pool->run, exception);
    if (watch_leads(pool)) {
      ab__worker_lead_on(&pool->watch);
      start_threads(pool);
      if (pool->ending) break;
    }
    ab__worker_wait(&pool->watch, keep_watch);
  }
  VALUE exception = ab_thread_pool_forwarded(pool);
  if (!NIL_P(exception)) ab_stray_end_run(pool->run, exception);
  return Qnil;
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
/* Called on the thread that gives up the GVL. */
static void suspended(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                      void *arg) {
  (void)event;
  (void)data;
  ab_thread_pool *pool = arg;
  const ab_participant *holder = atomic_load(&ab__worker_lead(pool)->holder);
  if (!holder || !(atomic_load(&holder->pulse.beat) & 1)) return; /* only a worker is away */
  ab_worker *worker = AB_CONTAINER_OF(ab_driver_of_participant(holder), ab_worker, driver);
  if (pthread_equal(worker->native, pthread_self())) ab__worker_leave(worker);
}
#endif

/* --- the run --- */

void ab__lead_watch_end(ab_thread_pool *pool) {
  ab__thread_pool_lock(pool);
  pool->ending = true;
  ab__worker_wake(&pool->watch);
  ab__thread_pool_unlock(pool);
}

/* No worker may turn the engine any more when the run ends. The lock is held. */
static void recall_lead(ab_thread_pool *pool) {
  ab_worker *lead = ab__worker_leading(pool);
  if (lead == &pool->watch) return;
  if (ab__worker_is_away(lead)) ab__worker_take_from(pool, lead);
  if (ab__worker_leads(&pool->watch)) return;
  pthread_cond_signal(&lead->wake);
  ab_poller_wakeup(pool->run->rack.poller);
  ab__thread_pool_sleep(pool, &pool->watch.wake, AB_NSEC_PER_MS);
}

static void *recall(void *arg) {
  ab_thread_pool *pool = arg;
  ab__thread_pool_lock(pool);
  while (!ab__worker_leads(&pool->watch)) recall_lead(pool);
  ab__thread_pool_unlock(pool);
  return NULL;
}

typedef struct run {
  ab_thread_pool *pool;
  bool in_order;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  rb_internal_thread_event_hook_t *hook;
#endif
} run;

static VALUE run_watch(VALUE arg) {
  run *r = (run *)arg;
  ab_thread_pool_begin(r->pool);
  ab_stray_guard(r->pool->run, watch_over, (VALUE)r->pool);
  r->in_order = !r->pool->run->ending.given_up;
  return Qnil;
}

static VALUE end_watch(VALUE arg) {
  run *r = (run *)arg;
  ab_thread_pool *pool = r->pool;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  if (r->hook) rb_internal_thread_remove_event_hook(r->hook);
#endif
  if (ab_rack_forked(&pool->run->rack)) return Qnil;
  ab__lead_watch_end(pool);
  rb_nogvl(recall, pool, NULL, NULL, 0);
  ab_thread_pool_end(pool, r->in_order);
  ab_lead_part(ab__worker_lead(pool), &pool->watcher.runner.participant);
  ab_lead_part(ab__worker_lead(pool), &pool->leader.runner.participant);
  ab_bell_fini(&pool->bell);
  return Qnil;
}

void ab_lead_watch_run(ab_thread_pool *pool) {
  run r = {.pool = pool};
  pool->led = true;
  if (ab_bell_init(&pool->bell) != AB_OK) rb_sys_fail("cannot watch the threads");
  ab_lead *lead = ab__worker_lead(pool);
  ab_bell *bell = ab_standby_bell(pool->run->rack.standby);
  ab_lead_join(lead, &pool->watcher.runner.participant, bell);
  ab_lead_join(lead, &pool->leader.runner.participant, bell);
  pool->watch.driver.runner.thread = rb_thread_current();
  ab_lead_pass(lead, ab__worker_participant(&pool->watch));
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  r.hook = rb_internal_thread_add_event_hook(suspended, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, pool);
#endif
  rb_ensure(run_watch, (VALUE)&r, end_watch, (VALUE)&r);
}
