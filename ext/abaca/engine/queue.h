/* Requests that wait for their turn, in engine->requests: light ones first, by a time for which
 * each lets others go before (lead/level.h). Of one level the oldest goes first, and none waits for
 * more than that time longer than if the oldest of all always had. With the lock held. */
#ifndef AB_ENGINE_QUEUE_H
#define AB_ENGINE_QUEUE_H

#include "engine/conn.h"

void ab__queue_add(ab_exchange *exchange);
/* It has waited for this time elsewhere, which counts. */
void ab__queue_put_back(ab_exchange *exchange, ab_nsec waited);
/* What the first `most` of them cost together. */
ab_nsec ab__queue_cost(ab_engine *engine, unsigned most);
/* What a request costs of which nothing is known yet. */
ab_nsec ab__queue_guess(const ab_engine *engine);
/* The request whose turn it is, as far as levels go, if it is below `below`; else NULL. With
 * engine->heavy_first that is the first one above the lowest level, if there is one. */
ab_exchange *ab__queue_first(ab_engine *engine, uint8_t below);
/* It is taken: a long wait is counted. */
void ab__queue_note_wait(ab_exchange *exchange);

#endif
