/* What the files of an Abaca::FiberPool share. Other files use rb/pool/rb_pool.h. Invariants: a
 * worker is on one of `idle`, `busy` and `ending` until its fiber ends; `live` counts them. A
 * ticket is on `queue` exactly while it waits for a fiber. Call on the pool's thread only. */
#ifndef AB_RB_POOL_PARTS_H
#define AB_RB_POOL_PARTS_H

#include <sys/types.h>

#include "rb/scheduler/rb_loop_task.h"
#include "rb/scheduler/rb_first_switch.h"
#include "rb/pool/rb_gc_pace.h"
#include "rb/pool/rb_pool.h"
#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"

/* Why a fiber ended. */
enum ab_retired {
  AB_RETIRED_KILLED,  /* Fiber#kill, or the end of its thread */
  AB_RETIRED_DIRTY,   /* a job left something that cannot be removed */
  AB_RETIRED_JOBS,    /* it has run `retire_after` jobs */
  AB_RETIRED_SURPLUS, /* there were `idle` fibers already */
  AB_RETIRED_IDLE,    /* it had nothing to do for `idle_timeout` */
  AB_RETIRED_TRIMMED, /* #trim */
  AB_RETIRED_REASONS
};

typedef struct ab_worker {
  ab_list link;
  ab_pool *pool;
  ab_loop *loop;   /* NULL while it is warmed up */
  VALUE scheduler; /* that of `loop`, which lives as long; nil for no loop */
  VALUE starter;   /* where to switch to while there is no loop */
  VALUE fiber;
  ab_job_fn fn; /* NULL when idle */
  void *arg;
  VALUE ticket;  /* whose job it is; nil for one of #post and of ab_pool_start */
  VALUE block;   /* of the ticket, or what #post was called with */
  VALUE storage; /* that a posted job inherits; nil for none */
  bool posted;   /* the job is one of #post, and has not ended */
  bool begun;    /* the fiber has run */
  uint64_t jobs;
  uint32_t deep; /* how often its stack was found to be deep */
  ab_stack stack;
  uint8_t reason; /* enum ab_retired, for when it ends */
  bool running;   /* a job, or the scrubbing after it */
  bool clean;     /* the last job was scrubbed */
  bool ending;
} ab_worker;

struct ab_pool {
  VALUE self;
  VALUE thread;      /* the thread of these fibers; nil before the first one */
  VALUE scheduler;   /* that of `loop` */
  VALUE fiber_class; /* Fiber itself */
  VALUE ticket_class;
  VALUE on_error; /* is called with what a posted job raises; nil: that is reported */
  ab_loop *loop;  /* where the last job was started; NULL before the first */
  pid_t owner;
  ab_list idle, busy, ending, queue;
  size_t live, idle_count, busy_count, waiting;
  size_t max; /* wanted_max, or for a time the number at which the kernel refused another */
  size_t wanted_max, max_idle, warm;
  ab_nsec refused;      /* when that was */
  size_t high_water;    /* most fibers busy at a time */
  size_t least_idle;    /* fewest fibers idle since the last tick of the idle timer */
  size_t least_long;    /* and since the last full one */
  ab_nsec full_tick;    /* when the next full one is due */
  size_t uncollected;   /* fibers that the idle timer has ended since it last had them collected */
  size_t stack_size;    /* see ab_stack_init */
  ab_fiber_words words; /* learnt with the first worker */
  uint64_t retire_after;
  ab_nsec idle_timeout; /* 0: never */
  bool refuse;          /* on_full: :raise */
  uint64_t created, reused, trimmed_stacks, retired[AB_RETIRED_REASONS];
  ab_loop_task idle_timer, starter, grower, looker;
  ab_gc_pace pace;
  ab_first_switch first_switch;
  ab_worker *target; /* whose fiber #make_fiber makes; else NULL */
  ab_job_next next;
  void *next_ctx;
};

/* Minor collections scan idle fibers' stacks, too. Those beyond this number stay idle for
 * AB_POOL_CROWD_TIME only: long enough for the next burst. */
#define AB_POOL_CROWD      1024
#define AB_POOL_CROWD_TIME (10 * AB_NSEC_PER_SEC)

/* The time between two ticks of the idle timer. */
static inline ab_nsec ab__pool_tick(const ab_pool *pool) {
  return pool->idle_timeout < AB_POOL_CROWD_TIME ? pool->idle_timeout : AB_POOL_CROWD_TIME;
}

/* --- rb_pool.c --- */

/* The current thread's loop. Raises if it is foreign, or the pool is another thread's. */
ab_loop *ab__pool_loop(ab_pool *pool);
/* An idle or a new worker. NULL if there are `max`, or no stack for another. */
ab_worker *ab__pool_take(ab_pool *pool);
void ab__worker_assign(ab_worker *w, ab_loop *loop, ab_job_fn fn, void *arg);
/* Runs fn(w) on the worker's fiber until it first waits. Raises what ended the switch. */
void ab__worker_run(ab_worker *w, ab_loop *loop, ab_job_fn fn);
VALUE ab__pool_make_fiber(VALUE self);
/* Creates idle workers up to this number. Raises FiberError. */
void ab__pool_warm(ab_pool *pool, size_t count);
/* Ends up to `count` idle fibers, the oldest first (in the next turn if in a fiber); how many. */
size_t ab__pool_let_go(ab_pool *pool, ab_loop *loop, size_t count, enum ab_retired reason);

/* --- rb_ticket.c --- */

VALUE ab__ticket_class(VALUE klass);
/* $! has ended the job of the worker's ticket. True if it need not be reported elsewhere. */
bool ab__ticket_failed(ab_worker *w);
/* Must a new job wait for a fiber, behind others? Raises Full if the pool lets none wait. */
bool ab__ticket_waits(ab_pool *pool);
/* Has a job of #post wait for a fiber. Raises what #run raises when there is none. */
void ab__ticket_post(ab_pool *pool, VALUE job);
/* Takes the next ticket off the queue, for `w` to run it. */
void ab__ticket_next(ab_pool *pool, ab_worker *w);
/* Starts waiting tickets as long as there are fibers for them; on the root fiber. */
void ab__tickets_start(ab_pool *pool, ab_loop *loop);
void ab__tickets_start_soon(ab_pool *pool);
void ab__tickets_mark(ab_pool *pool);
void ab__init_ticket(VALUE klass);

/* --- rb_post.c --- */

VALUE ab__job_call(VALUE job);
/* $! has ended a posted job, with this state of rb_protect: tells on_error. Returns the state
 * that is left: 0, or that of what on_error raised; unchanged without on_error and for what
 * concerns the process. */
int ab__post_failed(ab_pool *pool, int state);
/* The exception has ended a posted job that had no fiber yet. */
void ab__post_lost(ab_pool *pool, ab_loop *loop, VALUE exception);
void ab__init_post(VALUE klass);

#endif
