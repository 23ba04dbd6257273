/* Bodies that are buffered before their requests may be taken: until they are here, or as much of
 * them as there may be; how long that may take, and everything that may come between. */
#include "engine/fixture.h"

#define GET(path)       "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define HEAD(path, ...) "POST " path " HTTP/1.1\r\nHost: x\r\n" __VA_ARGS__ "\r\n"
#define POST(path, n)   HEAD(path, "Content-Length: " #n "\r\n")
#define CHUNKED(path)   HEAD(path, "Transfer-Encoding: chunked\r\n")
#define EXPECT          "Expect: 100-continue\r\n"
#define CONTINUE        "HTTP/1.1 100 Continue\r\n\r\n"

static char plenty[1 << 20];

static bool begins_with(ab_view path, const char *start) {
  return path.len >= strlen(start) && memcmp(path.ptr, start, strlen(start)) == 0;
}

/* All but those whose path begins with "/stream", and with "/fiber" those that are not asked for.
 */
static enum ab_buffering gathers(void *ctx, ab_view path) {
  fixture *fx = ctx;
  CHECK(fx->engine);
  if (begins_with(path, "/stream")) return AB_BUFFER_NOT;
  return begins_with(path, "/fiber") ? AB_BUFFER_UNASKED : AB_BUFFER_ANY;
}

static bool start(fixture *fx) {
  bool started = fixture_start(fx);
  if (started) ab_engine_buffer_bodies(fx->engine, gathers, fx, 1 << 20);
  return started;
}

static void prepare(fixture *fx) {
  fixture_prepare(fx);
  CHECK(start(fx));
}

/* Checks that `taken` requests were taken, and that `buffering` wait for bodies with `buffered`
 * bytes of them here. */
static void check_state(fixture *fx, unsigned taken, unsigned buffering, size_t buffered) {
  ab_figures stats = stats_of(fx);
  CHECK_INT(taken, fx->taken);
  CHECK_INT(buffering, stats.bodies.coming);
  CHECK_INT(buffered, stats.bodies.bytes);
  CHECK_INT(0, stats.in_app);
  CHECK_INT(0, stats.waiting);
}

static void check_answered(int client, const char *body) {
  char expected[64];
  const char *text = client_read(client, NULL);
  snprintf(expected, sizeof expected, "\r\n\r\n%s", body);
  CHECK(strstr(text, "200 OK"));
  CHECK(strlen(text) > strlen(expected) &&
        strcmp(text + strlen(text) - strlen(expected), expected) == 0);
}

static void check_refused(fixture *fx, int client, const char *status) {
  bool end;
  const char *text = client_read(client, &end);
  CHECK(strstr(text, status));
  CHECK(strstr(text, "\r\nConnection: close\r\n"));
  CHECK_INT(0, fx->taken);
  close(client);
  fixture_run(fx);
  CHECK_INT(0, stats_of(fx).connections);
  check_state(fx, 0, 0, 0);
}

/* --- until it is here --- */

CHECK_CASE(a_request_waits_for_its_body) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 5));
  check_state(&fx, 0, 1, 0);
  client_send(client, "he");
  fixture_run(&fx);
  check_state(&fx, 0, 1, 2);
  client_send(client, "llo");
  fixture_run(&fx);
  check_state(&fx, 1, 0, 0);
  check_answered(client, "/a:hello");
  client_send(client, POST("/b", 3) "abc" GET("/c"));
  fixture_run(&fx);
  CHECK(strcmp("abc", fx.paths) == 0);
  const char *text = client_read(client, NULL);
  CHECK_INT(2, occurrences(text, "200 OK"));
  CHECK(strstr(text, "/b:abc"));
  fixture_end(&fx, client);
}

/* Cut anywhere, one byte at a time or not at all: the same is taken, and in the same order. */
CHECK_CASE(cut_anywhere) {
  static const char text[] =
      POST("/a", 3) "one" CHUNKED("/b") "2\r\ntw\r\n1;x=\"y\"\r\no\r\n0\r\nT: 1\r\n\r\n" GET("/c");
  const size_t len = sizeof(text) - 1;
  for (size_t cut = 0; cut <= len; cut++) {
    fixture fx;
    prepare(&fx);
    int client = client_open(&fx);
    for (size_t at = 0; at < len;) {
      size_t part = cut == 0 ? 1 : at == 0 && cut < len ? cut : len - at;
      client_send_bytes(client, text + at, part);
      fixture_run(&fx);
      at += part;
    }
    CHECK(strcmp("abc", fx.paths) == 0);
    const char *answers = client_read(client, NULL);
    CHECK_INT(3, occurrences(answers, "200 OK"));
    CHECK(strstr(answers, "/a:one") && strstr(answers, "/b:two"));
    check_state(&fx, 3, 0, 0);
    CHECK_INT(1, stats_of(&fx).connections);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(trailers_are_there) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  int client = client_with(&fx, CHUNKED("/a") "3\r\nabc\r\n0\r\nT: 1");
  CHECK_INT(0, fx.held_count);
  client_send(client, "23\r\n\r\n");
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  ssize_t result;
  CHECK(strcmp("abc", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(0, result);
  const ab_body *body = ab_exchange_body(fx.held[0]);
  CHECK_INT(10, body->trailers_len);
  CHECK(body->trailers && memcmp(body->trailers, "T: 123\r\n\r\n", 10) == 0);
  CHECK_INT(3, body->size);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

CHECK_CASE(others_are_not_gathered) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  int client = client_with(&fx, POST("/stream", 5) "he");
  CHECK_INT(1, fx.held_count);
  CHECK_INT(0, stats_of(&fx).bodies.bytes);
  ssize_t result;
  CHECK(strcmp("he", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(AB_AGAIN, result);
  fixture_end(&fx, client);
}

/* --- how much --- */

/* One that says that it is longer, and one that turns out to be, is waited for until so much of it
 * has come as is held. */
CHECK_CASE(longer_ones_stream) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_body_memory = 1000;
  CHECK(start(&fx));
  fx.hold = true;
  int announced = client_with(&fx, POST("/a", 100000) "abc");
  CHECK_INT(0, fx.held_count);
  CHECK_INT(3, stats_of(&fx).bodies.bytes);
  client_send_bytes(announced, plenty, 996);
  fixture_run(&fx);
  CHECK_INT(0, fx.held_count);
  client_send_bytes(announced, plenty, 1);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(1000, stats_of(&fx).bodies.bytes);
  CHECK_INT(1000, read_body(&fx, fx.held[0], plenty, sizeof plenty));
  CHECK_INT(0, stats_of(&fx).bodies.bytes);
  int chunked = client_with(&fx, CHUNKED("/b") "400\r\n");
  client_send_bytes(chunked, plenty, 900);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(905, stats_of(&fx).bodies.bytes);
  client_send_bytes(chunked, plenty, 95);
  fixture_run(&fx);
  CHECK_INT(2, fx.held_count);
  CHECK_INT(0, stats_of(&fx).bodies.coming);
  ab_exchange *exchange = fx.held[1];
  ssize_t result;
  CHECK_INT(995, read_body(&fx, exchange, plenty, sizeof plenty));
  read_what_is_there(&fx, exchange, &result);
  CHECK_INT(AB_AGAIN, result);
  client_send_bytes(chunked, plenty, 29);
  client_send(chunked, "\r\n0\r\n\r\n");
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK_INT(29, read_body(&fx, exchange, plenty, sizeof plenty));
  CHECK_INT(0, read_body(&fx, exchange, plenty, 1));
  CHECK(body_is_done(exchange));
  close(announced);
  close(chunked);
  fixture_fini(&fx);
}

/* Who asks whether to send it may be told no by the application: where that is to decide, and when
 * it would be asked for more than is held. */
CHECK_CASE(who_asks_is_not_always_told) {
  static const char *const heads[] = {HEAD("/fiber", "Content-Length: 5\r\n" EXPECT),
                                      HEAD("/a", "Content-Length: 1001\r\n" EXPECT)};
  for (int i = 0; i < 2; i++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.max_body_memory = 1000;
    CHECK(start(&fx));
    fx.hold = true;
    int client = client_with(&fx, heads[i]);
    CHECK_INT(1, fx.held_count);
    CHECK_INT(0, strlen(client_read(client, NULL)));
    fixture_end(&fx, client);
  }
}

CHECK_CASE(the_longest_that_is_gathered) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  char head[128];
  uint64_t len = fx.limits.max_body_memory;
  int n =
      snprintf(head, sizeof head, HEAD("/a", "Content-Length: %llu\r\n"), (unsigned long long)len);
  int client = client_open(&fx);
  client_send_bytes(client, head, (size_t)n);
  memset(plenty, 'p', (size_t)len);
  CHECK(client_push(&fx, client, plenty, (size_t)len - 1));
  CHECK_INT(0, fx.held_count);
  client_send(client, "q");
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(len, ab_exchange_input_len(fx.held[0]));
  CHECK(fx.held[0]->conn->own_capacity <= len + len / 6);
  CHECK_INT(len, read_body(&fx, fx.held[0], plenty, sizeof plenty));
  CHECK_INT('q', plenty[len - 1]);
  CHECK_INT(0, read_body(&fx, fx.held[0], plenty, 1));
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).bodies.bytes);
  fixture_end(&fx, client);
}

/* What is announced costs nothing before it is sent. */
CHECK_CASE(memory_follows_what_has_come) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  client_send(client, POST("/a", 60000));
  client_send_bytes(client, plenty, 10);
  fixture_run(&fx);
  CHECK(conn->own_capacity <= 8192);
  client_send_bytes(client, plenty, 20000);
  fixture_run(&fx);
  CHECK(conn->own_capacity <= 65536);
  close(client);
  fixture_run(&fx);
  check_state(&fx, 0, 0, 0);
  fixture_fini(&fx);
}

/* Beyond the limit for all, requests do not wait for their bodies. */
CHECK_CASE(all_together_have_a_limit) {
  fixture fx;
  fixture_prepare(&fx);
  CHECK(fixture_start(&fx));
  ab_engine_buffer_bodies(fx.engine, gathers, &fx, 100);
  fx.hold = true;
  int clients[4];
  clients[0] = client_with(&fx, POST("/a", 200));
  client_send_bytes(clients[0], plenty, 60);
  clients[1] = client_with(&fx, POST("/b", 200));
  CHECK_INT(0, fx.held_count);
  CHECK_INT(2, stats_of(&fx).bodies.coming);
  client_send_bytes(clients[1], plenty, 39);
  fixture_run(&fx);
  CHECK_INT(0, fx.held_count);
  client_send_bytes(clients[1], plenty, 1);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count); /* it has come to the limit, and goes on as it is */
  CHECK_INT(40, ab_exchange_input_len(fx.held[0]));
  clients[2] = client_with(&fx, POST("/c", 200));
  CHECK_INT(2, fx.held_count); /* it is not buffered at all */
  CHECK_INT(0, ab_exchange_input_len(fx.held[1]));
  CHECK_INT(100, stats_of(&fx).bodies.bytes);
  answer_held(&fx, 0, "x"); /* what it has held is free again */
  fixture_run(&fx);
  CHECK_INT(60, stats_of(&fx).bodies.bytes);
  clients[3] = client_with(&fx, POST("/d", 200) "x");
  CHECK_INT(1, fx.held_count);
  CHECK_INT(61, stats_of(&fx).bodies.bytes);
  for (int i = 0; i < 4; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* --- refused --- */

CHECK_CASE(what_is_no_body) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, CHUNKED("/a") "3\r\nabcd");
  check_refused(&fx, client, "HTTP/1.1 400 ");
  fixture_fini(&fx);
}

CHECK_CASE(a_body_that_grows_too_long) {
  for (int i = 0; i < 2; i++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.max_body_size = 10;
    CHECK(start(&fx));
    int client = client_with(&fx, i ? POST("/a", 11) : CHUNKED("/a") "a\r\n0123456789\r\n1\r\n");
    check_refused(&fx, client, "HTTP/1.1 413 ");
    fixture_fini(&fx);
  }
}

/* --- Expect: 100-continue --- */

CHECK_CASE(the_engine_asks) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, GET("/a") HEAD("/b", "Content-Length: 5\r\n" EXPECT));
  const char *text = client_read(client, NULL);
  CHECK_INT(1, occurrences(text, "200 OK"));
  CHECK(strlen(text) > strlen(CONTINUE) &&
        strcmp(text + strlen(text) - strlen(CONTINUE), CONTINUE) == 0);
  check_state(&fx, 1, 1, 0);
  client_send(client, "he");
  fixture_run(&fx);
  CHECK_INT(0, strlen(client_read(client, NULL))); /* once */
  fx.hold = true;
  client_send(client, "llo");
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  ssize_t result;
  CHECK(strcmp("hello", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "200 OK"));
  CHECK(!end);
  fixture_end(&fx, client);
}

CHECK_CASE(who_does_not_wait_is_not_asked) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  int client = client_with(&fx, HEAD("/b", "Content-Length: 5\r\n" EXPECT) "h");
  CHECK_INT(0, strlen(client_read(client, NULL)));
  client_send(client, "ello");
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(0, strlen(client_read(client, NULL)));
  fixture_end(&fx, client);
}

/* The peer may have thought better of it: nobody knows what the next bytes are. */
CHECK_CASE(an_expected_body_that_is_not_read) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  int client = client_with(&fx, HEAD("/b", "Content-Length: 5\r\n" EXPECT));
  client_send(client, GET("/c"));
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK_INT(1, occurrences(client_read(client, &end), "200 OK"));
  CHECK(end);
  CHECK_INT(1, fx.taken);
  fixture_end(&fx, client);
}

/* The limit for all is reached before a byte has come: who reads must not ask once more. */
CHECK_CASE(asked_once_also_when_it_streams) {
  fixture fx;
  fixture_prepare(&fx);
  CHECK(fixture_start(&fx));
  ab_engine_buffer_bodies(fx.engine, gathers, &fx, 10);
  fx.hold = true;
  int expecting = client_with(&fx, HEAD("/a", "Content-Length: 5\r\n" EXPECT));
  CHECK(strcmp(CONTINUE, client_read(expecting, NULL)) == 0);
  int other = client_with(&fx, POST("/b", 20) "0123456789");
  CHECK_INT(1, fx.held_count);
  client_send(expecting, "h");
  fixture_run(&fx);
  CHECK_INT(2, fx.held_count);
  char buf[8];
  CHECK_INT(1, read_body(&fx, fx.held[1], buf, sizeof buf));
  CHECK_INT(AB_AGAIN, read_body(&fx, fx.held[1], buf, sizeof buf));
  fixture_run(&fx);
  CHECK_INT(0, strlen(client_read(expecting, NULL)));
  close(expecting);
  close(other);
  fixture_fini(&fx);
}

/* Who could not be let in afterwards need not send anything. */
CHECK_CASE(a_full_queue_does_not_ask) {
  fixture fx;
  prepare(&fx);
  ab_engine_set_queue(fx.engine, 0, 1);
  fx.mute = true;
  int first = client_with(&fx, GET("/a"));
  int second = client_with(&fx, HEAD("/b", "Content-Length: 5\r\n" EXPECT));
  bool end;
  const char *text = client_read(second, &end);
  CHECK(strncmp(text, "HTTP/1.1 503 ", 13) == 0);
  CHECK(strstr(text, "\r\nRetry-After: 1\r\n"));
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_FULL]);
  close(second);
  close(first);
  fixture_run(&fx);
  fx.mute = false;
  fixture_fini(&fx);
}

/* --- the queue --- */

/* A request is queued when its body is here; what is refused then has been read, and nothing is to
 * be waited for. */
CHECK_CASE(the_queue_begins_behind_the_body) {
  fixture fx;
  prepare(&fx);
  ab_engine_set_queue(fx.engine, 0, 1);
  fx.mute = true;
  int clients[3];
  for (int i = 0; i < 3; i++) clients[i] = client_with(&fx, POST("/a", 5) "hell");
  CHECK_INT(0, stats_of(&fx).queued);
  CHECK_INT(3, stats_of(&fx).bodies.coming);
  for (int i = 0; i < 2; i++) {
    client_send(clients[i], "o");
    fixture_run(&fx);
  }
  CHECK_INT(1, stats_of(&fx).queued);
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_FULL]);
  CHECK_INT(2, stats_of(&fx).connections);
  bool end;
  CHECK(strstr(client_read(clients[1], &end), "503"));
  CHECK(end);
  fx.mute = false;
  fixture_run(&fx);
  check_answered(clients[0], "/a:hello");
  for (int i = 0; i < 3; i++) close(clients[i]);
  fixture_fini(&fx);
}

CHECK_CASE(the_times_of_a_request) {
  fixture fx;
  prepare(&fx);
  fx.hold = true;
  int client = client_with(&fx, POST("/a", 5) "h");
  fixture_pass(&fx, 9);
  client_send(client, "ello");
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(fx.now, ab_exchange_arrived(fx.held[0]));
  CHECK_INT(9 * AB_NSEC_PER_SEC + AB_WHEEL_TICK, ab_exchange_buffered_for(fx.held[0]));
  fixture_end(&fx, client);
}

/* queue_timeout counts from when it could have been taken, request_timeout from its head on. */
CHECK_CASE(timeouts_of_a_request_that_waits) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.queue_timeout = 10;
  fx.limits.request_timeout = 30;
  fx.limits.min_body_rate = 0;
  CHECK(start(&fx));
  fx.mute = true;
  int clients[2];
  for (int i = 0; i < 2; i++) clients[i] = client_with(&fx, POST("/a", 5) "h");
  fixture_pass(&fx, 9);
  client_send(clients[0], "ello");
  fixture_run(&fx);
  client_send(clients[1], "e");
  fixture_pass(&fx, 9);
  CHECK_INT(1, stats_of(&fx).waiting);
  fixture_pass(&fx, 1);
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_TIMEOUT]);
  CHECK(strstr(client_read(clients[0], NULL), "503"));
  fixture_pass(&fx, 5);
  CHECK_INT(1, stats_of(&fx).bodies.coming);
  client_send(clients[1], "llo");
  fixture_run(&fx);
  fx.mute = false;
  fx.hold = true;
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK(ab_exchange_deadline(fx.held[0]) != 0 &&
        ab_exchange_deadline(fx.held[0]) <= fx.now + 6 * AB_NSEC_PER_SEC);
  fixture_pass(&fx, 6);
  CHECK_INT(AB_EVENT_DEADLINE, fx.events);
  for (int i = 0; i < 2; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* --- too slow --- */

CHECK_CASE(without_progress) {
  for (int i = 0; i < 2; i++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.min_body_rate = 0;
    CHECK(start(&fx));
    int client = client_with(&fx, i ? CHUNKED("/a") : POST("/a", 500));
    fixture_pass(&fx, 9);
    client_send(client, "1");
    fixture_run(&fx);
    CHECK_INT(1, stats_of(&fx).bodies.coming);
    fixture_pass(&fx, (unsigned)fx.limits.body_timeout);
    CHECK_INT(1, stats_of(&fx).timeouts);
    check_refused(&fx, client, "HTTP/1.1 408 ");
    fixture_fini(&fx);
  }
}

CHECK_CASE(below_the_rate) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 50000));
  ab_nsec begin = fx.now;
  for (int i = 0; i < 100 && stats_of(&fx).bodies.coming == 1; i++) {
    client_send_bytes(client, plenty, 100);
    fixture_pass(&fx, 1);
  }
  ab_nsec took = (fx.now - begin) / AB_NSEC_PER_SEC;
  CHECK(took >= fx.limits.rate_grace && took < fx.limits.rate_grace + 5);
  check_refused(&fx, client, "HTTP/1.1 408 ");
  fixture_fini(&fx);
}

CHECK_CASE(above_the_rate) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 60000));
  for (int i = 0; i < 60; i++) {
    CHECK_INT(1, stats_of(&fx).bodies.coming);
    client_send_bytes(client, plenty, 1000);
    fixture_pass(&fx, 1);
  }
  CHECK_INT(1, fx.taken);
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  fixture_end(&fx, client);
}

/* The time of buffering and of reading are one for the rate. */
CHECK_CASE(the_rate_goes_on) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_body_memory = 1000;
  CHECK(start(&fx));
  fx.hold = true;
  int client = client_with(&fx, CHUNKED("/a") "4000\r\n");
  fixture_pass(&fx, 9);
  client_send_bytes(client, plenty, 1000);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  fixture_pass(&fx, 4); /* 10 s of grace, and 1000 bytes for what took 9 */
  CHECK_INT(AB_EVENT_BODY, fx.events);
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_HTTP_REQUEST_TIMEOUT, result);
  fixture_end(&fx, client);
}

CHECK_CASE(request_timeout_passes) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.request_timeout = 5;
  CHECK(start(&fx));
  int client = client_with(&fx, POST("/a", 5) "h");
  fixture_pass(&fx, 5);
  CHECK_INT(1, stats_of(&fx).expired);
  check_refused(&fx, client, "HTTP/1.1 408 ");
  fixture_fini(&fx);
}

/* --- the peer goes --- */

CHECK_CASE(gone_meanwhile) {
  for (int i = 0; i < 3; i++) {
    fixture fx;
    prepare(&fx);
    int client = client_with(&fx, POST("/a", 5) "hel");
    if (i == 0) shutdown(client, SHUT_WR);
    if (i == 1) close(client);
    if (i == 2) ab_engine_abort(fx.engine);
    fixture_run(&fx);
    check_state(&fx, 0, 0, 0);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(0, stats_of(&fx).errors);
    if (i != 1) close(client);
    fixture_fini(&fx);
  }
}

/* It has sent everything, and waits for the answer (RFC 9112 9.6). */
CHECK_CASE(half_closed_behind_the_body) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 5) "hel");
  client_send(client, "lo");
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  check_answered(client, "/a:hello");
  fixture_end(&fx, client);
}

/* --- the end of the server --- */

CHECK_CASE(drained_meanwhile) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 5) "hel");
  ab_engine_drain(fx.engine, fx.now);
  fixture_pass(&fx, 1);
  check_state(&fx, 0, 1, 3);
  client_send(client, "lo");
  fixture_run(&fx);
  bool end;
  const char *text = client_read(client, &end);
  CHECK(strstr(text, "/a:hello"));
  CHECK(strstr(text, "Connection: close"));
  CHECK(end);
  fixture_end(&fx, client);
}

CHECK_CASE(refused_meanwhile) {
  fixture fx;
  prepare(&fx);
  int client = client_with(&fx, POST("/a", 5) "hel");
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_SHUTDOWN]);
  check_refused(&fx, client, "HTTP/1.1 503 ");
  fixture_fini(&fx);
}

/* --- memory --- */

CHECK_CASE(each_allocation_fails) {
  for (size_t n = 1; n < 60; n++) {
    fixture fx;
    fixture_prepare(&fx);
    check_mem_init(&fx.mem, n);
    if (start(&fx)) {
      int client = client_open(&fx);
      send(client, POST("/a", 6000), sizeof(POST("/a", 6000)) - 1, MSG_NOSIGNAL);
      fixture_run(&fx);
      for (int i = 0; i < 6; i++) {
        send(client, plenty, 1000, MSG_NOSIGNAL);
        fixture_run(&fx);
      }
      const char *text = client_read(client, NULL);
      CHECK(*text == '\0' || strstr(text, "200 OK") || strstr(text, "503 "));
      CHECK_INT(0, stats_of(&fx).bodies.coming);
      close(client);
      fixture_run(&fx);
    }
    fixture_fini(&fx);
  }
}

CHECK_MAIN()
