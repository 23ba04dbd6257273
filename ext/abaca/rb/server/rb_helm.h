/* The helm: what the hands of a gang and the watch over them (rb_helm_watch.h) do with the lead.
 * See rb_helm.c for what that is. "Locked": the gang's lock is held. */
#ifndef AB_RB_HELM_H
#define AB_RB_HELM_H

#include "rb/server/rb_gang_parts.h"

/* So long a request may keep the lead. */
#define AB_HELM_PATIENCE (200000)

static inline bool ab__helm_leads(const ab_hand *hand) {
  return atomic_load(&hand->gang->lead) == hand;
}

/* For a thread of the gang. */

/* The calling thread's hand looks for work, and does it. Returns false when the thread has to end.
 */
bool ab__helm_turn(ab_hand *hand);
/* Gives the lead away, if the hand has it. Without the GVL too. */
void ab__helm_leave(ab_hand *hand);
/* App code begins and ends; the second returns whether the hand still leads. */
void ab__helm_begin(ab_hand *hand);
bool ab__helm_end(ab_hand *hand);

/* For the watch. */

/* All threads are busy, and there will not be more of them. Locked. */
bool ab__helm_is_full(const ab_gang *gang);
/* Passes the lead on, which the hand has, if it still runs app code. Locked. Returns whether
 * somebody else has it then. */
bool ab__helm_take_from(ab_gang *gang, ab_hand *hand);

/* Is there something for ab_shutdown_turn or ab_server_tidy? An end that has begun is looked at
 * after each turn. */
bool ab__helm_has_chores(const ab_gang *gang);
/* Takes what waits, and does what belongs to a turn. Returns false when the lead has gone. Raises
 * what concerns the process. */
bool ab__helm_lead_on(ab_hand *hand);
/* Turns the engine without the GVL, until that is needed. */
void ab__helm_look_out(ab_hand *hand);
/* Ends the step of the last turn and begins another one, which waits for nothing. No requests are
 * taken, and no GVL is needed. */
void ab__helm_turn_once(ab_gang *gang);

/* Calls `fn` without the GVL, until it returns. Ruby sets hand->interrupted, signals hand->call and
 * wakes the poller when it wants something of the thread. Raises what an interrupt raises. */
void ab__helm_wait(ab_hand *hand, void (*fn)(ab_hand *hand));

#endif
