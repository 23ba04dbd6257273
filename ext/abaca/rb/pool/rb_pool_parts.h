/* The inside of an Abaca::FiberPool: what its files share. Everybody else uses rb/pool/rb_pool.h.
 *
 * Invariants: a worker is on exactly one of `idle`, `busy` and `ending` from when it is made until
 * its fiber ends; `live` is the number of all of them. A ticket is on `queue` exactly while it
 * waits for a fiber. Functions are called on the pool's thread only.
 */
#ifndef AB_RB_POOL_PARTS_H
#define AB_RB_POOL_PARTS_H

#include <sys/types.h>

#include "rb/scheduler/rb_chore.h"
#include "rb/scheduler/rb_nursery.h"
#include "rb/pool/rb_gc_pace.h"
#include "rb/pool/rb_pool.h"
#include "rb/pool/rb_scrub.h"
#include "rb/pool/rb_stack.h"

/* Why a fiber ended. */
enum ab_retired {
  AB_RETIRED_KILLED,  /* Fiber#kill, or the end of its thread */
  AB_RETIRED_DIRTY,   /* a job left something that cannot be taken off */
  AB_RETIRED_JOBS,    /* it has run `retire_after` jobs */
  AB_RETIRED_SURPLUS, /* `idle` fibers were there already */
  AB_RETIRED_IDLE,    /* it had nothing to do for `idle_timeout` */
  AB_RETIRED_TRIMMED, /* #trim */
  AB_RETIRED_REASONS
};

typedef struct ab_worker {
  ab_list link;
  ab_pool *pool;
  ab_loop *loop;   /* NULL while it is warmed up */
  VALUE scheduler; /* that of `loop`, which lives as long; nil for no loop */
  VALUE home;      /* whom to switch to while there is no loop */
  VALUE fiber;
  ab_job_fn fn; /* NULL when idle */
  void *arg;
  VALUE ticket; /* whose job it is; nil for one of ab_pool_start */
  VALUE block;  /* of the ticket */
  bool begun;   /* the fiber has run */
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
  VALUE thread;      /* whose fibers these are; nil before the first one */
  VALUE scheduler;   /* that of `loop` */
  VALUE fiber_class; /* Fiber itself */
  VALUE ticket_class;
  ab_loop *loop; /* where the last job was started; NULL before the first */
  pid_t owner;
  ab_list idle, busy, ending, queue;
  size_t live, idle_count, busy_count, waiting;
  size_t max; /* wanted_max, or for a time those that there were when the kernel refused another */
  size_t wanted_max, max_idle, warm;
  ab_nsec refused;      /* when that was */
  size_t high_water;    /* most fibers busy at a time */
  size_t least_idle;    /* fewest fibers idle since the last tick of the idle timer */
  size_t least_long;    /* and since the last full one */
  ab_nsec full_tick;    /* when the next full one is due */
  size_t uncollected;   /* fibers that the idle timer has let go since it had them collected */
  size_t stack_size;    /* see ab_stack_init */
  ab_fiber_words words; /* learnt with the first worker */
  uint64_t retire_after;
  ab_nsec idle_timeout; /* 0: never */
  bool refuse;          /* on_full: :raise */
  uint64_t created, reused, trimmed_stacks, retired[AB_RETIRED_REASONS];
  ab_chore idle_timer, starter, grower, looker;
  ab_gc_pace pace;
  ab_nursery nursery;
  ab_worker *newborn; /* whose fiber #make_fiber makes; else NULL */
  ab_job_next next;
  void *next_ctx;
};

/* Each minor collection reads the stacks of idle fibers, too. Those beyond so many lie idle
 * for AB_POOL_CROWD_TIME only: a burst that follows soon finds them, and a quiet hour has them not.
 */
#define AB_POOL_CROWD      1024
#define AB_POOL_CROWD_TIME (10 * AB_NSEC_PER_SEC)

/* The time between two ticks of the idle timer. */
static inline ab_nsec ab__pool_tick(const ab_pool *pool) {
  return pool->idle_timeout < AB_POOL_CROWD_TIME ? pool->idle_timeout : AB_POOL_CROWD_TIME;
}

/* --- rb_pool.c --- */

/* The current thread's loop, for use with this pool. Raises when there is none, when it is not an
 * Abaca::Scheduler, and when it or the pool belongs to another thread or process. */
ab_loop *ab__pool_loop(ab_pool *pool);
/* An idle worker; it is made when there is none. NULL when `max` are there, or the kernel has no
 * stack for another one. */
ab_worker *ab__pool_take(ab_pool *pool);
/* Makes the worker busy with a job. */
void ab__worker_assign(ab_worker *w, ab_loop *loop, ab_job_fn fn, void *arg);
/* The private method #make_fiber, called by make_worker alone. */
VALUE ab__pool_make_fiber(VALUE self);
/* Makes idle workers until there are so many. Raises FiberError. */
void ab__pool_warm(ab_pool *pool, size_t count);
/* Lets up to `count` of the idle fibers end that were used longest ago. On the root fiber at once,
 * elsewhere in the loop's next turn. Returns how many. */
size_t ab__pool_let_go(ab_pool *pool, ab_loop *loop, size_t count, enum ab_retired reason);

/* --- rb_ticket.c --- */

/* Ticket of the pool's class. */
VALUE ab__ticket_class(VALUE klass);
/* The current exception has ended the job of the worker's ticket. Returns true when nobody else
 * needs to hear of it. */
bool ab__ticket_failed(ab_worker *w);
/* Takes the next ticket off the queue, for `w` to run it. */
void ab__ticket_next(ab_pool *pool, ab_worker *w);
/* Starts waiting tickets as far as there are fibers for them; on the root fiber. */
void ab__tickets_start(ab_pool *pool, ab_loop *loop);
/* Has that done soon. */
void ab__tickets_start_soon(ab_pool *pool);
void ab__tickets_mark(ab_pool *pool);
void ab__init_ticket(VALUE klass);

#endif
