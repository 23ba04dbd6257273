/* The back end for macOS and FreeBSD, written to their manual pages, kqueue(2) and kevent(2): no
 * test of this project has run it on such a kernel, only on one made up after those pages. It does
 * as little as possible, so that reading it shows what it does.
 *
 * A registration has a filter for input, one for output, or both. Setting it deletes both and adds
 * what is wanted, so that nothing depends on what a change keeps. `ident` is the descriptor and
 * `udata` its generation, which together are the token. The kernel knows edges (EV_CLEAR);
 * EXCLUSIVE means nothing here, and PRI is not told. A queue is not inherited by a forked child,
 * whose number for it may be another file's. */
#include "io/poller_backend.h"

#ifdef AB_HAS_KQUEUE
#include <errno.h>
#include <fcntl.h>
#include <sys/event.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FILTERS 2

/* Longer waits end early: not every kernel can count so far. */
#define LONGEST (24 * 3600 * AB_NSEC_PER_SEC)

static const struct timespec at_once = {0, 0};

static int kqueue_error_of(int number) {
  switch (number) {
  case ENOMEM:
    return AB_ENOMEM;
  case EBADF:
  case EINVAL:
    return AB_EINVAL;
  default:
    return AB_ESYS;
  }
}

/* Makes the changes, one after the other. EV_RECEIPT: each is answered by an EV_ERROR, with 0 or an
 * errno as its data, and no events are taken. Returns how many were answered. */
static int change(const ab_poller *poller, struct kevent *changes, int count) {
  for (int i = 0; i < count; i++) changes[i].flags |= EV_RECEIPT;
  return kevent(poller->fd, changes, count, changes, count, &at_once);
}

static int kqueue_init(ab_poller *poller) {
  poller->fd = kqueue();
  if (poller->fd < 0 || fcntl(poller->fd, F_SETFD, FD_CLOEXEC) != 0) return AB_ESYS;
  if (ab_os_bell_init(&poller->bell) != 0) return AB_ESYS;
  struct kevent bell;
  EV_SET(&bell, poller->bell.fd, EVFILT_READ, EV_ADD, 0, 0, NULL);
  return change(poller, &bell, 1) == 1 && bell.data == 0 ? AB_OK : AB_ESYS;
}

static void kqueue_fini(ab_poller *poller) {
  ab_os_bell_fini(&poller->bell);
  if (poller->fd >= 0 && !ab__poller_is_forked(poller)) close(poller->fd);
}

/* AB_OK if there was one. */
static int kqueue_unset(ab_poller *poller, int fd) {
  struct kevent changes[FILTERS];
  EV_SET(&changes[0], fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
  EV_SET(&changes[1], fd, EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
  int answers = change(poller, changes, FILTERS);
  for (int i = 0; i < answers; i++)
    if (changes[i].data == 0) return AB_OK;
  return AB_ESYS;
}

static int add(const ab_poller *poller, int fd, uint32_t events, void *generation) {
  unsigned short flags = EV_ADD;
  if (events & AB_POLL_EDGE) flags |= EV_CLEAR;
  if (events & AB_POLL_ONESHOT) flags |= EV_ONESHOT; /* of both, poller.c delivers the first */
  struct kevent changes[FILTERS];
  int count = 0;
  if (events & (AB_POLL_IN | AB_POLL_RDHUP)) {
    EV_SET(&changes[count], fd, EVFILT_READ, flags, 0, 0, generation);
    count++;
  }
  if (events & AB_POLL_OUT) {
    EV_SET(&changes[count], fd, EVFILT_WRITE, flags, 0, 0, generation);
    count++;
  }
  int answers = change(poller, changes, count);
  for (int i = 0; i < answers; i++)
    if (changes[i].data != 0) return (int)changes[i].data;
  return answers < 0 ? errno : 0;
}

static int kqueue_set(ab_poller *poller, int fd, uint32_t events, uint64_t token,
                      bool registered AB_UNUSED) {
  int err = ab__poller_check(fd);
  if (err) return err;
  kqueue_unset(poller, fd); /* there may be one even if we know of none */
  int number = add(poller, fd, events, (void *)(uintptr_t)(token >> 32));
  if (number == 0) return AB_OK;
  kqueue_unset(poller, fd); /* of two filters the first may be there */
  errno = number;
  return kqueue_error_of(number);
}

/* EV_EOF: for input, the peer sends no more, with the socket's error if there is one; for output,
 * nobody reads any more, or this side has been shut down, for which see drop_own_ends. */
static uint32_t from_kevent(const struct kevent *event) {
  bool ended = event->flags & EV_EOF;
  uint32_t error = ended && event->fflags ? AB_POLL_ERROR : 0;
  if (event->filter == EVFILT_WRITE) return error | AB_POLL_OUT | (ended ? AB_POLL_HUP : 0);
  return error | AB_POLL_IN | (ended ? AB_POLL_RDHUP : 0);
}

/* The kernel ends the output of a socket that we shut down, too: alone it is no hang-up. */
static void drop_own_ends(ab_poller *poller) {
  for (uint32_t i = 0; i < poller->count; i++) {
    ab_poller_event *event = &poller->events[i];
    if (!(event->events & AB_POLL_RDHUP)) event->events &= ~AB_POLL_HUP;
  }
}

/* One event for both filters of a descriptor. */
static void add_event(ab_poller *poller, uint64_t token, uint32_t events) {
  for (uint32_t i = 0; i < poller->count; i++) {
    if (poller->events[i].token != token) continue;
    poller->events[i].events |= events;
    return;
  }
  poller->events[poller->count++] = (ab_poller_event){token, events};
}

static int kqueue_wait(ab_poller *poller, ab_nsec timeout) {
  struct kevent events[AB_POLLER_BATCH];
  ab_nsec most = timeout < LONGEST ? timeout : LONGEST;
  struct timespec time = {.tv_sec = (time_t)(most / AB_NSEC_PER_SEC),
                          .tv_nsec = (long)(most % AB_NSEC_PER_SEC)};
  int count = kevent(poller->fd, NULL, 0, events, AB_POLLER_BATCH,
                     timeout == AB_POLL_FOREVER ? NULL : &time);
  for (int i = 0; i < count; i++) {
    int fd = (int)events[i].ident;
    if (fd == poller->bell.fd) {
      if (ab__poller_hush(poller)) poller->woken = timeout == 0;
    } else {
      add_event(poller, ab__poller_token(fd, (uint32_t)(uintptr_t)events[i].udata),
                from_kevent(&events[i]));
    }
  }
  drop_own_ends(poller);
  return (int)poller->count;
}

const ab_poller_ops ab__poller_kqueue = {
    .size = sizeof(ab_poller),
    .native = AB_POLL_EDGE,
    .init = kqueue_init,
    .fini = kqueue_fini,
    .set = kqueue_set,
    .unset = kqueue_unset,
    .wait = kqueue_wait,
};
#endif
