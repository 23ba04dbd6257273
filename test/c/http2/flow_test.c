/* Windows, in both directions (RFC 9113 5.2, 6.9). */
#include "peer.h"

static void wait_for_test(server *self AB_UNUSED, server_stream *one AB_UNUSED) {}

static void end(server *s, peer *p) {
  peer_fini(p);
  server_fini(s);
}

static void answer_1000(server *self AB_UNUSED, server_stream *one) {
  CHECK_INT(AB_OK, server_answer(one, 200, "", 1000));
}

static void start_with_window(server *s, peer *p, uint32_t window) {
  const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
  CHECK(server_init(s, NULL, 0));
  s->on_request = answer_1000;
  peer_init_with(p, &entry, 1, false);
}

CHECK_CASE(nothing_is_sent_into_a_window_of_0) {
  server s;
  peer p;
  start_with_window(&s, &p, 0);
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(0, p.streams[1].body_len);
  CHECK(!ab_h2_owes(s.h2));
  CHECK_INT(0, nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 1, 1));
  play(&s, &p);
  CHECK_INT(1, p.streams[1].body_len);
  CHECK_INT(0, nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 1, 999));
  play(&s, &p);
  CHECK_INT(1000, p.streams[1].body_len);
  CHECK(server_last(&s)->closed);
  end(&s, &p);
}

CHECK_CASE(a_window_may_become_negative) {
  server s;
  peer p;
  start_with_window(&s, &p, 500);
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(500, p.streams[1].body_len);
  nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100};
  CHECK_INT(0, nghttp2_submit_settings(p.session, NGHTTP2_FLAG_NONE, &entry, 1)); /* now -400 */
  play(&s, &p);
  CHECK_INT(0, nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 1, 400));
  play(&s, &p);
  CHECK_INT(500, p.streams[1].body_len);
  entry.value = 600;
  CHECK_INT(0, nghttp2_submit_settings(p.session, NGHTTP2_FLAG_NONE, &entry, 1));
  play(&s, &p);
  CHECK_INT(1000, p.streams[1].body_len);
  end(&s, &p);
}

static void answer_100000(server *self AB_UNUSED, server_stream *one) {
  CHECK_INT(AB_OK, server_answer(one, 200, "", 100000));
}

CHECK_CASE(the_connection_has_a_window_too) {
  server s;
  peer p;
  const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
  CHECK(server_init(&s, NULL, 0));
  s.on_request = answer_100000;
  peer_init_with(&p, &entry, 1, false);
  peer_get(&p, "/");
  peer_get(&p, "/");
  play(&s, &p);
  CHECK_INT(65535, p.streams[1].body_len + p.streams[3].body_len);
  CHECK(!ab_h2_owes(s.h2));
  CHECK_INT(0, nghttp2_submit_window_update(p.session, NGHTTP2_FLAG_NONE, 0, 1 << 20));
  play(&s, &p);
  CHECK_INT(200000, p.streams[1].body_len + p.streams[3].body_len);
  end(&s, &p);
}

/* --- what comes --- */

static char *long_body(size_t len) {
  char *body = malloc(len + 1);
  if (!body) abort();
  memset(body, 'b', len);
  body[len] = 0;
  return body;
}

/* A server that reads nothing, and a client with a body. */
static void start_upload(server *s, peer *p, const ab_limits *limits, const char *body) {
  CHECK(server_init(s, limits, 0));
  s->on_request = wait_for_test;
  s->keeps_data = true;
  peer_init(p);
  peer_post(p, body);
  play(s, p);
}

CHECK_CASE(unread_content_is_bounded) {
  char *body = long_body(300000);
  server s;
  peer p;
  start_upload(&s, &p, NULL, body);
  server_stream *one = server_last(&s);
  CHECK_INT(65535, one->body_len);
  ab_h2_consume(one->stream, 10000);
  play(&s, &p);
  CHECK_INT(65535, one->body_len); /* the window is told when half of it is free */
  ab_h2_consume(one->stream, 30000);
  play(&s, &p);
  CHECK_INT(65535 + 40000, one->body_len);
  ab_h2_consume(one->stream, SIZE_MAX); /* not more than there was */
  play(&s, &p);
  CHECK_INT(65535 + 40000 + 65535, one->body_len);
  while (!one->ended) {
    ab_h2_consume(one->stream, 40000);
    play(&s, &p);
  }
  CHECK_INT(300000, one->body_len);
  free(body);
  end(&s, &p);
}

CHECK_CASE(a_body_that_is_read_has_a_wider_window) {
  char *body = long_body(300000);
  server s;
  peer p;
  start_upload(&s, &p, NULL, body);
  server_stream *one = server_last(&s);
  ab_h2_widen(one->stream);
  play(&s, &p);
  CHECK_INT(262144, one->body_len);
  ab_h2_widen(one->stream);
  play(&s, &p);
  CHECK_INT(262144, one->body_len);
  free(body);
  end(&s, &p);
}

CHECK_CASE(the_window_of_a_stream_is_a_limit) {
  ab_limits limits = ab_limits_default();
  limits.stream_window = 1000;
  char *body = long_body(3000);
  server s;
  peer p;
  /* The client learns the window before it asks. */
  CHECK(server_init(&s, &limits, 0));
  s.on_request = wait_for_test;
  s.keeps_data = true;
  peer_init(&p);
  play(&s, &p);
  peer_post(&p, body);
  play(&s, &p);
  CHECK_INT(1000, server_last(&s)->body_len);
  ab_h2_widen(server_last(&s)->stream);
  play(&s, &p);
  CHECK_INT(1000, server_last(&s)->body_len);
  free(body);
  end(&s, &p);
}

CHECK_CASE(all_unread_content_together_is_bounded) {
  ab_limits limits = ab_limits_default();
  limits.connection_window = 100000;
  char *body = long_body(60000);
  server s;
  peer p;
  start_upload(&s, &p, &limits, body);
  const char *second = body;
  nghttp2_data_provider provider = {.source.ptr = &second, .read_callback = peer_read};
  nghttp2_nv fields[] = {peer_pair(":method", "POST"), peer_pair(":scheme", "https"),
                         peer_pair(":path", "/"), peer_pair(":authority", "a.test")};
  CHECK_INT(3, nghttp2_submit_request(p.session, NULL, fields, 4, &provider, NULL));
  play(&s, &p);
  server_stream *one = server_stream_of(&s, 1), *two = server_stream_of(&s, 3);
  CHECK_INT(60000, one->body_len);
  CHECK_INT(40000, two->body_len);
  /* A stream that ends gives back what nobody has read of it. */
  CHECK_INT(AB_OK, server_answer(one, 200, "", 0));
  play(&s, &p);
  CHECK(one->closed);
  CHECK_INT(60000, two->body_len);
  free(body);
  end(&s, &p);
}

/* Whoever sends to streams that were reset cannot use up the connection's window. */
CHECK_CASE(content_of_no_use_frees_its_window) {
  char *body = long_body(60000);
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  s.on_request = wait_for_test;
  peer_init(&p);
  for (int i = 0; i < 60; i++) {
    peer_post(&p, body);
    peer_to_server(&p, &s, 0);
    ab_h2_reset(server_last(&s)->stream, AB_H2_CANCEL);
    play(&s, &p);
  }
  CHECK(nghttp2_session_get_remote_window_size(p.session) > 500000);
  CHECK_INT(0, p.goaways);
  free(body);
  end(&s, &p);
}

CHECK_CASE(a_body_that_has_ended_needs_no_window) {
  char *body = long_body(60000);
  server s;
  peer p;
  start_upload(&s, &p, NULL, body);
  server_stream *one = server_last(&s);
  CHECK(one->ended);
  ab_h2_consume(one->stream, 60000);
  ab_h2_widen(one->stream);
  CHECK(!ab_h2_owes(s.h2));
  free(body);
  end(&s, &p);
}

CHECK_MAIN()
