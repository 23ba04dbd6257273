/* What poller.c and the back ends share. No other file includes this, but for tests that choose a
 * back end.
 * Invariants: slots[fd].watch is not NULL exactly while we believe that the kernel has a
 * registration of that fd for us. Only that registration's token has the slot's generation. */
#ifndef AB_IO_POLLER_BACKEND_H
#define AB_IO_POLLER_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "io/poller.h"
#include "os/bell.h"
#include "os/fork_page.h"

#define AB_POLLER_BATCH 256

/* The token of the wake-up descriptor: its lower half is no fd. */
#define AB_POLLER_WAKE_TOKEN UINT64_MAX

/* After this many events of registrations that cannot be removed, the back end purges itself. */
#define AB_POLLER_MAX_STRAYS 64

#define AB_POLLER_BATCH_MASK (((uint32_t)1 << 30) - 1)

typedef struct ab_poller_slot {
  ab_watch *watch;
  uint32_t generation;
  uint32_t changed : 30; /* the batch in which the generation changed */
  uint32_t disarmed : 1; /* a one-shot registration that has fired */
  uint32_t kept : 1;     /* there is an event of this fd among the kept ones */
} ab_poller_slot;

typedef struct ab_poller_event {
  uint64_t token;
  uint32_t events;
} ab_poller_event;

struct ab_poller {
  const ab_poller_ops *ops;
  const ab_mem *mem;
  pthread_mutex_t lock;
  /* The process that created it; a forked child must not touch the kernel's set. */
  pid_t owner;
  volatile uint32_t *fork_page;

  atomic_uint holders; /* seq_cst: the last one frees */

  /* Guarded by the lock. */
  ab_poller_slot *slots;
  uint32_t capacity;
  uint32_t strays;

  /* Belong to the one thread that waits and dispatches. */
  ab_poller_event *kept; /* for the owner, collected by its stand-in */
  uint32_t kept_count, kept_capacity;
  uint32_t next, count; /* events[next .. count - 1] are collected but not yet delivered */
  ab_poller_event events[AB_POLLER_BATCH];
  bool woken; /* a wait that only asked has met a wake-up */
  bool owed;  /* a stand-in has met a wake-up */

  /* Number of waits so far. Relaxed: a slot that was changed as a wait began, and has the number of
   * the one before, counts as a stray at worst. */
  _Atomic uint32_t batch;
  /* A wake-up is on its way. Only exchanged, acquired and released: each waker's work is seen by
   * whoever clears it. Partners: ab_poller_wakeup, and the wait of the back end. */
  atomic_int wake_asked;

  /* The back end's. */
  int fd;
  ab_os_bell bell; /* rung by ab_poller_wakeup */
  bool coarse;     /* the kernel lacks timeouts in nanoseconds */
};

/* The first two are there if their system is. */
extern const ab_poller_ops ab__poller_epoll, ab__poller_kqueue, ab__poller_poll;

/* As ab_poller_init. */
ab_poller *ab__poller_init_with(const ab_mem *mem, const ab_poller_ops *ops);

/* A descriptor that can be polled? AB_OK; AB_EINVAL, with the errno that epoll has for those that
 * cannot: EPERM for a file, EBADF; AB_ESYS. */
int ab__poller_check(int fd);
/* The bell has rung. True if it was for the waiter, which is woken. */
bool ab__poller_hush(ab_poller *poller);
/* In a forked child. */
static inline bool ab__poller_is_forked(const ab_poller *poller) {
  return ab_fork_page_forked(poller->fork_page, poller->owner);
}

static inline uint64_t ab__poller_token(int fd, uint32_t generation) {
  return (uint64_t)generation << 32 | (uint32_t)fd;
}

#endif
