/* What the files of an Abaca::Scheduler share. Other files use rb/scheduler/rb_loop.h.
 * Invariant: a waiter is on `ready` or `parked`, and known to `waiters`, exactly while its fiber
 * is in ab_loop_park or was left behind by a sibling. The loop switches to no other fiber. */
#ifndef AB_RB_SCHEDULER_H
#define AB_RB_SCHEDULER_H

#include <limits.h>
#include <ruby.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/st.h>
#include <ruby/version.h>
#include <sys/types.h>

#include "io/blocking.h"
#include "io/storage.h"
#include "rb/scheduler/rb_collected.h"
#include "rb/scheduler/rb_loop.h"
#include "rb/scheduler/rb_mutex_owner.h"
#include "rb/scheduler/rb_first_switch.h"
#include "rb/scheduler/rb_share.h"
#include "rb/scheduler/rb_waiters.h"
#include "rb/scheduler/rb_watchdog.h"

/* Ruby 3.1 does not define it. A test builds the hooks of a later Ruby than its own. */
#if defined(AB_SCHEDULER_INTERFACE)
#elif defined(RUBY_FIBER_SCHEDULER_VERSION)
#define AB_SCHEDULER_INTERFACE RUBY_FIBER_SCHEDULER_VERSION
#else
#define AB_SCHEDULER_INTERFACE 1
#endif

/* A descriptor that some fiber has waited for; created once for each number and kept. */
typedef struct ab_fd_state {
  ab_watch watch;
  ab_list interests;
  struct ab_loop *loop;
  ab_list unproven;   /* in the loop's list: a wait relies on the registration as it was */
  ab_nsec since;      /* the turn in which it came there */
  VALUE io;           /* of the last registration; only to compare, it may be gone */
  uint32_t exhausted; /* AB_POLL_*: a hook has found it so, and no event has come since */
  bool unclaimed;     /* an event has come without a waiter, and no wait since */
  bool ended;         /* the registration has reported an end: no more edges need come */
  /* What is at its other end (rb_fd_service.c); of the IO that was asked, only to compare. */
  VALUE asked;
  uint8_t service; /* enum ab_state */
  ab_addr peer;
} ab_fd_state;

/* One waiter's interest in one descriptor; lives beside the waiter. */
typedef struct ab_interest {
  ab_list link;
  ab_waiter *waiter;
  VALUE io; /* the IO that the number belonged to, kept alive by the owner; nil: our own fd */
  int fd;
  uint32_t want, got;
} ab_interest;

/* Kinds of our own, behind enum ab_wait_kind. */
enum {
  AB_WAIT_PASSING = 0xfd, /* lets others go first, or starts one */
  AB_WAIT_PREEMPTED,      /* takes no exception before it waits again */
  AB_WAIT_STRAY           /* ready without having parked; the waiter is from malloc */
};

/* RUBY_FATAL_FIBER_KILLED of a fiber that Fiber#kill ends: fires at each switch to it. */
#define AB_FIBER_KILLED INT2FIX(2)

#define AB_UNSAFE_METHODS 12
#define AB_FD_CHUNK       64
#define AB_NAME_THREADS   8 /* the most that look names up */
#define AB_CHILD_THREADS  4 /* the most that watch children */

/* What native threads do for fibers; each kind has its own pool. */
enum ab_pool_kind {
  AB_POOL_NAMES,
  AB_POOL_LOCAL_NAMES, /* no name server is asked for them */
  AB_POOL_CHILDREN,
  AB_POOL_FILES,
  AB_POOLS
};

/* Wake-ups that came before their fiber has parked. */
typedef struct ab_latches {
  st_table *by_fiber; /* its first ab_latch; NULL before the first one of all */
  size_t prune_at;    /* with this many fibers, those that have ended are searched for */
  VALUE queue_class, mutex_class, condition_class; /* 0 before the first use */
} ab_latches;

/* The caller of a hook for reading (rb_caller.c). */
enum ab_caller {
  AB_CALLER_OTHER,    /* the caller handles -EAGAIN */
  AB_CALLER_NONBLOCK, /* the same, regardless of IO#timeout */
  AB_CALLER_WAITS     /* a method of IO that would only wait and call again */
};

#define AB_CALLERS 4

/* The last frames seen; marked, so that none can become another frame. */
typedef struct ab_callers {
  VALUE frames[AB_CALLERS];
  enum ab_caller kinds[AB_CALLERS];
  unsigned next;
} ab_callers;

enum ab_blocked { AB_RUNNING, AB_BLOCKED, AB_WOKEN };

typedef struct ab_fd_table {
  ab_fd_state **chunks; /* of AB_FD_CHUNK states; addresses never change */
  size_t count;
} ab_fd_table;

/* A running timeout_after block, on its fiber's C stack; with `task`, something else that is
 * due: it is called on the root fiber. Neither keeps the loop running. */
typedef struct ab_timeout {
  ab_heap_node timer;
  VALUE fiber, exception, message; /* nil: the usual message */
  void (*task)(struct ab_loop *loop, struct ab_timeout *timeout);
} ab_timeout;

struct ab_loop {
  ab_poller *poller; /* NULL once closed */
  VALUE self, thread, root;
  VALUE fiber_class, own_class; /* Fiber, Abaca::Scheduler */
  VALUE parker;  /* the fiber that gave control to the root fiber last; nil when one ended */
  VALUE current; /* the fiber that the loop, or one that parked, switched to last; nil: none runs */
  size_t chain;  /* how many more fibers may run before the loop has its turn */
  VALUE carrier; /* the fiber that the loop runs, or that resumed the one it runs */
  VALUE forward; /* an exception that ab_loop_run has to raise */
  ab_list ready, parked;
  size_t parked_count, ready_count;
  ab_heap timers;   /* of waiters */
  ab_heap timeouts; /* of timeout_after */
  ab_waiters waiters;
  ab_latches latches;
  ab_callers callers;
  ab_first_switch first_switch;
  ab_nsec now;
  ab_nsec begun;    /* when the client's turn has first asked for new work; 0: not in this turn */
  ab_nsec heedless; /* since then what is ready has not been looked at */
  ab_nsec excused;  /* the time of that in which a fiber was made to wait for others */
  ab_histogram lag; /* for how long, each time */
  ab_nsec swept;    /* when waits for closed IOs were last looked for */
  const ab_loop_client *client;
  void *client_ctx;
  ab_pulse *pulse; /* NULL: the loop has no stand-in */
  ab_share share;
  ab_work *work; /* that runs now; NULL: what runs is none */
  ab_work *works, *idle_works;
  ab_work *parent;     /* of the fiber that begins next; NULL: it is no child of work */
  ab_loop_sight sight; /* zero without one */
  ab_collected collected;
  ab_nsec polled;   /* the end of the wait whose events are delivered; 0: it did not wait */
  ab_nsec looked;   /* when they were delivered; 0: not known yet */
  ab_nsec gave_way; /* when the loop gave way to threads last, ... */
  ab_nsec had_way;  /* ... until then */
  bool delivers;    /* events of the poller */
  ab_fd_table fds;
  size_t fd_waits;  /* how many fibers wait for an IO: a descriptor, several, or a file's disk */
  ab_list unproven; /* descriptors whose registration is trusted for the moment, oldest first */
  ab_mutex_owner mutex_owner;        /* how a Mutex names the fiber that holds it */
  ab_blocking_pool *pools[AB_POOLS]; /* by enum ab_pool_kind; made when first needed */
  ab_list writes;                    /* rb_sched_file.c: writers to files on threads, in order */
  volatile uint32_t *fork_guard;     /* reads 0 in a forked child */
  pid_t owner;
  uint8_t blocked; /* enum ab_blocked */
  bool running, closing, closed;
  bool detaching; /* #close and #scheduler_close call each other: one has called the other */
  bool dirty;     /* fibers have run since the last sweep */
  /* rb_preempt.c */
  ab_nsec quantum;       /* 0: no preemption */
  ab_watchdog *watchdog; /* while ab_loop_run runs and there is a quantum */
  ab_list regions, deferred;
  int fatal; /* what rb_protect said of a Thread#kill that the root fiber has to go on with */
  ID unsafe[AB_UNSAFE_METHODS];
};

extern const rb_data_type_t ab__loop_type;

/* The loop of a scheduler in any state. */
static inline ab_loop *ab__loop_get(VALUE scheduler) {
  return rb_check_typeddata(scheduler, &ab__loop_type);
}
/* The same; NULL for what is no Abaca::Scheduler. Never raises. */
ab_loop *ab__loop_or_null(VALUE scheduler);
/* True in a process that was forked after the scheduler was made. */
bool ab__loop_forked(const ab_loop *loop);
/* What a hook does there that cannot simply block the thread (lib/abaca/scheduler/forked.rb). */
VALUE ab__in_forked_child(const char *hook, int argc, const VALUE *argv);
/* Ends the loop's life: no hook works afterwards. Idempotent. */
void ab__loop_close(ab_loop *loop);
/* Raises unless the loop is open, of this process, and (from the first use on) of this thread. */
void ab__loop_check(ab_loop *loop);

static inline void ab__loop_away(ab_loop *loop) {
  if (loop->pulse) ab_pulse_leave(loop->pulse);
  if (AB_UNLIKELY(loop->watchdog != NULL)) ab_pulse_leave(&loop->watchdog->pulse);
}
static inline void ab__loop_back(ab_loop *loop) {
  if (loop->pulse) ab_pulse_feed(loop->pulse);
  if (AB_UNLIKELY(loop->watchdog != NULL)) ab_pulse_return(&loop->watchdog->pulse);
}

/* From now on the loop runs that work, or none. */
static inline void ab__loop_runs(ab_loop *loop, ab_work *work) {
  loop->work = work;
  if (AB_UNLIKELY(!loop->sight.line)) return;
  const ab_row *row = work ? work->row : NULL;
  ab_loop_line_runs(loop->sight.line, row ? (uint32_t)(row - loop->sight.rows) : AB_LOOP_NO_ROW);
}

/* rb_loop_turn.c. Runs what is ready and waits for more; false if nothing is left to wait for. */
bool ab__loop_turn(ab_loop *loop);
VALUE ab__loop_stopped(VALUE loop);

/* rb_dispatch.c. Runs the fibers that are ready. */
void ab__loop_run_ready(ab_loop *loop);
/* Makes the waiters ready whose time is over, and runs what is due. */
void ab__loop_run_timers(ab_loop *loop);
void ab__loop_raise_forwarded(ab_loop *loop);

/* rb_park.c. Takes the waiter off its list. */
void ab__loop_forget(ab_loop *loop, ab_waiter *waiter);
/* The same for one of kind AB_WAIT_STRAY, which is freed. */
void ab__loop_drop_stray(ab_loop *loop, ab_waiter *waiter);
/* Queues a parked waiter's fiber, and wakes a loop that waits. */
void ab__loop_make_ready(ab_loop *loop, ab_waiter *waiter, enum ab_wake wake);
/* False when it is time to look at timers and descriptors. */
bool ab__loop_may_run_more(ab_loop *loop);
/* A temporary root fiber ends some day; parked fibers must not go to it then. */
void ab__loop_restore_root(ab_loop *loop, VALUE root);
/* FiberError, which Ruby does not export. */
VALUE ab__fiber_error(void);
/* rb_work.c: the running work is about to wait; ... */
void ab__work_pause(ab_loop *loop, ab_waiter *waiter);
/* ... what was left behind begins to wait; ... */
void ab__work_waits_on(ab_loop *loop, ab_waiter *waiter);
/* ... the wait is over, but for its turn; ... */
void ab__work_woken(ab_loop *loop, const ab_waiter *waiter, enum ab_wake wake);
/* ... it runs. */
void ab__work_go_on(ab_loop *loop, const ab_waiter *waiter);
void ab__works_fini(ab_loop *loop);
/* A fiber that work has started, for its row: counted from its begin to its end. */
typedef struct ab_child {
  ab_work *work;
  uint32_t serial;
} ab_child;
void ab__child_begins(ab_loop *loop, ab_child *child);
void ab__child_ends(const ab_child *child);

/* The current or a future wait of `fiber`, or NULL. */
ab_waiter *ab__loop_waiter(ab_loop *loop, VALUE fiber);
/* Makes the wait of `fiber`, or of one that it resumed, raise `exception`. False if there is
 * none, or if another exception is on its way. */
bool ab__loop_interrupt(ab_loop *loop, VALUE fiber, VALUE exception);
/* Does it to every fiber that waits. */
void ab__loop_interrupt_all(ab_loop *loop, VALUE exception);
/* Lets every other ready fiber run before the current one goes on. */
void ab__loop_pass(ab_loop *loop);
/* The same for a preempted fiber. The waiter is the caller's, prepared as for ab_loop_park. */
void ab__loop_step_aside(ab_loop *loop, ab_waiter *waiter);
/* Switches to the root fiber from the current one, which its caller has parked. */
void ab__loop_leave(ab_loop *loop);
/* `fiber` was the current one: the loop continues with it, and the work, if it has not parked. */
void ab__loop_leave_behind(ab_loop *loop, VALUE fiber);
/* True on the root fiber; while the loop does not run, on any fiber that does not belong to it. */
bool ab__loop_on_root(ab_loop *loop);
/* Raises RuntimeError where the loop cannot run: on one of its fibers, and while it runs. */
void ab__loop_check_idle(ab_loop *loop);
/* As ab_loop_transfer on the root fiber; returns false when Ruby refused the switch. */
bool ab__loop_enter(ab_loop *loop, VALUE fiber);
/* The same with a fiber that may be new. */
bool ab__loop_enter_new(ab_loop *loop, VALUE fiber);
/* Handles how a fiber's body ended, by rb_protect's `state`: reports an exception, forwards one
 * that concerns the process. False: continue with rb_jump_tag. */
bool ab__loop_ended(ab_loop *loop, int state);
/* SystemExit, a signal's or NoMemoryError: ends the process rather than a fiber. */
bool ab__loop_concerns_process(VALUE exception);
/* The threads of a kind, or NULL when there is no memory. */
ab_blocking_pool *ab__loop_pool(ab_loop *loop, enum ab_pool_kind kind);
ab_nsec ab__deadline_after(ab_nsec timeout);
/* Converts nil or seconds. Returns false for "never". Raises TypeError and ArgumentError. */
bool ab__timeout_of(VALUE seconds, ab_nsec *timeout);

/* What a typed object is in C. From Ruby 3.3 on some have it inside the object. */
static inline const void *ab__object_data(VALUE object) {
#if RUBY_API_VERSION_CODE >= 30300
  return RTYPEDDATA_GET_DATA(object);
#else
  return RTYPEDDATA_DATA(object);
#endif
}

/* The first words of a fiber, for what Ruby has no call for. Conclusions are tried out first. */
#define AB_FIBER_WORDS_MAX 128

static inline const VALUE *ab__fiber_words(VALUE fiber) {
  return ab__object_data(fiber);
}

/* How many there are to read. Ruby counts the beginning of a fiber twice; it has half of that. */
static inline size_t ab__fiber_word_count(VALUE fiber) {
  size_t (*size)(const void *) = RTYPEDDATA_TYPE(fiber)->function.dsize;
  size_t count = size ? size(ab__fiber_words(fiber)) / 2 / sizeof(VALUE) : 0;
  return count < AB_FIBER_WORDS_MAX ? count : AB_FIBER_WORDS_MAX;
}

VALUE ab__fiber_new(rb_block_call_func_t body, VALUE data);
/* Runs `body`, which does not wait, on a new fiber to its end. */
void ab__fiber_run(rb_block_call_func_t body, VALUE data);

/* rb_fdwait.c. A system call has returned EAGAIN: the next event of this kind will be an edge. */
void ab__fd_exhausted(ab_loop *loop, int fd, uint32_t events);
/* A short read: what comes next is most likely an edge. That may be wrong (a terminal's line, a
 * packet): a wait that follows is unproven. */
void ab__fd_drained(ab_loop *loop, int fd, VALUE io);
/* Has a hook found it so, and has no event come since? Then a read may be skipped before a wait. */
bool ab__fd_is_drained(ab_loop *loop, int fd, VALUE io);
/* Renews the registrations that waits have relied on since `since` or before. */
void ab__fd_prove(ab_loop *loop, ab_nsec since);
/* Wakes the waiters of an IO that was closed. */
void ab__fd_sweep(ab_loop *loop);
/* The number is about to be closed: forget it. */
void ab__fd_closed(ab_loop *loop, int fd);
void ab__fd_fini(ab_loop *loop);

/* rb_fd_service.c. What a wait of AB_WAIT_IO is for, by the peer of its descriptor; sets *peer, if
 * that has an address, until the next wait. */
enum ab_state ab__fd_service(ab_loop *loop, const ab_waiter *waiter, const ab_addr **peer);
/* Parks until fd is ready for one of `events` (AB_POLL_*). Returns the set, 0 on time-out. */
uint32_t ab__fd_wait(ab_loop *loop, int fd, VALUE io, uint32_t events, ab_nsec deadline,
                     uint8_t kind, VALUE object);
/* The same for several IOs: `interests` have `io` and `want`, and get `got`. */
void ab__fd_select(ab_loop *loop, ab_interest *interests, size_t count, ab_nsec deadline,
                   VALUE object);

/* Seconds, or nil. */
static inline VALUE ab__io_timeout(VALUE io) {
#ifdef HAVE_RB_IO_TIMEOUT
  return rb_io_timeout(io);
#else
  (void)io;
  return Qnil;
#endif
}

/* rb_sched_file.c. One read or write that is done by a thread while the fiber waits. */
typedef struct ab_file_op {
  VALUE io;
  bool write;
  off_t from; /* -1: at the file's position, which moves */
  /* The data's place after `done` bytes; asked again after each wait. May raise. */
  char *(*bytes)(void *ctx, size_t done, size_t *size);
  void *ctx;
} ab_file_op;

#define AB_FILE_IN_PLACE (-SSIZE_MAX - 1) /* no thread can do it */

/* Returns bytes (of a read at most 1 MiB, of a write all), -errno, or AB_FILE_IN_PLACE. */
ssize_t ab__file_transfer(ab_loop *loop, const ab_file_op *op);
/* True while another fiber writes to the file through a thread: a later writer has to wait. */
bool ab__file_busy(const ab_loop *loop, VALUE io);

/* rb_caller.c. Call it in the C function of a hook. */
enum ab_caller ab_callers_ask(ab_callers *callers);
void ab_callers_mark(const ab_callers *callers);

/* rb_latch.c */
void ab_latches_fini(ab_latches *latches);
void ab_latches_mark(const ab_latches *latches);

/* #unblock: ends the wait, or keeps the wake-up for the right one. May raise NoMemoryError. */
void ab__latch_wake(ab_loop *loop, VALUE blocker, VALUE fiber);
/* Takes what was kept for the wait that the current fiber is about to begin. False: nothing. */
bool ab__latch_take(ab_latches *latches, const ab_waiter *waiter, bool forever);

static inline bool ab__latch_any(const ab_latches *latches) {
  return latches->by_fiber && latches->by_fiber->num_entries > 0;
}

/* rb_preempt.c. Begins and ends the watch over the fibers of a loop that runs. */
void ab__preempt_start(ab_loop *loop);
void ab__preempt_stop(ab_loop *loop);
void ab__preempt_mark(const ab_loop *loop);

/* rb_uninterrupted.c. Calls wait(arg), which parks, and keeps what is raised meanwhile. False if
 * that concerns the thread: the loop must have its turn. */
bool ab__uninterrupted(ab_loop *loop, ab_waiter *waiter, VALUE (*wait)(VALUE), VALUE arg);
/* Takes what was raised in the fiber meanwhile; AB_FIBER_KILLED if it was killed; or nil. */
VALUE ab__uninterrupted_deferred(ab_loop *loop, VALUE fiber);
void ab__uninterrupted_mark(const ab_loop *loop);
void ab__uninterrupted_fini(ab_loop *loop);

void ab__init_sched_life(VALUE klass);
void ab__init_sched_io(VALUE klass);
void ab__init_sched_time(VALUE klass);
void ab__init_sched_process(VALUE klass);
void ab__init_sched_fibers(VALUE klass);
void ab__init_preempt(VALUE klass);

#endif
