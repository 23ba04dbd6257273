/* Makes a fiber fit for the next job: whatever a job left on it is taken off. */
#ifndef AB_RB_SCRUB_H
#define AB_RB_SCRUB_H

#include <ruby.h>

/* What the current fiber carries: for one that somebody else has made, before its first job. */
VALUE ab__scrub_baseline(VALUE fiber);

/* Takes fiber-locals, instance variables and storage off the current fiber; those of `baseline`
 * (Qnil: there are none) get back the values that they had. Returns Qtrue when nothing of the job
 * is left. Runs Ruby methods, which may raise. */
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline);

/* The same; the leak report names `job`, the block that has run (Qnil: not known). */
VALUE ab__scrub_job(VALUE fiber, VALUE baseline, VALUE job);

#endif
