/* The helm: how threads serve without a loop (mode :thread). One hand has the *lead*: it turns the
 * engine, takes a request and runs it on its own stack, so that a quick request crosses no thread.
 * While it waits for events it has no GVL, and what needs no Ruby (slow heads, slow readers,
 * deadlines) is done without it.
 *
 * The lead is passed on, to a thread that waits for work, when the request blocks (Ruby's thread
 * event hook says so where there is one, rb_thread_host.c for the waits of our own) and when it has
 * run for AB_HELM_PATIENCE, which the watch sees (rb_helm_watch.c).
 *
 * The lead changes under the gang's lock. A hand's epoch is odd while it runs app code; it may be
 * deprived of the lead only then. It ends its app code by making the epoch even and looking at the
 * lead; the watch takes the lead and then looks at the epoch: so one of them sees the other, and
 * the watch puts back what it has taken too late.
 */
#include "rb/server/rb_helm.h"

#include "rb/pool/rb_stack.h"
#include "rb/server/rb_helm_watch.h"

/* Where Ruby does not say that a thread blocks, a request that waits has the lead for
 * AB_HELM_PATIENCE at least, and nobody is served meanwhile. So when so many more requests were
 * long than quick of late, the lead is given away before the next one runs. */
#define MOSTLY 8
/* Steps of the engine, in which a burst is read. */
#define BURST 256
/* After so many requests in a row the lead lets those go on that have begun before. */
#define IN_A_ROW 8

/* --- passing the lead --- */

bool ab__helm_is_full(const ab_gang *gang) {
  return ab_list_empty(&gang->idle) && ab__gang_is_grown(gang) && gang->starting == 0;
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
  bool looks = !atomic_load(&gang->asleep) && ab__helm_is_full(gang) && !gang->ending;
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
  if (ab__helm_leads(hand)) next = pass_lead(gang);
  ab__gang_unlock(gang);
  wake(next);
}

bool ab__helm_take_from(ab_gang *gang, ab_hand *hand) {
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
    note_length(gang, ab_clock_monotonic() - hand->left < AB_HELM_PATIENCE);
    return false;
  }
  atomic_fetch_add(&hand->epoch, 1);
  bool still = ab__helm_leads(hand);
  if (AB_UNLIKELY(!still)) {
    ab__gang_lock(gang);
    still = ab__helm_leads(hand);
    ab__gang_unlock(gang);
  }
  note_length(gang, still);
  return still;
}

/* --- turning the engine --- */

static bool is_watch(const ab_hand *hand) {
  return hand == &hand->gang->watch;
}

static void begin_turn(ab_gang *gang, ab_nsec timeout) {
  ab_server *server = gang->server;
  ab_poller_wait(server->poller, timeout);
  ab_poller_lock(server->poller);
  ab_poller_dispatch(server->poller);
  ab_poller_unlock(server->poller);
  gang->turned_at = ab_clock_monotonic();
  ab_engine_begin_turn(server->engine, gang->turned_at);
}

/* Collects events and serves connections, up to the point where requests are taken. What came with
 * a turn is served before events are collected for the next: the new connections come last, and
 * would never have their turn where more comes all the time. */
static void turn_engine(ab_gang *gang, ab_nsec timeout) {
  if (!gang->batch) begin_turn(gang, timeout);
  gang->batch = ab_engine_step(gang->server->engine);
  gang->turned = true;
  gang->turns++;
}

static bool end_step(ab_gang *gang) {
  return ab_engine_end_step(gang->server->engine) || gang->batch;
}

void ab__helm_turn_once(ab_gang *gang) {
  end_step(gang);
  ab_engine_pause(gang->server->engine, false); /* there is a thread for somebody every moment */
  turn_engine(gang, 0);
}

/* Who becomes idle finds that the listeners are paused. */
static bool pauses(ab_gang *gang) {
  ab__gang_lock(gang);
  bool full = ab__helm_is_full(gang);
  gang->paused = full;
  ab__gang_unlock(gang);
  return full;
}

/* The watch leads, and requests wait: does a thread take over, or has one to be started? */
static bool find_relief(ab_gang *gang) {
  ab_engine_stats stats = ab_engine_get_stats(gang->server->engine);
  uint32_t waiting = stats.waiting - stats.held; /* for a thread */
  if (waiting == 0) return false;
  ab__gang_lock(gang);
  bool relieved = !ab_list_empty(&gang->idle);
  ab_hand *next = relieved ? pass_lead(gang) : NULL;
  ab__gang_unlock(gang);
  wake(next);
  return relieved || (waiting > gang->starting && !ab__gang_is_grown(gang));
}

bool ab__helm_has_chores(const ab_gang *gang) {
  const ab_server *server = gang->server;
  bool turned = gang->turned;
  if (server->stop_requested || server->halt_requested) {
    if (turned || !server->retired || (server->halt_requested && !server->forced)) return true;
  }
  if (__atomic_load_n(&server->released, __ATOMIC_RELAXED)) return true;
  ab_nsec now = ab_clock_monotonic();
  if (server->overdue && server->overdue <= now) return true;
  if (ab_shutdown_idle_due(server, now)) return true;
  ab_nsec slow = ab_slow_due(server);
  if (AB_UNLIKELY(slow) && slow <= now) return true;
  if (ab_list_empty(&server->cancels)) return false;
  return server->cancel_retry == 0 || server->cancel_retry <= now;
}

/* Is there something that only Ruby can do? */
static bool needs_ruby(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (hand->interrupted || gang->told || gang->ending) return true;
  if (ab__helm_has_chores(gang)) return true;
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

void ab__helm_look_out(ab_hand *hand) {
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

/* --- waiting without the GVL --- */

/* From here on the hand waits for the GVL. Where others wait for that, the standby sees to it that
 * it is not for long: of the hands that is the one that leads, and they share a pulse. */
static void want_gvl(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (is_watch(hand)) {
    ab_pulse_starve(&hand->runner.seat.pulse);
  } else if (ab__helm_leads(hand)) {
    ab__gang_lock(gang);
    gang->suitor = hand;
    hand->wanted = ab_clock_monotonic();
    ab_pulse_starve(&gang->leader.seat.pulse);
    ab__gang_unlock(gang);
  }
}

static void have_gvl(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (is_watch(hand)) {
    ab_pulse_feed(&hand->runner.seat.pulse);
    return;
  }
  ab__gang_lock(gang);
  if (gang->suitor == hand) {
    if (gang->busy > 0) ab_share_waited(&gang->share, hand->wanted);
    gang->suitor = NULL;
    ab_pulse_feed(&gang->leader.seat.pulse);
  }
  ab__gang_unlock(gang);
}

static void interrupt_hand(void *arg) {
  ab_hand *hand = arg;
  ab_gang *gang = hand->gang;
  ab__gang_lock(gang);
  hand->interrupted = true;
  pthread_cond_signal(&hand->call);
  bool wake = ab__helm_leads(hand);
  ab__gang_unlock(gang);
  if (wake) ab_poller_wakeup(gang->server->poller);
}

typedef struct outside {
  ab_hand *hand;
  void (*fn)(ab_hand *hand);
} outside;

static void *wait_outside(void *arg) {
  const outside *w = arg;
  w->fn(w->hand);
  want_gvl(w->hand);
  return NULL;
}

void ab__helm_wait(ab_hand *hand, void (*fn)(ab_hand *hand)) {
  outside w = {hand, fn};
  hand->interrupted = false;
  rb_nogvl(wait_outside, &w, interrupt_hand, hand, RB_NOGVL_INTR_FAIL);
  have_gvl(hand);
  hand->gang->in_a_row = 0;
  rb_thread_check_ints();
}

/* --- a hand of the gang --- */

/* The watch leads, and requests wait: it shall see that somebody is there for them. */
static void call_watch(ab_gang *gang) {
  if (!ab__helm_leads(&gang->watch)) return;
  if (gang->paused || ab_engine_tells(gang->server->engine, true)) {
    ab_poller_wakeup(gang->server->poller);
  }
}

/* Waits for the lead; with it, for something to do. */
static void await_lead(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (!ab__helm_leads(hand)) {
    bool in_time = true;
    ab__gang_lock(gang);
    if (!take_lead_up(gang, hand, false)) {
      ab_list_prepend(&gang->idle, &hand->idle_link);
      ab__gang_unlock(gang);
      call_watch(gang);
      ab__gang_lock(gang);
    }
    while (in_time && !ab__helm_leads(hand) && !hand->interrupted && !gang->ending) {
      in_time = ab__gang_sleep(gang, &hand->call, AB_GANG_IDLE_TIME);
    }
    ab_list_remove(&hand->idle_link);
    hand->late = !in_time && !ab__helm_leads(hand);
    ab__gang_unlock(gang);
  }
  if (ab__helm_leads(hand)) ab__helm_look_out(hand);
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
  return ab__helm_leads(hand);
}

/* Those whose requests have begun before may want the GVL to go on with them, which the lead keeps
 * for as long as others begin. */
static bool owes_way(const ab_gang *gang) {
  return AB_UNLIKELY(gang->busy > 0) && gang->in_a_row >= IN_A_ROW;
}

/* Whoever comes meanwhile, and is done with a request, may take the lead up. */
static void give_way(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  gang->in_a_row = 0;
  want_gvl(hand);
  int state = ab_share_give_way(&gang->share);
  have_gvl(hand);
  if (AB_UNLIKELY(state)) rb_jump_tag(state);
}

bool ab__helm_lead_on(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  ab_server *server = gang->server;
  while (!owes_way(gang) && ab_server_take(&hand->runner)) {
    gang->in_a_row++;
    if (!run_request(hand)) return false;
  }
  bool more = end_step(gang);
  gang->turned = false;
  ab_nsec now = ab_clock_monotonic();
  ab_shutdown_turn(&hand->runner, now);
  ab_server_tidy(&hand->runner, now);
  ab_pulse_return(&hand->runner.seat.pulse); /* it may have called others */
  if (ab_shutdown_done(server)) ab__helm_watch_end(gang);
  /* Once more with the GVL, which others may want for long: something has often come. */
  if (gang->ending || is_watch(hand)) return true;
  if (more || ab_poller_wait(server->poller, 0) > 0) turn_engine(gang, 0);
  return true;
}

/* Who is done while nobody uses the lead goes on with it: nobody has to be waked, and the next
 * request may be waiting. */
static bool comes_to_lead(ab_hand *hand) {
  if (ab__helm_leads(hand)) return true;
  ab_gang *gang = hand->gang;
  ab__gang_lock(gang);
  bool came = take_lead_up(gang, hand, true);
  ab__gang_unlock(gang);
  return came;
}

bool ab__helm_turn(ab_hand *hand) {
  ab_gang *gang = hand->gang;
  if (gang->ending || AB_UNLIKELY(ab__gang_has_surplus(gang))) return false;
  if (comes_to_lead(hand)) {
    if (!ab__helm_lead_on(hand)) return true;
    if (owes_way(gang)) give_way(hand);
    if (ab_engine_tells(gang->server->engine, true)) return true;
  }
  hand->late = false;
  ab_stack_wipe();
  ab__helm_wait(hand, await_lead);
  return !hand->late || gang->live <= gang->options.min;
}
