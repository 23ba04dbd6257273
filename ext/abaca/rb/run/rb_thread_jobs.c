/* Requests that a loop hands over to the pool as jobs: given to an idle thread, or queued. */
#include "rb/rack/rb_lookup.h"
#include "rb/run/rb_thread_parts.h"
#include "rb/run/rb_turn.h"

/* --- giving --- */

/* Locked: a thread that is about to wait either is found here, or finds the job. */
static bool give(ab_thread_pool *pool, ab_job *job) {
  ab_list *node = ab__threads_has_surplus(pool) ? NULL : ab_list_shift(&pool->idle);
  if (!node) return false;
  ab_worker *worker = AB_CONTAINER_OF(node, ab_worker, idle_link);
  worker->job = job;
  pool->given++;
  pthread_cond_signal(&worker->wake);
  return true;
}

void ab__threads_call_idle(ab_thread_pool *pool) {
  if (pool->job_count == 0 || ab__threads_has_surplus(pool)) return;
  ab__threads_lock(pool);
  if (!ab_list_empty(&pool->idle)) {
    pthread_cond_signal(&AB_CONTAINER_OF(pool->idle.next, ab_worker, idle_link)->wake);
  }
  ab__threads_unlock(pool);
}

static ab_view text_of(const ab_thread_pool *pool, const ab_job *job, enum ab_env_string key) {
  return ab_env_text(&pool->run->rack.env, job->taken.env, key);
}

/* The job waits for a thread, or no longer. When all threads are there, a client that leaves
 * meanwhile has asked nothing. */
static void hand_over(ab_thread_pool *pool, ab_job *job, bool waits) {
  ab_engine *engine = pool->run->rack.engine;
  ab_exchange *exchange = job->taken.exchange;
  ab_view method = {"", 0}, path = method;
  if (waits) {
    method = text_of(pool, job, AB_ENV_REQUEST_METHOD);
    path = text_of(pool, job, AB_ENV_PATH_INFO);
  }
  bool told = waits ? ab__threads_is_grown(pool) : job->waits;
  job->waits = waits && told;
  ab_engine_lock(engine);
  ab_engine_count_begun(engine, !waits);
  if (waits) {
    ab_exchange_await_thread(exchange, method, path);
  } else {
    ab_exchange_end_wait(exchange);
  }
  if (told) ab_exchange_hand_over(exchange, waits);
  ab_engine_unlock(engine);
}

void ab__threads_place(ab_thread_pool *pool, ab_job *job, bool first) {
  ab__threads_lock(pool);
  bool given = give(pool, job);
  if (!given) {
    ab_list_insert_between(&job->link, first ? &pool->jobs : pool->jobs.prev,
                           first ? pool->jobs.next : &pool->jobs);
    pool->job_count++;
    pool->queued += !first;
    if (job->until && (pool->due == 0 || job->until < pool->due)) pool->due = job->until;
  }
  ab__threads_unlock(pool);
  if (!given) hand_over(pool, job, true);
}

ab_job *ab__threads_take_job(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_job *job = worker->job;
  worker->job = NULL;
  if (job) pool->given--;
  if (job) return job;
  ab_list *node = ab_list_shift(&pool->jobs);
  if (!node) return NULL;
  pool->job_count--;
  job = AB_CONTAINER_OF(node, ab_job, link);
  hand_over(pool, job, false);
  return job;
}

/* --- requests that wait for a thread --- */

static void drop_job(ab_thread_pool *pool, ab_job *job) {
  ab_engine *engine = pool->run->rack.engine;
  ab_list_remove(&job->link);
  pool->job_count--;
  ab_engine_lock(engine);
  ab_exchange_end_wait(job->taken.exchange);
  ab_engine_unlock(engine);
  ab_free(&ab_mem_libc, job);
}

static void turn_away(ab_thread_pool *pool, ab_job *job, enum ab_rejection why) {
  ab_taken taken = job->taken;
  drop_job(pool, job);
  ab_serve_turn_away(&pool->main.driver.runner, &taken, why);
}

static void turn_all_away(ab_thread_pool *pool) {
  while (!ab_list_empty(&pool->jobs)) {
    turn_away(pool, AB_CONTAINER_OF(pool->jobs.next, ab_job, link), AB_REJECT_NO_FIBER);
  }
}

ab_nsec ab_thread_pool_turn_away(ab_thread_pool *pool, ab_nsec now) {
  if (AB_LIKELY(pool->due == 0 || now < pool->due)) return pool->due;
  pool->due = 0;
  ab_list_each (node, next, &pool->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->until && job->until <= now) {
      turn_away(pool, job, AB_REJECT_QUEUE_TIMEOUT);
    } else if (job->until && (pool->due == 0 || job->until < pool->due)) {
      pool->due = job->until;
    }
  }
  return pool->due;
}

void ab_thread_pool_relieve(ab_thread_pool *pool) {
  ab__threads_call_idle(pool);
  while (AB_UNLIKELY(pool->job_count > pool->starting) && !ab__threads_is_grown(pool)) {
    if (!ab__threads_grow(pool)) return;
  }
}

void ab_thread_pool_event(ab_thread_pool *pool, ab_exchange *exchange, unsigned events) {
  ab_list_each (node, next, &pool->jobs) {
    ab_job *job = AB_CONTAINER_OF(node, ab_job, link);
    if (job->taken.exchange != exchange) continue;
    if (events & AB_EVENT_GONE) {
      drop_job(pool, job);
      pool->gone++;
      ab_engine_lock(pool->run->rack.engine);
      ab_exchange_finish(exchange, AB_FINISH_BROKEN);
      ab_engine_unlock(pool->run->rack.engine);
    } else if (events & AB_EVENT_DEADLINE) {
      turn_away(pool, job, AB_REJECT_REQUEST_TIMEOUT);
    }
    return;
  }
}

void ab_thread_pool_each_job(const ab_thread_pool *pool,
                             void (*fn)(const ab_taken *taken, void *ctx), void *ctx) {
  for (const ab_list *node = pool->jobs.next; node != &pool->jobs; node = node->next) {
    fn(&AB_CONTAINER_OF(node, ab_job, link)->taken, ctx);
  }
}

/* --- handing over --- */

static VALUE jobs_keep(VALUE arg) {
  ab_taken *taken = (ab_taken *)((void **)arg)[0];
  ab_thread_pool *pool = (ab_thread_pool *)((void **)arg)[1];
  ab_serve_keep((ab_runner *)((void **)arg)[2], taken);
  VALUE env = taken->env;
  rb_hash_aset(env, pool->mode_key, pool->mode_name);
  RB_GC_GUARD(env);
  return Qnil;
}

static ab_job *make_job(ab_thread_pool *pool, ab_driver *from, ab_taken *taken) {
  ab_job *job = ab_alloc_zero(&ab_mem_libc, sizeof(*job));
  if (!job) return NULL;
  ab_list_init(&job->link);
  uint64_t patience = ab_exchange_limits(taken->exchange)->queue_timeout;
  if (patience) job->until = ab_clock_monotonic() + ab_limit_nsec(patience);
  int state = 0;
  rb_protect(jobs_keep, (VALUE)(void *[]){taken, pool, &from->runner}, &state);
  job->taken = *taken;
  if (AB_LIKELY(!state)) return job;
  rb_set_errinfo(Qnil);
  ab_free(&ab_mem_libc, job);
  return NULL;
}

/* All threads without a request count, idle or not: between two requests a thread is cleaned. */
static bool has_room(const ab_thread_pool *pool) {
  size_t engaged = pool->job_count + pool->busy + pool->given;
  return engaged < pool->options.most + ab__threads_most(pool);
}

void ab_thread_pool_set_most(ab_thread_pool *pool, size_t most) {
  pool->options.most = most;
}

void ab_thread_pool_take(ab_thread_pool *pool, ab_driver *from) {
  ab_taken taken = ab_turn_taken(from);
  bool room = has_room(pool);
  ab_job *job = room ? make_job(pool, from, &taken) : NULL;
  if (!job) {
    ab_serve_refuse(&pool->main.driver.runner, &taken,
                    room ? AB_REJECT_NO_FIBER : AB_REJECT_QUEUE_FULL);
    return;
  }
  ab__threads_place(pool, job, false);
  if (pool->job_count > pool->starting && !ab__threads_grow(pool) && pool->live == 0) {
    turn_all_away(pool); /* the job may be no more by now, but no thread comes for any */
  }
  RB_GC_GUARD(taken.env);
}
