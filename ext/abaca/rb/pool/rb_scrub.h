/* Makes a fiber fit for the next job: whatever a job left on it is taken off. */
#ifndef AB_RB_SCRUB_H
#define AB_RB_SCRUB_H

#include <ruby.h>

#include "base/base.h"

/* What the current fiber carries: for one that somebody else has made, before its first job. */
VALUE ab__scrub_baseline(VALUE fiber);

/* Takes fiber-locals, instance variables and storage off the current fiber; those of `baseline`
 * (Qnil: there are none) get back the values that they had. Returns Qtrue when nothing of the job
 * is left. Runs Ruby methods, which may raise. */
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline);

/* Ruby has no call that says at small cost that a fiber has no fiber-locals or no storage: one
 * makes an Array, the other is a method. But both are a word of the fiber each, which is empty as
 * long as it never had any. These are their places, counted in words; 0 for one that is not known.
 */
typedef struct ab_fiber_words {
  uint16_t locals, storage;
} ab_fiber_words;

/* Tries out, on a fiber of its own, which words they are. Returns 0, or the state of rb_protect
 * when an interrupt came meanwhile. */
int ab__scrub_learn(ab_fiber_words *words);

/* As ab__scrub_fiber, for a worker of a pool, which had nothing on it. The leak report names `job`,
 * the block that has run (Qnil: not known). */
bool ab__scrub_job(VALUE fiber, ab_fiber_words words, VALUE job);

/* A copy of the storage of the current fiber, or nil. */
VALUE ab__scrub_storage(ab_fiber_words words);

#endif
