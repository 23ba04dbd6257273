/* The engine as the leading thread turns it: what the lead and the standby need of it, without
 * knowing an engine. */
#include "engine/turns.h"

#include "engine/engine.h"

static void end_step(void *engine) {
  ab_engine_end_step(engine);
}

static bool turn(void *engine, ab_nsec now) {
  return ab_engine_turn(engine, now);
}

static ab_nsec deadline(void *engine) {
  return ab_engine_deadline(engine);
}

static bool has_news(void *engine) {
  ab_engine_lock(engine);
  bool news = ab_engine_has_news(engine);
  ab_engine_unlock(engine);
  return news;
}

static void flush(void *engine) {
  ab_engine_flush(engine);
}

const ab_lead_turns ab_engine_turns = {
    .end_step = end_step,
    .turn = turn,
    .deadline = deadline,
    .has_news = has_news,
    .flush = flush,
};
