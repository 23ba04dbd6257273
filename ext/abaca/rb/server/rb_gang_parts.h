/* The inside of a gang: what rb_gang.c, the helm and rb_thread_host.c share. */
#ifndef AB_RB_GANG_PARTS_H
#define AB_RB_GANG_PARTS_H

#include <pthread.h>
#include <ruby.h>
#include <ruby/thread.h>
#include <stdatomic.h>

#include "rb/scheduler/rb_share.h"
#include "rb/server/rb_gang.h"

/* A thread beyond the least number ends after this time without work. */
#define AB_GANG_IDLE_TIME (30 * AB_NSEC_PER_SEC)

/* A request that waits for a thread, its env built. */
typedef struct ab_job {
  ab_list link; /* in gang->jobs, unless a hand has it */
  ab_taken taken;
  ab_nsec until; /* queue_timeout; 0: for ever */
  bool waits;    /* the engine was told that it does */
} ab_job;

/* One thread's place; that of the helm's watch is the gang's own. */
typedef struct ab_hand {
  ab_runner runner;
  ab_gang *gang;
  ab_list link;      /* in gang->hands */
  ab_list idle_link; /* in gang->idle, while it waits for work */
  pthread_cond_t call;
  ab_job *job;            /* given to it while it was idle */
  ab_exchange *exchange;  /* of the request that it runs; NULL: it runs none */
  _Atomic uint64_t epoch; /* odd while app code runs that the helm's lead was used for */
  pthread_t native;       /* of that app code */
  bool interrupted;       /* Ruby wants something of the thread */
  bool late;              /* nothing has come for long */
  bool begun;             /* it runs, and has a clean thread */
  unsigned raising;       /* others that are about to use Thread#raise on it; guarded by the lock */
  bool raised;            /* they have */
  ab_nsec wanted;         /* when it began to wait for the GVL, to lead */
  ab_nsec left;           /* when it gave the lead away for this request; 0: it did not */
} ab_hand;

struct ab_gang {
  ab_server *server;
  ab_gang_options options;
  VALUE forward;
  VALUE threads;             /* Array of those that were started and may not have ended */
  VALUE mode_key, mode_name; /* of the env */
  ab_list hands;
  ab_list jobs; /* oldest first */
  size_t job_count;
  uint64_t queued; /* that came to the list */
  uint64_t gone;   /* of these, those whose client went away before they were taken from it */
  ab_nsec due;     /* when one of them will have waited for too long, or earlier; 0: none will */
  unsigned live, started;
  unsigned busy;     /* with a request */
  unsigned given;    /* were given one that they have not begun with */
  unsigned starting; /* of these, those that have not looked for work yet */
  /* Guarded by the lock, which is never held over a call of Ruby's. */
  pthread_mutex_t lock;
  ab_list idle;    /* last in, first out: the warmest stack runs next */
  ab_list retired; /* hands without a thread, for the next ones: others may still look at them */
  _Atomic bool ending;
  _Atomic bool told; /* the watch has to look at `forward` */
  /* Of the helm. */
  bool led;         /* a hand leads, not a loop */
  ab_hand watch;    /* of the thread that called run */
  ab_runner leader; /* whichever hand leads; it has nothing but the seat */
  _Atomic(ab_hand *) lead;
  ab_hand *suitor; /* wants the GVL for the lead, which it has, unless another uses it meanwhile */
  _Atomic bool asleep; /* the watch does not look at the lead */
  _Atomic bool paused; /* the listeners are, for want of threads */
  bool steers;         /* the watch leads and does so; else whoever is done takes the lead up */
  uint64_t offers;     /* times that the watch was given the lead */
  uint64_t turns;      /* of the engine; changes with the lead */
  bool batch;          /* the engine's turn has more for another step */
  ab_nsec turned_at;   /* when the last one began */
  unsigned in_a_row;   /* requests that were begun since the lead gave way */
  ab_share share;
  unsigned slow; /* by how many the long ones of the last requests outnumber the quick ones */
  bool turned;   /* there was a turn since the end of the server was last looked at */
};

static inline void ab__gang_lock(ab_gang *gang) {
  pthread_mutex_lock(&gang->lock);
}

static inline void ab__gang_unlock(ab_gang *gang) {
  pthread_mutex_unlock(&gang->lock);
}

/* There are as many threads as there may be, or more than that: those whose requests were aside and
 * have gone on. Without the GVL it is as good as true. */
bool ab__gang_is_grown(const ab_gang *gang);
bool ab__gang_has_surplus(const ab_gang *gang);
/* Starts a thread unless there are enough of them. Returns false when Ruby has none to give. */
bool ab__gang_grow(ab_gang *gang);
/* Runs a request on the calling thread, whose hand it is. Raises only what kills the thread. */
void ab__gang_serve(ab_hand *hand, const ab_taken *taken);
/* Who turns the engine shall do so now, if anything waits for that. */
void ab__gang_wake_turn(ab_server *server);
/* Waits for at most `time` without the GVL and the lock, which is held. Returns false when the time
 * is over. */
bool ab__gang_sleep(ab_gang *gang, pthread_cond_t *call, ab_nsec time);
int ab__gang_init_cond(pthread_cond_t *call);
/* Raises an exception in the thread that runs the request, where it waits: in this request, however
 * long that takes. */
void ab__gang_raise(ab_hand *hand, VALUE exception);

#endif
