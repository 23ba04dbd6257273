/* Cleans a fiber for the next job: removes whatever a job left on it. */
#ifndef AB_RB_SCRUB_H
#define AB_RB_SCRUB_H

#include <ruby.h>

#include "base/base.h"

/* What the current fiber carries: for a fiber that other code has created, before its first job. */
VALUE ab__scrub_baseline(VALUE fiber);

/* Removes fiber-locals, instance variables and storage from the current fiber, and restores
 * those of `baseline` (Qnil: none). Qtrue if nothing of the job is left. Runs Ruby methods,
 * which may raise. */
VALUE ab__scrub_fiber(VALUE fiber, VALUE baseline);

/* The places of fiber-locals and storage, in words of a fiber, 0 if unknown. The words are empty
 * as long as there never were any; Ruby has no cheap call that tells. */
typedef struct ab_fiber_words {
  uint16_t locals, storage;
} ab_fiber_words;

/* Finds these words by trial. Returns 0, or the state of rb_protect after an interrupt. */
int ab__scrub_learn(ab_fiber_words *words);

/* As ab__scrub_fiber, for a pool's worker. `job` (or Qnil) is for the leak report. */
bool ab__scrub_job(VALUE fiber, ab_fiber_words words, VALUE job);

/* A copy of the storage of the current fiber, or nil. */
VALUE ab__scrub_storage(ab_fiber_words words);
/* Gives the current fiber such a copy. */
void ab__scrub_inherit(VALUE storage, VALUE fiber_class);

#endif
