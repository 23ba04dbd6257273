/* Turns are shared: clients that always have more to send keep nobody waiting, however small its
 * pieces are. */
#include "engine/fixture.h"
#include "engine/http2.h"
#include "engine/turns.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define CHUNKED(path) "POST " path " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

/* Connections that always have a full socket. */
typedef struct crowd {
  unsigned count;
  int clients[64];
  ab_conn *conns[64];
  const char *piece; /* what each of them repeats */
  size_t len;
} crowd;

/* Fills the sockets. A socket takes all of one send, or nothing of it. */
static void crowd_pushes(const crowd *self) {
  static char many[8000];
  size_t len = sizeof many / self->len * self->len;
  for (size_t at = 0; at < len; at += self->len) memcpy(many + at, self->piece, self->len);
  for (unsigned i = 0; i < self->count; i++) {
    ssize_t n;
    while ((n = send(self->clients[i], many, len, MSG_NOSIGNAL)) == (ssize_t)len) continue;
    CHECK(n < 0);
  }
}

static void crowd_begins(crowd *self, fixture *fx, const char *text, size_t len) {
  for (unsigned i = 0; i < self->count; i++) {
    self->clients[i] = client_of_type(fx, SOCK_STREAM, &self->conns[i]);
    client_send_bytes(self->clients[i], text, len);
  }
  fixture_run(fx);
}

static void crowd_leaves(const crowd *self, fixture *fx) {
  for (unsigned i = 0; i < self->count; i++) close(self->clients[i]);
  fixture_run(fx);
}

/* Turns until a new client's request is taken. */
static unsigned turns_until_served(fixture *fx, const crowd *crowd) {
  unsigned turns = 0;
  int client = client_open(fx);
  client_send(client, GET("/z"));
  for (unsigned before = fx->taken; fx->taken == before && turns < 50; turns++) {
    crowd_pushes(crowd);
    fixture_turn(fx);
  }
  close(client);
  return turns;
}

/* Application code reads between the turns, as fibers do, and the memory for what it reads ahead is
 * full each time. */
CHECK_CASE(readers_between_turns_leave_room) {
  static char content[65536];
  fixture fx;
  fixture_init(&fx);
  fx.hold = true;
  crowd crowd = {.count = 12, .piece = "2\r\nab\r\n", .len = 7};
  crowd_begins(&crowd, &fx, CHUNKED("/a"), sizeof CHUNKED("/a") - 1);
  CHECK_INT(crowd.count, fx.held_count);
  int client = client_open(&fx);
  client_send(client, GET("/z"));
  crowd_pushes(&crowd);
  fixture_hear(&fx);
  uint64_t read = 0;
  for (unsigned i = 0; i < crowd.count; i++) {
    ssize_t n;
    while ((n = read_body(&fx, fx.held[i], content, sizeof content)) > 0) read += (uint64_t)n;
    CHECK_INT(AB_AGAIN, n);
  }
  CHECK(read > 0);
  CHECK_INT(0, ab__arena_room(fx.engine));
  fixture_turn(&fx);
  CHECK_INT(crowd.count + 1, fx.taken);
  close(client);
  crowd_leaves(&crowd, &fx);
  fixture_fini(&fx);
}

/* --- writers --- */

#define WRITERS 20

/* Clients that read whatever comes, and requests that write. */
static void writers_begin(fixture *fx, int *clients) {
  fixture_init(fx);
  fx->hold = true;
  for (unsigned i = 0; i < WRITERS; i++) {
    clients[i] = client_open(fx);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(fx);
  CHECK_INT(WRITERS, fx->held_count);
}

static void writers_end(fixture *fx, const int *clients) {
  while (fx->held_count) answer_held(fx, 0, "x");
  for (unsigned i = 0; i < WRITERS; i++) close(clients[i]);
  fixture_run(fx);
  fixture_fini(fx);
}

static void read_all(int client) {
  static char buf[65536];
  while (recv(client, buf, sizeof buf, 0) > 0) continue;
}

/* Writes pieces of `len` bytes that the client reads at once, until it is another's turn. Returns
 * their number. */
static unsigned write_a_share(fixture *fx, ab_exchange *exchange, int client, size_t len) {
  static const char piece[64000];
  unsigned sent = 0;
  for (bool pause = false; !pause && sent < 1000; sent++) {
    ab_engine_lock(fx->engine);
    CHECK_INT(AB_OK, ab_exchange_write(exchange, piece, len));
    ab_exchange_flush(exchange);
    CHECK(!ab_exchange_want_room(exchange));
    pause = ab_exchange_want_turn(exchange);
    ab_engine_unlock(fx->engine);
    read_all(client);
  }
  return sent;
}

static bool wants_turn(fixture *fx, ab_exchange *exchange) {
  ab_engine_lock(fx->engine);
  bool wants = ab_exchange_want_turn(exchange);
  ab_engine_unlock(fx->engine);
  return wants;
}

/* Who writes for a client that reads as fast gives way to others now and then: after 32 sends, or
 * fewer long ones. The first turn has also read the request. */
CHECK_CASE(a_writer_gives_way) {
  fixture fx;
  int clients[WRITERS];
  writers_begin(&fx, clients);
  static const unsigned lens[] = {1, 1000, 64000}, pieces[] = {28, 31, 7};
  for (int turn = 0; turn < 3; turn++) {
    CHECK_INT(pieces[turn], write_a_share(&fx, fx.held[0], clients[0], lens[turn]));
    CHECK(wants_turn(&fx, fx.held[0]));
    fx.events = 0;
    fixture_turn(&fx);
    CHECK_INT(AB_EVENT_DRAINED, fx.events);
    CHECK(!wants_turn(&fx, fx.held[0]));
  }
  writers_end(&fx, clients);
}

static unsigned length_of(const ab_list *head) {
  unsigned count = 0;
  for (const ab_list *node = head->next; node != head; node = node->next) count++;
  return count;
}

/* Of those that wait for their turn, or for room that there is now, a few are told, and others only
 * when the application has taken that. */
CHECK_CASE(writers_are_told_a_few_at_a_time) {
  for (int full = 0; full < 2; full++) {
    fixture fx;
    int clients[WRITERS];
    static char plenty[2 << 20];
    writers_begin(&fx, clients);
    for (unsigned i = 0; i < WRITERS; i++) {
      if (!full) {
        write_a_share(&fx, fx.held[i], clients[i], 1000);
        continue;
      }
      ab_engine_lock(fx.engine);
      CHECK_INT(AB_OK, lend(&fx, fx.held[i], plenty, sizeof plenty));
      CHECK(ab_exchange_want_room(fx.held[i]));
      ab_engine_unlock(fx.engine);
    }
    unsigned told = 0;
    for (unsigned round = 0; round < 200 && told < WRITERS; round++) {
      for (unsigned i = 0; i < WRITERS; i++) read_all(clients[i]);
      for (int turn = 0; turn < 5; turn++) {
        fixture_hear(&fx);
        ab_engine_turns.turn(fx.engine, fx.now);
      }
      unsigned now = length_of(&fx.engine->events);
      CHECK(now <= AB_TURN_LATER);
      told += now;
      take_events(&fx);
    }
    CHECK_INT(WRITERS, told);
    CHECK_INT(AB_EVENT_DRAINED, fx.events);
    writers_end(&fx, clients);
  }
}

/* A request that waits to be taken goes before them. */
CHECK_CASE(new_requests_pass_writers) {
  fixture fx;
  int clients[WRITERS];
  writers_begin(&fx, clients);
  for (unsigned i = 0; i < WRITERS; i++) write_a_share(&fx, fx.held[i], clients[i], 1000);
  fx.mute = true;
  int client = client_open(&fx);
  client_send(client, GET("/z"));
  fixture_turn(&fx);
  CHECK_INT(1, stats_of(&fx).waiting);
  unsigned before = length_of(&fx.engine->app_later);
  fixture_turn(&fx);
  CHECK_INT(1, before - length_of(&fx.engine->app_later));
  fx.mute = false;
  fixture_turn(&fx);
  CHECK_INT(WRITERS + 1, fx.taken);
  close(client);
  writers_end(&fx, clients);
}

/* --- deadlines --- */

/* Bytes that have come in time count, however long their connection's turn is in coming. */
CHECK_CASE(a_connection_that_waits_for_its_turn_is_not_idle) {
  enum { COUNT = 3 * AB_TURN_LATER };
  fixture fx;
  fixture_init(&fx);
  int clients[COUNT];
  ab_conn *conns[COUNT];
  for (int i = 0; i < COUNT; i++) {
    clients[i] = client_of_type(&fx, SOCK_STREAM, &conns[i]);
    client_send(clients[i], GET("/a"));
  }
  fixture_run(&fx);
  CHECK_INT(COUNT, fx.taken);
  for (int i = 0; i < COUNT; i++) {
    ab__conn_charge(conns[i], AB_TURN_SHARE);
    client_send(clients[i], GET("/b"));
  }
  fx.now += (fx.limits.persistent_timeout + 1) * AB_NSEC_PER_SEC;
  fixture_run(&fx);
  CHECK_INT(2 * COUNT, fx.taken);
  for (int i = 0; i < COUNT; i++) {
    CHECK_INT(2, occurrences(client_read(clients[i], NULL), "200 OK"));
    close(clients[i]);
  }
  fixture_run(&fx);
  fixture_fini(&fx);
}

#ifdef AB_HAVE_HTTP2

#include "engine/http2_client.h"

/* A stream of HTTP/2 is a writer as any other. */
CHECK_CASE(a_stream_gives_way) {
  static const char piece[10000];
  fixture fx;
  h2_init(&fx);
  h2_client *client = client_of(&fx);
  peer_get(&client->peer, "/a");
  talk(client);
  ab_exchange *exchange = take_held(&fx, 0);
  ab_engine_lock(fx.engine);
  CHECK_INT(AB_OK, give_head(exchange, unknown_length, "", NULL));
  ab_engine_unlock(fx.engine);
  for (int turn = 0; turn < 3; turn++) {
    size_t sent = 0;
    while (!wants_turn(&fx, exchange) && sent < 2 << 20) {
      ab_engine_lock(fx.engine);
      CHECK_INT(AB_OK, ab_exchange_write(exchange, piece, sizeof piece));
      ab_exchange_flush(exchange);
      ab_engine_unlock(fx.engine);
      sent += sizeof piece;
      client_hears(client); /* and opens its window */
      fx.events = 0;
      talk(client);
    }
    CHECK(sent > 400000 && sent < 600000);
    CHECK_INT(0, fx.events);
    fixture_turn(&fx);
    CHECK_INT(AB_EVENT_DRAINED, fx.events);
  }
  ab_engine_lock(fx.engine);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  end(&fx, client);
}

static const char begins[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                             "\0\0\0\4\0\0\0\0\0"
                             "\0\0\13\1\4\0\0\0\1\203\207\204\1\6a.test";
#define ONE_BYTE "\0\0\1\0\0\0\0\0\1x"

static void h2_crowd(crowd *self, fixture *fx, unsigned count) {
  fixture_init(fx);
  fx->engine->default_service.http2 = true;
  fx->hold = true;
  *self = (crowd){.count = count, .piece = ONE_BYTE, .len = sizeof ONE_BYTE - 1};
  crowd_begins(self, fx, begins, sizeof begins - 1);
  CHECK_INT(count, fx->held_count);
}

/* Bytes of its body that the connection's only stream has here. */
static uint32_t got(const fixture *fx, const ab_conn *conn) {
  for (unsigned i = 0; i < fx->held_count; i++) {
    const ab_conn *stream = fx->held[i]->conn;
    if (stream->speaks == AB_SPEAKS_STREAM && stream->stream->session == conn->session) {
      return stream->in_len;
    }
  }
  return 0;
}

static uint32_t got_by_all(const fixture *fx, const crowd *crowd) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < crowd->count; i++) sum += got(fx, crowd->conns[i]);
  return sum;
}

CHECK_CASE(a_new_client_passes_those_with_more_to_send) {
  static const unsigned counts[] = {1, 12, 40};
  for (size_t i = 0; i < AB_ARRAY_LEN(counts); i++) {
    fixture fx;
    crowd crowd;
    h2_crowd(&crowd, &fx, counts[i]);
    for (int turn = 0; turn < 3; turn++) {
      crowd_pushes(&crowd);
      fixture_turn(&fx);
    }
    CHECK_INT(1, turns_until_served(&fx, &crowd));
    crowd_leaves(&crowd, &fx);
    fixture_fini(&fx);
  }
}

/* Each of them gets on, and none twice before all others have. */
CHECK_CASE(those_with_more_to_send_take_turns) {
  enum { TURNS = 33 };
  fixture fx;
  crowd crowd;
  h2_crowd(&crowd, &fx, 12);
  for (int turn = 0; turn < TURNS; turn++) {
    crowd_pushes(&crowd);
    fixture_turn(&fx);
  }
  uint32_t least = UINT32_MAX, most = 0;
  for (unsigned i = 0; i < crowd.count; i++) {
    uint32_t bytes = got(&fx, crowd.conns[i]);
    if (bytes < least) least = bytes;
    if (bytes > most) most = bytes;
  }
  CHECK(least > 0);
  CHECK(most - least <= 2000);
  crowd_leaves(&crowd, &fx);
  fixture_fini(&fx);
}

/* Frames of one byte are counted, not their bytes: in the first turn each client has its share,
 * later on a few have. */
CHECK_CASE(a_turn_takes_so_many_small_frames) {
  fixture fx;
  crowd crowd;
  h2_crowd(&crowd, &fx, 40);
  uint32_t before = got_by_all(&fx, &crowd), most = 0;
  for (int turn = 0; turn < 5; turn++) {
    crowd_pushes(&crowd);
    fixture_turn(&fx);
    uint32_t now = got_by_all(&fx, &crowd);
    if (turn == 0) {
      CHECK(now - before <= 40 * 1000);
    } else if (now - before > most) {
      most = now - before;
    }
    before = now;
  }
  CHECK(most > 0);
  CHECK(most <= AB_TURN_LATER * 1000);
  crowd_leaves(&crowd, &fx);
  fixture_fini(&fx);
}

#endif

CHECK_MAIN()
