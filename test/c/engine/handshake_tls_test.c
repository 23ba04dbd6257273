/* Connections that begin with TLS: what comes before the handshake, its limits and deadlines, what
 * is spoken behind it, and the connection's end. */
#include "engine/move.h"
#include "engine/tls_client.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a.test\r\n\r\n"
#define V1        "PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n"

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static uint16_t serve_tls(fixture *fx) {
  fixture_init(fx);
  return tls_listen_on(fx, NULL);
}

CHECK_CASE(requests_are_served) {
  static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
  for (size_t i = 0; i < AB_ARRAY_LEN(versions); i++) {
    fixture fx;
    uint16_t port = serve_tls(&fx);
    tls_client client = tls_client_on(&fx, client_tcp(port), versions[i], TLS_HTTP);
    CHECK(tls_shake(&client));
    CHECK_INT(1, stats_of(&fx).tls_handshakes);
    CHECK_INT(0, stats_of(&fx).tls_waiting);
    CHECK_INT(1, stats_of(&fx).tls_connections);
    for (int k = 0; k < 3; k++) {
      int end;
      CHECK(begins(tls_ask(&client, GET("/one"), &end), "HTTP/1.1 200 OK\r\n"));
      CHECK_INT(0, end);
    }
    int end;
    CHECK(strstr(tls_ask(&client, "GET / HTTP/1.0\r\n\r\n", &end), "Connection: close"));
    CHECK_INT(1, end);
    CHECK_INT(4, fx.taken);
    CHECK_INT(0, stats_of(&fx).tls_failed);
    tls_free(&client);
    CHECK_INT(0, stats_of(&fx).tls_connections);
    CHECK_INT(0, stats_of(&fx).connections);
    fixture_fini(&fx);
  }
}

/* What an exchange tells of it. */
CHECK_CASE(what_is_known) {
  fixture fx;
  uint16_t port = serve_tls(&fx), plain = fixture_listen(&fx);
  fx.hold = true;
  tls_client client = tls_connect(&fx, port);
  tls_send(&client, GET("/one"));
  int other = client_tcp(plain);
  client_send(other, GET("/two"));
  fixture_run(&fx);
  CHECK_INT(2, fx.held_count);
  CHECK(ab_exchange_is_secure(fx.held[0]) && !ab_exchange_is_secure(fx.held[1]));
  CHECK(!ab_exchange_tls(fx.held[1]));
  const ab_tls *tls = ab_exchange_tls(fx.held[0]);
  CHECK(tls && strcmp(ab_tls_version(tls), "TLSv1.3") == 0);
  CHECK_INT(-1, ab_exchange_duplicate(fx.held[0]));
  CHECK(!ab__conn_can_move(fx.held[0]->conn));
  close(other);
  tls_free(&client);
  CHECK(ab_exchange_is_secure(fx.held[0]));
  fixture_fini(&fx);
}

/* A client without a socket, whose bytes the test carries. */
static tls_client client_apart(fixture *fx) {
  tls_client client = tls_client_on(fx, -1, TLS1_3_VERSION, NULL);
  SSL_set0_wbio(client.ssl, BIO_new(BIO_s_mem()));
  SSL_set0_rbio(client.ssl, BIO_new(BIO_s_mem()));
  return client;
}

/* What it says next. */
static size_t next_words(tls_client *client, char *said, size_t room) {
  ERR_clear_error();
  if (SSL_do_handshake(client->ssl) == 1) {
    CHECK(SSL_write(client->ssl, GET("/one"), sizeof(GET("/one")) - 1) > 0);
  }
  int len = BIO_read(SSL_get_wbio(client->ssl), said, (int)room);
  CHECK(len > 0);
  return len > 0 ? (size_t)len : 0;
}

/* What has come on the socket is for it. */
static void hear(tls_client *client, int fd) {
  char heard[8192];
  ssize_t len = recv(fd, heard, sizeof heard, 0);
  CHECK(len > 0);
  CHECK_INT(len, BIO_write(SSL_get_rbio(client->ssl), heard, (int)len));
}

/* A ClientHello may come in any pieces. */
CHECK_CASE(byte_by_byte) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  int fd = client_tcp(port);
  tls_client client = client_apart(&fx);
  char hello[4096];
  size_t len = next_words(&client, hello, sizeof hello);
  CHECK(len > 100);
  for (size_t i = 0; i < len; i++) {
    CHECK_INT(0, stats_of(&fx).received);
    client_send_bytes(fd, hello + i, 1);
    fixture_run(&fx);
    CHECK(!*client_read(fd, NULL) || i == len - 1);
  }
  CHECK_INT(1, stats_of(&fx).tls_waiting);
  close(fd);
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).tls_failed);
  CHECK_INT(0, stats_of(&fx).tls_waiting);
  tls_end(&client, &fx);
}

enum leave { CLOSES, RESETS, HALF_CLOSES };

static void leave(fixture *fx, int fd, enum leave how) {
  if (how == RESETS) {
    client_reset(fd);
  } else if (how == HALF_CLOSES) {
    shutdown(fd, SHUT_WR);
  } else {
    close(fd);
  }
  fixture_run(fx);
  if (fx->held_count) answer_held(fx, 0, "late");
  fixture_run(fx);
  CHECK_INT(0, stats_of(fx).tls_waiting);
  if (how == HALF_CLOSES) close(fd);
  fixture_run(fx);
  CHECK_INT(0, stats_of(fx).connections);
  CHECK_INT(0, stats_of(fx).tls_connections);
}

/* At each byte of its hello, and then of what ends the handshake and of a request. */
CHECK_CASE(a_client_that_leaves_at_each_byte) {
  for (int i = 0; i < 6; i++) {
    bool answered = i >= 3;
    for (size_t at = 0, len = 1; at <= len; at++) {
      fixture fx;
      uint16_t port = serve_tls(&fx);
      fx.hold = true;
      int fd = client_tcp(port);
      tls_client client = client_apart(&fx);
      char said[4096];
      len = next_words(&client, said, sizeof said);
      if (answered) {
        client_send_bytes(fd, said, len);
        fixture_run(&fx);
        hear(&client, fd);
        len = next_words(&client, said, sizeof said);
      }
      if (at > 0) client_send_bytes(fd, said, at);
      fixture_run(&fx);
      CHECK_INT(1, stats_of(&fx).connections);
      CHECK_INT(answered && at == len, fx.held_count);
      leave(&fx, fd, i % 3);
      tls_end(&client, &fx);
    }
  }
}

/* The handshake's end and a request, split at each byte. */
CHECK_CASE(the_end_of_a_handshake_in_two_pieces) {
  for (size_t at = 1, len = 2; at < len; at++) {
    fixture fx;
    uint16_t port = serve_tls(&fx);
    int fd = client_tcp(port);
    tls_client client = client_apart(&fx);
    char said[4096];
    len = next_words(&client, said, sizeof said);
    client_send_bytes(fd, said, len);
    fixture_run(&fx);
    hear(&client, fd);
    len = next_words(&client, said, sizeof said);
    client_send_bytes(fd, said, at);
    fixture_run(&fx);
    client_send_bytes(fd, said + at, len - at);
    fixture_run(&fx);
    hear(&client, fd);
    CHECK(begins(tls_read(&client, NULL), "HTTP/1.1 200"));
    CHECK_INT(1, fx.taken);
    close(fd);
    tls_end(&client, &fx);
  }
}

/* --- what is spoken --- */

CHECK_CASE(alpn_chooses) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  static const struct {
    const char *alpn;
    bool http2;
  } table[] = {{TLS_H2, true}, {TLS_HTTP, false}, {NULL, false}};
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, table[i].alpn);
    CHECK(tls_shake(&client));
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    CHECK_INT(sizeof begin - 1, SSL_write(client.ssl, begin, sizeof begin - 1));
    fixture_run(&fx);
    int end;
    const char *answer = tls_read(&client, &end);
    if (table[i].http2) {
      CHECK_INT(4, answer[3]); /* SETTINGS */
      CHECK_INT(0, end);
    } else {
      CHECK(begins(answer, "HTTP/1.1 400 ")); /* without ALPN there is no HTTP/2 */
      CHECK_INT(1, end);
    }
    tls_free(&client);
  }
  CHECK_INT(0, fx.taken);
  fixture_fini(&fx);
}

CHECK_CASE(nothing_in_common) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, "\4spdy");
  CHECK(!tls_shake(&client));
  CHECK_INT(SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, ERR_GET_REASON(ERR_peek_last_error()));
  CHECK_INT(1, stats_of(&fx).tls_failed);
  tls_end(&client, &fx);
}

/* --- in clear --- */

CHECK_CASE(a_proxy_header_comes_first) {
  static const char v1[] = V1;
  for (size_t split = 0; split < sizeof v1 - 1; split += 7) {
    fixture fx;
    fixture_init(&fx);
    uint16_t port =
        tls_listen_on(&fx, &(ab_listener_terms){.proxy_accept = AB_PROXY_V1 | AB_PROXY_V2});
    int fd = client_tcp(port);
    client_send_bytes(fd, v1, split);
    fixture_run(&fx);
    /* The rest comes with the ClientHello, or a moment before. */
    client_send_bytes(fd, v1 + split, sizeof v1 - 1 - split);
    if (split % 2) fixture_run(&fx);
    tls_client client = tls_client_on(&fx, fd, TLS1_3_VERSION, NULL);
    CHECK(tls_shake(&client));
    fx.hold = true;
    tls_send(&client, GET("/one"));
    CHECK_INT(1, fx.held_count);
    char text[AB_ADDR_TEXT_MAX];
    size_t len = ab_addr_text(ab_exchange_peer(fx.held[0]), text);
    CHECK_BYTES("192.0.2.7", text, len);
    tls_end(&client, &fx);
  }
}

CHECK_CASE(a_proxy_header_that_is_missing) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = tls_listen_on(&fx, &(ab_listener_terms){.proxy_accept = AB_PROXY_V1});
  tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  CHECK(!tls_shake(&client));
  CHECK_INT(1, stats_of(&fx).tls_failed);
  CHECK_INT(1, stats_of(&fx).errors);
  tls_free(&client);
  CHECK_INT(0, stats_of(&fx).connections);
  fixture_fini(&fx);
}

/* Never a request, in whatever pieces it comes, and whatever follows. */
CHECK_CASE(http_in_clear) {
  static const char *const texts[] = {GET("/one") GET("/two"),
                                      "G",
                                      "PRI * HTTP/2.0\r\n\r\n",
                                      "SSH-2.0-x\r\n",
                                      V1 GET("/one"),
                                      "\r\n",
                                      "\x80\x2e\x01"};
  for (size_t i = 0; i < AB_ARRAY_LEN(texts); i++) {
    fixture fx;
    uint16_t port = serve_tls(&fx);
    int client = client_tcp(port);
    client_send(client, texts[i]);
    fixture_run(&fx);
    bool end;
    const char *answer = client_read(client, &end);
    CHECK(begins(answer, "HTTP/1.1 400 Bad Request\r\n"));
    CHECK(strstr(answer, "\r\n\r\n400 Bad Request: use https for this port.\n"));
    CHECK(end);
    client_send(client, GET("/three"));
    fixture_run(&fx);
    CHECK_INT(0, fx.taken);
    CHECK_INT(1, stats_of(&fx).errors);
    CHECK_INT(1, stats_of(&fx).tls_failed);
    CHECK_INT(0, stats_of(&fx).tls_waiting);
    close(client);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    CHECK_INT(0, stats_of(&fx).tls_connections);
    fixture_fini(&fx);
  }
}

/* The head comes in two pieces, and `first` bytes are in the first one. */
static void check_redirected(const char *text, size_t first, const char *expected) {
  fixture fx;
  fixture_init(&fx);
  CHECK_INT(AB_OK, ab_engine_set_health(fx.engine, AB_HEALTH_LIVE, "/live", 5));
  uint16_t port = tls_listen_on(&fx, &(ab_listener_terms){.redirects_clear = true});
  int client = client_tcp(port);
  client_send_bytes(client, text, first);
  fixture_run(&fx);
  if (text[first]) client_send(client, text + first);
  fixture_run(&fx);
  bool end;
  const char *answer = client_read(client, &end);
  CHECK(strstr(answer, expected));
  CHECK_INT(1, occurrences(answer, "HTTP/1.1 "));
  if (strstr(answer, "Location")) CHECK(begins(answer, "HTTP/1.1 308 "));
  CHECK(end);
  CHECK_INT(0, fx.taken);
  CHECK_INT(0, stats_of(&fx).probes);
  fixture_end(&fx, client);
}

CHECK_CASE(http_in_clear_is_redirected) {
  static const struct {
    const char *text, *answer;
  } table[] = {
      {GET("/one?two") GET("/three"), "Location: https://a.test/one?two\r\n"},
      {"POST /a HTTP/1.1\r\nHost: a.test:8443\r\nContent-Length: 100\r\n\r\nx",
       "Location: https://a.test:8443/a\r\n"},
      {"GET /.well-known/acme-challenge/a HTTP/1.1\r\nHost: a.test\r\n\r\n",
       "Location: https://a.test/.well-known/acme-challenge/a\r\n"},
      {"GET /live HTTP/1.1\r\nHost: a.test\r\n\r\n", "Location: https://a.test/live\r\n"},
      {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 400 "},
      {"nonsense\r\n\r\n", "HTTP/1.1 400 "},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 "},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    for (size_t first = 1; first <= strlen(table[i].text); first++) {
      check_redirected(table[i].text, first, table[i].answer);
    }
  }
}

static void find_open(void *result, void *one) {
  ab_conn *conn = one;
  if (conn->state == AB_CONN_HEAD) *(ab_conn **)result = conn;
}

/* One that begins in clear, and does not go on. Another worker would not know that it is out of
 * place: it stays here. */
CHECK_CASE(half_a_head_in_clear) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = tls_listen_on(&fx, &(ab_listener_terms){.redirects_clear = true});
  int client = client_tcp(port);
  client_send(client, "GET / HTTP/1.1\r\n");
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).connections);
  ab_conn *conn = NULL;
  ab_slab_each(&fx.engine->conns, find_open, &conn);
  CHECK(conn && conn->misplaced && !ab_link_is_tls(&conn->link));
  CHECK(conn && !ab__conn_can_move(conn));
  fixture_pass(&fx, 10);
  CHECK(begins(client_read(client, NULL), "HTTP/1.1 408 "));
  fixture_end(&fx, client);
}

/* --- deadlines --- */

static bool is_closed(int fd) {
  bool end;
  client_read(fd, &end);
  return end;
}

/* From accepting to the first byte of a request there are ten seconds, however it is spent. */
CHECK_CASE(the_time_is_absolute) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  int silent = client_tcp(port), half = client_tcp(port);
  client_send_bytes(half, "\x16\x03\x01\x02\x00\x01", 6);
  fixture_run(&fx);
  tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  fixture_run(&fx);
  CHECK_INT(3, stats_of(&fx).tls_waiting);
  fixture_pass(&fx, 5);
  CHECK(tls_shake(&client));
  fixture_pass(&fx, 4);
  CHECK_INT(3, stats_of(&fx).connections);
  CHECK(!is_closed(silent) && !is_closed(half));
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(3, stats_of(&fx).timeouts);
  CHECK_INT(2, stats_of(&fx).tls_failed);
  CHECK(is_closed(silent) && is_closed(half));
  int end;
  tls_read(&client, &end);
  CHECK_INT(1, end);
  close(silent);
  close(half);
  tls_end(&client, &fx);
}

/* With the first byte of a head its own time begins, and afterwards that of a kept connection. */
CHECK_CASE(the_time_behind_it) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client client = tls_connect(&fx, port);
  fixture_pass(&fx, 8);
  tls_send(&client, "GET /");
  fixture_pass(&fx, 8);
  CHECK_INT(1, stats_of(&fx).connections);
  int end;
  const char *answer = tls_ask(&client, " HTTP/1.1\r\nHost: a\r\n\r\n", &end);
  CHECK(begins(answer, "HTTP/1.1 200"));
  fixture_pass(&fx, 60);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 5);
  CHECK_INT(0, stats_of(&fx).connections);
  tls_end(&client, &fx);
}

/* --- fairness --- */

#define MANY 20

static unsigned answered(tls_client *clients) {
  unsigned count = 0;
  for (int i = 0; i < MANY; i++) {
    char byte;
    count += recv(clients[i].fd, &byte, 1, MSG_PEEK) == 1;
  }
  return count;
}

/* Each turn here has one step: a few are signed, in order, and others are served meanwhile. */
CHECK_CASE(signatures_take_turns) {
  fixture fx;
  uint16_t port = serve_tls(&fx), plain = fixture_listen(&fx);
  tls_client clients[MANY];
  for (int i = 0; i < MANY; i++) {
    clients[i] = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
    SSL_do_handshake(clients[i].ssl);
  }
  int other = client_tcp(plain);
  client_send(other, GET("/one"));
  fixture_turn(&fx); /* the poller tells */
  unsigned before = answered(clients);
  for (unsigned turns = 0; before < MANY && turns < 100; turns++) {
    fixture_turn(&fx);
    unsigned after = answered(clients);
    CHECK(after <= before + AB_STEP_SIGNS);
    CHECK(after > before || turns == 0);
    for (int i = 1; i < MANY; i++) {
      char byte;
      bool this = recv(clients[i].fd, &byte, 1, MSG_PEEK) == 1;
      bool last = recv(clients[i - 1].fd, &byte, 1, MSG_PEEK) == 1;
      CHECK(last || !this); /* in order */
    }
    before = after;
    if (turns == 1) CHECK(begins(client_read(other, NULL), "HTTP/1.1 200"));
  }
  CHECK_INT(MANY, before);
  for (int i = 0; i < MANY; i++) CHECK(tls_shake(&clients[i]));
  CHECK_INT(MANY, stats_of(&fx).tls_handshakes);
  close(other);
  for (int i = 0; i < MANY; i++) tls_free(&clients[i]);
  fixture_fini(&fx);
}

/* One that goes while it waits for a signature. */
CHECK_CASE(who_waits_for_a_signature_may_go) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client clients[MANY];
  for (int i = 0; i < MANY; i++) {
    clients[i] = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
    SSL_do_handshake(clients[i].ssl);
  }
  fixture_turn(&fx);
  fixture_turn(&fx);
  for (int i = 0; i < MANY; i++) {
    client_reset(clients[i].fd);
    clients[i].fd = -1;
  }
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(MANY, stats_of(&fx).tls_failed);
  for (int i = 0; i < MANY; i++) tls_free(&clients[i]);
  fixture_fini(&fx);
}

/* --- limits --- */

CHECK_CASE(handshakes_are_limited) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_tls_handshakes = 3;
  CHECK(fixture_start(&fx));
  uint16_t port = tls_listen_on(&fx, NULL), plain = fixture_listen(&fx);
  int silent[5];
  for (int i = 0; i < 5; i++) silent[i] = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(3, stats_of(&fx).tls_waiting);
  CHECK_INT(3, stats_of(&fx).accepted);
  /* Others do not wait for that. */
  int other = client_tcp(plain);
  client_send(other, GET("/one"));
  fixture_run(&fx);
  CHECK(begins(client_read(other, NULL), "HTTP/1.1 200"));
  /* Who has been silent for a second makes room, the first one first. */
  for (int i = 0; i < 4; i++) {
    fx.now += AB_NSEC_PER_SEC / 2;
    fixture_run(&fx);
  }
  CHECK_INT(3, stats_of(&fx).tls_waiting);
  CHECK_INT(6, stats_of(&fx).accepted);
  CHECK(is_closed(silent[0]) && is_closed(silent[1]) && !is_closed(silent[2]));
  /* One that is done makes room at once. */
  tls_client client = tls_client_on(&fx, silent[4], TLS1_3_VERSION, NULL);
  CHECK(tls_shake(&client));
  CHECK_INT(2, stats_of(&fx).tls_waiting);
  close(other);
  for (int i = 0; i < 4; i++) close(silent[i]);
  tls_end(&client, &fx);
}

CHECK_CASE(connections_are_limited) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.max_tls_connections = 2;
  CHECK(fixture_start(&fx));
  uint16_t port = tls_listen_on(&fx, NULL);
  tls_client a = tls_connect(&fx, port), b = tls_connect(&fx, port);
  tls_client c = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  CHECK(!tls_shake(&c));
  CHECK_INT(2, stats_of(&fx).accepted);
  tls_free(&a);
  fx.now += AB_REST;
  CHECK(tls_shake(&c));
  CHECK_INT(3, stats_of(&fx).accepted);
  tls_free(&b);
  tls_end(&c, &fx);
}

CHECK_CASE(the_rate_is_limited) {
  fixture fx;
  fixture_prepare(&fx);
  fx.limits.tls_handshake_rate = 100;
  CHECK(fixture_start(&fx));
  uint16_t port = tls_listen_on(&fx, NULL);
  int fds[60];
  for (int i = 0; i < 60; i++) fds[i] = client_tcp(port);
  fixture_run(&fx);
  uint64_t first = stats_of(&fx).accepted;
  CHECK(first >= 10 && first <= 12); /* a tenth of a second's */
  for (int i = 0; i < 20; i++) {
    fx.now += 10 * AB_NSEC_PER_MS;
    fixture_run(&fx);
  }
  CHECK(stats_of(&fx).accepted >= first + 18 && stats_of(&fx).accepted <= first + 22);
  for (int i = 0; i < 60; i++) close(fds[i]);
  fx.now += AB_NSEC_PER_SEC;
  fixture_run(&fx);
  fixture_fini(&fx);
}

/* --- input and output --- */

/* What TLS holds while the socket is silent is served: many requests in one record. */
CHECK_CASE(requests_in_one_record) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client client = tls_connect(&fx, port);
  static char text[16384];
  size_t len = 0;
  for (int i = 0; i < 300; i++) {
    len +=
        (size_t)snprintf(text + len, sizeof text - len, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
  }
  CHECK_INT(len, SSL_write(client.ssl, text, (int)len));
  fixture_run(&fx);
  CHECK_INT(300, fx.taken);
  CHECK_INT(300, occurrences(tls_read(&client, NULL), "HTTP/1.1 200"));
  tls_end(&client, &fx);
}

static char plenty[3 << 20];

static void fill_plenty(void) {
  for (size_t i = 0; i < sizeof plenty; i++) plenty[i] = (char)('a' + i % 23 + i / 65536 % 3);
}

/* A body that is much larger than all that is kept of one. */
CHECK_CASE(a_body_is_read) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fill_plenty();
  fx.hold = true;
  tls_client client = tls_connect(&fx, port);
  char head[128];
  snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
           sizeof plenty);
  tls_send(&client, head);
  CHECK_INT(1, fx.held_count);
  size_t sent = 0, read = 0;
  bool same = true;
  for (unsigned i = 0; i < 100000 && read < sizeof plenty; i++) {
    static char piece[50000];
    size_t most = sizeof plenty - sent < 100000 ? sizeof plenty - sent : 100000;
    int n = most > 0 ? SSL_write(client.ssl, plenty + sent, (int)most) : 0;
    if (n > 0) sent += (size_t)n;
    fixture_run(&fx);
    ssize_t got = read_body(&fx, fx.held[0], piece, 1 + i * 7919 % sizeof piece);
    if (got <= 0) continue;
    same = same && memcmp(piece, plenty + read, (size_t)got) == 0;
    read += (size_t)got;
  }
  CHECK(same);
  CHECK_INT(sizeof plenty, read);
  CHECK(body_is_done(fx.held[0]));
  answer_held(&fx, 0, "read");
  fixture_run(&fx);
  CHECK(strstr(tls_read(&client, NULL), "read"));
  tls_end(&client, &fx);
}

/* A record of one byte costs as much as what came over the network for it. */
CHECK_CASE(small_records_use_up_a_share) {
  static const char head[] = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  static char content[AB_RECV_MAX];
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  tls_client client = tls_connect(&fx, tls_listen_on(&fx, NULL));
  tls_send(&client, head);
  CHECK_INT(1, fx.held_count);
  CHECK_INT(AB_AGAIN, read_body(&fx, fx.held[0], content, sizeof content));
  fixture_run(&fx);
  int sent = 0;
  while (sent < 10000 && SSL_write(client.ssl, "x", 1) == 1) sent++;
  CHECK_INT(10000, sent);
  for (int turn = 0; turn < 2; turn++) {
    fixture_turn(&fx);
    uint64_t before = fx.engine->scratch.received;
    ssize_t n;
    while ((n = read_body(&fx, fx.held[0], content, sizeof content)) > 0) continue;
    CHECK_INT(AB_AGAIN, n);
    uint64_t came = fx.engine->scratch.received - before;
    /* In the second turn there is what the system has moved up meanwhile. */
    CHECK(came > (turn == 0 ? AB_RECV_MAX / 2 : 0) && came <= 2 * AB_RECV_MAX);
  }
  answer_held(&fx, 0, "x");
  tls_end(&client, &fx);
}

/* A client that reads slowly gets all of it, and the engine never holds more than it may. */
CHECK_CASE(a_slow_reader) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fill_plenty();
  fx.big = plenty;
  fx.big_len = sizeof plenty;
  tls_client client = tls_connect(&fx, port);
  tls_send(&client, GET("/one"));
  static char got[sizeof plenty + 512];
  size_t len = 0, head = 0;
  for (unsigned i = 0; i < 100000 && (head == 0 || len < head + sizeof plenty); i++) {
    ERR_clear_error();
    int n =
        SSL_read(client.ssl, got + len, (int)(sizeof got - len < 30000 ? sizeof got - len : 30000));
    if (n > 0) len += (size_t)n;
    fixture_run(&fx);
    if (head == 0 && len > 0) head = (size_t)(strstr(got, "\r\n\r\n") + 4 - got);
  }
  const char *content = got + head;
  CHECK_INT(sizeof plenty, got + len - content);
  CHECK(memcmp(content, plenty, sizeof plenty) == 0);
  fx.big = NULL;
  CHECK(begins(tls_ask(&client, GET("/two"), NULL), "HTTP/1.1 200"));
  CHECK_INT(0, stats_of(&fx).timeouts);
  tls_end(&client, &fx);
}

CHECK_CASE(a_reader_that_stands_still) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fx.big = plenty;
  fx.big_len = sizeof plenty;
  tls_client client = tls_connect(&fx, port);
  tls_send(&client, GET("/one"));
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 31);
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, stats_of(&fx).timeouts);
  CHECK_INT(fx.borrowed, fx.released);
  tls_end(&client, &fx);
}

/* --- the end --- */

/* close_notify is a half-close: what was asked for is answered, and then the connection closes. */
CHECK_CASE(a_peer_that_ends_its_side) {
  for (int fin = 0; fin < 2; fin++) {
    fixture fx;
    uint16_t port = serve_tls(&fx);
    fx.hold = true;
    tls_client client = tls_connect(&fx, port);
    tls_send(&client, GET("/one"));
    SSL_shutdown(client.ssl);
    if (fin) shutdown(client.fd, SHUT_WR);
    fixture_run(&fx);
    CHECK_INT(1, fx.held_count);
    CHECK_INT(1, stats_of(&fx).connections);
    answer_held(&fx, 0, "late");
    fixture_run(&fx);
    int end;
    CHECK(strstr(tls_read(&client, &end), "late"));
    CHECK_INT(1, end);
    CHECK_INT(0, stats_of(&fx).connections);
    tls_end(&client, &fx);
  }
}

/* Requests and the end of the stream may be here together. */
CHECK_CASE(all_at_once) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client client = tls_connect(&fx, port);
  SSL_write(client.ssl, GET("/one") GET("/two"), sizeof(GET("/one") GET("/two")) - 1);
  SSL_shutdown(client.ssl);
  shutdown(client.fd, SHUT_WR);
  fixture_run(&fx);
  int end;
  CHECK_INT(2, occurrences(tls_read(&client, &end), "HTTP/1.1 200"));
  CHECK_INT(1, end);
  CHECK_INT(0, stats_of(&fx).connections);
  tls_end(&client, &fx);
}

/* Without close_notify nobody can tell a body that was cut off. */
CHECK_CASE(a_body_that_is_cut_off) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fx.hold = true;
  tls_client client = tls_connect(&fx, port);
  tls_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  char piece[16];
  CHECK_INT(3, read_body(&fx, fx.held[0], piece, sizeof piece));
  shutdown(client.fd, SHUT_WR);
  fixture_run(&fx);
  CHECK_INT(AB_EPEER, read_body(&fx, fx.held[0], piece, sizeof piece));
  tls_end(&client, &fx);
}

CHECK_CASE(a_drain_says_goodbye) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client idle = tls_connect(&fx, port), used = tls_connect(&fx, port);
  tls_ask(&used, GET("/one"), NULL);
  tls_client begun = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  SSL_do_handshake(begun.ssl);
  fixture_run(&fx);
  int silent = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(4, stats_of(&fx).connections);
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  /* What has begun may go on for a moment. */
  CHECK(tls_shake(&begun));
  CHECK(strstr(tls_ask(&begun, GET("/late"), NULL), "Connection: close"));
  fixture_pass(&fx, 1);
  CHECK_INT(0, stats_of(&fx).connections);
  int end;
  tls_read(&idle, &end);
  CHECK_INT(1, end);
  tls_read(&used, &end);
  CHECK_INT(1, end);
  CHECK(is_closed(silent));
  close(silent);
  tls_free(&idle);
  tls_free(&used);
  tls_end(&begun, &fx);
}

CHECK_CASE(refused_while_it_shakes_hands) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  SSL_do_handshake(client.ssl);
  fixture_run(&fx);
  ab_engine_drain(fx.engine, fx.now);
  ab_engine_refuse(fx.engine, fx.now);
  CHECK(tls_shake(&client));
  CHECK(begins(tls_ask(&client, GET("/one"), NULL), "HTTP/1.1 503"));
  CHECK_INT(0, fx.taken);
  tls_end(&client, &fx);
}

/* A forked child has the socket too, and must not say goodbye for its parent. */
CHECK_CASE(a_forked_child_is_silent) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fx.hold = true;
  tls_client client = tls_connect(&fx, port);
  tls_send(&client, GET("/one"));
  tls_read(&client, NULL); /* tickets */
  int parents = dup(fx.held[0]->conn->link.watch.fd);
  ab_poller_fini(fx.poller);
  fx.poller = NULL;
  ab_engine_abandon(fx.engine);
  ab_engine_abort(fx.engine);
  int end;
  CHECK(!*tls_read(&client, &end));
  CHECK_INT(0, end);
  close(parents);
  fixture_fini(&fx);
  SSL_free(client.ssl);
  SSL_CTX_free(client.ctx);
  close(client.fd);
}

/* --- certificates that change, and hosts --- */

static void check_name(tls_client *client, const char *name) {
  X509 *cert = SSL_get1_peer_certificate(client->ssl);
  CHECK_INT(1, X509_check_host(cert, name, 0, 0, NULL));
  X509_free(cert);
}

CHECK_CASE(certificates_are_replaced) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  fixture_listen(&fx);
  tls_client old = tls_connect(&fx, port);
  check_name(&old, "a.test");
  tls_client amid = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, NULL);
  SSL_do_handshake(amid.ssl);
  fixture_run(&fx);
  ab_tls_context *fresh = tls_context_with("DNS:b.test", AB_TLS_VERIFY_NONE);
  CHECK(ab_engine_replace_tls(fx.engine, 0, fresh));
  CHECK(!ab_engine_replace_tls(fx.engine, 1, fresh));
  CHECK(!ab_engine_replace_tls(fx.engine, 2, fresh));
  ab_tls_context_release(fresh);
  CHECK(begins(tls_ask(&old, GET("/one"), NULL), "HTTP/1.1 200"));
  CHECK(tls_shake(&amid));
  check_name(&amid, "a.test");
  tls_client young = tls_connect(&fx, port);
  check_name(&young, "b.test");
  CHECK(begins(tls_ask(&young, GET("/one"), NULL), "HTTP/1.1 200"));
  tls_free(&old);
  tls_free(&amid);
  tls_end(&young, &fx);
}

static void check_host(tls_client *client, const char *host, const char *status) {
  char text[128];
  snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
  const char *answer = tls_ask(client, text, NULL);
  if (strncmp(answer + 9, status, 3) != 0) fprintf(stderr, "%s: %s\n", host, answer);
  CHECK(strncmp(answer + 9, status, 3) == 0);
}

/* Only for hosts whose own listener asks for certificates in another way. */
CHECK_CASE(a_host_of_another_listener) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  tls_listen_on(
      &fx, &(ab_listener_terms){.tls = tls_context_with("DNS:b.test", AB_TLS_VERIFY_FORCE_PEER)});
  tls_listen_on(&fx,
                &(ab_listener_terms){.tls = tls_context_with("DNS:c.test", AB_TLS_VERIFY_NONE)});
  tls_client client = tls_connect(&fx, port);
  check_host(&client, "a.test", "200");
  check_host(&client, "x.w.test", "200");
  check_host(&client, "other.org", "200");
  check_host(&client, "c.test", "200");
  check_host(&client, "b.test", "421");
  check_host(&client, "B.Test.:443", "421");
  check_host(&client, "a.test", "200");
  CHECK_INT(2, stats_of(&fx).errors);
  ab_tls_context *fresh = tls_context_with("DNS:b.test", AB_TLS_VERIFY_NONE);
  CHECK(ab_engine_replace_tls(fx.engine, 1, fresh));
  ab_tls_context_release(fresh);
  check_host(&client, "b.test", "200");
  tls_end(&client, &fx);
}

/* A listener that redirects knows the hosts of certificates. */
CHECK_CASE(hosts_that_certificates_name) {
  fixture fx;
  serve_tls(&fx);
  uint16_t port =
      fixture_listen_on(&fx, &(ab_listener_terms){.redirect = &(ab_redirect_terms){.port = 0}});
  static const struct {
    const char *host, *status;
  } table[] = {{"a.test", "301"}, {"A.TEST.:80", "301"}, {"x.w.test", "301"},
               {"w.test", "421"}, {"b.test", "421"},     {"x.y.w.test", "421"}};
  int client = client_tcp(port);
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char text[128];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", table[i].host);
    client_send(client, text);
    fixture_run(&fx);
    CHECK(strncmp(client_read(client, NULL) + 9, table[i].status, 3) == 0);
  }
  fixture_end(&fx, client);
}

/* --- memory --- */

/* A handshake and a request in HTTP/1, whose allocation number `at` fails. False: there are not so
 * many. */
static bool shake_failing(size_t at, const char *alpn) {
  fixture fx;
  uint16_t port = serve_tls(&fx);
  size_t last = fx.mem.calls + at;
  fx.mem.fail_at = last;
  tls_client client = tls_client_on(&fx, client_tcp(port), TLS1_3_VERSION, alpn);
  if (tls_shake(&client)) {
    ERR_clear_error();
    SSL_write(client.ssl, GET("/one"), sizeof(GET("/one")) - 1);
    fixture_run(&fx);
    tls_read(&client, NULL);
  }
  fixture_pass(&fx, 1); /* after a connection that could not be accepted */
  bool failed = fx.mem.calls >= last;
  tls_end(&client, &fx);
  return failed;
}

/* Each allocation of the engine's fails once. A client gets its response, or none. */
CHECK_CASE(memory_that_fails) {
  static const char *const protocols[] = {NULL, TLS_H2};
  for (size_t i = 0; i < AB_ARRAY_LEN(protocols); i++) {
    size_t at = 1;
    while (at < 1000 && shake_failing(at, protocols[i])) at++;
    CHECK(at > 3 && at < 1000);
  }
}

CHECK_MAIN()
