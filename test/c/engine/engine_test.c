/* From bytes to requests and back: heads, pipelines, bodies and expectations. */
#include "engine/fixture.h"

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define OK(length, text) "HTTP/1.1 200 OK\r\nContent-Length: " #length "\r\n\r\n" text

CHECK_CASE(connection_is_small) {
  CHECK(sizeof(ab_conn) + 16 <= 192); /* and its entry in the poller's table */
}

CHECK_CASE(keep_alive) {
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

CHECK_CASE(idle_connection_owns_nothing) {
  fixture fx;
  fixture_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  CHECK(!conn->out && !conn->own && !conn->exchange && conn->in_len == 0);
  CHECK_INT(AB_CONN_HEAD, conn->state);
  size_t calls = fx.mem.calls;
  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK_INT(calls, fx.mem.calls); /* the steady state allocates nothing */
  fixture_end(&fx, client);
}

CHECK_CASE(peer_asks_to_close) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close\r\n\r\n/a"));
  CHECK(end);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

CHECK_CASE(application_closes) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_keep_alive(fx.held[0]));
  ab_exchange_close_after(fx.held[0]);
  CHECK(!ab_exchange_keep_alive(fx.held[0]));
  ab_engine_unlock(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close"));
  CHECK(end);
  fixture_end(&fx, client);
}

CHECK_CASE(broken_off_response_closes) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a") GET("/b"));
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_keep_alive(fx.held[0]));
  CHECK_INT(AB_OK, ab_exchange_write(fx.held[0], "HTTP/1.1 200 OK\r\n", 17));
  ab_exchange_finish(fx.held[0], false);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("HTTP/1.1 200 OK\r\n", client_read(client, &end)) == 0);
  CHECK(end);
  CHECK_INT(1, fx.taken);
  fixture_end(&fx, client);
}

CHECK_CASE(requests_are_limited) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_requests_per_connection = 3;
  CHECK(fixture_start(&fx));
  int client = client_with(&fx, GET("/1") GET("/2") GET("/3") GET("/4"));
  bool end;
  const char *text = client_read(client, &end);
  CHECK_INT(3, occurrences(text, "200 OK"));
  CHECK_INT(1, occurrences(text, "Connection: close"));
  CHECK(end);
  CHECK(strcmp("123", fx.paths) == 0);
  fixture_end(&fx, client);
}

/* Each byte comes alone, over one turn each; the verdict is the same and the memory bounded. */
CHECK_CASE(heads_byte_by_byte) {
  fixture fx;
  fixture_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  static const char text[] = GET("/a") GET("/b");
  for (size_t i = 0; i < sizeof(text) - 1; i++) {
    client_send_bytes(client, text + i, 1);
    fixture_run(&fx);
    CHECK(conn->own_capacity <= 8192);
  }
  CHECK(strcmp(OK(2, "/a") OK(2, "/b"), client_read(client, NULL)) == 0);
  CHECK(!conn->own);
  fixture_end(&fx, client);
}

CHECK_CASE(pipeline_cut_anywhere) {
  static const char text[] =
      GET("/a") "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz" GET("/c");
  for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
    fixture fx;
    fixture_init(&fx);
    int client = client_open(&fx);
    client_send_bytes(client, text, cut);
    fixture_run(&fx);
    client_send_bytes(client, text + cut, sizeof(text) - 1 - cut);
    fixture_run(&fx);
    CHECK(strcmp(OK(2, "/a") OK(6, "/b:xyz") OK(2, "/c"), client_read(client, NULL)) == 0);
    fixture_end(&fx, client);
  }
}

/* The socket keeps the borders of messages: what was written at once is read at once. */
CHECK_CASE(a_batch_leaves_in_one_write) {
  fixture fx;
  fixture_init(&fx);
  int client = client_of_type(&fx, SOCK_SEQPACKET, NULL);
  client_send(client, GET("/a") GET("/b") GET("/c"));
  fixture_run(&fx);
  static const char expected[] = OK(2, "/a") OK(2, "/b") OK(2, "/c");
  char buf[1024];
  ssize_t n = recv(client, buf, sizeof buf, 0);
  CHECK_BYTES(expected, buf, n > 0 ? (size_t)n : 0);
  CHECK_INT(-1, recv(client, buf, sizeof buf, 0));
  fixture_end(&fx, client);
}

/* No response waits for a request that the application keeps. */
CHECK_CASE(an_answer_does_not_wait_for_the_next) {
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
  fixture_end(&fx, client);
}

/* More than one turn's share of one connection: others get their turn in between. */
CHECK_CASE(long_pipeline_takes_turns) {
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
CHECK_CASE(nobody_is_overtaken_twice) {
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
CHECK_CASE(untaken_requests_settle) {
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
  /* With epoll in the order in which they came, with poll(2) in that of the connections. */
  CHECK(strcmp(AB_HAS(EPOLL) ? "acbde" : "acdbe", fx.paths) == 0);
  CHECK(strcmp(OK(5, "/a:hi") OK(2, "/c") OK(5, "/d:ho") OK(2, "/e"), client_read(a, NULL)) == 0);
  CHECK(strcmp(OK(2, "/b"), client_read(b, NULL)) == 0);
  close(a);
  close(b);
  fixture_fini(&fx);
}

/* --- bodies --- */

CHECK_CASE(chunked_body_and_what_follows) {
  fixture fx;
  fixture_init(&fx);
  int client =
      client_with(&fx, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
  CHECK_INT(1, fx.taken);
  client_send(client, "c\r\n0\r\n\r\n" GET("/b"));
  fixture_run(&fx);
  CHECK(strcmp(OK(6, "/a:abc") OK(2, "/b"), client_read(client, NULL)) == 0);
  fixture_end(&fx, client);
}

#define EXPECT(path, n)                                                                            \
  "POST " path " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " #n "\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

CHECK_CASE(expectation_asked_first) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  ssize_t result;
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
  CHECK_INT(AB_OK, ab_exchange_body_error(fx.held[0]));
  CHECK(*client_read(client, NULL) == '\0'); /* once is enough */
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  answer_held(&fx, 0, "y"); /* the request behind the body */
  fixture_run(&fx);
  CHECK(strcmp(OK(1, "x") OK(1, "y"), client_read(client, NULL)) == 0);
  fixture_end(&fx, client);
}

/* The body came with its head, in the same turn or in a later one: no interim response is needed.
 */
CHECK_CASE(expectation_not_waited_for) {
  for (int later = 0; later < 3; later++) {
    fixture fx;
    fixture_init(&fx);
    fx.hold = true;
    int client = client_open(&fx);
    ssize_t result;
    client_send(client, later < 2 ? EXPECT("/a", 5) "hello" GET("/b") : EXPECT("/a", 5));
    fixture_turn(&fx);
    if (later) fixture_run(&fx); /* the bytes have settled by then */
    if (later == 2) client_send(client, "hello" GET("/b"));
    CHECK(strcmp("hello", read_what_is_there(&fx, fx.held[0], &result)) == 0);
    CHECK_INT(0, result);
    CHECK_INT(0, fx.events);
    answer_held(&fx, 0, "x");
    fixture_run(&fx);
    answer_held(&fx, 0, "y");
    fixture_run(&fx);
    CHECK(strcmp(OK(1, "x") OK(1, "y"), client_read(client, NULL)) == 0);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(expectation_met_in_parts) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5) "he");
  ssize_t result;
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
  fixture_end(&fx, client);
}

/* For a response that goes before its request's body; once, and never when the body is here. */
CHECK_CASE(expectation_met_before_the_response) {
  for (int here = 0; here < 2; here++) {
    fixture fx;
    int client = fixture_init_held(&fx, here ? EXPECT("/a", 5) "hello" : EXPECT("/a", 5));
    for (int i = 0; i < 2; i++) {
      ab_engine_lock(fx.engine);
      ab_exchange_continue(fx.held[0]);
      ab_engine_unlock(fx.engine);
    }
    fixture_run(&fx);
    CHECK(strcmp(here ? "" : CONTINUE, client_read(client, NULL)) == 0);
    answer_held(&fx, 0, "x");
    fixture_run(&fx);
    fixture_end(&fx, client);
  }
}

/* Behind the head of a final response the word would be a part of it (RFC 9110 15.2). */
CHECK_CASE(expectation_after_the_response_began) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  ssize_t result;
  ab_engine_lock(fx.engine);
  CHECK(!ab_exchange_keep_alive(fx.held[0]));
  CHECK_INT(AB_OK, ab_exchange_write(fx.held[0], "head", 4));
  ab_engine_unlock(fx.engine);
  read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(AB_AGAIN, result);
  fixture_run(&fx);
  client_send(client, "hello"); /* a client may send it all the same */
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("hello", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  ab_engine_lock(fx.engine);
  ab_exchange_finish(fx.held[0], AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("head", client_read(client, &end)) == 0);
  CHECK(end);
  fixture_end(&fx, client);
}

/* Nobody knows whether the body will come: the connection cannot be used again. */
CHECK_CASE(expectation_left_unread) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, EXPECT("/a", 5));
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

CHECK_CASE(expected_body_is_malformed) {
  fixture fx;
  int client = fixture_init_held(&fx, "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n");
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  client_send(client, "zz\r\n");
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  for (int i = 0; i < 2; i++) {
    read_what_is_there(&fx, fx.held[0], &result);
    CHECK_INT(AB_HTTP_CHUNK_SIZE_SYNTAX, result);
  }
  CHECK_INT(AB_HTTP_CHUNK_SIZE_SYNTAX, ab_exchange_body_error(fx.held[0]));
  CHECK(!ab_exchange_keep_alive(fx.held[0]));
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close"));
  CHECK(end);
  fixture_end(&fx, client);
}

CHECK_CASE(expected_body_breaks_off) {
  fixture fx;
  int client = fixture_init_held(&fx, EXPECT("/a", 5));
  ssize_t result;
  read_what_is_there(&fx, fx.held[0], &result);
  client_send(client, "he");
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK(strcmp("he", read_what_is_there(&fx, fx.held[0], &result)) == 0);
  if (!AB_HAS(EPOLL) && !AB_HAS(KQUEUE)) { /* poll(2) tells of an end when its bytes are read */
    CHECK_INT(AB_AGAIN, result);
    fx.events = 0;
    fixture_run(&fx);
    CHECK_INT(AB_EVENT_BODY, fx.events);
    CHECK(*read_what_is_there(&fx, fx.held[0], &result) == '\0');
  }
  CHECK_INT(AB_EPEER, result);
  CHECK_INT(AB_EPEER, ab_exchange_body_error(fx.held[0]));
  answer_held(&fx, 0, "x"); /* it may still be read */
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), CONTINUE "HTTP/1.1 200 OK\r\n"));
  CHECK(end);
  fixture_end(&fx, client);
}

/* While the application has a request the next ones wait in the socket, but for one read of them.
 */
CHECK_CASE(pipelining_is_read_ahead_within_a_bound) {
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
  CHECK(fx.held[0]->conn->in_len <= AB_RECV_MAX);
  CHECK(fx.held[0]->conn->own_capacity <= AB_RECV_MAX);
  fixture_end(&fx, client);
}

/* In a page that processes share: the engine goes on from what others have counted there. */
CHECK_CASE(figures_go_on_where_others_have_counted) {
  ab_figures page = {.requests = 10, .sent = 1000, .connections = 3, .in_app = 2};
  fixture fx;
  fixture_prepare(&fx);
  fx.stats = &page;
  CHECK(fixture_start(&fx));
  CHECK_INT(0, page.connections); /* those of an engine that is no more */
  int client = client_with(&fx, GET("/a"));
  size_t sent = strlen(client_read(client, NULL));
  CHECK_INT(11, page.requests);
  CHECK_INT(1, stats_of(&fx).requests);
  CHECK_INT(1000 + sent, page.sent);
  CHECK_INT(sent, stats_of(&fx).sent);
  CHECK_INT(1, page.connections);
  CHECK_INT(1, stats_of(&fx).connections);
  CHECK_INT(fx.now, page.turned);
  ab_engine_detach(fx.engine);
  ab_engine_count_in(fx.engine, NULL);
  CHECK_INT(11, page.requests);
  CHECK_INT(0, page.connections);
  page.requests = 0; /* from now on the engine has its own memory */
  CHECK_INT(1, stats_of(&fx).requests);
  CHECK_INT(0, stats_of(&fx).connections);
  close(client);
  fixture_fini(&fx);
}

static enum ab_buffering buffer_all(void *ctx AB_UNUSED, ab_view path AB_UNUSED) {
  return AB_BUFFER_ANY;
}

/* What is buffered, and what the application has, when the engine counts elsewhere. */
CHECK_CASE(figures_move_with_what_is_left) {
  ab_figures page = {0};
  fixture fx;
  fixture_prepare(&fx);
  fx.stats = &page;
  fx.hold = true;
  CHECK(fixture_start(&fx));
  ab_engine_buffer_bodies(fx.engine, buffer_all, NULL, 1 << 20);
  int client =
      client_with(&fx, "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
  CHECK_INT(1, fx.held_count);
  CHECK_INT(1, page.in_app);
  CHECK_INT(5, page.bodies.bytes);
  ab_engine_detach(fx.engine);
  ab_engine_count_in(fx.engine, NULL);
  CHECK_INT(0, page.in_app);
  CHECK_INT(0, page.bodies.bytes);
  CHECK_INT(1, stats_of(&fx).in_app);
  ab_figures before = page;
  close(client);
  fixture_fini(&fx);
  CHECK(memcmp(&before, &page, sizeof page) == 0);
}

/* In a forked child, the page is its parent's. */
CHECK_CASE(an_abandoned_engine_does_not_count) {
  ab_figures page = {.requests = 4};
  fixture fx;
  fixture_prepare(&fx);
  fx.stats = &page;
  CHECK(fixture_start(&fx));
  int client = client_with(&fx, GET("/a"));
  ab_figures before = page;
  CHECK_INT(1, before.connections);
  ab_engine_abandon(fx.engine);
  CHECK_INT(1, stats_of(&fx).requests);
  CHECK_INT(1, stats_of(&fx).connections);
  ab_engine_abort(fx.engine);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK(memcmp(&before, &page, sizeof page) == 0);
  close(client);
  fixture_fini(&fx);
  CHECK(memcmp(&before, &page, sizeof page) == 0);
}

/* As in a page that processes share. */
CHECK_CASE(figures_in_memory_of_others) {
  static ab_figures page;
  fixture fx;
  fixture_prepare(&fx);
  fx.stats = &page;
  CHECK(fixture_start(&fx));
  int client = client_with(&fx, GET("/a"));
  CHECK_INT(1, page.requests);
  CHECK_INT(1, page.connections);
  CHECK_INT(strlen(GET("/a")), page.received);
  CHECK_INT(strlen(client_read(client, NULL)), page.sent);
  fixture_end(&fx, client);
  CHECK_INT(1, page.requests);
  CHECK_INT(0, page.connections);
}

CHECK_MAIN()
