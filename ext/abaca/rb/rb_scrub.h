/* Makes a fiber fit for the next job: whatever a job left on it is taken off. */
#ifndef AB_RB_SCRUB_H
#define AB_RB_SCRUB_H

#include <ruby.h>

#include <stdbool.h>

/* What the current fiber carries: for one that somebody else has made, before its first job. */
VALUE ab__scrub_baseline(VALUE fiber);

/* Takes fiber-locals, instance variables and storage off the current fiber; those of `baseline`
 * (Qnil: there are none) get back the values that they had. Returns Qtrue when nothing of the job
 * is left. Runs Ruby methods, which may raise. */
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline);

/* The same for a worker of a pool, which had nothing on it. The leak report names `job`, the block
 * that has run (Qnil: not known). */
bool ab__scrub_job(VALUE fiber, size_t plain_size, VALUE job);

/* Ruby has no call that says without making an Array that a fiber has no fiber-locals, but it says
 * how many octets a fiber takes: those of the table of its locals, once it has one, and those of
 * the machine stack that it had when it was last switched away from. Between two jobs a worker
 * always waits at the same place, and a job waits only further down; so one that has the size of a
 * new worker that waits has had no such table since. Takes that size of `fiber`, which is a new one
 * that waits; 0 when it was tried out that this Ruby does not count so. */
size_t ab__scrub_plain_size(VALUE fiber);

#endif
