/* The standby's thread: it looks at the seats, turns the engine while it leads, and sleeps. All
 * that it knows is guarded by the lead's lock, which it gives up only to sleep and to call. */
#include "engine/standby.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "io/timer.h"

/* How often it looks while it waits for somebody to come; for so long output may be put off. */
#define HASTE AB_NSEC_PER_MS

/* A leader that goes on to others does not do so for long, before it sends what they have put off.
 */
#define LATE_LOOKS 4

/* So many times in the time that a thread may wait for the interpreter's lock it is helped. */
#define NUDGES 5

/* A stall is noticed with this share of its length as the error. */
#define LOOKS 4

/* After this share of it the standby leads: what it does itself is cheap, and needs no thread that
 * might stall next. */
#define SHARE 2

/* After so many looks in a row with nobody away it sleeps until somebody goes. */
#define IDLE_LOOKS 16

struct ab_standby {
  ab_lead *lead;
  ab_poller *poller;
  ab_standby_options options;
  ab_standby_calls calls;
  void *ctx;
  ab_bell bell;
  pthread_t thread;
  _Atomic bool stopping;
  _Atomic bool put_off;   /* output was, since it last looked */
  _Atomic bool waits;     /* for it to leave, and need not be told of more */
  ab_nsec flush_at;       /* for so long */
  uint64_t writing;       /* the beat of the leader then */
  unsigned looks;         /* at leaders who have gone on to somebody else */
  ab_standby_stats stats; /* guarded by the lead's lock, as the rest */
  unsigned idle;          /* looks in a row with nobody away */
};

/* What a look has found. */
typedef struct sight {
  unsigned away, stalled;
  bool moved;   /* somebody is somewhere else than at the last look */
  bool starved; /* somebody waits for the interpreter's lock */
  bool nudge;   /* ... and has for long */
  bool call;
  bool deaf;    /* the poller has events that cannot be delivered now */
  ab_nsec next; /* time until the next look; AB_POLL_FOREVER: until it is woken */
} sight;

static bool is_away(uint64_t beat) {
  return beat & 1;
}

/* --- looking --- */

static void stall_ended(ab_standby *standby, const ab_seat *seat, ab_nsec now) {
  ab_nsec length = now - seat->since;
  if (seat->reported && length > standby->stats.longest) standby->stats.longest = length;
}

static void report(ab_standby *standby, ab_seat *seat, ab_nsec now) {
  ab_nsec after = standby->options.report_after;
  if (!after || seat->reported || now - seat->since < after) return;
  seat->reported = standby->calls.report(standby->ctx, seat, seat->beat, seat->since);
  standby->stats.reported += seat->reported;
}

/* Where many threads want the lock at any time, and each gets it soon, nobody has to pass it on: so
 * it is each one's own wait that counts. */
static void look_at_starved(ab_standby *standby, const ab_seat *seat, ab_nsec now, sight *sight) {
  ab_nsec limit = standby->options.starve_after;
  if (!limit) return;
  sight->starved = true;
  if (now - seat->since >= limit / NUDGES) sight->nudge = true;
}

static void look_at(ab_standby *standby, ab_seat *seat, ab_nsec now, sight *sight) {
  uint64_t beat = atomic_load(&seat->pulse.beat);
  if (beat != seat->beat) {
    stall_ended(standby, seat, now);
    seat->beat = beat;
    seat->since = now;
    seat->deprived = seat->stalled = seat->reported = false;
    sight->moved = true;
  }
  if (!is_away(beat)) return;
  sight->away++;
  /* To read is a matter of microseconds. Who is still at it waits, and nobody can lead meanwhile.
   */
  if (ab_pulse_waits(&seat->pulse)) look_at_starved(standby, seat, now, sight);
  if (seat->stalled) sight->stalled++;
  report(standby, seat, now);
}

static ab_nsec stall_limit(const ab_standby *standby, const sight *sight) {
  return sight->stalled > 0 ? standby->options.stall_again : standby->options.stall_after;
}

/* Takes the lead from a thread that has been away for too long. */
static void look_at_leader(ab_standby *standby, ab_nsec now, const sight *sight) {
  ab_seat *leader = atomic_load(&standby->lead->holder);
  if (!leader || !is_away(leader->beat)) return;
  if (now - leader->since < stall_limit(standby, sight) / SHARE) return;
  leader->deprived = ab__lead_seize(standby->lead, leader);
}

/* Does one that has lost the lead stay away, so that others have to come? */
static void look_at_deprived(ab_standby *standby, ab_nsec now, sight *sight) {
  ab_list_each (node, tmp, &standby->lead->seats) {
    ab_seat *seat = AB_CONTAINER_OF(node, ab_seat, link);
    if (!seat->deprived || seat->stalled) continue;
    if (now - seat->since < stall_limit(standby, sight)) continue;
    seat->stalled = true;
    sight->stalled++;
    standby->stats.stalls++;
  }
}

static ab_nsec next_look(ab_standby *standby, const sight *sight, bool leads) {
  ab_nsec starve = standby->options.starve_after;
  if (sight->starved) return starve / NUDGES;
  if (leads && sight->call) return HASTE;
  standby->idle = sight->away || sight->moved || leads ? 0 : standby->idle + 1;
  if (standby->idle >= IDLE_LOOKS) return AB_POLL_FOREVER;
  ab_nsec limit = stall_limit(standby, sight);
  ab_nsec time = limit / LOOKS > HASTE / 4 ? limit / LOOKS : HASTE / 4;
  return starve && starve < time ? starve : time;
}

static sight look(ab_standby *standby, ab_nsec now) {
  sight sight = {0};
  ab_list_each (node, tmp, &standby->lead->seats) {
    look_at(standby, AB_CONTAINER_OF(node, ab_seat, link), now, &sight);
  }
  look_at_leader(standby, now, &sight);
  look_at_deprived(standby, now, &sight);
  standby->stats.nudges += sight.nudge;
  return sight;
}

/* --- turning the engine --- */

/* Returns the time until the next turn. */
static ab_nsec turn(ab_standby *standby, ab_nsec now, sight *sight) {
  ab_engine *engine = standby->lead->engine;
  ab_poller_collect(standby->poller);
  ab_poller_lock(standby->poller);
  /* Without memory for events of others they wait where they are, until somebody else leads. */
  sight->deaf = ab_poller_dispatch_roaming(standby->poller) != AB_OK;
  ab_poller_unlock(standby->poller);
  bool more = ab_engine_turn(engine, now);
  ab_nsec deadline = ab_engine_deadline(engine);
  ab_engine_lock(engine);
  sight->call = ab_engine_has_news(engine);
  ab_engine_unlock(engine);
  if (standby->calls.wanted && standby->calls.wanted(standby->ctx)) sight->call = true;
  if (sight->deaf) return HASTE;
  if (more) return 0;
  if (!deadline) return AB_POLL_FOREVER;
  return deadline > now ? deadline - now : 0;
}

/* --- output that was put off --- */

void ab_standby_soon(ab_standby *standby) {
  if (atomic_load_explicit(&standby->put_off, memory_order_relaxed)) return;
  atomic_store(&standby->put_off, true);
  if (!atomic_load(&standby->waits)) ab_bell_ring(&standby->bell);
}

/* 0: the leader is there, and sends it. */
static uint64_t leaders_beat(const ab_standby *standby) {
  const ab_seat *leader = atomic_load(&standby->lead->holder);
  uint64_t beat = leader ? atomic_load(&leader->pulse.beat) : 0;
  return is_away(beat) ? beat : 0;
}

static ab_nsec wait_for(ab_standby *standby, uint64_t beat, ab_nsec now) {
  standby->writing = beat;
  standby->flush_at = now + HASTE;
  return HASTE;
}

static bool begin_to_wait(ab_standby *standby) {
  bool put_off = atomic_exchange(&standby->put_off, false);
  if (put_off) standby->looks = LATE_LOOKS;
  atomic_store(&standby->waits, put_off);
  return put_off;
}

/* Sends what has been put off for too long: the leader is still where it was, there or with whom it
 * has gone on to. Who comes back soon, however busy, sends it. Returns the time until the next
 * look at it. */
static ab_nsec send_late(ab_standby *standby, ab_nsec now) {
  uint64_t beat = leaders_beat(standby);
  if (atomic_load(&standby->waits)) {
    if (now < standby->flush_at) return standby->flush_at - now;
    if (beat && beat == standby->writing) {
      ab_engine_flush(standby->lead->engine);
    } else if (beat && standby->looks > 0) {
      standby->looks--;
      return wait_for(standby, beat, now);
    }
  }
  /* A second time, for who saw that we wait just before we did not. */
  if (begin_to_wait(standby) || begin_to_wait(standby)) return wait_for(standby, beat, now);
  return AB_POLL_FOREVER;
}

static ab_nsec shorter(ab_nsec one, ab_nsec other) {
  return one < other ? one : other;
}

/* --- the thread --- */

static bool anybody_away(ab_standby *standby) {
  bool away = false;
  pthread_mutex_lock(&standby->lead->lock);
  ab_list_each (node, tmp, &standby->lead->seats) {
    const ab_seat *seat = AB_CONTAINER_OF(node, ab_seat, link);
    if (atomic_load(&seat->pulse.beat) != seat->beat || is_away(seat->beat)) away = true;
  }
  pthread_mutex_unlock(&standby->lead->lock);
  return away;
}

static void doze(ab_standby *standby, bool listens, ab_nsec timeout) {
  struct pollfd fds[] = {{standby->bell.fd, POLLIN, 0}, {ab_poller_fd(standby->poller), POLLIN, 0}};
  struct timespec ts, *until = NULL;
  if (timeout == AB_POLL_FOREVER) {
    /* Whoever left before it could see that we sleep is seen here. */
    atomic_store(&standby->bell.asleep, true);
    if (anybody_away(standby)) timeout = 0;
  }
  if (timeout != AB_POLL_FOREVER) {
    ts = (struct timespec){.tv_sec = (time_t)(timeout / AB_NSEC_PER_SEC),
                           .tv_nsec = (long)(timeout % AB_NSEC_PER_SEC)};
    until = &ts;
  }
  if (!atomic_load(&standby->stopping)) ppoll(fds, listens ? 2 : 1, until, NULL);
  atomic_store(&standby->bell.asleep, false);
  if (fds[0].revents) ab_bell_hush(&standby->bell);
}

static void *stand_by(void *arg) {
  ab_standby *standby = arg;
  while (!atomic_load(&standby->stopping)) {
    ab_nsec now = ab_clock_monotonic();
    pthread_mutex_lock(&standby->lead->lock);
    sight sight = look(standby, now);
    bool leads = !atomic_load(&standby->lead->holder);
    ab_nsec next_turn = leads ? turn(standby, now, &sight) : AB_POLL_FOREVER;
    ab_nsec timeout = shorter(next_look(standby, &sight, leads), send_late(standby, now));
    pthread_mutex_unlock(&standby->lead->lock);
    if (sight.starved && standby->calls.nudge) standby->calls.nudge(standby->ctx, sight.nudge);
    if (sight.call && standby->calls.call) standby->calls.call(standby->ctx, sight.stalled);
    doze(standby, leads && !sight.deaf, shorter(next_turn, timeout));
  }
  return NULL;
}

/* Signals are for the application's threads. */
static int start_thread(ab_standby *standby) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = pthread_create(&standby->thread, NULL, stand_by, standby);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return err;
}

ab_standby *ab_standby_start(ab_lead *lead, ab_poller *poller, const ab_standby_options *options,
                             const ab_standby_calls *calls, void *ctx) {
  ab_standby *standby = calloc(1, sizeof *standby);
  if (!standby) return NULL;
  standby->lead = lead;
  standby->poller = poller;
  standby->options = *options;
  standby->calls = *calls;
  standby->ctx = ctx;
  if (ab_bell_init(&standby->bell) != AB_OK) {
    free(standby);
    return NULL;
  }
  int err = start_thread(standby);
  if (err == 0) {
    ab_poller_hold(poller);
    return standby;
  }
  ab_bell_fini(&standby->bell);
  free(standby);
  errno = err;
  return NULL;
}

void ab_standby_stop(ab_standby *standby) {
  atomic_store(&standby->stopping, true);
  ab_bell_ring(&standby->bell);
  pthread_join(standby->thread, NULL);
  ab_standby_forget(standby);
}

void ab_standby_forget(ab_standby *standby) {
  ab_poller_fini(standby->poller);
  ab_bell_fini(&standby->bell);
  free(standby);
}

ab_bell *ab_standby_bell(ab_standby *standby) {
  return &standby->bell;
}

ab_standby_stats ab_standby_get_stats(ab_standby *standby) {
  pthread_mutex_lock(&standby->lead->lock);
  ab_standby_stats stats = standby->stats;
  pthread_mutex_unlock(&standby->lead->lock);
  return stats;
}
