/* Deadlines that more than one thing decides: the rate of a slow reader, the request as a whole.
 * Peers that have gone, by the user's definition, and limits that a listener has of its own. */
#include "engine/fixture.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"

static char plenty[8 << 20];

/* A request that the application has. What is read from a socket pair is taken at once; TCP tells
 * its peer in lumps. */
static int held_request_of(fixture *fx, int client) {
  fx->hold = true;
  client_send(client, GET("/a"));
  fixture_run(fx);
  CHECK_INT(1, fx->held_count);
  return client;
}

static int held_request(fixture *fx) {
  return held_request_of(fx, client_open(fx));
}

/* Queues a part of the response, and sends what goes. */
static void write_part(fixture *fx, size_t len) {
  ab_engine_lock(fx->engine);
  CHECK_INT(AB_OK, lend(fx, fx->held[0], plenty, len));
  ab_exchange_flush(fx->held[0]);
  ab_engine_unlock(fx->engine);
  fixture_run(fx);
}

/* Reads `rate` bytes a second for `seconds`; false when the connection has ended. */
static bool read_at(fixture *fx, int client, size_t rate, unsigned seconds) {
  static char buf[1 << 20];
  for (unsigned i = 0; i < seconds; i++) {
    for (size_t left = rate; left > 0;) {
      ssize_t n = recv(client, buf, left < sizeof buf ? left : sizeof buf, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
      if (n < 0) break;
      left -= (size_t)n;
    }
    fx->now += AB_NSEC_PER_SEC;
    fixture_run(fx);
    if (stats_of(fx).connections == 0) return false;
  }
  return true;
}

/* --- min_send_rate --- */

CHECK_CASE(reader_below_the_rate) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 100000;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  write_part(&fx, sizeof plenty);
  CHECK(read_at(&fx, client, 20000, (unsigned)fx.limits.rate_grace));
  CHECK(!read_at(&fx, client, 20000, 30));
  CHECK_INT(1, stats_of(&fx).timeouts);
  CHECK_INT(1, fx.released);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  fixture_end(&fx, client);
}

CHECK_CASE(reader_above_the_rate) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 50000;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  write_part(&fx, sizeof plenty);
  CHECK(read_at(&fx, client, 100000, 60));
  CHECK_INT(0, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

/* What was read early pays for a pause. */
CHECK_CASE(reader_that_was_quick_may_pause) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 20000;
  fx.limits.write_timeout = 1000;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  write_part(&fx, sizeof plenty);
  CHECK(read_at(&fx, client, 1000000, 4));
  CHECK(read_at(&fx, client, 0, 30));
  CHECK(!read_at(&fx, client, 0, 1000));
  fixture_end(&fx, client);
}

CHECK_CASE(rate_grace_is_the_users) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.rate_grace = 3;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  write_part(&fx, sizeof plenty);
  CHECK(read_at(&fx, client, 0, 2));
  CHECK(!read_at(&fx, client, 0, 2));
  fixture_end(&fx, client);
}

/* A stream that is silent for a long time, and a peer that takes each piece at once: nobody is
 * slow. */
CHECK_CASE(stream_with_little_to_say) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 1000000;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  for (int i = 0; i < 20; i++) {
    write_part(&fx, 100);
    CHECK(read_at(&fx, client, 1000, 60));
  }
  CHECK_INT(0, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

/* The time between two pieces, in which the socket has room, does not count either. */
CHECK_CASE(only_time_with_a_full_socket_counts) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 1000000;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  for (int i = 0; i < 5; i++) {
    write_part(&fx, sizeof plenty);
    fx.now += 3 * AB_NSEC_PER_SEC;
    fixture_run(&fx);
    client_drain(&fx, client);
    CHECK(!fx.held[0]->conn->stall);
    CHECK(read_at(&fx, client, 1000, 100));
  }
  CHECK_INT(0, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

/* The socket's own queue is large. A slow peer takes from it long before there is room for more, so
 * nothing can be written, and still it is not idle. */
CHECK_CASE(progress_within_the_sockets_queue) {
  CHECK_NEEDS(UNSENT);
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 0;
  fx.limits.write_timeout = 10;
  CHECK(fixture_start(&fx));
  int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
  int large = 4 << 20;
  setsockopt(fx.held[0]->conn->link.watch.fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
  write_part(&fx, sizeof plenty);
  CHECK(fx.held[0]->conn->blocked);
  CHECK(read_at(&fx, client, 30000, 25));
  CHECK(fx.held[0]->conn->blocked);
  CHECK_INT(1, stats_of(&fx).connections);
  CHECK(!read_at(&fx, client, 0, 22));
  fixture_end(&fx, client);
}

static ab_nsec moved(fixture *fx) {
  ab_engine_lock(fx->engine);
  ab_nsec at = ab_exchange_moved(fx->held[0]);
  ab_engine_unlock(fx->engine);
  return at;
}

/* Long before there is room for more. */
CHECK_CASE(when_a_reader_was_last_seen_to_move) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 0;
  CHECK(fixture_start(&fx));
  int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
  CHECK_INT(0, moved(&fx)); /* nobody waits for it */
  write_part(&fx, sizeof plenty);
  CHECK_INT(0, moved(&fx));
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_want_room(fx.held[0]));
  ab_engine_unlock(fx.engine);
  fx.now += AB_NSEC_PER_SEC;
  moved(&fx); /* what the kernels have moved by themselves is known from here on */
  ab_nsec since = moved(&fx);
  CHECK(since > 0 && since <= fx.now);
  fx.now += AB_NSEC_PER_SEC;
  CHECK_INT(since, moved(&fx));
  CHECK(read_at(&fx, client, 1 << 20, 1));
  CHECK(moved(&fx) > since);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, moved(&fx)); /* it has gone */
  fixture_fini(&fx);
}

CHECK_CASE(when_a_sender_was_last_seen_to_move) {
  fixture fx;
  int client = fixture_init_held(&fx, POST("/a", 10));
  CHECK_INT(0, moved(&fx));
  char buf[16];
  CHECK_INT(AB_AGAIN, read_body(&fx, fx.held[0], buf, sizeof buf));
  CHECK_INT(fx.now, moved(&fx));
  fixture_run(&fx);
  ab_nsec since = fx.now;
  fx.now += AB_NSEC_PER_SEC;
  CHECK_INT(since, moved(&fx));
  client_send(client, "abc");
  fixture_run(&fx);
  CHECK_INT(0, moved(&fx)); /* nobody waits, until it is asked for more */
  CHECK_INT(3, read_body(&fx, fx.held[0], buf, sizeof buf));
  CHECK_INT(AB_AGAIN, read_body(&fx, fx.held[0], buf, sizeof buf));
  fixture_run(&fx);
  CHECK_INT(since + AB_NSEC_PER_SEC, moved(&fx));
  fixture_end(&fx, client);
}

/* Without memory for the account, write_timeout alone counts. */
CHECK_CASE(stall_without_memory) {
  fixture fx;
  fixture_init(&fx);
  int client = held_request(&fx);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty, sizeof plenty));
  ab_exchange_flush(fx.held[0]);
  ab_engine_unlock(fx.engine);
  fx.mem.fail_at = fx.mem.calls + 1;
  fixture_run(&fx);
  fx.mem.fail_at = 0;
  CHECK(fx.held[0]->conn->blocked && !fx.held[0]->conn->stall);
  fixture_pass(&fx, 29);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* --- request_timeout --- */

static void start_with_request_timeout(fixture *fx, uint64_t seconds) {
  fixture_prepare(fx);
  fx->limits.request_timeout = seconds;
  CHECK(fixture_start(fx));
}

CHECK_CASE(request_that_takes_too_long) {
  fixture fx;
  start_with_request_timeout(&fx, 5);
  int client = held_request(&fx);
  fixture_pass(&fx, 4);
  CHECK_INT(0, fx.events);
  fixture_pass(&fx, 1);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  CHECK_INT(1, stats_of(&fx).expired);
  CHECK_INT(1, stats_of(&fx).connections);
  fx.events = 0;
  fixture_pass(&fx, 100); /* told once */
  CHECK_INT(0, fx.events);
  answer_held(&fx, 0, "late"); /* what the application makes of it is its own affair */
  fixture_run(&fx);
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  /* The next one has its own. */
  client_send(client, GET("/b"));
  fixture_run(&fx);
  fixture_pass(&fx, 5);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  CHECK_INT(0, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

CHECK_CASE(request_in_time) {
  fixture fx;
  start_with_request_timeout(&fx, 5);
  int client = held_request(&fx);
  for (int i = 0; i < 10; i++) {
    fixture_pass(&fx, 4);
    answer_held(&fx, 0, "x");
    client_send(client, GET("/b"));
    fixture_run(&fx);
  }
  CHECK_INT(0, fx.events);
  CHECK_INT(0, stats_of(&fx).expired);
  fixture_end(&fx, client);
}

static void set_time(fixture *fx, ab_nsec time) {
  ab_engine_lock(fx->engine);
  ab_exchange_set_time(fx->held[0], time);
  ab_engine_unlock(fx->engine);
}

/* The application gives a request more time, less, all of it, and some again after it has passed.
 */
CHECK_CASE(request_with_a_time_of_its_own) {
  fixture fx;
  start_with_request_timeout(&fx, 5);
  int client = held_request(&fx);
  set_time(&fx, 50 * AB_NSEC_PER_SEC);
  fixture_pass(&fx, 49);
  CHECK_INT(0, fx.events);
  set_time(&fx, 2 * AB_NSEC_PER_SEC);
  fixture_pass(&fx, 2);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  CHECK_INT(AB_EVENT_DEADLINE, ab_exchange_news(fx.held[0]));
  fx.events = 0;
  set_time(&fx, 3 * AB_NSEC_PER_SEC);
  CHECK_INT(0, ab_exchange_news(fx.held[0]));
  set_time(&fx, 0);
  fixture_pass(&fx, 1000);
  CHECK_INT(0, fx.events);
  answer_held(&fx, 0, "x");
  client_send(client, GET("/b")); /* has the listener's again */
  fixture_run(&fx);
  fixture_pass(&fx, 5);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  close(client);
  fixture_run(&fx);
  set_time(&fx, AB_NSEC_PER_SEC); /* nobody is there: no timer is left behind */
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  fixture_fini(&fx);
}

/* A request that nobody has taken is answered in its place. */
CHECK_CASE(request_that_waits_too_long) {
  fixture fx;
  start_with_request_timeout(&fx, 5);
  fx.mute = true;
  int client = client_with(&fx, GET("/a"));
  CHECK_INT(1, stats_of(&fx).waiting);
  fixture_pass(&fx, 4);
  CHECK_INT(1, stats_of(&fx).waiting);
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).waiting);
  bool end;
  CHECK(strstr(client_read(client, &end), "HTTP/1.1 503 Service Unavailable\r\n"));
  CHECK(end);
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(0, fx.taken);
  fixture_end(&fx, client);
}

/* Both deadlines of one connection pass, each at its time. */
CHECK_CASE(request_and_slow_reader) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.request_timeout = 5;
  fx.limits.min_send_rate = 0;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  write_part(&fx, sizeof plenty);
  fixture_pass(&fx, 5);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  fixture_pass(&fx, 24);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(AB_EVENT_DEADLINE | AB_EVENT_GONE, fx.events);
  fixture_end(&fx, client);
}

CHECK_CASE(no_request_timeout_by_default) {
  fixture fx;
  fixture_init(&fx);
  int client = held_request(&fx);
  CHECK_INT(0, fx.held[0]->deadline);
  fixture_pass(&fx, 1000);
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  CHECK_INT(0, fx.events);
  fixture_end(&fx, client);
}

/* Gone and late at once: the structure waits for the application, and no timer is left. */
CHECK_CASE(request_of_a_peer_that_has_gone) {
  fixture fx;
  start_with_request_timeout(&fx, 5);
  int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
  client_reset(client);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  fixture_pass(&fx, 10);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  CHECK_INT(0, stats_of(&fx).expired);
  fixture_fini(&fx);
}

/* --- a peer that has gone, by a look and by a half-close --- */

CHECK_CASE(look_at_a_peer_that_was_reset) {
  fixture fx;
  fixture_init(&fx);
  int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
  ab_exchange *exchange = fx.held[0];
  ab_engine_lock(fx.engine);
  CHECK(!ab_exchange_look(exchange));
  CHECK_INT(0, ab_exchange_news(exchange));
  ab_engine_unlock(fx.engine);
  client_reset(client);
  ab_engine_lock(fx.engine);
  CHECK(!ab_exchange_gone(exchange)); /* the engine had no turn */
  CHECK(ab_exchange_look(exchange));
  CHECK(ab_exchange_look(exchange));
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(AB_EVENT_GONE, ab_exchange_news(exchange));
  ab_engine_unlock(fx.engine);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  fixture_fini(&fx);
}

CHECK_CASE(half_close_is_gone) {
  for (int mute = 0; mute < 2; mute++) {
    fixture fx;
    fixture_init(&fx);
    ab_engine_set_half_close(fx.engine, AB_HALF_CLOSE_GONE, false);
    fx.mute = mute;
    fx.hold = true;
    int client = client_tcp(fixture_listen(&fx));
    client_send(client, GET("/a"));
    fixture_run(&fx);
    CHECK_INT(mute, stats_of(&fx).waiting);
    shutdown(client, SHUT_WR);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(0, stats_of(&fx).waiting);
    CHECK_INT(mute ? 0 : AB_EVENT_GONE, fx.events);
    fixture_end(&fx, client);
  }
}

/* A look sees what the poller has yet to tell. */
CHECK_CASE(half_close_by_a_look) {
  for (int gone = 0; gone < 2; gone++) {
    fixture fx;
    fixture_init(&fx);
    ab_engine_set_half_close(fx.engine, gone ? AB_HALF_CLOSE_GONE : AB_HALF_CLOSE_ANSWER, false);
    int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
    shutdown(client, SHUT_WR);
    ab_engine_lock(fx.engine);
    CHECK_INT(gone, ab_exchange_look(fx.held[0]));
    ab_engine_unlock(fx.engine);
    fixture_end(&fx, client);
  }
}

/* Who is watched is asked; only a closed socket answers by a reset. */
CHECK_CASE(half_close_is_asked) {
  for (int closes = 0; closes < 2; closes++) {
    fixture fx;
    fixture_init(&fx);
    ab_engine_set_half_close(fx.engine, AB_HALF_CLOSE_ASK, true);
    int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
    if (closes) {
      close(client);
    } else {
      shutdown(client, SHUT_WR);
    }
    fixture_run(&fx);
    fixture_run(&fx);
    CHECK_INT(closes, ab_exchange_gone(fx.held[0]));
    CHECK_INT(closes ? AB_EVENT_GONE : 0, fx.events);
    if (!closes) {
      CHECK(strcmp("HTTP/1.1 100 Continue\r\n\r\n", client_read(client, NULL)) == 0);
      close(client);
    }
    fixture_fini(&fx);
  }
}

/* Who is not watched hears nothing, until somebody wants to know: and then once. */
CHECK_CASE(half_close_is_asked_on_demand) {
  fixture fx;
  fixture_init(&fx);
  int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  CHECK(*client_read(client, NULL) == 0);
  ab_engine_lock(fx.engine);
  ab_exchange_watch_peer(fx.held[0]);
  CHECK(!ab_exchange_look(fx.held[0]));
  ab_engine_unlock(fx.engine);
  fixture_run(&fx);
  CHECK(strcmp("HTTP/1.1 100 Continue\r\n\r\n", client_read(client, NULL)) == 0);
  fixture_end(&fx, client);
}

/* Between requests a half-close is the usual end. */
CHECK_CASE(half_close_with_the_request) {
  fixture fx;
  fixture_init(&fx);
  ab_engine_set_half_close(fx.engine, AB_HALF_CLOSE_GONE, false);
  int client = client_tcp(fixture_listen(&fx));
  client_send(client, GET("/a"));
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  CHECK_INT(0, fx.taken);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* --- listeners with limits of their own --- */

static uint16_t listen_with(fixture *fx, const ab_limits *limits) {
  return fixture_listen_on(fx, &(ab_listener_terms){.limits = limits});
}

static const char *ask(fixture *fx, uint16_t port, const char *bytes) {
  int client = client_tcp(port);
  client_send(client, bytes);
  fixture_run(fx);
  const char *text = client_read(client, NULL);
  close(client);
  fixture_run(fx);
  return text;
}

CHECK_CASE(each_listener_has_its_limits) {
  fixture fx;
  fixture_init(&fx);
  ab_limits strict = fx.limits;
  strict.max_body_size = 3;
  strict.header_timeout = 2;
  strict.max_requests_per_connection = 1;
  uint16_t usual = listen_with(&fx, NULL), narrow = listen_with(&fx, &strict);
  strict.max_body_size = 1; /* copied: this changes nothing */
  CHECK(strstr(ask(&fx, usual, POST("/a", 4) "1234"), "200 OK"));
  CHECK(strstr(ask(&fx, narrow, POST("/a", 3) "123"), "Connection: close"));
  CHECK(strstr(ask(&fx, narrow, POST("/a", 4) "1234"), " 413 "));
  int slow = client_tcp(usual), late = client_tcp(narrow);
  client_send(slow, "GET /");
  client_send(late, "GET /");
  fixture_run(&fx);
  fixture_pass(&fx, 2);
  CHECK(strstr(client_read(late, NULL), " 408 "));
  CHECK_INT(0, strlen(client_read(slow, NULL)));
  close(slow);
  close(late);
  fixture_fini(&fx);
}

/* More fields than the engine has had room for, from a listener that came while it serves. */
CHECK_CASE(listener_with_more_fields) {
  fixture fx;
  fixture_init(&fx);
  ab_limits wide = fx.limits;
  wide.max_header_count = 3000;
  wide.max_head_size = 1 << 20;
  uint16_t usual = listen_with(&fx, NULL);
  static char bytes[60000];
  size_t len = (size_t)snprintf(bytes, sizeof bytes, "GET /a HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 2500; i++) {
    len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "X-%d: v\r\n", i);
  }
  snprintf(bytes + len, sizeof(bytes) - len, "\r\n");
  CHECK(strstr(ask(&fx, usual, bytes), " 431 "));
  uint16_t roomy = listen_with(&fx, &wide);
  CHECK(strstr(ask(&fx, roomy, bytes), "200 OK"));
  CHECK(strstr(ask(&fx, usual, bytes), " 431 "));
  fixture_fini(&fx);
}

CHECK_CASE(listener_without_memory) {
  fixture fx;
  fixture_init(&fx);
  ab_limits wide = fx.limits;
  ab_net net = {0};
  wide.max_header_count = 3000;
  const ab_listener_terms terms = {
      .limits = &wide, .proxy_accept = AB_PROXY_V1, .proxies = &net, .proxy_count = 1};
  size_t nth = 1;
  while (fx.mem.fail_at = fx.mem.calls + nth, !fixture_listen_on(&fx, &terms)) {
    CHECK(!ab_engine_listener(fx.engine, 0));
    nth++;
  }
  CHECK(nth > 4); /* the listener, the service, the networks, the arena */
  fx.mem.fail_at = 0;
  wide.max_header_count = UINT64_MAX / 8;
  CHECK_INT(0, fixture_listen_on(&fx, &terms));
  CHECK(!ab_engine_listener(fx.engine, 1));
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* --- more time, and the end of patience --- */

CHECK_CASE(a_request_gets_more_time) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.request_timeout = 5;
  CHECK(fixture_start(&fx));
  int client = held_request(&fx);
  CHECK_INT(fx.now + 5 * AB_NSEC_PER_SEC, ab_exchange_deadline(fx.held[0]));
  ab_exchange_add_time(fx.held[0], 3 * AB_NSEC_PER_SEC);
  fixture_pass(&fx, 7);
  CHECK_INT(0, fx.events);
  fixture_pass(&fx, 1);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  CHECK_INT(AB_EVENT_DEADLINE, ab_exchange_news(fx.held[0]));
  CHECK_INT(0, ab_exchange_deadline(fx.held[0]));
  fx.events = 0;
  ab_exchange_add_time(fx.held[0], 2 * AB_NSEC_PER_SEC); /* from now on */
  CHECK_INT(0, ab_exchange_news(fx.held[0]));
  fixture_pass(&fx, 1);
  CHECK_INT(0, fx.events);
  fixture_pass(&fx, 1);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  ab_exchange_set_time(fx.held[0], 0);
  ab_exchange_add_time(fx.held[0], AB_NSEC_PER_SEC); /* it has as much as it wants */
  CHECK_INT(0, ab_exchange_deadline(fx.held[0]));
  ab_exchange_set_time(fx.held[0], AB_NSEC_PER_SEC);
  ab_exchange_add_time(fx.held[0], UINT64_MAX - 1);
  CHECK(ab_exchange_deadline(fx.held[0]) == UINT64_MAX);
  fixture_end(&fx, client);
}

CHECK_CASE(a_request_is_abandoned) {
  for (int how = AB_FINISH_BROKEN; how <= AB_FINISH_RESET; how++) {
    fixture fx;
    fixture_init(&fx);
    int client = held_request_of(&fx, client_tcp(fixture_listen(&fx)));
    ab_engine_lock(fx.engine);
    CHECK_INT(AB_OK, ab_exchange_write(fx.held[0], "last words", 10));
    ab_exchange_abandon(fx.held[0], (enum ab_finish)how);
    ab_exchange_abandon(fx.held[0], (enum ab_finish)how);
    CHECK(ab_exchange_gone(fx.held[0]));
    CHECK_INT(AB_EPEER, ab_exchange_write(fx.held[0], "too late", 8));
    ab_engine_unlock(fx.engine);
    fixture_run(&fx);
    CHECK_INT(AB_EVENT_GONE, fx.events);
    char buf[32];
    ssize_t n = recv(client, buf, sizeof buf, 0);
    if (how != AB_FINISH_RESET) {
      CHECK_BYTES("last words", buf, n > 0 ? (size_t)n : 0);
      CHECK_INT(0, recv(client, buf, sizeof buf, 0));
    } else if (n > 0) {
      CHECK_INT(-1, recv(client, buf, sizeof buf, 0));
    }
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(1, stats_of(&fx).in_app);
    fixture_end(&fx, client);
  }
}

CHECK_MAIN()
