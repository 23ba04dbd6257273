/* The behaviour of a poller, seen through io/poller.h alone, so that every back end can be put to
 * the same test. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "io/poller.h"
#include "io/timer.h"

#define SOON (20 * AB_NSEC_PER_MS)  /* long enough for the kernel to say what it has to say */
#define LONG (20 * AB_NSEC_PER_SEC) /* only a broken test waits this long */

typedef struct probe {
  ab_watch watch;
  int calls;
  uint32_t events; /* of the last call */
  void (*then)(struct probe *probe);
  ab_poller *poller;
  struct probe *other;
} probe;

static void probe_ready(ab_watch *watch, uint32_t events) {
  probe *self = AB_CONTAINER_OF(watch, probe, watch);
  self->calls++;
  self->events = events;
  if (self->then) self->then(self);
}

static probe probe_of(int fd) {
  return (probe){.watch = {.ready = probe_ready, .fd = fd}};
}

static int set(ab_poller *poller, probe *p, uint32_t events) {
  ab_poller_lock(poller);
  int err = ab_poller_set(poller, &p->watch, events);
  ab_poller_unlock(poller);
  return err;
}

static void unset(ab_poller *poller, probe *p, bool fd_closed) {
  ab_poller_lock(poller);
  ab_poller_unset(poller, &p->watch, fd_closed);
  ab_poller_unlock(poller);
}

/* Waits and dispatches; returns how many were delivered. */
static int turn(ab_poller *poller, ab_nsec timeout) {
  ab_poller_wait(poller, timeout);
  ab_poller_lock(poller);
  int delivered = ab_poller_dispatch(poller);
  ab_poller_unlock(poller);
  return delivered;
}

static ab_poller *make(void) {
  ab_poller *poller = ab_poller_init(&ab_mem_libc);
  if (!poller) abort();
  return poller;
}

static void make_pipe(int fds[2]) {
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) abort();
}

static void make_pair(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) abort();
}

static ab_poller *make_with_pipe(int fds[2]) {
  make_pipe(fds);
  return make();
}

static void close_pair(const int fds[2]) {
  close(fds[0]);
  close(fds[1]);
}

static void end(ab_poller *poller, const int fds[2]) {
  ab_poller_fini(poller);
  close_pair(fds);
}

static void put(int fd) {
  CHECK_INT(1, write(fd, "x", 1));
}

static void take(int fd) {
  char byte;
  CHECK_INT(1, read(fd, &byte, 1));
}

/* Sets the soft limit of descriptors; the hard one is left alone, so that this can be undone. */
static void limit_descriptors(rlim_t count) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
  limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
}

/* Runs `body` in a forked child and returns what it exited with. */
static int in_child(void (*body)(void *ctx), void *ctx) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    int before = check_failures;
    body(ctx);
    _exit(check_failures != before);
  }
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

CHECK_CASE(level_reports_until_drained) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(AB_POLL_IN, p.watch.events);
  CHECK_INT(0, turn(poller, 0));
  put(fds[1]);
  for (int i = 1; i <= 3; i++) {
    CHECK_INT(1, turn(poller, AB_POLL_FOREVER));
    CHECK_INT(i, p.calls);
    CHECK_INT(AB_POLL_IN, p.events);
  }
  take(fds[0]);
  CHECK_INT(0, turn(poller, 0));
  end(poller, fds);
}

CHECK_CASE(edge_reports_once_for_each_arrival) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_EDGE));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, turn(poller, 0));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(2, p.calls);
  end(poller, fds);
}

CHECK_CASE(oneshot_is_armed_again_by_set) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_ONESHOT));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, turn(poller, 0));
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_ONESHOT));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, turn(poller, 0));
  CHECK_INT(2, p.calls);
  end(poller, fds);
}

/* Else a one-shot would fire twice: with the collected event, and with the one of the new arming.
 */
CHECK_CASE(set_between_wait_and_dispatch_reports_once) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_ONESHOT));
  put(fds[1]);
  CHECK_INT(1, ab_poller_wait(poller, LONG));
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_ONESHOT));
  ab_poller_dispatch(poller);
  CHECK_INT(0, p.calls);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, turn(poller, 0));
  CHECK_INT(1, p.calls);
  end(poller, fds);
}

CHECK_CASE(interest_can_be_changed) {
  ab_poller *poller = make();
  int fds[2];
  make_pair(fds);
  probe p = probe_of(fds[0]);
  put(fds[1]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_OUT));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_OUT, p.events);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN, p.events);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_OUT));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN | AB_POLL_OUT, p.events);
  end(poller, fds);
}

CHECK_CASE(hangup_and_half_close_are_told_apart) {
  ab_poller *poller = make();
  int fds[2];
  make_pair(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_RDHUP));
  CHECK_INT(0, turn(poller, 0));
  CHECK_INT(0, shutdown(fds[1], SHUT_WR));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_RDHUP, p.events);
  close(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK(p.events & AB_POLL_HUP);
  unset(poller, &p, false);
  close(fds[0]);

  /* The writing end of a pipe without readers: an error, without being asked for. */
  make_pipe(fds);
  p = probe_of(fds[1]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_RDHUP));
  close(fds[0]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK(p.events & AB_POLL_ERROR);
  ab_poller_fini(poller);
  close(fds[1]);
}

CHECK_CASE(urgent_data_is_priority) {
  ab_poller *poller = make();
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fds[2];
  struct sockaddr_storage address = {.ss_family = AF_INET};
  socklen_t len = sizeof address;
  CHECK_INT(0, listen(listener, 1));
  CHECK_INT(0, getsockname(listener, (struct sockaddr *)&address, &len));
  fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_INT(0, connect(fds[0], (struct sockaddr *)&address, len));
  fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  probe p = probe_of(fds[1]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_PRI));
  CHECK_INT(1, send(fds[0], "!", 1, MSG_OOB));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_PRI, p.events);
  end(poller, fds);
  close(listener);
}

CHECK_CASE(several_watches_are_delivered_in_one_turn) {
  ab_poller *poller = make();
  int a[2], b[2], c[2];
  make_pipe(a);
  make_pipe(b);
  make_pipe(c);
  probe pa = probe_of(a[0]), pb = probe_of(b[0]), pc = probe_of(c[0]);
  CHECK_INT(AB_OK, set(poller, &pa, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &pb, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &pc, AB_POLL_IN));
  put(a[1]);
  put(c[1]);
  CHECK_INT(2, turn(poller, LONG));
  CHECK_INT(1, pa.calls);
  CHECK_INT(0, pb.calls);
  CHECK_INT(1, pc.calls);
  end(poller, a);
  close_pair(b);
  close_pair(c);
}

/* More than one collection holds. */
CHECK_CASE(many_descriptors_are_all_served) {
  enum { COUNT = 700 };
  static probe probes[COUNT];
  static int fds[COUNT][2];
  limit_descriptors(RLIM_INFINITY);
  ab_poller *poller = make();
  for (int i = 0; i < COUNT; i++) {
    make_pipe(fds[i]);
    probes[i] = probe_of(fds[i][0]);
    CHECK_INT(AB_OK, set(poller, &probes[i], AB_POLL_IN | AB_POLL_ONESHOT));
    put(fds[i][1]);
  }
  int delivered = 0;
  for (int turns = 0; turns < 10; turns++) delivered += turn(poller, 0);
  CHECK_INT(COUNT, delivered);
  for (int i = 0; i < COUNT; i++) {
    CHECK_INT(1, probes[i].calls);
    close_pair(fds[i]);
  }
  ab_poller_fini(poller);
}

CHECK_CASE(unset_drops_a_collected_event_and_is_idempotent) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  CHECK_INT(1, ab_poller_wait(poller, LONG));
  unset(poller, &p, false);
  CHECK_INT(0, p.watch.events);
  CHECK_INT(0, ab_poller_dispatch(poller));
  unset(poller, &p, false);
  unset(poller, &p, true);
  CHECK_INT(0, turn(poller, 0));
  CHECK_INT(0, p.calls);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(1, turn(poller, LONG));
  end(poller, fds);
}

CHECK_CASE(undelivered_events_survive_another_wait) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_ONESHOT));
  put(fds[1]);
  CHECK_INT(1, ab_poller_wait(poller, LONG));
  CHECK_INT(1, ab_poller_wait(poller, LONG));
  CHECK_INT(1, ab_poller_dispatch(poller));
  CHECK_INT(1, p.calls);
  end(poller, fds);
}

/* The first of two ready watches closes the other's fd, and a new pipe takes the number. */
static int reused[2];

static void close_other_and_reopen(probe *self) {
  probe *victim = self->other;
  int fd = victim->watch.fd;
  ab_poller_unset(self->poller, &victim->watch, true);
  ab_poller_unset(self->poller, &self->watch, false);
  int fds[2];
  make_pipe(fds);
  CHECK_INT(fd, dup3(fds[0], fd, O_CLOEXEC));
  close(fds[0]);
  reused[0] = fd;
  reused[1] = fds[1];
}

CHECK_CASE(a_reused_number_gets_no_old_event) {
  ab_poller *poller = make();
  int a[2], b[2];
  make_pipe(a);
  make_pipe(b);
  probe pa = probe_of(a[0]), pb = probe_of(b[0]);
  pa.then = pb.then = close_other_and_reopen;
  pa.poller = pb.poller = poller;
  pa.other = &pb;
  pb.other = &pa;
  CHECK_INT(AB_OK, set(poller, &pa, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &pb, AB_POLL_IN));
  put(a[1]);
  put(b[1]);
  CHECK_INT(2, ab_poller_wait(poller, LONG));
  CHECK_INT(1, ab_poller_dispatch(poller));
  CHECK_INT(1, pa.calls + pb.calls);
  probe fresh = probe_of(reused[0]);
  CHECK_INT(AB_OK, set(poller, &fresh, AB_POLL_IN));
  CHECK_INT(0, turn(poller, 0));
  put(reused[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(1, fresh.calls);
  unset(poller, &fresh, false);
  end(poller, reused);
  close(a[1]);
  close(b[1]);
  close(pa.calls ? a[0] : b[0]);
}

/* As above, but the new owner registers before the rest of the batch is delivered. */
static probe newcomer;

static void replace_other(probe *self) {
  close_other_and_reopen(self);
  newcomer = probe_of(reused[0]);
  CHECK_INT(AB_OK, ab_poller_set(self->poller, &newcomer.watch, AB_POLL_IN));
}

CHECK_CASE(a_new_watch_gets_no_event_of_its_predecessor) {
  ab_poller *poller = make();
  int a[2], b[2];
  make_pipe(a);
  make_pipe(b);
  probe pa = probe_of(a[0]), pb = probe_of(b[0]);
  pa.then = pb.then = replace_other;
  pa.poller = pb.poller = poller;
  pa.other = &pb;
  pb.other = &pa;
  CHECK_INT(AB_OK, set(poller, &pa, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &pb, AB_POLL_IN));
  put(a[1]);
  put(b[1]);
  CHECK_INT(2, ab_poller_wait(poller, LONG));
  CHECK_INT(1, ab_poller_dispatch(poller));
  CHECK_INT(0, newcomer.calls);
  CHECK_INT(0, turn(poller, 0));
  put(reused[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(1, newcomer.calls);
  end(poller, reused);
  close(a[1]);
  close(b[1]);
  close(pa.calls ? a[0] : b[0]);
}

/* Nobody told the poller: the registration is believed in, but the kernel has forgotten it. */
CHECK_CASE(set_survives_a_number_reused_behind_its_back) {
  ab_poller *poller = make();
  int a[2], b[2];
  make_pipe(a);
  probe p = probe_of(a[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  make_pipe(b);
  CHECK_INT(a[0], dup3(b[0], a[0], O_CLOEXEC));
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(b[1]);
  CHECK_INT(1, turn(poller, LONG));

  /* And a second watch for the same fd displaces the first. */
  probe q = probe_of(a[0]);
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN));
  unset(poller, &p, false);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(1, p.calls);
  CHECK_INT(1, q.calls);
  end(poller, a);
  close_pair(b);
}

/* The other wrong belief: it was to be closed and was not. */
CHECK_CASE(set_survives_a_close_that_did_not_happen) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  unset(poller, &p, true);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(2, p.calls);
  end(poller, fds);
}

CHECK_CASE(what_cannot_be_polled_is_refused) {
  ab_poller *poller = make();
  char name[] = "/tmp/abaca-poller-XXXXXX";
  int file = mkostemp(name, O_CLOEXEC), fds[2];
  unlink(name);
  probe p = probe_of(file);
  errno = 0;
  CHECK_INT(AB_EINVAL, set(poller, &p, AB_POLL_IN));
  CHECK_INT(EPERM, errno);
  CHECK_INT(0, p.watch.events);
  close(file);
  errno = 0;
  CHECK_INT(AB_EINVAL, set(poller, &p, AB_POLL_IN));
  CHECK_INT(EBADF, errno);
  static const int bad[] = {-1, INT32_MAX, 1 << 29};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    p = probe_of(bad[i]);
    errno = 0;
    CHECK_INT(AB_EINVAL, set(poller, &p, AB_POLL_IN));
    CHECK_INT(EBADF, errno);
    unset(poller, &p, false);
  }

  /* A watch whose fd was closed under it: nothing is registered any more, and it can be used. */
  make_pipe(fds);
  p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  close(fds[0]);
  CHECK_INT(AB_EINVAL, set(poller, &p, AB_POLL_IN));
  CHECK_INT(0, p.watch.events);
  close(fds[1]);
  ab_poller_fini(poller);
}

CHECK_CASE(waits_take_as_long_as_they_should) {
  ab_poller *poller = make();
  static const ab_nsec timeouts[] = {300 * 1000, 1700 * 1000, 15 * AB_NSEC_PER_MS};
  for (size_t i = 0; i < AB_ARRAY_LEN(timeouts); i++) {
    ab_nsec before = ab_clock_monotonic();
    CHECK_INT(0, ab_poller_wait(poller, timeouts[i]));
    ab_nsec took = ab_clock_monotonic() - before;
    CHECK(took >= timeouts[i]);
    CHECK(took < timeouts[i] + AB_NSEC_PER_SEC);
  }
  ab_poller_fini(poller);
}

CHECK_CASE(wakeup_ends_the_next_wait_once) {
  ab_poller *poller = make();
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 5; i++) ab_poller_wakeup(poller);
    CHECK_INT(0, ab_poller_wait(poller, LONG));
    ab_nsec before = ab_clock_monotonic();
    CHECK_INT(0, ab_poller_wait(poller, SOON));
    CHECK(ab_clock_monotonic() - before >= SOON);
  }
  ab_poller_fini(poller);
}

/* A loop asks, finds nothing, and waits: a wake-up that came before the question must not be lost.
 */
CHECK_CASE(wakeup_before_a_question_ends_the_wait_after_it) {
  ab_poller *poller = make();
  ab_poller_wakeup(poller);
  CHECK_INT(0, ab_poller_wait(poller, 0));
  ab_nsec before = ab_clock_monotonic();
  CHECK_INT(0, ab_poller_wait(poller, LONG));
  CHECK(ab_clock_monotonic() - before < LONG);
  /* Two questions: what was to be seen has been looked at between them. */
  ab_poller_wakeup(poller);
  CHECK_INT(0, ab_poller_wait(poller, 0));
  CHECK_INT(0, ab_poller_wait(poller, 0));
  before = ab_clock_monotonic();
  CHECK_INT(0, ab_poller_wait(poller, SOON));
  CHECK(ab_clock_monotonic() - before >= SOON);
  ab_poller_fini(poller);
}

CHECK_CASE(wakeup_comes_along_with_events) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  ab_poller_wakeup(poller);
  CHECK_INT(1, turn(poller, LONG));
  take(fds[0]);
  ab_poller_wakeup(poller);
  CHECK_INT(0, turn(poller, LONG));
  end(poller, fds);
}

static void *wake_later(void *poller) {
  usleep(10000);
  ab_poller_wakeup(poller);
  return NULL;
}

CHECK_CASE(wakeup_from_another_thread) {
  ab_poller *poller = make();
  /* One less than for ever: the longest time-out there is must be understood as well. */
  static const ab_nsec timeouts[] = {AB_POLL_FOREVER, AB_POLL_FOREVER - 1, LONG};
  for (size_t i = 0; i < AB_ARRAY_LEN(timeouts); i++) {
    pthread_t thread;
    CHECK_INT(0, pthread_create(&thread, NULL, wake_later, poller));
    ab_nsec before = ab_clock_monotonic();
    CHECK_INT(0, ab_poller_wait(poller, timeouts[i]));
    CHECK(ab_clock_monotonic() - before < LONG);
    pthread_join(thread, NULL);
  }
  ab_poller_fini(poller);
}

/* Two threads play ping-pong over wake-ups: one lost ends the game with a time-out. */
enum { ROUNDS = 5000 };

typedef struct game {
  ab_poller *pollers[2];
  _Atomic int ball;
  _Atomic bool lost;
} game;

static void play(game *g, int me) {
  for (int i = 0; i < ROUNDS && !g->lost; i++) {
    while (g->ball % 2 != me && !g->lost) {
      ab_nsec before = ab_clock_monotonic();
      ab_poller_wait(g->pollers[me], LONG);
      if (ab_clock_monotonic() - before >= LONG) g->lost = true;
    }
    g->ball++;
    ab_poller_wakeup(g->pollers[!me]);
  }
}

static void *play_second(void *ctx) {
  play(ctx, 1);
  return NULL;
}

CHECK_CASE(no_wakeup_is_lost) {
  static game g;
  g.pollers[0] = make();
  g.pollers[1] = make();
  pthread_t thread;
  CHECK_INT(0, pthread_create(&thread, NULL, play_second, &g));
  play(&g, 0);
  pthread_join(thread, NULL);
  CHECK(!g.lost);
  CHECK_INT(2 * ROUNDS, g.ball);
  ab_poller_fini(g.pollers[0]);
  ab_poller_fini(g.pollers[1]);
}

static ab_poller *poller_of_handler;
static volatile sig_atomic_t handled;

static void wake_in_handler(int signal AB_UNUSED) {
  handled++;
  if (poller_of_handler) ab_poller_wakeup(poller_of_handler);
}

static void with_alarm(ab_poller *poller) {
  struct sigaction action = {.sa_handler = wake_in_handler, .sa_flags = SA_RESTART}, before;
  struct itimerval timer = {.it_value = {.tv_usec = 10000}};
  poller_of_handler = poller;
  handled = 0;
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &timer, NULL);
}

CHECK_CASE(signals_end_a_wait) {
  ab_poller *poller = make();
  with_alarm(NULL);
  ab_nsec before = ab_clock_monotonic();
  CHECK_INT(0, ab_poller_wait(poller, LONG));
  CHECK_INT(1, handled);
  CHECK(ab_clock_monotonic() - before < LONG);
  ab_poller_fini(poller);
}

/* The signal may come before the wait; then only the wake-up can end it. */
CHECK_CASE(wakeup_from_a_signal_handler) {
  ab_poller *poller = make();
  with_alarm(poller);
  while (!handled) usleep(1000);
  ab_nsec before = ab_clock_monotonic();
  CHECK_INT(0, ab_poller_wait(poller, LONG));
  CHECK(ab_clock_monotonic() - before < LONG);
  poller_of_handler = NULL;
  ab_poller_fini(poller);
}

CHECK_CASE(wakeup_keeps_errno) {
  ab_poller *poller = make();
  errno = ENOTTY;
  ab_poller_wakeup(poller);
  CHECK_INT(ENOTTY, errno);
  ab_poller_fini(poller);
}

/* Its fd is readable for a foreign loop exactly when something is to be collected. */
CHECK_CASE(pollers_nest) {
  ab_poller *inner = make(), *outer = make();
  int fds[2];
  make_pipe(fds);
  probe p = probe_of(fds[0]), nested = probe_of(ab_poller_fd(inner));
  CHECK_INT(AB_OK, set(inner, &p, AB_POLL_IN));
  CHECK_INT(AB_OK, set(outer, &nested, AB_POLL_IN));
  CHECK_INT(0, turn(outer, 0));
  put(fds[1]);
  CHECK_INT(1, turn(outer, LONG));
  CHECK_INT(1, turn(inner, 0));
  take(fds[0]);
  turn(inner, 0);
  CHECK_INT(0, turn(outer, 0));
  ab_poller_wakeup(inner);
  CHECK_INT(1, turn(outer, LONG));
  CHECK_INT(0, turn(inner, 0));
  CHECK_INT(0, turn(outer, 0));
  ab_poller_fini(outer);
  ab_poller_fini(inner);
  close_pair(fds);
}

typedef struct forked {
  ab_poller *poller;
  probe *probe;
} forked;

static void meddle_in_child(void *ctx) {
  forked *f = ctx;
  probe second = *f->probe;
  errno = 0;
  CHECK_INT(AB_ESYS, ab_poller_set(f->poller, &second.watch, AB_POLL_OUT));
  CHECK_INT(EPERM, errno);
  ab_poller_unset(f->poller, &f->probe->watch, false);
  ab_poller_fini(f->poller);
}

CHECK_CASE(a_forked_child_leaves_the_parent_alone) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(0, in_child(meddle_in_child, &(forked){poller, &p}));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN, p.events);
  ab_poller_wakeup(poller);
  CHECK_INT(1, turn(poller, LONG));
  end(poller, fds);
}

static void fini_with_the_lock_held(void *ctx) {
  ab_poller_fini(ctx);
}

CHECK_CASE(a_forked_child_may_end_a_locked_poller) {
  ab_poller *poller = make();
  ab_poller_lock(poller);
  CHECK_INT(0, in_child(fini_with_the_lock_held, poller));
  ab_poller_unlock(poller);
  ab_poller_fini(poller);
}

/* A child that holds copies of our descriptors, until it is told to go by closing `release`. */
static pid_t hold_descriptors(int release[2]) {
  make_pipe(release);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    char byte;
    close(release[1]);
    fcntl(release[0], F_SETFL, 0);
    while (read(release[0], &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }
  close(release[0]);
  return pid;
}

static void release_descriptors(pid_t pid, const int release[2]) {
  close(release[1]);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* The kernel goes on reporting a level-triggered fd that is closed here and open in the child. It
 * must never reach a watch, and must not keep the loop from sleeping for ever. Returns how many
 * turns ended early. */
static int strays_come_to_rest(ab_poller *poller, int bystander) {
  probe p = probe_of(bystander);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  int turns = 0;
  for (; turns < 1000; turns++) {
    ab_nsec before = ab_clock_monotonic();
    CHECK_INT(0, turn(poller, SOON));
    if (ab_clock_monotonic() - before >= SOON) break;
  }
  CHECK(turns < 1000);
  unset(poller, &p, false);
  return turns;
}

CHECK_CASE(a_closed_fd_held_by_a_child_does_not_spin) {
  ab_poller *poller = make();
  int fds[2], quiet[2], once[2], release[2];
  make_pipe(fds);
  make_pipe(quiet);
  make_pipe(once);
  probe p = probe_of(fds[0]), fired = probe_of(once[0]), watched = probe_of(quiet[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &watched, AB_POLL_IN | AB_POLL_EXCLUSIVE));
  CHECK_INT(AB_OK, set(poller, &fired, AB_POLL_IN | AB_POLL_ONESHOT));
  put(once[1]);
  CHECK_INT(1, turn(poller, LONG));
  pid_t pid = hold_descriptors(release);
  put(fds[1]);
  unset(poller, &p, true);
  close(fds[0]);
  int bystander[2];
  make_pipe(bystander);
  strays_come_to_rest(poller, bystander[0]);
  CHECK_INT(0, p.calls);
  /* What was registered before is registered still; a one-shot that has fired stays silent until
   * it is armed; wake-ups arrive. */
  CHECK_INT(1, fired.calls);
  put(quiet[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(1, watched.calls);
  take(quiet[0]);
  CHECK_INT(AB_OK, set(poller, &fired, AB_POLL_IN | AB_POLL_ONESHOT));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(2, fired.calls);
  ab_poller_wakeup(poller);
  ab_nsec before = ab_clock_monotonic();
  CHECK_INT(0, turn(poller, LONG));
  CHECK(ab_clock_monotonic() - before < LONG);
  release_descriptors(pid, release);
  end(poller, quiet);
  close_pair(once);
  close_pair(bystander);
  close(fds[1]);
}

/* A descriptor that two pollers wait for, one of them in a thread: which of them is woken? */
typedef struct exclusive_wait {
  ab_poller *poller;
  int events;
  atomic_int thread; /* the kernel's number for it; 0: it has not begun */
} exclusive_wait;

static void *wait_exclusively(void *arg) {
  exclusive_wait *wait = arg;
  atomic_store(&wait->thread, (int)syscall(SYS_gettid));
  wait->events = ab_poller_wait(wait->poller, LONG);
  return NULL;
}

/* From there on it sleeps nowhere but in the poller. */
static bool waits(exclusive_wait *wait) {
  char path[64], state = 0;
  int thread = atomic_load(&wait->thread);
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  FILE *file = thread ? fopen(path, "r") : NULL;
  if (!file) return false;
  CHECK_INT(1, fscanf(file, "%*d (%*[^)]) %c", &state));
  fclose(file);
  return state == 'S';
}

CHECK_CASE(of_exclusive_waits_the_first_is_woken) {
  int fds[2];
  ab_poller *first = make_with_pipe(fds), *second = make();
  if (!(ab_poller_native(first) & AB_POLL_EXCLUSIVE)) {
    end(first, fds);
    ab_poller_fini(second);
    CHECK_LEAVE_OUT("this back end wakes all");
  }
  probe p = probe_of(fds[0]), q = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(first, &p, AB_POLL_IN | AB_POLL_EXCLUSIVE));
  CHECK_INT(AB_OK, set(second, &q, AB_POLL_IN | AB_POLL_EXCLUSIVE));
  /* Renewed, it is the last one. */
  CHECK_INT(AB_OK, set(first, &p, AB_POLL_IN | AB_POLL_EXCLUSIVE));
  exclusive_wait both[] = {{.poller = first}, {.poller = second}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    CHECK_INT(0, pthread_create(&threads[i], NULL, wait_exclusively, &both[i]));
    while (!waits(&both[i])) sched_yield();
  }
  put(fds[1]);
  pthread_join(threads[1], NULL);
  CHECK_INT(1, both[1].events);
  CHECK(waits(&both[0]));
  take(fds[0]);
  ab_poller_wakeup(first);
  pthread_join(threads[0], NULL);
  CHECK_INT(0, both[0].events);
  unset(first, &p, false);
  unset(second, &q, false);
  end(first, fds);
  ab_poller_fini(second);
}

CHECK_CASE(an_exclusive_registration_changes) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  const uint32_t ways[] = {AB_POLL_IN, AB_POLL_IN | AB_POLL_EXCLUSIVE,
                           AB_POLL_IN | AB_POLL_EXCLUSIVE | AB_POLL_EDGE, AB_POLL_IN};
  for (int i = 0; i < 4; i++) {
    CHECK_INT(AB_OK, set(poller, &p, ways[i]));
    put(fds[1]);
    CHECK_INT(1, turn(poller, LONG));
    CHECK_INT(i + 1, p.calls);
    take(fds[0]);
  }
  unset(poller, &p, false);
  end(poller, fds);
}

/* It was to be closed and is not: here the registration can be removed at once. */
CHECK_CASE(a_closed_fd_that_is_still_open_does_not_spin) {
  ab_poller *poller = make();
  int fds[2], bystander[2];
  make_pipe(fds);
  make_pipe(bystander);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  unset(poller, &p, true);
  CHECK_INT(1, strays_come_to_rest(poller, bystander[0]));
  CHECK_INT(0, p.calls);
  end(poller, fds);
  close_pair(bystander);
}

CHECK_CASE(init_survives_a_failing_allocator) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(ab_poller_init(&mem.mem) == NULL);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(growth_survives_a_failing_allocator) {
  check_mem mem;
  check_mem_init(&mem, 2);
  ab_poller *poller = ab_poller_init(&mem.mem);
  CHECK(poller != NULL);
  int fds[2];
  make_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_ENOMEM, set(poller, &p, AB_POLL_IN));
  CHECK_INT(0, p.watch.events);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));

  /* The same when the table is there but too small. */
  int high = fcntl(fds[0], F_DUPFD_CLOEXEC, 900);
  CHECK(high >= 900);
  probe q = probe_of(high);
  mem.fail_at = mem.calls + 1;
  CHECK_INT(AB_ENOMEM, set(poller, &q, AB_POLL_IN));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN));
  CHECK_INT(2, turn(poller, LONG));
  ab_poller_fini(poller);
  CHECK_INT(0, mem.live);
  close_pair(fds);
  close(high);
}

static void init_without_descriptors(void *ctx AB_UNUSED) {
  /* It needs two at least: what it got before it failed must be given back. */
  for (rlim_t left = 0; left < 2; left++) {
    int lowest = dup(0);
    close(lowest);
    limit_descriptors((rlim_t)lowest + left);
    check_mem mem;
    check_mem_init(&mem, 0);
    CHECK(ab_poller_init(&mem.mem) == NULL);
    CHECK_INT(0, mem.live);
    int again = dup(0);
    CHECK_INT(left ? lowest : -1, again);
    if (again >= 0) close(again);
    limit_descriptors(RLIM_INFINITY);
  }
}

CHECK_CASE(init_survives_the_want_of_descriptors) {
  CHECK_INT(0, in_child(init_without_descriptors, NULL));
}

/* Who stands in for the owner dispatches so. */
static int stand_in(ab_poller *poller) {
  ab_poller_collect(poller);
  ab_poller_lock(poller);
  int err = ab_poller_dispatch_roaming(poller);
  ab_poller_unlock(poller);
  return err;
}

CHECK_CASE(who_stands_in_delivers_to_those_that_roam) {
  ab_poller *poller = make();
  int own[2], roaming[2];
  make_pipe(own);
  make_pipe(roaming);
  probe p = probe_of(own[0]), q = probe_of(roaming[0]);
  q.watch.roams = true;
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_EDGE));
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN | AB_POLL_EDGE));
  put(own[1]);
  put(roaming[1]);
  CHECK_INT(AB_OK, stand_in(poller));
  put(own[1]); /* a second edge of the same */
  CHECK_INT(AB_OK, stand_in(poller));
  CHECK_INT(0, p.calls);
  CHECK_INT(1, q.calls);
  /* The owner does not wait, and gets it once. */
  CHECK_INT(1, ab_poller_wait(poller, LONG));
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(1, p.calls);
  CHECK_INT(AB_POLL_IN, p.events);
  CHECK_INT(0, turn(poller, 0));
  unset(poller, &p, false);
  unset(poller, &q, false);
  close_pair(own);
  close_pair(roaming);
  ab_poller_fini(poller);
}

CHECK_CASE(a_kept_event_dies_with_its_registration) {
  ab_poller *poller = make();
  int fds[2], other[2];
  make_pipe(fds);
  make_pipe(other);
  probe p = probe_of(fds[0]), q = probe_of(other[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_EDGE));
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN | AB_POLL_EDGE));
  put(fds[1]);
  put(other[1]);
  CHECK_INT(AB_OK, stand_in(poller));
  unset(poller, &p, true);
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(0, p.calls);
  /* A new registration looks anew, so that there is nothing to be kept of the old one. */
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_EDGE));
  CHECK_INT(AB_OK, stand_in(poller));
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_RDHUP | AB_POLL_EDGE));
  CHECK_INT(AB_OK, stand_in(poller));
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(1, p.calls);
  unset(poller, &p, false);
  unset(poller, &q, false);
  close_pair(fds);
  close_pair(other);
  ab_poller_fini(poller);
}

CHECK_CASE(keeping_survives_a_failing_allocator) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_poller *poller = ab_poller_init(&mem.mem);
  int fds[2];
  make_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN | AB_POLL_EDGE));
  put(fds[1]);
  mem.fail_at = mem.calls + 1;
  CHECK_INT(AB_ENOMEM, stand_in(poller));
  CHECK_INT(0, p.calls);
  CHECK_INT(1, turn(poller, LONG)); /* it has stayed where it was */
  CHECK_INT(1, p.calls);
  unset(poller, &p, false);
  close_pair(fds);
  ab_poller_fini(poller);
  CHECK_INT(0, mem.live);
}

CHECK_CASE(a_wakeup_stays_for_the_owner) {
  ab_poller *poller = make();
  ab_poller_wakeup(poller);
  CHECK_INT(AB_OK, stand_in(poller));
  CHECK_INT(AB_OK, stand_in(poller));
  ab_nsec start = ab_clock_monotonic();
  CHECK_INT(0, turn(poller, 0)); /* the owner asks first */
  CHECK_INT(0, turn(poller, LONG));
  ab_poller_wakeup(poller);
  CHECK_INT(AB_OK, stand_in(poller));
  CHECK_INT(0, turn(poller, LONG)); /* or waits at once */
  CHECK(ab_clock_monotonic() - start < LONG / 2);
  CHECK_INT(0, turn(poller, SOON)); /* once */
  CHECK(ab_clock_monotonic() - start >= SOON);
  ab_poller_fini(poller);
}

CHECK_CASE(the_last_holder_ends_it) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  ab_poller_hold(poller);
  ab_poller_fini(poller);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  unset(poller, &p, false);
  close_pair(fds);
  ab_poller_fini(poller);
}

CHECK_CASE(its_descriptor_is_close_on_exec) {
  ab_poller *poller = make();
  CHECK(fcntl(ab_poller_fd(poller), F_GETFD) & FD_CLOEXEC);
  ab_poller_fini(poller);
  ab_poller_fini(NULL);
}

CHECK_MAIN()
