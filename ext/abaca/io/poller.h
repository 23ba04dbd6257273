/* Readiness of file descriptors. A watch is embedded in its owner's structure. No event is
 * delivered for an fd that has been closed meanwhile, and perhaps reused.
 * A poller belongs to one thread, which waits and dispatches. While that thread is away, another
 * may stand in: it delivers events to watches that may be served anywhere (`roams`), and keeps the
 * others for the owner. */
#ifndef AB_IO_POLLER_H
#define AB_IO_POLLER_H

#include "base/base.h"
#include "base/mem.h"

/* The first three are those of poll(2). HUP and ERROR are reported without being asked for. */
#define AB_POLL_IN      0x01u
#define AB_POLL_PRI     0x02u
#define AB_POLL_OUT     0x04u
#define AB_POLL_RDHUP   0x08u
#define AB_POLL_HUP     0x10u
#define AB_POLL_ERROR   0x20u
#define AB_POLL_EDGE    0x40u /* edge-triggered instead of level-triggered */
#define AB_POLL_ONESHOT 0x80u /* disarmed by its first event, until it is modified */
/* Of the pollers that wait for one descriptor in this way, perhaps in other processes, one is
 * woken: the first that was registered (all of them, unless ab_poller_native has it). With IN, OUT
 * and EDGE only. */
#define AB_POLL_EXCLUSIVE 0x100u

typedef struct ab_watch ab_watch;
struct ab_watch {
  void (*ready)(ab_watch *watch, uint32_t events); /* may add, modify and remove any watch */
  int fd;
  uint16_t events; /* what is registered; 0 when nothing is */
  uint8_t silent;  /* the poller's: what it does not tell again before ab_poller_exhausted */
  bool roams;      /* `ready` may be called by a stand-in for the poller's owner */
};

typedef struct ab_poller ab_poller;

/* The operations a back end provides; called through the functions below. */
typedef struct ab_poller_ops {
  size_t size;                    /* of its poller, which begins with an ab_poller */
  uint32_t native;                /* as ab_poller_native */
  int (*init)(ab_poller *poller); /* after an error fini closes what there is */
  void (*fini)(ab_poller *poller);
  int (*set)(ab_poller *poller, int fd, uint32_t events, uint64_t token, bool registered);
  int (*unset)(ab_poller *poller, int fd); /* AB_OK only if there was a registration */
  int (*wait)(ab_poller *poller, ab_nsec timeout);
  /* These may be NULL. */
  void (*closed)(ab_poller *poller, int fd); /* instead of unset: it is, or is about to be */
  int (*purge)(ab_poller *poller);           /* drops registrations that cannot be named */
  void (*listen)(ab_poller *poller, int fd, uint32_t events); /* for ab_poller_exhausted */
  int (*fd)(ab_poller *poller); /* as ab_poller_fd; NULL: it is poller->fd */
} ab_poller_ops;

/* Returns NULL when memory or descriptors run out. The descriptors are close-on-exec. */
ab_poller *ab_poller_init(const ab_mem *mem);
/* In a forked child this closes the child's copies and leaves the parent's registrations alone. The
 * last of several holders ends the poller. */
void ab_poller_fini(ab_poller *poller);
/* One more fini is needed to end the poller. */
void ab_poller_hold(ab_poller *poller);

/* Registers watch->fd for `events`, or changes its registration; survives a number that was closed
 * and reused. An fd has one watch: a second one displaces the first, which gets no more events.
 * Every call looks at the fd again: collected events are dropped, and reported again if they still
 * hold; a one-shot is armed again. Returns AB_OK, AB_ENOMEM, AB_EINVAL (the fd cannot be polled;
 * errno says) or AB_ESYS (also in a forked child). After an error nothing is registered, except
 * that a bad number or a child's call changes nothing. */
int ab_poller_set(ab_poller *poller, ab_watch *watch, uint32_t events) AB_WARN_UNUSED;

/* Of an edge-triggered watch: the owner has met AB_AGAIN, or a read that emptied the descriptor,
 * and wants to hear when it is ready again, for IN or OUT. Whatever stops at an edge-triggered
 * descriptor because it is not ready any more has to say so: where the kernel knows no edges, they
 * are told once, and then not before this, or another set. With the lock held. */
static inline void ab_poller_exhausted(ab_poller *poller, ab_watch *watch, uint32_t events);

/* Those of EDGE and EXCLUSIVE that the kernel does by itself. Without EDGE, what arrives at a
 * descriptor that is still ready is no edge, or a late one. */
uint32_t ab_poller_native(const ab_poller *poller);

/* No event reaches the watch any more, not even a collected one. `fd_closed`: the fd is closed, or
 * about to be, which saves the system call. Idempotent. */
void ab_poller_unset(ab_poller *poller, ab_watch *watch, bool fd_closed);

#define AB_POLL_FOREVER UINT64_MAX
/* Collects events: waits up to `timeout` nanoseconds (0: asks only; AB_POLL_FOREVER), or not at all
 * while collected events are undelivered. Runs without the lock, in one thread at a time, the one
 * that dispatches. Returns the number of events, 0 on timeout or after a signal or wake-up. */
int ab_poller_wait(ab_poller *poller, ab_nsec timeout);

/* Asks on behalf of a stand-in for the owner. A wake-up that it meets stays pending for the owner,
 * and ends the owner's next wait, also if a question comes before it. */
int ab_poller_collect(ab_poller *poller);

/* One lock guards a poller's registrations and everything that its watches touch on delivery: hold
 * it around set, unset and dispatch. It is free while Ruby code runs and while ab_poller_wait
 * waits. Not recursive. */
void ab_poller_lock(ab_poller *poller);
void ab_poller_unlock(ab_poller *poller);

/* Delivers the collected events, first those kept for the owner. Returns how many it delivered. */
int ab_poller_dispatch(ab_poller *poller);

/* The same for a stand-in: watches that do not roam get their events at the owner's next dispatch.
 * Returns AB_OK, or AB_ENOMEM: an event cannot be kept; it and those behind it stay collected. */
int ab_poller_dispatch_roaming(ab_poller *poller) AB_WARN_UNUSED;

/* Ends a wait in another thread, or the next one, also if a question (a wait of 0) comes before it.
 * Async-signal-safe. Wake-ups are merged. */
void ab_poller_wakeup(ab_poller *poller);

/* The descriptor that becomes readable when events are pending, for a foreign event loop: always
 * the same. To be asked for again before it is relied on if somebody has waited in ab_poller_wait
 * meanwhile. Without the lock. Returns -1, with errno, where there can be none. */
int ab_poller_fd(ab_poller *poller);

/* For ab_poller_exhausted, where something is silent. */
void ab__poller_listen(ab_poller *poller, ab_watch *watch, uint32_t events);

static inline void ab_poller_exhausted(ab_poller *poller, ab_watch *watch, uint32_t events) {
  if (AB_UNLIKELY(watch->silent & events)) ab__poller_listen(poller, watch, events);
}

#endif
