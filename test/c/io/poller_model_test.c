/* Two pollers watch the same descriptors: this system's own, and the one over poll(2). Over a
 * thousand pipes and pairs are written, read, closed and registered at random, always in the same
 * way, and both are to report what the model says: what is ready, and of edges those that are new
 * since the descriptor was exhausted. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "io/poller_backend.h"
#include "random.h"

#define POLLERS 2
#define COUNT   1500
#define ROUNDS  400
#define CHANGES 500 /* in a round, each of one place */
/* Turns that a round needs: a batch holds less than all. */
#define TURNS (COUNT / AB_POLLER_BATCH + 1)

/* A descriptor, and what is known of it. */
typedef struct place {
  ab_watch watches[POLLERS];
  uint32_t reports[POLLERS]; /* of this round, */
  unsigned calls[POLLERS];   /* ... by so many calls */
  uint32_t events;           /* what is registered with both; 0: nothing */
  int fds[2];                /* watched, and its other end; -1: the place is empty */
  bool pair;                 /* not a pipe */
  bool other_closed;
  bool input;    /* there is some */
  bool silent;   /* an edge was reported, and nothing has been read since */
  bool disarmed; /* a one-shot that has been */
} place;

typedef struct world {
  ab_poller *pollers[POLLERS];
  place places[COUNT];
  uint64_t random, reports;
} world;

static void report(world *world, const ab_watch *watch, int which, uint32_t events);
static world *the_world;

static void first_ready(ab_watch *watch, uint32_t events) {
  report(the_world, watch, 0, events);
}

static void second_ready(ab_watch *watch, uint32_t events) {
  report(the_world, watch, 1, events);
}

static void report(world *world, const ab_watch *watch, int which, uint32_t events) {
  const char *first = (const char *)&world->places[0].watches[which];
  place *place = &world->places[(size_t)((const char *)watch - first) / sizeof *place];
  place->reports[which] |= events;
  place->calls[which]++;
  world->reports++;
}

static size_t below(world *world, size_t bound) {
  return random_below(&world->random, bound);
}

/* --- changes --- */

static void open_place(world *world, place *place) {
  bool pair = below(world, 2);
  int made = pair ? socketpair(AF_UNIX, SOCK_STREAM, 0, place->fds) : pipe(place->fds);
  if (made != 0) abort();
  for (int i = 0; i < 2; i++) fcntl(place->fds[i], F_SETFL, O_NONBLOCK);
  int fd = place->fds[0];
  *place = (struct place){.fds = {fd, place->fds[1]}, .pair = pair};
  place->watches[0] = (ab_watch){.ready = first_ready, .fd = fd};
  place->watches[1] = (ab_watch){.ready = second_ready, .fd = fd};
}

static void register_place(world *world, place *place) {
  static const uint32_t interests[] = {
      AB_POLL_IN,
      AB_POLL_IN | AB_POLL_RDHUP,
      AB_POLL_OUT,
      AB_POLL_IN | AB_POLL_OUT,
      AB_POLL_IN | AB_POLL_ONESHOT,
      AB_POLL_IN | AB_POLL_EDGE,
  };
  uint32_t events = interests[below(world, AB_ARRAY_LEN(interests))];
  if (!place->pair) events &= ~(AB_POLL_OUT | AB_POLL_RDHUP); /* it is not written, here */
  place->events = events & AB_POLL_IN || place->pair ? events : AB_POLL_IN;
  place->silent = place->disarmed = false;
  for (int i = 0; i < POLLERS; i++)
    CHECK_INT(AB_OK, ab_poller_set(world->pollers[i], &place->watches[i], place->events));
}

static void unregister_place(world *world, place *place, bool closed) {
  place->events = 0;
  for (int i = 0; i < POLLERS; i++) ab_poller_unset(world->pollers[i], &place->watches[i], closed);
}

static void close_place(world *world, place *place) {
  unregister_place(world, place, below(world, 2));
  close(place->fds[0]);
  if (!place->other_closed) close(place->fds[1]);
  place->fds[0] = -1;
}

static void write_to(place *place) {
  if (place->other_closed) return;
  CHECK_INT(1, write(place->fds[1], "x", 1));
  place->input = true;
}

static void read_all(const world *world, place *place) {
  char bytes[256];
  while (read(place->fds[0], bytes, sizeof bytes) == sizeof bytes) continue;
  place->input = false;
  /* An end is not exhausted. */
  if (place->other_closed) return;
  place->silent = false;
  for (int i = 0; i < POLLERS; i++)
    ab_poller_exhausted(world->pollers[i], &place->watches[i], AB_POLL_IN);
}

/* Edges of input that nobody has read differ between the two: then it is read first. */
static void close_other(const world *world, place *place) {
  if (place->other_closed) return;
  if (place->events & AB_POLL_EDGE) read_all(world, place);
  close(place->fds[1]);
  place->other_closed = true;
}

static void change(world *world) {
  place *place = &world->places[below(world, COUNT)];
  if (place->fds[0] < 0) {
    open_place(world, place);
    return;
  }
  switch (below(world, 12)) {
  case 0:
    close_place(world, place);
    break;
  case 1:
    close_other(world, place);
    break;
  case 2:
    unregister_place(world, place, false);
    break;
  case 3:
  case 4:
  case 5:
    register_place(world, place);
    break;
  case 6:
  case 7:
    read_all(world, place);
    break;
  default:
    if (!place->silent) write_to(place);
  }
}

/* --- what they report --- */

static uint32_t readiness(const place *place) {
  uint32_t events = 0;
  if (place->input || (place->pair && place->other_closed)) events |= AB_POLL_IN;
  if (place->pair) events |= AB_POLL_OUT;
  if (place->pair && place->other_closed) events |= AB_POLL_RDHUP;
  events &= place->events;
  return events | (place->other_closed ? AB_POLL_HUP : 0);
}

static uint32_t expected(place *place) {
  if (place->fds[0] < 0 || !place->events || place->silent || place->disarmed) return 0;
  uint32_t events = readiness(place);
  if (events) {
    place->silent = place->events & AB_POLL_EDGE;
    place->disarmed = place->events & AB_POLL_ONESHOT;
  }
  return events;
}

static void compare(world *world) {
  for (int i = 0; i < COUNT; i++) {
    place *place = &world->places[i];
    uint32_t events = expected(place);
    for (int which = 0; which < POLLERS; which++) {
      bool once = place->events & (AB_POLL_EDGE | AB_POLL_ONESHOT);
      CHECK_INT(events, place->reports[which]);
      CHECK(place->calls[which] <= (once ? 1 : TURNS));
      place->reports[which] = place->calls[which] = 0;
    }
  }
}

static void collect(world *world) {
  for (int i = 0; i < TURNS * POLLERS; i++) {
    ab_poller_wait(world->pollers[i % POLLERS], 0);
    ab_poller_dispatch(world->pollers[i % POLLERS]);
  }
}

CHECK_CASE(both_report_the_same) {
  static world world = {.random = 20261128};
  the_world = &world;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  ab_poller *usual = world.pollers[0] = ab_poller_init(&ab_mem_libc);
  world.pollers[1] = ab__poller_init_with(&ab_mem_libc, &ab__poller_poll);
  for (int i = 0; i < COUNT; i++) world.places[i].fds[0] = -1;
  for (int round = 0; round < ROUNDS && check_failures == 0; round++) {
    for (int i = 0; i < CHANGES; i++) change(&world);
    collect(&world);
    compare(&world);
  }
  CHECK(world.reports > ROUNDS);
  for (int i = 0; i < COUNT; i++)
    if (world.places[i].fds[0] >= 0) close_place(&world, &world.places[i]);
  ab_poller_fini(usual);
  ab_poller_fini(world.pollers[1]);
}

CHECK_MAIN()
