/* Bodies on their way to who reads them: straight from the socket, through a window, turn by turn;
 * and those that nobody reads. */
#include "engine/fixture.h"

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n)    "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"
#define CHUNKED(path)    "POST " path " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
#define OK(length, text) "HTTP/1.1 200 OK\r\nContent-Length: " #length "\r\n\r\n" text
#define CLOSING(length, text)                                                                      \
  "HTTP/1.1 200 OK\r\nContent-Length: " #length "\r\nConnection: close\r\n\r\n" text

static char plenty[1 << 20];

/* A request that is held, and the client that sent it. */
static ab_exchange *hold(fixture *fx, int *client, const char *text) {
  fx->hold = true;
  *client = client_open(fx);
  client_send(*client, text);
  fixture_run(fx);
  CHECK_INT(1, fx->held_count);
  return fx->held[0];
}

static void finish_with(fixture *fx, int client, const char *expected, bool closed) {
  fixture_run(fx);
  answer_held(fx, 0, "x");
  fixture_run(fx);
  bool end;
  CHECK(strcmp(expected, client_read(client, &end)) == 0);
  CHECK_INT(closed, end);
}

/* --- read --- */

CHECK_CASE(nothing_is_received_unasked) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 1000000));
  uint64_t before = stats_of(&fx).received;
  while (send(client, plenty, 10000, MSG_NOSIGNAL) > 0) fixture_run(&fx);
  CHECK_INT(before, stats_of(&fx).received);
  CHECK_INT(0, fx.events);
  ssize_t got = read_body(&fx, exchange, plenty, 5000);
  CHECK_INT(5000, got);
  CHECK_INT(before + 5000, stats_of(&fx).received);
  CHECK_INT(0, exchange->conn->in_len); /* it went where it was wanted */
  fixture_end(&fx, client);
}

CHECK_CASE(little_reads_have_a_window) {
  for (int i = 0; i < 2; i++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.body_window = i ? 1000 : 1;
    CHECK(fixture_start(&fx));
    int client;
    ab_exchange *exchange = hold(&fx, &client, POST("/a", 100000));
    client_send_bytes(client, plenty, 50000);
    fixture_run(&fx);
    char one;
    CHECK_INT(1, read_body(&fx, exchange, &one, 1));
    CHECK_INT(i ? 1000 : 64, exchange->conn->in_len); /* 64: what a chunk's framing may take */
    uint64_t received = stats_of(&fx).received;
    CHECK_INT(1, read_body(&fx, exchange, &one, 1));
    CHECK_INT(received, stats_of(&fx).received);
    fixture_run(&fx);
    CHECK_INT(i ? 999 : 63, exchange->conn->in_len); /* and it outlives the step */
    fixture_end(&fx, client);
  }
}

/* The content of long chunks goes straight to its place, and the next one's framing comes with it.
 */
CHECK_CASE(long_chunks_are_not_copied) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, CHUNKED("/a"));
  static char text[40100], content[40000];
  size_t len = 0;
  for (int i = 0; i < 4; i++) {
    len += (size_t)sprintf(text + len, "2710\r\n");
    memset(text + len, 'a' + i, 10000);
    len += 10000;
    len += (size_t)sprintf(text + len, "\r\n");
  }
  len += (size_t)sprintf(text + len, "0\r\n\r\n");
  client_send_bytes(client, text, len);
  fixture_run(&fx);
  size_t got = 0;
  for (int i = 0; i < 4; i++) {
    ssize_t n;
    size_t until = 10000u * (size_t)(i + 1);
    while (got < until && (n = read_body(&fx, exchange, content + got, until - got)) > 0) {
      got += (size_t)n;
      CHECK(exchange->conn->in_len <= 64);
    }
    CHECK_INT(until, got);
    CHECK(content[until - 1] == 'a' + i && content[until - 10000] == 'a' + i);
  }
  CHECK_INT(0, read_body(&fx, exchange, content, 1));
  CHECK(body_is_done(exchange));
  finish_with(&fx, client, OK(1, "x"), false);
  fixture_end(&fx, client);
}

/* Bytes that were read ahead outside of a step stand in the arena until the next one ends, also
 * when a listener with wider limits has come meanwhile. */
CHECK_CASE(a_wider_listener_leaves_input_alone) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 10));
  client_send(client, "0123456789");
  fixture_run(&fx);
  char bytes[10];
  CHECK_INT(1, read_body(&fx, exchange, bytes, 1));
  CHECK_INT(9, exchange->conn->in_len);
  ab_limits wide = fx.limits;
  wide.max_header_count = 3000;
  CHECK(fixture_listen_on(&fx, &(ab_listener_terms){.limits = &wide}) != 0);
  fixture_run(&fx);
  CHECK_INT(9, read_body(&fx, exchange, bytes + 1, 9));
  CHECK_BYTES("0123456789", bytes, 10);
  finish_with(&fx, client, OK(1, "x"), false);
  fixture_end(&fx, client);
}

/* What has come of a body before its connection was dropped is its own, however many others read
 * into the arena afterwards; without memory for it, it is lost. */
CHECK_CASE(input_outlives_a_drop) {
  enum { DROPPED, DROPPED_WITHOUT_MEMORY, WITHOUT_MEMORY };
  for (int i = DROPPED; i <= WITHOUT_MEMORY; i++) {
    fixture fx;
    fixture_init(&fx);
    int client, other;
    ab_exchange *exchange = hold(&fx, &client, POST("/a", 10));
    client_send(client, "012345678");
    fixture_run(&fx);
    char bytes[9] = "";
    CHECK_INT(1, read_body(&fx, exchange, bytes, 1));
    if (i != WITHOUT_MEMORY) {
      shutdown(client, SHUT_RD);
      ab_engine_lock(fx.engine);
      CHECK(ab_exchange_write(exchange, "x", 1) == AB_OK);
      ab_exchange_flush(exchange);
      CHECK(ab_exchange_gone(exchange));
      ab_engine_unlock(fx.engine);
    }
    if (i != DROPPED) fx.mem.fail_at = fx.mem.calls + 1;
    fixture_run(&fx);
    fx.mem.fail_at = 0;
    CHECK(ab_exchange_gone(exchange));
    other = client_with(&fx, POST("/b", 10) "abcdefghi");
    CHECK_INT(i == DROPPED ? 8 : AB_EPEER, read_body(&fx, exchange, bytes + 1, 8));
    if (i == DROPPED) CHECK_BYTES("012345678", bytes, 9);
    CHECK_INT(AB_EPEER, read_body(&fx, exchange, bytes, 8));
    close(other);
    fixture_end(&fx, client);
  }
}

/* Who uploads faster than others does not keep them waiting. */
CHECK_CASE(reading_takes_turns) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 100000));
  client_send_bytes(client, plenty, 100000);
  fixture_run(&fx);
  int reads = 0;
  while (read_body(&fx, exchange, plenty, 5000) == 5000) reads++;
  CHECK_INT(8, reads);
  CHECK_INT(0, fx.events);
  fixture_turn(&fx);
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK_INT(5000, read_body(&fx, exchange, plenty, 5000));
  fixture_end(&fx, client);
}

/* Cut anywhere, and read with any room: content and what follows are the same. */
CHECK_CASE(bodies_cut_anywhere) {
  static const char text[] =
      CHUNKED("/a") "3\r\nabc\r\n5;x\r\ndefgh\r\n0\r\nT: 1\r\n\r\n" GET("/b");
  static const size_t rooms[] = {1, 2, 7, 4095, 4096, 60000};
  for (size_t r = 0; r < AB_ARRAY_LEN(rooms); r++) {
    for (size_t cut = strlen(CHUNKED("/a")); cut < sizeof(text) - 1; cut++) {
      fixture fx;
      fixture_init(&fx);
      fx.hold = true;
      int client = client_open(&fx);
      client_send_bytes(client, text, cut);
      fixture_run(&fx);
      ab_exchange *exchange = fx.held[0];
      static char content[60016];
      size_t len = 0;
      ssize_t got;
      while ((got = read_body(&fx, exchange, content + len, rooms[r])) > 0) len += (size_t)got;
      if (got == AB_AGAIN) {
        client_send_bytes(client, text + cut, sizeof(text) - 1 - cut);
        fixture_run(&fx);
        CHECK_INT(AB_EVENT_BODY, fx.events);
        while ((got = read_body(&fx, exchange, content + len, rooms[r])) > 0) len += (size_t)got;
      } else {
        client_send_bytes(client, text + cut, sizeof(text) - 1 - cut);
      }
      CHECK_INT(0, got);
      CHECK_BYTES("abcdefgh", content, len);
      CHECK_BYTES("T: 1\r\n\r\n", ab_exchange_body(exchange)->trailers,
                  ab_exchange_body(exchange)->trailers_len);
      answer_held(&fx, 0, "x");
      fixture_run(&fx);
      CHECK_INT(2, fx.taken);
      answer_held(&fx, 0, "y");
      fixture_run(&fx);
      CHECK(strcmp(OK(1, "x") OK(1, "y"), client_read(client, NULL)) == 0);
      fixture_end(&fx, client);
    }
  }
}

/* The step has as many connections as it can look after, or its memory is used up: who reads comes
 * back in the next turn. */
CHECK_CASE(a_full_step_is_waited_for) {
  for (int i = 0; i < 2; i++) {
    fixture fx;
    fixture_init(&fx);
    int client;
    ab_exchange *exchange = hold(&fx, &client, CHUNKED("/a"));
    client_send(client, "1\r\nz\r\n0\r\n\r\n");
    fixture_run(&fx);
    uint32_t touched = fx.engine->touched_count;
    size_t used = fx.engine->arena.used;
    if (i) {
      fx.engine->touched_count = AB_STEP_CONNS;
    } else {
      fx.engine->arena.used = fx.engine->arena.size;
    }
    char byte = 0;
    CHECK_INT(AB_AGAIN, read_body(&fx, exchange, &byte, 1));
    fx.engine->touched_count = i ? touched : fx.engine->touched_count;
    fx.engine->arena.used = used;
    fixture_turn(&fx);
    CHECK_INT(AB_EVENT_BODY, fx.events);
    CHECK_INT(1, read_body(&fx, exchange, &byte, 1));
    CHECK_INT('z', byte);
    finish_with(&fx, client, OK(1, "x"), false);
    fixture_end(&fx, client);
  }
}

/* A body that stands in memory when the peer resets is the application's all the same. */
CHECK_CASE(what_came_before_the_end_is_read) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 5) "hel");
  close(client);
  fixture_run(&fx);
  CHECK(ab_exchange_gone(exchange));
  CHECK_INT(-1, ab_exchange_duplicate(exchange));
  ssize_t result;
  CHECK(strcmp("hel", read_what_is_there(&fx, exchange, &result)) == 0);
  CHECK_INT(AB_EPEER, result);
  fixture_fini(&fx);
}

CHECK_CASE(time_counts_while_somebody_waits) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 100000));
  ssize_t result;
  fixture_pass(&fx, 1000);
  CHECK_INT(0, fx.events);
  for (int i = 0; i < 3; i++) {
    fx.events = 0;
    read_what_is_there(&fx, exchange, &result);
    CHECK_INT(AB_AGAIN, result);
    fixture_run(&fx);
    fixture_pass(&fx, 2);
    CHECK_INT(0, fx.events);
    client_send(client, "1234");
    fixture_run(&fx);
    CHECK_INT(AB_EVENT_BODY, fx.events);
    fixture_pass(&fx, 1000); /* the application's own time */
  }
  fx.events = 0;
  read_what_is_there(&fx, exchange, &result);
  fixture_run(&fx);
  fixture_pass(&fx, 5); /* with the 6 s before, more than the rate allows */
  CHECK_INT(AB_EVENT_BODY, fx.events);
  CHECK_INT(AB_HTTP_REQUEST_TIMEOUT, ab_exchange_body_error(exchange));
  finish_with(&fx, client, CLOSING(1, "x"), true);
  fixture_end(&fx, client);
}

/* --- left unread --- */

CHECK_CASE(a_small_rest_is_skipped) {
  static const char body[] = "0123456789" GET("/b");
  for (size_t cut = 0; cut < sizeof(body) - 1; cut++) {
    fixture fx;
    fixture_init(&fx);
    int client;
    hold(&fx, &client, POST("/a", 10));
    client_send_bytes(client, body, cut);
    finish_with(&fx, client, OK(1, "x"), false);
    client_send_bytes(client, body + cut, sizeof(body) - 1 - cut);
    fixture_run(&fx);
    CHECK_INT(2, fx.taken);
    finish_with(&fx, client, OK(1, "x"), false);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(the_rest_has_a_limit) {
  for (uint64_t limit = 11; limit <= 13; limit++) {
    fixture fx;
    fixture_prepare(&fx);
    fx.limits.max_unread_body = limit;
    CHECK(fixture_start(&fx));
    int client;
    hold(&fx, &client, POST("/a", 12) "01");
    bool kept = limit >= 12;
    finish_with(&fx, client, kept ? OK(1, "x") : CLOSING(1, "x"), !kept);
    CHECK_INT(1, stats_of(&fx).connections); /* no reset destroys the response */
    client_send(client, "23456789ab" GET("/b"));
    fixture_run(&fx);
    CHECK_INT(kept ? 2 : 1, fx.taken);
    close(client);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    fixture_fini(&fx);
  }
}

/* Nobody knows how long it is, unless its end is here. */
CHECK_CASE(chunks_are_skipped_when_their_end_is_here) {
  fixture fx;
  fixture_init(&fx);
  int client;
  hold(&fx, &client, CHUNKED("/a") "3\r\nabc\r\n0\r\n\r\n" GET("/b"));
  finish_with(&fx, client, OK(1, "x"), false);
  CHECK_INT(2, fx.taken);
  finish_with(&fx, client, OK(1, "x"), false);
  fixture_end(&fx, client);

  static const char *const bodies[] = {"", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n\r", "zz\r\n"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bodies); i++) {
    char text[200];
    snprintf(text, sizeof text, "%s%s", CHUNKED("/a"), bodies[i]);
    fixture_init(&fx);
    hold(&fx, &client, text);
    finish_with(&fx, client, CLOSING(1, "x"), true);
    fixture_end(&fx, client);
  }
}

CHECK_CASE(skipping_ends_in_time) {
  fixture fx;
  fixture_init(&fx);
  int client;
  hold(&fx, &client, POST("/a", 10));
  finish_with(&fx, client, OK(1, "x"), false);
  fixture_pass(&fx, 9);
  CHECK_INT(1, stats_of(&fx).connections);
  fixture_pass(&fx, 2); /* too slow for the rate */
  CHECK_INT(0, stats_of(&fx).connections);
  CHECK_INT(1, stats_of(&fx).timeouts);
  fixture_end(&fx, client);
}

CHECK_CASE(gone_while_skipping) {
  for (int half = 0; half < 2; half++) {
    fixture fx;
    fixture_init(&fx);
    int client;
    hold(&fx, &client, POST("/a", 10) "012");
    finish_with(&fx, client, OK(1, "x"), false);
    if (half) {
      shutdown(client, SHUT_WR);
      fixture_run(&fx);
      CHECK_INT(0, stats_of(&fx).connections);
    }
    close(client);
    fixture_run(&fx);
    CHECK_INT(0, stats_of(&fx).connections);
    fixture_fini(&fx);
  }
}

/* The response said that the connection stays; then the body turns out to be no body. */
CHECK_CASE(an_error_after_the_head_closes) {
  fixture fx;
  fixture_init(&fx);
  int client;
  ab_exchange *exchange = hold(&fx, &client, POST("/a", 10) "012");
  ab_engine_lock(fx.engine);
  CHECK(ab_exchange_keep_alive(exchange));
  CHECK_INT(AB_OK, ab_exchange_write(exchange, "head", 4));
  ab_engine_unlock(fx.engine);
  ssize_t result;
  shutdown(client, SHUT_WR);
  fixture_run(&fx);
  read_what_is_there(&fx, exchange, &result);
  CHECK_INT(AB_EPEER, result);
  ab_engine_lock(fx.engine);
  ab_exchange_finish(exchange, AB_FINISH_COMPLETE);
  ab_engine_unlock(fx.engine);
  fx.held_count = 0;
  fixture_run(&fx);
  bool end;
  CHECK(strcmp("head", client_read(client, &end)) == 0);
  CHECK(end);
  fixture_end(&fx, client);
}

CHECK_MAIN()
