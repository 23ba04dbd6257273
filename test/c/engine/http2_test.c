/* HTTP/2 in the engine: connections with sessions, and streams that are connections of their own.
 * The client is the library's own. */
#include "engine/fixture.h"

#ifdef AB_HAVE_HTTP2

#include <poll.h>
#include <pthread.h>

#include "engine/http2_client.h"
#include "engine/turns.h"
#include "io/storage.h"

#define GET_1    "GET /one HTTP/1.1\r\nHost: x\r\n\r\n"
#define MEGABYTE (1 << 20)

/* --- the beginning --- */

CHECK_CASE(the_preface_is_split_at_each_byte) {
  for (size_t at = 1; at <= 24; at++) {
    fixture fx;
    h2_init(&fx);
    h2_client *client = client_of(&fx);
    peer_get(&client->peer, "/a");
    client->most = at;
    CHECK(client_says(client));
    talk(client);
    CHECK_INT(1, fx.held_count);
    reply(&fx, 0, "xx");
    talk(client);
    CHECK(strstr(HEADS_OF(1), ":status=200;"));
    CHECK(strstr(HEADS_OF(1), "content-length=2;x-is=it;") ||
          strstr(HEADS_OF(1), "x-is=it;content-length=2;"));
    CHECK_INT(2, OF(1)->body_len);
    CHECK(OF(1)->ended && OF(1)->closed);
    CHECK_INT(0, OF(1)->code);
    end(&fx, client);
  }
}

CHECK_CASE(http1_on_the_same_listener) {
  fixture fx;
  h2_init(&fx);
  fx.hold = false;
  int client = client_with(&fx, "P");
  client_send(client, "OST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n_");
  client_send(client, GET_1);
  fixture_run(&fx);
  CHECK_INT(2, occurrences(client_read(client, NULL), "200 OK"));
  fixture_end(&fx, client);
}

CHECK_CASE(a_wrong_preface_is_http1) {
  static const char *const wrong[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", "PRI * HTTP/2.0\r\n\r\nS?",
                                      "PRI * HTTP/2.1\r\n\r\n", "PRX\r\n\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(wrong); i++) {
    fixture fx;
    h2_init(&fx);
    int client = client_with(&fx, wrong[i]);
    bool ended;
    CHECK(strstr(client_read(client, &ended), "HTTP/1.1 "));
    fixture_pass(&fx, 10);
    client_read(client, &ended);
    CHECK(ended);
    CHECK_INT(0, fx.held_count);
    CHECK_INT(0, stats_of(&fx).connections);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(half_a_preface_has_header_timeout) {
  fixture fx;
  h2_init(&fx);
  int client = client_with(&fx, "PRI * HTTP/2.0\r\n");
  fixture_pass(&fx, (unsigned)fx.limits.header_timeout);
  bool ended;
  CHECK(strstr(client_read(client, &ended), "HTTP/1.1 408"));
  fixture_pass(&fx, 10);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* The session begins, and its SETTINGS do not come. */
CHECK_CASE(a_preface_without_settings_has_header_timeout) {
  fixture fx;
  h2_init(&fx);
  int client = client_with(&fx, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, (unsigned)fx.limits.header_timeout);
  fixture_pass(&fx, 10);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

/* --- who holds what --- */

CHECK_CASE(the_client_leaves_while_the_application_has_its_requests) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  for (int i = 0; i < 3; i++) peer_get(&client->peer, "/a");
  talk(client);
  CHECK_INT(3, fx.held_count);
  client_leave(client);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  while (fx.held_count) finish(&fx, take_held(&fx, 0), AB_FINISH_COMPLETE);
  fixture_run(&fx);
  fixture_fini(&fx);
}

CHECK_CASE(a_drain_after_a_session_has_died_between_turns) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  peer_get(&client->peer, "/a");
  talk(client);
  CHECK_INT(1, fx.held_count);
  close(client->fd);
  reply(&fx, 0, "x"); /* finds it out */
  CHECK_INT(0, stats_of(&fx).connections);
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  client_free(client);
  fixture_fini(&fx);
}

static const char long_path[] = "/a-path-in-memory-of-the-head";

static void check_head(const ab_head_loan *head) {
  const ab_request *request = head->request;
  CHECK_BYTES("CONNECT", request->method.ptr, request->method.len);
  CHECK_BYTES(long_path, request->path.ptr, request->path.len);
  CHECK_BYTES("long-protocol", request->protocol.ptr, request->protocol.len);
  CHECK_BYTES("x-f", request->fields[0].name, request->fields[0].name_len);
  CHECK_BYTES("value", request->fields[0].value, request->fields[0].value_len);
}

static void ask_twice(h2_client *client) {
  client->peer.upload = "";
  for (int i = 0; i < 2; i++) {
    peer_request(&client->peer,
                 PAIRS(":method", "CONNECT", ":protocol", "long-protocol", ":scheme", "http",
                       ":path", long_path, ":authority", "a.test", "x-f", "value"),
                 true);
  }
}

/* A head is read without the lock, while another thread sends and finds the client gone. */
CHECK_CASE(a_client_leaves_while_a_head_is_read) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  ask_twice(client);
  CHECK(client_says(client));
  fixture_step(&fx);
  ab_head_loan head, other;
  ab_exchange *exchange = fixture_take(&fx, &head), *answered = fixture_take(&fx, &other);
  ab_exchange_give_back(answered, &other);
  CHECK(!other.request);
  client_reset(client->fd);
  reply_to(&fx, answered, "x");
  ab_engine_turns.flush(fx.engine);
  CHECK_INT(0, stats_of(&fx).connections);
  check_head(&head);
  ab_exchange_give_back(exchange, &head);
  ab_engine_end_step(fx.engine);
  finish(&fx, exchange, AB_FINISH_COMPLETE);
  client_free(client);
  fixture_fini(&fx);
}

/* The session itself says that it ends, before or after heads were given back. */
CHECK_CASE(a_session_breaks_while_a_head_is_read) {
  for (int given_back = 0; given_back < 3; given_back++) {
    fixture fx;
    h2_init(&fx);
    h2_client *client = client_of(&fx);
    ask_twice(client);
    CHECK(client_says(client));
    static const char nothing[] = "\0\0\4\10\0\0\0\0\0\0\0\0"; /* WINDOW_UPDATE of 0 */
    client_send_bytes(client->fd, nothing, sizeof nothing);
    fixture_step(&fx);
    ab_head_loan heads[2];
    ab_exchange *exchanges[] = {fixture_take(&fx, &heads[0]), fixture_take(&fx, &heads[1])};
    for (int i = 0; i < given_back; i++) ab_exchange_give_back(exchanges[i], &heads[i]);
    ab_engine_turns.flush(fx.engine);
    for (int i = given_back; i < 2; i++) {
      check_head(&heads[i]);
      ab_exchange_give_back(exchanges[i], &heads[i]);
    }
    ab_engine_end_step(fx.engine);
    for (int i = 0; i < 2; i++) finish(&fx, exchanges[i], AB_FINISH_COMPLETE);
    end(&fx, client);
  }
}

/* Their answer finds it out, before the poller tells. */
CHECK_CASE(the_client_has_left_when_its_requests_are_refused) {
  fixture fx;
  h2_init(&fx);
  fx.mute = true;
  h2_client *client = client_of(&fx);
  for (int i = 0; i < 3; i++) peer_get(&client->peer, "/a");
  talk(client);
  close(client->fd);
  fx.now += (fx.limits.queue_timeout + 1) * AB_NSEC_PER_SEC;
  ab_engine_begin_turn(fx.engine, fx.now);
  CHECK(!ab_engine_step(fx.engine));
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_TIMEOUT]);
  CHECK_INT(0, stats_of(&fx).connections);
  ab_engine_end_step(fx.engine);
  client_free(client);
  fixture_fini(&fx);
}

/* An answer without content ends its stream at once. */
CHECK_CASE(a_head_request_is_refused) {
  fixture fx;
  h2_init(&fx);
  fx.mute = true;
  h2_client *client = client_of(&fx);
  int32_t id = peer_request(&client->peer, PAIRS(PAIRS_OF("HEAD", "/a")), false);
  talk(client);
  fixture_pass(&fx, (unsigned)fx.limits.queue_timeout + 1);
  talk(client);
  CHECK_INT(1, stats_of(&fx).rejected[AB_REJECT_QUEUE_TIMEOUT]);
  CHECK(strstr(HEADS_OF(id), ":status=503"));
  CHECK(OF(id)->closed);
  CHECK_INT(1, stats_of(&fx).connections);
  end(&fx, client);
}

/* The application goes on behind it, as behind one of HTTP/1. */
CHECK_CASE(a_response_without_content_has_reached_its_client) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  ab_exchange *exchange = take_held(&fx, 0);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, give_head(exchange, (ab_content){.status = 204, .none = true}, "", NULL));
  ab_engine_unlock(fx.engine);
  talk(client);
  CHECK(OF(id)->closed);
  CHECK(!ab_exchange_gone(exchange));
  CHECK_INT(0, fx.events);
  CHECK_INT(1, stats_of(&fx).in_app);
  finish(&fx, exchange, AB_FINISH_COMPLETE);
  int32_t other = peer_get(&client->peer, "/b");
  talk(client);
  reply(&fx, 0, "x");
  talk(client);
  CHECK(OF(other)->ended);
  end(&fx, client);
}

/* It ends while the application is not done with it; so does the connection. */
CHECK_CASE(a_client_leaves_with_a_response_without_content) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  peer_get(&client->peer, "/a");
  talk(client);
  ab_exchange *exchange = take_held(&fx, 0);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, give_head(exchange, (ab_content){.status = 204, .none = true}, "", NULL));
  ab_engine_unlock(fx.engine);
  talk(client);
  client_leave(client);
  CHECK_INT(0, stats_of(&fx).connections);
  finish(&fx, exchange, AB_FINISH_COMPLETE);
  fixture_run(&fx);
  fixture_fini(&fx);
}

static enum ab_buffering buffer_all(void *ctx, ab_view path) {
  (void)ctx;
  (void)path;
  return AB_BUFFER_ANY;
}

/* An empty DATA frame ends a body that may have been longer. */
static void check_empty_body(bool buffered, const char *length) {
  fixture fx;
  h2_init(&fx);
  if (buffered) ab_engine_buffer_bodies(fx.engine, buffer_all, NULL, MEGABYTE);
  h2_client *client = client_of(&fx);
  client->peer.upload = "";
  if (length) {
    peer_request(&client->peer, PAIRS(PAIRS_OF("POST", "/"), "content-length", length), true);
  } else {
    peer_request(&client->peer, PAIRS(PAIRS_OF("POST", "/")), true);
  }
  talk(client);
  CHECK_INT(1, fx.held_count);
  ssize_t result = -1;
  if (fx.held_count && ab_exchange_body(fx.held[0])) read_what_is_there(&fx, fx.held[0], &result);
  CHECK_INT(0, result);
  if (fx.held_count) reply(&fx, 0, "");
  talk(client);
  CHECK(strstr(HEADS_OF(1), ":status=200;"));
  end(&fx, client);
}

CHECK_CASE(empty_bodies) {
  check_empty_body(false, NULL);
  check_empty_body(false, "0");
  check_empty_body(true, NULL);
  check_empty_body(true, "0");
}

/* As long as any may be, so far: only its end says that this was all. */
CHECK_CASE(a_body_of_max_body_size_has_not_ended_before_its_end) {
  for (int longer = 0; longer < 2; longer++) {
    fixture fx;
    h2_init(&fx);
    ab_limits limits = fx.limits;
    limits.max_body_size = 10;
    set_limits(&fx, &limits);
    h2_client *client = client_of(&fx);
    client->most = 1;
    post(client, "/", "0123456789");
    nghttp2_session *session = client->peer.session;
    const uint8_t *bytes;
    /* HEADERS and DATA, whose END_STREAM is taken off, and comes later. */
    uint8_t stored[4096];
    size_t len = 0;
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &bytes)) > 0; len += (size_t)n) {
      memcpy(stored + len, bytes, (size_t)n);
    }
    uint8_t *data = stored + len - 19;
    CHECK_INT(0, data[3]);
    CHECK_INT(1, data[4]);
    data[4] = 0;
    client_send_bytes(client->fd, (const char *)stored, len);
    talk(client);
    CHECK_INT(1, fx.held_count);
    ssize_t result;
    CHECK(strcmp("0123456789", read_what_is_there(&fx, fx.held[0], &result)) == 0);
    CHECK_INT(AB_AGAIN, result);
    const char rest[] = {0, 0, (char)longer, 0, 1, 0, 0, 0, 1, 'x'};
    client_send_bytes(client->fd, rest, 9 + (size_t)longer);
    talk(client);
    CHECK_INT(AB_EVENT_BODY, fx.events);
    read_what_is_there(&fx, fx.held[0], &result);
    CHECK_INT(longer ? AB_HTTP_BODY_TOO_LARGE : 0, result);
    reply(&fx, 0, "");
    talk(client);
    end(&fx, client);
  }
}

/* --- output --- */

static void widen(h2_client *client, int32_t id, int32_t len) {
  CHECK_INT(0, nghttp2_submit_window_update(client->peer.session, NGHTTP2_FLAG_NONE, id, len));
  CHECK_INT(0, nghttp2_submit_window_update(client->peer.session, NGHTTP2_FLAG_NONE, 0, len));
}

/* The application has finished its request when that is found out. */
CHECK_CASE(a_file_that_shrinks_behind_its_request) {
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_new(&fx, NULL, 0, false);
  int32_t id = peer_get(&client->peer, "/a");
  talk(client);
  static char content[200000];
  memset(content, 'x', sizeof content);
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(sizeof content, write(fd, content, sizeof content));
  ab_exchange *exchange = take_held(&fx, 0);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, give_head(exchange, of_length(sizeof content), "", NULL));
  fx.borrowed++;
  CHECK_INT(AB_OK, ab_exchange_file(exchange, fd, 0, sizeof content, &fx));
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  talk(client);
  CHECK_INT(65535, OF(id)->body_len); /* as much as the window has */
  CHECK_INT(0, ftruncate(fd, 70000));
  widen(client, id, 100000);
  talk(client);
  CHECK(OF(id)->closed);
  CHECK_INT(NGHTTP2_INTERNAL_ERROR, OF(id)->code);
  CHECK_INT(1, fx.released);
  int32_t other = peer_get(&client->peer, "/b");
  talk(client);
  reply(&fx, 0, "x");
  talk(client);
  CHECK(OF(other)->ended);
  close(fd);
  end(&fx, client);
}

/* --- what waits --- */

CHECK_CASE(what_waits_is_described_by_its_request) {
  fixture fx;
  h2_init(&fx);
  fx.mute = true;
  h2_client *client = client_of(&fx);
  post(client, "/waits?a=b", "SECRET of the body");
  talk(client);
  ab_waiting waiting;
  CHECK_INT(1, ab_engine_waiting(fx.engine, &waiting, 1));
  CHECK_BYTES("POST /waits", waiting.line, waiting.len);
  end(&fx, client);
}

/* The rest of the frame is on its way, and must not destroy what explains the end. */
CHECK_CASE(what_is_wrong_is_told_before_the_frame_has_come) {
  fixture fx;
  h2_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  static const char begun[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
                              "\0\x40\1\1\4\0\0\0\1"; /* HEADERS of 16,385 bytes */
  client_send_bytes(client, begun, sizeof begun - 1);
  fixture_run(&fx);
  CHECK_INT(AB_CONN_LINGER, conn->state);
  client_send_bytes(client, "and more of it", 14);
  fixture_run(&fx);
  bool ended;
  client_read(client, &ended);
  CHECK(ended);
  CHECK_INT(14, send(client, "and more of it", 14, MSG_NOSIGNAL)); /* it was not reset */
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* --- fairness --- */

/* The preface, SETTINGS, and `count` requests, each of which is reset at once. */
static char *requests_that_are_reset(unsigned count, size_t *len) {
  static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
  char one[] = "\0\0\6\1\5\0\0\0\0\x82\x84\x86\x41\1x"
               "\0\0\4\3\0\0\0\0\0\0\0\0\x8";
  enum { ONE = sizeof one - 1, ID = 5, RESET = 15 };
  char *text = malloc(sizeof greeting + count * ONE), *at = text;
  if (!text) abort();
  memcpy(at, greeting, sizeof greeting - 1);
  at += sizeof greeting - 1;
  for (unsigned i = 0; i < count; i++, at += ONE) {
    unsigned id = 2 * i + 1;
    one[ID + 2] = one[RESET + ID + 2] = (char)(id >> 8);
    one[ID + 3] = one[RESET + ID + 3] = (char)id;
    memcpy(at, one, ONE);
  }
  *len = (size_t)(at - text);
  return text;
}

/* What one client may send in a moment costs the others no more than a small part of it. */
CHECK_CASE(a_burst_of_resets_takes_turns) {
  fixture fx;
  h2_init(&fx);
  ab_conn *conn;
  int client = client_of_type(&fx, SOCK_STREAM, &conn);
  size_t len;
  char *text = requests_that_are_reset(900, &len);
  client_send_bytes(client, text, len);
  free(text);
  uint64_t begun = 0, most = 0;
  for (bool more = true; more;) {
    more = fixture_turn(&fx);
    CHECK_INT(AB_SPEAKS_HTTP2, conn->speaks);
    uint64_t now = ab_h2_requests(conn->session->h2);
    if (now - begun > most) most = now - begun;
    begun = now;
  }
  CHECK_INT(900, begun);
  CHECK(most <= 256);
  /* Of those whose reset came in the next turn. */
  CHECK(fx.held_count < 10);
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* --- what fails, and clients that go --- */

/* Reads bodies, which have so many bytes or an error, and answers all. */
static void serve_held(fixture *fx, size_t len) {
  static char content[5001];
  memset(content, 'x', sizeof content - 1);
  while (fx->held_count) {
    ab_exchange *exchange = take_held(fx, 0);
    if (ab_exchange_body(exchange)) {
      ssize_t result;
      size_t there = strlen(read_what_is_there(fx, exchange, &result));
      CHECK(result < 0 || there == len);
    }
    reply_to(fx, exchange, content);
  }
}

/* What came without a body is answered by a file, between bytes in memory, with trailers. */
static void serve_file(fixture *fx, int fd) {
  if (fx->held_count == 0 || ab_exchange_body(fx->held[0])) return;
  ab_exchange *exchange = take_held(fx, 0);
  ab_engine_lock(fx->engine);
  int error = give_head(exchange, unknown_length, "", NULL);
  if (!error) error = ab_exchange_write(exchange, "xxxx", 4);
  if (!error) error = ab_exchange_file(exchange, fd, 0, 40000, fx);
  if (!error) fx->borrowed++;
  if (!error) error = ab_exchange_write(exchange, "xxxx", 4);
  if (!error) error = ab_exchange_end(exchange, "x-sum: 1\r\n", 10);
  ab_exchange_finish(exchange, error ? AB_FINISH_BROKEN : AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

static void check_whole(const h2_client *client, int32_t id, uint64_t len) {
  CHECK(strstr(HEADS_OF(id), ":status=200;"));
  CHECK_INT(len, OF(id)->body_len);
}

static int plain_file(void) {
  static char content[40000];
  memset(content, 'x', sizeof content);
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(sizeof content, write(fd, content, sizeof content));
  return fd;
}

/* Two requests, one of them with a body, whose allocation number `at` fails: a client gets a
 * response as a whole, an answer of the server's, or learns that there is none. False: there are
 * not so many allocations. */
static bool ask_failing(size_t at) {
  static char body[30001];
  static const uint64_t lens[] = {40008, 5000};
  memset(body, 'b', sizeof body - 1);
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  int fd = plain_file();
  size_t last = fx.mem.calls + at;
  fx.mem.fail_at = last;
  int32_t ids[] = {peer_get(&client->peer, "/a"), post(client, "/b", body)};
  talk(client);
  serve_file(&fx, fd);
  serve_held(&fx, sizeof body - 1);
  talk(client);
  bool failed = fx.mem.calls >= last, over = has_ended(client);
  for (int i = 0; i < 2; i++) {
    const peer_stream *one = OF(ids[i]);
    bool refused = strstr(one->heads, ":status=5") != NULL;
    CHECK(over || one->closed);
    if (!failed || (one->ended && !refused)) check_whole(client, ids[i], lens[i]);
  }
  if (!failed) CHECK(strstr(HEADS_OF(ids[0]), "x-sum=1;"));
  close(fd);
  end(&fx, client);
  return failed;
}

CHECK_CASE(memory_that_fails) {
  size_t at = 1;
  while (at < 1000 && ask_failing(at)) at++;
  CHECK(at > 20 && at < 1000);
}

/* All that a client says of two requests, one of them with a body, before it has heard anything. */
static size_t say_two(h2_client *client, char *said) {
  peer_get(&client->peer, "/a");
  post(client, "/b", "body");
  size_t len = 0;
  const uint8_t *bytes;
  for (ssize_t n; (n = nghttp2_session_mem_send(client->peer.session, &bytes)) > 0;) {
    memcpy(said + len, bytes, (size_t)n);
    len += (size_t)n;
  }
  return len;
}

CHECK_CASE(two_requests_are_split_at_each_byte) {
  for (size_t at = 1, len = 2; at < len; at++) {
    fixture fx;
    h2_init(&fx);
    h2_client *client = client_of(&fx);
    char said[1024];
    len = say_two(client, said);
    client_send_bytes(client->fd, said, at);
    fixture_run(&fx);
    client_send_bytes(client->fd, said + at, len - at);
    talk(client);
    CHECK_INT(2, fx.held_count);
    serve_held(&fx, 4);
    talk(client);
    check_whole(client, 1, 5000);
    check_whole(client, 3, 5000);
    end(&fx, client);
  }
}

/* ... by its leave, or with a half-close before. Whatever has begun comes to an end. */
CHECK_CASE(a_client_leaves_behind_each_byte) {
  for (int half = 0; half < 2; half++) {
    for (size_t at = 0, len = 1; at <= len; at++) {
      fixture fx;
      h2_init(&fx);
      h2_client *client = client_of(&fx);
      char said[1024];
      len = say_two(client, said);
      if (at > 0) client_send_bytes(client->fd, said, at);
      fixture_run(&fx);
      if (at == len) CHECK_INT(2, fx.held_count);
      if (half) shutdown(client->fd, SHUT_WR);
      fixture_run(&fx);
      client_leave(client);
      CHECK_INT(0, stats_of(&fx).connections);
      serve_held(&fx, 4);
      fixture_run(&fx);
      CHECK_INT(0, stats_of(&fx).in_app);
      fixture_fini(&fx);
    }
  }
}

#else

/* Without the library nobody speaks it. */
CHECK_CASE(a_preface_is_no_request) {
  fixture fx;
  fixture_init(&fx);
  const ab_listener_terms terms = {.http2 = true};
  int client = client_tcp(fixture_listen_on(&fx, &terms));
  client_send(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  fixture_run(&fx);
  bool ended;
  CHECK(strstr(client_read(client, &ended), "HTTP/1.1 400"));
  fixture_end(&fx, client);
}

#endif

CHECK_MAIN()
