/* The lead, without an engine: who has it, and what becomes of it when it is taken. */
#include "check.h"
#include "lead/lead.h"

/* Counts the steps that were ended. */
static void end_step(void *engine) {
  ++*(unsigned *)engine;
}

static const ab_lead_turns turns = {.end_step = end_step};

typedef struct stage {
  ab_lead lead;
  ab_participant one, other;
  unsigned ended;
} stage;

static void stage_init(stage *s) {
  memset(s, 0, sizeof *s);
  CHECK_INT(AB_OK, ab_lead_init(&s->lead, &turns, &s->ended));
  ab_participant_init(&s->one);
  ab_participant_init(&s->other);
  ab_lead_join(&s->lead, &s->one, NULL);
  ab_lead_join(&s->lead, &s->other, NULL);
}

static void stage_fini(stage *s) {
  ab_lead_part(&s->lead, &s->one);
  ab_lead_part(&s->lead, &s->other);
  ab_lead_fini(&s->lead);
}

static bool seize(stage *s, ab_participant *from) {
  pthread_mutex_lock(&s->lead.lock);
  bool seized = ab__lead_seize(&s->lead, from);
  pthread_mutex_unlock(&s->lead.lock);
  return seized;
}

CHECK_CASE(the_standby_has_it_at_first) {
  stage s;
  stage_init(&s);
  CHECK(!ab_lead_is(&s.lead, &s.one));
  CHECK(!ab_lead_held(&s.lead, &s.one));
  CHECK(ab_lead_claim(&s.lead, &s.one));
  CHECK(ab_lead_held(&s.lead, &s.one));
  CHECK_INT(1, s.ended); /* that of the standby */
  stage_fini(&s);
}

CHECK_CASE(one_takes_it_from_the_other) {
  stage s;
  stage_init(&s);
  CHECK(ab_lead_take(&s.lead, &s.one));
  CHECK_INT(1, s.ended);
  CHECK(ab_lead_take(&s.lead, &s.one)); /* it has it already */
  CHECK_INT(1, s.ended);
  CHECK(!ab_lead_claim(&s.lead, &s.other)); /* which is for the standby's alone */
  CHECK(ab_lead_take(&s.lead, &s.other));
  CHECK_INT(2, s.ended);
  CHECK(ab_lead_is(&s.lead, &s.other) && !ab_lead_is(&s.lead, &s.one));
  stage_fini(&s);
}

CHECK_CASE(nothing_takes_it_from_one_that_reads) {
  stage s;
  stage_init(&s);
  CHECK(ab_lead_take(&s.lead, &s.one));
  ab_participant_read(&s.one);
  CHECK(!ab_lead_take(&s.lead, &s.other));
  CHECK(!seize(&s, &s.one));
  CHECK(ab_lead_is(&s.lead, &s.one));
  CHECK_INT(1, s.ended);
  ab_participant_has_read(&s.one);
  CHECK(seize(&s, &s.one));
  CHECK_INT(2, s.ended);
  stage_fini(&s);
}

CHECK_CASE(it_is_seized_only_from_one_that_is_away) {
  stage s;
  stage_init(&s);
  CHECK(ab_lead_take(&s.lead, &s.one));
  CHECK(!seize(&s, &s.one));
  CHECK(ab_lead_held(&s.lead, &s.one));
  ab_pulse_leave(&s.one.pulse);
  CHECK(!seize(&s, &s.other)); /* which has not got it */
  CHECK(ab_lead_is(&s.lead, &s.one));
  CHECK(seize(&s, &s.one));
  CHECK(!ab_lead_held(&s.lead, &s.one));
  CHECK_INT(0, atomic_load(&s.one.pulse.beat) & 1); /* it has come back */
  stage_fini(&s);
}

/* Threads that pass it among each other, without the standby. */
CHECK_CASE(it_is_suspended_and_passed_on) {
  stage s;
  stage_init(&s);
  ab_lead_pass(&s.lead, &s.one);
  CHECK(!ab_lead_suspend(&s.lead, &s.one)); /* it is there */
  CHECK(!ab_lead_suspend(&s.lead, &s.other));
  CHECK(ab_lead_held(&s.lead, &s.one));
  ab_pulse_leave(&s.one.pulse);
  CHECK(ab_lead_suspend(&s.lead, &s.one));
  CHECK(!ab_lead_held(&s.lead, &s.one));
  CHECK(!ab_lead_claim(&s.lead, &s.one)); /* the standby has not got it */
  ab_lead_pass(&s.lead, &s.other);
  CHECK(ab_lead_held(&s.lead, &s.other));
  CHECK_INT(0, s.ended); /* the next holder's business */
  stage_fini(&s);
}

CHECK_CASE(one_that_parts_leaves_it_to_the_standby) {
  stage s;
  stage_init(&s);
  CHECK(ab_lead_take(&s.lead, &s.one));
  ab_lead_part(&s.lead, &s.other);
  CHECK(ab_lead_is(&s.lead, &s.one));
  CHECK_INT(1, s.ended);
  ab_lead_part(&s.lead, &s.one);
  CHECK(!ab_lead_is(&s.lead, &s.one));
  CHECK_INT(2, s.ended);
  stage_fini(&s);
}

CHECK_CASE(it_starves_while_one_does) {
  stage s;
  stage_init(&s);
  CHECK(!ab_lead_starves(&s.lead));
  ab_pulse_starve(&s.other.pulse);
  CHECK(ab_lead_starves(&s.lead));
  ab_lead_part(&s.lead, &s.other);
  CHECK(!ab_lead_starves(&s.lead));
  ab_participant_read(&s.one);
  CHECK(ab_lead_starves(&s.lead)); /* the lock may have been taken from it */
  ab_participant_has_read(&s.one);
  CHECK(!ab_lead_starves(&s.lead));
  stage_fini(&s);
}

CHECK_MAIN()
