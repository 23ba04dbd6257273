/* The gate: what may begin beside what, who parks, and who goes on when. Threads stand for those of
 * the interpreter; its lock is a mutex. */
#include "lead/gate.h"

#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "io/timer.h"

#define LONG (20 * AB_NSEC_PER_SEC)

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void compute(ab_nsec time) {
  ab_nsec end = ab_os_thread_cpu_time() + time;
  while (ab_os_thread_cpu_time() < end) continue;
}

typedef struct stage {
  ab_gate gate;
  ab_pulse own;
  ab_contender self;
} stage;

static void stage_init(stage *s) {
  memset(s, 0, sizeof *s);
  CHECK_INT(AB_OK, ab_gate_init(&s->gate));
  ab_gate_join(&s->gate, &s->self, &s->own);
}

static void stage_fini(stage *s) {
  ab_gate_part(&s->gate, &s->self);
  ab_gate_fini(&s->gate);
}

/* Another contender, without a thread: its pulse and its claim are what a test makes them. */
static void add(stage *s, ab_contender *other, ab_pulse *pulse, int level) {
  *pulse = (ab_pulse){0};
  ab_gate_join(&s->gate, other, pulse);
  if (level < 0) return;
  ab_pulse_leave(pulse);
  ab_gate_claim(&s->gate, other, (uint8_t)level);
}

CHECK_CASE(what_is_begun_is_ended_first) {
  stage s;
  stage_init(&s);
  CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, &s.self));
  ab_contender other, third;
  ab_pulse pulse, pulse3;
  add(&s, &other, &pulse, -1);
  CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, &s.self));
  ab_pulse_leave(&pulse);
  ab_gate_claim(&s.gate, &other, 2);
  CHECK_INT(2, ab_gate_level(&other));
  CHECK_INT(2, ab_gate_below(&s.gate, &s.self));
  CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, &other)); /* it is not in its own way */
  add(&s, &third, &pulse3, 1);
  CHECK_INT(1, ab_gate_below(&s.gate, NULL));
  /* The lightest may always begin. */
  ab_pulse_leave(&pulse3);
  CHECK_INT(0, ab_gate_level(&third));
  CHECK_INT(1, ab_gate_below(&s.gate, NULL));
  ab_pulse_return(&pulse3);
  CHECK_INT(2, ab_gate_below(&s.gate, NULL));
  /* One that waits for the interpreter's lock computes nothing. */
  ab_pulse_starve(&pulse);
  CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, NULL));
  ab_gate_part(&s.gate, &third);
  ab_gate_part(&s.gate, &other);
  stage_fini(&s);
}

/* Without the interpreter's lock for long enough. */
static void go(stage *s, ab_contender *contender) {
  ab_gate_tell_grip(contender, AB_GRIP_GONE);
  ab_gate_look(&s->gate);
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  ab_gate_look(&s->gate);
}

CHECK_CASE(one_that_wants_the_lock_is_in_the_way) {
  stage s;
  stage_init(&s);
  ab_contender one, two;
  ab_pulse pulse, pulse2;
  add(&s, &one, &pulse, 2);
  add(&s, &two, &pulse2, 2);
  atomic_store(&s.gate.shut, 2);
  ab_gate_tell_grip(&two, AB_GRIP_WANTS);
  go(&s, &one);
  CHECK_INT(2, ab_gate_below(&s.gate, NULL));
  CHECK(!ab_gate_has_opened(&s.gate));
  go(&s, &two);
  CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, NULL));
  CHECK(ab_gate_has_opened(&s.gate));
  ab_gate_tell_grip(&one, AB_GRIP_WANTS);
  CHECK_INT(2, ab_gate_below(&s.gate, NULL));
  CHECK(!ab_gate_has_opened(&s.gate));
  ab_gate_tell_grip(&one, AB_GRIP_HAS);
  CHECK_INT(2, ab_gate_below(&s.gate, NULL));
  ab_gate_tell_grip(&one, AB_GRIP_GONE); /* just now */
  ab_gate_look(&s.gate);
  CHECK_INT(2, ab_gate_below(&s.gate, NULL));
  atomic_store(&s.gate.shut, 0); /* nothing was left to wait */
  go(&s, &one);
  CHECK(!ab_gate_has_opened(&s.gate));
  ab_gate_part(&s.gate, &two);
  ab_gate_part(&s.gate, &one);
  stage_fini(&s);
}

/* --- with threads --- */

typedef struct worker {
  stage *stage;
  pthread_t thread;
  ab_pulse pulse;
  ab_contender contender;
  uint8_t level;
  bool blocks;
  pthread_mutex_t *lock; /* the interpreter's */
  _Atomic bool wanted, parks, stop, ready;
  _Atomic unsigned parked; /* times that it has come back */
  ab_nsec lost, waited;    /* at its end, without calls that block and with them */
} worker;

static bool is_wanted(void *arg) {
  return atomic_load(&((worker *)arg)->wanted);
}

static void *work(void *arg) {
  worker *w = arg;
  ab_gate *gate = &w->stage->gate;
  ab_gate_join(gate, &w->contender, &w->pulse);
  ab_pulse_leave(&w->pulse);
  if (w->level > 0) ab_gate_claim(gate, &w->contender, w->level);
  atomic_store(&w->ready, true);
  while (!atomic_load(&w->stop)) {
    if (atomic_load(&w->parks)) {
      atomic_store(&w->parks, false);
      ab_gate_park(gate, &w->contender, is_wanted, w);
      atomic_fetch_add(&w->parked, 1);
    }
    if (w->blocks) {
      rest();
    } else {
      compute(AB_NSEC_PER_MS / 10);
    }
  }
  w->lost = ab_gate_lost_here(gate, &w->contender, false);
  w->waited = ab_gate_lost_here(gate, &w->contender, true);
  ab_pulse_return(&w->pulse);
  ab_gate_part(gate, &w->contender);
  return NULL;
}

static void begin(worker *w, stage *s, uint8_t level, bool blocks) {
  memset(w, 0, sizeof *w);
  w->stage = s;
  w->level = level;
  w->blocks = blocks;
  CHECK_INT(0, pthread_create(&w->thread, NULL, work, w));
  while (!atomic_load(&w->ready)) rest();
}

static void end(worker *w) {
  atomic_store(&w->stop, true);
  ab_gate_interrupt(&w->stage->gate, &w->contender);
  pthread_join(w->thread, NULL);
}

static bool reaches(_Atomic unsigned *count, unsigned value) {
  for (ab_nsec limit = ab_clock_monotonic() + LONG; atomic_load(count) < value; rest()) {
    if (ab_clock_monotonic() > limit) return false;
  }
  return true;
}

static bool parks(worker *w) {
  unsigned before = atomic_load(&w->stage->gate.parked_count);
  atomic_store(&w->parks, true);
  return reaches(&w->stage->gate.parked_count, before + 1);
}

CHECK_CASE(it_sees_what_computes_and_what_blocks) {
  stage s;
  stage_init(&s);
  worker busy, idle;
  begin(&busy, &s, 0, false);
  begin(&idle, &s, 2, true);
  ab_nsec limit = ab_clock_monotonic() + LONG;
  bool rose = false, opened = false;
  while (!(rose && opened) && ab_clock_monotonic() < limit) {
    ab_gate_look(&s.gate);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    rose = rose || ab_gate_level(&busy.contender) > 0;
    uint64_t beat = atomic_load(&idle.pulse.beat);
    if (opened || ab_gate_used(&s.gate, &idle.contender, beat) != UINT64_MAX) continue;
    opened = true;
    CHECK_INT(AB_LEVELS, ab_gate_below(&s.gate, &busy.contender));
    ab_gate_tell_grip(&idle.contender, AB_GRIP_WANTS); /* it waits for the interpreter's lock */
    CHECK_INT(2, ab_gate_below(&s.gate, &busy.contender));
    ab_gate_tell_grip(&idle.contender, AB_GRIP_HAS);
  }
  CHECK(rose);   /* it was not known to be heavy */
  CHECK(opened); /* it was, and waits */
  uint64_t beat = atomic_load(&busy.pulse.beat);
  CHECK(ab_gate_used(&s.gate, &busy.contender, beat) >= 5 * AB_NSEC_PER_MS);
  CHECK_INT(0, ab_gate_used(&s.gate, &busy.contender, beat + 2));
  end(&busy);
  end(&idle);
  CHECK_INT(0, idle.lost);
  CHECK(idle.waited >= AB_NSEC_PER_MS);
  stage_fini(&s);
}

/* As far as anybody has seen. */
CHECK_CASE(it_tells_the_time_in_which_others_run) {
  stage s;
  stage_init(&s);
  CHECK_INT(0, ab_gate_lost_here(&s.gate, &s.self, false));
  ab_pulse_leave(&s.own);
  ab_gate_look(&s.gate);
  for (int i = 0; i < 10; i++) rest();
  CHECK(ab_gate_lost_here(&s.gate, &s.self, false) >= AB_NSEC_PER_MS);
  ab_pulse_return(&s.own);
  CHECK_INT(0, ab_gate_lost_here(&s.gate, &s.self, false));
  stage_fini(&s);
}

/* It computes for a slice before it makes way, and only for those that are lighter. */
CHECK_CASE(it_yields_after_its_slice) {
  stage s;
  stage_init(&s);
  ab_pulse_leave(&s.own);
  ab_gate_claim(&s.gate, &s.self, 2);
  CHECK(!ab_gate_yields(&s.gate, &s.self, true));
  compute(6 * AB_NSEC_PER_MS);
  CHECK(ab_gate_yields(&s.gate, &s.self, true));
  CHECK(!ab_gate_yields(&s.gate, &s.self, false));
  worker heavy, light;
  begin(&heavy, &s, 2, true);
  begin(&light, &s, 1, true);
  atomic_store(&heavy.wanted, true);
  atomic_store(&light.wanted, true);
  ab_pulse_leave(&s.own); /* something computes: they stay parked for a while */
  ab_gate_claim(&s.gate, &s.self, 2);
  compute(6 * AB_NSEC_PER_MS);
  CHECK(parks(&heavy));
  CHECK(!ab_gate_yields(&s.gate, &s.self, false) || atomic_load(&heavy.parked) > 0);
  end(&heavy);
  end(&light);
  stage_fini(&s);
}

/* Whoever rests wakes the lightest; of one level, the one that has parked last. One at a time. */
CHECK_CASE(one_goes_on_when_another_rests) {
  stage s;
  stage_init(&s);
  worker first, second, light;
  begin(&first, &s, 2, true);
  begin(&second, &s, 2, true);
  begin(&light, &s, 1, true);
  worker *all[] = {&first, &second, &light};
  for (size_t i = 0; i < 3; i++) atomic_store(&all[i]->wanted, true);
  /* Light work goes on and on, so that none goes on by itself before its patience ends. */
  worker lightest;
  begin(&lightest, &s, 0, false);
  CHECK(parks(&first) && parks(&second) && parks(&light));
  ab_gate_rest(&s.gate, &s.self);
  CHECK(reaches(&light.parked, 1));
  end(&light);
  ab_gate_rest(&s.gate, &s.self);
  CHECK(reaches(&second.parked, 1));
  end(&second);
  ab_gate_rest(&s.gate, &s.self);
  CHECK(reaches(&first.parked, 1));
  end(&first);
  end(&lightest);
  CHECK_INT(0, atomic_load(&s.gate.parked_count));
  stage_fini(&s);
}

/* Nobody says a word, or those that are lighter wait for what the parked one has. */
CHECK_CASE(it_goes_on_by_itself) {
  stage s;
  stage_init(&s);
  worker heavy, light;
  begin(&heavy, &s, 1, true);
  CHECK(parks(&heavy));
  CHECK(reaches(&heavy.parked, 1)); /* nothing is wanted */
  begin(&light, &s, 0, true);
  atomic_store(&heavy.wanted, true);
  CHECK(parks(&heavy));
  CHECK(reaches(&heavy.parked, 2)); /* it is, but nothing computes */
  end(&light);
  begin(&light, &s, 0, false);
  CHECK(parks(&heavy));
  CHECK(reaches(&heavy.parked, 3)); /* light work does not end */
  end(&light);
  end(&heavy);
  stage_fini(&s);
}

CHECK_CASE(an_interrupt_ends_it) {
  stage s;
  stage_init(&s);
  ab_contender other;
  ab_pulse pulse;
  ab_gate_join_for_once(&other, &pulse);
  ab_gate_interrupt(&s.gate, &other);
  worker w = {.stage = &s};
  atomic_store(&w.wanted, true);
  CHECK(ab_gate_park(&s.gate, &other, is_wanted, &w) < LONG);
  CHECK_INT(0, atomic_load(&s.gate.parked_count));
  ab_gate_part_for_once(&other);
  stage_fini(&s);
}

CHECK_MAIN()
