/* The engine as the leading thread turns it. */
#ifndef AB_ENGINE_TURNS_H
#define AB_ENGINE_TURNS_H

#include "lead/lead.h"

/* Of an ab_engine. */
extern const ab_lead_turns ab_engine_turns;

#endif
