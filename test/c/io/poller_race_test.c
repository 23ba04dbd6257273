/* Threads register, change and exhaust descriptors of a poller while its owner waits, or a foreign
 * loop for it: no edge is lost, and none reaches a watch that is gone. ThreadSanitizer looks on as
 * well (`rake races`). */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "io/poller_backend.h"
#include "io/timer.h"

#define ROUNDS  2000
#define THREADS 3
#define LOST    (20 * AB_NSEC_PER_SEC)

/* One that plays with a pipe of its own. */
typedef struct player {
  ab_watch watch;
  ab_poller *poller;
  int fds[2];
  uint64_t calls; /* with the lock */
  bool gone;      /* ... it is not registered */
  bool misled, lost, failed;
} player;

static void player_ready(ab_watch *watch, uint32_t events AB_UNUSED) {
  player *self = AB_CONTAINER_OF(watch, player, watch);
  self->calls++;
  if (self->gone) self->misled = true;
}

static void set(player *self) {
  ab_poller_lock(self->poller);
  self->gone = false;
  if (ab_poller_set(self->poller, &self->watch, AB_POLL_IN | AB_POLL_EDGE)) self->failed = true;
  ab_poller_unlock(self->poller);
}

static void unset(player *self) {
  ab_poller_lock(self->poller);
  ab_poller_unset(self->poller, &self->watch, false);
  self->gone = true;
  ab_poller_unlock(self->poller);
}

/* A byte, and the event that it makes. */
static void play_round(player *self) {
  char byte = 'x';
  ab_poller_lock(self->poller);
  uint64_t before = self->calls, now = before;
  ab_poller_unlock(self->poller);
  if (write(self->fds[1], &byte, 1) != 1) self->failed = true;
  ab_nsec began = ab_clock_monotonic();
  while (now == before && !self->lost) {
    sched_yield();
    ab_poller_lock(self->poller);
    now = self->calls;
    ab_poller_unlock(self->poller);
    self->lost = ab_clock_monotonic() - began > LOST;
  }
  ab_poller_lock(self->poller);
  if (read(self->fds[0], &byte, 1) != 1) self->failed = true;
  ab_poller_exhausted(self->poller, &self->watch, AB_POLL_IN);
  ab_poller_unlock(self->poller);
}

static void *play(void *arg) {
  player *self = arg;
  set(self);
  for (int n = 0; n < ROUNDS && !self->lost; n++) {
    if (n % 7 == 0) unset(self);
    if (n % 7 == 0 || n % 5 == 0) set(self);
    play_round(self);
  }
  unset(self);
  return NULL;
}

static void turn(ab_poller *poller, ab_nsec timeout) {
  ab_poller_wait(poller, timeout);
  ab_poller_lock(poller);
  ab_poller_dispatch(poller);
  ab_poller_unlock(poller);
}

typedef struct owner {
  ab_poller *poller;
  bool foreign; /* it waits for the poller's descriptor */
  _Atomic bool over;
} owner;

static void *own(void *arg) {
  owner *self = arg;
  while (!atomic_load(&self->over)) {
    struct pollfd pollfd = {.events = POLLIN};
    if (self->foreign) {
      pollfd.fd = ab_poller_fd(self->poller);
      poll(&pollfd, 1, -1);
    }
    turn(self->poller, self->foreign ? 0 : AB_POLL_FOREVER);
  }
  return NULL;
}

static void play_all(const ab_poller_ops *ops, bool foreign) {
  owner owner = {.poller = ab__poller_init_with(&ab_mem_libc, ops), .foreign = foreign};
  player players[THREADS];
  pthread_t threads[THREADS], owners;
  CHECK_INT(0, pthread_create(&owners, NULL, own, &owner));
  for (int i = 0; i < THREADS; i++) {
    players[i] = (player){.poller = owner.poller};
    CHECK_INT(0, pipe(players[i].fds));
    players[i].watch = (ab_watch){.ready = player_ready, .fd = players[i].fds[0]};
    CHECK_INT(0, pthread_create(&threads[i], NULL, play, &players[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(!players[i].lost);
    CHECK(!players[i].misled);
    CHECK(!players[i].failed);
    CHECK(players[i].calls >= ROUNDS);
  }
  atomic_store(&owner.over, true);
  ab_poller_wakeup(owner.poller);
  pthread_join(owners, NULL);
  for (int i = 0; i < THREADS; i++) {
    close(players[i].fds[0]);
    close(players[i].fds[1]);
  }
  ab_poller_fini(owner.poller);
}

CHECK_CASE(changes_while_the_owner_waits) {
  play_all(&ab__poller_poll, false);
}

CHECK_CASE(changes_while_a_foreign_loop_waits) {
  play_all(&ab__poller_poll, true);
}

/* This system's own. */
CHECK_CASE(changes_of_the_usual_back_end) {
  ab_poller *usual = ab_poller_init(&ab_mem_libc);
  play_all(usual->ops, false);
  play_all(usual->ops, true);
  ab_poller_fini(usual);
}

CHECK_MAIN()
