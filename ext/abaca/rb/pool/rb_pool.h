/* The pool of non-blocking fibers: a fiber runs many jobs, and is cleaned between them. GVL only; a
 * pool belongs to one thread. */
#ifndef AB_RB_POOL_H
#define AB_RB_POOL_H

#include <ruby.h>

#include "base/base.h"
#include "rb/scheduler/rb_loop.h"

typedef struct ab_pool ab_pool;

/* A job. It runs under rb_protect, and the pool handles what it raises: SystemExit, Interrupt,
 * NoMemoryError and kills go where they belong, everything else is logged as a bug of the job. */
typedef void (*ab_job_fn)(void *arg);

/* After a job has ended without an accident, the same fiber asks for another one to run at once,
 * which saves two switches. Returns false if there is none. */
typedef bool (*ab_job_next)(void *ctx, ab_job_fn *fn, void **arg);

/* The pool of an Abaca::FiberPool; raises TypeError for anything else. */
ab_pool *ab_pool_of(VALUE pool);

/* Sets the source of further jobs. */
void ab_pool_set_next(ab_pool *pool, ab_job_next next, void *ctx);

/* Runs fn(arg) on a pooled fiber, at once, until it first parks or ends; call it on the loop's root
 * fiber. Returns false, and runs nothing, if `max` fibers are busy or the kernel refuses another
 * stack. */
bool ab_pool_start(ab_pool *pool, ab_loop *loop, ab_job_fn fn, void *arg);

/* True if ab_pool_start would find or could create a fiber. */
bool ab_pool_available(ab_pool *pool);

/* Fibers that run or wait in a job now. */
size_t ab_pool_busy(const ab_pool *pool);

/* Defines Abaca::FiberPool. */
void ab_init_fiber_pool(VALUE mAbaca);

#endif
