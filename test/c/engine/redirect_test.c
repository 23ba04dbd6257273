/* Listeners whose requests are sent to https. */
#include "engine/fixture.h"

#define VIEW(text)                                                                                 \
  { text, sizeof(text) - 1 }

static const ab_view hosts[] = {VIEW("Example.COM"), VIEW("*.example.com"), VIEW("[::1]")};
static const ab_redirect_terms usual = {.hosts = hosts, .host_count = 3};

static uint16_t redirect(fixture *fx, const ab_redirect_terms *terms) {
  fixture_init(fx);
  return fixture_listen_on(fx, &(ab_listener_terms){.redirect = terms});
}

/* What comes back to these bytes; *open: the connection is still there. */
static const char *ask(fixture *fx, uint16_t port, const char *text, bool *open) {
  int client = client_tcp(port);
  client_send(client, text);
  fixture_run(fx);
  bool end;
  const char *answer = client_read(client, &end);
  if (open) *open = !end;
  close(client);
  fixture_run(fx);
  return answer;
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

CHECK_CASE(where_it_goes) {
  static const struct {
    const char *request, *status, *location;
  } table[] = {
      {"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "301", "https://example.com/"},
      {"HEAD /a HTTP/1.1\r\nHost: example.com\r\n\r\n", "301", "https://example.com/a"},
      {"GET /a?b=c&d HTTP/1.1\r\nHost: EXAMPLE.com:80\r\n\r\n", "301",
       "https://EXAMPLE.com/a?b=c&d"},
      {"GET /a? HTTP/1.1\r\nHost: example.com.\r\n\r\n", "301", "https://example.com./a?"},
      {"POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n", "308",
       "https://example.com/a"},
      {"OPTIONS /a HTTP/1.1\r\nHost: example.com\r\n\r\n", "308", "https://example.com/a"},
      {"GET /a HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "301", "https://www.example.com/a"},
      {"GET http://example.com/a HTTP/1.1\r\nHost: other.org\r\n\r\n", "301",
       "https://example.com/a"},
      {"GET /a HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "301", "https://[::1]/a"},
      {"GET /a HTTP/1.0\r\nHost: example.com\r\n\r\n", "301", "https://example.com/a"},
      {"GET //evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "301",
       "https://example.com//evil.org/"},
      {"GET /a HTTP/1.1\r\nHost: a.b.example.com\r\n\r\n", "421", NULL},
      {"GET /a HTTP/1.1\r\nHost: .example.com\r\n\r\n", "421", NULL},
      {"GET /a HTTP/1.1\r\nHost: badexample.com\r\n\r\n", "421", NULL},
      {"GET /a HTTP/1.1\r\nHost: other.org\r\n\r\n", "421", NULL},
      {"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n", "421", NULL},
      {"GET /a HTTP/1.0\r\n\r\n", "400", NULL},
      {"OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", "400", NULL},
      {"GET /a HTTP/1.1\r\nHost: example.com/x\r\n\r\n", "400", NULL},
      {"GET /a\r\n\r\n", "400", NULL},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", NULL},
  };
  fixture fx;
  uint16_t port = redirect(&fx, &usual);
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    const char *answer = ask(&fx, port, table[i].request, NULL);
    char line[128];
    snprintf(line, sizeof line, "HTTP/1.1 %s ", table[i].status);
    if (!begins(answer, line)) fprintf(stderr, "%s-> %s\n", table[i].request, answer);
    CHECK(begins(answer, line));
    if (table[i].location) {
      snprintf(line, sizeof line, "\r\nLocation: %s\r\n", table[i].location);
      CHECK(strstr(answer, line));
      CHECK(strstr(answer, "\r\nContent-Length: 0\r\n"));
      CHECK(strstr(answer, "\r\nDate: "));
      CHECK(strcmp(strstr(answer, "\r\n\r\n"), "\r\n\r\n") == 0);
    } else {
      CHECK(!strstr(answer, "Location"));
    }
  }
  CHECK_INT(0, fx.taken);
  fixture_fini(&fx);
}

CHECK_CASE(the_connection_stays_or_goes) {
  fixture fx;
  uint16_t port = redirect(&fx, &usual);
  bool open;
  const char *answer = ask(&fx, port,
                           "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n"
                           "GET /b HTTP/1.1\r\nHost: example.com\r\n\r\n"
                           "GET /c HTTP/1.1\r\nHost: other.org\r\n\r\n",
                           &open);
  CHECK(open);
  CHECK_INT(2, occurrences(answer, "301 Moved"));
  CHECK_INT(1, occurrences(answer, "421 Misdirected Request\r\n"));
  CHECK_INT(1, stats_of(&fx).errors);
  ask(&fx, port, "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", &open);
  CHECK(!open);
  answer =
      ask(&fx, port, "POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nab", &open);
  CHECK(!open && strstr(answer, "\r\nConnection: close\r\n"));
  answer = ask(&fx, port, "GET /a HTTP/1.0\r\nHost: example.com\r\nConnection: keep-alive\r\n\r\n",
               &open);
  CHECK(open && strstr(answer, "\r\nConnection: keep-alive\r\n"));
  fixture_fini(&fx);
}

CHECK_CASE(another_port) {
  fixture fx;
  uint16_t port =
      redirect(&fx, &(ab_redirect_terms){.hosts = hosts, .host_count = 1, .port = 8443});
  CHECK(strstr(ask(&fx, port, "GET /a HTTP/1.1\r\nHost: example.com:80\r\n\r\n", NULL),
               "Location: https://example.com:8443/a\r\n"));
  fixture_fini(&fx);
}

/* Without a list it is for certificates to say, and here are none. */
CHECK_CASE(no_host_is_known) {
  fixture fx;
  uint16_t port = redirect(&fx, &(ab_redirect_terms){.port = 0});
  CHECK(begins(ask(&fx, port, "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", NULL),
               "HTTP/1.1 421 "));
  fixture_fini(&fx);
}

/* What goes to the application is the challenge alone, whatever the host. */
CHECK_CASE(challenges_are_the_applications) {
  static const struct {
    const char *line;
    bool served;
  } table[] = {
      {"GET /.well-known/acme-challenge/aB9-_", true},
      {"HEAD /.well-known/acme-challenge/a", true},
      {"GET /.well-known/acme-challenge/a?b", true},
      {"GET /.well-known/acme-challenge/", false},
      {"GET /.well-known/acme-challenge", false},
      {"GET /.well-known/acme-challenge/../../admin", false},
      {"GET /.well-known/acme-challenge/a/b", false},
      {"GET /.well-known/acme-challenge/%2e%2e", false},
      {"POST /.well-known/acme-challenge/a", false},
      {"GET /.WELL-KNOWN/acme-challenge/a", false},
  };
  fixture fx;
  uint16_t port = redirect(&fx, &usual);
  unsigned served = 0;
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char text[256];
    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", table[i].line,
             i % 2 ? "other.org" : "example.com");
    const char *answer = ask(&fx, port, text, NULL);
    CHECK_INT(table[i].served, begins(answer, "HTTP/1.1 200 "));
    served += table[i].served;
  }
  CHECK_INT(served, fx.taken);
  fixture_fini(&fx);
}

CHECK_CASE(health_checks_are_answered) {
  fixture fx;
  uint16_t port = redirect(&fx, &usual);
  CHECK_INT(AB_OK, ab_engine_set_health(fx.engine, AB_HEALTH_LIVE, "/live", 5));
  CHECK(begins(ask(&fx, port, "GET /live HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", NULL),
               "HTTP/1.1 200 "));
  CHECK(begins(ask(&fx, port, "POST /live HTTP/1.1\r\nHost: example.com\r\n\r\n", NULL),
               "HTTP/1.1 308 "));
  CHECK_INT(1, stats_of(&fx).probes);
  fixture_fini(&fx);
}

/* The other listeners of the engine serve. */
CHECK_CASE(only_its_own_requests) {
  fixture fx;
  redirect(&fx, &usual);
  uint16_t other = fixture_listen(&fx);
  CHECK(begins(ask(&fx, other, "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", NULL),
               "HTTP/1.1 200 "));
  CHECK_INT(1, fx.taken);
  fixture_fini(&fx);
}

static void find_open(void *result, void *one) {
  ab_conn *conn = one;
  if (conn->state != AB_CONN_FREE) *(ab_conn **)result = conn;
}

/* A client that sends requests and reads nothing is not answered ahead for ever. */
CHECK_CASE(pipelining_without_reading_is_held_back) {
  enum { MOST = 64 << 20 };
  static const char one[] = "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n";
  const size_t len = sizeof one - 1;
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_requests_per_connection = 0;
  CHECK(fixture_start(&fx));
  int client = client_tcp(fixture_listen_on(&fx, &(ab_listener_terms){.redirect = &usual}));
  size_t sent = 0;
  for (unsigned full = 0; full < 20 && sent < MOST;) {
    ssize_t n = send(client, one + sent % len, len - sent % len, MSG_NOSIGNAL);
    if (n > 0) sent += (size_t)n;
    full = n > 0 ? 0 : full + 1;
    if (n <= 0) fixture_run(&fx);
  }
  CHECK(sent > 1000 * len && sent < MOST);
  ab_conn *conn = NULL;
  ab_slab_each(&fx.engine->conns, find_open, &conn);
  CHECK(conn && conn->out && ab_outbox_pending(conn->out) < 1 << 20);
  CHECK(conn && conn->in_len < 1 << 20);
  CHECK_INT(0, fx.taken);
  fixture_end(&fx, client);
}

/* A question whose allocation number `at` fails: the answer comes as a whole, or not as if it were
 * one. False: there are not so many. */
static bool ask_failing(size_t at, const char *text, const char *expected) {
  fixture fx;
  fixture_prepare(&fx);
  fx.mem.fail_at = at;
  uint16_t port = 0;
  if (fixture_start(&fx)) port = fixture_listen_on(&fx, &(ab_listener_terms){.redirect = &usual});
  const char *answer = port ? ask(&fx, port, text, NULL) : "";
  bool failed = fx.mem.calls >= at;
  if (!failed) CHECK(begins(answer, expected));
  if (*answer) CHECK(begins(answer, expected) && strstr(answer, "\r\n\r\n"));
  fixture_fini(&fx);
  return failed;
}

CHECK_CASE(memory_that_fails) {
  static const char *const table[][2] = {
      {"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 301 "},
      {"GET /a HTTP/1.1\r\nHost: other.org\r\n\r\n", "HTTP/1.1 421 "}};
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    size_t at = 1;
    while (at < 1000 && ask_failing(at, table[i][0], table[i][1])) at++;
    CHECK(at > 3 && at < 1000);
  }
}

CHECK_MAIN()
