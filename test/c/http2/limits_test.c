/* What the first SETTINGS announce, and what the limits do. */
#include "peer.h"

#define ANNOUNCED(p, name) nghttp2_session_get_remote_settings((p).session, NGHTTP2_SETTINGS_##name)

CHECK_CASE(the_limits_are_announced) {
  ab_limits limits = ab_limits_default();
  server s;
  peer p;
  CHECK(server_init(&s, &limits, 0));
  peer_init(&p);
  play(&s, &p);
  CHECK_INT(100, ANNOUNCED(p, MAX_CONCURRENT_STREAMS));
  CHECK_INT(65536, ANNOUNCED(p, MAX_HEADER_LIST_SIZE));
  CHECK_INT(65535, ANNOUNCED(p, INITIAL_WINDOW_SIZE));
  CHECK_INT(1, ANNOUNCED(p, ENABLE_CONNECT_PROTOCOL));
  CHECK_INT(1, ANNOUNCED(p, NO_RFC7540_PRIORITIES));
  CHECK_INT(1048576, nghttp2_session_get_remote_window_size(p.session));
  peer_fini(&p);
  server_fini(&s);
}

CHECK_CASE(other_limits_are_announced_too) {
  ab_limits limits = ab_limits_default();
  limits.max_streams = 7;
  limits.stream_window = 1000;
  limits.connection_window = 10; /* less than what each connection has from its start */
  limits.max_head_size = 2000;
  server s;
  peer p;
  CHECK(server_init(&s, &limits, 0));
  peer_init(&p);
  play(&s, &p);
  CHECK_INT(7, ANNOUNCED(p, MAX_CONCURRENT_STREAMS));
  CHECK_INT(1000, ANNOUNCED(p, INITIAL_WINDOW_SIZE));
  CHECK_INT(2000, ANNOUNCED(p, MAX_HEADER_LIST_SIZE));
  CHECK_INT(65535, nghttp2_session_get_remote_window_size(p.session));
  peer_fini(&p);
  server_fini(&s);
}

CHECK_CASE(huge_limits_are_announced_as_what_the_protocol_can_say) {
  ab_limits limits = ab_limits_default();
  limits.max_streams = limits.stream_window = limits.connection_window = UINT64_MAX;
  limits.max_head_size = UINT64_MAX;
  server s;
  peer p;
  CHECK(server_init(&s, &limits, 0));
  peer_init(&p);
  play(&s, &p);
  CHECK_INT(INT32_MAX, ANNOUNCED(p, MAX_CONCURRENT_STREAMS));
  CHECK_INT(65535, ANNOUNCED(p, INITIAL_WINDOW_SIZE));
  CHECK_INT(UINT32_MAX, ANNOUNCED(p, MAX_HEADER_LIST_SIZE));
  CHECK_INT(INT32_MAX, nghttp2_session_get_remote_window_size(p.session));
  peer_fini(&p);
  server_fini(&s);
}

/* Sends a GET with these more fields; returns the verdict on it. */
static int verdict_of(const ab_limits *limits, const char *const *more) {
  server s;
  peer p;
  CHECK(server_init(&s, limits, 0));
  peer_init(&p);
  const char *pairs[300] = {PAIRS_OF("GET", "/")};
  size_t count = 8;
  for (; *more; more++) pairs[count++] = *more;
  peer_request(&p, pairs, false);
  play(&s, &p);
  int error = server_last(&s)->error;
  char heads[32];
  snprintf(heads, sizeof heads, ":status=%d;|", error ? ab_http_error_status(error) : 200);
  CHECK_BYTES(heads, p.streams[1].heads, p.streams[1].heads_len);
  CHECK_INT(0, p.goaways);
  peer_fini(&p);
  server_fini(&s);
  return error;
}

CHECK_CASE(a_field_has_a_length) {
  ab_limits limits = ab_limits_default();
  limits.max_header_line = 12;
  CHECK_INT(AB_OK, verdict_of(&limits, PAIRS("x-a", "1234567")));
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, verdict_of(&limits, PAIRS("x-a", "12345678")));
}

CHECK_CASE(crumbs_of_a_cookie_are_one_field) {
  ab_limits limits = ab_limits_default();
  limits.max_header_line = 16;
  limits.max_header_count = 1;
  CHECK_INT(AB_OK, verdict_of(&limits, PAIRS("cookie", "a=1", "cookie", "b=2")));
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, verdict_of(&limits, PAIRS("cookie", "a=1", "cookie", "b=23")));
  CHECK_INT(AB_HTTP_FIELD_TOO_MANY, verdict_of(&limits, PAIRS("cookie", "a=1", "x-a", "1")));
}

CHECK_CASE(fields_have_a_number) {
  ab_limits limits = ab_limits_default();
  limits.max_header_count = 2;
  CHECK_INT(AB_OK, verdict_of(&limits, PAIRS("x-a", "1", "x-a", "2")));
  CHECK_INT(AB_HTTP_FIELD_TOO_MANY, verdict_of(&limits, PAIRS("x-a", "1", "x-a", "2", "x-b", "")));
}

CHECK_CASE(a_head_has_a_size) {
  ab_limits limits = ab_limits_default();
  /* :method GET, :scheme https, :path /, :authority a.test, and 32 for each */
  limits.max_head_size = 10 + 12 + 6 + 16 + 4 * 32 + 5 + 32;
  CHECK_INT(AB_OK, verdict_of(&limits, PAIRS("x-a", "12")));
  CHECK_INT(AB_HTTP_HEAD_TOO_LONG, verdict_of(&limits, PAIRS("x-a", "123")));
  limits.max_head_size = 100;
  CHECK_INT(AB_HTTP_HEAD_TOO_LONG, verdict_of(&limits, PAIRS("x-a", "123")));
}

CHECK_CASE(a_head_far_beyond_its_size_ends_the_connection) {
  ab_limits limits = ab_limits_default();
  limits.max_head_size = 100;
  server s;
  peer p;
  CHECK(server_init(&s, &limits, 0));
  peer_init(&p);
  char value[500];
  memset(value, 'v', sizeof value);
  value[sizeof value - 1] = 0;
  peer_request(&p, PAIRS(PAIRS_OF("GET", "/"), "x-a", value), false);
  play(&s, &p);
  CHECK_INT(AB_EPEER, s.receive);
  CHECK_INT(AB_H2_ENHANCE_YOUR_CALM, p.goaway_code);
  CHECK_INT(0, s.events_len);
  CHECK(ab_h2_is_over(s.h2));
  peer_fini(&p);
  server_fini(&s);
}

CHECK_CASE(a_target_has_a_length) {
  ab_limits limits = ab_limits_default();
  limits.max_request_line = 4;
  for (int len = 4; len <= 5; len++) {
    server s;
    peer p;
    CHECK(server_init(&s, &limits, 0));
    peer_init(&p);
    peer_get(&p, len == 4 ? "/abc" : "/abcd");
    play(&s, &p);
    CHECK_INT(len == 4 ? AB_OK : AB_HTTP_REQUEST_LINE_TOO_LONG, server_last(&s)->error);
    peer_fini(&p);
    server_fini(&s);
  }
}

static ssize_t read_then_trailers(nghttp2_session *session, int32_t id, uint8_t *buf AB_UNUSED,
                                  size_t most AB_UNUSED, uint32_t *flags,
                                  nghttp2_data_source *source, void *user AB_UNUSED) {
  const nghttp2_nv *fields = source->ptr;
  size_t count = 0;
  while (fields[count].name) count++;
  *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  CHECK_INT(0, nghttp2_submit_trailer(session, id, fields, count));
  return 0;
}

/* Sends a POST with these trailers; the server's events. */
static void send_trailers(server *s, peer *p, const ab_limits *limits, const nghttp2_nv *trailers) {
  CHECK(server_init(s, limits, 0));
  s->on_request = NULL;
  peer_init(p);
  nghttp2_nv fields[] = {peer_pair(":method", "POST"), peer_pair(":scheme", "https"),
                         peer_pair(":path", "/"), peer_pair(":authority", "a.test")};
  nghttp2_data_provider provider = {.source.ptr = (void *)trailers,
                                    .read_callback = read_then_trailers};
  CHECK_INT(1, nghttp2_submit_request(p->session, NULL, fields, 4, &provider, NULL));
  play(s, p);
}

CHECK_CASE(trailers_have_limits) {
  ab_limits limits = ab_limits_default();
  limits.max_trailer_count = 2;
  limits.max_trailer_size = 20;
  const nghttp2_nv fit[] = {peer_pair("x-a", "12345"), peer_pair("x", "123"), {0}};
  const nghttp2_nv longer[] = {peer_pair("x-a", "12345"), peer_pair("x", "1234"), {0}};
  const nghttp2_nv more[] = {peer_pair("x", "1"), peer_pair("x", "1"), peer_pair("x", ""), {0}};
  const nghttp2_nv *cases[] = {fit, longer, more};
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    server s;
    peer p;
    send_trailers(&s, &p, &limits, cases[i]);
    CHECK_BYTES(i == 0 ? "R1 e1 c1" : "R1 c1", s.events, s.events_len);
    if (i == 0) {
      CHECK_BYTES("x-a: 12345\r\nx: 123\r\n", server_last(&s)->trailers,
                  strlen(server_last(&s)->trailers));
    }
    CHECK_INT(i == 0 ? 0 : AB_H2_ENHANCE_YOUR_CALM, p.streams[1].code);
    peer_fini(&p);
    server_fini(&s);
  }
}

CHECK_CASE(trailers_that_come_too_late_are_left_out) {
  const nghttp2_nv trailers[] = {peer_pair("content-type", "text/x"), peer_pair("x-sum", "7"), {0}};
  const nghttp2_nv none[] = {peer_pair("authorization", "x"), {0}};
  server s;
  peer p;
  send_trailers(&s, &p, NULL, trailers);
  CHECK_BYTES("x-sum: 7\r\n", server_last(&s)->trailers, strlen(server_last(&s)->trailers));
  peer_fini(&p);
  server_fini(&s);
  send_trailers(&s, &p, NULL, none);
  CHECK_BYTES("", server_last(&s)->trailers, strlen(server_last(&s)->trailers));
  peer_fini(&p);
  server_fini(&s);
}

CHECK_MAIN()
