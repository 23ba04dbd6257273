/* Requests that could only wait for a pool of the application's: which of them are held back, for
 * how long, and what becomes of them meanwhile. */
#include "engine/hold.h"

#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POOL      7
#define OTHER     8

static ab_view view(const char *text) {
  return (ab_view){text, strlen(text)};
}

/* So many wait for a pool of two. */
static void load(fixture *fx, uint64_t pool, uint32_t waiters) {
  ab_engine_lock(fx->engine);
  CHECK_INT(AB_OK, ab_engine_hold(fx->engine, 42));
  ab_engine_pool_load(fx->engine, pool, 2, waiters);
  ab_engine_unlock(fx->engine);
}

static void mark(fixture *fx, uint64_t pool, const char *path) {
  ab_engine_lock(fx->engine);
  ab_engine_pool_wait(fx->engine, pool, view(path));
  ab_engine_unlock(fx->engine);
}

/* Two requests of /page/1 wait for the pool. What is taken from here on is kept. */
static void begin(fixture *fx) {
  fixture_prepare(fx);
  fx->limits.queue_timeout = 10;
  CHECK(fixture_start(fx));
  ab_engine_set_queue(fx->engine, 100, 3);
  fx->hold = true;
  load(fx, POOL, 1);
  mark(fx, POOL, "/page/1");
  load(fx, POOL, 2);
}

static bool tells(fixture *fx) {
  return ab_engine_tells(fx->engine, AB_LEVELS);
}

static ab_nsec due(fixture *fx) {
  return ab_engine_deadline(fx->engine);
}

CHECK_CASE(only_what_would_wait_is_held) {
  fixture fx;
  begin(&fx);
  int clients[] = {client_with(&fx, GET("/page/2?a=b")), client_with(&fx, GET("/free")),
                   client_with(&fx, GET("/page/2/x"))};
  CHECK_INT(1, stats_of(&fx).held);
  CHECK_INT(1, stats_of(&fx).waiting);
  CHECK_INT(1, stats_of(&fx).queued);
  CHECK(!tells(&fx));
  CHECK(strcmp("fp", fx.paths) == 0);
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).held);
  fixture_fini(&fx);
}

/* One for each that waits no longer, the oldest first. */
CHECK_CASE(they_go_in_turn) {
  fixture fx;
  begin(&fx);
  mark(&fx, POOL, "/a");
  mark(&fx, POOL, "/b");
  int clients[] = {client_with(&fx, GET("/b")), client_with(&fx, GET("/a")),
                   client_with(&fx, GET("/b"))};
  CHECK_INT(3, stats_of(&fx).held);
  ab_engine_lock(fx.engine);
  CHECK(ab_engine_pool_load(fx.engine, POOL, 2, 1));
  ab_engine_unlock(fx.engine);
  CHECK(tells(&fx));
  fixture_run(&fx);
  CHECK(strcmp("b", fx.paths) == 0); /* it is on its way there, and the place is its */
  load(&fx, POOL, 2);                /* it is there */
  load(&fx, POOL, 1);
  fixture_run(&fx);
  CHECK(strcmp("ba", fx.paths) == 0);
  load(&fx, POOL, 0); /* one place for who is on its way, and another */
  fixture_run(&fx);
  CHECK(strcmp("bab", fx.paths) == 0);
  CHECK_INT(0, fx.engine->hold->used);
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_fini(&fx);
}

/* What does something else first does not keep the others for long. */
CHECK_CASE(some_never_come_to_the_pool) {
  fixture fx;
  begin(&fx);
  int clients[5];
  for (int i = 0; i < 3; i++) clients[i] = client_with(&fx, GET("/page/1"));
  load(&fx, POOL, 0);
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  ab_nsec at = due(&fx);
  CHECK_INT(fx.now + AB_HOLD_WAY, at);
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  fx.now = at;
  fx.mute = true; /* it may go, and what computes is in its way: nobody looks again and again */
  fixture_run(&fx);
  CHECK(tells(&fx));
  CHECK(due(&fx) == 0 || due(&fx) > fx.now);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(3, fx.taken);
  CHECK_INT(0, stats_of(&fx).held);
  for (int i = 3; i < 5; i++) clients[i] = client_with(&fx, GET("/page/1"));
  CHECK_INT(5, fx.taken); /* nobody waits any more */
  for (int i = 0; i < 5; i++) close(clients[i]);
  fixture_fini(&fx);
}

CHECK_CASE(a_route_is_forgotten) {
  fixture fx;
  begin(&fx);
  fixture_pass(&fx, AB_HOLD_LATELY / AB_NSEC_PER_SEC);
  int client = client_with(&fx, GET("/page/1"));
  CHECK_INT(1, fx.taken);
  fixture_end(&fx, client);
}

CHECK_CASE(held_for_the_pool_that_is_full) {
  fixture fx;
  begin(&fx);
  mark(&fx, OTHER, "/other");
  load(&fx, OTHER, 1);
  int clients[] = {client_with(&fx, GET("/other")), client_with(&fx, GET("/other"))};
  CHECK_INT(1, fx.taken); /* the second one would be the third there */
  load(&fx, POOL, 0);
  fixture_run(&fx);
  CHECK_INT(1, fx.taken);
  load(&fx, OTHER, 0);
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_fini(&fx);
}

/* --- limits --- */

static void check_refused(int client) {
  bool end;
  CHECK(strstr(client_read(client, &end), "HTTP/1.1 503 "));
  CHECK(end);
  close(client);
}

CHECK_CASE(held_ones_count_for_the_queue) {
  fixture fx;
  begin(&fx);
  int clients[5];
  for (int i = 0; i < 5; i++) {
    clients[i] = client_with(&fx, GET("/page/1"));
    fx.now++;
  }
  CHECK_INT(3, stats_of(&fx).held);
  CHECK_INT(2, stats_of(&fx).rejected[AB_REJECT_QUEUE_FULL]);
  for (int i = 3; i < 5; i++) check_refused(clients[i]);
  /* What does not wait is not refused for that. */
  int free = client_with(&fx, GET("/free"));
  CHECK_INT(1, fx.taken);
  fx.mute = true;
  int others[] = {client_with(&fx, GET("/free")), client_with(&fx, GET("/free"))};
  CHECK_INT(2, stats_of(&fx).rejected[AB_REJECT_QUEUE_FULL]);
  CHECK_INT(5, stats_of(&fx).waiting);
  CHECK_INT(5, ab_engine_waiting(fx.engine, NULL, 0));
  for (int i = 0; i < 3; i++) close(clients[i]);
  for (int i = 0; i < 2; i++) close(others[i]);
  close(free);
  fixture_fini(&fx);
}

/* Without room in the application both wait, and the newest of them goes. */
CHECK_CASE(the_newest_of_both_is_refused) {
  fixture fx;
  begin(&fx);
  ab_engine_set_queue(fx.engine, 0, 1);
  int held = client_with(&fx, GET("/page/1"));
  fx.mute = true;
  fx.now++;
  check_refused(client_with(&fx, GET("/free")));
  CHECK_INT(1, stats_of(&fx).held);
  close(held);
  fixture_run(&fx);
  int other = client_with(&fx, GET("/free"));
  fx.now++;
  int page = client_open(&fx);
  client_send(page, GET("/page/1"));
  ab_engine_set_queue(fx.engine, 0, 2);
  fixture_run(&fx);
  CHECK_INT(2, stats_of(&fx).waiting);
  close(page);
  close(other);
  fixture_fini(&fx);
}

CHECK_CASE(waits_no_longer_than_queue_timeout) {
  fixture fx;
  begin(&fx);
  int client = client_with(&fx, GET("/page/1"));
  for (int i = 0; i < 4; i++) {
    fixture_pass(&fx, 1);
    mark(&fx, POOL, "/page/1");
  }
  CHECK_INT(1, stats_of(&fx).held);
  fixture_pass(&fx, 6);
  CHECK_INT(0, stats_of(&fx).held);
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_TIMEOUT]);
  check_refused(client);
  fixture_fini(&fx);
}

CHECK_CASE(a_drain_waits_for_them) {
  fixture fx;
  begin(&fx);
  int clients[] = {client_with(&fx, GET("/page/1")), client_with(&fx, GET("/page/1"))};
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  CHECK_INT(2, stats_of(&fx).held);
  load(&fx, POOL, 1);
  fixture_run(&fx);
  CHECK_INT(1, fx.taken);
  ab_engine_refuse(fx.engine, fx.now);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).held);
  check_refused(clients[1]);
  close(clients[0]);
  fixture_fini(&fx);
}

/* --- bounds --- */

CHECK_CASE(more_pools_than_places) {
  fixture fx;
  begin(&fx);
  for (uint64_t pool = 100; pool < 100 + AB_HOLD_POOLS - 1; pool++) load(&fx, pool, 2);
  load(&fx, OTHER, 2);
  mark(&fx, OTHER, "/other");
  int client = client_with(&fx, GET("/other"));
  CHECK_INT(1, fx.taken); /* nothing is known of it */
  for (uint64_t pool = 100; pool < 100 + AB_HOLD_POOLS - 1; pool++) load(&fx, pool, 0);
  CHECK_INT(1, fx.engine->hold->used);
  load(&fx, OTHER, 2);
  int held = client_with(&fx, GET("/other"));
  CHECK_INT(1, fx.taken);
  close(client);
  close(held);
  fixture_fini(&fx);
}

CHECK_CASE(many_routes_drive_out_old_ones) {
  fixture fx;
  begin(&fx);
  for (unsigned i = 0; i < 8 * AB_HOLD_MARKS; i++) {
    char path[5] = {'/', (char)('a' + i % 16), (char)('a' + i / 16 % 16),
                    (char)('a' + i / 256 % 16), 0};
    fx.engine->now++;
    mark(&fx, POOL, path);
    CHECK(fx.engine->hold->pools[0].id == POOL);
  }
  int clients[] = {client_with(&fx, GET("/page/1")), client_with(&fx, GET("/ppp"))};
  CHECK_INT(1, fx.taken);
  CHECK_INT(1, stats_of(&fx).held);
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_fini(&fx);
}

CHECK_CASE(without_memory_nothing_is_held) {
  fixture fx;
  fixture_init(&fx);
  fx.mem.fail_at = fx.mem.calls + 1;
  CHECK_INT(AB_ENOMEM, ab_engine_hold(fx.engine, 1));
  CHECK(!ab_engine_pool_load(fx.engine, POOL, 2, 2));
  ab_engine_pool_wait(fx.engine, POOL, view("/page/1"));
  int client = client_with(&fx, GET("/page/1"));
  CHECK_INT(1, fx.taken);
  fixture_end(&fx, client);
}

CHECK_MAIN()
