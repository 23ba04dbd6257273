/* Fibers that keep their loop, and threads that keep the GVL. */
#ifndef AB_RB_STALLS_H
#define AB_RB_STALLS_H

#include "rb/run/rb_run.h"

void ab_stalls_init(ab_stalls *stalls);
/* Takes the options about stalls and spare loops. Raises ArgumentError. */
void ab_stalls_configure(ab_run *run, VALUE options);
void ab_stalls_mark(ab_stalls *stalls);

/* Starts the standby for the pool's threads, which lead. Raises SystemCallError, RuntimeError. */
void ab_stalls_begin_on_threads(ab_run *run);
/* Starts the standby for the main runner's loop, not yet run. Raises the same. */
void ab_stalls_begin(ab_run *run);
/* Ends it, if it was begun. In a forked child too. */
void ab_stalls_end(ab_run *run);

/* Ruby's postponed job (rb_job.c): has Ruby call ab_stalls_attend when it is triggered, in the
 * thread that has the GVL, at its next safe point. Raises RuntimeError when it cannot. */
void ab_job_begin(ab_run *run);
/* Without the GVL. */
void ab_job_trigger(ab_run *run);
void ab_job_end(ab_run *run);

/* With the GVL: has a loop just come back from a collection, and is it to have time to continue? */
bool ab_stalls_excuses(const ab_run *run);
/* Does what the standby wants, with the GVL but no Ruby code. True: the calling thread is to park.
 * It is that of *driver, or, if that is NULL, one that runs no requests. */
bool ab_stalls_attend(ab_run *run, ab_driver **driver);
/* The request whose fiber runs on the driver, or NULL; on its thread. */
ab_call *ab_stalls_current_call(const ab_driver *driver);

#endif
