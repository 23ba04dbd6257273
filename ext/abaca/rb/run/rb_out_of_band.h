/* The hooks `out_of_band`: after a request, when the app has no other, they run undisturbed.
 * Requests that come meanwhile wait, and new connections are left to other processes. They have a
 * thread of their own (lib/abaca/out_of_band.rb), so that the engine continues to turn. */
#ifndef AB_RB_OUT_OF_BAND_H
#define AB_RB_OUT_OF_BAND_H

#include "rb/run/rb_run.h"

/* Takes the option `out_of_band`. */
void ab_out_of_band_configure(ab_run *run, VALUE options);
/* They are to begin now. Without the GVL it is as good as true. */
bool ab_out_of_band_due(const ab_run *run);
/* Begins them, if they are due. On the thread that leads; calls Ruby then. */
void ab_out_of_band_look(ab_run *run, ab_pulse *pulse);
/* Requests are taken again. Any thread may call it; idempotent. */
void ab_out_of_band_end(ab_run *run);

#endif
