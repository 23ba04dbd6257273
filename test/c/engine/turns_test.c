/* Turns are shared: clients that always have more to send keep nobody waiting, however small its
 * pieces are. */
#include "engine/fixture.h"
#include "engine/http2.h"

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

#ifdef AB_HAVE_HTTP2

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
  CHECK(most <= 4 * 1000);
  crowd_leaves(&crowd, &fx);
  fixture_fini(&fx);
}

#endif

CHECK_MAIN()
