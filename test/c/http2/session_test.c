/* Requests and responses both ways, with the library's own client as the peer. */
#include "peer.h"

CHECK_CASE(the_library_says_its_name) {
  CHECK(strncmp(ab_h2_library(), "nghttp2 1.", 10) == 0);
}

CHECK_CASE(a_request_is_answered) {
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  peer_init(&p);
  CHECK(ab_h2_owes(s.h2));
  CHECK(ab_h2_is_amid(s.h2));
  CHECK_INT(
      1, peer_request(&p, PAIRS(PAIRS_OF("GET", "/a?b=c"), "x-a", "1", "te", "trailers"), false));
  play(&s, &p);
  CHECK_INT(1, p.settings);
  CHECK(!ab_h2_is_amid(s.h2));
  CHECK_BYTES("R1 c1", s.events, s.events_len);
  CHECK_BYTES("GET /a?b=c a.test", server_last(&s)->request, strlen(server_last(&s)->request));
  CHECK_BYTES("x-a=1;te=trailers;", server_last(&s)->fields, strlen(server_last(&s)->fields));
  CHECK(server_last(&s)->ended);
  CHECK_BYTES(":status=200;|", p.streams[1].heads, p.streams[1].heads_len);
  CHECK(p.streams[1].ended && p.streams[1].closed && p.streams[1].code == 0);
  CHECK_INT(0, ab_h2_streams(s.h2));
  CHECK_INT(1, ab_h2_requests(s.h2));
  CHECK(!ab_h2_owes(s.h2));
  CHECK(!ab_h2_is_over(s.h2));
  peer_fini(&p);
  server_fini(&s);
}

static void start(server *s, peer *p, void (*on_request)(server *, server_stream *)) {
  CHECK(server_init(s, NULL, 0));
  s->on_request = on_request;
  peer_init(p);
}

static void end(server *s, peer *p) {
  peer_fini(p);
  server_fini(s);
}

static void wait_for_test(server *self AB_UNUSED, server_stream *one AB_UNUSED) {}

static void answer_much(server *self AB_UNUSED, server_stream *one) {
  CHECK_INT(AB_OK, server_answer(one, 200, "content-type: text/x\r\n", 300000));
}

/* --- segments --- */

/* The client's bytes of a busy connection, recorded. */
static size_t record(char *bytes, size_t room) {
  server s;
  peer p;
  start(&s, &p, NULL);
  size_t len = 0;
  for (int round = 0; round < 2; round++) {
    peer_post(&p, "a body");
    peer_request(&p, PAIRS(PAIRS_OF("GET", "/a"), "cookie", "a=1", "cookie", "b=2"), false);
    const uint8_t *out;
    for (ssize_t n; (n = nghttp2_session_mem_send(p.session, &out)) > 0;) {
      CHECK(len + (size_t)n <= room);
      memcpy(bytes + len, out, (size_t)n);
      len += (size_t)n;
      (void)server_receive(&s, out, (size_t)n);
    }
    server_to_peer(&s, &p, UINT64_MAX);
  }
  end(&s, &p);
  return len;
}

static void check_events(server *s, const char *bytes, size_t len, size_t first, size_t step) {
  for (size_t at = 0; at < len;) {
    size_t now = at == 0 ? first : step;
    if (now > len - at) now = len - at;
    CHECK_INT(AB_OK, server_receive(s, bytes + at, now));
    at += now;
    size_t sent;
    free(server_send(s, &sent, UINT64_MAX));
  }
  /* When streams close depends on when answers were sent. */
  char told[64];
  size_t count = 0;
  for (size_t i = 0; i < s->events_len; i += 3) {
    if (s->events[i] != 'c') count += (size_t)sprintf(told + count, "%.2s ", s->events + i);
  }
  CHECK_BYTES("R1 R3 e1 R5 R7 e5 ", told, count);
  CHECK_INT(0, ab_h2_streams(s->h2));
  CHECK_BYTES("cookie=a=1; b=2;", server_last(s)->fields, strlen(server_last(s)->fields));
}

CHECK_CASE(segments_do_not_matter) {
  char bytes[4096];
  size_t len = record(bytes, sizeof bytes);
  for (size_t first = 1; first <= len; first++) {
    server s;
    CHECK(server_init(&s, NULL, 0));
    check_events(&s, bytes, len, first, len);
    server_fini(&s);
  }
  for (size_t step = 1; step <= 9; step++) {
    server s;
    CHECK(server_init(&s, NULL, 0));
    check_events(&s, bytes, len, step, step);
    server_fini(&s);
  }
}

CHECK_CASE(it_is_amid_what_has_an_end) {
  char bytes[4096];
  size_t len = record(bytes, sizeof bytes);
  server s;
  CHECK(server_init(&s, NULL, 0));
  size_t at = 0;
  for (; at < 24 + 9; at++) {
    CHECK(ab_h2_is_amid(s.h2));
    CHECK_INT(AB_OK, server_receive(&s, bytes + at, 1));
  }
  CHECK(!ab_h2_is_amid(s.h2)); /* SETTINGS without entries */
  bool amid = false;
  for (; s.events_len == 0 && at < len; at++) {
    amid = ab_h2_is_amid(s.h2);
    CHECK_INT(AB_OK, server_receive(&s, bytes + at, 1));
  }
  CHECK(amid);
  CHECK(!ab_h2_is_amid(s.h2));
  server_fini(&s);
}

/* --- responses --- */

CHECK_CASE(content_goes_in_pieces) {
  server s;
  peer p;
  start(&s, &p, answer_much);
  peer_get(&p, "/");
  peer_post(&p, "x");
  play_with(&s, &p, 0, 1000);
  CHECK_INT(300000, p.streams[1].body_len);
  CHECK_INT(300000, p.streams[3].body_len);
  CHECK_BYTES(":status=200;content-type=text/x;|", p.streams[1].heads, p.streams[1].heads_len);
  CHECK(p.streams[1].closed && p.streams[3].closed);
  end(&s, &p);
}

/* At most one frame goes beyond what ab_h2_fill was allowed. */
CHECK_CASE(no_more_is_pending_than_allowed) {
  server s;
  peer p;
  start(&s, &p, answer_much);
  peer_get(&p, "/");
  peer_to_server(&p, &s, 0);
  CHECK_INT(AB_OK, ab_h2_fill(s.h2, s.out, 100));
  CHECK_INT(AB_OK, ab_h2_fill(s.h2, s.out, 1000));
  CHECK_INT(AB_OK, ab_h2_fill(s.h2, s.out, 1000));
  CHECK(ab_outbox_pending(s.out) < 1000 + 16384 + 9);
  CHECK(ab_h2_owes(s.h2));
  play(&s, &p);
  CHECK_INT(300000, p.streams[1].body_len);
  end(&s, &p);
}

CHECK_CASE(content_comes_later) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  server_stream *one = server_last(&s);
  one->left = 10;
  CHECK_INT(AB_OK, ab_h2_respond(one->stream, 200, "", 0, true));
  play(&s, &p);
  CHECK_BYTES(":status=200;|", p.streams[1].heads, p.streams[1].heads_len);
  CHECK_INT(0, p.streams[1].body_len);
  CHECK(!ab_h2_owes(s.h2));
  ab_h2_resume(one->stream);
  play(&s, &p);
  one->ready = 4;
  ab_h2_resume(one->stream);
  CHECK(ab_h2_owes(s.h2));
  play(&s, &p);
  CHECK_INT(4, p.streams[1].body_len);
  one->ready = 6;
  ab_h2_resume(one->stream);
  play(&s, &p);
  CHECK_INT(10, p.streams[1].body_len);
  CHECK(p.streams[1].closed);
  end(&s, &p);
}

CHECK_CASE(the_end_of_content_may_come_alone) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  server_stream *one = server_last(&s);
  one->left = 1;
  CHECK_INT(AB_OK, ab_h2_respond(one->stream, 200, "", 0, true));
  play(&s, &p);
  one->left = 0;
  ab_h2_resume(one->stream);
  play(&s, &p);
  CHECK(p.streams[1].closed);
  CHECK_INT(0, p.streams[1].body_len);
  end(&s, &p);
}

CHECK_CASE(fields_of_a_connection_are_left_out_and_names_are_lower_case) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  server_stream *one = server_last(&s);
  const char *lines = "Content-Type: text/x\r\nConnection: close\r\nKeep-Alive: 1\r\nX-A:  a b \r\n"
                      "Transfer-Encoding: chunked\r\nUpgrade: x\r\nProxy-Connection: x\r\nX-E:\r\n";
  CHECK_INT(AB_OK, ab_h2_respond(one->stream, 299, lines, strlen(lines), false));
  CHECK_INT(AB_EINVAL, ab_h2_respond(one->stream, 200, "", 0, false));
  play(&s, &p);
  CHECK_BYTES(":status=299;content-type=text/x;x-a=a b;x-e=;|", p.streams[1].heads,
              p.streams[1].heads_len);
  end(&s, &p);
}

CHECK_CASE(a_response_may_have_many_fields) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  char lines[4000], *end_of = lines;
  for (int i = 0; i < 200; i++) end_of += sprintf(end_of, "x-%d: %d\r\n", i, i);
  size_t len = (size_t)(end_of - lines);
  CHECK_INT(AB_OK, ab_h2_respond(server_last(&s)->stream, 200, lines, len, false));
  play(&s, &p);
  CHECK(strstr(p.streams[1].heads, ";x-0=0;") && strstr(p.streams[1].heads, ";x-199=199;|"));
  end(&s, &p);
}

CHECK_CASE(a_head_may_be_long) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  char *lines = malloc(200000);
  memcpy(lines, "x-long: ", 8);
  memset(lines + 8, 'v', 60000);
  size_t len = 60008 + (size_t)sprintf(lines + 60008, "\r\nx-more: ");
  memset(lines + len, 'w', 60000);
  len += 60000;
  len += (size_t)sprintf(lines + len, "\r\nx-last: 1\r\n");
  CHECK_INT(AB_OK, ab_h2_respond(server_last(&s)->stream, 200, lines, len, false));
  free(lines);
  play(&s, &p);
  CHECK(strstr(p.streams[1].heads, "x-last=1;|") && p.streams[1].closed);
  end(&s, &p);
}

CHECK_CASE(interim_heads_come_first) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_post(&p, "x");
  play(&s, &p);
  ab_h2_stream *stream = server_last(&s)->stream;
  const char *hint = "Link: </a.css>; rel=preload\r\n";
  CHECK_INT(AB_OK, ab_h2_inform(stream, 100, "", 0));
  CHECK_INT(AB_OK, ab_h2_inform(stream, 103, hint, strlen(hint)));
  CHECK_INT(AB_OK, server_answer(server_last(&s), 200, "", 3));
  CHECK_INT(AB_OK, ab_h2_inform(stream, 103, hint, strlen(hint))); /* too late: left out */
  play(&s, &p);
  CHECK_BYTES(":status=100;|:status=103;link=</a.css>; rel=preload;|:status=200;|",
              p.streams[1].heads, p.streams[1].heads_len);
  CHECK_INT(3, p.streams[1].body_len);
  end(&s, &p);
}

/* --- trailers of responses --- */

static void answer_with_trailers(server *s, peer *p, uint64_t content, const char *trailers) {
  start(s, p, wait_for_test);
  peer_get(p, "/");
  play(s, p);
  server_stream *one = server_last(s);
  CHECK_INT(AB_OK, ab_h2_set_trailers(one->stream, "x: 0\r\n", 6));
  CHECK_INT(AB_OK, ab_h2_set_trailers(one->stream, trailers, strlen(trailers)));
  one->left = one->ready = content;
  CHECK_INT(AB_OK, ab_h2_respond(one->stream, 200, "", 0, true));
  play(s, p);
  CHECK(p->streams[1].ended && p->streams[1].closed);
  CHECK_INT(0, p->streams[1].code);
  CHECK_INT(content, p->streams[1].body_len);
  CHECK_BYTES("R1 c1", s->events, s->events_len);
}

CHECK_CASE(trailers_follow_content) {
  static const uint64_t sizes[] = {0, 1, 16384, 100000};
  for (size_t i = 0; i < AB_ARRAY_LEN(sizes); i++) {
    server s;
    peer p;
    answer_with_trailers(&s, &p, sizes[i], "Grpc-Status: 0\r\nConnection: x\r\n");
    CHECK_BYTES(":status=200;|grpc-status=0;|", p.streams[1].heads, p.streams[1].heads_len);
    end(&s, &p);
    answer_with_trailers(&s, &p, sizes[i], "");
    CHECK_BYTES(":status=200;|", p.streams[1].heads, p.streams[1].heads_len);
    end(&s, &p);
  }
}

/* --- resets --- */

CHECK_CASE(a_client_gives_up_in_each_phase) {
  for (int phase = 0; phase < 4; phase++) {
    server s;
    peer p;
    start(&s, &p, wait_for_test);
    p.upload = "x";
    peer_request(&p, PAIRS(PAIRS_OF("POST", "/")), phase > 0);
    play(&s, &p);
    server_stream *one = server_last(&s);
    if (phase == 2) { /* in the middle of the content */
      one->left = 100;
      one->ready = 10;
      CHECK_INT(AB_OK, ab_h2_respond(one->stream, 200, "", 0, true));
      play(&s, &p);
    }
    if (phase == 3) { /* the head is submitted, and not sent */
      CHECK_INT(AB_OK, server_answer(one, 200, "", 1000000));
    }
    CHECK_INT(0, nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_CANCEL));
    play(&s, &p);
    CHECK(one->closed);
    CHECK_INT(0, ab_h2_streams(s.h2));
    peer_get(&p, "/");
    play(&s, &p);
    CHECK_BYTES(phase ? "R1 e1 c1 R3" : "R1 c1 R3", s.events, s.events_len);
    end(&s, &p);
  }
}

CHECK_CASE(the_server_gives_up_in_each_phase) {
  for (int phase = 0; phase < 4; phase++) {
    server s;
    peer p;
    start(&s, &p, wait_for_test);
    peer_get(&p, "/");
    play(&s, &p);
    server_stream *one = server_last(&s);
    ab_h2_stream *stream = one->stream;
    if (phase == 1) CHECK_INT(AB_OK, server_answer(one, 200, "", 100)); /* dropped */
    if (phase >= 2) {
      one->left = 100;
      one->ready = 10;
      CHECK_INT(AB_OK, ab_h2_respond(stream, 200, "", 0, true));
      play(&s, &p);
    }
    ab_h2_reset(stream, phase == 3 ? AB_H2_CANCEL : AB_H2_INTERNAL_ERROR);
    ab_h2_reset(stream, AB_H2_PROTOCOL_ERROR); /* the first one counts */
    if (phase < 2) {
      CHECK_INT(phase == 1 ? AB_EINVAL : AB_OK, ab_h2_respond(stream, 200, "", 0, false));
    }
    CHECK_INT(AB_OK, ab_h2_inform(stream, 103, "", 0));
    ab_h2_resume(stream);
    ab_h2_consume(stream, 1);
    ab_h2_widen(stream);
    CHECK(!one->closed);
    play(&s, &p);
    CHECK(one->closed);
    CHECK_INT(phase == 3 ? AB_H2_CANCEL : AB_H2_INTERNAL_ERROR, p.streams[1].code);
    CHECK_BYTES(phase >= 2 ? ":status=200;|" : "", p.streams[1].heads, p.streams[1].heads_len);
    end(&s, &p);
  }
}

static void refuse_early(server *self AB_UNUSED, server_stream *one) {
  CHECK_INT(AB_OK, server_answer(one, 413, "", 20000));
  ab_h2_reset(one->stream, AB_H2_NO_ERROR);
}

/* An answer that makes the rest of the request superfluous is sent whole (RFC 9113 8.1). */
CHECK_CASE(an_early_answer_goes_before_the_reset) {
  for (int with_content = 0; with_content < 2; with_content++) {
    char *body = malloc(200001);
    memset(body, 'b', 200000);
    body[200000] = 0;
    server s;
    peer p;
    start(&s, &p, with_content ? refuse_early : NULL);
    s.keeps_data = true;
    p.upload = body;
    peer_request(&p, with_content ? PAIRS(PAIRS_OF("POST", "/")) : PAIRS(PAIRS_OF("TRACE", "/")),
                 true);
    play_with(&s, &p, 0, 100);
    CHECK_INT(with_content ? 20000 : 0, p.streams[1].body_len);
    CHECK_BYTES(with_content ? ":status=413;|" : ":status=501;|", p.streams[1].heads,
                p.streams[1].heads_len);
    CHECK(p.streams[1].ended);
    CHECK(p.streams[1].closed && p.streams[1].code == AB_H2_NO_ERROR);
    CHECK_INT(1, p.resets);
    CHECK(server_last(&s)->closed);
    free(body);
    end(&s, &p);
  }
}

CHECK_CASE(a_complete_exchange_is_not_reset) {
  server s;
  peer p;
  start(&s, &p, refuse_early);
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(0, p.resets);
  CHECK_INT(20000, p.streams[1].body_len);
  end(&s, &p);
}

static void reset_in_request(server *self AB_UNUSED, server_stream *one) {
  ab_h2_reset(one->stream, AB_H2_REFUSED_STREAM);
}

CHECK_CASE(a_stream_may_be_reset_where_it_is_told) {
  server s;
  peer p;
  start(&s, &p, reset_in_request);
  peer_post(&p, "body");
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(AB_H2_REFUSED_STREAM, p.streams[1].code);
  CHECK_INT(AB_H2_REFUSED_STREAM, p.streams[3].code);
  CHECK_BYTES("R1 R3 c1 c3", s.events, s.events_len);
  end(&s, &p);
}

static void break_in_request(server *self, server_stream *one) {
  CHECK_INT(AB_OK, ab_h2_break(self->h2, AB_H2_HTTP_1_1_REQUIRED));
  CHECK_INT(AB_OK, ab_h2_break(self->h2, AB_H2_INTERNAL_ERROR));
  CHECK_INT(AB_OK, server_answer(one, 200, "", 5));
}

CHECK_CASE(a_session_may_be_broken_where_a_stream_is_told) {
  for (size_t step = 0; step < 2; step++) {
    server s;
    peer p;
    start(&s, &p, break_in_request);
    peer_get(&p, "/");
    peer_get(&p, "/");
    play_with(&s, &p, step, UINT64_MAX);
    CHECK_INT(AB_EPEER, s.receive);
    CHECK_INT(1, p.goaways);
    CHECK_INT(AB_H2_HTTP_1_1_REQUIRED, p.goaway_code);
    CHECK_BYTES("R1", s.events, s.events_len);
    CHECK(ab_h2_is_over(s.h2));
    CHECK_INT(AB_EPEER, server_receive(&s, "x", 1));
    end(&s, &p);
  }
}

CHECK_CASE(a_session_may_be_broken_at_once) {
  server s;
  peer p;
  start(&s, &p, NULL);
  CHECK_INT(AB_OK, ab_h2_break(s.h2, AB_H2_ENHANCE_YOUR_CALM));
  play(&s, &p);
  CHECK_INT(AB_H2_ENHANCE_YOUR_CALM, p.goaway_code);
  CHECK(ab_h2_is_over(s.h2));
  end(&s, &p);
}

CHECK_CASE(lost_streams_are_closed_at_the_end) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  peer_post(&p, "x");
  play(&s, &p);
  CHECK_INT(2, ab_h2_streams(s.h2));
  CHECK_BYTES("R1 R3 e3", s.events, s.events_len);
  end(&s, &p); /* checks that each is closed */
}

/* --- the end --- */

CHECK_CASE(a_session_ends_in_two_steps) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(AB_OK, ab_h2_warn_of_end(s.h2));
  CHECK(ab_h2_owes(s.h2));
  /* This one is on its way. */
  peer_get(&p, "/late");
  peer_to_server(&p, &s, 0);
  server_to_peer(&s, &p, UINT64_MAX);
  CHECK_INT(1, p.goaways);
  CHECK_INT(INT32_MAX, p.goaway_last);
  play(&s, &p);
  CHECK_INT(2, ab_h2_streams(s.h2));
  CHECK_INT(AB_OK, ab_h2_end_session(s.h2));
  CHECK(ab_h2_owes(s.h2));
  play(&s, &p);
  CHECK_INT(2, p.goaways);
  CHECK_INT(3, p.goaway_last);
  CHECK_INT(0, p.goaway_code);
  CHECK(!ab_h2_is_over(s.h2));
  ab_list_each (node, tmp, &s.streams) {
    CHECK_INT(AB_OK, server_answer(AB_CONTAINER_OF(node, server_stream, node), 200, "", 20));
  }
  CHECK(!ab_h2_is_over(s.h2));
  play(&s, &p);
  CHECK_INT(20, p.streams[1].body_len);
  CHECK_INT(20, p.streams[3].body_len);
  CHECK(ab_h2_is_over(s.h2));
  end(&s, &p);
}

CHECK_CASE(a_silent_session_ends_at_once) {
  server s;
  peer p;
  start(&s, &p, NULL);
  play(&s, &p);
  CHECK_INT(AB_OK, ab_h2_end_session(s.h2));
  CHECK(!ab_h2_is_over(s.h2));
  play(&s, &p);
  CHECK(ab_h2_is_over(s.h2));
  CHECK_INT(0, p.goaway_last);
  end(&s, &p);
}

CHECK_CASE(a_client_may_end_it_too) {
  server s;
  peer p;
  start(&s, &p, wait_for_test);
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(0, nghttp2_submit_goaway(p.session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0));
  play(&s, &p);
  CHECK(!ab_h2_is_over(s.h2));
  CHECK_INT(AB_OK, server_answer(server_last(&s), 200, "", 5));
  play(&s, &p);
  CHECK(ab_h2_is_over(s.h2));
  CHECK_INT(5, p.streams[1].body_len);
  end(&s, &p);
}

/* --- the outbox fails --- */

CHECK_CASE(what_the_app_cannot_give_ends_the_session) {
  server s;
  peer p;
  start(&s, &p, answer_much);
  s.take_fails = true;
  peer_get(&p, "/");
  peer_to_server(&p, &s, 0);
  CHECK_INT(AB_ENOMEM, ab_h2_fill(s.h2, s.out, UINT64_MAX));
  CHECK(ab_h2_is_over(s.h2));
  CHECK_INT(AB_EPEER, server_receive(&s, "", 0));
  end(&s, &p);
}

CHECK_MAIN()
