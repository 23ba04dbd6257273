/* The lead and the standby: one thread runs requests and stays away with them for too long, and the
 * other turns the engine meanwhile, with clients at the other end. */
#include <poll.h>
#include <time.h>

#include "engine/fixture.h"
#include "engine/turns.h"
#include "io/timer.h"
#include "lead/standby.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* Far apart, so that a busy machine does not confuse them. */
#define SHORT (2 * AB_NSEC_PER_MS)
#define LONG  (20 * AB_NSEC_PER_SEC)

typedef struct stage {
  fixture fx;
  ab_lead lead;
  ab_participant main, spare;
  ab_standby *standby;
  atomic_uint called, noticed, nudged, reported, delays;
  atomic_uint sampled, early; /* ... before that was due */
  atomic_uint kept, again;    /* looks at a thread of a pool, which is away with the lead */
  _Atomic bool passes;        /* ... and loses it */
  atomic_uint seconds;
  _Atomic ab_nsec length; /* of a stall that was reported, when it is over */
  _Atomic uint64_t waited;
  _Atomic ab_nsec second; /* the last one */
} stage;

/* In the standby's thread, where nothing can be checked. */
static void call(void *ctx, unsigned stalled) {
  if (stalled > 0) atomic_fetch_add(&((stage *)ctx)->called, 1);
}

static void nudge(void *ctx, bool long_enough) {
  stage *s = ctx;
  atomic_fetch_add(long_enough ? &s->nudged : &s->noticed, 1);
}

static void ended(void *ctx, ab_participant *participant, const ab_stall_end *end) {
  stage *s = ctx;
  if (participant != &s->main || end->beat != participant->beat) return;
  atomic_store(&s->length, end->length);
  atomic_store(&s->waited, end->waited);
}

/* It is heard the second time. */
static bool report(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec since,
                   bool delays) {
  if (delays) atomic_fetch_add(&((stage *)ctx)->delays, 1);
  if (!(beat & 1) || since != participant->since) return false;
  return atomic_fetch_add(&((stage *)ctx)->reported, 1) == 1;
}

static void sample(void *ctx, ab_participant *participant, uint64_t beat, ab_nsec from) {
  stage *s = ctx;
  bool due = (beat & 1) && from > participant->since && ab_clock_monotonic() >= from;
  atomic_fetch_add(due ? &s->sampled : &s->early, 1);
}

/* As a thread pool does: from one thread to the other. */
static bool pass(void *ctx, ab_participant *leader, bool again) {
  stage *s = ctx;
  atomic_fetch_add(again ? &s->again : &s->kept, 1);
  if (!again || !atomic_load(&s->passes) || !ab_lead_suspend(&s->lead, leader)) return false;
  ab_lead_pass(&s->lead, &s->spare);
  return true;
}

static void second(void *ctx, ab_nsec now) {
  stage *s = ctx;
  atomic_store(&s->second, now / AB_NSEC_PER_SEC);
  atomic_fetch_add(&s->seconds, 1);
}

static const ab_standby_calls calls = {.call = call,
                                       .pass = pass,
                                       .nudge = nudge,
                                       .report = report,
                                       .ended = ended,
                                       .sample = sample,
                                       .second = second};

static void stage_start(stage *s, const ab_standby_options *options) {
  memset(s, 0, sizeof *s);
  fixture_prepare(&s->fx);
  s->fx.now = ab_clock_monotonic();
  CHECK(fixture_start(&s->fx));
  CHECK_INT(AB_OK, ab_lead_init(&s->lead, &ab_engine_turns, s->fx.engine));
  ab_participant_init(&s->main);
  ab_participant_init(&s->spare);
  CHECK(ab_lead_take(&s->lead, &s->main));
  s->standby = ab_standby_start(&s->lead, s->fx.poller, options, &calls, s);
  CHECK(s->standby != NULL);
}

static void stage_begin(stage *s, ab_nsec stall_after, ab_nsec starve_after) {
  ab_standby_options options = {.stall_after = stall_after,
                                .stall_again = stall_after / 2,
                                .report_after = 4 * stall_after,
                                .sample_after = stall_after,
                                .heavy_after = stall_after / 4,
                                .starve_after = starve_after};
  stage_start(s, &options);
  ab_lead_join(&s->lead, &s->main, ab_standby_bell(s->standby));
  ab_lead_join(&s->lead, &s->spare, ab_standby_bell(s->standby));
}

static void stage_init(stage *s, ab_nsec stall_after) {
  stage_begin(s, stall_after, 5 * AB_NSEC_PER_MS);
}

static void stage_fini(stage *s) {
  ab_lead_part(&s->lead, &s->main);
  ab_lead_part(&s->lead, &s->spare);
  ab_standby_stop(s->standby);
  ab_lead_fini(&s->lead);
  fixture_fini(&s->fx);
}

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Waits until the standby leads; false when it does not come to that. */
static bool standby_leads(stage *s) {
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (atomic_load(&s->lead.holder)) {
    if (ab_clock_monotonic() > end) return false;
    rest();
  }
  return true;
}

static bool waiting_reaches(stage *s, uint32_t count) {
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (stats_of(&s->fx).waiting < count) {
    if (ab_clock_monotonic() > end) return false;
    rest();
  }
  return true;
}

/* What the main thread does when it comes back. */
static void come_back(stage *s) {
  if (!ab_lead_held(&s->lead, &s->main)) CHECK(ab_lead_take(&s->lead, &s->main));
  s->fx.now = ab_clock_monotonic();
}

CHECK_CASE(it_turns_the_engine_while_the_leader_is_away) {
  stage s;
  stage_init(&s, SHORT);
  int client = client_open(&s.fx);
  fixture_run(&s.fx);
  ab_nsec left = ab_clock_monotonic();
  ab_pulse_leave(&s.main.pulse);
  CHECK(standby_leads(&s));
  client_send(client, GET("/a"));
  CHECK(waiting_reaches(&s, 1));
  CHECK_INT(0, s.fx.taken);
  while (!atomic_load(&s.called) || atomic_load(&s.reported) < 2) rest();
  CHECK_INT(0, atomic_load(&s.length));
  come_back(&s);
  while (!atomic_load(&s.length)) rest();
  CHECK(atomic_load(&s.length) <= ab_clock_monotonic() - left);
  CHECK(atomic_load(&s.length) >= 4 * SHORT); /* for so long it was away before it was reported */
  CHECK_INT(1, atomic_load(&s.waited));
  bool end;
  fixture_run(&s.fx);
  CHECK(strstr(client_read(client, &end), "\r\n\r\n/a"));
  CHECK_INT(2, atomic_load(&s.reported)); /* until it is heard */
  ab_standby_stats stats = ab_standby_get_stats(s.standby);
  CHECK_INT(1, stats.reported);
  CHECK(stats.stalls >= 1);
  close(client);
  stage_fini(&s);
}

CHECK_CASE(it_turns_the_engine_before_it_calls_another) {
  stage s;
  stage_init(&s, LONG / 10);
  int client = client_open(&s.fx);
  fixture_run(&s.fx);
  ab_pulse_leave(&s.main.pulse);
  client_send(client, GET("/a"));
  CHECK(waiting_reaches(&s, 1));
  CHECK_INT(0, ab_standby_get_stats(s.standby).stalls);
  CHECK_INT(0, atomic_load(&s.called));
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (!atomic_load(&s.called) && ab_clock_monotonic() < end) rest();
  CHECK_INT(1, ab_standby_get_stats(s.standby).stalls);
  come_back(&s);
  fixture_run(&s.fx);
  close(client);
  stage_fini(&s);
}

CHECK_CASE(what_the_stalled_one_writes_is_sent) {
  stage s;
  stage_init(&s, SHORT);
  s.fx.hold = true;
  int client = client_open(&s.fx);
  client_send(client, GET("/a") GET("/b"));
  fixture_run(&s.fx);
  CHECK_INT(1, s.fx.held_count);
  ab_pulse_leave(&s.main.pulse);
  CHECK(standby_leads(&s));
  /* The second one waits to be taken, behind the response that was finished beside the turns. */
  answer_held(&s.fx, 0, "one");
  ab_engine_lock(s.fx.engine);
  CHECK(ab_engine_needs_turn(s.fx.engine));
  ab_engine_unlock(s.fx.engine);
  ab_poller_wakeup(s.fx.poller);
  struct pollfd readable = {client, POLLIN, 0};
  CHECK_INT(1, poll(&readable, 1, 20000));
  bool end;
  CHECK(strstr(client_read(client, &end), "\r\n\r\none"));
  come_back(&s);
  s.fx.hold = false;
  fixture_run(&s.fx);
  CHECK(strstr(client_read(client, &end), "\r\n\r\n/b"));
  close(client);
  stage_fini(&s);
}

/* Long before one has stalled. */
CHECK_CASE(what_is_put_off_is_sent_soon) {
  stage s;
  stage_init(&s, 10 * LONG);
  s.fx.hold = true;
  int client = client_open(&s.fx);
  client_send(client, GET("/a"));
  fixture_run(&s.fx);
  CHECK_INT(1, s.fx.held_count);
  ab_exchange *exchange = s.fx.held[0];
  ab_pulse_leave(&s.main.pulse);
  for (int round = 0; round < 3; round++) {
    ab_engine_lock(s.fx.engine);
    CHECK_INT(AB_OK, ab_exchange_write(exchange, "piece", 5));
    CHECK(ab_exchange_flush_later(exchange));
    ab_standby_soon(s.standby);
    ab_standby_soon(s.standby);
    ab_engine_unlock(s.fx.engine);
    if (round == 2) ab_pulse_leave(&s.main.pulse); /* on to one that computes */
    struct pollfd readable = {client, POLLIN, 0};
    CHECK_INT(1, poll(&readable, 1, 20000));
    bool end;
    CHECK(strcmp("piece", client_read(client, &end)) == 0);
  }
  CHECK(atomic_load(&s.lead.holder) == &s.main);
  CHECK_INT(0, atomic_load(&s.called));
  come_back(&s);
  answer_held(&s.fx, 0, "end");
  s.fx.hold = false;
  fixture_run(&s.fx);
  close(client);
  stage_fini(&s);
}

CHECK_CASE(a_request_that_is_read_holds_the_lead) {
  stage s;
  stage_init(&s, SHORT);
  ab_participant_read(&s.main);
  ab_nsec end = ab_clock_monotonic() + 20 * SHORT;
  while (ab_clock_monotonic() < end) {
    rest();
    /* It may look for a moment as if the lead were the standby's. */
    CHECK(!ab_lead_claim(&s.lead, &s.spare));
  }
  CHECK(!ab_lead_take(&s.lead, &s.spare));
  CHECK_INT(0, ab_standby_get_stats(s.standby).stalls);
  ab_participant_has_read(&s.main);
  CHECK(standby_leads(&s));
  come_back(&s);
  stage_fini(&s);
}

CHECK_CASE(a_spare_takes_it_from_the_standby_alone) {
  stage s;
  stage_init(&s, SHORT);
  CHECK(!ab_lead_claim(&s.lead, &s.spare));
  ab_pulse_leave(&s.main.pulse);
  CHECK(standby_leads(&s));
  CHECK(ab_lead_claim(&s.lead, &s.spare));
  CHECK(ab_lead_held(&s.lead, &s.spare));
  CHECK(!ab_lead_held(&s.lead, &s.main));
  come_back(&s);
  CHECK(!ab_lead_held(&s.lead, &s.spare));
  stage_fini(&s);
}

/* The second one stalls while the first still does: the shorter time counts. */
CHECK_CASE(stalls_add_up) {
  stage s;
  stage_init(&s, SHORT);
  ab_pulse_leave(&s.main.pulse);
  CHECK(standby_leads(&s));
  CHECK(ab_lead_claim(&s.lead, &s.spare));
  ab_pulse_leave(&s.spare.pulse);
  CHECK(standby_leads(&s));
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (ab_standby_get_stats(s.standby).stalls < 2 && ab_clock_monotonic() < end) rest();
  CHECK(ab_standby_get_stats(s.standby).stalls >= 2);
  come_back(&s);
  stage_fini(&s);
}

CHECK_CASE(who_waits_for_the_lock_is_helped) {
  stage s;
  stage_init(&s, LONG);
  atomic_store(&s.main.pulse.starved, true);
  ab_pulse_leave(&s.main.pulse);
  while (atomic_load(&s.nudged) < 3) rest();
  CHECK(atomic_load(&s.noticed) > 0);
  atomic_store(&s.main.pulse.starved, false);
  CHECK(ab_lead_held(&s.lead, &s.main));
  stage_fini(&s);
}

/* The lock was taken from it between a request and its application. */
CHECK_CASE(who_reads_for_long_is_helped) {
  stage s;
  stage_init(&s, LONG);
  ab_participant_read(&s.main);
  CHECK(ab_lead_starves(&s.lead));
  while (atomic_load(&s.nudged) < 3) rest();
  ab_participant_has_read(&s.main);
  CHECK(!ab_lead_starves(&s.lead));
  come_back(&s);
  stage_fini(&s);
}

/* One or the other waits for the lock at any time, but each for a moment only. */
CHECK_CASE(who_gets_the_lock_soon_needs_no_help) {
  stage s;
  stage_begin(&s, LONG, 1500 * AB_NSEC_PER_MS); /* it helps one that has waited for 300 ms */
  ab_participant *participants[] = {&s.main, &s.spare};
  ab_nsec end = ab_clock_monotonic() + 1000 * AB_NSEC_PER_MS;
  for (unsigned i = 0; ab_clock_monotonic() < end || atomic_load(&s.noticed) < 2; i++) {
    ab_pulse *comes = &participants[i % 2]->pulse, *goes = &participants[(i + 1) % 2]->pulse;
    atomic_store(&comes->starved, true);
    ab_pulse_leave(comes);
    rest();
    atomic_store(&goes->starved, false);
    ab_pulse_return(goes);
  }
  CHECK_INT(0, atomic_load(&s.nudged));
  for (int i = 0; i < 2; i++) {
    atomic_store(&participants[i]->pulse.starved, false);
    ab_pulse_return(&participants[i]->pulse);
  }
  stage_fini(&s);
}

/* Threads of a pool, which have not joined. */
static void stage_init_pool(stage *s) {
  ab_standby_options options = {
      .stall_after = LONG, .stall_again = LONG, .starve_after = 10 * LONG, .pass_after = SHORT / 4};
  stage_start(s, &options);
  s->main.pulse.bell = s->spare.pulse.bell = ab_standby_bell(s->standby);
}

CHECK_CASE(a_pool_passes_the_lead_on) {
  stage s;
  stage_init_pool(&s);
  atomic_store(&s.passes, true);
  ab_pulse_leave(&s.main.pulse);
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (atomic_load(&s.lead.holder) != &s.spare && ab_clock_monotonic() < end) rest();
  CHECK(atomic_load(&s.kept) > 0);
  CHECK_INT(1, atomic_load(&s.again));
  CHECK(!ab_lead_held(&s.lead, &s.main));
  CHECK(ab_lead_held(&s.lead, &s.spare));
  CHECK_INT(0, ab_standby_get_stats(s.standby).stalls);
  stage_fini(&s);
}

CHECK_CASE(one_that_is_there_keeps_the_lead_of_a_pool) {
  stage s;
  stage_init_pool(&s);
  atomic_store(&s.passes, true);
  nanosleep(&(struct timespec){.tv_nsec = 4 * SHORT}, NULL);
  CHECK_INT(0, atomic_load(&s.kept));
  CHECK_INT(0, atomic_load(&s.again));
  CHECK(ab_lead_held(&s.lead, &s.main));
  stage_fini(&s);
}

CHECK_CASE(nudges_are_further_apart_than_looks_at_a_pool) {
  stage s;
  stage_init_pool(&s);
  ab_participant waits; /* for the lock */
  ab_participant_init(&waits);
  ab_lead_join(&s.lead, &waits, ab_standby_bell(s.standby));
  ab_pulse_leave(&s.main.pulse);
  ab_pulse_starve(&waits.pulse);
  ab_nsec end = ab_clock_monotonic() + LONG;
  while (atomic_load(&s.again) < 20 && ab_clock_monotonic() < end) rest();
  CHECK(atomic_load(&s.again) >= 20);
  CHECK_INT(1, atomic_load(&s.noticed));
  ab_lead_part(&s.lead, &waits);
  stage_fini(&s);
}

/* It sleeps after some looks at a leader that is there, and wakes up for one that leaves. */
CHECK_CASE(it_sleeps_beside_a_pool) {
  stage s;
  stage_init_pool(&s);
  ab_bell *bell = ab_standby_bell(s.standby);
  for (unsigned round = 1; round <= 3; round++) {
    ab_nsec end = ab_clock_monotonic() + LONG;
    while (!atomic_load(&bell->asleep) && ab_clock_monotonic() < end) rest();
    CHECK(atomic_load(&bell->asleep));
    unsigned again = atomic_load(&s.again);
    ab_pulse_leave(&s.main.pulse);
    while (atomic_load(&s.again) == again && ab_clock_monotonic() < end) rest();
    CHECK(atomic_load(&s.again) > again);
    CHECK(ab_lead_held(&s.lead, &s.main));
  }
  stage_fini(&s);
}

/* Watches of others get what came for them when their owner is back, once. */
typedef struct probe {
  ab_watch watch;
  unsigned calls;
} probe;

static void probe_ready(ab_watch *watch, uint32_t events AB_UNUSED) {
  AB_CONTAINER_OF(watch, probe, watch)->calls++;
}

CHECK_CASE(what_is_the_owners_is_kept_for_it) {
  stage s;
  stage_init(&s, SHORT);
  int fds[2];
  CHECK_INT(0, pipe(fds));
  probe own = {.watch = {.ready = probe_ready, .fd = fds[0]}};
  ab_poller_lock(s.fx.poller);
  CHECK_INT(AB_OK, ab_poller_set(s.fx.poller, &own.watch, AB_POLL_IN | AB_POLL_EDGE));
  ab_poller_unlock(s.fx.poller);
  ab_pulse_leave(&s.main.pulse);
  CHECK(standby_leads(&s));
  for (int i = 0; i < 3; i++) {
    CHECK_INT(1, write(fds[1], "x", 1));
    rest();
  }
  int client = client_open(&s.fx);
  ab_poller_wakeup(s.fx.poller);
  client_send(client, GET("/a"));
  CHECK(waiting_reaches(&s, 1));
  CHECK_INT(0, own.calls);
  come_back(&s);
  fixture_run(&s.fx);
  CHECK_INT(1, own.calls);
  ab_poller_lock(s.fx.poller);
  ab_poller_unset(s.fx.poller, &own.watch, false);
  ab_poller_unlock(s.fx.poller);
  close(fds[0]);
  close(fds[1]);
  close(client);
  stage_fini(&s);
}

/* The main one serves and stays away at random, for times around what is too long; each request is
 * answered once, and correctly. */
CHECK_CASE(the_lead_goes_to_and_fro) {
  enum { CLIENTS = 8, ROUNDS = 300 };
  stage s;
  stage_init(&s, AB_NSEC_PER_MS);
  int clients[CLIENTS];
  unsigned seed = 1, answered = 0;
  for (int i = 0; i < CLIENTS; i++) clients[i] = client_open(&s.fx);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < CLIENTS; i++) client_send(clients[i], GET("/a") GET("/b"));
    come_back(&s);
    fixture_turn(&s.fx);
    ab_pulse_leave(&s.main.pulse);
    nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 2500000}, NULL);
    ab_nsec end = ab_clock_monotonic() + LONG;
    for (int i = 0; i < CLIENTS; i++) {
      for (unsigned got = 0; got < 2 && ab_clock_monotonic() < end;) {
        come_back(&s);
        fixture_turn(&s.fx);
        ab_pulse_leave(&s.main.pulse);
        bool over;
        const char *text = client_read(clients[i], &over);
        for (const char *at = text; (at = strstr(at, "\r\n\r\n/")); at += 4) got++;
        answered += got == 2;
      }
    }
  }
  CHECK_INT(CLIENTS * ROUNDS, answered);
  CHECK_INT(2 * CLIENTS * ROUNDS, s.fx.taken);
  come_back(&s);
  for (int i = 0; i < CLIENTS; i++) close(clients[i]);
  fixture_run(&s.fx);
  stage_fini(&s);
}

CHECK_CASE(of_a_thread_that_is_away_samples_are_taken_until_it_is_there) {
  stage s;
  stage_init(&s, SHORT);
  ab_pulse_leave(&s.main.pulse);
  ab_nsec begin = ab_clock_monotonic(), end = begin + LONG;
  while (atomic_load(&s.sampled) < 4 && ab_clock_monotonic() < end) rest();
  ab_nsec passed = ab_clock_monotonic() - begin;
  CHECK(atomic_load(&s.sampled) >= 4);
  CHECK(passed >= SHORT + 3 * 10 * AB_NSEC_PER_MS); /* one each 10 ms */
  CHECK_INT(0, atomic_load(&s.early));
  ab_pulse_return(&s.main.pulse);
  come_back(&s);
  unsigned sampled = atomic_load(&s.sampled);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  CHECK(atomic_load(&s.sampled) <= sampled + 1); /* one that was on its way */
  stage_fini(&s);
}

/* Whether a thread is away or all are there, which is when the standby sleeps. */
CHECK_CASE(each_second_is_told_once) {
  for (int away = 0; away < 2; away++) {
    stage s;
    stage_init(&s, SHORT);
    if (away) ab_pulse_leave(&s.main.pulse);
    ab_nsec begin = ab_clock_monotonic(), end = begin + LONG;
    while (atomic_load(&s.seconds) < 3 && ab_clock_monotonic() < end) rest();
    unsigned seconds = atomic_load(&s.seconds);
    ab_nsec passed = atomic_load(&s.second) - begin / AB_NSEC_PER_SEC;
    CHECK(seconds >= 3);
    CHECK(seconds <= passed + 1);
    stage_fini(&s);
  }
}

CHECK_MAIN()
