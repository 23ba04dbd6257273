/* What all back ends share: the table of registrations by fd, the delivery of events, the lock. */
#include "io/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "io/poller_backend.h"

#define POLLER_MIN_CAPACITY 64

#if defined(AB_HAS_EPOLL)
#define BACK_END ab__poller_epoll
#elif defined(AB_HAS_KQUEUE)
#define BACK_END ab__poller_kqueue
#else
#define BACK_END ab__poller_poll
#endif

ab_poller *ab_poller_init(const ab_mem *mem) {
  return ab__poller_init_with(mem, &BACK_END);
}

ab_poller *ab__poller_init_with(const ab_mem *mem, const ab_poller_ops *ops) {
  ab_poller *poller = ab_alloc_zero(mem, ops->size);
  if (!poller) return NULL;
  poller->ops = ops;
  poller->mem = mem;
  poller->owner = getpid();
  poller->fork_page = ab_fork_page_init();
  poller->fd = -1;
  poller->bell = AB_OS_BELL_NONE;
  atomic_init(&poller->holders, 1);
  atomic_init(&poller->batch, 0);
  atomic_init(&poller->wake_asked, 0);
  if (pthread_mutex_init(&poller->lock, NULL) != 0) {
    ab_fork_page_fini(poller->fork_page);
    ab_free(mem, poller);
    return NULL;
  }
  if (poller->ops->init(poller) == AB_OK) return poller;
  int saved = errno;
  ab_poller_fini(poller);
  errno = saved;
  return NULL;
}

void ab_poller_hold(ab_poller *poller) {
  atomic_fetch_add(&poller->holders, 1);
}

void ab_poller_fini(ab_poller *poller) {
  if (!poller || atomic_fetch_sub(&poller->holders, 1) > 1) return;
  poller->ops->fini(poller);
  /* In a forked child a thread that does not exist there may hold the lock. */
  if (!ab__poller_is_forked(poller)) pthread_mutex_destroy(&poller->lock);
  ab_fork_page_fini(poller->fork_page);
  ab_free(poller->mem, poller->kept);
  ab_free(poller->mem, poller->slots);
  ab_free(poller->mem, poller);
}

int ab__poller_check(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return errno == EBADF ? AB_EINVAL : AB_ESYS;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISBLK(info.st_mode)) return AB_OK;
  errno = EPERM;
  return AB_EINVAL;
}

static int poller_grow(ab_poller *poller, int fd) {
  /* A number that is not a descriptor must not cost gigabytes of table. */
  if (fcntl(fd, F_GETFD) < 0) return AB_EINVAL;
  uint32_t capacity = ab_round_up_pow2((uint32_t)fd + 1);
  if (capacity < POLLER_MIN_CAPACITY) capacity = POLLER_MIN_CAPACITY;
  size_t size;
  if (!ab_mul_size(capacity, sizeof(ab_poller_slot), &size)) return AB_ENOMEM;
  ab_poller_slot *slots = ab_realloc(poller->mem, poller->slots, size);
  if (!slots) return AB_ENOMEM;
  for (uint32_t i = poller->capacity; i < capacity; i++) slots[i] = (ab_poller_slot){0};
  poller->slots = slots;
  poller->capacity = capacity;
  return AB_OK;
}

static ab_poller_slot *slot_of(ab_poller *poller, const ab_watch *watch) {
  if (watch->fd < 0 || (uint32_t)watch->fd >= poller->capacity) return NULL;
  ab_poller_slot *slot = &poller->slots[watch->fd];
  return slot->watch == watch ? slot : NULL;
}

/* Invalidates every token that was given out for this slot. */
static void renew(ab_poller *poller, ab_poller_slot *slot) {
  slot->generation++;
  slot->changed = atomic_load_explicit(&poller->batch, memory_order_relaxed) & AB_POLLER_BATCH_MASK;
  slot->disarmed = 0;
}

int ab_poller_set(ab_poller *poller, ab_watch *watch, uint32_t events) {
  int fd = watch->fd;
  if (fd < 0) {
    errno = EBADF;
    return AB_EINVAL;
  }
  if (AB_UNLIKELY(ab__poller_is_forked(poller))) {
    /* The set in the kernel is shared with the parent and belongs to the parent. */
    errno = EPERM;
    return AB_ESYS;
  }
  if ((uint32_t)fd >= poller->capacity) {
    int err = poller_grow(poller, fd);
    if (err != AB_OK) return err;
  }
  ab_poller_slot *slot = &poller->slots[fd];
  renew(poller, slot);
  uint64_t token = ab__poller_token(fd, slot->generation);
  int err = poller->ops->set(poller, fd, events, token, slot->watch != NULL);
  if (err != AB_OK) {
    int saved = errno;
    if (slot->watch) poller->ops->unset(poller, fd);
    slot->watch = NULL;
    watch->events = 0;
    errno = saved;
    return err;
  }
  slot->watch = watch;
  watch->events = (uint16_t)events;
  watch->silent = 0;
  return AB_OK;
}

void ab_poller_unset(ab_poller *poller, ab_watch *watch, bool fd_closed) {
  watch->events = watch->silent = 0;
  ab_poller_slot *slot = slot_of(poller, watch);
  if (!slot) return;
  slot->watch = NULL;
  renew(poller, slot);
  if (ab__poller_is_forked(poller)) return;
  if (!fd_closed) {
    poller->ops->unset(poller, watch->fd);
  } else if (AB_UNLIKELY(poller->ops->closed != NULL)) {
    poller->ops->closed(poller, watch->fd);
  }
}

void ab__poller_listen(ab_poller *poller, ab_watch *watch, uint32_t events) {
  watch->silent &= (uint8_t)~events;
  if (slot_of(poller, watch)) poller->ops->listen(poller, watch->fd, events);
}

uint32_t ab_poller_native(const ab_poller *poller) {
  return poller->ops->native;
}

int ab_poller_wait(ab_poller *poller, ab_nsec timeout) {
  /* Events that were collected but not delivered may never be reported again (edges, one-shots). */
  if (poller->next < poller->count) return (int)(poller->count - poller->next);
  poller->next = poller->count = 0;
  uint32_t kept = poller->kept_count;
  if (AB_UNLIKELY(kept > 0)) timeout = 0;
  /* A caller that asks, then waits, has looked at everything else before it asked: a wake-up in
   * between is for the wait. By the next question everything has been looked at again. */
  bool asks = timeout == 0;
  if (poller->woken || poller->owed) timeout = 0;
  /* A wake-up that reached the stand-in may have come after the owner's question. */
  poller->woken = asks && poller->owed;
  poller->owed = false;
  atomic_fetch_add_explicit(&poller->batch, 1, memory_order_relaxed);
  return poller->ops->wait(poller, timeout) + (int)kept;
}

int ab_poller_collect(ab_poller *poller) {
  if (poller->next < poller->count) return (int)(poller->count - poller->next);
  poller->next = poller->count = 0;
  bool woken = poller->woken;
  poller->woken = false;
  atomic_fetch_add_explicit(&poller->batch, 1, memory_order_relaxed);
  int count = poller->ops->wait(poller, 0);
  if (poller->woken) poller->owed = true;
  poller->woken = woken;
  return count;
}

/* A forked child has no other threads, but one of its parent's may have held the lock. */
void ab_poller_lock(ab_poller *poller) {
  if (AB_LIKELY(!ab__poller_is_forked(poller))) pthread_mutex_lock(&poller->lock);
}

void ab_poller_unlock(ab_poller *poller) {
  if (AB_LIKELY(!ab__poller_is_forked(poller))) pthread_mutex_unlock(&poller->lock);
}

/* The token is out of date. Usually the slot changed after the collection began. Otherwise the
 * kernel holds a registration that we took for gone (Generations in README.md). While the number is
 * ours we can remove it. When it is closed or means another file, we cannot, and after enough such
 * events the back end has to start afresh. */
static void drop_stale(ab_poller *poller, int fd) {
  ab_poller_slot *slot = &poller->slots[fd];
  uint32_t batch =
      atomic_load_explicit(&poller->batch, memory_order_relaxed) & AB_POLLER_BATCH_MASK;
  if (slot->changed == batch) return;
  if (!slot->watch && poller->ops->unset(poller, fd) == AB_OK) return;
  poller->strays++;
}

static bool deliver(ab_poller *poller, const ab_poller_event *event) {
  int fd = (int)(uint32_t)event->token;
  ab_poller_slot *slot = &poller->slots[fd];
  if (!slot->watch || slot->generation != (uint32_t)(event->token >> 32)) {
    drop_stale(poller, fd);
    return false;
  }
  ab_watch *watch = slot->watch;
  /* Before the call, since the watch may arm itself again, or be freed. */
  if (watch->events & AB_POLL_ONESHOT) {
    if (slot->disarmed) return false;
    slot->disarmed = 1;
  }
  watch->ready(watch, event->events);
  return true;
}

static void purge_strays(ab_poller *poller) {
  if (AB_LIKELY(poller->strays < AB_POLLER_MAX_STRAYS)) return;
  poller->strays = 0;
  if (poller->ops->purge) poller->ops->purge(poller);
}

static bool is_current(const ab_poller_slot *slot, uint64_t token) {
  return slot->watch && slot->generation == (uint32_t)(token >> 32);
}

/* Outdated events among the kept ones say nothing about the kernel's registrations. A watch that is
 * called may not add to them. */
static int deliver_kept(ab_poller *poller) {
  int delivered = 0;
  for (uint32_t i = 0; i < poller->kept_count; i++) {
    const ab_poller_event *event = &poller->kept[i];
    ab_poller_slot *slot = &poller->slots[(uint32_t)event->token];
    slot->kept = 0;
    if (is_current(slot, event->token)) delivered += deliver(poller, event);
  }
  poller->kept_count = 0;
  return delivered;
}

int ab_poller_dispatch(ab_poller *poller) {
  int delivered = AB_UNLIKELY(poller->kept_count > 0) ? deliver_kept(poller) : 0;
  while (poller->next < poller->count)
    delivered += deliver(poller, &poller->events[poller->next++]);
  purge_strays(poller);
  return delivered;
}

static int grow_kept(ab_poller *poller) {
  uint32_t capacity = poller->kept_capacity ? 2 * poller->kept_capacity : POLLER_MIN_CAPACITY;
  size_t size;
  if (!ab_mul_size(capacity, sizeof(ab_poller_event), &size)) return AB_ENOMEM;
  ab_poller_event *kept = ab_realloc(poller->mem, poller->kept, size);
  if (!kept) return AB_ENOMEM;
  poller->kept = kept;
  poller->kept_capacity = capacity;
  return AB_OK;
}

/* One event for each descriptor is enough; one kept for an older registration is out of date. */
static int keep(ab_poller *poller, const ab_poller_event *event) {
  ab_poller_slot *slot = &poller->slots[(uint32_t)event->token];
  for (uint32_t i = 0; slot->kept && i < poller->kept_count; i++) {
    ab_poller_event *before = &poller->kept[i];
    if ((uint32_t)before->token != (uint32_t)event->token) continue;
    uint32_t events = before->token == event->token ? before->events : 0;
    *before = (ab_poller_event){event->token, event->events | events};
    return AB_OK;
  }
  if (poller->kept_count == poller->kept_capacity && grow_kept(poller) != AB_OK) return AB_ENOMEM;
  poller->kept[poller->kept_count++] = *event;
  slot->kept = 1;
  return AB_OK;
}

int ab_poller_dispatch_roaming(ab_poller *poller) {
  int err = AB_OK;
  for (; poller->next < poller->count; poller->next++) {
    ab_poller_event event = poller->events[poller->next];
    const ab_poller_slot *slot = &poller->slots[(uint32_t)event.token];
    if (is_current(slot, event.token) && !slot->watch->roams) {
      err = keep(poller, &event);
      if (err != AB_OK) break;
    } else {
      deliver(poller, &event);
    }
  }
  purge_strays(poller);
  return err;
}

void ab_poller_wakeup(ab_poller *poller) {
  /* If the flag is set, the thread that set it rings. The waiter clears it only after it has left
   * the kernel, before it looks at anything we made ready. */
  if (atomic_exchange_explicit(&poller->wake_asked, 1, memory_order_acq_rel)) return;
  ab_os_bell_ring(&poller->bell);
}

bool ab__poller_hush(ab_poller *poller) {
  /* In this order: what rings in between finds the flag set, and is meant by what we return. An
   * exchange, not a store: it reads what the waker wrote, so everything the waker did before is
   * visible to our caller. */
  ab_os_bell_hush(&poller->bell);
  return atomic_exchange_explicit(&poller->wake_asked, 0, memory_order_acq_rel) != 0;
}

int ab_poller_fd(ab_poller *poller) {
  return poller->ops->fd ? poller->ops->fd(poller) : poller->fd;
}
