/* Connections that begin with a PROXY header: whose address the engine then tells, and what becomes
 * of those that do not keep to it. */
#include "engine/fixture.h"

#define V1         "PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n"
#define V2         "\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x08\x01\x01\x01\x01\x00\x50\x00\x50"
#define GET(path)  "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define SIZE(text) (sizeof(text) - 1)

static uint16_t listen_for(fixture *fx, unsigned accept, const char *from) {
  ab_net net;
  if (from) CHECK(ab_net_parse(from, strlen(from), &net));
  return fixture_listen_on(fx, &(ab_listener_terms){.proxy_accept = accept,
                                                    .proxies = from ? &net : NULL,
                                                    .proxy_count = from ? 1 : 0});
}

/* The address of the only request that was taken and is held. */
static const char *held_peer(fixture *fx) {
  static char text[AB_ADDR_TEXT_MAX];
  CHECK_INT(1, fx->held_count);
  if (fx->held_count == 0) return "";
  ab_addr_text(ab_exchange_peer(fx->held[0]), text);
  return text;
}

/* Sends the bytes in two parts and expects a request of `peer`. */
static void check_peer(fixture *fx, uint16_t port, const char *bytes, size_t len, size_t split,
                       const char *peer) {
  int client = client_tcp(port);
  client_send_bytes(client, bytes, split);
  fixture_run(fx);
  client_send_bytes(client, bytes + split, len - split);
  fixture_run(fx);
  CHECK(strcmp(peer, held_peer(fx)) == 0);
  while (fx->held_count) answer_held(fx, 0, "x");
  fixture_run(fx);
  CHECK_INT(1, occurrences(client_read(client, NULL), "200 OK"));
  close(client);
  fixture_run(fx);
}

CHECK_CASE(the_header_may_be_cut_anywhere) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  uint16_t port = listen_for(&fx, AB_PROXY_V1 | AB_PROXY_V2, NULL);
  static const char v1[] = V1 GET("/a"), v2[] = V2 GET("/a");
  for (size_t split = 1; split < SIZE(v1); split++) {
    check_peer(&fx, port, v1, SIZE(v1), split, "192.0.2.7");
  }
  for (size_t split = 1; split < SIZE(v2); split++) {
    check_peer(&fx, port, v2, SIZE(v2), split, "192.0.2.8");
  }
  fixture_fini(&fx);
}

CHECK_CASE(byte_by_byte) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  uint16_t port = listen_for(&fx, AB_PROXY_V2, NULL);
  static const char bytes[] = V2 GET("/a");
  int client = client_tcp(port);
  for (size_t i = 0; i < SIZE(bytes); i++) {
    client_send_bytes(client, bytes + i, 1);
    fixture_run(&fx);
  }
  CHECK(strcmp("192.0.2.8", held_peer(&fx)) == 0);
  CHECK_INT(80, ab_exchange_peer(fx.held[0])->port);
  answer_held(&fx, 0, "x");
  fixture_run(&fx);
  fixture_end(&fx, client);
}

/* The address holds for all of the connection's requests. */
CHECK_CASE(it_comes_once_for_all_requests) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  uint16_t port = listen_for(&fx, AB_PROXY_V1, NULL);
  int client = client_tcp(port);
  client_send(client, V1 GET("/a") GET("/b"));
  for (int i = 0; i < 2; i++) {
    fixture_run(&fx);
    CHECK(strcmp("192.0.2.7", held_peer(&fx)) == 0);
    if (fx.held_count) answer_held(&fx, 0, "x");
  }
  fixture_run(&fx);
  bool end;
  CHECK_INT(2, occurrences(client_read(client, &end), "200 OK"));
  CHECK(!end);
  fixture_end(&fx, client);
}

/* Expects that the bytes are answered with 400 once, after `taken` requests, and the end. */
static void check_refused(unsigned accept, const char *bytes, size_t len, unsigned taken) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = listen_for(&fx, accept, NULL);
  int client = client_tcp(port);
  client_send_bytes(client, bytes, len);
  fixture_run(&fx);
  bool end;
  const char *answer = client_read(client, &end);
  CHECK_INT(1, occurrences(answer, "400 Bad Request\r\n"));
  CHECK_INT(taken, occurrences(answer, "200 OK"));
  CHECK(end);
  CHECK_INT(taken, fx.taken);
  fixture_end(&fx, client);
}

CHECK_CASE(a_second_one_is_refused) {
  static const char v1_v1[] = V1 V1 GET("/a"), v2_v1[] = V2 V1 GET("/a"), v2_v2[] = V2 V2 GET("/a"),
                    v1_v2[] = V1 V2 GET("/a"), later[] = V1 GET("/a") V1 GET("/b");
  check_refused(AB_PROXY_V1 | AB_PROXY_V2, v1_v1, SIZE(v1_v1), 0);
  check_refused(AB_PROXY_V1 | AB_PROXY_V2, v2_v1, SIZE(v2_v1), 0);
  check_refused(AB_PROXY_V1 | AB_PROXY_V2, v2_v2, SIZE(v2_v2), 0);
  check_refused(AB_PROXY_V1 | AB_PROXY_V2, v1_v2, SIZE(v1_v2), 0);
  check_refused(AB_PROXY_V1, later, SIZE(later), 1);
  check_refused(AB_PROXY_V1 | AB_PROXY_OPTIONAL, later, SIZE(later), 1);
}

CHECK_CASE(what_is_no_header_is_refused) {
  static const char plain[] = GET("/a"), v1[] = V1 GET("/a"), bad[] = "PROXY TCP4 x\r\n" GET("/a"),
                    wrong_len[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0b\xc0\x00\x02\x08\x01\x01";
  char endless[4096];
  memset(endless, 'x', sizeof endless);
  memcpy(endless, "PROXY UNKNOWN ", 14);
  check_refused(AB_PROXY_V1 | AB_PROXY_V2, plain, SIZE(plain), 0);
  check_refused(AB_PROXY_V2, v1, SIZE(v1), 0);
  check_refused(0, v1, SIZE(v1), 0);
  check_refused(AB_PROXY_V1 | AB_PROXY_OPTIONAL, bad, SIZE(bad), 0);
  check_refused(AB_PROXY_V2, wrong_len, SIZE(wrong_len), 0);
  check_refused(AB_PROXY_V1, endless, sizeof endless, 0);
}

CHECK_CASE(an_optional_one_may_be_missing) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  uint16_t port = listen_for(&fx, AB_PROXY_V1 | AB_PROXY_OPTIONAL, NULL);
  static const char plain[] = "PUT /a HTTP/1.1\r\nHost: x\r\n\r\n", v1[] = V1 GET("/a");
  for (size_t split = 1; split < SIZE(plain); split++) {
    check_peer(&fx, port, plain, SIZE(plain), split, "127.0.0.1");
  }
  check_peer(&fx, port, v1, SIZE(v1), 5, "192.0.2.7");
  fixture_fini(&fx);
}

/* Others than the named proxies speak for themselves, and may not speak for anybody else. */
CHECK_CASE(only_named_proxies_may_send_one) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  uint16_t port = listen_for(&fx, AB_PROXY_V1, "127.0.0.0/8");
  static const char v1[] = V1 GET("/a"), plain[] = GET("/a");
  check_peer(&fx, port, v1, SIZE(v1), 5, "192.0.2.7");
  fixture_fini(&fx);

  fixture_init(&fx);
  fx.hold = true;
  port = listen_for(&fx, AB_PROXY_V1, "10.0.0.0/8");
  check_peer(&fx, port, plain, SIZE(plain), 5, "127.0.0.1");
  int client = client_tcp(port);
  client_send(client, v1);
  fixture_run(&fx);
  CHECK_INT(1, occurrences(client_read(client, NULL), "400 Bad Request\r\n"));
  CHECK_INT(0, fx.held_count);
  fixture_end(&fx, client);
}

CHECK_CASE(its_size_is_limited) {
  static const char tlv[] = "\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x04\x04\x00\x01x" GET("/a");
  for (uint64_t most = 19; most <= 21; most++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.max_proxy_header = most;
    CHECK(fixture_start(&fx));
    int client = client_tcp(listen_for(&fx, AB_PROXY_V2, NULL));
    client_send_bytes(client, tlv, SIZE(tlv));
    fixture_run(&fx);
    CHECK_INT(1,
              occurrences(client_read(client, NULL), most < 20 ? "HTTP/1.1 400" : "HTTP/1.1 200"));
    fixture_end(&fx, client);
  }
}

CHECK_CASE(silence_within_and_behind_it_ends) {
  static const struct {
    const char *sent;
    bool answered;
  } table[] = {{"", false}, {"PROXY TCP4 192", true}, {V1, false}, {V1 "GET /", true}};
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    fixture fx;
    fixture_init(&fx);
    int client = client_tcp(listen_for(&fx, AB_PROXY_V1, NULL));
    if (*table[i].sent) client_send(client, table[i].sent);
    fixture_run(&fx);
    fixture_pass(&fx, (unsigned)fx.limits.header_timeout);
    bool end;
    CHECK_INT(table[i].answered, occurrences(client_read(client, &end), "HTTP/1.1 408"));
    CHECK(end);
    CHECK_INT(0, fx.taken);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(a_peer_may_go_within_it) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = listen_for(&fx, AB_PROXY_V1 | AB_PROXY_V2, NULL);
  static const char *const parts[] = {"", "PRO", V1, "\r\n\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(parts); i++) {
    int client = client_tcp(port);
    if (*parts[i]) client_send(client, parts[i]);
    fixture_run(&fx);
    close(client);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
  }
  fixture_fini(&fx);
}

/* However long the header is on its way, the request has the time of an idle connection. */
CHECK_CASE(draining_lets_a_request_behind_it_in) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = listen_for(&fx, AB_PROXY_V1, NULL);
  int idle = client_tcp(port), busy = client_tcp(port);
  int late = client_tcp(port), split = client_tcp(port);
  client_send(idle, V1);
  client_send(busy, V1 "GET /a HTTP/1.1\r\n");
  fixture_run(&fx);
  fixture_pass(&fx, 1);
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  client_send(late, V1);
  client_send(split, "PROXY TCP4 192");
  fixture_run(&fx);
  client_send(split, V1 + strlen("PROXY TCP4 192"));
  fixture_run(&fx);
  client_send(busy, "Host: x\r\n\r\n");
  fixture_run(&fx);
  bool end;
  CHECK_INT(1, occurrences(client_read(busy, &end), "200 OK"));
  CHECK(end);
  CHECK_INT(3, stats_of(&fx).connections);
  fx.now += AB_DRAIN_GRACE + AB_WHEEL_TICK;
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).connections);
  int clients[] = {idle, busy, late, split};
  for (size_t i = 0; i < AB_ARRAY_LEN(clients); i++) close(clients[i]);
  fixture_fini(&fx);
}

/* The terms hold from the moment on in which the engine has the listener: nobody's first connection
 * comes before them. */
CHECK_CASE(no_connection_comes_before_the_terms) {
  fixture fx;
  fixture_init(&fx);
  ab_listener *listener = ab_listener_tcp(&fx.mem.mem, "127.0.0.1", 0, NULL);
  int client = client_tcp(ab_listener_port(listener));
  client_send(client, GET("/a"));
  fixture_run(&fx);
  CHECK_INT(AB_OK, ab_engine_add_listener(fx.engine, listener,
                                          &(ab_listener_terms){.proxy_accept = AB_PROXY_V1}));
  fixture_run(&fx);
  CHECK_INT(0, fx.taken);
  CHECK_INT(1, occurrences(client_read(client, NULL), " 400 "));
  fixture_end(&fx, client);
}

CHECK_MAIN()
