/* A run without a loop. The main thread, which called run, runs no request, and sleeps without the
 * GVL. When no thread is idle it has the lead, and starts threads for requests while there may be
 * more. When there may not, it leaves the lead to the first thread that is done: where all wait
 * most of the time none is woken for a request but by what it has waited for. */
#include "rb/rack/rb_process.h"
#include "rb/run/rb_thread_parts.h"

/* If the main thread leads, no worker may take the lead up any more. */
static bool steers(ab_thread_pool *pool) {
  ab__threads_lock(pool);
  pool->steers = ab__worker_leads(&pool->main);
  if (pool->steers) ab_pulse_return(&ab__worker_participant(&pool->main)->pulse);
  ab__threads_unlock(pool);
  return pool->steers;
}

static void wait_to_lead(ab_worker *main) {
  ab_thread_pool *pool = main->pool;
  ab__threads_lock(pool);
  while (!main->interrupted && !pool->told && !pool->ending) {
    if (ab__worker_leads(main) && (pool->comes || pool->steers)) break;
    pthread_cond_wait(&main->wake, &pool->lock);
  }
  ab__threads_unlock(pool);
  if (steers(pool)) ab__worker_look_out(main);
}

/* One for each request that waits, all at once: it may be long before we have the GVL again. */
static void start_threads(ab_thread_pool *pool) {
  ab_figures stats = ab_engine_get_stats(pool->run->rack.engine);
  while (stats.waiting - stats.held > pool->starting && !ab__threads_is_grown(pool)) {
    if (ab__threads_grow(pool)) continue;
    if (pool->live > 0) return;
    /* They would never be answered. */
    ab_stray_end_run(pool->run, rb_exc_new_cstr(rb_eThreadError, "cannot start a thread"));
  }
}

static VALUE serve_all(VALUE arg) {
  ab_thread_pool *pool = (ab_thread_pool *)arg;
  while (!pool->ending) {
    ab_thread_pool_raise(pool);
    if (steers(pool)) {
      ab__worker_lead_on(&pool->main);
      start_threads(pool);
    }
    if (!pool->ending) ab__worker_wait(&pool->main, wait_to_lead);
  }
  ab_thread_pool_raise(pool);
  return Qnil;
}

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
/* Called on the thread that gives up the GVL. */
static void suspended(rb_event_flag_t event AB_UNUSED,
                      const rb_internal_thread_event_data_t *data AB_UNUSED, void *arg) {
  ab_thread_pool *pool = arg;
  ab_participant *holder = atomic_load(&ab__threads_lead(pool)->holder);
  if (!holder || !(atomic_load(&holder->pulse.beat) & 1)) return; /* only a worker is away */
  ab_worker *worker = ab__worker_of(holder);
  if (pthread_equal(worker->native, pthread_self())) ab__worker_leave(worker);
}
#endif

/* --- the run --- */

/* No worker may turn the engine any more when the run ends. The lock is held. */
static void recall_lead(ab_thread_pool *pool) {
  ab_participant *holder = atomic_load(&ab__threads_lead(pool)->holder);
  ab_worker *lead = holder ? ab__worker_of(holder) : NULL; /* the standby */
  if (lead) ab__worker_take_from(lead);
  if (ab__worker_leads(&pool->main)) return;
  if (lead) pthread_cond_signal(&lead->wake);
  ab_poller_wakeup(pool->run->rack.poller);
  ab__threads_sleep(pool, &pool->main.wake, AB_NSEC_PER_MS);
}

static void *recall(void *arg) {
  ab_thread_pool *pool = arg;
  ab__threads_lock(pool);
  while (!ab__worker_leads(&pool->main)) recall_lead(pool);
  ab__threads_unlock(pool);
  return NULL;
}

typedef struct run {
  ab_thread_pool *pool;
  bool in_order;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  rb_internal_thread_event_hook_t *hook;
#endif
} run;

static VALUE run_all(VALUE arg) {
  run *r = (run *)arg;
  ab_thread_pool_begin(r->pool);
  ab_stray_guard(r->pool->run, serve_all, (VALUE)r->pool);
  r->in_order = !r->pool->run->ending.given_up;
  return Qnil;
}

static VALUE all_ended(VALUE arg) {
  run *r = (run *)arg;
  ab_thread_pool *pool = r->pool;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  if (r->hook) rb_internal_thread_remove_event_hook(r->hook);
#endif
  if (ab_rack_forked(&pool->run->rack)) return Qnil;
  ab__threads_stop(pool);
  rb_nogvl(recall, pool, NULL, NULL, 0);
  ab_thread_pool_end(pool, r->in_order);
  ab_lead_part(ab__threads_lead(pool), &pool->main_wait.runner.participant);
  ab_lead_part(ab__threads_lead(pool), &pool->leader_wait.runner.participant);
  ab__worker_participant(&pool->main)->pulse.bell = NULL;
  ab_list_splice(&pool->workers, &pool->retired);
  ab_list_each (node, next, &pool->workers) {
    AB_CONTAINER_OF(node, ab_worker, link)->driver.runner.participant.pulse.bell = NULL;
  }
  return Qnil;
}

void ab_thread_pool_run(ab_thread_pool *pool) {
  run r = {.pool = pool};
  pool->led = true;
  ab_lead *lead = ab__threads_lead(pool);
  pool->bell = ab_standby_bell(pool->run->rack.standby);
  ab_lead_join(lead, &pool->main_wait.runner.participant, pool->bell);
  ab_lead_join(lead, &pool->leader_wait.runner.participant, pool->bell);
  ab__worker_participant(&pool->main)->pulse.bell = pool->bell;
  pool->main.driver.runner.thread = rb_thread_current();
  ab_lead_pass(lead, ab__worker_participant(&pool->main));
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  r.hook = rb_internal_thread_add_event_hook(suspended, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, pool);
#endif
  rb_ensure(run_all, (VALUE)&r, all_ended, (VALUE)&r);
}
