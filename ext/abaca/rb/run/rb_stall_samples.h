/* Where requests keep their loops: from stall_after on a sample each 10 ms, folded by route and
 * stack. It costs nothing while no loop is kept. */
#ifndef AB_RB_STALL_SAMPLES_H
#define AB_RB_STALL_SAMPLES_H

#include "rb/run/rb_run.h"

/* The standby's: a loop is kept in this beat, for longer than stall_after since `from`. Without the
 * GVL; the job is to be triggered. */
void ab_stall_samples_want(ab_driver *driver, uint64_t beat, ab_nsec from);
/* With the GVL, in the job: takes the sample that is wanted, if the thread that is here keeps the
 * loop. The call is the one that runs here, or NULL. Runs no Ruby code. */
void ab_stall_samples_take(ab_driver *driver, const ab_call *call);

/* The thread has been made to wait for this time, which does not count. With the GVL. */
void ab_stall_samples_excuse(ab_driver *driver, ab_nsec time);

void ab_stall_samples_mark(const ab_stall_samples *samples);
/* Empty from now on. */
void ab_stall_samples_clear(ab_stall_samples *samples);
/* [[label, backtrace, seconds, samples], ...], the last one for what had no place: its first two
 * are nil. */
VALUE ab_stall_samples_to_a(const ab_stall_samples *samples);

#endif
