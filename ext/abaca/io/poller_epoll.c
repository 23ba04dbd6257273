/* The back end for Linux. The bell, an eventfd, is registered edge-triggered and never read: each
 * write is a new edge, so a wake-up costs one system call in all. */
#ifdef AB_HAS_EPOLL
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "io/poller_backend.h"

static uint32_t to_epoll(uint32_t events) {
  uint32_t out = 0;
  if (events & AB_POLL_IN) out |= EPOLLIN;
  if (events & AB_POLL_OUT) out |= EPOLLOUT;
  if (events & AB_POLL_PRI) out |= EPOLLPRI;
  if (events & AB_POLL_RDHUP) out |= EPOLLRDHUP;
  if (events & AB_POLL_EDGE) out |= EPOLLET;
  if (events & AB_POLL_ONESHOT) out |= EPOLLONESHOT;
  if (events & AB_POLL_EXCLUSIVE) out |= EPOLLEXCLUSIVE;
  return out;
}

static uint32_t from_epoll(uint32_t events) {
  uint32_t out = 0;
  if (events & EPOLLIN) out |= AB_POLL_IN;
  if (events & EPOLLOUT) out |= AB_POLL_OUT;
  if (events & EPOLLPRI) out |= AB_POLL_PRI;
  if (events & EPOLLRDHUP) out |= AB_POLL_RDHUP;
  if (events & EPOLLHUP) out |= AB_POLL_HUP;
  if (events & EPOLLERR) out |= AB_POLL_ERROR;
  return out;
}

static int control(int epoll_fd, int op, int fd, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = to_epoll(events), .data.u64 = token};
  return epoll_ctl(epoll_fd, op, fd, &event);
}

static void epoll_fini(ab_poller *poller) {
  /* All that a forked child may do: EPOLL_CTL_DEL would take away the parent's registrations. */
  ab_os_bell_fini(&poller->bell);
  if (poller->fd >= 0) close(poller->fd);
}

static int epoll_init(ab_poller *poller) {
  poller->fd = epoll_create1(EPOLL_CLOEXEC);
  if (poller->fd >= 0 && ab_os_bell_init(&poller->bell) == 0 &&
      control(poller->fd, EPOLL_CTL_ADD, poller->bell.fd, AB_POLL_IN | AB_POLL_EDGE,
              AB_POLLER_WAKE_TOKEN) == 0)
    return AB_OK;
  return AB_ESYS; /* fini closes what there is */
}

static int epoll_error_of(int number) {
  switch (number) {
  case ENOMEM:
  case ENOSPC: /* fs.epoll.max_user_watches */
    return AB_ENOMEM;
  case EPERM: /* a regular file or a directory */
  case EBADF:
  case EINVAL:
  case ELOOP:
    return AB_EINVAL;
  default:
    return AB_ESYS;
  }
}

static int epoll_set(ab_poller *poller, int fd, uint32_t events, uint64_t token, bool registered) {
  int op = registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (control(poller->fd, op, fd, events, token) == 0) return AB_OK;
  /* We may be wrong: a registered number was closed and reopened (ENOENT), or said to be closed and
   * was not (EEXIST). An exclusive registration cannot be changed (EINVAL). */
  if (errno != ENOENT && errno != EEXIST && errno != EINVAL) return epoll_error_of(errno);
  control(poller->fd, EPOLL_CTL_DEL, fd, 0, 0);
  return control(poller->fd, EPOLL_CTL_ADD, fd, events, token) == 0 ? AB_OK : epoll_error_of(errno);
}

static int epoll_unset(ab_poller *poller, int fd) {
  return control(poller->fd, EPOLL_CTL_DEL, fd, 0, 0) == 0 ? AB_OK : AB_ESYS;
}

/* Rounded up: a wait that ends early makes the caller spin until its deadline. */
static int timeout_ms(ab_nsec timeout) {
  if (timeout == AB_POLL_FOREVER) return -1;
  ab_nsec ms = timeout / AB_NSEC_PER_MS + (timeout % AB_NSEC_PER_MS != 0);
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

static int collect(ab_poller *poller, struct epoll_event *events, ab_nsec timeout) {
#ifdef AB_HAS_EPOLL_PWAIT2
  if (timeout != 0 && timeout != AB_POLL_FOREVER && !poller->coarse) {
    struct timespec ts = {.tv_sec = (time_t)(timeout / AB_NSEC_PER_SEC),
                          .tv_nsec = (long)(timeout % AB_NSEC_PER_SEC)};
    int count = epoll_pwait2(poller->fd, events, AB_POLLER_BATCH, &ts, NULL);
    /* Linux before 5.11, or a sandbox without the call. */
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    poller->coarse = true;
  }
#endif
  return epoll_wait(poller->fd, events, AB_POLLER_BATCH, timeout_ms(timeout));
}

static int epoll_wait_events(ab_poller *poller, ab_nsec timeout) {
  struct epoll_event events[AB_POLLER_BATCH];
  int count = collect(poller, events, timeout);
  for (int i = 0; i < count; i++) {
    if (events[i].data.u64 == AB_POLLER_WAKE_TOKEN) {
      /* An exchange, not a store: it reads what the waker wrote, so everything the waker did before
       * is visible to our caller. */
      atomic_exchange_explicit(&poller->wake_asked, 0, memory_order_acq_rel);
      poller->woken = timeout == 0;
      continue;
    }
    poller->events[poller->count++] =
        (ab_poller_event){events[i].data.u64, from_epoll(events[i].events)};
  }
  return (int)poller->count;
}

/* Renews the registration in the present set: false for a number that is not in it. */
static bool is_registered(const ab_poller *poller, int fd, uint32_t events, uint64_t token) {
  if (!(events & AB_POLL_EXCLUSIVE)) {
    return control(poller->fd, EPOLL_CTL_MOD, fd, events, token) == 0;
  }
  /* Such a one cannot be changed, only be made again. */
  return control(poller->fd, EPOLL_CTL_DEL, fd, 0, 0) == 0 &&
         control(poller->fd, EPOLL_CTL_ADD, fd, events, token) == 0;
}

static int copy_registrations(ab_poller *poller, int fresh) {
  for (uint32_t i = 0; i < poller->capacity; i++) {
    ab_poller_slot *slot = &poller->slots[i];
    /* A one-shot that has fired is added when it is armed again. */
    if (!slot->watch || slot->disarmed) continue;
    uint32_t events = slot->watch->events;
    uint64_t token = ab__poller_token((int)i, slot->generation);
    /* A number that was closed, or reused for another file, is not in the present set. Its owner
     * has not told us yet, and must not get another file's events. */
    if (!is_registered(poller, (int)i, events, token)) continue;
    if (control(fresh, EPOLL_CTL_ADD, (int)i, events, token) != 0) return AB_ENOMEM;
  }
  return AB_OK;
}

/* A new epoll set under the old number is the only way to get rid of a registration whose
 * descriptor is closed here and open in another process. If it fails, the old set stays in use. */
static int epoll_purge(ab_poller *poller) {
  int fresh = epoll_create1(EPOLL_CLOEXEC);
  if (fresh < 0) return AB_ESYS;
  int err = control(fresh, EPOLL_CTL_ADD, poller->bell.fd, AB_POLL_IN | AB_POLL_EDGE,
                    AB_POLLER_WAKE_TOKEN) == 0
                ? copy_registrations(poller, fresh)
                : AB_ENOMEM;
  if (err == AB_OK && dup3(fresh, poller->fd, O_CLOEXEC) < 0) err = AB_ESYS;
  close(fresh);
  return err;
}

const ab_poller_ops ab__poller_epoll = {
    .size = sizeof(ab_poller),
    .native = AB_POLL_EDGE | AB_POLL_EXCLUSIVE,
    .init = epoll_init,
    .fini = epoll_fini,
    .set = epoll_set,
    .unset = epoll_unset,
    .wait = epoll_wait_events,
    .purge = epoll_purge,
};
#endif
