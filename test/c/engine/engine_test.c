/* From octets to requests and back: heads, pipelines, bodies, expectations, and output that does
 * not fit into the socket. */
#include "engine/fixture.h"

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define OK(length, text) "HTTP/1.1 200 OK\r\nContent-Length: " #length "\r\n\r\n" text

static void connection_is_small(void) {
  CHECK(sizeof(ab_conn) + 16 <= 256); /* and its entry in the poller's table */
}

static void keep_alive(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  bool end;
  for (int i = 0; i < 3; i++) {
    client_send(client, GET("/a"));
    fixture_run(&fx);
    CHECK(strcmp(OK(2, "/a"), client_read(client, &end)) == 0);
    CHECK(!end);
  }
  CHECK_INT(3, stats_of(&fx).requests);
  CHECK_INT(1, stats_of(&fx).connections);
  CHECK_INT(3 * strlen(GET("/a")), stats_of(&fx).received);
  CHECK_INT(3 * strlen(OK(2, "/a")), stats_of(&fx).sent);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

static void idle_connection_owns_nothing(void) {
  fixture fx;
  fixture_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  CHECK(!conn->out && !conn->own && !conn->body && !conn->request && conn->in_len == 0);
  CHECK_INT(AB_CONN_HEAD, conn->state);
  size_t calls = fx.mem.calls;
  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK_INT(calls, fx.mem.calls); /* the steady state allocates nothing */
  close(client);
  fixture_fini(&fx);
}

static void peer_asks_to_close(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close\r\n\r\n/a"));
  CHECK(end);
  CHECK_INT(0, stats_of(&fx).connections);
  close(client);
  fixture_fini(&fx);
}

static void application_closes(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_engine_lock(fx.engine);
  CHECK(ab_conn_keep_alive(fx.held[0]));
  ab_conn_close_after(fx.held[0]);
  CHECK(!ab_conn_keep_alive(fx.held[0]));
  ab_engine_unlock(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close"));
  CHECK(end);
  close(client);
  fixture_fini(&fx);
}

static void broken_off_response_closes(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a") GET("/b"));
  ab_engine_lock(fx.engine);
  CHECK(ab_conn_keep_alive(fx.held[0]));
  CHECK_INT(AB_OK, ab_conn_write(fx.held[0], "HTTP/1.1 200 OK\r\n", 17));
  ab_conn_finish(fx.held[0], false);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("HTTP/1.1 200 OK\r\n", client_read(client, &end)) == 0);
  CHECK(end);
  CHECK_INT(1, fx.taken);
  close(client);
  fixture_fini(&fx);
}

static void requests_are_limited(void) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_requests_per_connection = 3;
  CHECK(fixture_start(&fx));
  int client = client_open(&fx);
  client_send(client, GET("/1") GET("/2") GET("/3") GET("/4"));
  fixture_run(&fx);
  bool end;
  const char *text = client_read(client, &end);
  CHECK_INT(3, occurrences(text, "200 OK"));
  CHECK_INT(1, occurrences(text, "Connection: close"));
  CHECK(end);
  CHECK(strcmp("123", fx.paths) == 0);
  close(client);
  fixture_fini(&fx);
}

/* Each byte comes alone, over one turn each; the verdict is the same and the memory bounded. */
static void heads_byte_by_byte(void) {
  fixture fx;
  fixture_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  static const char text[] = GET("/a") GET("/b");
  for (size_t i = 0; i < sizeof(text) - 1; i++) {
    client_send_octets(client, text + i, 1);
    fixture_run(&fx);
    CHECK(conn->own_capacity <= 8192);
  }
  CHECK(strcmp(OK(2, "/a") OK(2, "/b"), client_read(client, NULL)) == 0);
  CHECK(!conn->own);
  close(client);
  fixture_fini(&fx);
}

static void pipeline_cut_anywhere(void) {
  static const char text[] =
      GET("/a") "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz" GET("/c");
  for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
    fixture fx;
    fixture_init(&fx);
    int client = client_open(&fx);
    client_send_octets(client, text, cut);
    fixture_run(&fx);
    client_send_octets(client, text + cut, sizeof(text) - 1 - cut);
    fixture_run(&fx);
    CHECK(strcmp(OK(2, "/a") OK(6, "/b:xyz") OK(2, "/c"), client_read(client, NULL)) == 0);
    close(client);
    fixture_fini(&fx);
  }
}

/* The socket keeps the borders of messages: what was written at once is read at once. */
static void a_batch_leaves_in_one_write(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_of_type(&fx, SOCK_SEQPACKET, NULL);
  client_send(client, GET("/a") GET("/b") GET("/c"));
  fixture_run(&fx);
  static const char expected[] = OK(2, "/a") OK(2, "/b") OK(2, "/c");
  char buf[1024];
  ssize_t n = recv(client, buf, sizeof buf, 0);
  CHECK_OCTETS(expected, buf, n > 0 ? (size_t)n : 0);
  CHECK_INT(-1, recv(client, buf, sizeof buf, 0));
  close(client);
  fixture_fini(&fx);
}

/* No response waits for a request that the application keeps. */
static void an_answer_does_not_wait_for_the_next(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, GET("/a") GET("/b"));
  fx.mute = true;
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).waiting);
  fx.mute = false;
  fx.hold = true;
  fixture_run(&fx);
  answer_held(&fx, 0, "1");
  fixture_run(&fx);
  CHECK(strcmp(OK(1, "1"), client_read(client, NULL)) == 0);
  CHECK_INT(1, fx.held_count);
  answer_held(&fx, 0, "2");
  fixture_run(&fx);
  CHECK(strcmp(OK(1, "2"), client_read(client, NULL)) == 0);
  close(client);
  fixture_fini(&fx);
}

/* More than one turn's share of one connection: others get their turn in between. */
static void long_pipeline_takes_turns(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx), other = client_open(&fx);
  for (int i = 0; i < 100; i++) client_send(client, GET("/p"));
  client_send(other, GET("/o"));
  fixture_turn(&fx);
  CHECK(fx.taken < 100);
  CHECK(strchr(fx.paths, 'o'));
  fixture_run(&fx);
  CHECK_INT(101, fx.taken);
  CHECK_INT(100, occurrences(client_read(client, NULL), OK(2, "/p")));
  close(client);
  close(other);
  fixture_fini(&fx);
}

/* Of `others` connections, a, b, c and so on, how many requests the busiest one had served since
 * `from` in the order of service, up to the next one for `path`. */
static unsigned served_before(const char *from, char path, unsigned others) {
  unsigned served[26] = {0}, most = 0;
  const char *own = strchr(from, path);
  CHECK(own != NULL);
  for (const char *at = from; own && at < own; at++) {
    if (*at < 'a' || *at >= 'a' + (int)others) continue;
    unsigned *of = &served[*at - 'a'];
    if (++*of > most) most = *of;
  }
  return most;
}

/* While everybody has more to ask than a turn gives, nobody has two turns between two of another's;
 * and who comes on a new connection waits for one turn of each as well. */
static void nobody_is_overtaken_twice(void) {
  enum { CROWD = 12, EACH = 6 * AB_TURN_REQUESTS };
  fixture fx;
  fixture_init(&fx);
  int crowd[CROWD];
  for (int i = 0; i < CROWD; i++) {
    crowd[i] = client_open(&fx);
    char text[] = GET("/a");
    text[5] = (char)('a' + i);
    for (int n = 0; n < EACH; n++) client_send(crowd[i], text);
  }
  uint16_t port = fixture_listen(&fx);
  fixture_turn(&fx);
  int visitor = client_tcp(port);
  client_send(visitor, GET("/z"));
  const char *came = fx.paths + strlen(fx.paths);
  fixture_run(&fx);
  CHECK_INT(CROWD * EACH + 1, fx.taken);
  CHECK(served_before(came, 'z', CROWD) <= AB_TURN_REQUESTS);
  for (int i = 0; i < CROWD; i++) {
    char path = (char)('a' + i);
    const char *last = strchr(fx.paths, path);
    CHECK(served_before(fx.paths, path, CROWD) <= AB_TURN_REQUESTS);
    for (const char *next; last && (next = strchr(last + 1, path)); last = next) {
      CHECK(served_before(last + 1, path, CROWD) <= AB_TURN_REQUESTS);
    }
    close(crowd[i]);
  }
  CHECK(strstr(client_read(visitor, NULL), "200 OK"));
  close(visitor);
  fixture_fini(&fx);
}

/* Requests that the application has no room for outlive the turn, whole and in order. */
static void untaken_requests_settle(void) {
  fixture fx;
  fixture_init(&fx);
  int a = client_open(&fx), b = client_open(&fx);
  client_send(a, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" GET("/c"));
  fixture_run(&fx);
  fx.mute = true;
  client_send(b, GET("/b"));
  client_send(a, "POST /d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nh");
  fixture_run(&fx);
  client_send(a, "o" GET("/e"));
  for (int i = 0; i < 3; i++) fixture_run(&fx);
  CHECK_INT(2, stats_of(&fx).waiting);
  CHECK_INT(2, fx.taken);
  CHECK_INT(1, fixture_run(&fx)); /* whoever cannot take them may sleep */
  fx.mute = false;
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).waiting);
  CHECK(strcmp("acbde", fx.paths) == 0);
  CHECK(strcmp(OK(5, "/a:hi") OK(2, "/c") OK(5, "/d:ho") OK(2, "/e"), client_read(a, NULL)) == 0);
  CHECK(strcmp(OK(2, "/b"), client_read(b, NULL)) == 0);
  close(a);
  close(b);
  fixture_fini(&fx);
}

/* --- bodies --- */

static void chunked_body_and_what_follows(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
  fixture_run(&fx);
  CHECK_INT(1, fx.taken);
  client_send(client, "c\r\n0\r\n\r\n" GET("/b"));
  fixture_run(&fx);
  CHECK(strcmp(OK(6, "/a:abc") OK(2, "/b"), client_read(client, NULL)) == 0);
  close(client);
  fixture_fini(&fx);
}

#define EXPECT(path, n)                                                                            \
  "POST " path " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void expectation_asked_first(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  ssize_t result;
  client_send(client, EXPECT("/a", 5));
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK(*client_read(client, NULL) == '\0');
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  CHECK(strcmp(CONTINUE, client_read(client, NULL)) == 0);
  CHECK_INT(0, fx.events);
  client_send(client, "he");
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("he", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(AB_AGAIN, result);
  fx.events = 0;
  client_send(client, "llo" GET("/b"));
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("llo", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(0, result);
  CHECK(body_is_done(fx.held[0]));
  CHECK_INT(AB_OK, ab_conn_body_error(fx.held[0]));
  CHECK(*client_read(client, NULL) == '\0'); /* once is enough */
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  answer_held(&fx, 0, "y"); /* the request behind the body */
  fixture_run(&fx);
  CHECK(strcmp(OK(1, "x") OK(1, "y"), client_read(client, NULL)) == 0);
  close(client);
  fixture_fini(&fx);
}

/* The body came with its head, in the same turn or in a later one: no interim response is needed.
 */
static void expectation_not_waited_for(void) {
  for (int later = 0; later < 3; later++) {
    fixture fx;
    fixture_init(&fx);
    fx.hold = true;
    int client = client_open(&fx);
    ssize_t result;
    client_send(client, later < 2 ? EXPECT("/a", 5) "hello" GET("/b") : EXPECT("/a", 5));
    fixture_turn(&fx);
    if (later) fixture_run(&fx); /* the octets have settled by then */
    if (later == 2) client_send(client, "hello" GET("/b"));
    CHECK(strcmp("hello", read_what_is_there(&fx, fx.held[0], &result)) == 0);
    CHECK_INT(0, result);
    CHECK_INT(0, fx.events);
    answer_held(&fx, 0, "x");
    fixture_run(&fx);
    answer_held(&fx, 0, "y");
    fixture_run(&fx);
    CHECK(strcmp(OK(1, "x") OK(1, "y"), client_read(client, NULL)) == 0);
    close(client);
    fixture_fini(&fx);
  }
}

static void expectation_met_in_parts(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  ssize_t result;
  client_send(client, EXPECT("/a", 5) "he");
  fixture_run(&fx);
  CHECK(strcmp("he", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  client_send(client, "llo");
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("llo", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK(strcmp(OK(1, "x"), client_read(client, NULL)) == 0);
  close(client);
  fixture_fini(&fx);
}

/* For a response that goes before its request's body; once, and never when the body is here. */
static void expectation_met_before_the_response(void) {
  for (int here = 0; here < 2; here++) {
    fixture fx;
    fixture_init(&fx);
    fx.hold = true;
    int client = client_open(&fx);
    client_send(client, here ? EXPECT("/a", 5) "hello" : EXPECT("/a", 5));
    fixture_run(&fx);
    for (int i = 0; i < 2; i++) {
      ab_engine_lock(fx.engine);
      ab_conn_continue(fx.held[0]);
      ab_engine_unlock(fx.engine);
    }
    fixture_run(&fx);
    CHECK(strcmp(here ? "" : CONTINUE, client_read(client, NULL)) == 0);
    answer_held(&fx, 0, "x");
    fixture_run(&fx);
    close(client);
    fixture_fini(&fx);
  }
}

/* Behind the head of a final response the word would be a part of it (RFC 9110 15.2). */
static void expectation_after_the_response_began(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  ssize_t result;
  client_send(client, EXPECT("/a", 5));
  fixture_run(&fx);
  ab_engine_lock(fx.engine);
  CHECK(!ab_conn_keep_alive(fx.held[0]));
  CHECK_INT(AB_OK, ab_conn_write(fx.held[0], "head", 4));
  ab_engine_unlock(fx.engine);
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  client_send(client, "hello"); /* a client may send it all the same */
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("hello", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  ab_engine_lock(fx.engine);
  ab_conn_finish(fx.held[0], AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("head", client_read(client, &end)) == 0);
  CHECK(end);
  close(client);
  fixture_fini(&fx);
}

/* Nobody knows whether the body will come: the connection cannot be used again. */
static void expectation_left_unread(void) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, EXPECT("/a", 5));
  fixture_run(&fx);
  client_send(client, "hello" GET("/b"));
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close\r\n\r\n/a"));
  CHECK(end);
  CHECK_INT(1, fx.taken);
  CHECK_INT(1, stats_of(&fx).connections); /* lingers: the peer still talks */
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

static void expected_body_is_malformed(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  client_send(client, "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n");
  fixture_run(&fx);
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  client_send(client, "zz\r\n");
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  for (int i = 0; i < 2; i++) {
    read_what_is_there(&fx, fx.held[0], &result);
    CHECK_INT(AB_HTTP1_CHUNK_SIZE_SYNTAX, result);
  }
  CHECK_INT(AB_HTTP1_CHUNK_SIZE_SYNTAX, ab_conn_body_error(fx.held[0]));
  CHECK(!ab_conn_keep_alive(fx.held[0]));
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close"));
  CHECK(end);
  close(client);
  fixture_fini(&fx);
}

static void expected_body_breaks_off(void) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  client_send(client, "he");
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("he", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  CHECK_INT(AB_EPEER, result);
  CHECK_INT(AB_EPEER, ab_conn_body_error(fx.held[0]));
  answer_held(&fx, 0, "x"); /* it may still be read */
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), CONTINUE "HTTP/1.1 200 OK\r\n"));
  CHECK(end);
  close(client);
  fixture_fini(&fx);
}

/* --- output --- */

static const char *plenty(size_t len) {
  static char octets[8 << 20];
  if (!octets[0]) memset(octets, 'x', sizeof octets);
  return len <= sizeof octets ? octets : NULL;
}

static void back_pressure(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  size_t len = 2 << 20;
  ab_engine_lock(fx.engine);
  CHECK(!ab_conn_want_room(conn));
  CHECK_INT(AB_OK, lend(&fx, conn, plenty(len), len));
  CHECK(ab_conn_want_room(conn)); /* it is sent as far as it goes, although nobody flushed */
  ab_engine_unlock(fx.engine);
  fixture_run(&fx);
  CHECK_INT(0, fx.events);
  CHECK_INT(0, fx.released);
  CHECK_INT(len, client_drain(&fx, client));
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  CHECK_INT(1, fx.released);
  ab_engine_lock(fx.engine);
  CHECK(!ab_conn_want_room(conn));
  ab_engine_unlock(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  close(client);
  fixture_fini(&fx);
}

static void room_follows_without_a_flush(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  int size = 1 << 22;
  client_send(client, GET("/a"));
  fixture_run(&fx);
  setsockopt(fx.held[0]->watch.fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty(400000), 400000));
  bool waits = ab_conn_want_room(fx.held[0]);
  ab_engine_unlock(fx.engine);
  /* Whether or not the socket took it all: who waits is told. */
  CHECK_INT(400000, client_drain(&fx, client));
  CHECK_INT(waits ? AB_EVENT_DRAINED : 0, fx.events);
  answer_held(&fx, 0, "x");
  close(client);
  fixture_fini(&fx);
}

static int send_octets(fixture *fx, ab_conn *conn, size_t len) {
  const struct iovec iov[] = {{(char *)plenty(len), len}, {"end", 3}};
  ab_engine_lock(fx->engine);
  int error = ab_conn_send(conn, iov, 2);
  ab_engine_unlock(fx->engine);
  return error;
}

/* Behind what is pending, and only what the socket does not take is copied. */
static void octets_that_are_sent_at_once(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_conn_write(conn, "before ", 7));
  ab_engine_unlock(fx.engine);
  CHECK_INT(AB_OK, send_octets(&fx, conn, 2));
  CHECK_OCTETS("before xxend", client_read(client, NULL), 12);
  CHECK_INT(0, ab_conn_pending(conn));
  CHECK_INT(12, stats_of(&fx).sent);

  size_t len = 2 << 20;
  CHECK_INT(AB_OK, send_octets(&fx, conn, len));
  uint64_t rest = ab_conn_pending(conn);
  CHECK(rest > 3 && rest < len);
  CHECK_INT(12 + len + 3 - rest, stats_of(&fx).sent);
  CHECK_INT(AB_OK, send_octets(&fx, conn, 2)); /* the rest comes first */
  CHECK_INT(rest + 5, ab_conn_pending(conn));
  ab_engine_lock(fx.engine);
  CHECK(ab_conn_want_sent(conn));
  ab_engine_unlock(fx.engine);
  CHECK_INT(len + 8, client_drain(&fx, client));
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  CHECK_INT(AB_OK, send_octets(&fx, conn, 2));
  CHECK_OCTETS("xxend", client_read(client, NULL), 5);
  answer_held(&fx, 0, "x");
  close(client);
  fixture_fini(&fx);
}

/* What has begun and cannot be kept ends the connection; what has not can be sent again. */
static void no_memory_for_what_is_left(void) {
  size_t len = 2 << 20;
  for (size_t nth = 1;; nth++) {
    fixture fx;
    int client = fixture_init_held(&fx, GET("/a"));
    ab_conn *conn = fx.held[0];
    fx.mem.fail_at = fx.mem.calls + nth;
    int error = send_octets(&fx, conn, len);
    bool failed = fx.mem.calls >= fx.mem.fail_at;
    fx.mem.fail_at = 0;
    CHECK_INT(failed ? AB_ENOMEM : AB_OK, error);
    CHECK_INT(failed, ab_conn_gone(conn));
    if (failed) CHECK_INT(AB_EPEER, send_octets(&fx, conn, 2));
    answer_held(&fx, 0, "x");
    size_t received = client_drain(&fx, client);
    CHECK_INT(stats_of(&fx).sent, received);
    close(client);
    fixture_fini(&fx);
    if (!failed) break;
    CHECK(nth < 20);
  }
}

static void octets_for_a_peer_that_has_gone(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  close(client);
  CHECK_INT(AB_EPEER, send_octets(&fx, conn, 2));
  CHECK(ab_conn_gone(conn));
  CHECK_INT(AB_EPEER, send_octets(&fx, conn, 2));
  CHECK_INT(0, stats_of(&fx).sent);
  answer_held(&fx, 0, "x");
  fixture_fini(&fx);
}

static int answer_with(fixture *fx, ab_conn *conn, const char *ptr, size_t len) {
  ab_engine_lock(fx->engine);
  int error = ab_conn_answer(conn, ptr, len);
  ab_engine_unlock(fx->engine);
  return error;
}

static void finish_held(fixture *fx, unsigned i) {
  ab_conn *conn = fx->held[i];
  fx->held[i] = fx->held[--fx->held_count];
  ab_engine_lock(fx->engine);
  ab_conn_finish(conn, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

/* A whole response leaves before its exchange is finished, unless another can leave with it. */
static void answers_that_leave_at_once(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "first", 5));
  CHECK_OCTETS("first", client_read(client, NULL), 5);
  CHECK_INT(5, stats_of(&fx).sent);
  finish_held(&fx, 0);
  client_send(client, GET("/b") GET("/c"));
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "second", 6));
  CHECK_INT(6, ab_conn_pending(fx.held[0])); /* the next request is here */
  finish_held(&fx, 0);
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "third", 5));
  finish_held(&fx, 0);
  fixture_run(&fx);
  CHECK_OCTETS("secondthird", client_read(client, NULL), 11);
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* Behind what is pending, and what the socket does not take follows. */
static void answers_that_do_not_fit(void) {
  size_t len = 2 << 20;
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_conn_write(conn, "before", 6));
  ab_engine_unlock(fx.engine);
  CHECK_INT(AB_OK, answer_with(&fx, conn, plenty(len), len));
  CHECK_INT(len + 6, ab_conn_pending(conn));
  finish_held(&fx, 0);
  CHECK_INT(len + 6, client_drain(&fx, client));

  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], plenty(len), len));
  uint64_t rest = ab_conn_pending(fx.held[0]);
  CHECK(rest > 0 && rest < len);
  finish_held(&fx, 0);
  CHECK_INT(len, client_drain(&fx, client));
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* It has left as far as the application is concerned, as one that waits in the outbox has. */
static void answers_for_a_peer_that_has_gone(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_conn *conn = fx.held[0];
  close(client);
  CHECK_INT(AB_OK, answer_with(&fx, conn, "x", 1));
  CHECK(ab_conn_gone(conn));
  CHECK_INT(AB_EPEER, answer_with(&fx, conn, "x", 1));
  CHECK_INT(0, stats_of(&fx).sent);
  finish_held(&fx, 0);
  fixture_fini(&fx);
}

static void count_release(void *ctx, void *owner) {
  CHECK(owner != NULL);
  ++*(int *)ctx;
}

static void *adopt_for(void *ctx, ab_outbox_slice *slice) {
  fixture *fx = ctx;
  CHECK(slice->ptr != NULL);
  fx->borrowed++;
  return fx;
}

/* What was queued elsewhere goes behind what is pending, as it is; nothing goes to who has gone. */
static void octets_that_move_from_another_outbox(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int released = 0;
  ab_outbox_pool *pool = ab_outbox_pool_init(&fx.mem.mem, count_release, &released, 1, 1);
  ab_outbox *outbox = ab_outbox_init(pool);
  int client = client_open(&fx);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  ab_conn *conn = fx.held[0];
  CHECK_INT(AB_OK, ab_outbox_write(outbox, "copied ", 7));
  CHECK_INT(AB_OK, ab_outbox_borrow(outbox, "lent", 4, &fx));
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_conn_write(conn, "before ", 7));
  CHECK_INT(AB_OK, ab_conn_move(conn, outbox, adopt_for, &fx));
  CHECK_INT(18, ab_conn_pending(conn));
  ab_conn_flush(conn);
  ab_engine_unlock(fx.engine);
  CHECK_INT(0, ab_outbox_pending(outbox));
  CHECK_OCTETS("before copied lent", client_read(client, NULL), 18);
  CHECK_INT(1, released);
  CHECK_INT(1, fx.released);

  CHECK_INT(AB_OK, ab_outbox_write(outbox, "kept", 4));
  ab_engine_lock(fx.engine);
  close(client);
  ab_conn_look(conn);
  CHECK(ab_conn_gone(conn));
  CHECK_INT(AB_EPEER, ab_conn_move(conn, outbox, adopt_for, &fx));
  ab_engine_unlock(fx.engine);
  CHECK_INT(4, ab_outbox_pending(outbox));
  ab_outbox_fini(outbox);
  ab_outbox_pool_fini(pool);
  answer_held(&fx, 0, "x");
  fixture_fini(&fx);
}

static void large_answers_arrive_whole(void) {
  fixture fx;
  fixture_init(&fx);
  fx.big_len = 3 << 20;
  fx.big = plenty(fx.big_len);
  int client = client_open(&fx);
  client_send(client, GET("/a") GET("/b"));
  fixture_run(&fx);
  size_t head = strlen("HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n");
  CHECK_INT(2 * (fx.big_len + head), client_drain(&fx, client));
  CHECK_INT(2, fx.released);
  CHECK_INT(1, stats_of(&fx).connections);
  close(client);
  fixture_fini(&fx);
}

static void file_that_shrank_breaks_off(void) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(5, write(fd, "hello", 5));
  ab_engine_lock(fx.engine);
  fx.borrowed++;
  CHECK_INT(AB_OK, ab_conn_file(fx.held[0], fd, 0, 10, &fx));
  ab_conn_finish(fx.held[0], true);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("hello", client_read(client, &end)) == 0);
  CHECK(end);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, stats_of(&fx).connections);
  close(fd);
  close(client);
  fixture_fini(&fx);
}

/* Who sends requests and reads no responses: the application does not answer ahead for ever. */
static void pipelining_without_reading_is_held_back(void) {
  fixture fx;
  fixture_init(&fx);
  fx.big_len = 1 << 20;
  fx.big = plenty(fx.big_len);
  int client = client_open(&fx);
  for (int i = 0; i < 200; i++) client_send(client, GET("/a"));
  fixture_run(&fx);
  CHECK(fx.taken <= AB_TURN_REQUESTS);
  size_t head = strlen("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
  CHECK_INT(200 * (fx.big_len + head), client_drain(&fx, client));
  CHECK_INT(200, fx.taken);
  CHECK_INT(200, fx.released);
  close(client);
  fixture_fini(&fx);
}

/* While the application has a request the next ones wait in the socket, but for one read of them.
 */
static void pipelining_is_read_ahead_within_a_bound(void) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  static const char request[] = GET("/a");
  unsigned sent = 0;
  for (int i = 0; i < 100; i++) {
    while (sent < 10000 && send(client, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0) sent++;
    fixture_run(&fx);
  }
  CHECK(sent > 0 && sent < 10000);
  CHECK_INT(1, fx.taken);
  CHECK(fx.held[0]->in_len <= AB_RECV_MAX);
  CHECK(fx.held[0]->own_capacity <= AB_RECV_MAX);
  close(client);
  fixture_fini(&fx);
}

CHECK_MAIN(CHECK_CASE(connection_is_small), CHECK_CASE(keep_alive),
           CHECK_CASE(idle_connection_owns_nothing), CHECK_CASE(peer_asks_to_close),
           CHECK_CASE(application_closes), CHECK_CASE(broken_off_response_closes),
           CHECK_CASE(requests_are_limited), CHECK_CASE(heads_byte_by_byte),
           CHECK_CASE(pipeline_cut_anywhere), CHECK_CASE(a_batch_leaves_in_one_write),
           CHECK_CASE(an_answer_does_not_wait_for_the_next), CHECK_CASE(long_pipeline_takes_turns),
           CHECK_CASE(nobody_is_overtaken_twice), CHECK_CASE(untaken_requests_settle),
           CHECK_CASE(chunked_body_and_what_follows), CHECK_CASE(expectation_asked_first),
           CHECK_CASE(expectation_not_waited_for), CHECK_CASE(expectation_met_in_parts),
           CHECK_CASE(expectation_after_the_response_began),
           CHECK_CASE(expectation_met_before_the_response), CHECK_CASE(expectation_left_unread),
           CHECK_CASE(expected_body_is_malformed), CHECK_CASE(expected_body_breaks_off),
           CHECK_CASE(back_pressure), CHECK_CASE(room_follows_without_a_flush),
           CHECK_CASE(octets_that_are_sent_at_once), CHECK_CASE(no_memory_for_what_is_left),
           CHECK_CASE(octets_for_a_peer_that_has_gone), CHECK_CASE(answers_that_leave_at_once),
           CHECK_CASE(answers_that_do_not_fit), CHECK_CASE(answers_for_a_peer_that_has_gone),
           CHECK_CASE(octets_that_move_from_another_outbox), CHECK_CASE(large_answers_arrive_whole),
           CHECK_CASE(file_that_shrank_breaks_off),
           CHECK_CASE(pipelining_without_reading_is_held_back),
           CHECK_CASE(pipelining_is_read_ahead_within_a_bound))
