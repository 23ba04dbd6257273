/* Requests that nobody takes at once: how many wait and for how long, who is answered 503, whose
 * turn is next, and what becomes of new connections meanwhile. */
#include "engine/fixture.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"

static void prepare(fixture *fx, uint32_t max_queue) {
  fixture_init(fx);
  ab_engine_set_queue(fx->engine, 0, max_queue);
}

static uint64_t rejected(fixture *fx, enum ab_rejection why) {
  return stats_of(fx).rejected[why];
}

static void check_refused(int client) {
  bool end;
  const char *text = client_read(client, &end);
  CHECK(strstr(text, "HTTP/1.1 503 Service Unavailable\r\n"));
  CHECK(strstr(text, "\r\nRetry-After: 1\r\n"));
  CHECK(strstr(text, "\r\nConnection: close\r\n"));
  CHECK(strstr(text, "\r\n\r\n503 Service Unavailable\n"));
  CHECK(end);
}

/* --- max_queue --- */

CHECK_CASE(beyond_the_queue_the_newest_are_refused) {
  fixture fx;
  prepare(&fx, 3);
  fx.mute = true;
  int clients[20];
  for (int i = 0; i < 20; i++) {
    clients[i] = client_open(&fx);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(&fx);
  CHECK_INT(3, stats_of(&fx).waiting);
  CHECK_INT(3, stats_of(&fx).queued);
  CHECK_INT(17, rejected(&fx, AB_REJECT_QUEUE_FULL));
  CHECK_INT(3, stats_of(&fx).connections); /* whoever was answered is gone at once */
  for (int i = 3; i < 20; i++) check_refused(clients[i]);
  fx.mute = false;
  fixture_run(&fx);
  for (int i = 0; i < 3; i++) CHECK(strstr(client_read(clients[i], NULL), "200 OK"));
  CHECK_INT(3, fx.taken);
  CHECK_INT(3, stats_of(&fx).requests);
  CHECK_INT(17, stats_of(&fx).errors);
  for (int i = 0; i < 20; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* Whoever is taken within the step has not waited, however short the queue is. */
CHECK_CASE(without_a_queue) {
  fixture fx;
  prepare(&fx, 0);
  int clients[20];
  for (int i = 0; i < 20; i++) {
    clients[i] = client_open(&fx);
    client_send(clients[i], GET("/a") GET("/b"));
  }
  fixture_run(&fx);
  CHECK_INT(40, fx.taken);
  CHECK_INT(0, stats_of(&fx).queued);
  fx.mute = true;
  for (int i = 0; i < 20; i++) {
    client_read(clients[i], NULL);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(&fx);
  CHECK_INT(20, rejected(&fx, AB_REJECT_QUEUE_FULL));
  for (int i = 0; i < 20; i++) {
    check_refused(clients[i]);
    close(clients[i]);
  }
  fixture_fini(&fx);
}

/* While another than who takes requests turns the engine, say because that one is held up: what it
 * will take when it is back does not count. */
CHECK_CASE(room_in_the_application_is_no_queue) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 10, 3);
  fx.hold = true;
  int clients[30];
  for (int i = 0; i < 4; i++) clients[i] = client_with(&fx, GET("/a"));
  fx.mute = true;
  for (int i = 4; i < 30; i++) clients[i] = client_with(&fx, GET("/a"));
  CHECK_INT(4, stats_of(&fx).in_app);
  CHECK_INT(9, stats_of(&fx).waiting);
  CHECK_INT(17, rejected(&fx, AB_REJECT_QUEUE_FULL));
  for (int i = 0; i < 30; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* So many of those that the application has take no place: there is room for others, and nobody is
 * taken for one who stands in a queue. */
CHECK_CASE(those_aside_take_no_place) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 2, 1);
  fx.hold = true;
  int clients[7];
  for (int i = 0; i < 2; i++) clients[i] = client_with(&fx, GET("/a"));
  fx.mute = true;
  for (int i = 2; i < 4; i++) clients[i] = client_with(&fx, GET("/a"));
  CHECK_INT(1, stats_of(&fx).waiting);
  CHECK_INT(1, rejected(&fx, AB_REJECT_QUEUE_FULL));
  CHECK(ab__engine_crowded(fx.engine));
  ab_engine_lock(fx.engine);
  ab_engine_set_aside(fx.engine, 2);
  ab_engine_unlock(fx.engine);
  CHECK(!ab__engine_crowded(fx.engine));
  for (int i = 4; i < 7; i++) clients[i] = client_with(&fx, GET("/a"));
  CHECK_INT(3, stats_of(&fx).waiting);
  CHECK_INT(2, rejected(&fx, AB_REJECT_QUEUE_FULL));
  ab_engine_lock(fx.engine);
  ab_engine_set_aside(fx.engine, 0);
  ab_engine_unlock(fx.engine);
  CHECK(ab__engine_crowded(fx.engine));
  for (int i = 0; i < 7; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* What could have been taken, had there been room in the arena, is not refused. */
CHECK_CASE(a_full_arena_is_no_full_queue) {
  fixture fx;
  prepare(&fx, 3);
  fx.mute = true;
  int clients[4];
  for (int i = 0; i < 3; i++) clients[i] = client_with(&fx, GET("/a"));
  clients[3] = client_open(&fx);
  client_send(clients[3], GET("/a"));
  ab_engine_begin_turn(fx.engine, fx.now);
  while (ab_engine_step(fx.engine)) continue;
  CHECK_INT(4, stats_of(&fx).waiting);
  fx.engine->arena.used = fx.engine->arena.size;
  unsigned events;
  ab_head_loan head = {NULL};
  CHECK(!ab_engine_next(fx.engine, AB_LEVELS, 0, &events, &head));
  CHECK(ab_engine_end_step(fx.engine));
  CHECK_INT(4, stats_of(&fx).waiting);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(4, fx.taken);
  CHECK_INT(0, rejected(&fx, AB_REJECT_QUEUE_FULL));
  for (int i = 0; i < 4; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* What the client still sends must not destroy the answer (RFC 9112 9.6). */
CHECK_CASE(refused_with_its_body_on_the_way) {
  fixture fx;
  prepare(&fx, 0);
  fx.mute = true;
  int client = client_tcp(fixture_listen(&fx));
  client_send(client, POST("/a", 100));
  fixture_run(&fx);
  client_send(client, "rest");
  fixture_run(&fx);
  check_refused(client);
  CHECK_INT(1, stats_of(&fx).connections); /* it lingers */
  fixture_pass(&fx, (unsigned)fx.limits.linger_timeout);
  CHECK_INT(0, stats_of(&fx).connections);
  close(client);
  client = client_with(&fx, GET("/a") GET("/b"));
  check_refused(client);
  CHECK_INT(1, stats_of(&fx).connections);
  close(client);
  fixture_run(&fx);
  client = client_with(&fx, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(!strstr(client_read(client, NULL), "\r\n\r\n503"));
  fixture_end(&fx, client);
}

/* --- queue_timeout --- */

CHECK_CASE(waits_no_longer_than_queue_timeout) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 5;
  CHECK(fixture_start(&fx));
  fx.mute = true;
  int first = client_with(&fx, GET("/a"));
  fixture_pass(&fx, 3);
  int second = client_with(&fx, GET("/b"));
  fixture_pass(&fx, 2);
  check_refused(first);
  CHECK_INT(1, rejected(&fx, AB_REJECT_QUEUE_TIMEOUT));
  CHECK_INT(0, stats_of(&fx).expired);
  CHECK_INT(1, stats_of(&fx).waiting);
  fx.mute = false;
  fx.hold = true;
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(fx.now - 2 * (AB_NSEC_PER_SEC)-AB_WHEEL_TICK, ab_exchange_arrived(fx.held[0]));
  fixture_pass(&fx, 60); /* once it was taken it has all the time that it wants */
  CHECK_INT(0, fx.events);
  answer_held(&fx, 0, "late");
  CHECK(strstr(client_read(second, NULL), "late"));
  close(first);
  close(second);
  fixture_fini(&fx);
}

CHECK_CASE(request_timeout_goes_on_behind_the_queue) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 5;
  fx.limits.request_timeout = 8;
  CHECK(fixture_start(&fx));
  fx.mute = true;
  int client = client_with(&fx, GET("/a"));
  fixture_pass(&fx, 4);
  fx.mute = false;
  fx.hold = true;
  fixture_run(&fx);
  fixture_pass(&fx, 3);
  CHECK_INT(0, fx.events);
  fixture_pass(&fx, 1);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  fixture_end(&fx, client);
}

CHECK_CASE(the_shorter_limit_counts) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 5;
  fx.limits.request_timeout = 2;
  CHECK(fixture_start(&fx));
  fx.mute = true;
  int client = client_with(&fx, GET("/a"));
  fixture_pass(&fx, 2);
  check_refused(client);
  CHECK_INT(1, rejected(&fx, AB_REJECT_REQUEST_TIMEOUT));
  CHECK_INT(0, rejected(&fx, AB_REJECT_QUEUE_TIMEOUT));
  CHECK_INT(1, stats_of(&fx).expired);
  fixture_end(&fx, client);
}

CHECK_CASE(without_queue_timeout) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 0;
  CHECK(fixture_start(&fx));
  fx.mute = true;
  int client = client_with(&fx, GET("/a"));
  fixture_pass(&fx, 3600);
  CHECK_INT(1, stats_of(&fx).waiting);
  CHECK_INT(1, stats_of(&fx).queued);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).waiting);
  fixture_fini(&fx);
}

/* --- whose turn it is --- */

/* One place for requests in the application: whoever has sent fifty at once gets it in turn with
 * whoever sends one. */
CHECK_CASE(a_flood_waits_behind_the_others) {
  fixture fx;
  fixture_init(&fx);
  char flood[50 * sizeof(GET("/f"))] = "";
  for (int i = 0; i < 50; i++) strcat(flood, GET("/f"));
  int greedy = client_open(&fx);
  client_send(greedy, flood);
  fx.mute = true;
  fixture_run(&fx);
  int modest[3];
  for (int i = 0; i < 3; i++) modest[i] = client_with(&fx, GET("/m"));
  CHECK_INT(4, stats_of(&fx).waiting); /* one of the flood, and the others */
  fx.hold = true;
  for (int i = 0; i < 8; i++) {
    unsigned events;
    ab_head_loan head = {NULL};
    ab_exchange *exchange = ab_engine_next(fx.engine, AB_LEVELS, 0, &events, &head);
    CHECK(exchange != NULL);
    if (exchange) take_request(&fx, exchange, &head);
    answer_held(&fx, 0, "x");
    fixture_run(&fx);
  }
  CHECK(strcmp("fmmmffff", fx.paths) == 0);
  for (int i = 0; i < 3; i++) close(modest[i]);
  close(greedy);
  fixture_fini(&fx);
}

/* --- request_timeout by path --- */

static const ab_path_rule *rules(void) {
  static const ab_path_rule list[] = {
      {{"/quick/*", 8}, 2}, {{"/stream", 7}, 0}, {{"*.csv", 5}, 60}};
  return list;
}

CHECK_CASE(paths_have_times_of_their_own) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.request_timeout = 10;
  CHECK(fixture_start(&fx));
  CHECK_INT(AB_OK, ab_engine_set_path_times(fx.engine, rules(), 1));
  CHECK_INT(AB_OK, ab_engine_set_path_times(fx.engine, rules(), 3));
  static const struct {
    const char *text;
    unsigned before, after; /* seconds; 0: never */
  } cases[] = {{GET("/quick/x?a"), 1, 3},
               {GET("/quic%6b"), 1, 3},
               {GET("/quicker"), 9, 11},
               {GET("/a.csv"), 59, 61},
               {GET("/stream"), 3600, 0}};
  fx.hold = true;
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    int client = client_with(&fx, cases[i].text);
    CHECK_INT(1, fx.held_count);
    fx.events = 0;
    fixture_pass(&fx, cases[i].before);
    CHECK_INT(0, fx.events);
    if (cases[i].after) {
      fixture_pass(&fx, cases[i].after - cases[i].before);
      CHECK_INT(AB_EVENT_DEADLINE, fx.events);
    }
    answer_held(&fx, 0, "x");
    close(client);
    fixture_run(&fx);
  }
  fixture_fini(&fx);
}

/* After a while in the queue, where its parsed form has been given up. */
CHECK_CASE(a_path_has_its_time_behind_the_queue) {
  fixture fx;
  fixture_init(&fx);
  CHECK_INT(AB_OK, ab_engine_set_path_times(fx.engine, rules(), 3));
  fx.mute = true;
  int client = client_with(&fx, GET("/a.csv"));
  fixture_pass(&fx, 5);
  fx.mute = false;
  fx.hold = true;
  fixture_run(&fx);
  fixture_pass(&fx, 54);
  CHECK_INT(0, fx.events);
  fixture_pass(&fx, 1);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  fixture_end(&fx, client);
}

CHECK_CASE(no_memory_for_the_rules) {
  fixture fx;
  fixture_init(&fx);
  CHECK_INT(AB_OK, ab_engine_set_path_times(fx.engine, rules(), 3));
  fx.mem.fail_at = fx.mem.calls + 1;
  CHECK_INT(AB_ENOMEM, ab_engine_set_path_times(fx.engine, rules(), 2));
  fx.mem.fail_at = 0;
  CHECK_INT(3, fx.engine->path_time_count);
  CHECK_INT(AB_OK, ab_engine_set_path_times(fx.engine, NULL, 0));
  fixture_fini(&fx);
}

/* --- new connections --- */

/* They are left to others for a moment, and no timer runs while there are none. */
CHECK_CASE(paused_listeners_are_looked_at_later) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  ab_engine_pause(fx.engine, true);
  fixture_run(&fx);
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  int clients[3];
  for (int round = 0; round < 3; round++) {
    clients[round] = client_tcp(port);
    client_send(clients[round], GET("/a"));
    unsigned turns = fixture_run(&fx);
    CHECK(turns < 5);
    CHECK_INT(round, stats_of(&fx).accepted);
    CHECK_INT(fx.now + AB_LOOK, ab_engine_deadline(fx.engine));
    fx.now += AB_LOOK - 1;
    fixture_run(&fx);
    CHECK_INT(round, stats_of(&fx).accepted);
    fx.now += 1;
    fixture_run(&fx);
    CHECK_INT(round + 1, stats_of(&fx).accepted);
    CHECK(strstr(client_read(clients[round], NULL), "200 OK"));
  }
  for (int i = 0; i < 3; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* All of them are left to others, and so is what else the engine may do meanwhile. */
CHECK_CASE(requests_that_are_withheld) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int kept = client_tcp(port);
  client_send(kept, GET("/a"));
  fixture_run(&fx);
  CHECK(strstr(client_read(kept, NULL), "200 OK"));
  ab_engine_withhold(fx.engine, true);
  CHECK_INT(1, fx.taken);
  client_send(kept, GET("/b"));
  int fresh = client_tcp(port);
  client_send(fresh, GET("/c"));
  CHECK(fixture_run(&fx) < 5);
  ab_engine_pause(fx.engine, true);
  fx.now += AB_LOOK;
  CHECK(fixture_run(&fx) < 5);
  ab_engine_pause(fx.engine, false);
  fx.now += AB_LOOK;
  CHECK(fixture_run(&fx) < 5);
  CHECK_INT(1, fx.taken);
  CHECK_INT(1, stats_of(&fx).waiting);
  CHECK_INT(1, stats_of(&fx).accepted);
  CHECK(!ab_engine_tells(fx.engine, AB_LEVELS));
  ab_engine_withhold(fx.engine, false);
  CHECK(ab_engine_tells(fx.engine, AB_LEVELS));
  fixture_run(&fx);
  CHECK_INT(3, fx.taken);
  CHECK(strstr(client_read(kept, NULL), "200 OK"));
  CHECK(strstr(client_read(fresh, NULL), "200 OK"));
  close(kept);
  close(fresh);
  fixture_fini(&fx);
}

CHECK_CASE(a_pause_that_ends_early) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  ab_engine_pause(fx.engine, true);
  int client = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).accepted);
  ab_engine_pause(fx.engine, false);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).accepted);
  ab_engine_pause(fx.engine, true);
  fixture_run(&fx);
  int second = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).accepted);
  ab_engine_close_listeners(fx.engine);
  fx.now += AB_LOOK;
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).accepted);
  close(client);
  close(second);
  fixture_fini(&fx);
}

/* The queue fills up from the listener as well, and then who comes is told at once. */
CHECK_CASE(a_burst_of_connections) {
  fixture fx;
  prepare(&fx, 100);
  uint16_t port = fixture_listen(&fx);
  fx.mute = true;
  ab_engine_pause(fx.engine, true);
  static int clients[300];
  for (int i = 0; i < 300; i++) {
    clients[i] = client_tcp(port);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(&fx);
  fx.now += AB_LOOK;
  fixture_run(&fx);
  CHECK_INT(300, stats_of(&fx).accepted);
  CHECK_INT(200, rejected(&fx, AB_REJECT_QUEUE_FULL));
  CHECK_INT(100, stats_of(&fx).waiting);
  fx.mute = false;
  fixture_run(&fx);
  unsigned answered = 0, refused = 0;
  for (int i = 0; i < 300; i++) {
    const char *text = client_read(clients[i], NULL);
    answered += strstr(text, "200 OK") != NULL;
    refused += strstr(text, "503 Service Unavailable") != NULL;
    close(clients[i]);
  }
  CHECK_INT(100, answered);
  CHECK_INT(200, refused);
  fixture_fini(&fx);
}

/* Whoever looks sees what waits, however it is kept, and nothing of queries and fields. */
CHECK_CASE(what_waits_can_be_seen) {
  fixture fx;
  prepare(&fx, 10);
  fx.mute = true;
  char longest[300];
  snprintf(longest, sizeof longest, "GET /%0250d HTTP/1.1\r\nHost: x\r\n\r\n", 7);
  int clients[] = {client_with(&fx, "\r\n" GET("/a?secret") GET("/b")),
                   client_with(&fx, "POST http://h.test/c HTTP/1.0\r\n\r\n"),
                   client_with(&fx, longest)};
  fx.now += AB_NSEC_PER_SEC;
  fixture_run(&fx);
  ab_waiting seen[3] = {{.len = 0}};
  CHECK_INT(3, ab_engine_waiting(fx.engine, seen, 0));
  CHECK_INT(0, seen[0].len);
  CHECK_INT(3, ab_engine_waiting(fx.engine, seen, 2));
  CHECK_INT(0, seen[2].len);
  CHECK_INT(3, ab_engine_waiting(fx.engine, seen, 3));
  CHECK_BYTES("GET /a", seen[0].line, seen[0].len);
  CHECK_BYTES("POST http://h.test/c", seen[1].line, seen[1].len);
  CHECK_INT(sizeof seen[2].line, seen[2].len);
  CHECK(memcmp(seen[2].line, longest, sizeof seen[2].line) == 0);
  CHECK(seen[0].arrived == fx.now - AB_NSEC_PER_SEC);
  CHECK_INT(0, seen[0].peer.family);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(0, ab_engine_waiting(fx.engine, seen, 3));
  CHECK_INT(4, fx.taken);
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* Who looks for events between two steps, as a thread that leads does, accepts as many. */
CHECK_CASE(a_look_of_single_steps) {
  fixture fx;
  prepare(&fx, 10);
  uint16_t port = fixture_listen(&fx);
  fx.mute = true;
  ab_engine_pause(fx.engine, true);
  int clients[100];
  for (int i = 0; i < 100; i++) {
    clients[i] = client_tcp(port);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).accepted);
  fx.now += AB_LOOK;
  for (int i = 0; i < 20; i++) {
    fixture_hear(&fx);
    ab_engine_begin_turn(fx.engine, fx.now);
    ab_engine_step(fx.engine);
    ab_engine_end_step(fx.engine);
  }
  CHECK_INT(100, stats_of(&fx).accepted);
  CHECK_INT(90, rejected(&fx, AB_REJECT_QUEUE_FULL));
  for (int i = 0; i < 100; i++) close(clients[i]);
  fx.mute = false;
  fixture_fini(&fx);
}

/* --- who has left --- */

/* One place, which is taken, and who waits for the next one ends its side or goes. */
CHECK_CASE(who_has_left_is_not_taken) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 1, 10);
  fx.hold = true;
  int holding = client_with(&fx, GET("/hold"));
  fx.mute = true;
  int half = client_with(&fx, GET("/half")), reset = client_with(&fx, GET("/reset")),
      stays = client_with(&fx, GET("/stays"));
  CHECK_INT(3, stats_of(&fx).waiting);
  shutdown(half, SHUT_WR);
  ab_sock_reset(reset);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).waiting);
  CHECK_INT(2, stats_of(&fx).left);
  CHECK_INT(2, stats_of(&fx).connections);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  close(half);
  close(holding);
  close(stays);
  fixture_fini(&fx);
}

/* The poller has not been asked since: whoever takes the request asks the socket. */
CHECK_CASE(who_has_just_left_is_not_taken) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 1, 10);
  fx.hold = true;
  int holding = client_with(&fx, GET("/hold"));
  fx.mute = true;
  int client = client_with(&fx, GET("/left"));
  fx.now += AB_LOOK;
  ab_engine_begin_turn(fx.engine, fx.now);
  ab_engine_step(fx.engine);
  close(client);
  unsigned events = 0;
  ab_head_loan head = {NULL};
  CHECK(!ab_engine_next(fx.engine, AB_LEVELS, 0, &events, &head));
  CHECK_INT(1, stats_of(&fx).left);
  CHECK_INT(0, stats_of(&fx).waiting);
  ab_engine_end_step(fx.engine);
  close(holding);
  fixture_fini(&fx);
}

/* There are places, but whoever takes requests computes. */
CHECK_CASE(who_has_left_a_server_that_is_late) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 10, 10);
  fx.mute = true;
  int leaves = client_with(&fx, GET("/left")), stays = client_with(&fx, GET("/stays"));
  shutdown(leaves, SHUT_WR);
  fx.now += AB_LATE - 1;
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).left);
  fx.mute = false;
  fx.now++;
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).left);
  CHECK_INT(1, fx.taken);
  CHECK_INT('s', fx.paths[0]);
  close(leaves);
  fixture_end(&fx, stays);
}

/* The same within a turn, whose requests are read one after the other: so long was it in the
 * socket. */
CHECK_CASE(who_has_left_in_a_turn_that_takes_long) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 10, 10);
  int client = client_open(&fx);
  client_send(client, GET("/left"));
  ab_engine_begin_turn(fx.engine, fx.now);
  ab_engine_step(fx.engine);
  CHECK_INT(1, stats_of(&fx).waiting);
  close(client);
  unsigned events = 0;
  ab_head_loan head = {NULL};
  CHECK(!ab_engine_next(fx.engine, AB_LEVELS, fx.now + AB_LATE, &events, &head));
  CHECK_INT(1, stats_of(&fx).left);
  ab_engine_end_step(fx.engine);
  fixture_fini(&fx);
}

/* With a place free, a FIN behind the request is no reason. */
CHECK_CASE(a_half_close_with_a_place_free) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_queue(fx.engine, 1, 10);
  fx.mute = true;
  int client = client_with(&fx, GET("/a"));
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(1, fx.taken);
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  CHECK_INT(0, stats_of(&fx).left);
  fixture_end(&fx, client);
}

CHECK_MAIN()
