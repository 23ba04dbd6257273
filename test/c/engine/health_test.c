/* Health paths: what the engine answers without the application, and what it says when it retires.
 */
#include "fixture.h"

static void set(fixture *fx, enum ab_health which, const char *path) {
  CHECK_INT(AB_OK, ab_engine_set_health(fx->engine, which, path, strlen(path)));
}

static void begin(fixture *fx) {
  fixture_init(fx);
  set(fx, AB_HEALTH_READY, "/readyz");
  set(fx, AB_HEALTH_LIVE, "/livez");
}

#define HOST     "Host: a.test\r\n"
#define ASK(p)   "GET " p " HTTP/1.1\r\n" HOST "\r\n"
#define OK_HEAD  "HTTP/1.1 200 OK\r\n"
#define OK_TEXT  "\r\n\r\n200 OK\n"
#define BAD_HEAD "HTTP/1.1 503 Service Unavailable\r\n"

/* The answer to `bytes` on a connection of their own; *end: whether it was closed. */
static const char *ask(fixture *fx, const char *bytes, bool *end) {
  int client = client_with(fx, bytes);
  const char *text = client_read(client, end);
  close(client);
  fixture_run(fx);
  return text;
}

CHECK_CASE(both_paths_are_answered_without_the_application) {
  fixture fx;
  begin(&fx);
  fx.mute = true; /* nobody takes requests */
  static const char *const asks[] = {ASK("/readyz"), ASK("/livez"), ASK("/readyz?verbose=1"),
                                     "GET http://b.test/livez HTTP/1.1\r\nHost: b.test\r\n\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(asks); i++) {
    bool end;
    const char *text = ask(&fx, asks[i], &end);
    CHECK_INT(1, occurrences(text, OK_HEAD));
    CHECK_INT(1, occurrences(text, OK_TEXT));
    CHECK(!end);
  }
  CHECK_INT(4, stats_of(&fx).probes);
  CHECK_INT(0, stats_of(&fx).requests);
  CHECK_INT(0, stats_of(&fx).waiting);
  fixture_fini(&fx);
}

CHECK_CASE(everything_else_is_the_applications) {
  fixture fx;
  begin(&fx);
  static const char *const asks[] = {ASK("/"),
                                     ASK("/readyz/"),
                                     ASK("/ready"),
                                     ASK("/readyzz"),
                                     ASK("/Readyz"),
                                     ASK("/%72eadyz"),
                                     ASK("/a/../livez"),
                                     ASK("//livez"),
                                     "POST /livez HTTP/1.1\r\n" HOST "\r\n",
                                     "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(asks); i++) ask(&fx, asks[i], NULL);
  CHECK_INT(AB_ARRAY_LEN(asks), fx.taken);
  CHECK_INT(0, stats_of(&fx).probes);
  fixture_fini(&fx);
}

CHECK_CASE(without_paths_nothing_is_answered) {
  fixture fx;
  fixture_init(&fx);
  ask(&fx, ASK("/readyz"), NULL);
  CHECK_INT(1, fx.taken);
  CHECK_INT(0, stats_of(&fx).probes);
  fixture_fini(&fx);
}

CHECK_CASE(responses_keep_their_order) {
  fixture fx;
  begin(&fx);
  bool end;
  const char *text =
      ask(&fx, ASK("/a") ASK("/livez") ASK("/b") ASK("/readyz") ASK("/readyz") ASK("/c"), &end);
  CHECK(!end);
  const char *a = strstr(text, "\r\n\r\n/a"), *live = strstr(text, OK_TEXT);
  const char *b = strstr(text, "\r\n\r\n/b"), *c = strstr(text, "\r\n\r\n/c");
  CHECK(a && live && b && c && a < live && live < b && b < c);
  CHECK_INT(3, occurrences(text, OK_TEXT));
  CHECK_INT(3, fx.taken);
  fixture_fini(&fx);
}

/* In every split, so that a head that was kept in the connection's own memory is seen, too. */
CHECK_CASE(segments_make_no_difference) {
  static const char bytes[] = ASK("/livez") ASK("/a") ASK("/readyz");
  for (size_t split = 1; split + 1 < sizeof bytes; split++) {
    fixture fx;
    begin(&fx);
    int client = client_open(&fx);
    client_send_bytes(client, bytes, split);
    fixture_run(&fx);
    client_send(client, bytes + split);
    fixture_run(&fx);
    char all[2048];
    snprintf(all, sizeof all, "%s", client_read(client, NULL));
    CHECK_INT(2, occurrences(all, OK_TEXT));
    CHECK_INT(1, occurrences(all, "\r\n\r\n/a"));
    close(client);
    fixture_run(&fx);
    fixture_fini(&fx);
  }
}

CHECK_CASE(head_has_no_content) {
  fixture fx;
  begin(&fx);
  const char *text = ask(&fx, "HEAD /readyz HTTP/1.1\r\n" HOST "\r\n" ASK("/livez"), NULL);
  CHECK_INT(2, occurrences(text, "Content-Length: 7\r\n"));
  CHECK_INT(1, occurrences(text, "200 OK\n")); /* behind a head; the status lines end with CRLF */
  fixture_fini(&fx);
}

CHECK_CASE(connections_end_as_with_other_requests) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_requests_per_connection = 2;
  CHECK(fixture_start(&fx));
  set(&fx, AB_HEALTH_LIVE, "/livez");
  bool end;
  const char *text = ask(&fx, "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &end);
  CHECK_INT(1, occurrences(text, "Connection: close\r\n"));
  CHECK(end);
  ask(&fx, "GET /livez HTTP/1.0\r\n\r\n", &end);
  CHECK(end);
  text = ask(&fx, "GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &end);
  CHECK_INT(1, occurrences(text, "Connection: keep-alive\r\n"));
  CHECK(!end);
  text = ask(&fx, ASK("/livez") ASK("/livez") ASK("/livez"), &end);
  CHECK_INT(2, occurrences(text, OK_HEAD));
  CHECK(end);
  fixture_pass(&fx, 3); /* the last one lingers */
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

CHECK_CASE(a_body_is_not_waited_for) {
  fixture fx;
  begin(&fx);
  bool end;
  const char *text = ask(&fx, "GET /livez HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab", &end);
  CHECK_INT(1, occurrences(text, "Connection: close\r\n"));
  CHECK_INT(1, occurrences(text, OK_TEXT));
  CHECK(end);
  CHECK_INT(0, fx.taken);
  fixture_pass(&fx, 3);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

CHECK_CASE(idle_connections_of_probes_time_out) {
  fixture fx;
  begin(&fx);
  int client = client_with(&fx, ASK("/livez"));
  fixture_pass(&fx, (unsigned)fx.limits.header_timeout + 1);
  bool end;
  client_read(client, &end);
  CHECK(!end);
  fixture_pass(&fx, (unsigned)fx.limits.persistent_timeout);
  client_read(client, &end);
  CHECK(end);
  fixture_end(&fx, client);
}

CHECK_CASE(retired_is_alive_and_not_ready) {
  fixture fx;
  begin(&fx);
  ab_engine_retire(fx.engine);
  ab_engine_retire(fx.engine);
  bool end;
  const char *text = ask(&fx, ASK("/readyz"), &end);
  CHECK_INT(1, occurrences(text, BAD_HEAD));
  CHECK_INT(1, occurrences(text, "Retry-After: 1\r\n"));
  CHECK(!end); /* it serves as ever */
  CHECK_INT(1, occurrences(ask(&fx, ASK("/livez"), NULL), OK_HEAD));
  CHECK_INT(1, occurrences(ask(&fx, ASK("/a"), NULL), "\r\n\r\n/a"));
  CHECK_INT(0, stats_of(&fx).errors);
  fixture_fini(&fx);
}

CHECK_CASE(draining_answers_and_closes) {
  fixture fx;
  begin(&fx);
  int ready = client_open(&fx), live = client_open(&fx);
  fixture_run(&fx);
  client_send(ready, ASK("/readyz"));
  client_send(live, ASK("/livez"));
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  bool end;
  const char *text = client_read(ready, &end);
  CHECK_INT(1, occurrences(text, BAD_HEAD));
  CHECK_INT(1, occurrences(text, "Connection: close\r\n"));
  CHECK(end);
  CHECK_INT(1, occurrences(client_read(live, &end), OK_HEAD));
  CHECK(end);
  close(ready);
  close(live);
  fixture_fini(&fx);
}

/* More of them in one turn than one connection may begin, to a peer that does not read at first. */
CHECK_CASE(many_in_a_row) {
  fixture fx;
  begin(&fx);
  int client = client_open(&fx);
  for (int i = 0; i < 200; i++) client_send(client, ASK("/livez"));
  fixture_run(&fx);
  unsigned answers = 0;
  for (int i = 0; i < 20; i++) {
    answers += occurrences(client_read(client, NULL), OK_TEXT);
    fixture_run(&fx);
  }
  CHECK_INT(200, answers);
  close(client);
  fixture_run(&fx);
  fixture_fini(&fx);
}

CHECK_CASE(a_path_is_replaced_and_memory_may_fail) {
  fixture fx;
  begin(&fx);
  set(&fx, AB_HEALTH_LIVE, "/up");
  ask(&fx, ASK("/livez"), NULL);
  CHECK_INT(1, fx.taken);
  CHECK_INT(1, occurrences(ask(&fx, ASK("/up"), NULL), OK_HEAD));
  fx.mem.fail_at = fx.mem.calls + 1;
  CHECK_INT(AB_ENOMEM, ab_engine_set_health(fx.engine, AB_HEALTH_LIVE, "/x", 2));
  fx.mem.fail_at = 0;
  CHECK_INT(1, occurrences(ask(&fx, ASK("/up"), NULL), OK_HEAD));
  /* Every allocation of an answer. */
  for (size_t nth = 1; nth < 6; nth++) {
    int client = client_open(&fx);
    fx.mem.fail_at = fx.mem.calls + nth;
    client_send(client, ASK("/up"));
    fixture_run(&fx);
    fx.mem.fail_at = 0;
    close(client);
    fixture_run(&fx);
  }
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

CHECK_MAIN()
