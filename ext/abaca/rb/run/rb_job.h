/* Ruby's postponed job, by which the standby reaches the thread that has the GVL: see rb_job.c. */
#ifndef AB_RB_JOB_H
#define AB_RB_JOB_H

#include "rb/run/rb_run.h"

/* Has Ruby call ab_stalls_attend when it is triggered, in the thread that has the GVL, at its next
 * safe point. Raises RuntimeError when it cannot. */
void ab_job_begin(ab_run *run);
/* Without the GVL. */
void ab_job_trigger(ab_run *run);
void ab_job_end(ab_run *run);

#endif
