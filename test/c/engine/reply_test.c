/* Output: what the socket takes at once, what waits for it, and what becomes of that. */
#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static const char *plenty(size_t len) {
  static char bytes[8 << 20];
  if (!bytes[0]) memset(bytes, 'x', sizeof bytes);
  return len <= sizeof bytes ? bytes : NULL;
}

CHECK_CASE(back_pressure) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  size_t len = 2 << 20;
  ab_engine_lock(fx.engine);
  CHECK(!ab_exchange_want_room(exchange));
  CHECK_INT(AB_OK, lend(&fx, exchange, plenty(len), len));
  CHECK(
      ab_exchange_want_room(exchange)); /* it is sent as far as it goes, although nobody flushed */
  ab_engine_unlock(fx.engine);
  fixture_run(&fx);
  CHECK_INT(0, fx.events);
  CHECK_INT(0, fx.released);
  CHECK_INT(len, client_drain(&fx, client));
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  CHECK_INT(1, fx.released);
  ab_engine_lock(fx.engine);
  CHECK(!ab_exchange_want_room(exchange));
  ab_engine_unlock(fx.engine);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  fixture_end(&fx, client);
}

CHECK_CASE(room_follows_without_a_flush) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_open(&fx);
  int size = 1 << 22;
  client_send(client, GET("/a"));
  fixture_run(&fx);
  setsockopt(fx.held[0]->conn->link.watch.fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, lend(&fx, fx.held[0], plenty(400000), 400000));
  bool waits = ab_exchange_want_room(fx.held[0]);
  ab_engine_unlock(fx.engine);
  /* Whether or not the socket took it all: who waits is told. */
  CHECK_INT(400000, client_drain(&fx, client));
  CHECK_INT(waits ? AB_EVENT_DRAINED : 0, fx.events);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

static int send_bytes(fixture *fx, ab_exchange *exchange, size_t len) {
  const struct iovec iov[] = {{(char *)plenty(len), len}, {"end", 3}};
  ab_engine_lock(fx->engine);
  int error = ab__conn_send(exchange->conn, iov, 2);
  ab_engine_unlock(fx->engine);
  return error;
}

/* Behind what is pending, and only what the socket does not take is copied. */
CHECK_CASE(bytes_that_are_sent_at_once) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "before ", 7));
  ab_engine_unlock(fx.engine);
  CHECK_INT(AB_OK, send_bytes(&fx, exchange, 2));
  CHECK_BYTES("before xxend", client_read(client, NULL), 12);
  CHECK_INT(0, ab_exchange_pending(exchange));
  CHECK_INT(12, stats_of(&fx).sent);

  size_t len = 2 << 20;
  CHECK_INT(AB_OK, send_bytes(&fx, exchange, len));
  uint64_t rest = ab_exchange_pending(exchange);
  CHECK(rest > 3 && rest < len);
  CHECK_INT(12 + len + 3 - rest, stats_of(&fx).sent);
  CHECK_INT(AB_OK, send_bytes(&fx, exchange, 2)); /* the rest comes first */
  CHECK_INT(rest + 5, ab_exchange_pending(exchange));
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_want_sent(exchange));
  ab_engine_unlock(fx.engine);
  CHECK_INT(len + 8, client_drain(&fx, client));
  CHECK_INT(AB_EVENT_DRAINED, fx.events);
  CHECK_INT(AB_OK, send_bytes(&fx, exchange, 2));
  CHECK_BYTES("xxend", client_read(client, NULL), 5);
  answer_held(&fx, 0, "x");
  fixture_end(&fx, client);
}

/* What has begun and cannot be kept ends the connection; what has not can be sent again. */
CHECK_CASE(no_memory_for_what_is_left) {
  size_t len = 2 << 20;
  for (size_t nth = 1;; nth++) {
    fixture fx;
    int client = fixture_init_held(&fx, GET("/a"));
    ab_exchange *exchange = fx.held[0];
    fx.mem.fail_at = fx.mem.calls + nth;
    int error = send_bytes(&fx, exchange, len);
    bool failed = fx.mem.calls >= fx.mem.fail_at;
    fx.mem.fail_at = 0;
    CHECK_INT(failed ? AB_ENOMEM : AB_OK, error);
    CHECK_INT(failed, ab_exchange_gone(exchange));
    if (failed) CHECK_INT(AB_EPEER, send_bytes(&fx, exchange, 2));
    answer_held(&fx, 0, "x");
    size_t received = client_drain(&fx, client);
    CHECK_INT(stats_of(&fx).sent, received);
    fixture_end(&fx, client);
    if (!failed) break;
    CHECK(nth < 20);
  }
}

CHECK_CASE(bytes_for_a_peer_that_has_gone) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  close(client);
  CHECK_INT(AB_EPEER, send_bytes(&fx, exchange, 2));
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(AB_EPEER, send_bytes(&fx, exchange, 2));
  CHECK_INT(0, stats_of(&fx).sent);
  answer_held(&fx, 0, "x");
  fixture_fini(&fx);
}

static int answer_with(fixture *fx, ab_exchange *exchange, const char *ptr, size_t len) {
  ab_engine_lock(fx->engine);
  int error = ab__conn_write_last(exchange->conn, ptr, len);
  ab_engine_unlock(fx->engine);
  return error;
}

static void finish_held(fixture *fx, unsigned i) {
  ab_exchange *exchange = fx->held[i];
  fx->held[i] = fx->held[--fx->held_count];
  ab_engine_lock(fx->engine);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx->engine);
}

/* A whole response leaves before its exchange is finished, unless another can leave with it. */
CHECK_CASE(answers_that_leave_at_once) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "first", 5));
  CHECK_BYTES("first", client_read(client, NULL), 5);
  CHECK_INT(5, stats_of(&fx).sent);
  finish_held(&fx, 0);
  client_send(client, GET("/b") GET("/c"));
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "second", 6));
  CHECK_INT(6, ab_exchange_pending(fx.held[0])); /* the next request is here */
  finish_held(&fx, 0);
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], "third", 5));
  finish_held(&fx, 0);
  fixture_run(&fx);
  CHECK_BYTES("secondthird", client_read(client, NULL), 11);
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* Behind what is pending, and what the socket does not take follows. */
CHECK_CASE(answers_that_do_not_fit) {
  size_t len = 2 << 20;
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "before", 6));
  ab_engine_unlock(fx.engine);
  CHECK_INT(AB_OK, answer_with(&fx, exchange, plenty(len), len));
  CHECK_INT(len + 6, ab_exchange_pending(exchange));
  finish_held(&fx, 0);
  CHECK_INT(len + 6, client_drain(&fx, client));

  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK_INT(AB_OK, answer_with(&fx, fx.held[0], plenty(len), len));
  uint64_t rest = ab_exchange_pending(fx.held[0]);
  CHECK(rest > 0 && rest < len);
  finish_held(&fx, 0);
  CHECK_INT(len, client_drain(&fx, client));
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* It has left as far as the application is concerned, as one that waits in the outbox has. */
CHECK_CASE(answers_for_a_peer_that_has_gone) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  close(client);
  CHECK_INT(AB_OK, answer_with(&fx, exchange, "x", 1));
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(AB_EPEER, answer_with(&fx, exchange, "x", 1));
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
CHECK_CASE(bytes_that_move_from_another_outbox) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int released = 0;
  ab_outbox_pool *pool = ab_outbox_pool_init(&fx.mem.mem, count_release, &released, 1, 1);
  ab_outbox *outbox = ab_outbox_init(pool);
  int client = client_with(&fx, GET("/a"));
  ab_exchange *exchange = fx.held[0];
  CHECK_INT(AB_OK, ab_outbox_write(outbox, "copied ", 7));
  CHECK_INT(AB_OK, ab_outbox_borrow(outbox, "lent", 4, &fx));
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "before ", 7));
  CHECK_INT(AB_OK, ab_exchange_move(exchange, outbox, adopt_for, &fx));
  CHECK_INT(18, ab_exchange_pending(exchange));
  ab_exchange_flush(exchange);
  ab_engine_unlock(fx.engine);
  CHECK_INT(0, ab_outbox_pending(outbox));
  CHECK_BYTES("before copied lent", client_read(client, NULL), 18);
  CHECK_INT(1, released);
  CHECK_INT(1, fx.released);

  CHECK_INT(AB_OK, ab_outbox_write(outbox, "kept", 4));
  ab_engine_lock(fx.engine);
  close(client);
  ab_exchange_look(exchange);
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(AB_EPEER, ab_exchange_move(exchange, outbox, adopt_for, &fx));
  ab_engine_unlock(fx.engine);
  CHECK_INT(4, ab_outbox_pending(outbox));
  ab_outbox_fini(outbox);
  ab_outbox_pool_fini(pool);
  answer_held(&fx, 0, "x");
  fixture_fini(&fx);
}

CHECK_CASE(large_answers_arrive_whole) {
  fixture fx;
  fixture_init(&fx);
  fx.big_len = 3 << 20;
  fx.big = plenty(fx.big_len);
  int client = client_with(&fx, GET("/a") GET("/b"));
  size_t head = strlen("HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n");
  CHECK_INT(2 * (fx.big_len + head), client_drain(&fx, client));
  CHECK_INT(2, fx.released);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_end(&fx, client);
}

CHECK_CASE(file_that_shrank_breaks_off) {
  fixture fx;
  int client = fixture_init_held(&fx, GET("/a"));
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(5, write(fd, "hello", 5));
  ab_engine_lock(fx.engine);
  fx.borrowed++;
  CHECK_INT(AB_OK, ab_exchange_file(fx.held[0], fd, 0, 10, &fx));
  ab_exchange_finish(fx.held[0], true);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("hello", client_read(client, &end)) == 0);
  CHECK(end);
  CHECK_INT(1, fx.released);
  CHECK_INT(0, stats_of(&fx).connections);
  close(fd);
  fixture_end(&fx, client);
}

/* Who sends requests and reads no responses: the application does not answer ahead for ever. */
CHECK_CASE(pipelining_without_reading_is_held_back) {
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
  fixture_end(&fx, client);
}

CHECK_MAIN()
