/* Exchanges: when there is one, what becomes of it when its connection ends first, and which steps
 * it may take. */
#include <sys/wait.h>

#include "engine/fixture.h"
#include "engine/turns.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"

/* A connection that has served a request, and waits for the next. */
static ab_conn *idle(fixture *fx, int *client) {
  ab_conn *conn;
  fixture_init(fx);
  *client = client_of_type(fx, SOCK_STREAM, &conn);
  client_send(*client, GET("/a"));
  fixture_run(fx);
  client_read(*client, NULL);
  return conn;
}

CHECK_CASE(only_a_request_in_flight_has_one) {
  fixture fx;
  int client;
  const ab_conn *conn = idle(&fx, &client);
  CHECK(!conn->exchange);
  fx.hold = true;
  client_send(client, "GET /b HTTP/1.1\r\nHo");
  fixture_run(&fx);
  CHECK(!conn->exchange); /* half a head is none yet */
  client_send(client, "st: x\r\n\r\n");
  fixture_run(&fx);
  CHECK(conn->exchange == fx.held[0]);
  CHECK(fx.held[0]->conn == conn);
  CHECK_INT(AB_EXCHANGE_APP, fx.held[0]->state);
  answer_held(&fx, 0, "x");
  CHECK(!conn->exchange);
  fixture_end(&fx, client);
}

CHECK_CASE(one_that_waits_is_queued) {
  fixture fx;
  int client;
  const ab_conn *conn = idle(&fx, &client);
  fx.mute = true;
  client_send(client, GET("/b"));
  fixture_run(&fx);
  CHECK_INT(AB_EXCHANGE_QUEUED, conn->exchange->state);
  CHECK(conn->exchange->waits && !conn->exchange->request);
  fixture_end(&fx, client);
}

/* The memory of the one before is used again, though the two are on different connections. */
CHECK_CASE(memory_is_used_again) {
  fixture fx;
  int one, other;
  idle(&fx, &one);
  other = client_open(&fx);
  fixture_run(&fx);
  fx.hold = true;
  client_send(one, GET("/b"));
  fixture_run(&fx);
  const ab_exchange *first = fx.held[0];
  answer_held(&fx, 0, "x");
  size_t calls = fx.mem.calls;
  client_send(other, GET("/c"));
  fixture_run(&fx);
  CHECK(fx.held[0] == first);
  CHECK_INT(calls, fx.mem.calls);
  answer_held(&fx, 0, "x");
  close(one);
  close(other);
  fixture_fini(&fx);
}

/* The next allocation is that of a slab of exchanges: there was none before. */
static void check_without_memory(const char *request, const char *end_of_answer) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  fixture_run(&fx);
  fx.mem.fail_at = fx.mem.calls + 1;
  client_send(client, request);
  fixture_run(&fx);
  bool end;
  const char *answer = client_read(client, &end);
  CHECK(strstr(answer, "HTTP/1.1 503 Service Unavailable\r\n") == answer);
  CHECK(strlen(answer) > strlen(end_of_answer) &&
        strcmp(answer + strlen(answer) - strlen(end_of_answer), end_of_answer) == 0);
  CHECK(end);
  CHECK_INT(0, fx.taken);
  CHECK_INT(1, stats_of(&fx).errors);
  close(client);
  client = client_with(&fx, GET("/b"));
  CHECK(strstr(client_read(client, NULL), "200 OK"));
  fixture_end(&fx, client);
}

CHECK_CASE(without_memory_the_request_gets_503) {
  check_without_memory(GET("/a"), "\r\n\r\n503 Service Unavailable\n");
  check_without_memory("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n", "Connection: close\r\n\r\n");
}

/* What had come of the body can be read behind the peer's reset, and then the error. */
CHECK_CASE(it_outlives_its_socket) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  int client = client_tcp(fixture_listen(&fx));
  client_send(client, POST("/a", 10) "0123");
  fixture_run(&fx);
  ab_exchange *exchange = fx.held[0];
  client_reset(client);
  fixture_run(&fx);
  CHECK_INT(AB_EVENT_GONE, fx.events);
  CHECK_INT(AB_CONN_DEAD, exchange->conn->state);
  CHECK_INT(AB_EXCHANGE_APP, exchange->state);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, stats_of(&fx).in_app);
  char buf[16];
  CHECK_INT(4, read_body(&fx, exchange, buf, sizeof buf));
  CHECK_INT(AB_EPEER, read_body(&fx, exchange, buf, sizeof buf));
  CHECK_INT(AB_EPEER, ab_exchange_write(exchange, "x", 1));
  CHECK_INT(AB_EVENT_GONE, ab_exchange_news(exchange));
  answer_held(&fx, 0, "x");
  CHECK_INT(0, stats_of(&fx).in_app);
  fixture_fini(&fx);
}

/* The response is given, and the exchange is over when the rest of the body has come. */
CHECK_CASE(an_unread_rest_keeps_it) {
  fixture fx;
  int client;
  const ab_conn *conn = idle(&fx, &client);
  fx.hold = true;
  client_send(client, POST("/b", 10) "0123");
  fixture_run(&fx);
  answer_held(&fx, 0, "x");
  CHECK_INT(AB_CONN_BUSY, conn->state);
  CHECK_INT(AB_EXCHANGE_SKIP, conn->exchange->state);
  CHECK(!conn->exchange->app);
  client_send(client, "456789");
  fixture_run(&fx);
  CHECK_INT(AB_CONN_HEAD, conn->state);
  CHECK(!conn->exchange);
  fixture_end(&fx, client);
}

/* --- heads on loan --- */

/* Its peer goes, which is found out by others who send: the head and its bytes stay. */
static void check_loan(const char *first, const char *second) {
  fixture fx;
  fixture_init(&fx);
  int client = client_with(&fx, first);
  client_send(client, second);
  fixture_step(&fx);
  ab_head_loan head, none = {NULL};
  ab_exchange *exchange = fixture_take(&fx, &head);
  client_reset(client);
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_look(exchange));
  ab_engine_unlock(fx.engine);
  ab_engine_turns.flush(fx.engine);
  const ab_request *request = head.request;
  CHECK_BYTES("/path", request->path.ptr, request->path.len);
  CHECK_BYTES("Host", request->fields[0].name, request->fields[0].name_len);
  CHECK_BYTES("a.test", request->host.ptr, request->host.len);
  CHECK(!request->protocol.ptr);
  ab_head_loan passed_on = ab_head_pass_on(&head);
  CHECK(!head.request && passed_on.request == request);
  ab_exchange_give_back(exchange, &head);
  ab_exchange_give_back(exchange, &none);
  CHECK_INT(1, fx.engine->lent); /* an empty loan is none */
  ab_exchange_give_back(exchange, &passed_on);
  CHECK_INT(0, fx.engine->lent);
#ifdef __SANITIZE_ADDRESS__
  CHECK(__asan_address_is_poisoned(request));
#endif
  ab_engine_end_step(fx.engine);
  answer(&fx, exchange, "x");
  fixture_fini(&fx);
}

CHECK_CASE(a_head_on_loan_outlives_its_connection) {
  check_loan("", "GET /path HTTP/1.1\r\nHost: a.test\r\n\r\n");
  check_loan("GET /path HTTP/1.1\r\nHo", "st: a.test\r\n\r\n");
  check_loan("", "POST /path HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n123");
}

/* What the step leaves behind in the arena is nobody's. */
CHECK_CASE(the_memory_of_a_step_that_has_ended_is_poisoned) {
#ifdef __SANITIZE_ADDRESS__
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, GET("/a"));
  fixture_step(&fx);
  ab_head_loan head;
  ab_exchange *exchange = fixture_take(&fx, &head);
  const char *path = head.request->path.ptr;
  ab_exchange_give_back(exchange, &head);
  CHECK(!__asan_address_is_poisoned(path));
  answer(&fx, exchange, "x");
  ab_engine_end_step(fx.engine);
  CHECK(__asan_address_is_poisoned(path));
  fixture_end(&fx, client);
#else
  CHECK_LEAVE_OUT("it needs AddressSanitizer");
#endif
}

/* --- what aborts, in a child that says nothing of it --- */

/* How a child has ended; 0 in the child itself. */
static pid_t in_child(bool *aborted) {
  pid_t child = fork();
  int status = 0;
  *aborted = child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
  return child;
}

CHECK_CASE(a_step_that_ends_with_a_head_on_loan_aborts) {
  fixture fx;
  fixture_init(&fx);
  int client = client_open(&fx);
  client_send(client, GET("/a"));
  fixture_step(&fx);
  ab_head_loan head;
  ab_exchange *exchange = fixture_take(&fx, &head);
  bool aborted;
  if (in_child(&aborted) == 0) {
    ab_engine_end_step(fx.engine);
    _exit(0);
  }
  CHECK(aborted);
  ab_exchange_give_back(exchange, &head);
  ab_engine_end_step(fx.engine);
  answer(&fx, exchange, "x");
  fixture_end(&fx, client);
}

static bool aborts(uint8_t from, uint8_t to) {
  bool aborted;
  if (in_child(&aborted) == 0) {
    ab_exchange exchange = {.state = from};
    ab__exchange_become(&exchange, to);
    _exit(0);
  }
  return aborted;
}

CHECK_CASE(steps_that_are_not_drawn_abort) {
  static const uint8_t drawn[][2] = {
      {AB_EXCHANGE_FREE, AB_EXCHANGE_BEGUN},   {AB_EXCHANGE_BEGUN, AB_EXCHANGE_BUFFER},
      {AB_EXCHANGE_BEGUN, AB_EXCHANGE_QUEUED}, {AB_EXCHANGE_BUFFER, AB_EXCHANGE_QUEUED},
      {AB_EXCHANGE_QUEUED, AB_EXCHANGE_APP},   {AB_EXCHANGE_APP, AB_EXCHANGE_SKIP}};
  for (uint8_t from = AB_EXCHANGE_FREE; from <= AB_EXCHANGE_SKIP; from++) {
    for (uint8_t to = AB_EXCHANGE_FREE; to <= AB_EXCHANGE_SKIP; to++) {
      bool allowed = from != AB_EXCHANGE_FREE && to == AB_EXCHANGE_FREE; /* each may end */
      for (size_t i = 0; i < AB_ARRAY_LEN(drawn); i++) {
        if (drawn[i][0] == from && drawn[i][1] == to) allowed = true;
      }
      CHECK_INT(!allowed, aborts(from, to));
    }
  }
}

CHECK_MAIN()
