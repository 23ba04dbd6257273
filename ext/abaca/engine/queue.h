/* Requests that wait for their turn, in engine->requests: light ones first, by a time for which
 * each lets others go before (lead/level.h). Of one level the oldest goes first, and none waits for
 * more than that time longer than if the oldest of all always had. With the lock held. */
#ifndef AB_ENGINE_QUEUE_H
#define AB_ENGINE_QUEUE_H

#include "engine/conn.h"

void ab__queue_add(ab_exchange *exchange);
/* The request whose turn it is, as far as levels go, if it is below `below`; else NULL. With
 * engine->heavy_first that is the first one above the lowest level, if there is one. */
ab_exchange *ab__queue_first(ab_engine *engine, uint8_t below);

#endif
