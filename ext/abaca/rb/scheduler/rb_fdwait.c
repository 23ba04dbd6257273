/* Waits for descriptors that Ruby owns. Each number has a state with the interests of all its
 * waiters; the poller's registration is their union, edge-triggered.
 * A wait renews the registration, so that the kernel looks again. If a hook has just met EAGAIN or
 * a short read, a new edge comes next, unless the number was reused behind our back or the end of
 * a stream came with its last bytes. So such a wait is only `unproven`: renewed before the loop
 * blocks, or after a while in a busy loop. (With a poller that sees no edges each wait renews: it
 * costs little there.) */
#include "rb/scheduler/rb_scheduler.h"

#include <errno.h>

#include "base/bits.h"

#define READY_MASK (AB_POLL_IN | AB_POLL_OUT | AB_POLL_PRI)

static bool is_closed(VALUE io) {
#ifdef HAVE_RB_IO_CLOSED_P
  return RTEST(rb_io_closed_p(io));
#else
  const rb_io_t *fptr = RFILE(io)->fptr;
  return !fptr || fptr->fd < 0;
#endif
}

/* Does the kernel tell of each arrival? Otherwise all waits renew. */
static bool sees_edges(const ab_fd_state *state) {
  return ab_poller_native(state->loop->poller) & AB_POLL_EDGE;
}

/* The end is part of the interest, so that no wait relies on an edge behind it. */
static int arm(ab_fd_state *state, uint32_t events) {
  state->ended = false;
  if (events & AB_POLL_IN && sees_edges(state)) events |= AB_POLL_RDHUP;
  return ab_poller_set(state->loop->poller, &state->watch, events | AB_POLL_EDGE);
}

static uint32_t wanted(const ab_fd_state *state) {
  uint32_t events = 0;
  for (const ab_list *node = state->interests.next; node != &state->interests; node = node->next)
    events |= AB_CONTAINER_OF(node, ab_interest, link)->want;
  return events;
}

/* What the events mean for an interest. A hang-up or an error ends every wait. */
static uint32_t match(uint32_t events, uint32_t want) {
  if (events & (AB_POLL_HUP | AB_POLL_ERROR)) return want;
  return events & want;
}

/* The poller's lock is held. */
static void fd_ready(ab_watch *watch, uint32_t events) {
  ab_fd_state *state = AB_CONTAINER_OF(watch, ab_fd_state, watch);
  state->exhausted = 0;
  if (events & (AB_POLL_HUP | AB_POLL_RDHUP | AB_POLL_ERROR)) state->ended = true;
  if (ab_list_empty(&state->interests)) {
    /* No waiters. An edge helps the next wait, but must not wake the loop again and again. */
    if (state->unclaimed) ab_poller_unset(state->loop->poller, watch, false);
    state->unclaimed = true;
    return;
  }
  ab_list_each (node, tmp, &state->interests) {
    ab_interest *interest = AB_CONTAINER_OF(node, ab_interest, link);
    uint32_t got = match(events, interest->want);
    if (got == 0) continue;
    interest->got |= got;
    ab_list_remove(node);
    ab_loop_wake(state->loop, interest->waiter);
  }
  if (ab_list_empty(&state->interests)) ab_list_remove(&state->unproven);
}

static ab_fd_state *find_state(ab_loop *loop, int fd) {
  size_t chunk = (size_t)fd / AB_FD_CHUNK;
  if (chunk >= loop->fds.count || !loop->fds.chunks[chunk]) return NULL;
  return &loop->fds.chunks[chunk][(size_t)fd % AB_FD_CHUNK];
}

void ab__fd_exhausted(ab_loop *loop, int fd, uint32_t events) {
  ab_fd_state *state = find_state(loop, fd);
  if (state) state->exhausted |= events & READY_MASK;
}

void ab__fd_drained(ab_loop *loop, int fd, VALUE io) {
  ab_fd_state *state = find_state(loop, fd);
  if (state && state->io == io && !state->ended && (state->watch.events & AB_POLL_IN))
    state->exhausted |= AB_POLL_IN;
}

bool ab__fd_is_drained(ab_loop *loop, int fd, VALUE io) {
  const ab_fd_state *state = find_state(loop, fd);
  return state && state->io == io &&
         (state->exhausted & state->watch.events & AB_POLL_IN) == AB_POLL_IN;
}

static void grow_table(ab_fd_table *table, size_t chunk) {
  size_t count = chunk + 1, size;
  if (!ab_mul_size(count, sizeof *table->chunks, &size)) rb_memerror();
  ab_fd_state **chunks = ab_realloc(&ab_mem_libc, table->chunks, size);
  if (!chunks) rb_memerror();
  for (size_t i = table->count; i < count; i++) chunks[i] = NULL;
  table->chunks = chunks;
  table->count = count;
}

static ab_fd_state *make_state(ab_loop *loop, int fd) {
  size_t chunk = (size_t)fd / AB_FD_CHUNK;
  if (chunk >= loop->fds.count) grow_table(&loop->fds, chunk);
  ab_fd_state *states = ab_alloc_zero(&ab_mem_libc, AB_FD_CHUNK * sizeof *states);
  if (!states) rb_memerror();
  for (size_t i = 0; i < AB_FD_CHUNK; i++) {
    states[i].watch.fd = (int)(chunk * AB_FD_CHUNK + i);
    states[i].watch.ready = fd_ready;
    states[i].loop = loop;
    ab_list_init(&states[i].interests);
    ab_list_init(&states[i].unproven);
  }
  loop->fds.chunks[chunk] = states;
  return find_state(loop, fd);
}

void ab__fd_fini(ab_loop *loop) {
  for (size_t i = 0; i < loop->fds.count; i++) ab_free(&ab_mem_libc, loop->fds.chunks[i]);
  ab_free(&ab_mem_libc, loop->fds.chunks);
  loop->fds = (ab_fd_table){0};
}

static VALUE closed_error(void) {
  return rb_exc_new_cstr(rb_eIOError, "stream closed in another thread");
}

static void fail_waiter(ab_loop *loop, ab_waiter *waiter) {
  if (waiter->wake != AB_WAKE_PENDING) return;
  waiter->exception = closed_error();
  ab_loop_wake(loop, waiter);
}

/* Releases the waiters whose IO had this number before it was closed and given to another file. */
static void evict_closed(ab_loop *loop, ab_fd_state *state) {
  ab_list_each (node, tmp, &state->interests) {
    ab_interest *interest = AB_CONTAINER_OF(node, ab_interest, link);
    if (NIL_P(interest->io) || !is_closed(interest->io)) continue;
    ab_list_remove(node);
    fail_waiter(loop, interest->waiter);
  }
}

/* Waits that cannot be armed are released: they try their system call and come back. */
static void prove(ab_loop *loop, ab_fd_state *state) {
  ab_list_remove(&state->unproven);
  evict_closed(loop, state);
  uint32_t events = wanted(state);
  if (events == 0) return;
  ab_poller_lock(loop->poller);
  if (arm(state, events) != AB_OK) fd_ready(&state->watch, AB_POLL_ERROR);
  ab_poller_unlock(loop->poller);
}

void ab__fd_prove(ab_loop *loop, ab_nsec since) {
  ab_list_each (node, tmp, &loop->unproven) {
    ab_fd_state *state = AB_CONTAINER_OF(node, ab_fd_state, unproven);
    if (state->since > since) break;
    prove(loop, state);
  }
}

void ab__fd_closed(ab_loop *loop, int fd) {
  ab_fd_state *state = fd < 0 ? NULL : find_state(loop, fd);
  if (!state) return;
  ab_list *node;
  while ((node = ab_list_shift(&state->interests)))
    fail_waiter(loop, AB_CONTAINER_OF(node, ab_interest, link)->waiter);
  ab_poller_lock(loop->poller);
  /* Not `fd_closed`: another descriptor of the same file would keep the registration alive. */
  ab_poller_unset(loop->poller, &state->watch, false);
  ab_poller_unlock(loop->poller);
}

/* May the wait rely on the existing registration? Its IO is only compared: it may be gone. */
static bool is_armed(const ab_fd_state *state, const ab_interest *interest) {
  return (interest->want & ~state->exhausted) == 0 &&
         (interest->want & ~state->watch.events) == 0 && state->io == interest->io &&
         sees_edges(state);
}

/* Renews the registration for a wait, and for the other waits on it. */
static int renew(ab_fd_state *state, const ab_interest *interest) {
  uint32_t events = wanted(state) | interest->want;
  /* A fiber that has written, or connected, will read. */
  if (events & AB_POLL_OUT) events |= AB_POLL_IN;
  ab_poller *poller = state->loop->poller;
  ab_poller_lock(poller);
  /* Most likely the number was closed and given to another file. The poller copes if not. */
  if (state->io != interest->io) ab_poller_unset(poller, &state->watch, true);
  int err = arm(state, events);
  ab_poller_unlock(poller);
  state->io = interest->io;
  return err;
}

static void leave_unproven(ab_loop *loop, ab_fd_state *state) {
  if (!ab_list_empty(&state->unproven)) return;
  state->since = loop->now;
  ab_list_append(&loop->unproven, &state->unproven);
}

/* Returns false if the descriptor is always ready (a regular file). */
static bool watch(ab_loop *loop, ab_interest *interest) {
  ab_fd_state *state = find_state(loop, interest->fd);
  if (!state) state = make_state(loop, interest->fd);
  bool armed = is_armed(state, interest);
  state->exhausted &= ~interest->want;
  state->unclaimed = false;
  if (AB_UNLIKELY(!ab_list_empty(&state->interests))) evict_closed(loop, state);
  if (armed) leave_unproven(loop, state);
  int err = armed ? AB_OK : renew(state, interest);
  if (err == AB_OK) {
    ab_list_append(&state->interests, &interest->link);
    return true;
  }
  if (err == AB_EINVAL && errno == EPERM) return false;
  if (err == AB_ENOMEM) rb_memerror();
  rb_sys_fail("no wait for this descriptor");
}

/* ---- waits ---- */

typedef struct fd_wait {
  ab_loop *loop;
  ab_nsec deadline;
  ab_interest *interests;
  size_t count;
  ab_waiter waiter;
} fd_wait;

static VALUE wait_body(VALUE arg) {
  fd_wait *wait = (fd_wait *)arg;
  bool ready = false;
  wait->loop->fd_waits++;
  for (size_t i = 0; i < wait->count; i++) {
    ab_interest *interest = &wait->interests[i];
    if (AB_LIKELY(watch(wait->loop, interest))) continue;
    interest->got = interest->want;
    ready = true;
  }
  if (ready) return Qnil;
  if (wait->count == 1) wait->waiter.descriptor = find_state(wait->loop, wait->interests->fd);
  ab_loop_park(wait->loop, &wait->waiter, wait->deadline);
  return Qnil;
}

static VALUE wait_end(VALUE arg) {
  fd_wait *wait = (fd_wait *)arg;
  wait->loop->fd_waits--;
  for (size_t i = 0; i < wait->count; i++) ab_list_remove(&wait->interests[i].link);
  return Qnil;
}

static void await(fd_wait *wait) {
  for (size_t i = 0; i < wait->count; i++) {
    wait->interests[i].waiter = &wait->waiter;
    ab_list_init(&wait->interests[i].link);
  }
  rb_ensure(wait_body, (VALUE)wait, wait_end, (VALUE)wait);
}

uint32_t ab__fd_wait(ab_loop *loop, int fd, VALUE io, uint32_t events, ab_nsec deadline,
                     uint8_t kind, VALUE object) {
  ab_interest interest = {.io = io, .fd = fd, .want = events & READY_MASK};
  fd_wait wait = {.loop = loop, .deadline = deadline, .interests = &interest, .count = 1};
  wait.waiter.kind = kind;
  wait.waiter.object = object;
  wait.waiter.fd = fd;
  wait.waiter.events = interest.want;
  await(&wait);
  RB_GC_GUARD(io);
  return interest.got;
}

void ab__fd_select(ab_loop *loop, ab_interest *interests, size_t count, ab_nsec deadline,
                   VALUE object) {
  fd_wait wait = {.loop = loop, .deadline = deadline, .interests = interests, .count = count};
  wait.waiter.kind = AB_WAIT_IO;
  wait.waiter.object = object;
  for (size_t i = 0; i < count; i++) interests[i].fd = rb_io_descriptor(interests[i].io);
  await(&wait);
}

/* ---- IOs that were closed ---- */

static bool waits_for_closed(const ab_waiter *waiter) {
  if (waiter->kind != AB_WAIT_IO && waiter->kind != AB_WAIT_FILE) return false;
  if (waiter->events != 0) return RB_TYPE_P(waiter->object, T_FILE) && is_closed(waiter->object);
  const fd_wait *wait = AB_CONTAINER_OF(waiter, fd_wait, waiter);
  for (size_t i = 0; i < wait->count; i++)
    if (is_closed(wait->interests[i].io)) return true;
  return false;
}

void ab__fd_sweep(ab_loop *loop) {
  ab_list_each (node, tmp, &loop->parked) {
    ab_waiter *waiter = AB_CONTAINER_OF(node, ab_waiter, link);
    if (waits_for_closed(waiter)) fail_waiter(loop, waiter);
  }
}
