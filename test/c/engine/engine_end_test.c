/* How connections end: errors, lingering, peers that go in any state, deadlines, drain, abort. */
#include "engine/fixture.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"
#define EXPECT(path, n)                                                                            \
  "POST " path " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"

static char plenty[4 << 20];

/* A response that does not fit into the socket, and is finished. */
static void answer_big(fixture *fx, unsigned i, bool keep) {
  ab_exchange *exchange = fx->held[i];
  fx->held[i] = fx->held[--fx->held_count];
  ab_engine_lock(fx->engine);
  if (!keep) ab_exchange_close_after(exchange);
  CHECK_INT(AB_OK, respond(fx, exchange, plenty, sizeof plenty, true));
  ab_exchange_finish(exchange, true);
  ab_engine_unlock(fx->engine);
}

static void check_gone(fixture *fx, int client) {
  bool end;
  client_read(client, &end);
  CHECK(end);
  CHECK_INT(0, stats_of(fx).connections);
}

/* --- errors --- */

CHECK_CASE(error_is_answered_and_lingers) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, GET("/a") "GET / HTTP/1.1\nHost: x\r\n\r\n");
  bool end;
  const char *text = client_read(client, &end);
  CHECK_INT(1, occurrences(text, "200 OK"));
  const char *error = strstr(text, "HTTP/1.1 400 Bad Request\r\nDate: ");
  CHECK(error &&
        strstr(error, "\r\nContent-Length: 16\r\nConnection: close\r\n\r\n400 Bad Request\n"));
  CHECK(end);
  CHECK_INT(1, stats_of(&fx).errors);
  CHECK_INT(1, fx.taken);
  CHECK_INT(1, stats_of(&fx).connections);
  client_send(client, GET("/b")); /* thrown away */
  fixture_run(&fx);
  CHECK_INT(1, fx.taken);
  fixture_pass(&fx, (unsigned)fx.limits.linger_timeout);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* A HEAD that is refused gets no content (RFC 9110 9.3.2), whoever comes after it does. */
CHECK_CASE(error_to_a_head_request) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_body_size = 3;
  CHECK(fixture_start(&fx));
  static const struct {
    const char *text;
    bool content;
  } cases[] = {{"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", false},
               {"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" POST("/b", 4), true},
               {"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nbad\r\n\r\n", true}};
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    int client = client_with(&fx, cases[i].text);
    const char *error = strstr(client_read(client, NULL), "HTTP/1.1 4");
    CHECK(error && strstr(error, "\r\nContent-Length: "));
    const char *content = error ? strstr(error, "\r\n\r\n") + 4 : "";
    CHECK_INT(cases[i].content, *content != '\0');
    close(client);
    fixture_run(&fx);
  }
  fixture_fini(&fx);
}

/* The reset for unread bytes must not overtake the response (RFC 9112 9.6). */
CHECK_CASE(error_survives_what_is_still_sent) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_body_size = 10;
  CHECK(fixture_start(&fx));
  int client = client_tcp(fixture_listen(&fx));
  static char head[] = POST("/a", 1000000);
  client_send(client, head);
  fixture_run(&fx);
  for (int i = 0; i < 20; i++) {
    client_send_bytes(client, plenty, 20000);
    fixture_run(&fx);
  }
  bool end;
  CHECK(strstr(client_read(client, &end), "HTTP/1.1 413 "));
  CHECK(end && errno != ECONNRESET);
  CHECK_INT(1, stats_of(&fx).connections);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

CHECK_CASE(error_in_a_body) {
  fixture fx;
  fixture_init(&fx);
  int client =
      client_with(&fx, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n");
  client_send(client, "abc");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "HTTP/1.1 400 "));
  CHECK(end);
  CHECK_INT(1, fx.taken);
  fixture_end(&fx, client);
}

CHECK_CASE(lingering_is_not_for_ever) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, "\x16\x03\x01");
  for (int i = 0; i < 20; i++) {
    fixture_run(&fx);
    send(client, "more", 4, MSG_NOSIGNAL);
    fx.now += AB_NSEC_PER_SEC / 5;
  }
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* More in one turn than there is room for are not worth their memory. */
CHECK_CASE(aliens_are_noticed) {
  fixture fx;
  fixture_init(&fx);
  ab_notice notice;
  CHECK(!ab_engine_next_notice(fx.engine, &notice));
  for (int round = 0; round < 3; round++) {
    int clients[AB_NOTICES + 3];
    for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) {
      clients[i] = client_open(&fx);
      client_send(clients[i], i == 0 ? "SSH-2.0-x\r\n" : "\x16\x03\x01");
    }
    int plain = client_open(&fx), kept = client_open(&fx);
    client_send(plain, "no request\r\n\r\n");
    client_send(kept, GET("/a") "SSH-2.0-x\r\n"); /* behind a request it is a bad one */
    fixture_run(&fx);
    unsigned count = 0, banners = 0;
    while (ab_engine_next_notice(fx.engine, &notice)) {
      count++;
      banners += strcmp(notice.what, "an SSH banner") == 0;
    }
    CHECK_INT(AB_NOTICES, count);
    CHECK_INT(1, banners);
    CHECK(strstr(client_read(clients[0], NULL), "HTTP/1.1 400 "));
    for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
    close(plain);
    close(kept);
    fixture_run(&fx);
  }
  fixture_fini(&fx);
}

/* --- the peer goes --- */

CHECK_CASE(gone_in_each_state) {
  fixture fx;
  fixture_init(&fx);
  static const struct {
    const char *text;
    bool mute;
  } cases[] = {{"", false},       {"GET /a HT", false},        {POST("/a", 10) "12345", false},
               {GET("/a"), true}, {GET("/a") GET("/b"), true}, {"no request\r\n\r\n", false}};
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    fx.mute = cases[i].mute;
    int client = client_with(&fx, cases[i].text);
    CHECK_INT(1, stats_of(&fx).connections);
    CHECK_INT(cases[i].mute, stats_of(&fx).waiting);
    close(client);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(0, stats_of(&fx).waiting);
  }
  CHECK_INT(1, fx.taken); /* the one whose body is read */
  CHECK_INT(0, fx.events);
  fixture_fini(&fx);
}

CHECK_CASE(reset_in_each_state) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  static const char *const texts[] = {"", "GET /a HT", POST("/a", 10) "12345",
                                      "no request\r\n\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(texts); i++) {
    int client = client_tcp(port);
    client_send(client, texts[i]);
    fixture_run(&fx);
    client_reset(client);
    fixture_run(&fx);
    CHECK_INT(i + 1, stats_of(&fx).accepted);
    CHECK_INT(0, stats_of(&fx).connections);
  }
  fixture_fini(&fx);
}

CHECK_CASE(gone_while_the_application_works) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a") GET("/b"));
  ab_exchange *exchange = fx.held[0];
  close(client);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, stats_of(&fx).in_app);
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(AB_EPEER, ab_exchange_write(exchange, "x", 1));
  CHECK_INT(AB_EPEER, lend(&fx, exchange, "x", 1));
  CHECK_INT(AB_EPEER, ab_exchange_file(exchange, 0, 0, 1, &fx));
  CHECK(!ab_exchange_want_room(exchange));
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  CHECK_INT(0, fx.released);
  ab_engine_lock(fx.engine);
  ab_exchange_finish(exchange, true);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).in_app);
  CHECK_INT(1, fx.taken);
  fixture_fini(&fx);
}

/* Whatever the application waits for, it is told; its own state stays readable. */
CHECK_CASE(gone_while_the_application_waits) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty, sizeof plenty));
  CHECK(ab_exchange_want_room(fx.held[0]));
  ab_engine_unlock(fx.engine);
  close(client);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE | AB_EVENT_BODY | AB_EVENT_DRAINED, fx.events);
  CHECK_INT(AB_EPEER, ab_exchange_body_error(fx.held[0]));
  CHECK_INT(1, fx.released);
  read_what_is_there(&fx, fx.held[0], &result); /* and once more, too late */
  CHECK_INT(AB_EPEER, result);
  fixture_fini(&fx);
}

CHECK_CASE(finish_before_gone_is_taken) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_engine_abort(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK_INT(0, fx.events); /* nobody is left to be told */
  CHECK_INT(1, fx.failed);
  check_gone(&fx, client);
  fixture_end(&fx, client);
}

CHECK_CASE(gone_while_closing) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  answer_big(&fx, 0, false);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).connections);
  CHECK_INT(0, fx.released);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, fx.released);
  fixture_fini(&fx);
}

/* The peer has said all that it had to say, and reads on: it gets the whole answer. */
CHECK_CASE(half_closed_peer_gets_its_answer) {
  for (int hold = 0; hold < 2; hold++) {
    fixture fx;
    fixture_init(&fx);
    fx.hold = true;
    int client = client_open(&fx);
    client_send(client, GET("/a"));
    if (!hold) shutdown(client, SHUT_WR);
    fixture_run(&fx);
    answer_big(&fx, 0, true);
    if (hold) shutdown(client, SHUT_WR);
    fixture_run(&fx);
    size_t head = strlen("HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n");
    CHECK_INT(head + sizeof plenty, client_drain(&fx, client));
    CHECK_INT(1, fx.released);
    check_gone(&fx, client);
    fixture_end(&fx, client);
  }
}

/* --- deadlines --- */

CHECK_CASE(idle_without_a_request) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  fixture_run(&fx);
  fixture_pass(&fx, (unsigned)fx.limits.header_timeout - 1);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 1);
  check_gone(&fx, client);
  CHECK_INT(1, stats_of(&fx).timeouts);
  CHECK_INT(0, stats_of(&fx).errors);
  fixture_end(&fx, client);
}

/* A server that had nothing to do for hours does not know better what time it is. */
CHECK_CASE(accepted_after_a_long_sleep) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  fixture_run(&fx);
  fx.now += 5000 * AB_NSEC_PER_SEC;
  int client = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 5);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 5);
  check_gone(&fx, client);
  fixture_end(&fx, client);
}

CHECK_CASE(idle_between_requests) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, GET("/a"));
  fixture_pass(&fx, (unsigned)fx.limits.persistent_timeout - 1);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).connections);
  bool end;
  CHECK(!strstr(client_read(client, &end), "408"));
  CHECK(end);
  fixture_end(&fx, client);
}

/* Dribbling does not move the deadline of a head, on a fresh connection and on a kept one. */
CHECK_CASE(head_that_dribbles) {
  for (int kept = 0; kept < 2; kept++) {
    fixture fx;
    fixture_init(&fx);
    int client = client_open(&fx);
    if (kept) client_send(client, GET("/a"));
    fixture_pass(&fx, 5);
    client_read(client, NULL);
    for (int i = 0; i < 9; i++) {
      client_send(client, i == 0 ? "G" : i == 1 ? "ET / HTTP/1.1\r\n" : "X: y\r\n");
      fixture_run(&fx);
      fx.now += AB_NSEC_PER_SEC;
    }
    fixture_run(&fx);
    CHECK_INT(1, stats_of(&fx).connections);
    CHECK_INT(0, stats_of(&fx).errors);
    fixture_pass(&fx, 1);
    bool end;
    CHECK(strstr(client_read(client, &end), "HTTP/1.1 408 "));
    CHECK(end);
    CHECK_INT(1, stats_of(&fx).errors);
    fixture_end(&fx, client);
  }
}

/* A loop that was kept busy finds bytes that came in time: they count. */
CHECK_CASE(bytes_in_time_count) {
  fixture fx;
  fixture_init(&fx);
  int idle = client_open(&fx), head = client_open(&fx), body = client_open(&fx);
  client_send(idle, GET("/i"));
  client_send(head, "GET /h HTTP/1.1\r\n");
  client_send(body, POST("/b", 3) "1");
  fixture_run(&fx);
  client_read(idle, NULL);
  client_send(idle, GET("/i"));
  client_send(head, "Host: x\r\n\r\n");
  client_send(body, "23");
  fixture_pass(&fx, 100);
  CHECK_INT(4, fx.taken);
  CHECK(strstr(client_read(idle, NULL), "200 OK"));
  CHECK(strstr(client_read(head, NULL), "200 OK"));
  CHECK(strstr(client_read(body, NULL), "/b:123"));
  CHECK_INT(0, stats_of(&fx).timeouts);
  close(idle);
  close(head);
  close(body);
  fixture_fini(&fx);
}

CHECK_CASE(body_that_stops) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_body_rate = 0;
  CHECK(fixture_start(&fx));
  int client = client_with(&fx, POST("/a", 10));
  for (int i = 0; i < 5; i++) {
    fixture_pass(&fx, 25);
    client_send(client, "1");
    fixture_run(&fx);
  }
  fixture_pass(&fx, 29);
  CHECK_INT(0, stats_of(&fx).errors);
  fixture_pass(&fx, 1);
  CHECK(strstr(client_read(client, NULL), "HTTP/1.1 408 "));
  fixture_end(&fx, client);
}

CHECK_CASE(body_too_slow) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, POST("/a", 100000));
  for (int i = 0; i < 9; i++) {
    client_send(client, "0123456789");
    fixture_run(&fx);
    fx.now += AB_NSEC_PER_SEC;
  }
  CHECK_INT(0, stats_of(&fx).errors);
  fixture_pass(&fx, 2);
  CHECK(strstr(client_read(client, NULL), "HTTP/1.1 408 "));
  fixture_end(&fx, client);
}

CHECK_CASE(expected_body_stops) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  fixture_pass(&fx, 100); /* before the application asks, nothing is late */
  CHECK_INT(0, fx.events);
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  fixture_pass(&fx, 30);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK_INT(AB_HTTP_REQUEST_TIMEOUT, ab_exchange_body_error(fx.held[0]));
  fixture_pass(&fx, 100); /* the application is not hurried */
  CHECK_INT(1, stats_of(&fx).in_app);
  CHECK_INT(1, stats_of(&fx).timeouts);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close"));
  CHECK(end);
  fixture_end(&fx, client);
}

/* The application may take its time, and so may a request in the queue without queue_timeout. */
CHECK_CASE(no_deadline_for_the_application) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 0;
  CHECK(fixture_start(&fx));
  fx.hold = true;
  int a = client_open(&fx), b = client_open(&fx);
  client_send(a, GET("/a"));
  fixture_run(&fx);
  fx.mute = true;
  client_send(b, GET("/b"));
  fixture_run(&fx);
  fixture_pass(&fx, 100000);
  CHECK_INT(2, stats_of(&fx).connections);
  fx.mute = fx.hold = false;
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK(strstr(client_read(a, NULL), "200 OK"));
  CHECK(strstr(client_read(b, NULL), "200 OK"));
  CHECK_INT(0, stats_of(&fx).timeouts);
  close(a);
  close(b);
  fixture_fini(&fx);
}

CHECK_CASE(peer_that_reads_nothing) {
  for (int keep = 0; keep < 2; keep++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.min_send_rate = 0;
    CHECK(fixture_start(&fx));
    fx.hold = true;
    int client = client_with(&fx, GET("/a"));
    answer_big(&fx, 0, keep);
    fixture_run(&fx);
    fixture_pass(&fx, 29);
    CHECK_INT(1, stats_of(&fx).connections);
    fixture_pass(&fx, 1);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(1, stats_of(&fx).timeouts);
    CHECK_INT(1, fx.released);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(peer_that_reads_slowly) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.min_send_rate = 0;
  CHECK(fixture_start(&fx));
  fx.hold = true;
  int client = client_with(&fx, GET("/a"));
  answer_big(&fx, 0, true);
  fixture_run(&fx);
  char buf[200000];
  size_t total = 0;
  for (int i = 0; i < 20; i++) {
    fixture_pass(&fx, 25);
    for (ssize_t n; (n = recv(client, buf, sizeof buf, 0)) > 0;) total += (size_t)n;
    fixture_run(&fx);
  }
  CHECK(total > sizeof plenty);
  CHECK_INT(0, stats_of(&fx).timeouts);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* The response is stuck already when the rest of its connection goes on: the deadline stays. */
CHECK_CASE(stuck_response_keeps_its_deadline) {
  for (int state = 0; state < 4; state++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.max_pending_output = 16 << 20;
    fx.limits.min_send_rate = 0;
    CHECK(fixture_start(&fx));
    fx.hold = true;
    int client = client_with(&fx, GET("/a"));
    ab_engine_lock(fx.engine);
    if (state == 1) ab_exchange_close_after(fx.held[0]);
    CHECK_INT(AB_OK, respond(&fx, fx.held[0], plenty, sizeof plenty, true));
    ab_exchange_flush(fx.held[0]);
    CHECK(fx.held[0]->conn->blocked);
    if (state > 0) {
      ab_exchange_finish(fx.held[0],
                         true); /* 1: closing; 2: a head; 3: with the application again */
      fx.held_count = 0;
    }
    ab_engine_unlock(fx.engine);
    if (state >= 2) client_send(client, state == 2 ? "GET /b" : GET("/b"));
    fixture_run(&fx);
    CHECK_INT(1, stats_of(&fx).connections);
    CHECK_INT(state == 0 || state == 3, fx.held_count);
    fixture_pass(&fx, 29);
    CHECK_INT(1, stats_of(&fx).connections);
    fixture_pass(&fx, 1);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(1, fx.released);
    CHECK_INT(state == 0 || state == 3 ? AB_EVENT_GONE : 0, fx.events);
    fixture_end(&fx, client);
  }
}

/* After a stuck response the deadline of a head that has begun counts again. */
CHECK_CASE(head_behind_a_stuck_response) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_pending_output = 16 << 20;
  CHECK(fixture_start(&fx));
  fx.hold = true;
  int client = client_with(&fx, GET("/a") "GET /b");
  answer_big(&fx, 0, true);
  fixture_run(&fx);
  CHECK(client_drain(&fx, client) > sizeof plenty);
  fixture_pass(&fx, 9);
  CHECK_INT(0, stats_of(&fx).errors);
  fixture_pass(&fx, 1);
  CHECK_INT(1, stats_of(&fx).errors);
  CHECK(strstr(client_read(client, NULL), "408"));
  fixture_end(&fx, client);
}

CHECK_CASE(next_deadline_is_told) {
  fixture fx;
  fixture_init(&fx);
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  int client = client_open(&fx);
  fixture_run(&fx);
  ab_nsec deadline = ab_engine_deadline(fx.engine), due = fx.now + 10 * AB_NSEC_PER_SEC;
  CHECK(deadline >= due && deadline <= due + AB_WHEEL_TICK);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, ab_engine_deadline(fx.engine));
  fixture_fini(&fx);
}

/* --- drain, abort, detach --- */

/* The last answer on the connection: it says so, and the connection ends. */
static void check_final(int client, const char *path) {
  bool end;
  const char *text = client_read(client, &end);
  CHECK_INT(1, occurrences(text, "Connection: close\r\n\r\n"));
  const char *content = strstr(text, "Connection: close\r\n\r\n");
  CHECK(content && strcmp(strstr(content, "\r\n\r\n") + 4, path) == 0);
  CHECK(end);
}

static bool has_ended(int client) {
  bool end;
  CHECK_INT(0, strlen(client_read(client, &end)));
  return end;
}

static void pass_grace(fixture *fx) {
  fx->now += AB_DRAIN_GRACE + AB_WHEEL_TICK;
  fixture_run(fx);
}

CHECK_CASE(drain_closes_the_idle_and_answers_the_busy) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int idle = client_open(&fx), busy = client_open(&fx), late = client_open(&fx);
  client_send(busy, GET("/a") GET("/b"));
  fixture_run(&fx);
  fixture_pass(&fx, 1);
  client_send(late, GET("/c")); /* sent before the peer could know */
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  CHECK_INT(2, fx.held_count);
  while (fx.held_count) answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  check_final(busy, "x");
  check_final(late, "x");
  CHECK(!has_ended(idle));
  fixture_pass(&fx, 2); /* the one with a request that nobody took lingers */
  CHECK(has_ended(idle));
  CHECK_INT(0, stats_of(&fx).connections);
  close(idle);
  close(busy);
  close(late);
  fixture_fini(&fx);
}

/* A new connection, or a kept one, that has been idle for so many seconds. */
static int idle_client(fixture *fx, bool kept, unsigned seconds) {
  int client = kept ? client_with(fx, GET("/before")) : client_open(fx);
  fixture_run(fx);
  fixture_pass(fx, seconds);
  if (kept) CHECK(strstr(client_read(client, NULL), "/before"));
  return client;
}

/* However long it has been idle: the peer has not heard of the end, and may have sent a request. */
CHECK_CASE(drain_waits_for_requests_on_their_way) {
  for (int kept = 0; kept < 2; kept++) {
    for (unsigned idle = 0; idle < 10; idle += 4) {
      fixture fx;
      fixture_init(&fx);
      int asks = idle_client(&fx, kept, 0), silent = idle_client(&fx, kept, idle);
      ab_engine_drain(fx.engine, fx.now);
      fixture_run(&fx);
      CHECK(ab_engine_deadline(fx.engine) <= fx.now + AB_DRAIN_GRACE + AB_WHEEL_TICK);
      fx.now += AB_DRAIN_GRACE - AB_DRAIN_GRACE / 8;
      fixture_run(&fx);
      client_send(asks, GET("/a"));
      fixture_run(&fx);
      check_final(asks, "/a");
      CHECK(!has_ended(silent));
      fx.now += AB_DRAIN_GRACE / 8 + AB_WHEEL_TICK;
      fixture_run(&fx);
      CHECK(has_ended(silent));
      CHECK_INT(0, stats_of(&fx).connections);
      CHECK_INT(0, stats_of(&fx).timeouts);
      close(asks);
      fixture_end(&fx, silent);
    }
  }
}

/* The time is over, and a request is there that no turn has seen yet. */
CHECK_CASE(drain_looks_once_more) {
  fixture fx;
  fixture_init(&fx);
  int client = idle_client(&fx, true, 5);
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  client_send(client, GET("/a"));
  pass_grace(&fx);
  check_final(client, "/a");
  fixture_end(&fx, client);
}

/* A head that promises to keep the connection, with content of which `rest` is still to be said. */
static void promise(fixture *fx, const char *rest) {
  char head[128];
  ab_engine_lock(fx->engine);
  CHECK(ab_exchange_keep_alive(fx->held[0]));
  int n =
      snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(rest));
  CHECK_INT(AB_OK, ab_exchange_write(fx->held[0], head, (size_t)n));
  ab_exchange_flush(fx->held[0]);
  ab_engine_unlock(fx->engine);
}

static void keep_promise(fixture *fx, const char *rest) {
  ab_exchange *exchange = fx->held[0];
  fx->held[0] = fx->held[--fx->held_count];
  ab_engine_lock(fx->engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, rest, strlen(rest)));
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

/* Then the drain begins, and the rest of the request, if there is more of it, comes. The next
 * request is sent at once, later, or never. */
static void check_promise(const char *request, const char *more, bool before_the_end, int later) {
  fixture fx;
  int client = fixture_init_held(&fx, request);
  promise(&fx, "kept");
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  if (before_the_end) client_send(client, more);
  fx.now += 3 * AB_DRAIN_GRACE; /* in one long turn */
  keep_promise(&fx, "kept");
  fx.hold = false;
  fixture_run(&fx);
  if (!before_the_end) client_send(client, more);
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "\r\n\r\nkept"));
  CHECK(!end);
  fx.now += AB_DRAIN_GRACE - AB_DRAIN_GRACE / 8;
  fixture_run(&fx);
  if (later) {
    client_send(client, GET("/b"));
    fixture_run(&fx);
    check_final(client, "/b");
  } else {
    CHECK(!has_ended(client));
    pass_grace(&fx);
    CHECK(has_ended(client));
  }
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(0, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

CHECK_CASE(drain_after_a_head_that_keeps) {
  for (int later = 0; later < 2; later++) check_promise(GET("/a"), "", false, later);
}

CHECK_CASE(drain_after_a_head_that_keeps_and_a_body) {
  for (int i = 0; i < 4; i++) check_promise(POST("/a", 9) "abc", "defghi", i & 1, i & 2);
}

/* What was sent behind it is not the client's to send again: no response has said so. */
CHECK_CASE(drain_between_pipelined_requests) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a") GET("/b"));
  promise(&fx, "kept");
  ab_engine_drain(fx.engine, fx.now);
  keep_promise(&fx, "kept");
  fx.hold = false;
  fixture_run(&fx);
  CHECK_INT(2, fx.taken);
  const char *text = client_read(client, NULL);
  CHECK(strstr(text, "\r\n\r\nkeptHTTP/1.1 200 OK\r\n"));
  CHECK_INT(1, occurrences(text, "Connection: close\r\n\r\n/b"));
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* The response was over when the drain began, and its request was not. */
CHECK_CASE(drain_while_a_body_is_skipped) {
  for (int asks = 0; asks < 2; asks++) {
    fixture fx;
    int client = fixture_init_held(&fx, POST("/a", 9) "abc");
    answer_held(&fx, 0, "x");
    fx.hold = false;
    fixture_run(&fx);
    ab_engine_drain(fx.engine, fx.now);
    fixture_pass(&fx, 5);
    client_send(client, "defghi");
    fixture_run(&fx);
    bool end;
    CHECK(strstr(client_read(client, &end), "\r\n\r\nx"));
    CHECK(!end);
    if (asks) {
      client_send(client, GET("/b"));
      fixture_run(&fx);
      check_final(client, "/b");
    }
    pass_grace(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(drain_waits_for_the_rest_of_a_head) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, "GET /a HTTP/1.1\r\n");
  ab_engine_drain(fx.engine, fx.now);
  fixture_pass(&fx, 1);
  client_send(client, "Host: a.test\r\n\r\n");
  fixture_run(&fx);
  bool end;
  CHECK_INT(1, occurrences(client_read(client, &end), "Connection: close\r\n\r\n/a"));
  CHECK(end);
  fixture_end(&fx, client);
}

#define REFUSED "HTTP/1.1 503 Service Unavailable\r\n"

/* Whoever waits to be taken, or has half a head here, gets an answer; what the application has goes
 * on; who has said nothing is closed. */
CHECK_CASE(refuse_answers_whoever_has_asked) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int in_app = client_open(&fx), queued = client_open(&fx), half = client_open(&fx);
  int idle = client_open(&fx), never = client_open(&fx), late = client_open(&fx);
  client_send(in_app, GET("/a"));
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  fx.mute = true;
  client_send(queued, GET("/b") GET("/c"));
  client_send(half, "GET /d HTTP/1.1\r\nHost: a");
  client_send(never, "GET /e HTTP/1.1\r\n");
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).waiting);
  client_send(late, GET("/f")); /* in the socket's buffer */
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).waiting);
  CHECK_INT(2, stats_of(&fx).rejected[AB_REJECT_SHUTDOWN]);
  bool end;
  CHECK_INT(1, occurrences(client_read(queued, &end), REFUSED));
  CHECK(end);
  CHECK_INT(1, occurrences(client_read(late, &end), REFUSED));
  CHECK(end);
  CHECK_INT(0, strlen(client_read(idle, &end)));
  CHECK(end);
  client_send(half, ".test\r\n\r\n");
  fixture_run(&fx);
  CHECK_INT(1, occurrences(client_read(half, &end), REFUSED));
  CHECK(end);
  fx.now += AB_DRAIN_GRACE + AB_WHEEL_TICK;
  fixture_run(&fx);
  CHECK_INT(1, occurrences(client_read(never, &end), REFUSED));
  CHECK(end);
  CHECK_INT(0, strlen(client_read(in_app, &end)));
  CHECK(!end);
  fx.mute = false;
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK_INT(1, occurrences(client_read(in_app, &end), "Connection: close"));
  CHECK(end);
  CHECK_INT(1, fx.taken);
  fixture_pass(&fx, 2); /* those who had sent more linger */
  CHECK_INT(0, stats_of(&fx).connections);
  int clients[] = {in_app, queued, half, idle, never, late};
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_fini(&fx);
}

/* A body that nobody wants any more does not keep the connection. */
CHECK_CASE(refuse_ends_skipping) {
  fixture fx;
  int client =
      fixture_init_held(&fx, "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nabc");
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  client_read(client, &end);
  CHECK(!end);
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  fixture_pass(&fx, 2);
  client_read(client, &end);
  CHECK(end);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* The response whose head has kept the connection ends when it is late: what came behind it is
 * answered, and nothing more is waited for. */
CHECK_CASE(refuse_after_a_head_that_keeps) {
  static const char *const behind[] = {"", GET("/b"), "GET /b HT"};
  for (size_t i = 0; i < AB_ARRAY_LEN(behind); i++) {
    fixture fx;
    int client = fixture_init_held(&fx, GET("/a"));
    promise(&fx, "kept");
    client_send(client, behind[i]);
    ab_engine_drain(fx.engine, fx.now);
    ab_engine_refuse(fx.engine, fx.now);
    keep_promise(&fx, "kept");
    fixture_run(&fx);
    if (i == 2) pass_grace(&fx);
    bool end;
    const char *text = client_read(client, &end);
    CHECK(end);
    CHECK(strstr(text, "\r\n\r\nkept"));
    CHECK_INT(i > 0, occurrences(text, REFUSED));
    CHECK_INT(1, fx.taken);
    fixture_pass(&fx, 2);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(refuse_after_a_head_that_keeps_and_a_body) {
  fixture fx;
  int client = fixture_init_held(&fx, POST("/a", 9) "abc");
  promise(&fx, "kept");
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  keep_promise(&fx, "kept");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "\r\n\r\nkept"));
  CHECK(end);
  fixture_end(&fx, client);
}

/* Whether the socket is full when the drain begins, or has just got some room. Behind the response
 * the next request is waited for. */
CHECK_CASE(drain_sends_what_is_pending) {
  for (int i = 0; i < 4; i++) {
    bool room = i & 1, asks = i & 2;
    fixture fx;
    int client = fixture_init_held(&fx, GET("/a"));
    answer_big(&fx, 0, true);
    fx.hold = false;
    fixture_run(&fx);
    if (room) {
      while (read(client, (char[4096]){0}, 4096) > 0) continue;
      fixture_hear(&fx);
    }
    ab_engine_drain(fx.engine, fx.now);
    fixture_run(&fx);
    fixture_pass(&fx, 5);
    CHECK_INT(1, stats_of(&fx).connections);
    CHECK(client_drain(&fx, client) > sizeof plenty / 2);
    CHECK(!has_ended(client));
    if (asks) {
      client_send(client, GET("/b"));
      fixture_run(&fx);
      check_final(client, "/b");
    } else {
      pass_grace(&fx);
    }
    check_gone(&fx, client);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(drain_serves_the_kernels_queue) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int clients[100];
  for (int i = 0; i < 100; i++) {
    clients[i] = client_tcp(port);
    client_send(clients[i], GET("/a"));
  }
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  for (int i = 0; i < 100; i++) {
    bool end;
    CHECK(strstr(client_read(clients[i], &end), "Connection: close\r\n\r\n/a"));
    CHECK(end);
    close(clients[i]);
  }
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(-1, client_tcp(port));
  fixture_fini(&fx);
}

CHECK_CASE(closed_listeners_are_not_waited_for) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int client = client_tcp(port);
  ab_poller_wait(fx.poller, AB_NSEC_PER_SEC);
  ab_poller_lock(fx.poller);
  ab_poller_dispatch(fx.poller); /* the listener is ready, and closed before its turn comes */
  ab_poller_unlock(fx.poller);
  ab_engine_close_listeners(fx.engine);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).accepted);
  CHECK_INT(-1, ab_listener_fd(ab_engine_listener(fx.engine, 0)));
  CHECK(!ab_engine_listener(fx.engine, 1));
  fixture_end(&fx, client);
}

CHECK_CASE(abort_closes_everything) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int clients[5];
  static const char *const texts[] = {"", "GET /", POST("/a", 9) "1", GET("/a"), "bad\r\n\r\n"};
  for (int i = 0; i < 5; i++) {
    clients[i] = client_open(&fx);
    client_send(clients[i], texts[i]);
  }
  fixture_run(&fx);
  CHECK_INT(5, stats_of(&fx).connections);
  ab_engine_abort(fx.engine);
  ab_engine_abort(fx.engine);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  for (int i = 0; i < 5; i++) {
    bool end;
    client_read(clients[i], &end);
    CHECK(end);
    close(clients[i]);
  }
  fixture_fini(&fx);
}

CHECK_CASE(detach_and_attach_again) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  fx.hold = true;
  int busy = client_tcp(port), queued = client_tcp(port), stuck = client_tcp(port);
  client_send(busy, GET("/a"));
  client_send(stuck, GET("/s"));
  fixture_run(&fx);
  CHECK_INT(2, fx.held_count);
  fx.mute = true;
  client_send(queued, GET("/b"));
  fixture_run(&fx);
  unsigned stuck_at = 0;
  while (ab_exchange_peer(fx.held[stuck_at])->port == 0) stuck_at++;
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[stuck_at], plenty, sizeof plenty));
  ab_engine_unlock(fx.engine);
  ab_engine_detach(fx.engine);
  ab_engine_detach(fx.engine);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(0, stats_of(&fx).waiting);
  CHECK_INT(2, stats_of(&fx).in_app);
  CHECK_INT(1, fx.released);
  while (fx.held_count) answer_held(&fx, 0, "x");
  CHECK_INT(2, fx.failed);
  CHECK_INT(0, stats_of(&fx).in_app);
  close(busy);
  close(queued);
  close(stuck);

  CHECK_INT(AB_OK, ab_engine_attach(fx.engine, fx.poller, fx.now));
  fx.mute = fx.hold = false;
  int client = client_tcp(port);
  client_send(client, GET("/c"));
  fixture_run(&fx);
  CHECK(strstr(client_read(client, NULL), "\r\n\r\n/c"));
  fixture_end(&fx, client);
}

CHECK_MAIN()
