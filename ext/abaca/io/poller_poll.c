/* The back end over poll(2), for systems that have nothing better: POSIX 2008, and no more.
 *
 * Registrations are entries of a dense table, guarded by the lock. A look at the descriptors is a
 * copy of what the table asks for, since others may change it while the looker is in the kernel. If
 * the looker sleeps there, whoever changes the table rings the bell, and a new copy is made.
 *
 * poll(2) tells what is, not what has changed. What an edge-triggered entry has told of is
 * `silent`: not asked for again before the owner has said that the descriptor was exhausted, or has
 * registered it anew. A descriptor that stays ready therefore wakes nobody twice, and an edge
 * behind EAGAIN is found by the next look, since it has to be ready then. Input that comes on top
 * of unread input is seen late: by a wait in which nothing else happens for RELOOK.
 *
 * POSIX does not tell that a peer has ended its side (RDHUP): its end is readable, and then
 * ab_os_ended says whether it was that. Behind unread bytes it may stay unseen until they are read.
 * EXCLUSIVE means nothing here: all that wait are woken. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "base/bits.h"
#include "io/poller_backend.h"
#include "io/thread.h"
#include "io/timer.h"
#include "os/poll.h"
#include "os/sockets.h"

#define POLL_MIN_CAPACITY 64

/* A wait that sleeps for so long looks at silent input again. */
#define RELOOK (100 * AB_NSEC_PER_MS)

/* What POLLIN stands for, */
#define INPUT (AB_POLL_IN | AB_POLL_RDHUP)
/* what is told unasked, and a one-shot that has fired: with one of these silent a descriptor is not
 * polled at all. */
#define UNASKED (AB_POLL_HUP | AB_POLL_ERROR)
#define AT_REST (UNASKED | AB_POLL_ONESHOT)
#define ASKED   (INPUT | AB_POLL_PRI | AB_POLL_OUT)
/* Among what is silent: the owner says that it is closed, or is about to be. */
#define CLOSED 0x8000u

typedef struct entry {
  int fd;
  uint32_t generation; /* of its token */
  uint16_t events;     /* what is registered */
  uint16_t silent;     /* what is not polled */
} entry;

/* The descriptors that one thread looks at. */
typedef struct view {
  struct pollfd *fds;
  uint32_t *generations; /* behind fds, in the same memory */
  uint32_t count, capacity;
} view;

/* What ab_poller_fd gives out, and the thread that makes it readable. */
typedef struct lookout {
  ab_os_bell news; /* the foreign loop's */
  ab_os_bell tug;  /* to look at the table */
  pthread_t thread;
  pthread_cond_t rest;
  view view;
  bool runs;
  bool wanted; /* somebody relies on the descriptor, and does not wait itself */
  bool told;   /* there are news */
  bool looks;  /* the thread is in the kernel, or about to be */
  bool tugged;
  bool ends_now;
} lookout;

typedef struct polled {
  ab_poller base;
  entry *entries;
  uint32_t *places; /* by descriptor: one more than its entry's index; 0: it has none */
  uint32_t count, capacity, place_count;
  view view;           /* the waiter's own while it waits */
  view next;           /* a larger one, for the next look, or none */
  struct pollfd alone; /* the first view has room for the bell only */
  uint32_t from;       /* where a look begins to report, so that all have their turn */
  uint32_t unread;     /* entries that a relook is for */
  bool changed;        /* since the view was made */
  bool closed;         /* ... some were */
  bool waits;          /* the waiter sleeps, or is about to */
  bool tugged;         /* ... and is to look at the table */
  uint32_t looks;      /* of the waiter so far */
  lookout lookout;
} polled;

static polled *polled_of(ab_poller *poller) {
  return AB_CONTAINER_OF(poller, polled, base);
}

/* --- the table --- */

static entry *find(const polled *self, int fd) {
  if ((uint32_t)fd >= self->place_count || self->places[fd] == 0) return NULL;
  return &self->entries[self->places[fd] - 1];
}

static void remove_entry(polled *self, const entry *entry) {
  uint32_t place = self->places[entry->fd];
  self->places[entry->fd] = 0;
  const struct entry *last = &self->entries[--self->count];
  if (entry == last) return;
  self->entries[place - 1] = *last;
  self->places[last->fd] = place;
}

static void tug_at_lookout(lookout *lookout) {
  if (!lookout->looks || lookout->tugged) return;
  lookout->tugged = true;
  ab_os_bell_ring(&lookout->tug);
}

/* Whoever is in the kernel with an older table comes back. (Linux keeps a file open while it is
 * polled, whoever closes it: its peer would not hear of the end.) */
static void table_changed(polled *self) {
  self->changed = true;
  if (self->waits && !self->tugged) {
    self->tugged = true;
    ab_os_bell_ring(&self->base.bell);
  }
  if (self->lookout.wanted) tug_at_lookout(&self->lookout);
}

static void free_view(polled *self, view *view) {
  if (view->fds != &self->alone) ab_free(self->base.mem, view->fds);
  *view = (struct view){0};
}

static bool allocate_view(const ab_mem *mem, view *view, uint32_t capacity) {
  size_t size;
  if (!ab_mul_size(capacity, sizeof *view->fds + sizeof *view->generations, &size)) return false;
  view->fds = ab_alloc(mem, size);
  if (!view->fds) return false;
  view->generations = (uint32_t *)(view->fds + capacity);
  view->capacity = capacity;
  return true;
}

static bool grow_places(polled *self, int fd) {
  if ((uint32_t)fd < self->place_count) return true;
  uint32_t count = ab_round_up_pow2((uint32_t)fd + 1);
  size_t size;
  if (!ab_mul_size(count, sizeof *self->places, &size)) return false;
  uint32_t *places = ab_realloc(self->base.mem, self->places, size);
  if (!places) return false;
  for (uint32_t i = self->place_count; i < count; i++) places[i] = 0;
  self->places = places;
  self->place_count = count;
  return true;
}

static bool grow_entries(polled *self) {
  if (self->count < self->capacity) return true;
  uint32_t capacity = self->capacity ? 2 * self->capacity : POLL_MIN_CAPACITY;
  size_t size;
  if (!ab_mul_size(capacity, sizeof *self->entries, &size)) return false;
  entry *entries = ab_realloc(self->base.mem, self->entries, size);
  if (!entries) return false;
  self->entries = entries;
  self->capacity = capacity;
  return true;
}

/* For all entries and the bell. The waiter may be using its own, so the larger one stands aside. */
static bool grow_view(polled *self) {
  uint32_t capacity = self->capacity + 1;
  if (self->view.capacity >= capacity || self->next.capacity >= capacity) return true;
  view view;
  if (!allocate_view(self->base.mem, &view, capacity)) return false;
  free_view(self, &self->next);
  self->next = view;
  return true;
}

static int poll_set(ab_poller *poller, int fd, uint32_t events, uint64_t token,
                    bool registered AB_UNUSED) {
  polled *self = polled_of(poller);
  int err = ab__poller_check(fd);
  if (err) return err;
  entry *place = find(self, fd);
  if (!place) {
    if (!grow_places(self, fd) || !grow_entries(self) || !grow_view(self)) return AB_ENOMEM;
    place = &self->entries[self->count++];
    self->places[fd] = self->count;
  }
  *place = (entry){fd, (uint32_t)(token >> 32), (uint16_t)events, 0};
  table_changed(self);
  return AB_OK;
}

static int poll_unset(ab_poller *poller, int fd) {
  polled *self = polled_of(poller);
  const entry *entry = find(self, fd);
  if (!entry) return AB_ESYS;
  remove_entry(self, entry);
  table_changed(self);
  return AB_OK;
}

static void poll_closed(ab_poller *poller, int fd) {
  polled *self = polled_of(poller);
  entry *entry = find(self, fd);
  if (!entry) return;
  entry->silent |= CLOSED;
  self->closed = true;
  table_changed(self);
}

/* The watch of an entry that is still its registration. */
static ab_watch *watch_of(const polled *self, const entry *entry) {
  const ab_poller_slot *slot = &self->base.slots[entry->fd];
  return slot->generation == entry->generation ? slot->watch : NULL;
}

static void set_silent(const polled *self, entry *entry, uint32_t silent) {
  entry->silent = (uint16_t)silent;
  ab_watch *watch = watch_of(self, entry);
  if (watch) watch->silent = (uint8_t)(silent & UNASKED ? ASKED : silent & ASKED);
}

/* It was not ready for `events`, so it is not hung up, either. */
static void poll_listen(ab_poller *poller, int fd, uint32_t events) {
  polled *self = polled_of(poller);
  entry *entry = find(self, fd);
  if (!entry) return;
  uint32_t told = events | UNASKED;
  if (events & AB_POLL_IN) told |= INPUT;
  set_silent(self, entry, entry->silent & ~told);
  table_changed(self);
}

/* --- a look --- */

/* Is there input that has been told of, and to which more may have come? */
static bool may_have_more(const entry *entry) {
  return (entry->silent & (INPUT | AT_REST)) == AB_POLL_IN;
}

static void forget_unread(polled *self) {
  for (uint32_t i = 0; i < self->count; i++) {
    entry *entry = &self->entries[i];
    if (may_have_more(entry)) set_silent(self, entry, entry->silent & ~AB_POLL_IN);
  }
  self->changed = true;
}

static short to_poll(const entry *entry) {
  short out = 0;
  if (entry->events & INPUT && !(entry->silent & INPUT)) out |= POLLIN;
  if (entry->events & ~entry->silent & AB_POLL_OUT) out |= POLLOUT;
  if (entry->events & ~entry->silent & AB_POLL_PRI) out |= POLLPRI;
  return out;
}

/* Behind what is in the view already. Returns how many entries a relook is for. */
static uint32_t fill_view(const polled *self, view *view) {
  uint32_t unread = 0;
  for (uint32_t i = 0; i < self->count; i++) {
    const entry *entry = &self->entries[i];
    if (may_have_more(entry)) unread++;
    if (entry->silent & AT_REST) continue;
    view->generations[view->count] = entry->generation;
    view->fds[view->count++] = (struct pollfd){.fd = entry->fd, .events = to_poll(entry)};
  }
  return unread;
}

/* A look would find them out, too, but end at once. One that is open all the same is found by its
 * events, unless it has none. */
static void drop_closed(polled *self) {
  self->closed = false;
  for (uint32_t i = 0; i < self->count;) {
    const entry *entry = &self->entries[i];
    if (entry->silent & CLOSED && (entry->silent & AT_REST || fcntl(entry->fd, F_GETFD) < 0)) {
      remove_entry(self, entry); /* another one takes its place */
    } else {
      i++;
    }
  }
}

static void renew_view(polled *self) {
  view *view = &self->view;
  if (!self->changed) return;
  self->changed = false;
  if (self->closed) drop_closed(self);
  if (self->next.fds) {
    free_view(self, view);
    *view = self->next;
    self->next = (struct view){0};
  }
  view->fds[0] = (struct pollfd){.fd = self->base.bell.fd, .events = POLLIN};
  view->count = 1;
  self->unread = fill_view(self, view);
}

static uint32_t from_poll(const entry *entry, short revents) {
  uint32_t events = 0;
  if (revents & POLLIN) events |= entry->events & AB_POLL_IN;
  if (revents & POLLPRI) events |= AB_POLL_PRI;
  if (revents & POLLOUT) events |= AB_POLL_OUT;
  if (revents & POLLHUP) events |= AB_POLL_HUP;
  if (revents & POLLERR) events |= AB_POLL_ERROR;
  bool asks = revents & POLLIN && entry->events & AB_POLL_RDHUP;
  if (asks && ab_os_ended(entry->fd, true)) events |= AB_POLL_RDHUP;
  return events;
}

/* What has changed since the view was made is found by the next look. */
static void report(polled *self, uint32_t i) {
  ab_poller *poller = &self->base;
  const struct pollfd *pollfd = &self->view.fds[i];
  uint32_t generation = self->view.generations[i];
  entry *entry = find(self, pollfd->fd);
  if (!entry || entry->generation != generation) return;
  if (pollfd->revents & POLLNVAL) {
    remove_entry(self, entry); /* closed, and its owner does not say so, or not to us */
    self->changed = true;
    return;
  }
  uint32_t events = from_poll(entry, pollfd->revents), silent = 0;
  if (entry->events & AB_POLL_EDGE) silent = events;
  if (entry->events & AB_POLL_ONESHOT) silent |= AB_POLL_ONESHOT;
  /* Input of one that waits for the end behind it. */
  if (events == 0) silent = AB_POLL_IN;
  if (silent) {
    set_silent(self, entry, entry->silent | silent);
    self->changed = true;
  }
  if (events == 0) return;
  poller->events[poller->count++] =
      (ab_poller_event){ab__poller_token(pollfd->fd, generation), events};
}

/* A full batch leaves the others for the next one. */
static void report_all(polled *self, int ready) {
  const view *view = &self->view;
  uint32_t others = view->count - 1;
  if (view->fds[0].revents) ready--;
  if (self->from >= others) self->from = 0;
  for (uint32_t n = 0; n < others && ready > 0; n++) {
    if (self->base.count == AB_POLLER_BATCH) {
      self->from = (self->from + n) % others;
      return;
    }
    uint32_t i = 1 + (self->from + n) % others;
    if (view->fds[i].revents == 0) continue;
    ready--;
    report(self, i);
  }
}

/* --- the lookout --- */

static void tell(lookout *lookout) {
  if (lookout->told) return;
  lookout->told = true;
  ab_os_bell_ring(&lookout->news);
}

/* The same as the waiter sees, in memory of its own. */
static bool copy_view(polled *self, view *view) {
  uint32_t capacity = self->capacity + 2;
  if (view->capacity < capacity) {
    free_view(self, view);
    if (!allocate_view(self->base.mem, view, capacity)) return false;
  }
  if (self->closed) drop_closed(self);
  view->fds[0] = (struct pollfd){.fd = self->lookout.tug.fd, .events = POLLIN};
  view->fds[1] = (struct pollfd){.fd = self->base.bell.fd, .events = POLLIN};
  view->count = 2;
  fill_view(self, view);
  return true;
}

/* Without memory there might be something: whoever asks finds out. Locked, but not in the kernel.
 */
static void look_out_once(polled *self) {
  lookout *lookout = &self->lookout;
  if (!copy_view(self, &lookout->view)) {
    tell(lookout);
    return;
  }
  uint32_t looks = self->looks;
  lookout->looks = true;
  ab_poller_unlock(&self->base);
  int ready = ab_os_poll(lookout->view.fds, lookout->view.count, AB_POLL_FOREVER);
  ab_poller_lock(&self->base);
  lookout->looks = false;
  if (ready > 0 && lookout->view.fds[0].revents) {
    lookout->tugged = false;
    ab_os_bell_hush(&lookout->tug);
    ready--;
  }
  /* What was ready before the waiter has looked may be so no more. After an error it has to. */
  if (ready != 0 && lookout->wanted && looks == self->looks) tell(lookout);
}

static void *look_out(void *arg) {
  polled *self = arg;
  lookout *lookout = &self->lookout;
  ab_poller_lock(&self->base);
  while (!lookout->ends_now) {
    if (lookout->wanted && !lookout->told) {
      look_out_once(self);
    } else {
      pthread_cond_wait(&lookout->rest, &self->base.lock);
    }
  }
  ab_poller_unlock(&self->base);
  return NULL;
}

static int start_lookout(polled *self) {
  lookout *lookout = &self->lookout;
  int err = ab_thread_start(&lookout->thread, look_out, self);
  if (err == 0) {
    lookout->runs = true;
    return AB_OK;
  }
  errno = err;
  return AB_ESYS;
}

static int poll_fd(ab_poller *poller) {
  polled *self = polled_of(poller);
  lookout *lookout = &self->lookout;
  ab_poller_lock(poller);
  int err = lookout->runs ? AB_OK : start_lookout(self);
  if (!err && !lookout->wanted) {
    lookout->wanted = true;
    pthread_cond_signal(&lookout->rest);
  }
  ab_poller_unlock(poller);
  return err ? -1 : poller->fd;
}

/* The waiter has looked. What it has left is for another look. */
static void relieve_lookout(lookout *lookout) {
  if (lookout->told) {
    lookout->told = false;
    ab_os_bell_hush(&lookout->news);
  }
  if (lookout->wanted) pthread_cond_signal(&lookout->rest);
}

static void end_lookout(polled *self) {
  lookout *lookout = &self->lookout;
  if (!lookout->runs || ab__poller_is_forked(&self->base)) return;
  ab_poller_lock(&self->base);
  lookout->ends_now = true;
  pthread_cond_signal(&lookout->rest);
  tug_at_lookout(lookout);
  ab_poller_unlock(&self->base);
  pthread_join(lookout->thread, NULL);
}

/* --- waiting --- */

static ab_nsec end_of(ab_nsec timeout) {
  if (timeout == 0) return 0;
  ab_nsec now = ab_clock_monotonic();
  return timeout < AB_POLL_FOREVER - now ? now + timeout : AB_POLL_FOREVER;
}

static ab_nsec left_until(ab_nsec end) {
  if (end == 0 || end == AB_POLL_FOREVER) return end;
  ab_nsec now = ab_clock_monotonic();
  return now < end ? end - now : 0;
}

static void begin_look(polled *self, bool sleeps, bool again) {
  ab_poller_lock(&self->base);
  if (again) forget_unread(self);
  renew_view(self);
  if (sleeps && self->lookout.wanted) {
    self->lookout.wanted = false;
    tug_at_lookout(&self->lookout);
  }
  self->waits = sleeps;
  ab_poller_unlock(&self->base);
}

/* True if the waiter was woken. */
static bool end_look(polled *self, int ready) {
  bool woken = false;
  ab_poller_lock(&self->base);
  self->waits = false;
  self->looks++;
  if (ready > 0) {
    if (self->view.fds[0].revents) {
      self->tugged = false;
      woken = ab__poller_hush(&self->base);
    }
    report_all(self, ready);
  }
  if (self->lookout.runs) relieve_lookout(&self->lookout);
  ab_poller_unlock(&self->base);
  return woken;
}

static int poll_wait(ab_poller *poller, ab_nsec timeout) {
  polled *self = polled_of(poller);
  ab_nsec end = end_of(timeout), left = timeout;
  bool again = false;
  for (;;) {
    begin_look(self, left > 0, again);
    again = self->unread > 0 && left > RELOOK;
    int ready = ab_os_poll(self->view.fds, self->view.count, again ? RELOOK : left);
    if (end_look(self, ready)) {
      poller->woken = timeout == 0;
      break;
    }
    /* An error is a signal, or a kernel without memory, which the caller has to survive. */
    if (ready < 0 || poller->count > 0 || left == 0) break;
    again = again && ready == 0;
    left = left_until(end);
    if (left == 0) break;
  }
  return (int)poller->count;
}

/* --- life --- */

static int poll_init(ab_poller *poller) {
  polled *self = polled_of(poller);
  self->view = (view){.fds = &self->alone, .capacity = 1};
  self->changed = true;
  self->lookout.news = self->lookout.tug = AB_OS_BELL_NONE;
  /* Cannot fail without attributes. */
  pthread_cond_init(&self->lookout.rest, NULL);
  /* The lookout's, too: a loop may be away just when descriptors have run out. */
  if (ab_os_bell_init(&poller->bell) != 0 || ab_os_bell_init(&self->lookout.news) != 0 ||
      ab_os_bell_init(&self->lookout.tug) != 0)
    return AB_ESYS;
  poller->fd = self->lookout.news.fd;
  return AB_OK;
}

static void poll_fini(ab_poller *poller) {
  polled *self = polled_of(poller);
  end_lookout(self);
  if (!ab__poller_is_forked(poller)) pthread_cond_destroy(&self->lookout.rest);
  ab_os_bell_fini(&self->lookout.tug);
  ab_os_bell_fini(&self->lookout.news);
  ab_os_bell_fini(&poller->bell);
  free_view(self, &self->lookout.view);
  free_view(self, &self->next);
  free_view(self, &self->view);
  ab_free(poller->mem, self->places);
  ab_free(poller->mem, self->entries);
}

const ab_poller_ops ab__poller_poll = {
    .size = sizeof(polled),
    .init = poll_init,
    .fini = poll_fini,
    .set = poll_set,
    .unset = poll_unset,
    .closed = poll_closed,
    .wait = poll_wait,
    .listen = poll_listen,
    .fd = poll_fd,
};
