/* Connections: their states from the first byte to the last, what they keep between steps, and
 * which steps they may take. */
#include <sys/wait.h>

#include "engine/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static char plenty[4 << 20];

static ab_conn *open_conn(fixture *fx, int *client) {
  ab_conn *conn;
  fixture_init(fx);
  *client = client_of_type(fx, SOCK_STREAM, &conn);
  return conn;
}

CHECK_CASE(a_request_makes_it_busy) {
  fixture fx;
  int client;
  const ab_conn *conn = open_conn(&fx, &client);
  fx.hold = true;
  CHECK_INT(AB_CONN_HEAD, conn->state);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  CHECK_INT(AB_CONN_BUSY, conn->state);
  CHECK(ab__conn_has(conn, AB_EXCHANGE_APP));
  answer_held(&fx, 0, "x");
  CHECK_INT(AB_CONN_HEAD, conn->state);
  CHECK(!ab__conn_has(conn, AB_EXCHANGE_APP));
  CHECK_INT(1, conn->served);
  fixture_end(&fx, client);
}

/* Behind the last response, which takes a while to be sent, it lingers for what the peer sends. */
CHECK_CASE(the_last_response_closes_it) {
  fixture fx;
  int client;
  const ab_conn *conn = open_conn(&fx, &client);
  fx.big = plenty;
  fx.big_len = sizeof plenty;
  client_send(client, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nmore");
  fixture_run(&fx);
  CHECK_INT(AB_CONN_CLOSING, conn->state);
  CHECK(!conn->exchange && conn->blocked && conn->lingers);
  CHECK(client_drain(&fx, client) > sizeof plenty);
  CHECK_INT(AB_CONN_LINGER, conn->state);
  client_send(client, "and more");
  fixture_run(&fx);
  CHECK_INT(AB_CONN_LINGER, conn->state);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

/* What was read in a step stands in the arena; what is left of it is the connection's own then. */
CHECK_CASE(input_outlives_the_step) {
  fixture fx;
  int client;
  const ab_conn *conn = open_conn(&fx, &client);
  fx.hold = true;
  client_send(client, GET("/a") GET("/b") "GET /c");
  fixture_run(&fx);
  CHECK(conn->own && conn->in == conn->own);
  CHECK_INT(strlen(GET("/b") "GET /c"), conn->in_len);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK_INT(strlen("GET /c"), conn->in_len);
  CHECK_INT(AB_CONN_HEAD, conn->state);
  client_send(client, " HTTP/1.1\r\nHost: x\r\n\r\n");
  fixture_run(&fx);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  CHECK(!conn->own && conn->in_len == 0);
  CHECK(strcmp("abc", fx.paths) == 0);
  fixture_end(&fx, client);
}

/* There is no memory for what came behind a request that is being served: it is answered, and the
 * connection ends there. */
CHECK_CASE(input_that_cannot_be_kept_ends_it) {
  fixture fx;
  int client;
  const ab_conn *conn = open_conn(&fx, &client);
  client_send(client, GET("/a"));
  fixture_run(&fx);
  client_read(client, NULL);
  fx.hold = true;
  fx.mem.fail_at = fx.mem.calls + 1;
  client_send(client, GET("/b") "GET /c");
  fixture_run(&fx);
  CHECK_INT(0, conn->in_len);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close\r\n\r\nx"));
  CHECK(end);
  fixture_end(&fx, client);
}

/* Its structure is the next one's, once the step has ended. */
CHECK_CASE(structures_are_used_again) {
  fixture fx;
  int client;
  const ab_conn *conn = open_conn(&fx, &client);
  fixture_run(&fx);
  close(client);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  ab_conn *next;
  client = client_of_type(&fx, SOCK_STREAM, &next);
  CHECK(next == conn);
  CHECK_INT(AB_CONN_HEAD, next->state);
  CHECK_INT(0, next->served);
  fixture_end(&fx, client);
}

/* Whether the step aborts, in a child that says nothing of it. */
static bool aborts(uint8_t from, uint8_t to) {
  pid_t child = fork();
  if (child == 0) {
    ab_conn conn = {.state = from};
    ab__conn_become(&conn, to);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

CHECK_CASE(steps_that_are_not_drawn_abort) {
  static const uint8_t drawn[][2] = {
      {AB_CONN_FREE, AB_CONN_HEAD},    {AB_CONN_HEAD, AB_CONN_HEAD}, /* a health path */
      {AB_CONN_HEAD, AB_CONN_BUSY},    {AB_CONN_HEAD, AB_CONN_CLOSING},
      {AB_CONN_HEAD, AB_CONN_DEAD},    {AB_CONN_BUSY, AB_CONN_HEAD},
      {AB_CONN_BUSY, AB_CONN_CLOSING}, {AB_CONN_BUSY, AB_CONN_DEAD},
      {AB_CONN_CLOSING, AB_CONN_DEAD}, {AB_CONN_CLOSING, AB_CONN_LINGER},
      {AB_CONN_LINGER, AB_CONN_DEAD},  {AB_CONN_DEAD, AB_CONN_FREE}};
  for (uint8_t from = AB_CONN_FREE; from <= AB_CONN_DEAD; from++) {
    for (uint8_t to = AB_CONN_FREE; to <= AB_CONN_DEAD; to++) {
      bool allowed = false;
      for (size_t i = 0; i < AB_ARRAY_LEN(drawn); i++) {
        if (drawn[i][0] == from && drawn[i][1] == to) allowed = true;
      }
      CHECK_INT(!allowed, aborts(from, to));
    }
  }
}

CHECK_MAIN()
