/* The behaviour of a poller over poll(2), whatever this system has: what any back end does, and
 * what is this one's alone. */
#include <poll.h>

#include "io/poller_backend.h"

#define ab_poller_init(mem) ab__poller_init_with(mem, &ab__poller_poll)
#include "io/poller_test.c"

#define IN_EDGES (AB_POLL_IN | AB_POLL_EDGE)

static void exhaust(ab_poller *poller, probe *p, uint32_t events) {
  ab_poller_lock(poller);
  ab_poller_exhausted(poller, &p->watch, events);
  ab_poller_unlock(poller);
}

/* Nothing happens for so long, and the thread sleeps meanwhile. */
static bool is_quiet(ab_poller *poller, ab_nsec time) {
  ab_nsec before = ab_clock_monotonic();
  return turn(poller, time) == 0 && ab_clock_monotonic() - before >= time;
}

CHECK_CASE(an_edge_is_told_once_until_it_is_exhausted) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  put(fds[1]);
  CHECK(is_quiet(poller, SOON));
  take(fds[0]);
  take(fds[0]);
  exhaust(poller, &p, AB_POLL_IN);
  CHECK(is_quiet(poller, SOON));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(2, p.calls);
  end(poller, fds);
}

/* Between the read that found nothing and the word of it. */
CHECK_CASE(an_edge_behind_the_last_read_is_not_lost) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  take(fds[0]);
  put(fds[1]);
  exhaust(poller, &p, AB_POLL_IN);
  CHECK_INT(1, turn(poller, 0));
  exhaust(poller, &p, AB_POLL_OUT); /* it is not about what is silent */
  CHECK_INT(0, turn(poller, 0));
  end(poller, fds);
}

CHECK_CASE(each_direction_has_edges_of_its_own) {
  ab_poller *poller = make();
  int fds[2];
  make_pair(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES | AB_POLL_OUT));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_OUT, p.events);
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN, p.events);
  exhaust(poller, &p, AB_POLL_OUT);
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(AB_POLL_OUT, p.events);
  exhaust(poller, &p, AB_POLL_IN);
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(AB_POLL_IN, p.events);
  end(poller, fds);
}

/* Unread input is told of again now and then; room for output is not. */
CHECK_CASE(what_stays_ready_does_not_spin) {
  ab_poller *poller = make();
  int in[2], out[2];
  make_pair(in);
  make_pair(out);
  probe p = probe_of(in[0]), q = probe_of(out[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES | AB_POLL_OUT));
  CHECK_INT(AB_OK, set(poller, &q, IN_EDGES | AB_POLL_OUT));
  put(in[1]);
  CHECK_INT(2, turn(poller, LONG));
  ab_nsec before = ab_clock_monotonic();
  for (int i = 0; i < 3; i++) CHECK_INT(1, turn(poller, LONG));
  CHECK(ab_clock_monotonic() - before >= 3 * 5 * SOON);
  CHECK_INT(4, p.calls);
  CHECK_INT(AB_POLL_IN, p.events);
  CHECK_INT(1, q.calls);
  close_pair(out);
  end(poller, in);
}

/* It was read without a word: a look finds that, and the next edge comes at once. */
CHECK_CASE(input_that_somebody_else_has_read_is_forgotten) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  take(fds[0]);
  CHECK(is_quiet(poller, 6 * SOON));
  put(fds[1]);
  CHECK_INT(1, turn(poller, 0));
  end(poller, fds);
}

CHECK_CASE(a_hang_up_is_told_once) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  close(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK(p.events & AB_POLL_HUP);
  CHECK(is_quiet(poller, 6 * SOON));
  exhaust(poller, &p, AB_POLL_IN);
  CHECK_INT(1, turn(poller, 0));
  CHECK(p.events & AB_POLL_HUP);
  ab_poller_fini(poller);
  close(fds[0]);
}

/* Input of a watch that waits for the end behind it must not keep the loop awake. */
CHECK_CASE(an_end_behind_input_is_found_when_that_is_read) {
  ab_poller *poller = make();
  int fds[2];
  make_pair(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_RDHUP));
  put(fds[1]);
  CHECK(is_quiet(poller, 6 * SOON));
  take(fds[0]);
  CHECK_INT(0, shutdown(fds[1], SHUT_WR));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_RDHUP, p.events);
  end(poller, fds);
}

CHECK_CASE(an_end_is_an_edge_behind_the_last_bytes) {
  ab_poller *poller = make();
  int fds[2];
  make_pair(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES | AB_POLL_RDHUP));
  put(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN, p.events);
  take(fds[0]);
  exhaust(poller, &p, AB_POLL_IN);
  CHECK_INT(0, shutdown(fds[1], SHUT_WR));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(AB_POLL_IN | AB_POLL_RDHUP, p.events);
  CHECK(is_quiet(poller, 6 * SOON));
  end(poller, fds);
}

CHECK_CASE(a_number_that_was_closed_without_a_word_is_dropped) {
  int fds[2], others[2];
  ab_poller *poller = make_with_pipe(fds);
  make_pipe(others);
  probe p = probe_of(fds[0]), q = probe_of(others[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN));
  close_pair(fds);
  CHECK(is_quiet(poller, SOON));
  put(others[1]);
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, p.calls);
  /* Its number is another file's, and registered. */
  make_pipe(fds);
  CHECK_INT(p.watch.fd, fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  put(fds[1]);
  CHECK_INT(2, turn(poller, LONG));
  CHECK_INT(1, p.calls);
  close_pair(others);
  end(poller, fds);
}

/* Hung up, told, and closed: it is not polled, so nothing finds out that the number is gone. */
CHECK_CASE(what_is_closed_at_rest_is_forgotten) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  close(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  unset(poller, &p, true);
  close(fds[0]);
  CHECK(poller->ops->unset(poller, p.watch.fd) == AB_OK); /* it is still there, */
  make_pipe(fds);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  close(fds[1]);
  CHECK_INT(1, turn(poller, LONG));
  unset(poller, &p, true);
  close(fds[0]);
  CHECK_INT(0, turn(poller, 0));
  CHECK(poller->ops->unset(poller, p.watch.fd) != AB_OK); /* ... but for one look */
  ab_poller_fini(poller);
}

/* --- changes during a wait --- */

static bool has_news(ab_poller *poller, int timeout_ms) {
  struct pollfd pollfd = {.fd = ab_poller_fd(poller), .events = POLLIN};
  return poll(&pollfd, 1, timeout_ms) == 1;
}

static pthread_t wait_in_thread(exclusive_wait *wait) {
  pthread_t thread;
  CHECK_INT(0, pthread_create(&thread, NULL, wait_exclusively, wait));
  while (!waits(wait)) sched_yield();
  return thread;
}

CHECK_CASE(what_is_set_during_a_wait_takes_part_in_it) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  exclusive_wait wait = {.poller = poller};
  pthread_t thread = wait_in_thread(&wait);
  put(fds[1]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  pthread_join(thread, NULL);
  CHECK_INT(1, wait.events);
  CHECK_INT(1, turn(poller, 0));
  end(poller, fds);
}

CHECK_CASE(what_is_unset_during_a_wait_does_not_end_it) {
  int fds[2], others[2];
  ab_poller *poller = make_with_pipe(fds);
  make_pipe(others);
  probe p = probe_of(fds[0]), q = probe_of(others[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK_INT(AB_OK, set(poller, &q, IN_EDGES));
  put(others[1]);
  CHECK_INT(1, turn(poller, LONG));
  exclusive_wait wait = {.poller = poller};
  pthread_t thread = wait_in_thread(&wait);
  unset(poller, &p, false);
  put(fds[1]);
  usleep(10000);
  CHECK(waits(&wait));
  /* What a reader exhausts meanwhile is listened to again. */
  take(others[0]);
  exhaust(poller, &q, AB_POLL_IN);
  put(others[1]);
  pthread_join(thread, NULL);
  CHECK_INT(1, wait.events);
  CHECK_INT(1, turn(poller, 0));
  CHECK_INT(0, p.calls);
  CHECK_INT(2, q.calls);
  close_pair(others);
  end(poller, fds);
}

/* A file that is polled is kept open. Its peer is to hear of the end while the owner waits, and
 * while the lookout does, or did. */
static bool hears_of_end(ab_poller *poller, probe *p, int other) {
  struct pollfd pollfd = {.fd = other, .events = POLLIN};
  ab_poller_lock(poller);
  ab_poller_unset(poller, &p->watch, true);
  close(p->watch.fd);
  ab_poller_unlock(poller);
  return poll(&pollfd, 1, 20000) == 1;
}

CHECK_CASE(a_wait_keeps_nothing_open) {
  ab_poller *poller = make();
  int pairs[3][2];
  probe probes[3];
  for (int i = 0; i < 3; i++) {
    make_pair(pairs[i]);
    probes[i] = probe_of(pairs[i][0]);
    CHECK_INT(AB_OK, set(poller, &probes[i], IN_EDGES));
  }
  CHECK(!has_news(poller, 10));
  CHECK(hears_of_end(poller, &probes[0], pairs[0][1]));
  exclusive_wait wait = {.poller = poller};
  pthread_t thread = wait_in_thread(&wait);
  CHECK(hears_of_end(poller, &probes[1], pairs[1][1]));
  while (!waits(&wait)) sched_yield();
  CHECK(hears_of_end(poller, &probes[2], pairs[2][1]));
  ab_poller_wakeup(poller);
  pthread_join(thread, NULL);
  CHECK_INT(0, wait.events);
  for (int i = 0; i < 3; i++) close(pairs[i][1]);
  ab_poller_fini(poller);
}

/* --- more than a batch --- */

CHECK_CASE(nobody_waits_behind_those_that_are_always_ready) {
  enum { COUNT = AB_POLLER_BATCH + 50 };
  static probe probes[COUNT];
  static int fds[COUNT][2];
  ab_poller *poller = make();
  for (int i = 0; i < COUNT; i++) {
    make_pipe(fds[i]);
    probes[i] = probe_of(fds[i][0]);
    CHECK_INT(AB_OK, set(poller, &probes[i], AB_POLL_IN));
    put(fds[i][1]);
  }
  CHECK_INT(AB_POLLER_BATCH, turn(poller, 0));
  CHECK_INT(AB_POLLER_BATCH, turn(poller, 0));
  for (int i = 0; i < COUNT; i++) {
    CHECK(probes[i].calls > 0);
    close_pair(fds[i]);
  }
  ab_poller_fini(poller);
}

/* --- memory --- */

/* Registers more than the first tables hold. Returns false as soon as an allocation has failed. */
static bool registers_many(check_mem *mem) {
  enum { COUNT = 150 };
  static probe probes[COUNT];
  int fds[2];
  make_pipe(fds);
  put(fds[1]);
  ab_poller *poller = ab_poller_init(&mem->mem);
  int registered = 0, tried = 0;
  bool well = poller != NULL;
  while (well && tried < COUNT) {
    int fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    probes[tried] = probe_of(fd);
    int err = set(poller, &probes[tried], AB_POLL_IN);
    well = err == AB_OK;
    CHECK_INT(well ? AB_OK : AB_ENOMEM, err);
    CHECK_INT(well ? AB_POLL_IN : 0, probes[tried++].watch.events);
    registered += well;
  }
  /* What was registered before is served. */
  if (poller) CHECK_INT(registered, turn(poller, 0));
  for (int i = 0; i < tried; i++) close(probes[i].watch.fd);
  ab_poller_fini(poller);
  CHECK_INT(0, mem->live);
  close_pair(fds);
  return well;
}

CHECK_CASE(each_allocation_may_fail) {
  size_t fail_at = 0;
  check_mem mem;
  do check_mem_init(&mem, ++fail_at);
  while (!registers_many(&mem));
  CHECK(fail_at > 8);
  CHECK_INT(fail_at - 1, mem.calls);
}

/* --- for a foreign loop --- */

CHECK_CASE(its_descriptor_hears_of_changes) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK(!has_news(poller, 10));
  put(fds[1]);
  CHECK_INT(AB_OK, set(poller, &p, IN_EDGES));
  CHECK(has_news(poller, 20000));
  CHECK_INT(1, turn(poller, 0));
  CHECK(!has_news(poller, 10)); /* the edge is silent */
  exhaust(poller, &p, AB_POLL_IN);
  CHECK(has_news(poller, 20000));
  CHECK_INT(1, turn(poller, 0));
  unset(poller, &p, false);
  CHECK(!has_news(poller, 10));
  end(poller, fds);
}

/* A wait needs no help: until it is asked for again, the descriptor says nothing. */
CHECK_CASE(its_descriptor_rests_after_a_wait) {
  int fds[2];
  ab_poller *poller = make_with_pipe(fds);
  probe p = probe_of(fds[0]);
  CHECK_INT(AB_OK, set(poller, &p, AB_POLL_IN));
  CHECK(!has_news(poller, 10));
  CHECK_INT(0, turn(poller, SOON));
  put(fds[1]);
  struct pollfd pollfd = {.fd = poller->fd, .events = POLLIN};
  CHECK_INT(0, poll(&pollfd, 1, 10));
  CHECK(has_news(poller, 20000));
  CHECK_INT(1, turn(poller, LONG));
  CHECK_INT(0, poll(&pollfd, 1, 10));
  take(fds[0]);
  /* What has been registered since the lookout looked last is looked at. */
  CHECK(!has_news(poller, 10));
  CHECK_INT(0, turn(poller, SOON));
  int others[2];
  make_pipe(others);
  put(others[1]);
  probe q = probe_of(others[0]);
  CHECK_INT(AB_OK, set(poller, &q, AB_POLL_IN));
  CHECK(has_news(poller, 20000));
  CHECK_INT(1, turn(poller, 0));
  close_pair(others);
  end(poller, fds);
}

CHECK_CASE(its_descriptor_does_without_memory) {
  check_mem mem;
  check_mem_init(&mem, 0);
  ab_poller *poller = ab_poller_init(&mem.mem);
  mem.fail_at = mem.calls + 1;
  CHECK(has_news(poller, 20000)); /* whoever asks finds that there is nothing */
  CHECK_INT(0, turn(poller, 0));
  CHECK(!has_news(poller, 10));
  ab_poller_fini(poller);
  CHECK_INT(0, mem.live);
}

/* A stand-in asks for it when a loop is away, which may be just then. */
CHECK_CASE(its_descriptor_does_without_another) {
  ab_poller *poller = make();
  struct rlimit before;
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &before));
  int next = dup(poller->fd);
  close(next);
  const struct rlimit used_up = {(rlim_t)next, before.rlim_max};
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &used_up));
  CHECK_INT(-1, dup(poller->fd));
  CHECK_INT(poller->fd, ab_poller_fd(poller));
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &before));
  ab_poller_wakeup(poller);
  CHECK(has_news(poller, 20000));
  ab_poller_fini(poller);
}

static void fini_in_child(void *ctx) {
  ab_poller_fini(ctx);
}

CHECK_CASE(a_forked_child_has_no_lookout) {
  ab_poller *poller = make();
  CHECK(!has_news(poller, 0));
  CHECK_INT(0, in_child(fini_in_child, poller));
  ab_poller_wakeup(poller);
  CHECK(has_news(poller, 20000));
  ab_poller_fini(poller);
}
