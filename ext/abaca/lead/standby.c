/* The standby. Its state is guarded by the lead's lock, given up only to sleep and to call. */
#include "lead/standby.h"

#include <stdlib.h>

#include "io/timer.h"
#include "lead/watcher.h"

/* The time between looks while it waits for another leader; output may be put off for as long. */
#define HASTE AB_NSEC_PER_MS

/* Looks at a leader that goes on to other requests, before the output put off is sent. */
#define LATE_LOOKS 4

/* Nudges in the time that a thread may wait for the interpreter's lock. */
#define NUDGES 5

/* A stall is noticed with this share of its length as the error. */
#define LOOKS 4

/* The time between looks at threads that have no lead, while requests wait for what they run. */
#define SHUT_LOOK (5 * AB_NSEC_PER_MS)

/* What is away for less delays nobody. */
#define DELAY (5 * AB_NSEC_PER_MS)

/* The time between samples of what keeps a thread away. */
#define SAMPLE (10 * AB_NSEC_PER_MS)

/* After this share of it the standby leads, cheaply and without a thread that might stall next. */
#define SHARE 2

/* Looks in a row with none away before it sleeps: at loops, and at threads of a pool. */
#define IDLE_LOOKS      16
#define IDLE_LOOKS_POOL 4

/* It looks less often at threads when none has lost the lead in as many looks. */
#define CALM_LOOKS 16
#define CALM_TIMES 3

struct ab_standby {
  ab_lead *lead;
  ab_poller *poller;
  ab_standby_options options;
  ab_standby_calls calls;
  void *ctx;
  ab_watcher watcher;
  /* Both seq_cst: who puts off stores the one and loads the other, begin_to_wait the other way. */
  _Atomic bool put_off; /* output was, since it last looked */
  _Atomic bool waits;   /* for it to leave, and need not be told of more */
  ab_nsec flush_at;     /* until then */
  uint64_t writing;     /* the beat of the leader then */
  unsigned looks;       /* at leaders that have gone on to other requests */
  ab_nsec nudge_at;     /* not before, where threads pass the lead */
  ab_nsec second_at;    /* when the next second begins */
  ab_nsec sample_at;    /* no sample before */
  unsigned idle, calm;  /* looks in a row with no thread away; with none that has lost the lead */
  ab_standby_stats stats;
};

/* What was told of a participant that is away. */
enum { REPORTED_NOT, REPORTED, REPORTED_DELAY };

typedef struct sight {
  unsigned away, stalled, computing;
  bool moved;             /* a thread is somewhere else than at the last look */
  bool waits;             /* a thread waits for the interpreter's lock ... */
  bool starved;           /* ... which is to be nudged for it */
  bool nudge;             /* ... and has for long */
  bool sampled;           /* samples of a thread are taken */
  bool call;              /* the application's side is needed */
  bool opened;            /* the leader has left a request to wait that may begin now */
  bool deaf;              /* the poller has events that cannot be delivered now */
  ab_participant *keeper; /* the thread that is away with a thread pool's lead, ... */
  bool again;             /* ... as at the last look */
} sight;

static bool is_away(uint64_t beat) {
  return beat & 1;
}

/* --- looking --- */

static uint64_t waited(const ab_standby *standby) {
  return standby->lead->turns->waited(standby->lead->engine);
}

static void stall_ended(ab_standby *standby, ab_participant *participant, ab_nsec now) {
  ab_spent spent = ab_gate_spent(&standby->lead->gate, &participant->contender);
  ab_nsec time = now - participant->since, parked = spent.parked - participant->before.parked;
  ab_stall_end end = {.beat = participant->beat,
                      .length = time > parked ? time - parked : 0,
                      .computed = spent.used - participant->before.used,
                      .waited = waited(standby) - participant->waited};
  if (end.length > standby->stats.longest) standby->stats.longest = end.length;
  standby->calls.ended(standby->ctx, participant, &end);
}

/* Is it away for so long? Time counts in which it has computed, or blocked the thread: not that in
 * which others had the processor, or it was parked. One that waits for the interpreter's lock is
 * delayed itself. */
static bool is_kept(const ab_standby *standby, const ab_participant *participant, ab_nsec now,
                    ab_nsec time) {
  if (now - participant->since < time) return false;
  if (ab_pulse_waits(&participant->pulse)) return true;
  ab_gate *gate = &standby->lead->gate;
  return ab_gate_used(gate, &participant->contender, participant->beat) >= time;
}

/* Once, and once more when something lighter has waited. */
static void report(ab_standby *standby, ab_participant *participant, ab_nsec now) {
  bool delays = participant->delays || ab_pulse_waits(&participant->pulse);
  uint8_t kind = delays ? REPORTED_DELAY : REPORTED;
  ab_nsec after = standby->options.report_after;
  if (!after || participant->reported >= kind) return;
  if (!is_kept(standby, participant, now, after)) return;
  if (!participant->kept) {
    participant->kept = true;
    participant->before =
        ab_gate_spent_before(&standby->lead->gate, &participant->contender, participant->beat);
  }
  if (!standby->calls.report(standby->ctx, participant, participant->beat, participant->since,
                             delays))
    return;
  standby->stats.reported += participant->reported == REPORTED_NOT;
  participant->reported = kind;
}

/* At one time of all that have been away for long enough. */
static void sample(const ab_standby *standby, ab_participant *participant, ab_nsec now,
                   sight *sight) {
  ab_nsec after = standby->options.sample_after;
  if (!after || now - participant->since < after) return;
  sight->sampled = true;
  if (now < standby->sample_at) return;
  standby->calls.sample(standby->ctx, participant, participant->beat, participant->since + after);
}

/* Each thread's own wait counts: where many get the lock soon, it need not be passed on. */
static void look_at_starved(ab_standby *standby, const ab_participant *participant, ab_nsec now,
                            sight *sight) {
  ab_nsec limit = standby->options.starve_after;
  if (!limit) return;
  /* Looks at threads are closer together than nudges. */
  if (standby->options.pass_after && (participant->since == now || now < standby->nudge_at)) return;
  sight->starved = true;
  if (now - participant->since >= limit / NUDGES) sight->nudge = true;
}

static void look_at(ab_standby *standby, ab_participant *participant, ab_nsec now, sight *sight) {
  /* Before what else the pulse says, which was stored before it. Partner: ab_pulse_leave. */
  uint64_t beat = atomic_load(&participant->pulse.beat);
  if (beat != participant->beat) {
    if (AB_UNLIKELY(participant->kept)) stall_ended(standby, participant, now);
    participant->beat = beat;
    participant->since = now;
    participant->waited = waited(standby);
    participant->deprived = participant->stalled = false;
    participant->delays = participant->kept = false;
    participant->reported = REPORTED_NOT;
    sight->moved = true;
  }
  if (!is_away(beat)) return;
  sight->away++;
  /* Reading takes microseconds: a thread that still reads waits, and no other can lead. */
  if (ab_pulse_waits(&participant->pulse)) {
    sight->waits = true;
    look_at_starved(standby, participant, now, sight);
  } else {
    sight->computing++;
  }
  if (participant->stalled) sight->stalled++;
  report(standby, participant, now);
  sample(standby, participant, now, sight);
}

static ab_nsec shorter(ab_nsec one, ab_nsec other) {
  return one < other ? one : other;
}

static bool is_heavy(const ab_standby *standby, const ab_participant *participant) {
  return standby->options.heavy_after && ab_gate_level(&participant->contender) > 0;
}

/* One that runs what is known to be heavy gets less time to show that it is. */
static ab_nsec stall_limit(const ab_standby *standby, const ab_participant *participant,
                           const sight *sight) {
  ab_nsec limit = sight->stalled > 0 ? standby->options.stall_again : standby->options.stall_after;
  return is_heavy(standby, participant) ? shorter(limit, standby->options.heavy_after) : limit;
}

static void look_at_leader(ab_standby *standby, ab_nsec now, const sight *sight) {
  ab_participant *leader = atomic_load(&standby->lead->holder);
  if (!leader || !is_away(leader->beat)) return;
  if (now - leader->since < stall_limit(standby, leader, sight) / SHARE) return;
  leader->deprived = ab__lead_seize(standby->lead, leader);
}

/* Threads that pass the lead have not joined: only the one that leads is looked at. */
static void look_at_keeper(const ab_standby *standby, sight *sight) {
  ab_participant *leader = atomic_load(&standby->lead->holder);
  if (!leader) return;
  uint64_t beat = atomic_load(&leader->pulse.beat);
  sight->again = beat == leader->beat;
  if (!sight->again) sight->moved = true;
  leader->beat = beat;
  if (!is_away(beat)) return;
  sight->away++;
  sight->keeper = leader;
}

static void look_at_deprived(ab_standby *standby, ab_nsec now, sight *sight) {
  ab_list_each (node, tmp, &standby->lead->participants) {
    ab_participant *participant = AB_CONTAINER_OF(node, ab_participant, link);
    if (!participant->deprived || participant->stalled) continue;
    if (!is_kept(standby, participant, now, stall_limit(standby, participant, sight))) continue;
    participant->stalled = true;
    sight->stalled++;
    standby->stats.stalls++;
  }
}

static ab_nsec next_look(ab_standby *standby, const sight *sight, bool leads) {
  const ab_standby_options *options = &standby->options;
  ab_nsec pass = options->pass_after, starve = options->starve_after, time = AB_POLL_FOREVER;
  if (pass) time = standby->calm < CALM_LOOKS ? pass : CALM_TIMES * pass;
  if (sight->sampled) time = shorter(time, SAMPLE);
  if (sight->starved) return shorter(time, starve / NUDGES);
  if (leads && sight->call) return HASTE;
  bool shut = atomic_load(&standby->lead->gate.shut) > 0;
  if (shut && !sight->away) return SHUT_LOOK;
  bool busy = sight->away || leads || (sight->moved && !pass);
  standby->idle = busy ? 0 : standby->idle + 1;
  if (standby->idle >= (pass ? IDLE_LOOKS_POOL : IDLE_LOOKS)) return AB_POLL_FOREVER;
  const ab_participant *leader = atomic_load(&standby->lead->holder);
  bool heavy = leader && is_away(leader->beat) && is_heavy(standby, leader);
  ab_nsec stall = heavy ? options->heavy_after / SHARE : options->stall_after / LOOKS;
  time = shorter(time, stall > HASTE / 4 ? stall : HASTE / 4);
  return starve ? shorter(time, starve) : time;
}

/* Is a lighter request waiting for this participant? Its level follows from the CPU time it has
 * used so far, because requests of one route vary; while it blocks, that says nothing, and its
 * claimed level is used. */
static bool is_in_the_way(const ab_standby *standby, const ab_participant *participant) {
  const ab_lead *lead = standby->lead;
  ab_nsec used = ab_gate_used(&standby->lead->gate, &participant->contender, participant->beat);
  uint8_t level = used == UINT64_MAX ? ab_gate_level(&participant->contender) : ab_level_of(used);
  return lead->turns->has_news(lead->engine, level > 0 ? level : 1);
}

/* Does something lighter wait because of one that is away? It is in the queue; or it has begun, and
 * a thread that waits for the interpreter's lock is about to go on with it. */
static void look_at_delays(const ab_standby *standby, ab_nsec now, const sight *sight) {
  const ab_lead *lead = standby->lead;
  bool begun = sight->waits && lead->turns->runs_more(lead->engine, sight->computing);
  ab_list_each (node, tmp, &lead->participants) {
    ab_participant *participant = AB_CONTAINER_OF(node, ab_participant, link);
    if (!is_away(participant->beat) || participant->delays) continue;
    if (now - participant->since < DELAY || ab_pulse_waits(&participant->pulse)) continue;
    participant->delays = begun || is_in_the_way(standby, participant);
  }
}

static sight look(ab_standby *standby, ab_nsec now) {
  sight sight = {0};
  ab_list_each (node, tmp, &standby->lead->participants) {
    look_at(standby, AB_CONTAINER_OF(node, ab_participant, link), now, &sight);
  }
  ab_gate_look(&standby->lead->gate);
  sight.opened = ab_gate_has_opened(&standby->lead->gate);
  look_at_delays(standby, now, &sight);
  if (sight.sampled && now >= standby->sample_at) standby->sample_at = now + SAMPLE;
  if (sight.starved) standby->nudge_at = now + standby->options.starve_after / NUDGES;
  if (standby->options.pass_after) {
    look_at_keeper(standby, &sight);
  } else {
    look_at_leader(standby, now, &sight);
    look_at_deprived(standby, now, &sight);
  }
  return sight;
}

/* --- turning the engine --- */

/* Returns the time until the next turn. */
static ab_nsec turn(ab_standby *standby, ab_nsec now, sight *sight) {
  const ab_lead_turns *turns = standby->lead->turns;
  void *engine = standby->lead->engine;
  ab_poller_collect(standby->poller);
  ab_poller_lock(standby->poller);
  /* Without memory for events of others they wait where they are, until another thread leads. */
  sight->deaf = ab_poller_dispatch_roaming(standby->poller) != AB_OK;
  ab_poller_unlock(standby->poller);
  bool more = turns->turn(engine, now);
  ab_nsec deadline = turns->deadline(engine);
  sight->call = turns->has_news(engine, ab_gate_below(&standby->lead->gate, NULL));
  if (standby->calls.wanted && standby->calls.wanted(standby->ctx)) sight->call = true;
  if (sight->deaf) return HASTE;
  if (more) return 0;
  if (!deadline) return AB_POLL_FOREVER;
  return deadline > now ? deadline - now : 0;
}

/* --- output that was put off --- */

void ab_standby_soon(ab_standby *standby) {
  /* Relaxed: the output is in the engine, under its lock. If this is out of date, the flush that
   * follows each exchange of it comes after that, and sends it too. */
  if (atomic_load_explicit(&standby->put_off, memory_order_relaxed)) return;
  atomic_store(&standby->put_off, true);
  if (!atomic_load(&standby->waits)) ab_bell_ring(&standby->watcher.bell);
}

/* 0: the leader is there, and sends it. */
static uint64_t leaders_beat(const ab_standby *standby) {
  const ab_participant *leader = atomic_load(&standby->lead->holder);
  uint64_t beat = leader ? atomic_load(&leader->pulse.beat) : 0;
  return is_away(beat) ? beat : 0;
}

static ab_nsec wait_for(ab_standby *standby, uint64_t beat, ab_nsec now) {
  standby->writing = beat;
  standby->flush_at = now + HASTE;
  return HASTE;
}

/* Partner: ab_standby_soon. */
static bool begin_to_wait(ab_standby *standby) {
  bool put_off = atomic_exchange(&standby->put_off, false);
  if (put_off) standby->looks = LATE_LOOKS;
  atomic_store(&standby->waits, put_off);
  return put_off;
}

/* Sends what has been put off for too long: the leader is away in the same request, or has gone on
 * to others. One that comes back soon sends it itself. Returns the time until the next look. */
static ab_nsec send_late(ab_standby *standby, ab_nsec now) {
  uint64_t beat = leaders_beat(standby);
  if (atomic_load(&standby->waits)) {
    if (now < standby->flush_at) return standby->flush_at - now;
    if (beat && beat == standby->writing) {
      standby->lead->turns->flush(standby->lead->engine);
    } else if (beat && standby->looks > 0) {
      standby->looks--;
      return wait_for(standby, beat, now);
    }
  }
  /* A second time, for a thread that saw us wait just before we did not. */
  if (begin_to_wait(standby) || begin_to_wait(standby)) return wait_for(standby, beat, now);
  return AB_POLL_FOREVER;
}

/* --- the thread --- */

static bool has_moved(const ab_participant *participant) {
  return atomic_load(&participant->pulse.beat) != participant->beat || is_away(participant->beat);
}

static bool anybody_away(void *arg) {
  ab_standby *standby = arg;
  if (atomic_load(&standby->lead->gate.shut) > 0) return true;
  pthread_mutex_lock(&standby->lead->lock);
  const ab_participant *leader = atomic_load(&standby->lead->holder);
  bool away = standby->options.pass_after && leader && has_moved(leader);
  ab_list_each (node, tmp, &standby->lead->participants) {
    if (has_moved(AB_CONTAINER_OF(node, ab_participant, link))) away = true;
  }
  pthread_mutex_unlock(&standby->lead->lock);
  return away;
}

static void tell(ab_standby *standby, const sight *sight) {
  const ab_standby_calls *calls = &standby->calls;
  bool passed = sight->keeper && calls->pass(standby->ctx, sight->keeper, sight->again);
  standby->calm = passed ? 0 : standby->calm + (standby->calm < CALM_LOOKS);
  if (sight->starved && calls->nudge) calls->nudge(standby->ctx, sight->nudge);
  if (sight->opened && calls->opened) calls->opened(standby->ctx);
  if (sight->call && calls->call) calls->call(standby->ctx, sight->stalled);
}

static void tell_second(ab_standby *standby, ab_nsec now) {
  if (!standby->calls.second) return;
  if (now >= standby->second_at) {
    standby->calls.second(standby->ctx, now);
    standby->second_at = (now / AB_NSEC_PER_SEC + 1) * AB_NSEC_PER_SEC;
  }
  standby->watcher.nap = standby->second_at - now;
}

static ab_nsec stand_by(void *arg, int *fd) {
  ab_standby *standby = arg;
  ab_nsec now = ab_clock_monotonic();
  pthread_mutex_lock(&standby->lead->lock);
  sight sight = look(standby, now);
  bool leads = !atomic_load(&standby->lead->holder);
  ab_nsec next_turn = leads ? turn(standby, now, &sight) : AB_POLL_FOREVER;
  ab_nsec time = shorter(next_look(standby, &sight, leads), send_late(standby, now));
  pthread_mutex_unlock(&standby->lead->lock);
  tell(standby, &sight);
  tell_second(standby, now);
  if (leads && !sight.deaf) {
    *fd = ab_poller_fd(standby->poller);
    if (*fd < 0) time = shorter(time, HASTE); /* it has to look itself */
  }
  return shorter(next_turn, time);
}

static const ab_watcher_calls watcher_calls = {.look = stand_by, .away = anybody_away};

ab_standby *ab_standby_start(ab_lead *lead, ab_poller *poller, const ab_standby_options *options,
                             const ab_standby_calls *calls, void *ctx) {
  ab_standby *standby = calloc(1, sizeof *standby);
  if (!standby) return NULL;
  standby->lead = lead;
  standby->poller = poller;
  standby->options = *options;
  standby->calls = *calls;
  standby->ctx = ctx;
  if (ab_watcher_start(&standby->watcher, &watcher_calls, standby) == AB_OK) {
    ab_poller_hold(poller);
    return standby;
  }
  free(standby);
  return NULL;
}

void ab_standby_stop(ab_standby *standby) {
  ab_watcher_stop(&standby->watcher);
  ab_poller_fini(standby->poller);
  free(standby);
}

void ab_standby_forget(ab_standby *standby) {
  ab_watcher_forget(&standby->watcher);
  ab_poller_fini(standby->poller);
  free(standby);
}

ab_bell *ab_standby_bell(ab_standby *standby) {
  return &standby->watcher.bell;
}

ab_standby_stats ab_standby_get_stats(ab_standby *standby) {
  pthread_mutex_lock(&standby->lead->lock);
  ab_standby_stats stats = standby->stats;
  pthread_mutex_unlock(&standby->lead->lock);
  return stats;
}
