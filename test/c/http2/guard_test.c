/* What a peer does that costs it little and us more, and how each ends (README.md has the list). */
#include "frames.h"
#include "peer.h"

CHECK_CASE(buckets_leak) {
  ab__h2_guard guard;
  ab__h2_guard_init(&guard);
  guard.now = 1000 * AB_NSEC_PER_SEC;
  for (int i = 0; i < AB__H2_FAULTS_BURST; i++) CHECK(ab__h2_guard_fault(&guard));
  CHECK(!ab__h2_guard_fault(&guard));
  guard.now += AB_NSEC_PER_SEC / AB__H2_FAULTS_RATE - 1;
  CHECK(!ab__h2_guard_fault(&guard));
  guard.now += 1;
  CHECK(ab__h2_guard_fault(&guard));
  CHECK(!ab__h2_guard_fault(&guard));
  guard.now += AB_NSEC_PER_SEC;
  for (int i = 0; i < AB__H2_FAULTS_RATE; i++) CHECK(ab__h2_guard_fault(&guard));
  CHECK(!ab__h2_guard_fault(&guard));
  guard.now -= AB_NSEC_PER_SEC; /* time does not run backwards */
  CHECK(!ab__h2_guard_fault(&guard));
}

CHECK_CASE(streams_that_come_to_an_end_make_up_for_resets) {
  ab__h2_guard guard;
  ab__h2_guard_init(&guard);
  ab__h2_guard_finished(&guard);
  for (int i = 0; i < 10 * AB__H2_RESETS_BURST; i++) {
    CHECK(ab__h2_guard_reset(&guard));
    ab__h2_guard_finished(&guard);
  }
  for (int i = 0; i < AB__H2_RESETS_BURST; i++) CHECK(ab__h2_guard_reset(&guard));
  CHECK(!ab__h2_guard_reset(&guard));
}

CHECK_CASE(frames_are_counted_against_progress) {
  ab__h2_guard guard;
  ab__h2_guard_init(&guard);
  ab__h2_guard_progress(&guard);
  for (int i = 0; i < AB__H2_FRAMES_FREE + AB__H2_FRAMES_EACH + AB__H2_FAULTS_BURST; i++) {
    CHECK(ab__h2_guard_frame(&guard));
  }
  CHECK(!ab__h2_guard_frame(&guard));
}

/* --- floods --- */

/* One attack: what is sent `times` times, after the preface and what goes before. */
typedef struct attack {
  const char *name;
  const char *before, *frames;
  bool next_stream; /* each round has a stream of its own */
  uint32_t code;    /* how it ends */
} attack;

/* What the server says now of the session's end; -1: nothing. */
static int64_t goaway_of(server *s) {
  size_t len;
  char *bytes = server_send(s, &len, UINT64_MAX);
  int64_t code = frames_goaway(bytes, len);
  free(bytes);
  return code;
}

/* Returns how many rounds it took until the server had enough, or 0 if it never had. */
static int play_attack(const attack *the, int rounds, bool reads) {
  server s;
  frames f = {0};
  CHECK(server_init(&s, NULL, 0));
  frames_add(&f, "preface settings");
  if (the->before) frames_add(&f, the->before);
  CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
  int round = 0;
  size_t most = 0;
  int64_t code = -1;
  for (; round < rounds && s.receive == AB_OK && code < 0; round++) {
    f.len = 0;
    f.stream = the->next_stream ? 2 * round + 101 : 1;
    frames_add(&f, the->frames);
    (void)server_receive(&s, f.bytes, f.len);
    if (s.mem.live > most) most = s.mem.live;
    if (reads) code = goaway_of(&s);
  }
  bool ended = s.receive == AB_EPEER || code >= 0;
  if (code < 0) code = goaway_of(&s);
  if (ended) {
    CHECK_INT(the->code, code);
    CHECK(ab_h2_is_over(s.h2));
  }
  CHECK(most < 5000); /* blocks of memory */
  frames_free(&f);
  server_fini(&s);
  return ended ? round : 0;
}

#define GET "headers $ es,eh :get"

CHECK_CASE(floods_have_an_end) {
  static const attack attacks[] = {
      {"PING", NULL, "ping 0 - 0000000000000000", false, AB_H2_ENHANCE_YOUR_CALM},
      {"ACK of PING", NULL, "ping 0 ack 0000000000000000", false, AB_H2_ENHANCE_YOUR_CALM},
      {"SETTINGS", NULL, "settings", false, AB_H2_ENHANCE_YOUR_CALM},
      {"PRIORITY", NULL, "priority 1 - 0000000001", false, AB_H2_ENHANCE_YOUR_CALM},
      {"PRIORITY_UPDATE", NULL, "priority_update 0 - 00000001 'u=1'", false,
       AB_H2_ENHANCE_YOUR_CALM},
      {"unknown frames", NULL, "0x42 0 - 00", false, AB_H2_ENHANCE_YOUR_CALM},
      {"empty DATA", "headers 1 eh :post", "data 1 -", false, AB_H2_ENHANCE_YOUR_CALM},
      {"padding only", "headers 1 eh :post", "data 1 pad 03000000", false, AB_H2_ENHANCE_YOUR_CALM},
      {"WINDOW_UPDATE of 1", NULL, "window_update 0 - 00000001", false, AB_H2_ENHANCE_YOUR_CALM},
      {"rapid reset", NULL, GET " rst_stream $ - 00000008", true, AB_H2_ENHANCE_YOUR_CALM},

      {"window beyond 2^31-1", NULL, "headers $ eh :get window_update $ - 7fffffff", true,
       AB_H2_ENHANCE_YOUR_CALM},
      {"DATA beyond the length", NULL, "headers $ eh :post1 data $ es 'xy'", true,
       AB_H2_ENHANCE_YOUR_CALM},
      {"malformed requests", NULL, "headers $ es,eh :get 00 01'A' 01'b'", true,
       AB_H2_ENHANCE_YOUR_CALM},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(attacks); i++) {
    for (int reads = 0; reads < 2; reads++) {
      int rounds = play_attack(&attacks[i], 5000, reads);
      CHECK(rounds > 0 && rounds <= 2300);
      if (rounds == 0 || getenv("VERBOSE")) printf("%s: %d rounds\n", attacks[i].name, rounds);
    }
  }
}

/* Sends DATA frames, `rate` in a second; 0: all at once. Returns after how many the server has had
 * enough; 0 if it never has. */
static int send_pieces(const char *piece, unsigned rate) {
  enum { MOST = 30000 };
  server s;
  frames f = {0};
  CHECK(server_init(&s, NULL, 0));
  frames_add(&f, "preface settings headers 1 eh :post");
  CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
  int sent = 0;
  for (; sent < MOST && s.receive == AB_OK; sent++) {
    f.len = 0;
    f.stream = 1;
    frames_add(&f, piece);
    if (rate) s.now += AB_NSEC_PER_SEC / rate;
    (void)server_receive(&s, f.bytes, f.len);
    if (s.receive != AB_OK) CHECK_INT(AB_H2_ENHANCE_YOUR_CALM, goaway_of(&s));
    size_t len;
    if (s.receive == AB_OK) free(server_send(&s, &len, UINT64_MAX));
  }
  bool ended = s.receive == AB_EPEER;
  frames_free(&f);
  server_fini(&s);
  return ended ? sent : 0;
}

/* A body that a fast client sends byte by byte ends the connection, one that somebody types does
 * not. */
CHECK_CASE(small_pieces_of_a_body_are_counted) {
  int most = AB__H2_PIECES_BURST + 1;
  CHECK_INT(most, send_pieces("data 1 - 'x'", 0));
  CHECK_INT(most, send_pieces("data 1 - 'xy'", 0));
  CHECK_INT(most, send_pieces("data 1 pad 03'x'000000", 0));
  CHECK_INT(0, send_pieces("data 1 - 'xyz'", 0));
  CHECK_INT(0, send_pieces("data 1 - 'x'", AB__H2_PIECES_RATE));
  CHECK(send_pieces("data 1 - 'x'", 2 * AB__H2_PIECES_RATE) > most);
}

/* A small piece pays for itself, and for no other frame. */
CHECK_CASE(small_pieces_are_no_progress) {
  static const attack mixed = {"PING beside DATA of a byte", "headers 1 eh :post",
                               "data 1 - 'x' ping 0 ack 0000000000000000", false,
                               AB_H2_ENHANCE_YOUR_CALM};
  int most = AB__H2_FRAMES_FREE + AB__H2_FRAMES_EACH + AB__H2_FAULTS_BURST;
  int rounds = play_attack(&mixed, 5000, true);
  CHECK(rounds > 0 && rounds <= most);
}

/* What the same frames are beside requests that come to their end. */
CHECK_CASE(honest_clients_are_left_alone) {
  static const attack honest[] = {
      {"PING", NULL, GET " ping 0 - 0000000000000000 ping 0 ack 0000000000000000", true, 0},
      {"windows", NULL, GET " window_update 0 - 00000001 window_update 0 - 00000001", true, 0},
      {"PRIORITY", NULL, "priority $ - 0000000001 " GET " priority $ - 0000000001", true, 0},
      {"half of all are given up", NULL, GET " rst_stream $ - 00000008", true, 0},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(honest); i++) {
    bool resets = i == 3;
    server s;
    frames f = {0};
    CHECK(server_init(&s, NULL, 0));
    frames_add(&f, "preface settings");
    for (int round = 0; round < 5000; round++) {
      f.stream = 4 * round + 1;
      frames_add(&f, honest[i].frames);
      f.stream += 2;
      if (resets) frames_add(&f, GET);
      CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
      f.len = 0;
      size_t sent;
      free(server_send(&s, &sent, UINT64_MAX));
    }
    if (s.receive != AB_OK) printf("%s\n", honest[i].name);
    frames_free(&f);
    server_fini(&s);
  }
}

/* --- blocks of fields --- */

CHECK_CASE(a_block_has_so_many_frames) {
  static const struct {
    int count;
    bool ends;
  } cases[] = {{AB__H2_CONTINUATIONS_MAX - 1, false}, {AB__H2_CONTINUATIONS_MAX, true}};
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    server s;
    frames f = {0};
    CHECK(server_init(&s, NULL, 0));
    frames_add(&f, "preface settings headers 1 es :get");
    for (int n = 0; n < cases[i].count; n++) frames_add(&f, "continuation 1 -");
    CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
    CHECK(ab_h2_is_amid(s.h2));
    f.len = 0;
    frames_add(&f, "continuation 1 eh");
    CHECK_INT(cases[i].ends ? AB_EPEER : AB_OK, server_receive(&s, f.bytes, f.len));
    size_t len;
    char *bytes = server_send(&s, &len, UINT64_MAX);
    if (cases[i].ends) CHECK_INT(AB_H2_ENHANCE_YOUR_CALM, frames_goaway(bytes, len));
    CHECK_BYTES(cases[i].ends ? "" : "R1 c1", s.events, s.events_len);
    free(bytes);
    frames_free(&f);
    server_fini(&s);
  }
}

/* A field in the table, and references to it of one byte each: few bytes, and many fields. */
CHECK_CASE(references_are_counted_as_what_they_stand_for) {
  server s;
  frames f = {0};
  CHECK(server_init(&s, NULL, 0));
  frames_add(&f, "preface settings headers 1 es :get 40 01'a' 01'b'");
  for (int i = 0; i < 8; i++) {
    frames_add(&f, "continuation 1 -");
    size_t len = 16000;
    frames_grow(&f, 0xbe, len);
    frames_lengthen(&f, len);
  }
  size_t before = s.mem.live;
  CHECK_INT(AB_EPEER, server_receive(&s, f.bytes, f.len));
  CHECK(s.mem.live < before + 50);
  CHECK_INT(0, s.events_len);
  frames_free(&f);
  server_fini(&s);
}

/* Within four times what is announced the answer is 431, and nothing more is kept. */
CHECK_CASE(more_fields_than_allowed_are_answered) {
  server s;
  frames f = {0};
  CHECK(server_init(&s, NULL, 0));
  frames_add(&f, "preface settings headers 1 es,eh :get 40 01'a' 01'b'");
  frames_grow(&f, 0xbe, 4000);
  frames_lengthen(&f, 4000);
  frames_add(&f, "headers 3 es,eh :get");
  CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
  CHECK_BYTES("E1 R3", s.events, s.events_len);
  CHECK_INT(AB_HTTP_FIELD_TOO_MANY, server_stream_of(&s, 1)->error);
  size_t len;
  free(server_send(&s, &len, UINT64_MAX));
  frames_free(&f);
  server_fini(&s);
}

/* What answers frames waits in the session: it is bounded even if nobody fetches it. */
CHECK_CASE(answers_that_wait_are_bounded) {
  server s;
  frames f = {0};
  CHECK(server_init(&s, NULL, 0));
  /* Credit for many frames: requests that are answered and read. */
  frames_add(&f, "preface settings");
  for (int i = 0; i < 500; i++) {
    f.stream = 2 * i + 1;
    frames_add(&f, GET);
    CHECK_INT(AB_OK, server_receive(&s, f.bytes, f.len));
    f.len = 0;
    size_t sent;
    free(server_send(&s, &sent, UINT64_MAX));
  }
  size_t before = s.mem.live;
  int pings = 0;
  for (; s.receive == AB_OK && pings < 5000; pings++) {
    f.len = 0;
    frames_add(&f, "ping 0 - 0000000000000000");
    (void)server_receive(&s, f.bytes, f.len);
  }
  CHECK(pings > 900 && pings <= 1002);
  CHECK(s.mem.live < before + 2100);
  frames_free(&f);
  server_fini(&s);
}

CHECK_MAIN()
