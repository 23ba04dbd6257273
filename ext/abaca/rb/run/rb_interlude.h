/* Interludes: after a request, when the app has no other, Ruby code may run that nothing disturbs.
 * Requests that come meanwhile wait, and new connections are left to other processes. The code runs
 * on a thread of its own (lib/abaca/interlude.rb), so that the engine continues to turn. */
#ifndef AB_RB_INTERLUDE_H
#define AB_RB_INTERLUDE_H

#include "rb/run/rb_run.h"

/* Takes the option `interlude`. */
void ab_interlude_configure(ab_run *run, VALUE options);
/* One is to begin now. Without the GVL it is as good as true. */
bool ab_interlude_due(const ab_run *run);
/* Begins it, if it is due. On the thread that leads; calls Ruby then. */
void ab_interlude_look(ab_run *run, ab_pulse *pulse);
/* Requests are taken again. Any thread may call it; idempotent. */
void ab_interlude_end(ab_run *run);

#endif
