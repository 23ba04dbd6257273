/* Serving without a loop (mode :thread). One worker has the lead: it turns the engine, takes a
 * request and runs it on its own stack, so that a quick request crosses no thread. It waits for
 * events, and does what needs no Ruby, without the GVL.
 *
 * The lead is passed to an idle thread when the request blocks (Ruby's thread event hook where
 * there is one, rb_thread_executor.c for our own waits) or has run for AB_LEAD_PATIENCE
 * (lead/standby.h); without an idle thread, to the main one (rb_thread_run.c). It changes under the
 * pool's lock, and is taken only from a worker that is away, in app code. */
#include "rb/run/rb_thread_parts.h"

#include "rb/pool/rb_stack.h"
#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_process.h"
#include "rb/run/rb_out_of_band.h"
#include "rb/run/rb_slow.h"
#include "rb/run/rb_turn.h"

/* Without that hook a request that waits keeps the lead for AB_LEAD_PATIENCE at least. When this
 * many more requests were long than quick of late, the lead is given away before the next one. */
#define MOSTLY 8
/* When all are busy the lead is left to the first thread that is done for this time. */
#define REST_TIME AB_NSEC_PER_MS
/* Steps of the engine, in which a burst is read. */
#define BURST 256
/* After so many requests that were begun or woken in a row, the lead lets them continue. */
#define IN_A_ROW 8

/* --- passing the lead --- */

/* To the thread that waits for the GVL since it led, the last that became idle, or the main one.
 * Locked. Returns the worker to wake, or NULL; best without the lock, which the worker needs. */
static ab_worker *pass_lead(ab_thread_pool *pool) {
  pool->steers = pool->comes = false;
  if (pool->suitor && !pool->ending) {
    ab_lead_pass(ab__threads_lead(pool), ab__worker_participant(pool->suitor));
    return NULL;
  }
  ab_list *node = pool->ending ? NULL : ab_list_shift(&pool->idle);
  ab_worker *to = node ? AB_CONTAINER_OF(node, ab_worker, idle_link) : &pool->main;
  ab_lead_pass(ab__threads_lead(pool), ab__worker_participant(to));
  if (node) return to;
  pool->offers++;
  pool->comes = pool->ending || !ab__threads_is_full(pool);
  if (pool->comes) return to;
  ab_pulse_leave(&ab__worker_participant(to)->pulse); /* the standby sees that it does nothing */
  return NULL;
}

static void lead_wake(ab_worker *worker) {
  if (worker) pthread_cond_signal(&worker->wake);
}

void ab__worker_leave(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (!pool->led) return;
  ab_worker *next = NULL;
  /* Without the lock the lead might be on its way back from a standby that was too late. */
  ab__threads_lock(pool);
  if (ab__worker_leads(worker)) next = pass_lead(pool);
  ab__threads_unlock(pool);
  lead_wake(next);
}

void ab__worker_take_from(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (ab_lead_suspend(ab__threads_lead(pool), ab__worker_participant(worker)))
    lead_wake(pass_lead(pool));
}

/* From the main thread, which does not use it yet, or, for one with the GVL, from the thread that
 * waits for the GVL: it gets the lead back when it continues. Locked. */
static bool take_lead_up(ab_thread_pool *pool, ab_worker *worker, bool has_gvl) {
  const ab_worker *suitor = has_gvl ? pool->suitor : NULL;
  bool unused = suitor && ab__worker_leads(suitor);
  if (ab__worker_leads(&pool->main)) unused = !pool->steers;
  if (!unused || pool->ending) return false;
  ab_lead_pass(ab__threads_lead(pool), ab__worker_participant(worker));
  return true;
}

/* Does Ruby say when a thread gives up the GVL? */
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
#define IS_TOLD true
#else
#define IS_TOLD false
#endif

static void note_length(ab_thread_pool *pool, bool quick) {
  if (quick) {
    if (pool->slow > 0) pool->slow--;
  } else if (pool->slow < 2 * MOSTLY) {
    pool->slow++;
  }
}

void ab__worker_begin(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  worker->native = pthread_self();
  worker->left = 0;
  if (!IS_TOLD && pool->led && pool->slow >= MOSTLY) {
    /* A request that keeps nothing from others need not be watched. */
    worker->left = ab_clock_monotonic();
    ab__worker_leave(worker);
  }
  ab_pulse_leave(&ab__worker_participant(worker)->pulse);
}

static bool come_back(ab_worker *worker) {
  if (AB_LIKELY(ab_lead_held(ab__threads_lead(worker->pool), ab__worker_participant(worker)))) {
    return true;
  }
  /* The standby may be about to put it back. */
  ab__threads_lock(worker->pool);
  bool still = ab__worker_leads(worker);
  ab__threads_unlock(worker->pool);
  return still;
}

bool ab__worker_end(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (worker->left || !pool->led) {
    ab_pulse_return(&ab__worker_participant(worker)->pulse);
    if (pool->led) note_length(pool, ab_clock_monotonic() - worker->left < AB_LEAD_PATIENCE);
    return false;
  }
  bool still = come_back(worker);
  note_length(pool, still);
  return still;
}

/* --- turning the engine --- */

static bool is_main(const ab_worker *worker) {
  return worker == &worker->pool->main;
}

static void begin_turn(ab_thread_pool *pool, ab_nsec timeout) {
  ab_run *run = pool->run;
  ab_poller_wait(run->rack.poller, timeout);
  ab_poller_lock(run->rack.poller);
  ab_poller_dispatch(run->rack.poller);
  ab_poller_unlock(run->rack.poller);
  pool->turned_at = ab_clock_monotonic();
  ab_engine_begin_turn(run->rack.engine, pool->turned_at);
}

/* Collects events and serves connections, up to where requests are taken. A turn is served to its
 * end before the next: new connections come last, and would never have their turn. */
static void turn_engine(ab_thread_pool *pool, ab_nsec timeout) {
  if (!pool->batch) begin_turn(pool, timeout);
  pool->batch = ab_engine_step(pool->run->rack.engine);
  pool->turned = true;
  pool->turns++;
}

static bool end_step(ab_thread_pool *pool) {
  return ab_engine_end_step(pool->run->rack.engine) || pool->batch;
}

/* A worker that becomes idle finds that the listeners are paused. */
static bool pauses(ab_thread_pool *pool) {
  ab__threads_lock(pool);
  bool full = ab__threads_is_full(pool);
  pool->paused = full;
  ab__threads_unlock(pool);
  return full;
}

/* The main thread leads, and requests wait: does a thread take over, or has one to be started? */
static bool find_relief(ab_thread_pool *pool) {
  ab_figures stats = ab_engine_get_stats(pool->run->rack.engine);
  uint32_t waiting = stats.waiting - stats.held; /* for a thread */
  if (waiting == 0) return false;
  ab__threads_lock(pool);
  bool relieved = !ab_list_empty(&pool->idle);
  ab_worker *next = relieved ? pass_lead(pool) : NULL;
  ab__threads_unlock(pool);
  lead_wake(next);
  return relieved || (waiting > pool->starting && !ab__threads_is_grown(pool));
}

/* Work for ab_run_stages.turn or ab_turn_tidy? An end that has begun is due after each turn. */
static bool has_housekeeping(const ab_thread_pool *pool) {
  const ab_run *run = pool->run;
  bool turned = pool->turned;
  if (run->ending.stop_requested || run->ending.halt_requested) {
    if (turned || !run->ending.retired || (run->ending.halt_requested && !run->ending.forced))
      return true;
  }
  if (ab_borrow_released(&run->rack)) return true;
  ab_nsec now = ab_clock_monotonic();
  if (run->rack.overdue && run->rack.overdue <= now) return true;
  if (run->stages->due(run, now)) return true;
  ab_nsec slow = ab_slow_due(run);
  if (AB_UNLIKELY(slow) && slow <= now) return true;
  if (ab_out_of_band_due(run)) return true;
  if (ab_list_empty(&run->rack.cancels)) return false;
  return run->rack.cancel_retry == 0 || run->rack.cancel_retry <= now;
}

static bool needs_ruby(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (worker->interrupted || pool->told || pool->ending) return true;
  if (has_housekeeping(pool)) return true;
  uint8_t below = is_main(worker) ? 0 : ab_turn_below(&worker->driver);
  if (ab_engine_tells(pool->run->rack.engine, below)) return true;
  if (below < AB_LEVELS && below > 0) ab_turn_leaves(pool->run, below);
  return is_main(worker) && find_relief(pool);
}

/* A worker that takes over first reads the rest of a burst, and looks for more now and then: so
 * requests beyond the limit are told at once, not after others have waited for the GVL. */
static void read_on(ab_thread_pool *pool) {
  bool look = ab_clock_monotonic() - pool->turned_at >= AB_NSEC_PER_MS &&
              ab_engine_tells(pool->run->rack.engine, AB_LEVELS);
  unsigned steps = 0;
  for (; (pool->batch || look) && steps < BURST; steps++, look = false) {
    end_step(pool);
    turn_engine(pool, 0);
  }
  if (steps > 0) end_step(pool);
}

void ab__worker_look_out(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_run *run = pool->run;
  read_on(pool);
  while (!needs_ruby(worker)) {
    /* What a connection had borrowed that has ended with the step is for Ruby to give back. */
    bool more = end_step(pool) || ab_borrow_released(&run->rack);
    /* A connection that cannot be served waits in the kernel's queue. */
    ab_engine_pause(run->rack.engine, is_main(worker) && pauses(pool));
    ab_nsec deadline = ab_turn_deadline(run), now = ab_clock_monotonic();
    ab_nsec time = !deadline ? AB_POLL_FOREVER : deadline > now ? deadline - now : 0;
    turn_engine(pool, more ? 0 : time);
  }
}

/* --- for the standby --- */

/* Locked, but not in the turn; then passes the lead on. Returns the worker to wake. */
static ab_worker *turn_between(ab_thread_pool *pool) {
  ab_lead_pass(ab__threads_lead(pool), NULL);
  ab__threads_unlock(pool);
  end_step(pool);
  /* A thread may be done at any moment; but another worker may have one now. */
  ab_engine_pause(pool->run->rack.engine, ab_engine_has_siblings(pool->run->rack.engine));
  turn_engine(pool, 0);
  ab__threads_lock(pool);
  return pass_lead(pool);
}

/* The main thread has the lead for want of threads. Usually the first worker that is done takes it
 * up; if they come and go too fast, the engine is turned here. The main thread comes if none has
 * come for REST_TIME, or there is more to do. Returns the worker to wake. Locked. */
static ab_worker *stand_in(ab_thread_pool *pool) {
  if (!ab__worker_leads(&pool->main) || pool->steers || pool->comes) return NULL;
  ab_nsec now = ab_clock_monotonic();
  bool fails = !ab__threads_is_full(pool) || has_housekeeping(pool);
  if (!fails && now < pool->rests_until) return NULL;
  ab_worker *next = NULL;
  if (fails || pool->seen_offers == pool->offers) {
    pool->comes = true;
    next = &pool->main;
  } else if (pool->seen_turns == pool->turns) {
    next = turn_between(pool);
  }
  pool->seen_offers = pool->offers;
  pool->seen_turns = pool->turns;
  pool->rests_until = now + REST_TIME;
  return next;
}

bool ab_thread_pool_pass(ab_thread_pool *pool, ab_participant *leader, bool again) {
  ab_worker *next = NULL;
  bool passed = false;
  ab__threads_lock(pool);
  if (leader == ab__worker_participant(&pool->main)) {
    next = stand_in(pool);
  } else if (again && ab_lead_suspend(ab__threads_lead(pool), leader)) {
    next = pass_lead(pool);
    passed = true;
  }
  ab__threads_unlock(pool);
  lead_wake(next);
  return passed;
}

/* --- waiting without the GVL --- */

/* From here on the worker waits for the GVL. Where others wait for that, the standby sees to it
 * that it is not for long: of the workers that is the one that leads, and they share a pulse. */
static void want_gvl(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (is_main(worker)) {
    ab_pulse_starve(&pool->main_wait.runner.participant.pulse);
  } else if (ab__worker_leads(worker)) {
    ab__threads_lock(pool);
    pool->suitor = worker;
    worker->wanted = ab_clock_monotonic();
    ab_pulse_starve(&pool->leader_wait.runner.participant.pulse);
    ab__threads_unlock(pool);
  }
}

static void have_gvl(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (is_main(worker)) {
    ab_pulse_feed(&pool->main_wait.runner.participant.pulse);
    return;
  }
  ab__threads_lock(pool);
  if (pool->suitor == worker) {
    if (pool->busy > 0) ab_share_waited(&pool->share, worker->wanted);
    pool->suitor = NULL;
    ab_pulse_feed(&pool->leader_wait.runner.participant.pulse);
  }
  ab__threads_unlock(pool);
}

static void interrupt_worker(void *arg) {
  ab_worker *worker = arg;
  ab_thread_pool *pool = worker->pool;
  ab__threads_lock(pool);
  worker->interrupted = true;
  pthread_cond_signal(&worker->wake);
  bool wake = ab__worker_leads(worker);
  ab__threads_unlock(pool);
  if (wake) ab_poller_wakeup(pool->run->rack.poller);
}

typedef struct outside {
  ab_worker *worker;
  void (*fn)(ab_worker *worker);
} outside;

static void *wait_outside(void *arg) {
  const outside *w = arg;
  w->fn(w->worker);
  want_gvl(w->worker);
  return NULL;
}

void ab__worker_wait(ab_worker *worker, void (*fn)(ab_worker *worker)) {
  outside w = {worker, fn};
  worker->interrupted = false;
  ab_gate_rest(&ab__threads_lead(worker->pool)->gate, &ab__worker_participant(worker)->contender);
  rb_nogvl(wait_outside, &w, interrupt_worker, worker, RB_NOGVL_INTR_FAIL);
  have_gvl(worker);
  worker->pool->in_a_row = 0;
  rb_thread_check_ints();
}

/* --- a worker of the pool --- */

/* The main thread leads, and requests wait: it has to see that there is a thread for them. */
static void call_main(ab_thread_pool *pool) {
  if (!ab__worker_leads(&pool->main)) return;
  if (pool->paused || ab_engine_tells(pool->run->rack.engine, AB_LEVELS)) {
    ab_poller_wakeup(pool->run->rack.poller);
  }
}

static void await_lead(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (!ab__worker_leads(worker)) {
    bool in_time = true;
    ab__threads_lock(pool);
    if (!take_lead_up(pool, worker, false)) {
      ab_list_prepend(&pool->idle, &worker->idle_link);
      ab__threads_unlock(pool);
      call_main(pool);
      ab__threads_lock(pool);
    }
    while (in_time && !ab__worker_leads(worker) && !worker->interrupted && !pool->ending) {
      in_time = ab__threads_sleep(pool, &worker->wake, AB_THREAD_POOL_IDLE_TIME);
    }
    ab_list_remove(&worker->idle_link);
    worker->late = !in_time && !ab__worker_leads(worker);
    ab__threads_unlock(pool);
  }
  if (ab__worker_leads(worker)) ab__worker_look_out(worker);
}

/* Returns false when the lead has gone meanwhile. */
static bool lead_run_request(ab_worker *worker) {
  ab_taken taken = ab_turn_taken(&worker->driver);
  if (AB_UNLIKELY(ab_turn_keep(&worker->driver, &taken))) {
    rb_set_errinfo(Qnil);
    ab_serve_refuse(&worker->driver.runner, &taken, AB_REJECT_NO_FIBER);
    return true;
  }
  ab__threads_serve(worker, &taken);
  RB_GC_GUARD(taken.env);
  return ab__worker_leads(worker);
}

/* Requests that have begun before may want the GVL, which the lead keeps while it begins others and
 * wakes those that have waited. */
static bool owes_way(const ab_thread_pool *pool) {
  return AB_UNLIKELY(pool->busy > 0) && pool->in_a_row >= IN_A_ROW;
}

static void give_way(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  pool->in_a_row = 0;
  want_gvl(worker);
  int state = ab_share_give_way(&pool->share);
  have_gvl(worker);
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
}

bool ab__worker_lead_on(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  ab_run *run = pool->run;
  while (!owes_way(pool) && ab_turn_take(&worker->driver)) {
    pool->in_a_row++;
    if (!lead_run_request(worker)) return false;
  }
  bool more = end_step(pool);
  pool->turned = false;
  ab_nsec now = ab_clock_monotonic();
  run->stages->turn(&worker->driver, now);
  ab_turn_tidy(&worker->driver, now);
  /* It may have called the app's code, and been away for long. */
  bool still = come_back(worker);
  if (run->stages->done(run)) ab__threads_stop(pool);
  /* Once more with the GVL, which others may want for long: something has often come. */
  if (!still) return false;
  if (pool->ending || is_main(worker)) return true;
  if (more || ab_poller_wait(run->rack.poller, 0) > 0) turn_engine(pool, 0);
  return true;
}

/* A worker that is done takes up a lead that is not in use: no thread has to be woken. */
static bool comes_to_lead(ab_worker *worker) {
  if (come_back(worker)) return true; /* after an exception, too */
  ab_thread_pool *pool = worker->pool;
  ab__threads_lock(pool);
  bool came = take_lead_up(pool, worker, true);
  ab__threads_unlock(pool);
  return came;
}

bool ab__worker_turn(ab_worker *worker) {
  ab_thread_pool *pool = worker->pool;
  if (pool->ending || AB_UNLIKELY(ab__threads_has_surplus(pool))) return false;
  if (comes_to_lead(worker)) {
    if (!ab__worker_lead_on(worker)) return true;
    if (owes_way(pool)) give_way(worker);
    if (ab_engine_tells(pool->run->rack.engine, ab_turn_below(&worker->driver))) return true;
  }
  worker->late = false;
  ab_stack_wipe();
  ab__worker_wait(worker, await_lead);
  return !worker->late || pool->live <= pool->options.min;
}
