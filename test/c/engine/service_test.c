/* Listeners: what they accept and when they rest, and what holds for the connections of each. */
#include "engine/fixture.h"
#include "io/poller_backend.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

CHECK_CASE(each_listener_is_named_in_order) {
  fixture fx;
  fixture_init(&fx);
  CHECK(!ab_engine_listener(fx.engine, 0));
  uint16_t first = fixture_listen(&fx), second = fixture_listen(&fx);
  CHECK_INT(first, ab_listener_port(ab_engine_listener(fx.engine, 0)));
  CHECK_INT(second, ab_listener_port(ab_engine_listener(fx.engine, 1)));
  CHECK(!ab_engine_listener(fx.engine, 2));
  fixture_fini(&fx);
}

CHECK_CASE(limits_belong_to_the_listener) {
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  ab_limits limits = ab_limits_default();
  limits.max_request_line = 100;
  const ab_listener_terms terms = {.limits = &limits};
  uint16_t usual = fixture_listen(&fx), strict = fixture_listen_on(&fx, &terms);
  limits.max_request_line = 1; /* they were copied */
  char request[400];
  snprintf(request, sizeof request, "GET /%0200d HTTP/1.1\r\nHost: x\r\n\r\n", 0);
  int one = client_tcp(usual), other = client_tcp(strict);
  client_send(one, request);
  client_send(other, request);
  fixture_run(&fx);
  CHECK_INT(1, fx.held_count);
  CHECK(ab_exchange_listener(fx.held[0]) == ab_engine_listener(fx.engine, 0));
  CHECK(ab_exchange_limits(fx.held[0])->max_request_line > 200);
  CHECK(strstr(client_read(other, NULL), "HTTP/1.1 414 ") != NULL);
  answer_held(&fx, 0, "x");
  close(one);
  close(other);
  fixture_fini(&fx);
}

/* Those that are left come with the next turns. */
CHECK_CASE(a_turn_accepts_so_many) {
  enum { CLIENTS = AB_TURN_ACCEPTS + 10 };
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = client_tcp(port);
    client_send(clients[i], GET("/a"));
  }
  fixture_turn(&fx);
  CHECK_INT(AB_TURN_ACCEPTS, stats_of(&fx).accepted);
  fixture_run(&fx);
  CHECK_INT(CLIENTS, stats_of(&fx).accepted);
  CHECK_INT(CLIENTS, stats_of(&fx).requests);
  for (int i = 0; i < CLIENTS; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* Without memory for a connection none is accepted for a while. */
CHECK_CASE(accepting_rests) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int clients[2] = {client_tcp(port), client_tcp(port)};
  fx.mem.fail_at = fx.mem.calls + 1; /* the first slab */
  fixture_turn(&fx);
  fx.mem.fail_at = 0;
  CHECK_INT(1, stats_of(&fx).refused);
  client_send(clients[1], GET("/a"));
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).accepted);
  CHECK(ab_engine_deadline(fx.engine) == fx.now + AB_REST);
  fx.now += AB_REST;
  fixture_run(&fx);
  fixture_run(&fx); /* the poller looks at the listener again */
  CHECK_INT(1, stats_of(&fx).accepted);
  CHECK(strstr(client_read(clients[1], NULL), "200 OK") != NULL);
  for (int i = 0; i < 2; i++) close(clients[i]);
  fixture_fini(&fx);
}

/* Who stands in the kernel's queue when the engine drains has been promised a connection. */
CHECK_CASE(draining_accepts_what_is_there) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int client = client_tcp(port);
  client_send(client, GET("/a"));
  ab_engine_drain(fx.engine, fx.now);
  CHECK_INT(1, stats_of(&fx).accepted);
  CHECK_INT(-1, client_tcp(port));
  fixture_run(&fx);
  bool end;
  CHECK(strstr(client_read(client, &end), "Connection: close\r\n\r\n/a") != NULL);
  CHECK(end);
  CHECK_INT(port, ab_listener_port(ab_engine_listener(fx.engine, 0))); /* still known */
  fixture_end(&fx, client);
}

/* A sibling has the same socket open, so closing it here ends no registration: the kernel would go
 * on to wake this worker alone, and a connection would wait until the sibling looks by itself. */
CHECK_CASE(draining_leaves_the_wakes_to_siblings) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  int sibling = dup(ab_listener_fd(ab_engine_listener(fx.engine, 0)));
  fixture_run(&fx);
  ab_engine_hand_over(fx.engine);
  ab_engine_drain(fx.engine, fx.now);
  fixture_run(&fx);
  int client = client_tcp(port);
  client_send(client, GET("/a"));
  CHECK_INT(0, ab_poller_wait(fx.poller, 0));
  int fd = accept(sibling, NULL, NULL);
  CHECK(fd >= 0);
  close(fd);
  close(sibling);
  fixture_end(&fx, client);
}

static int set_nothing(ab_poller *poller AB_UNUSED, int fd AB_UNUSED, uint32_t events AB_UNUSED,
                       uint64_t token AB_UNUSED, bool registered AB_UNUSED) {
  errno = ENOSPC;
  return AB_ESYS;
}

/* The kernel's limit of watches, or its memory, may be at its end when a rest is over. */
CHECK_CASE(a_listener_that_cannot_be_watched_is_tried_again) {
  fixture fx;
  fixture_init(&fx);
  uint16_t port = fixture_listen(&fx);
  ab_engine_lock(fx.engine);
  ab__engine_rest(fx.engine);
  ab_engine_unlock(fx.engine);
  const ab_poller_ops *usual = fx.poller->ops;
  ab_poller_ops failing = *usual;
  failing.set = set_nothing;
  fx.poller->ops = &failing;
  fx.now += AB_REST;
  fixture_run(&fx);
  fx.poller->ops = usual;
  int client = client_tcp(port);
  fixture_run(&fx);
  CHECK_INT(0, stats_of(&fx).accepted);
  CHECK_INT(fx.now + AB_REST, ab_engine_deadline(fx.engine));
  fx.now += AB_REST;
  fixture_run(&fx); /* listens again, and hears of the client */
  fixture_run(&fx);
  CHECK_INT(1, stats_of(&fx).accepted);
  fixture_end(&fx, client);
}

CHECK_CASE(without_memory_the_listener_stays_the_callers) {
  fixture fx;
  fixture_init(&fx);
  const ab_net net = {0};
  const ab_listener_terms terms = {.proxy_accept = AB_PROXY_V1, .proxies = &net, .proxy_count = 1};
  for (size_t nth = 1; nth <= 2; nth++) { /* the service, its proxies */
    ab_listener *listener = ab_listener_tcp(&fx.mem.mem, "127.0.0.1", 0, NULL);
    fx.mem.fail_at = fx.mem.calls + nth;
    CHECK_INT(AB_ENOMEM, ab_engine_add_listener(fx.engine, listener, &terms));
    fx.mem.fail_at = 0;
    CHECK(!ab_engine_listener(fx.engine, 0));
    ab_listener_fini(listener);
  }
  CHECK(fixture_listen_on(&fx, &terms) > 0);
  fixture_fini(&fx);
}

CHECK_MAIN()
