/* The helm: how threads serve without a loop (mode :thread). One hand has the *lead*: it turns the
 * engine, takes a request and runs it on its own stack, so that a quick request crosses no thread.
 * While it waits for events it has no GVL, and what needs no Ruby (slow heads, slow readers,
 * deadlines) is done without it.
 *
 * The lead is passed on, to a thread that waits for work, when the request blocks (Ruby's thread
 * event hook says so where there is one, rb_thread_host.c for the waits of our own) and when it has
 * run for PATIENCE. The thread that called run keeps watch over that, in short sleeps while app
 * code runs; when no thread waits for work it leads itself, but takes no requests: it starts a
 * thread for them, as long as there may be more. When there may not, it only keeps the lead for a
 * moment, and the first thread that is done takes it up with the next request: where all threads
 * wait most of the time none is woken for a request but by what it has waited for.
 *
 * The lead changes under the gang's lock. A hand's epoch is odd while it runs app code; it may be
 * deprived of the lead only then. It ends its app code by making the epoch even and looking at the
 * lead; the watch takes the lead and then looks at the epoch: so one of them sees the other, and
 * the watch puts back what it has taken too late.
 */
#include "rb/server/rb_gang_parts.h"

#include "rb/pool/rb_stack.h"

/* So long a request may keep the lead. */
#define PATIENCE (200000)
/* The watch looks less often when nobody has lost the lead in the last so many looks. */
#define CALM_LOOKS 16
#define CALM_TIME  (3 * PATIENCE)
/* So long the watch leaves the lead to the first thread that is done, when all are busy. */
#define REST_TIME AB_NSEC_PER_MS
/* Where Ruby does not say that a thread blocks, a request that waits has the lead for PATIENCE at
 * least, and nobody is served meanwhile. So when so many more requests were long than quick of
 * late, the lead is given away before the next one runs. */
#define MOSTLY 8
/* After so many looks at a lead that runs no app code the watch sleeps until it runs some. */
#define IDLE_LOOKS 4
/* Steps of the engine, in which a burst is read. */
#define BURST 256
/* A thread beyond the least number ends after this time without the lead. */
#define IDLE_TIME (30 * AB_NSEC_PER_SEC)

static bool leads(const ab_hand *hand) {
  return atomic_load(&hand->gang->lead) == hand;
}

/* --- passing the lead --- */

/* All threads are busy, and there will not be more of them. The lock is held. */
static bool is_full(const ab_gang *gang) {
  return ab_list_empty(&gang->idle) && gang->live >= gang->options.max && gang->starting == 0;
}

/* To the thread that waits for the GVL since it led, to the one that has been idle for the shortest
 * time, or to the watch. The lock is held. Returns whom to wake, best without the lock: who is
 * awake at once would have to wait for that. Hands are not freed before the gang. NULL: nobody. */
static ab_hand *pass_lead(ab_gang *gang) {
  gang->steers = false;
  if (gang->suitor && !gang->ending) {
    atomic_store(&gang->lead, gang->suitor);
    return NULL;
  }
  ab_list *node = gang->ending ? NULL : ab_list_shift(&gang->idle);
  ab_hand *to = node ? AB_CONTAINER_OF(node, ab_hand, idle_link) : &gang->watch;
  atomic_store(&gang->lead, to);
  if (node) return to;
  gang->offers++;
  bool looks = !atomic_load(&gang->asleep) && is_full(gang) && !gang->ending;
  atomic_store(&gang->asleep, false);
  return looks ? NULL : to; /* it sees for itself that it leads, if nobody else is sooner */
}

static void wake(ab_hand *hand) {
  if (hand) pthread_cond_signal(&hand->call);
}

void ab__helm_leave(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (!gang->led) return;
  ab_hand *next = NULL;
  /* Without the lock the lead might be on its way back from a watch that was too late. */
  ab__gang_lock(gang);
  if (leads(hand)) next = pass_lead(gang);
  ab__gang_unlock(gang);
  wake(next);
}

/* The lock is held. Returns whether somebody else has it then. */
static bool take_lead_from(ab_gang *gang, ab_hand *hand) {
  atomic_store(&gang->lead, NULL);
  if (atomic_load(&hand->epoch) & 1) {
    wake(pass_lead(gang));
    return true;
  }
  atomic_store(&gang->lead, hand);
  return false;
}

/* From the watch, which does not use it yet, or, for somebody who has the GVL, from the thread that
 * waits for that: it gets it back when it goes on. The lock is held. */
static bool take_lead_up(ab_gang *gang, ab_hand *hand, bool has_gvl) {
  const ab_hand *lead = atomic_load(&gang->lead);
  bool unused = lead == &gang->watch ? !gang->steers : has_gvl && lead == gang->suitor;
  if (!unused || gang->ending) return false;
  atomic_store(&gang->lead, hand);
  return true;
}

/* Does Ruby say when a thread gives up the GVL? */
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
#define IS_TOLD true
#else
#define IS_TOLD false
#endif

static void note_length(ab_gang *gang, bool quick) {
  if (quick) {
    if (gang->slow > 0) gang->slow--;
  } else if (gang->slow < 2 * MOSTLY) {
    gang->slow++;
  }
}

void ab__helm_begin(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  hand->native = pthread_self();
  hand->left = 0;
  if (!IS_TOLD && gang->slow >= MOSTLY) {
    /* Nobody has to watch a request that keeps nothing from others. */
    hand->left = ab_clock_monotonic();
    ab__helm_leave(hand);
    return;
  }
  atomic_fetch_add(&hand->epoch, 1);
  if (AB_LIKELY(!atomic_load(&gang->asleep))) return;
  ab__gang_lock(gang);
  atomic_store(&gang->asleep, false);
  pthread_cond_signal(&gang->watch.call);
  ab__gang_unlock(gang);
}

bool ab__helm_end(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (hand->left) {
    note_length(gang, ab_clock_monotonic() - hand->left < PATIENCE);
    return false;
  }
  atomic_fetch_add(&hand->epoch, 1);
  bool still = leads(hand);
  if (AB_UNLIKELY(!still)) {
    ab__gang_lock(gang);
    still = leads(hand);
    ab__gang_unlock(gang);
  }
  note_length(gang, still);
  return still;
}

/* --- turning the engine --- */

static bool is_watch(const ab_hand *hand) {
  return hand == &hand->gang->watch;
}

/* Collects events and serves connections, up to the point where requests are taken. */
static void turn_engine(ab_gang *gang, ab_nsec timeout) {
  ab_server *server = gang->server;
  ab_poller_wait(server->poller, timeout);
  ab_poller_lock(server->poller);
  ab_poller_dispatch(server->poller);
  ab_poller_unlock(server->poller);
  gang->turned_at = ab_clock_monotonic();
  ab_engine_begin_turn(server->engine, gang->turned_at);
  gang->batch = ab_engine_step(server->engine);
  gang->turned = true;
  gang->turns++;
}

static bool end_step(ab_gang *gang) {
  return ab_engine_end_step(gang->server->engine) || gang->batch;
}

/* Who becomes idle finds that the listeners are paused. */
static bool pauses(ab_gang *gang) {
  ab__gang_lock(gang);
  bool full = is_full(gang);
  gang->paused = full;
  ab__gang_unlock(gang);
  return full;
}

/* The watch leads, and requests wait: does a thread take over, or has one to be started? */
static bool find_relief(ab_gang *gang) {
  ab_engine_stats stats = ab_engine_get_stats(gang->server->engine);
  if (stats.waiting == 0) return false;
  ab__gang_lock(gang);
  bool relieved = !ab_list_empty(&gang->idle);
  ab_hand *next = relieved ? pass_lead(gang) : NULL;
  ab__gang_unlock(gang);
  wake(next);
  return relieved || (stats.waiting > gang->starting && gang->live < gang->options.max);
}

/* Is there something for ab_shutdown_turn or ab_server_tidy? An end that has begun is looked at
 * after each turn. */
static bool has_chores(const ab_gang *gang) {
  const ab_server *server = gang->server;
  bool turned = gang->turned;
  if (server->stop_requested || server->halt_requested) {
    if (turned || !server->retired || (server->halt_requested && !server->forced)) return true;
  }
  if (__atomic_load_n(&server->released, __ATOMIC_RELAXED)) return true;
  ab_nsec now = ab_clock_monotonic();
  if (server->overdue && server->overdue <= now) return true;
  if (ab_list_empty(&server->cancels)) return false;
  return server->cancel_retry == 0 || server->cancel_retry <= now;
}

/* Is there something that only Ruby can do? */
static bool needs_ruby(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (hand->interrupted || gang->told || gang->ending) return true;
  if (has_chores(gang)) return true;
  if (ab_engine_tells(gang->server->engine, !is_watch(hand))) return true;
  return is_watch(hand) && find_relief(gang);
}

/* Requests that wait are taken one by one, by threads that have to wait for the GVL each. So that
 * those who are too many are told meanwhile, who takes the lead over reads the rest of a burst
 * first, and now and then looks for more. */
static void read_on(ab_gang *gang) {
  bool look = ab_clock_monotonic() - gang->turned_at >= AB_NSEC_PER_MS &&
              ab_engine_tells(gang->server->engine, true);
  unsigned steps = 0;
  for (; (gang->batch || look) && steps < BURST; steps++, look = false) {
    end_step(gang);
    turn_engine(gang, 0);
  }
  if (steps > 0) end_step(gang);
}

/* Leads without the GVL, until it is needed. */
static void look_out(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  ab_server *server = gang->server;
  read_on(gang);
  while (!needs_ruby(hand)) {
    bool more = end_step(gang);
    /* Whoever cannot be served waits with the kernel. */
    ab_engine_pause(server->engine, is_watch(hand) && pauses(gang));
    ab_nsec deadline = ab_server_deadline(server), now = ab_clock_monotonic();
    ab_nsec time = !deadline ? AB_POLL_FOREVER : deadline > now ? deadline - now : 0;
    turn_engine(gang, more ? 0 : time);
  }
}

static void starve(ab_pulse *pulse) {
  atomic_store_explicit(&pulse->starved, true, memory_order_relaxed);
  ab_pulse_leave(pulse);
}

static void feed(ab_pulse *pulse) {
  atomic_store_explicit(&pulse->starved, false, memory_order_relaxed);
  ab_pulse_return(pulse);
}

/* From here on the hand waits for the GVL. Where others wait for that, the standby sees to it that
 * it is not for long: of the hands that is the one that leads, and they share a pulse. */
static void want_gvl(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (is_watch(hand)) {
    starve(&hand->runner.seat.pulse);
  } else if (leads(hand)) {
    ab__gang_lock(gang);
    gang->suitor = hand;
    starve(&gang->leader.seat.pulse);
    ab__gang_unlock(gang);
  }
}

static void have_gvl(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (is_watch(hand)) {
    feed(&hand->runner.seat.pulse);
    return;
  }
  ab__gang_lock(gang);
  if (gang->suitor == hand) {
    gang->suitor = NULL;
    feed(&gang->leader.seat.pulse);
  }
  ab__gang_unlock(gang);
}

/* --- a hand of the gang --- */

static void interrupt_hand(void *arg) {
  ab_hand *hand = arg;
  ab_gang *gang = hand->gang;
  ab__gang_lock(gang);
  hand->interrupted = true;
  pthread_cond_signal(&hand->call);
  bool wake = leads(hand);
  ab__gang_unlock(gang);
  if (wake) ab_poller_wakeup(gang->server->poller);
}

/* The watch leads, and requests wait: it shall see that somebody is there for them. */
static void call_watch(ab_gang *gang) {
  if (!leads(&gang->watch)) return;
  if (gang->paused || ab_engine_tells(gang->server->engine, true)) {
    ab_poller_wakeup(gang->server->poller);
  }
}

/* Waits for the lead; with it, for something to do. */
static void *await_lead(void *arg) {
  ab_hand *hand = arg;
  ab_gang *gang = hand->gang;
  if (!leads(hand)) {
    bool in_time = true;
    ab__gang_lock(gang);
    if (!take_lead_up(gang, hand, false)) {
      ab_list_prepend(&gang->idle, &hand->idle_link);
      ab__gang_unlock(gang);
      call_watch(gang);
      ab__gang_lock(gang);
    }
    while (in_time && !leads(hand) && !hand->interrupted && !gang->ending) {
      in_time = ab__gang_sleep(gang, &hand->call, IDLE_TIME);
    }
    ab_list_remove(&hand->idle_link);
    hand->late = !in_time && !leads(hand);
    ab__gang_unlock(gang);
  }
  if (leads(hand)) look_out(hand);
  want_gvl(hand);
  return NULL;
}

static VALUE keep(VALUE arg) {
  void **args = (void **)arg;
  ab_server_keep(args[0], args[1]);
  return Qnil;
}

/* Takes the request that stands in the runner's next_conn and next_request, and runs it. Returns
 * false when the lead has gone meanwhile. The env is built before the lead may go: the request's
 * octets stand in the engine's memory of this step. */
static bool run_request(ab_hand *hand) {
  ab_server *server = hand->gang->server;
  ab_taken taken = ab_server_taken(&hand->runner);
  int state = 0;
  rb_protect(keep, (VALUE)(void *[]){&hand->runner, &taken}, &state);
  if (AB_UNLIKELY(state)) {
    rb_set_errinfo(Qnil);
    ab_server_refuse(&hand->runner, &taken, AB_REJECT_NO_FIBER);
    return true;
  }
  ab__gang_serve(hand, &taken);
  RB_GC_GUARD(taken.env);
  return leads(hand);
}

static void end_run(ab_gang *gang) {
  ab__gang_lock(gang);
  gang->ending = true;
  pthread_cond_signal(&gang->watch.call);
  ab__gang_unlock(gang);
}

/* Takes what waits, and does what belongs to a turn. Returns false when the lead has gone. */
static bool lead_on(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  ab_server *server = gang->server;
  while (ab_server_take(&hand->runner)) {
    if (!run_request(hand)) return false;
  }
  bool more = end_step(gang);
  gang->turned = false;
  ab_nsec now = ab_clock_monotonic();
  ab_shutdown_turn(&hand->runner, now);
  ab_server_tidy(&hand->runner, now);
  ab_pulse_return(&hand->runner.seat.pulse); /* it may have called others */
  if (ab_shutdown_done(server)) end_run(gang);
  /* Once more with the GVL, which others may want for long: something has often come. */
  if (gang->ending || is_watch(hand)) return true;
  if (more || ab_poller_wait(server->poller, 0) > 0) turn_engine(gang, 0);
  return true;
}

/* Who is done while nobody uses the lead goes on with it: nobody has to be waked, and the next
 * request may be waiting. */
static bool comes_to_lead(ab_hand *hand) {
  if (leads(hand)) return true;
  ab_gang *gang = hand->gang;
  ab__gang_lock(gang);
  bool came = take_lead_up(gang, hand, true);
  ab__gang_unlock(gang);
  return came;
}

bool ab__helm_turn(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (gang->ending) return false;
  if (comes_to_lead(hand)) {
    if (!lead_on(hand) || ab_engine_tells(gang->server->engine, true)) return true;
  }
  hand->interrupted = hand->late = false;
  ab_stack_wipe();
  rb_nogvl(await_lead, hand, interrupt_hand, hand, RB_NOGVL_INTR_FAIL);
  have_gvl(hand);
  rb_thread_check_ints();
  return !hand->late || gang->live <= gang->options.min;
}

/* --- the watch --- */

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
  end_step(gang);
  ab_engine_pause(gang->server->engine, false); /* there is a thread for somebody every moment */
  turn_engine(gang, 0);
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
  if (gang->steers || !is_full(gang) || has_chores(gang)) return false;
  if (sight->offers == gang->offers) return false;
  bool turned = sight->turns != gang->turns;
  sight->offers = gang->offers;
  sight->turns = gang->turns;
  if (!turned) {
    turn_between(gang);
    if (!is_full(gang)) return false;
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
    if (take_lead_from(gang, lead)) sight->calm = 0;
    return;
  }
  sight->idle = runs ? 0 : sight->idle + 1;
  if (sight->idle >= IDLE_LOOKS) {
    fall_asleep(gang, lead, epoch);
    sight->idle = 0;
    return;
  }
  if (sight->calm < CALM_LOOKS) sight->calm++;
  ab__gang_sleep(gang, &gang->watch.call, sight->calm < CALM_LOOKS ? PATIENCE : CALM_TIME);
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
  return gang->steers = leads(&gang->watch);
}

static void *keep_watch(void *arg) {
  ab_gang *gang = arg;
  ab__gang_lock(gang);
  look_at_lead(gang);
  bool leads = steers(gang);
  ab__gang_unlock(gang);
  if (leads) look_out(&gang->watch);
  want_gvl(&gang->watch);
  return NULL;
}

static bool watch_leads(ab_gang *gang) {
  ab__gang_lock(gang);
  bool leads = steers(gang);
  ab__gang_unlock(gang);
  return leads;
}

/* One for each request that waits, all at once: it may be long before we have the GVL again. */
static void start_threads(ab_gang *gang) {
  ab_engine_stats stats = ab_engine_get_stats(gang->server->engine);
  while (stats.waiting > gang->starting && gang->live < gang->options.max) {
    if (ab__gang_grow(gang)) continue;
    if (gang->live > 0) return;
    rb_raise(rb_eThreadError, "cannot start a thread"); /* nobody would ever answer */
  }
}

static VALUE watch_over(VALUE arg) {
  ab_gang *gang = (ab_gang *)arg;
  while (!gang->ending) {
    VALUE exception = ab_gang_forwarded(gang);
    if (!NIL_P(exception)) rb_exc_raise(exception);
    if (watch_leads(gang)) {
      lead_on(&gang->watch);
      start_threads(gang);
      if (gang->ending) break;
    }
    gang->watch.interrupted = false;
    rb_nogvl(keep_watch, gang, interrupt_hand, &gang->watch, RB_NOGVL_INTR_FAIL);
    have_gvl(&gang->watch);
    rb_thread_check_ints();
  }
  VALUE exception = ab_gang_forwarded(gang);
  if (!NIL_P(exception)) rb_exc_raise(exception);
  return Qnil;
}

/* --- the hook --- */

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

/* Nobody may turn the engine any more when the run ends. The lock is held. */
static void recall_lead(ab_gang *gang) {
  ab_hand *lead = atomic_load(&gang->lead);
  if (lead == &gang->watch) return;
  if (atomic_load(&lead->epoch) & 1) take_lead_from(gang, lead);
  if (leads(&gang->watch)) return;
  wake(lead);
  ab_poller_wakeup(gang->server->poller);
  ab__gang_sleep(gang, &gang->watch.call, AB_NSEC_PER_MS);
}

static void *recall(void *arg) {
  ab_gang *gang = arg;
  ab__gang_lock(gang);
  while (!leads(&gang->watch)) recall_lead(gang);
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

static VALUE run_helm(VALUE arg) {
  run *r = (run *)arg;
  ab_gang_begin(r->gang);
  watch_over((VALUE)r->gang);
  r->in_order = !r->gang->server->given_up;
  return Qnil;
}

static VALUE end_helm(VALUE arg) {
  run *r = (run *)arg;
  ab_gang *gang = r->gang;
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
  if (r->hook) rb_internal_thread_remove_event_hook(r->hook);
#endif
  if (ab_server_forked(gang->server)) return Qnil;
  end_run(gang);
  rb_nogvl(recall, gang, NULL, NULL, 0);
  ab_gang_end(gang, r->in_order);
  ab_lead_part(&gang->server->lead, &gang->watch.runner.seat);
  ab_lead_part(&gang->server->lead, &gang->leader.seat);
  return Qnil;
}

void ab_helm_run(ab_gang *gang) {
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
  rb_ensure(run_helm, (VALUE)&r, end_helm, (VALUE)&r);
}
