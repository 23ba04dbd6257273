/* A turn of the engine with its requests: see rb_turn.c. */
#ifndef AB_RB_TURN_H
#define AB_RB_TURN_H

#include "rb/run/rb_run.h"

bool ab__turn_regain_lead(ab_driver *driver);
/* Returns whether the driver leads. The main one takes the lead back from what stood in for it. */
static inline bool ab_turn_leads(ab_driver *driver) {
  if (AB_LIKELY(ab_lead_held(&driver->run->rack.lead, &driver->runner.participant))) return true;
  return ab__turn_regain_lead(driver);
}

/* The leader leaves requests of this level and above to wait, if there are any: it is told when
 * they may begin. Without the GVL too. */
void ab_turn_leaves(ab_run *run, uint8_t below);
/* For how long others have had the processor since the driver's thread last looked for events; 0 if
 * it was in a call that blocks, since then it kept its loop itself. */
static inline ab_nsec ab_turn_lost(ab_driver *driver) {
  return ab_gate_lost_here(&driver->run->rack.lead.gate, &driver->runner.participant.contender,
                           false);
}

uint8_t ab__turn_below(ab_driver *driver);
/* Requests below this level may begin on the driver (lead/gate.h). */
static inline uint8_t ab_turn_below(ab_driver *driver) {
  const ab_route_stats *route_stats = driver->run->route_stats;
  if (AB_LIKELY(!route_stats || !ab_route_stats_weighs(route_stats))) return AB_LEVELS;
  return ab__turn_below(driver);
}

/* Takes events of the engine until there is a request, which is then the driver's `next`. False
 * also when the driver does not lead. */
bool ab_turn_next(ab_driver *driver);
/* The same for a thread of the thread pool, which knows that it leads. */
bool ab_turn_take(ab_driver *driver);
/* Takes the next request from the driver; puts it back, without its env. */
ab_taken ab_turn_taken(ab_driver *driver);
void ab_turn_put_back(ab_driver *driver, ab_taken *taken);
/* Builds its env, as its bytes will be gone when it is served. Returns the state of rb_protect. */
int ab_turn_keep(ab_driver *driver, ab_taken *taken);

/* A turn of the engine, with its requests; the driver leads, and stops when it does not any more.
 * Returns true when the next one should follow at once. May raise what concerns the process. */
bool ab_turn_run(ab_driver *driver, ab_nsec now);
/* The rest of a turn: logs, cancellations, slow clients. Raises what concerns the process. */
void ab_turn_tidy(ab_driver *driver, ab_nsec now);
/* Logs what was found out about stalls: where that is found out no Ruby code may be called. */
void ab_turn_log_stalls(ab_stalls *stalls);
/* When the next turn is due; 0: when something happens. */
ab_nsec ab_turn_deadline(const ab_run *run);

#endif
