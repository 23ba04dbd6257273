/* A pool of non-blocking fibers, cleaned between their jobs. For one thread, with the GVL. */
#ifndef AB_RB_POOL_H
#define AB_RB_POOL_H

#include <ruby.h>

#include "base/base.h"
#include "rb/scheduler/rb_loop.h"

typedef struct ab_pool ab_pool;

/* A job, run under rb_protect. SystemExit, Interrupt, NoMemoryError and kills go where they
 * belong, everything else is logged as a bug of the job. */
typedef void (*ab_job_fn)(void *arg);

/* Asked for another job to run on the same fiber, which saves two switches. False: none. */
typedef bool (*ab_job_next)(void *ctx, ab_job_fn *fn, void **arg);

/* The pool of an Abaca::FiberPool; raises TypeError for anything else. */
ab_pool *ab_pool_of(VALUE pool);

void ab_pool_set_next(ab_pool *pool, ab_job_next next, void *ctx);

/* Runs fn(arg) on a pooled fiber until it first parks or ends; call it on the loop's root fiber.
 * False, and nothing runs, if `max` fibers are busy or there is no stack for another. */
bool ab_pool_start(ab_pool *pool, ab_loop *loop, ab_job_fn fn, void *arg);

/* True if ab_pool_start would find or could create a fiber. */
bool ab_pool_available(ab_pool *pool);

size_t ab_pool_busy(const ab_pool *pool);

/* Defines Abaca::FiberPool. */
void ab_init_fiber_pool(VALUE mAbaca);

#endif
