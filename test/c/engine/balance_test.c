/* A worker among its siblings: which connections it leaves to them. The siblings are slots of a
 * page that the test writes. */
#include "engine/balance.h"
#include "engine/fixture.h"
#include "engine/turns.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

typedef struct worker {
  fixture fx;
  ab_page *page;
  ab_page_slot *sibling;
  uint16_t port;
} worker;

/* The sibling is there, and has turned just now. */
static void sibling_serves(worker *self, bool shut) {
  self->sibling->figures.turned = self->fx.now;
  self->sibling->figures.shut = shut;
  ab_page_set_state(self->page, 2, AB_PAGE_SERVING);
}

static void worker_init(worker *self) {
  self->page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 3}, (ab_page_time){1, 1});
  self->sibling = ab_page_slot_of(self->page, 2);
  fixture_prepare(&self->fx);
  self->fx.stats = &ab_page_slot_of(self->page, 0)->figures;
  CHECK(fixture_start(&self->fx));
  const ab_siblings siblings = {.page = self->page, .own = 0};
  CHECK_INT(AB_OK, ab_engine_join(self->fx.engine, &siblings));
  self->port = fixture_listen(&self->fx);
  sibling_serves(self, false);
  fixture_run(&self->fx);
}

static void worker_fini(worker *self) {
  fixture_fini(&self->fx);
  ab_page_drop(self->page);
}

static int client(worker *self) {
  int fd = client_tcp(self->port);
  client_send(fd, GET("/a"));
  return fd;
}

static uint64_t accepted(worker *self) {
  return stats_of(&self->fx).accepted;
}

/* So many looks of one that is shut. */
static void looks(worker *self, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    self->fx.now += AB_LOOK;
    self->sibling->figures.turned = self->fx.now;
    fixture_run(&self->fx);
  }
}

CHECK_CASE(a_worker_with_room_accepts) {
  worker one;
  worker_init(&one);
  int clients[20];
  for (int i = 0; i < 20; i++) clients[i] = client(&one);
  fixture_turn(&one.fx);
  CHECK_INT(AB_SHARE_ACCEPTS, accepted(&one));
  fixture_run(&one.fx);
  CHECK_INT(20, accepted(&one));
  CHECK_INT(0, one.fx.stats->shut);
  for (int i = 0; i < 20; i++) {
    CHECK(strstr(client_read(clients[i], NULL), "200 OK"));
    close(clients[i]);
  }
  worker_fini(&one);
}

/* Its siblings had the time to take them, and their requests are older than what comes later. */
CHECK_CASE(a_worker_accepts_in_a_long_turn) {
  enum { CLIENTS = 2 * AB_SHARE_ACCEPTS + 2 };
  worker one;
  worker_init(&one);
  int clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) clients[i] = client(&one);
  ab_engine_begin_turn(one.fx.engine, one.fx.now);
  for (int i = 1; i < 6; i++) {
    ab_engine_go_on(one.fx.engine, one.fx.now + i * AB_LOOK / 2);
    ab_engine_step(one.fx.engine);
    take_events(&one.fx);
    ab_engine_end_step(one.fx.engine);
    CHECK_INT(i == 1 ? 0 : i < 4 ? (i - 1) * AB_SHARE_ACCEPTS : CLIENTS, accepted(&one));
  }
  for (int i = 0; i < CLIENTS; i++) close(clients[i]);
  one.fx.now += 3 * AB_LOOK;
  fixture_run(&one.fx);
  worker_fini(&one);
}

CHECK_CASE(a_full_worker_leaves_connections_to_siblings) {
  worker one;
  worker_init(&one);
  ab_engine_pause(one.fx.engine, true);
  CHECK_INT(1, one.fx.stats->shut);
  int fd = client(&one);
  looks(&one, 10);
  CHECK_INT(0, accepted(&one));
  ab_engine_pause(one.fx.engine, false);
  CHECK_INT(0, one.fx.stats->shut);
  fixture_run(&one.fx);
  CHECK_INT(1, accepted(&one));
  CHECK_INT(0, ab_engine_deadline(one.fx.engine) < one.fx.now + AB_NSEC_PER_SEC);
  close(fd);
  worker_fini(&one);
}

/* One that is full as well, stands still or does not serve has no room; nor has the worker itself.
 */
CHECK_CASE(a_full_worker_without_siblings_that_have_room) {
  for (int way = 0; way < 4; way++) {
    worker one;
    worker_init(&one);
    if (way == 0) sibling_serves(&one, true);
    if (way == 1) one.sibling->figures.turned -= 3 * AB_NSEC_PER_SEC;
    if (way == 2) ab_page_set_state(one.page, 2, AB_PAGE_DRAINING);
    if (way == 3) ab_page_set_state(one.page, 2, AB_PAGE_BOOTING);
    ab_page_set_state(one.page, 0, AB_PAGE_SERVING);
    ab_engine_pause(one.fx.engine, true);
    int fd = client(&one);
    fixture_run(&one.fx);
    CHECK_INT(0, accepted(&one));
    one.fx.now += AB_LOOK;
    fixture_run(&one.fx);
    CHECK_INT(1, accepted(&one));
    close(fd);
    worker_fini(&one);
  }
}

/* Where no connection moves, none is offered from time to time: no turn is due for that. */
CHECK_CASE(a_worker_that_hands_over_where_no_connection_moves) {
  worker one;
  worker_init(&one);
  one.fx.hold = true;
  int fd = client(&one);
  fixture_run(&one.fx);
  CHECK_INT(1, one.fx.held_count);
  ab_engine_hand_over(one.fx.engine);
  ab_engine_drain(one.fx.engine, one.fx.now);
  one.fx.now += 2 * AB_LOOK;
  fixture_run(&one.fx);
  ab_nsec due = ab_engine_deadline(one.fx.engine);
  CHECK(due == 0 || due > one.fx.now);
  answer_held(&one.fx, 0, "here");
  fixture_run(&one.fx);
  close(fd);
  worker_fini(&one);
}

/* It may say that it has room, and never come. */
CHECK_CASE(a_sibling_is_not_trusted_for_ever) {
  worker one;
  worker_init(&one);
  ab_engine_pause(one.fx.engine, true);
  int fd = client(&one);
  looks(&one, 110);
  CHECK_INT(1, accepted(&one));
  close(fd);
  worker_fini(&one);
}

/* The standby turns the engine: whatever leads is away. */
CHECK_CASE(a_stalled_worker_leaves_connections_to_siblings) {
  worker one;
  worker_init(&one);
  ab_engine_turns.turn(one.fx.engine, one.fx.now);
  CHECK_INT(1, one.fx.stats->shut);
  int fd = client(&one);
  fixture_run(&one.fx);
  CHECK_INT(0, accepted(&one));
  ab_engine_pause(one.fx.engine, false); /* as each turn ends of the one that leads */
  fixture_run(&one.fx);
  CHECK_INT(1, accepted(&one));
  close(fd);
  worker_fini(&one);
}

/* What the poller has told it before the stall, it was told alone. */
CHECK_CASE(a_stalled_worker_accepts_what_it_was_told_of) {
  worker one;
  worker_init(&one);
  int fd = client(&one);
  CHECK_INT(1, fixture_hear(&one.fx));
  ab_engine_turns.turn(one.fx.engine, one.fx.now);
  CHECK_INT(1, accepted(&one));
  CHECK_INT(0, one.fx.stats->shut);
  ab_engine_turns.turn(one.fx.engine, one.fx.now);
  CHECK_INT(1, one.fx.stats->shut);
  fixture_run(&one.fx);
  close(fd);
  worker_fini(&one);
}

/* Another poller was woken for the connection, and its process has died since. */
CHECK_CASE(every_second_the_listeners_are_looked_at) {
  worker one;
  worker_init(&one);
  ab_service *service = one.fx.engine->services;
  ab_engine_lock(one.fx.engine);
  ab_poller_unset(one.fx.poller, &service->watch, false);
  ab_engine_unlock(one.fx.engine);
  int fd = client(&one);
  fixture_run(&one.fx);
  CHECK_INT(0, accepted(&one));
  one.fx.now += AB_NSEC_PER_SEC;
  fixture_run(&one.fx);
  CHECK_INT(1, accepted(&one));
  close(fd);
  worker_fini(&one);
}

CHECK_CASE(a_full_worker_that_drains_has_no_more_looks) {
  worker one;
  worker_init(&one);
  ab_engine_pause(one.fx.engine, true);
  ab_engine_drain(one.fx.engine, one.fx.now);
  one.fx.now += AB_LOOK;
  fixture_run(&one.fx);
  CHECK_INT(0, ab_engine_deadline(one.fx.engine));
  worker_fini(&one);
}

CHECK_CASE(joining_without_memory) {
  worker one;
  one.page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, (ab_page_time){1, 1});
  fixture_init(&one.fx);
  one.fx.mem.fail_at = one.fx.mem.calls + 1;
  const ab_siblings siblings = {.page = one.page, .own = 0, .moves = true};
  CHECK_INT(AB_ENOMEM, ab_engine_join(one.fx.engine, &siblings));
  CHECK(!ab_engine_has_siblings(one.fx.engine));
  ab_engine_part(one.fx.engine);
  worker_fini(&one);
}

CHECK_MAIN()
