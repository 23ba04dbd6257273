/* Connections move between workers: two engines in one process, each in its slot of a page. */
#include <limits.h>
#include <sys/resource.h>

#include "engine/balance.h"
#include "engine/fixture.h"
#include "engine/move.h"
#include "engine/turns.h"
#include "io/relay.h"

#define GET(path)    "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define PAGE_CLIENTS 50

typedef struct pair {
  ab_page *page;
  fixture a, b;
  uint16_t port; /* of a listener that both have, the first one */
} pair;

static void join(fixture *fx, const ab_page *page, uint32_t own) {
  const ab_siblings siblings = {.page = page, .own = own, .moves = true};
  CHECK_INT(AB_OK, ab_engine_join(fx->engine, &siblings));
  ab_page_set_state(page, own, AB_PAGE_SERVING);
}

static void start(pair *self, fixture *fx, uint32_t own) {
  fixture_prepare(fx);
  fx->limits.request_timeout = 20;
  fx->stats = &ab_page_slot_of(self->page, own)->figures;
  CHECK(fixture_start(fx));
}

static void share_listener(pair *self) {
  self->port = fixture_listen(&self->a);
  int fd = dup(ab_listener_fd(ab_engine_listener(self->a.engine, 0)));
  ab_listener *again = ab_listener_adopt(&self->b.mem.mem, fd);
  CHECK_INT(AB_OK, ab_engine_add_listener(self->b.engine, again, NULL));
}

static void pair_init(pair *self) {
  self->page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 2}, (ab_page_time){1, 1});
  start(self, &self->a, 0);
  start(self, &self->b, 1);
  share_listener(self);
  join(&self->a, self->page, 0);
  join(&self->b, self->page, 1);
  fixture_run(&self->b);
  fixture_run(&self->a);
}

static void pair_fini(pair *self) {
  fixture_fini(&self->a);
  fixture_fini(&self->b);
  ab_page_drop(self->page);
}

static void pass(pair *self, ab_nsec time) {
  self->a.now += time;
  self->b.now = self->a.now;
}

/* How many descriptors the process has. */
static int open_fds(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* A client of this one's, which has had an answer. */
static int client_of(pair *self, fixture *fx) {
  int fd = client_tcp(self->port);
  client_send(fd, GET("/first"));
  fixture_run(fx);
  CHECK(strstr(client_read(fd, NULL), "/first"));
  return fd;
}

static int kept_client(pair *self) {
  return client_of(self, &self->a);
}

static void keep_clients(pair *self, int *clients, int count) {
  for (int i = 0; i < count; i++) clients[i] = kept_client(self);
}

static void send_each(const int *clients, int count) {
  for (int i = 0; i < count; i++) client_send(clients[i], GET("/x"));
}

static void check_answers(const int *clients, int count) {
  for (int i = 0; i < count; i++) CHECK(strstr(client_read(clients[i], NULL), "/x"));
}

static void close_all(const int *clients, int count) {
  for (int i = 0; i < count; i++) close(clients[i]);
}

/* Each has its answer, and goes. */
static void end_answered(const int *clients, int count) {
  check_answers(clients, count);
  close_all(clients, count);
}

static uint64_t moved(fixture *from, fixture *to) {
  CHECK_INT(stats_of(from).moved_out, stats_of(to).moved_in);
  return stats_of(from).moved_out;
}

/* Turns of a, with so many clients that send each time: requests wait. */
static void press(pair *self, const int *clients, int count, int turns) {
  for (int turn = 0; turn < turns; turn++) {
    send_each(clients, count);
    pass(self, 2 * AB_NSEC_PER_MS);
    fixture_turn(&self->a);
    fixture_run(&self->b);
    check_answers(clients, count);
  }
}

CHECK_CASE(connections_of_a_busy_worker_go_to_an_idle_one) {
  enum { CLIENTS = 24, TURNS = 120 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  press(&both, clients, CLIENTS, TURNS);
  CHECK_INT(CLIENTS, stats_of(&both.a).connections + stats_of(&both.b).connections);
  CHECK(stats_of(&both.b).connections >= CLIENTS / 3);
  CHECK(stats_of(&both.a).connections >= CLIENTS / 3);
  uint64_t before = stats_of(&both.a).moved_out + stats_of(&both.b).moved_out;
  press(&both, clients, CLIENTS, TURNS);
  /* Then it is even, and stays so. */
  CHECK(stats_of(&both.a).moved_out + stats_of(&both.b).moved_out <= before + 2);
  CHECK_INT(CLIENTS * (2 * TURNS + 1), stats_of(&both.a).requests + stats_of(&both.b).requests);
  close_all(clients, CLIENTS);
  pair_fini(&both);
}

/* The other's clients, by connections that it has accepted. */
static void halves(pair *self, int *clients, int count) {
  for (int i = 0; i < count; i++) clients[i] = client_of(self, i % 2 ? &self->b : &self->a);
}

/* Requests that compute for `cost`, and clients that take their time: how many wait changes a lot.
 * Whichever worker is done with its turn first has the next one. */
static void saturate(pair *self, const int *clients, int count, int turns, ab_nsec cost) {
  uint32_t dice = 1;
  ab_nsec next[2] = {self->a.now, self->a.now};
  for (int turn = 0; turn < turns; turn++) {
    int who = next[1] < next[0];
    fixture *fx = who ? &self->b : &self->a;
    for (int i = 0; i < count; i++) {
      dice = dice * 1664525u + 1013904223u;
      if (dice >> 31) client_send(clients[i], GET("/x"));
    }
    uint64_t before = stats_of(fx).requests;
    fx->now = next[who];
    fixture_turn(fx);
    next[who] += (stats_of(fx).requests - before + 1) * cost;
    for (int i = 0; i < count; i++) client_read(clients[i], NULL);
  }
}

CHECK_CASE(two_that_are_equally_busy_keep_what_they_have) {
  enum { CLIENTS = 20, TURNS = 400 };
  static const ab_nsec costs[] = {AB_NSEC_PER_MS / 5, AB_NSEC_PER_MS, 20 * AB_NSEC_PER_MS};
  for (int i = 0; i < 3; i++) {
    pair both;
    pair_init(&both);
    int clients[CLIENTS];
    halves(&both, clients, CLIENTS);
    saturate(&both, clients, CLIENTS, TURNS, costs[i]);
    CHECK(stats_of(&both.a).moved_out + stats_of(&both.b).moved_out <= 8);
    close_all(clients, CLIENTS);
    pair_fini(&both);
  }
}

/* --- pages that compute --- */

/* Both workers, saturated: each computes a page at a time, and its standby turns the engine. */
typedef struct load {
  pair both;
  int clients[PAGE_CLIENTS];
  unsigned answers[PAGE_CLIENTS]; /* since they were counted last */
  ab_nsec done_at[2];
} load;

/* Takes one request, which computes until it is answered. */
static void begin_page(fixture *fx) {
  unsigned events = 0;
  ab_head_loan head = {NULL};
  ab_engine_begin_turn(fx->engine, fx->now);
  bool batch;
  do {
    batch = ab_engine_step(fx->engine);
    uint8_t below = fx->held_count > 0 ? 0 : AB_LEVELS;
    ab_exchange *exchange = ab_engine_next(fx->engine, below, fx->now, &events, &head);
    if (exchange) take_request(fx, exchange, &head);
    ab_engine_end_step(fx->engine);
  } while (batch);
}

static void compute(fixture *fx, ab_nsec *done_at, ab_nsec page) {
  if (fx->now < *done_at) {
    fixture_hear(fx);
    ab_engine_turns.turn(fx->engine, fx->now);
    return;
  }
  if (fx->held_count > 0) answer_held(fx, 0, "/x");
  fixture_hear(fx);
  begin_page(fx);
  if (fx->held_count > 0) *done_at = fx->now + page;
}

/* Each client asks again as soon as it has its answer. */
static void compute_pages(load *self, ab_nsec time, ab_nsec page_a, ab_nsec page_b) {
  pair *both = &self->both;
  for (ab_nsec until = both->a.now + time; both->a.now < until;) {
    pass(both, AB_NSEC_PER_MS);
    compute(&both->a, &self->done_at[0], page_a);
    compute(&both->b, &self->done_at[1], page_b);
    for (int i = 0; i < PAGE_CLIENTS; i++) {
      if (!strstr(client_read(self->clients[i], NULL), "/x")) continue;
      self->answers[i]++;
      client_send(self->clients[i], GET("/x"));
    }
  }
}

/* So many of the clients are a's, and all have asked. */
static void load_init(load *self, int of_a) {
  *self = (load){.answers = {0}};
  pair_init(&self->both);
  for (int i = 0; i < PAGE_CLIENTS; i++)
    self->clients[i] = client_of(&self->both, i < of_a ? &self->both.a : &self->both.b);
  self->both.a.hold = self->both.b.hold = true;
  send_each(self->clients, PAGE_CLIENTS);
}

static void load_fini(load *self) {
  fixture *workers[] = {&self->both.a, &self->both.b};
  for (int i = 0; i < 2; i++) {
    workers[i]->hold = false;
    if (workers[i]->held_count > 0) answer_held(workers[i], 0, "/x");
  }
  close_all(self->clients, PAGE_CLIENTS);
  pair_fini(&self->both);
}

/* Since this was asked last nobody had more than twice as many as anybody else, plus one. */
static void check_even(load *self) {
  unsigned least = UINT_MAX, most = 0;
  for (int i = 0; i < PAGE_CLIENTS; i++) {
    unsigned count = self->answers[i];
    if (count < least) least = count;
    if (count > most) most = count;
    self->answers[i] = 0;
  }
  CHECK(least > 0);
  CHECK(most <= 2 * least + 1);
}

static uint64_t all_moves(const load *self) {
  return self->both.a.stats->moved_out + self->both.b.stats->moved_out;
}

/* Neither has room for new connections, which says nothing about those that wait. */
CHECK_CASE(pages_of_saturated_workers_are_shared_evenly) {
  static const int of_a[] = {PAGE_CLIENTS, 34, PAGE_CLIENTS / 2};
  for (int way = 0; way < 3; way++) {
    load load;
    load_init(&load, of_a[way]);
    compute_pages(&load, 2 * AB_NSEC_PER_SEC, 20 * AB_NSEC_PER_MS, 20 * AB_NSEC_PER_MS);
    memset(load.answers, 0, sizeof load.answers);
    uint64_t before = all_moves(&load);
    CHECK(before <= (uint64_t)of_a[way] - PAGE_CLIENTS / 2 + 2);
    compute_pages(&load, 5 * AB_NSEC_PER_SEC, 20 * AB_NSEC_PER_MS, 20 * AB_NSEC_PER_MS);
    check_even(&load);
    CHECK(all_moves(&load) <= before + 2);
    load_fini(&load);
  }
}

/* One that has half of a processor has fewer connections, and all wait for as long. */
CHECK_CASE(a_slower_worker_has_fewer_connections) {
  load load;
  load_init(&load, PAGE_CLIENTS / 2);
  compute_pages(&load, 5 * AB_NSEC_PER_SEC, 20 * AB_NSEC_PER_MS, 60 * AB_NSEC_PER_MS);
  memset(load.answers, 0, sizeof load.answers);
  uint64_t before = all_moves(&load);
  compute_pages(&load, 10 * AB_NSEC_PER_SEC, 20 * AB_NSEC_PER_MS, 60 * AB_NSEC_PER_MS);
  check_even(&load);
  CHECK(all_moves(&load) <= before + 4);
  load_fini(&load);
}

/* Three wait here, and at b, by the page, what takes 30 ms. */
CHECK_CASE(requests_count_as_much_as_they_compute) {
  for (int way = 0; way < 2; way++) {
    ab_nsec cost = way == 0 ? AB_NSEC_PER_MS : 20 * AB_NSEC_PER_MS;
    pair both;
    pair_init(&both);
    int clients[3];
    keep_clients(&both, clients, 3);
    const ab_route_stats_options options = {.least = 1};
    ab_route_stats *routes = ab_route_stats_init(&both.a.mem.mem, &options, NULL, 0);
    ab_route_stats_charge(routes, ab_route_stats_path(routes, (ab_view){"/x", 2}), cost);
    ab_route other = ab_route_stats_path(routes, (ab_view){"/other", 6});
    ab_route_stats_charge(routes, other, 20 * AB_NSEC_PER_MS); /* or all would be equal */
    ab_engine_weigh(both.a.engine, routes);
    both.b.stats->pressure = 30 * 1000; /* us */
    both.b.stats->due = UINT64_MAX;
    both.a.mute = true;
    send_each(clients, 3);
    fixture_turn(&both.a);
    pass(&both, 100 * AB_NSEC_PER_MS);
    both.b.stats->turned = both.b.now;
    ab_engine_deadline(both.a.engine);
    both.a.engine->balance->due = 0; /* nothing is overdue */
    fixture_turn(&both.a);
    CHECK_INT(way, stats_of(&both.a).moved_out);
    fixture_run(&both.b);
    both.a.mute = false;
    fixture_run(&both.a);
    end_answered(clients, 3);
    ab_engine_weigh(both.a.engine, NULL);
    ab_route_stats_fini(routes);
    pair_fini(&both);
  }
}

/* It goes before those that have come to its new worker since. */
CHECK_CASE(a_request_that_moves_keeps_its_turn) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both), other = client_of(&both, &both.b);
  both.a.mute = both.b.mute = true;
  client_send(client, GET("/older"));
  fixture_run(&both.a);
  pass(&both, AB_NSEC_PER_SEC);
  client_send(other, GET("/newer"));
  fixture_run(&both.b);
  both.b.engine->balance->due = both.b.stats->due = 0; /* it gets on */
  fixture_run(&both.a);
  fixture_run(&both.b);
  CHECK_INT(1, moved(&both.a, &both.b));
  CHECK_INT(2, stats_of(&both.b).waiting);
  both.b.mute = false;
  both.b.taken = 0;
  fixture_run(&both.b);
  CHECK(memcmp(both.b.paths, "on", 2) == 0);
  close(client);
  close(other);
  pair_fini(&both);
}

/* It does not have to come to the end of a turn that takes long. */
CHECK_CASE(a_worker_gives_in_the_middle_of_a_turn) {
  enum { CLIENTS = 40 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  fixture_run(&both.a); /* it looks into the relay, as each second */
  pass(&both, 2 * AB_LOOK);
  fixture_run(&both.a);
  ab_engine_deadline(both.a.engine); /* it waits for events */
  send_each(clients, CLIENTS);
  CHECK(fixture_hear(&both.a) > 0);
  ab_engine_begin_turn(both.a.engine, both.a.now);
  CHECK_INT(0, stats_of(&both.a).moved_out);
  ab_engine_go_on(both.a.engine, both.a.now + AB_NSEC_PER_MS); /* they may be over soon */
  CHECK_INT(0, stats_of(&both.a).moved_out);
  ab_engine_go_on(both.a.engine, both.a.now + 100 * AB_NSEC_PER_MS);
  CHECK_INT(CLIENTS / 2, stats_of(&both.a).moved_out);
  fixture_run(&both.b);
  fixture_run(&both.a);
  CHECK_INT(CLIENTS / 2, moved(&both.a, &both.b));
  end_answered(clients, CLIENTS);
  pair_fini(&both);
}

/* A turn in which much is computed is no rest. */
CHECK_CASE(a_worker_that_is_long_in_a_turn_is_not_idle) {
  enum { CLIENTS = 10 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  both.b.stats->pressure = CLIENTS * 1000; /* us */
  both.b.stats->due = UINT64_MAX;
  both.b.stats->turned = both.b.now;
  press(&both, clients, CLIENTS, 0);
  for (int turn = 0; turn < 10; turn++) {
    send_each(clients, CLIENTS);
    pass(&both, 200 * AB_NSEC_PER_MS);
    fixture_turn(&both.a);
    check_answers(clients, CLIENTS);
  }
  CHECK_INT(0, stats_of(&both.a).moved_out);
  ab_engine_deadline(both.b.engine); /* now it waits for events */
  CHECK_INT(0, both.b.stats->due);
  press(&both, clients, CLIENTS, 50);
  CHECK(stats_of(&both.a).moved_out > 0);
  close_all(clients, CLIENTS);
  pair_fini(&both);
}

CHECK_CASE(a_worker_with_little_to_do_keeps_its_connections) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  press(&both, &client, 1, 50);
  CHECK_INT(0, moved(&both.a, &both.b));
  close(client);
  pair_fini(&both);
}

/* What is in hand of the next request goes along, and is answered once and in order. */
CHECK_CASE(a_request_that_waits_for_a_place_moves) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  both.a.mute = true;
  client_send(client, GET("/one") GET("/two") "GET /thr");
  fixture_run(&both.a);
  CHECK_INT(1, stats_of(&both.a).waiting);
  ab_engine_pause(both.a.engine, true);
  pass(&both, 5 * AB_NSEC_PER_SEC);
  both.b.hold = true;
  fixture_run(&both.b); /* its heartbeat */
  fixture_run(&both.a);
  CHECK_INT(0, stats_of(&both.a).waiting);
  CHECK_INT(0, stats_of(&both.a).connections);
  fixture_run(&both.b);
  CHECK_INT(1, moved(&both.a, &both.b));
  CHECK_INT(1, both.b.held_count);
  /* Its time goes on from where it was. */
  CHECK_INT(both.b.now - 5 * AB_NSEC_PER_SEC, ab_exchange_arrived(both.b.held[0]));
  CHECK_INT(both.b.now + 15 * AB_NSEC_PER_SEC, ab_exchange_deadline(both.b.held[0]));
  CHECK_INT(2, both.b.held[0]->conn->served);
  both.b.hold = false;
  answer_held(&both.b, 0, "/one");
  client_send(client, "ee HTTP/1.1\r\nHost: x\r\n\r\n");
  fixture_run(&both.b);
  fixture_run(&both.a);
  const char *text = client_read(client, NULL);
  CHECK_INT(3, occurrences(text, "200 OK"));
  CHECK(strstr(text, "/one") < strstr(text, "/two") &&
        strstr(text, "/two") < strstr(text, "/three"));
  close(client);
  pair_fini(&both);
}

/* A head that has begun keeps its deadline. */
CHECK_CASE(half_a_head_moves) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  client_send(client, "GET /half HTTP/1.1\r\nHo");
  fixture_run(&both.a);
  pass(&both, 6 * AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  client_send(client, "st: x\r\n");
  ab_engine_pause(both.a.engine, true);
  fixture_run(&both.a);
  fixture_run(&both.b);
  CHECK_INT(1, moved(&both.a, &both.b));
  fixture_pass(&both.b, 3);
  CHECK_INT(0, stats_of(&both.b).timeouts);
  fixture_pass(&both.b, 2);
  CHECK(strstr(client_read(client, NULL), "HTTP/1.1 408 "));
  close(client);
  pair_fini(&both);
}

/* The client's own address, the listener and a PROXY header yet to come go along. */
CHECK_CASE(what_belongs_to_the_connection_moves) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  both.b.hold = true;
  client_send(client, GET("/moved"));
  ab_engine_pause(both.a.engine, true);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  fixture_run(&both.a);
  fixture_run(&both.b);
  CHECK_INT(1, both.b.held_count);
  const ab_conn *conn = both.b.held[0]->conn;
  struct sockaddr_in own;
  socklen_t len = sizeof own;
  CHECK_INT(0, getsockname(client, (struct sockaddr *)&own, &len));
  CHECK_INT(ntohs(own.sin_port), ab_exchange_peer(both.b.held[0])->port);
  CHECK_INT(4, ab_exchange_peer(both.b.held[0])->family);
  CHECK(ab_exchange_listener(both.b.held[0]) == ab_engine_listener(both.b.engine, 0));
  CHECK(!conn->proxied);
  answer_held(&both.b, 0, "x");
  close(client);
  pair_fini(&both);
}

/* HTTP/2 would have begun with the first request. */
CHECK_CASE(a_connection_that_has_spoken_http_1_goes_on_with_it) {
  pair both;
  pair_init(&both);
  both.a.engine->services->http2 = both.b.engine->services->http2 = true;
  int client = kept_client(&both);
  client_send(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  ab_engine_pause(both.a.engine, true);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  fixture_run(&both.a);
  fixture_run(&both.b);
  CHECK_INT(1, moved(&both.a, &both.b));
  CHECK(strstr(client_read(client, NULL), "HTTP/1.1 "));
  close(client);
  pair_fini(&both);
}

/* A request with a body, one that the application has, pending output: they stay. */
CHECK_CASE(what_is_in_progress_stays) {
  pair both;
  pair_init(&both);
  int with_body = kept_client(&both), in_app = kept_client(&both);
  both.a.hold = true;
  client_send(in_app, GET("/app"));
  fixture_run(&both.a);
  both.a.mute = true;
  client_send(with_body, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
  fixture_run(&both.a);
  ab_engine_pause(both.a.engine, true);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  fixture_run(&both.a);
  fixture_run(&both.b);
  CHECK_INT(0, moved(&both.a, &both.b));
  CHECK_INT(2, stats_of(&both.a).connections);
  answer_held(&both.a, 0, "x");
  close(with_body);
  close(in_app);
  pair_fini(&both);
}

/* More than a message has room for stays as well. */
CHECK_CASE(long_input_stays) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  both.a.mute = true;
  char filler[AB_MOVE_INPUT];
  memset(filler, 'x', sizeof filler);
  client_send(client, GET("/one") "GET /");
  client_send_bytes(client, filler, sizeof filler - 100);
  client_send(client, " HTTP/1.1\r\nHost: x\r\nField: ");
  client_send_bytes(client, filler, 200);
  fixture_run(&both.a);
  ab_engine_pause(both.a.engine, true);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  fixture_run(&both.a);
  CHECK_INT(0, moved(&both.a, &both.b));
  CHECK_INT(1, stats_of(&both.a).connections);
  close(client);
  pair_fini(&both);
}

/* The standby turns the engine of a: its connections go as soon as something comes on them. */
CHECK_CASE(a_stalled_worker_gives_its_connections_away) {
  enum { CLIENTS = 10 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  ab_engine_turns.turn(both.a.engine, both.a.now);
  CHECK_INT(0, stats_of(&both.a).moved_out);
  send_each(clients, CLIENTS);
  pass(&both, 2 * AB_NSEC_PER_MS);
  CHECK(fixture_hear(&both.a) >= 1);
  ab_engine_turns.turn(both.a.engine, both.a.now);
  fixture_run(&both.b);
  CHECK_INT(CLIENTS, moved(&both.a, &both.b));
  end_answered(clients, CLIENTS);
  pair_fini(&both);
}

/* B says that it has room, and is killed: a takes its connection back. */
CHECK_CASE(what_nobody_takes_comes_back) {
  enum { CLIENTS = 12 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  int turns = 0;
  for (; turns < 100 && stats_of(&both.a).moved_out == 0; turns++) {
    send_each(clients, CLIENTS);
    pass(&both, 2 * AB_NSEC_PER_MS);
    fixture_turn(&both.a);
  }
  CHECK(stats_of(&both.a).moved_out > 0);
  CHECK_INT(0, stats_of(&both.b).moved_in);
  pass(&both, AB_LOOK);
  fixture_run(&both.a);
  fixture_run(&both.a); /* the poller tells of the relay again */
  CHECK_INT(stats_of(&both.a).moved_out, stats_of(&both.a).moved_in);
  CHECK_INT(CLIENTS, stats_of(&both.a).connections);
  for (int i = 0; i < CLIENTS; i++) {
    CHECK_INT(turns, occurrences(client_read(clients[i], NULL), "/x"));
    close(clients[i]);
  }
  pair_fini(&both);
}

/* The last worker that serves takes what is in the relay when it drains. */
CHECK_CASE(a_drain_leaves_nothing_in_the_relay) {
  enum { CLIENTS = 6 };
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  both.a.mute = true;
  send_each(clients, CLIENTS);
  fixture_run(&both.a);
  ab_engine_pause(both.a.engine, true);
  pass(&both, 100 * AB_NSEC_PER_MS);
  fixture_turn(&both.a);
  CHECK_INT(CLIENTS, stats_of(&both.a).moved_out);
  ab_page_set_state(both.page, 1, AB_PAGE_DRAINING);
  ab_engine_drain(both.b.engine, both.b.now); /* a still serves */
  CHECK_INT(0, stats_of(&both.b).moved_in);
  ab_page_set_state(both.page, 0, AB_PAGE_DRAINING);
  ab_engine_drain(both.a.engine, both.a.now);
  CHECK_INT(CLIENTS, stats_of(&both.a).moved_in);
  both.a.mute = false;
  fixture_run(&both.a);
  end_answered(clients, CLIENTS);
  pair_fini(&both);
}

/* --- an end that others survive --- */

static void hand_over(pair *self) {
  ab_engine_hand_over(self->a.engine);
  ab_page_set_state(self->page, 0, AB_PAGE_DRAINING);
  ab_engine_drain(self->a.engine, self->a.now);
}

/* Turns of both until they have nothing to do, with time for what was left to others. */
static void settle(pair *self) {
  for (int i = 0; i < 10; i++) {
    pass(self, AB_LOOK);
    fixture_run(&self->a);
    fixture_run(&self->b);
  }
}

CHECK_CASE(idle_connections_go_to_those_that_go_on) {
  enum { CLIENTS = 600 }; /* more than the relay has room for */
  pair both;
  pair_init(&both);
  int clients[CLIENTS];
  keep_clients(&both, clients, CLIENTS);
  client_send(clients[0], "GET /half HTTP/1.1\r\nHo");
  fixture_run(&both.a);
  hand_over(&both);
  CHECK(stats_of(&both.a).moved_out < CLIENTS);
  settle(&both);
  CHECK_INT(CLIENTS, moved(&both.a, &both.b));
  CHECK_INT(0, stats_of(&both.a).connections);
  CHECK(both.b.stats->pressure == 0); /* they ask for nothing */
  /* They are as idle as ever, and nothing tells their peers to go. */
  pass(&both, 11 * AB_DRAIN_GRACE);
  fixture_run(&both.b);
  CHECK_INT(CLIENTS, stats_of(&both.b).connections);
  CHECK(strstr(client_read(clients[0], NULL), "HTTP/1.1 408 ")); /* half a head has its own time */
  for (int i = 1; i < CLIENTS; i++) {
    client_send(clients[i], GET("/again"));
    fixture_run(&both.b);
    const char *text = client_read(clients[i], NULL);
    CHECK(strstr(text, "/again") && !strstr(text, "Connection: close"));
  }
  close_all(clients, CLIENTS);
  pair_fini(&both);
}

/* With its response, which does not close it, and with a request that was sent meanwhile. */
CHECK_CASE(a_connection_goes_when_its_request_is_over) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  both.a.hold = true;
  client_send(client, GET("/slow"));
  fixture_run(&both.a);
  CHECK_INT(1, both.a.held_count);
  hand_over(&both);
  pass(&both, AB_NSEC_PER_SEC);
  fixture_run(&both.b);
  client_send(client, GET("/next"));
  both.a.hold = false;
  answer_held(&both.a, 0, "slow");
  settle(&both);
  CHECK_INT(1, moved(&both.a, &both.b));
  const char *text = client_read(client, NULL);
  CHECK_INT(2, occurrences(text, "200 OK"));
  CHECK_INT(0, occurrences(text, "Connection: close"));
  CHECK_INT(1, stats_of(&both.b).requests);
  close(client);
  pair_fini(&both);
}

/* Nobody has room, or nobody goes on: they have their second here. */
CHECK_CASE(idle_connections_stay_where_nobody_goes_on) {
  for (int way = 0; way < 3; way++) {
    pair both;
    pair_init(&both);
    int client = kept_client(&both);
    if (way == 0) both.b.stats->shut = 1;
    if (way == 1) ab_page_set_state(both.page, 1, AB_PAGE_DRAINING);
    if (way == 2) { /* all end, and one is the first */
      ab_page_set_state(both.page, 0, AB_PAGE_DRAINING);
      ab_engine_drain(both.a.engine, both.a.now);
    } else {
      hand_over(&both);
    }
    fixture_run(&both.a);
    CHECK_INT(0, stats_of(&both.a).moved_out);
    client_send(client, GET("/last"));
    fixture_run(&both.a);
    const char *text = client_read(client, NULL);
    CHECK(strstr(text, "/last") && strstr(text, "Connection: close"));
    close(client);
    pair_fini(&both);
  }
}

static void send_raw(pair *self, const char *bytes, size_t len, int fd) {
  const struct iovec iov = {(char *)bytes, len};
  if (fd >= 0) {
    CHECK_INT(AB_OK, ab_relay_send(ab_page_relay(self->page)[1], &iov, 1, fd));
  } else {
    CHECK_INT(len, send(ab_page_relay(self->page)[1], bytes, len, 0));
  }
}

/* A process that was forked by a worker may send anything. */
CHECK_CASE(a_message_that_makes_no_sense) {
  pair both;
  pair_init(&both);
  int before = open_fds(), spare = dup(0);
  char bytes[AB_MOVE_INPUT + 4096] = {0};
  send_raw(&both, "x", 1, -1);
  send_raw(&both, "x", 1, spare);
  for (size_t len = 1; len < 400; len += 7) send_raw(&both, bytes, len, spare);
  fixture_run(&both.b);
  for (size_t len = 1000; len <= sizeof bytes; len += 1000) {
    send_raw(&both, bytes, len, spare);
    fixture_run(&both.b);
  }
  close(spare);
  CHECK_INT(0, stats_of(&both.b).moved_in);
  CHECK_INT(before, open_fds());
  pair_fini(&both);
}

/* Wherever memory runs out, each connection is at one of both, or closed; no descriptor is left. */
CHECK_CASE(moving_with_an_allocator_that_fails) {
  bool failed = true;
  for (unsigned nth = 1; failed && nth < 60; nth++) {
    int before = open_fds();
    pair both;
    pair_init(&both);
    int client = kept_client(&both);
    both.a.mute = true;
    client_send(client, GET("/one") GET("/two"));
    fixture_run(&both.a);
    ab_engine_pause(both.a.engine, true);
    pass(&both, 100 * AB_NSEC_PER_MS);
    both.b.mem.fail_at = both.b.mem.calls + nth;
    fixture_turn(&both.a);
    CHECK_INT(1, stats_of(&both.a).moved_out);
    fixture_run(&both.b);
    failed = both.b.mem.calls >= both.b.mem.fail_at;
    both.b.mem.fail_at = 0;
    pass(&both, AB_NSEC_PER_SEC);
    fixture_run(&both.b);
    CHECK_INT(1, stats_of(&both.b).moved_in);
    bool end;
    const char *text = client_read(client, &end);
    if (!failed) CHECK(strstr(text, "/two"));
    if (!end) CHECK_INT(1, stats_of(&both.b).connections);
    close(client);
    pair_fini(&both);
    CHECK_INT(before, open_fds());
  }
}

/* Without a descriptor it stays in the relay. */
CHECK_CASE(moving_without_descriptors) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both);
  both.a.mute = true;
  client_send(client, GET("/one"));
  fixture_run(&both.a);
  ab_engine_pause(both.a.engine, true);
  pass(&both, 100 * AB_NSEC_PER_MS);
  fixture_turn(&both.a);
  struct rlimit limit, none;
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
  none = limit;
  int next = dup(0); /* with fewer than are open, poll(2) would not look at them */
  close(next);
  none.rlim_cur = (rlim_t)next;
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &none));
  fixture_run(&both.b);
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
  CHECK_INT(0, stats_of(&both.b).moved_in);
  CHECK_INT(1, stats_of(&both.b).refused);
  pass(&both, AB_REST);
  fixture_run(&both.b);
  fixture_run(&both.b);
  CHECK_INT(1, moved(&both.a, &both.b));
  CHECK(strstr(client_read(client, NULL), "/one"));
  close(client);
  pair_fini(&both);
}

/* As many as there is room for go; the others are served here. */
CHECK_CASE(a_relay_that_is_full) {
  pair both;
  pair_init(&both);
  int client = kept_client(&both), spare = dup(0), sent = 0;
  ab_engine_pause(both.a.engine, true); /* it looks into the relay no more */
  const struct iovec iov = {"x", 1};
  while (ab_relay_send(ab_page_relay(both.page)[1], &iov, 1, spare) == AB_OK) sent++;
  CHECK(sent > 50);
  close(spare);
  both.a.mute = true;
  client_send(client, GET("/one"));
  pass(&both, 100 * AB_NSEC_PER_MS);
  fixture_turn(&both.a);
  CHECK_INT(0, stats_of(&both.a).moved_out);
  both.a.mute = false;
  fixture_run(&both.a);
  CHECK(strstr(client_read(client, NULL), "/one"));
  fixture_run(&both.b);
  close(client);
  pair_fini(&both);
}

CHECK_MAIN()
