/* The watch: the thread that called run. See rb_lead_watch.h. */
#include "rb/run/rb_lead_watch.h"

#include "rb/rack/rb_process.h"
#include "rb/run/rb_stray.h"
#include "rb/run/rb_worker_lead.h"

/* If the watch leads, no worker may take the lead up any more. The lock is held. */
static bool steers(ab_thread_pool *pool) {
  pool->steers = ab__worker_leads(&pool->watch);
  if (pool->steers) ab_pulse_return(&ab__worker_participant(&pool->watch)->pulse);
  return pool->steers;
}

/* Waits until the watch has to lead, or Ruby or a worker wants something of it. */
static void keep_watch(ab_worker *watch) {
  ab_thread_pool *pool = watch->pool;
  ab__thread_pool_lock(pool);
  while (!watch->interrupted && !pool->told && !pool->ending) {
    if (ab__worker_leads(watch) && (pool->comes || pool->steers)) break;
    pthread_cond_wait(&watch->wake, &pool->lock);
  }
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
  pthread_cond_signal(&pool->watch.wake);
  ab__thread_pool_unlock(pool);
}

/* No worker may turn the engine any more when the run ends. The lock is held. */
static void recall_lead(ab_thread_pool *pool) {
  ab_worker *lead = ab__worker_leading(pool);
  if (lead) ab__worker_take_from(lead);
  if (ab__worker_leads(&pool->watch)) return;
  if (lead) pthread_cond_signal(&lead->wake);
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
  ab__worker_participant(&pool->watch)->pulse.bell = NULL;
  ab_list_splice(&pool->workers, &pool->retired);
  ab_list_each (node, next, &pool->workers) {
    AB_CONTAINER_OF(node, ab_worker, link)->driver.runner.participant.pulse.bell = NULL;
  }
  return Qnil;
}

void ab_lead_watch_run(ab_thread_pool *pool) {
  run r = {.pool = pool};
  pool->led = true;
  ab_lead *lead = ab__worker_lead(pool);
  pool->bell = ab_standby_bell(pool->run->rack.standby);
  ab_lead_join(lead, &pool->watcher.runner.participant, pool->bell);
  ab_lead_join(lead, &pool->leader.runner.participant, pool->bell);
  ab__worker_participant(&pool->watch)->pulse.bell = pool->bell;
  pool->watch.driver.runner.thread = rb_thread_current();
  ab_lead_pass(lead, ab__worker_participant(&pool->watch));
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  r.hook = rb_internal_thread_add_event_hook(suspended, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, pool);
#endif
  rb_ensure(run_watch, (VALUE)&r, end_watch, (VALUE)&r);
}
