/* Too much and too little: no memory, no descriptors, a full arena, many connections at once. */
#include <sys/resource.h>

#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define EXPECT(path, n)                                                                            \
  "POST " path " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"

static char plenty[1 << 20];

/* A little of everything, with checks of what holds whatever fails. */
static void scenario(fixture *fx) {
  uint16_t port = fixture_listen(fx);
  int clients[8], count = 0;
  for (; count < 5; count++) clients[count] = client_open(fx);
  for (; count < 8 && port; count++) clients[count] = client_tcp(port);
  static const char *const texts[] = {
      GET("/a") GET("/b") "GET /c HTTP/1.1\r\nHo",
      "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
      EXPECT("/e", 6) "hel",
      "no request\r\n\r\n",
      GET("/big"),
      GET("/t") GET("/u"),
      "POST /l HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n",
      ""};
  static const char *const rest[] = {
      "st: x\r\n\r\n", "0\r\n\r\n" GET("/q"), "lo!" GET("/f"), "more", GET("/r"), "", plenty, ""};
  fx->hold = true;
  for (int i = 0; i < count; i++) send(clients[i], texts[i], strlen(texts[i]), MSG_NOSIGNAL);
  fixture_run(fx);
  for (unsigned i = 0; i < fx->held_count; i++) {
    ssize_t result;
    if (ab_exchange_body(fx->held[i])) read_what_is_there(fx, fx->held[i], &result);
  }
  for (int i = 0; i < count; i++) {
    size_t len = rest[i] == plenty ? 4000 : strlen(rest[i]);
    send(clients[i], rest[i], len, MSG_NOSIGNAL);
  }
  fixture_run(fx);
  fx->big = plenty;
  fx->big_len = sizeof plenty;
  if (fx->held_count) {
    ab_exchange *exchange = fx->held[0];
    fx->held[0] = fx->held[--fx->held_count];
    ab_engine_lock(fx->engine);
    size_t before = fx->released;
    int err = lend(fx, exchange, plenty, sizeof plenty);
    CHECK(err == AB_OK || fx->released == before); /* on an error it stays the caller's */
    ab_exchange_finish(exchange, err == AB_OK);
    ab_engine_unlock(fx->engine);
  }
  while (fx->held_count) answer_held(fx, 0, "x");
  fx->hold = false;
  fixture_run(fx);
  for (int i = 0; i < count; i++) client_drain(fx, clients[i]);
  fx->mute = true;
  send(clients[0], GET("/z"), strlen(GET("/z")), MSG_NOSIGNAL);
  fixture_run(fx);
  for (int i = 0; i < count; i++) close(clients[i]);
  fixture_run(fx);
  CHECK_INT(0, stats_of(fx).connections);
}

/* The n-th allocation fails, for each n: nothing leaks, and the counters come back to nought. */
CHECK_CASE(each_allocation_fails) {
  size_t n = 1;
  for (bool failed = true; failed; n++) {
    fixture fx;
    fixture_prepare(&fx);
    check_mem_init(&fx.mem, n);
    if (fixture_start(&fx)) scenario(&fx);
    failed = fx.mem.calls >= n;
    CHECK_INT(fx.borrowed, fx.released); /* owners came back before the engine went */
    fixture_fini(&fx);
    if (n > 2000) break;
  }
  CHECK(n > 20 && n < 2000);
}

/* From the n-th allocation on all fail, until the memory is back: then the engine serves again. */
CHECK_CASE(memory_is_short_for_a_while) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int client = client_tcp(port);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  client_read(client, NULL);
  int others[100];
  for (int i = 0; i < 100; i++) others[i] = client_tcp(port);
  size_t missing = 0;
  while (stats_of(&fx).refused == 0 && missing++ < 100) {
    fx.mem.fail_at = fx.mem.calls + 1;
    fixture_run(&fx);
  }
  CHECK(stats_of(&fx).refused > 0);
  unsigned accepted = (unsigned)stats_of(&fx).accepted;
  fx.mem.fail_at = 0;
  fixture_run(&fx);
  CHECK_INT(accepted, stats_of(&fx).accepted); /* rests */
  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  fixture_pass(&fx, 1); /* the rest is over, */
  fixture_run(&fx);     /* and the poller looks at the listener again */
  CHECK_INT(101, stats_of(&fx).accepted + stats_of(&fx).refused);
  for (int i = 0; i < 100; i++) close(others[i]);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

/* The beginning of a body that cannot be kept: the request is not given a body without it. */
CHECK_CASE(the_beginning_of_a_body_is_not_lost) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int warm = client_with(&fx, GET("/w"));
  answer_held(&fx, 0, "x");
  int client = client_open(&fx);
  client_send(client, EXPECT("/a", 6) "hel");
  fx.mem.fail_at = fx.mem.calls + 2; /* the body's structure, then what came of it */
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_EPEER, result);
  close(client);
  close(warm);
  fixture_fini(&fx);
}

/* Heads and bodies of many connections at once, several times what the arena holds. */
CHECK_CASE(more_than_the_arena_holds) {
  enum { CLIENTS = 60 };
  fixture fx;
  fixture_init(&fx);
  int clients[CLIENTS];
  static char head[60000], body[70000];
  size_t len = (size_t)snprintf(head, sizeof head, "GET /a HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 4; i++) {
    len += (size_t)snprintf(head + len, sizeof(head) - len, "X-%d: ", i);
    memset(head + len, 'x', 12000);
    len += 12000;
    len += (size_t)snprintf(head + len, sizeof(head) - len, "\r\n");
  }
  len += (size_t)snprintf(head + len, sizeof(head) - len, "\r\n");
  size_t start = (size_t)snprintf(body, sizeof body,
                                  "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n");
  memset(body + start, 'y', 60000);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = client_open(&fx);
    if (i % 2) {
      client_send_bytes(clients[i], body, start + 60000);
    } else {
      client_send_bytes(clients[i], head, len);
    }
  }
  CHECK(CLIENTS * len > 2 * fx.engine->arena.size);
  fixture_run(&fx);
  CHECK_INT(CLIENTS, fx.taken);
  for (int i = 0; i < CLIENTS; i++) {
    const char *text = client_read(clients[i], NULL);
    CHECK(strstr(text, i % 2 ? "\r\n\r\n/b:yyyy" : "\r\n\r\n/a"));
    close(clients[i]);
  }
  fixture_fini(&fx);
}

/* More requests wait than one step can hand out, and then nothing more arrives: each is answered
 * all the same, without another event. */
CHECK_CASE(a_long_queue_is_taken_to_its_end) {
  enum { CLIENTS = 1600 };
  fixture fx;
  fixture_init(&fx);
  fx.mute = true;
  static int clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = client_open(&fx);
    client_send(clients[i], GET("/a"));
    if (i % 64 == 0) fixture_run(&fx);
  }
  fixture_run(&fx);
  CHECK_INT(CLIENTS, stats_of(&fx).waiting);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(CLIENTS, fx.taken);
  CHECK_INT(0, stats_of(&fx).waiting);
  for (int i = 0; i < CLIENTS; i++) {
    CHECK(strstr(client_read(clients[i], NULL), "200 OK"));
    close(clients[i]);
  }
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

/* 10,000 connections come and go, a hundred at a time, and the memory of the first hundred does. */
CHECK_CASE(ten_thousand_connections) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  size_t live = 0;
  for (int round = 0; round < 100; round++) {
    int clients[100];
    for (int i = 0; i < 100; i++) clients[i] = client_tcp(port);
    for (int i = 0; i < 100; i++) client_send(clients[i], GET("/a"));
    fixture_run(&fx);
    CHECK_INT(100, stats_of(&fx).connections);
    for (int i = 0; i < 100; i++) {
      CHECK(strstr(client_read(clients[i], NULL), "200 OK"));
      if (i % 3) {
        close(clients[i]);
      } else {
        client_reset(clients[i]);
      }
    }
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    if (round == 0) live = fx.mem.live;
    CHECK_INT(live, fx.mem.live);
  }
  CHECK_INT(10000, stats_of(&fx).accepted);
  CHECK_INT(10000, stats_of(&fx).requests);
  fixture_fini(&fx);
}

/* Without descriptors the engine rests instead of spinning, and then goes on. */
CHECK_CASE(no_descriptors) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int clients[10];
  for (int i = 0; i < 10; i++) clients[i] = client_tcp(port);
  struct rlimit before, none;
  getrlimit(RLIMIT_NOFILE, &before);
  none = before;
  int next = dup(0); /* all numbers below are in use */
  close(next);
  none.rlim_cur = (rlim_t)next;
  setrlimit(RLIMIT_NOFILE, &none);
  unsigned turns = fixture_run(&fx);
  uint64_t refused = stats_of(&fx).refused;
  fixture_run(&fx);
  CHECK(turns < 10);
  CHECK_INT(1, refused);
  CHECK_INT(refused, stats_of(&fx).refused); /* the listener is not even looked at */
  CHECK(ab_engine_deadline(fx.engine) > fx.now);
  CHECK(ab_engine_deadline(fx.engine) <= fx.now + AB_REST);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK_INT(0, stats_of(&fx).accepted);
  fx.now += AB_REST;
  fixture_run(&fx);
  fixture_run(&fx);
  CHECK_INT(9, stats_of(&fx).accepted); /* all but the one that was hung up on */
  for (int i = 0; i < 10; i++) close(clients[i]);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

CHECK_CASE(paused) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int served = client_tcp(port);
  fixture_run(&fx);
  ab_engine_pause(fx.engine, true);
  ab_engine_pause(fx.engine, true);
  int client = client_tcp(port);
  client_send(client, GET("/a"));
  client_send(served, GET("/s"));
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).accepted);
  CHECK(strcmp("s", fx.paths) == 0);
  ab_engine_pause(fx.engine, false);
  fixture_run(&fx);
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  close(client);
  close(served);
  fixture_fini(&fx);
}

CHECK_MAIN()
