/* Cleans a fiber for the next job: removes whatever a job left on it. */
#ifndef AB_RB_SCRUB_H
#define AB_RB_SCRUB_H

#include <ruby.h>

#include "base/base.h"

/* What the current fiber carries: for a fiber that other code has created, before its first job. */
VALUE ab__scrub_baseline(VALUE fiber);

/* Removes fiber-locals, instance variables and storage from the current fiber; those of `baseline`
 * (Qnil: there are none) get back the values that they had. Returns Qtrue if nothing of the job is
 * left. Runs Ruby methods, which may raise. */
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline);

/* Ruby has no cheap call that says whether a fiber has fiber-locals or storage: one creates an
 * Array, the other is a method. But each is a word of the fiber, which is empty as long as there
 * never were any. These are their places, counted in words; 0 for an unknown one.
 */
typedef struct ab_fiber_words {
  uint16_t locals, storage;
} ab_fiber_words;

/* Finds these words by trial, on a fiber of its own. Returns 0, or the state of rb_protect if an
 * interrupt came meanwhile. */
int ab__scrub_learn(ab_fiber_words *words);

/* As ab__scrub_fiber, for a worker of a pool, which had nothing on it. The leak report names `job`,
 * the block that has run (Qnil: not known). */
bool ab__scrub_job(VALUE fiber, ab_fiber_words words, VALUE job);

/* A copy of the storage of the current fiber, or nil. */
VALUE ab__scrub_storage(ab_fiber_words words);
/* Gives the current fiber such a copy. */
void ab__scrub_inherit(VALUE storage, VALUE fiber_class);

#endif
