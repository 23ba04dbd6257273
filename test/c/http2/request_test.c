/* What a block of fields becomes: a request, or a verdict on it. */
#include "http/field.h"
#include "peer.h"

/* Plays one request of these fields. */
static void ask(server *s, peer *p, const char *const *pairs) {
  CHECK(server_init(s, NULL, 0));
  peer_init(p);
  peer_request(p, pairs, false);
  play(s, p);
}

static void end(server *s, peer *p) {
  peer_fini(p);
  server_fini(s);
}

/* The verdict on these fields; 1 if the stream was reset for a protocol error instead. */
static int verdict(const char *const *pairs) {
  server s;
  peer p;
  ask(&s, &p, pairs);
  bool told = !ab_list_empty(&s.streams);
  int error = told ? server_last(&s)->error : 1;
  CHECK_INT(told ? 0 : 1, p.streams[1].code);
  CHECK_INT(0, p.goaways);
  CHECK_BYTES(!told ? "" : error ? "E1 c1" : "R1 c1", s.events, s.events_len);
  end(&s, &p);
  return error;
}

/* What the app sees of a request. */
typedef struct seen {
  char method[32], target[64], path[64], query[64], host[64], port[16], authority[64];
  char scheme[16], protocol[16];
  bool has_query, has_protocol, expects_continue, is_head;
  uint8_t form, major, minor;
  uint16_t known;
  uint64_t length;
} seen;

static seen last_seen;

static void copy(char *to, ab_view view) {
  memcpy(to, view.ptr, view.len);
  to[view.len] = 0;
}

static void look(server *self AB_UNUSED, server_stream *one) {
  const ab_h2_head *head = one->head;
  const ab_request *request = &head->request;
  last_seen = (seen){0};
  copy(last_seen.method, request->method);
  copy(last_seen.target, request->target);
  copy(last_seen.path, request->path);
  if (request->query.ptr) copy(last_seen.query, request->query);
  copy(last_seen.host, request->host);
  copy(last_seen.port, request->port);
  copy(last_seen.authority, request->authority);
  copy(last_seen.scheme, head->scheme);
  last_seen.has_protocol = request->protocol.ptr;
  if (last_seen.has_protocol) copy(last_seen.protocol, request->protocol);
  last_seen.has_query = request->query.ptr;
  last_seen.expects_continue = head->expects_continue && !one->ended;
  last_seen.is_head = ab_h2_stream_is_head(one->stream);
  CHECK_INT(last_seen.is_head, request->is_head);
  CHECK(!request->upgrade);
  last_seen.form = request->target_form;
  last_seen.major = request->major;
  last_seen.minor = request->minor;
  last_seen.known = request->known;
  last_seen.length = head->length;
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    CHECK_INT(ab_field_id(field->name, field->name_len), field->id);
  }
  (void)!server_answer(one, 200, "", 0);
}

static void see(const char *const *pairs, bool body) {
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  s.on_request = look;
  peer_init(&p);
  p.upload = "body";
  peer_request(&p, pairs, body);
  play(&s, &p);
  CHECK_BYTES(body ? "R1 e1 c1" : "R1 c1", s.events, s.events_len);
  end(&s, &p);
}

#define CHECK_TEXT(expected, actual) CHECK_BYTES(expected, actual, strlen(actual))
#define FROM(method, path)           ":method", method, ":scheme", "http", ":path", path

CHECK_CASE(a_request_is_taken_apart) {
  see(PAIRS(FROM("GET", "/a/b?c=d?e"), ":authority", "A.test:8080", "user-agent", "x"), false);
  CHECK_TEXT("GET", last_seen.method);
  CHECK_TEXT("/a/b?c=d?e", last_seen.target);
  CHECK_TEXT("/a/b", last_seen.path);
  CHECK_TEXT("c=d?e", last_seen.query);
  CHECK_TEXT("A.test", last_seen.host);
  CHECK_TEXT("8080", last_seen.port);
  CHECK_TEXT("A.test:8080", last_seen.authority);
  CHECK_TEXT("http", last_seen.scheme);
  CHECK(!last_seen.has_protocol && !last_seen.is_head && !last_seen.expects_continue);
  CHECK_INT(AB_TARGET_ORIGIN, last_seen.form);
  CHECK_INT(2, last_seen.major);
  CHECK_INT(1, last_seen.minor);
  CHECK_INT(1u << AB_FIELD_OTHER, last_seen.known);
  CHECK(last_seen.length == UINT64_MAX);
}

CHECK_CASE(an_empty_query_is_one) {
  see(PAIRS(FROM("HEAD", "/?"), ":authority", "a.test"), false);
  CHECK(last_seen.has_query && last_seen.is_head);
  CHECK_TEXT("", last_seen.query);
  see(PAIRS(FROM("GET", "/"), ":authority", "a.test"), false);
  CHECK(!last_seen.has_query);
}

CHECK_CASE(known_fields_are_known) {
  see(PAIRS(FROM("POST", "/"), ":authority", "a.test", "content-length", "4", "expect",
            "100-Continue", "content-type", "text/plain", "x-request-start", "1", "cookie", "a"),
      true);
  CHECK_INT(1u << AB_FIELD_CONTENT_LENGTH | 1u << AB_FIELD_EXPECT | 1u << AB_FIELD_CONTENT_TYPE |
                1u << AB_FIELD_REQUEST_START | 1u << AB_FIELD_COOKIE,
            last_seen.known);
  CHECK_INT(4, last_seen.length);
  CHECK(last_seen.expects_continue);
}

CHECK_CASE(nothing_is_expected_without_a_body) {
  see(PAIRS(FROM("GET", "/"), ":authority", "a.test", "expect", "100-continue"), false);
  CHECK(!last_seen.expects_continue);
}

CHECK_CASE(asterisk_is_for_options) {
  see(PAIRS(FROM("OPTIONS", "*"), ":authority", "a.test"), false);
  CHECK_INT(AB_TARGET_ASTERISK, last_seen.form);
  CHECK_TEXT("*", last_seen.path);
  CHECK_INT(1, verdict(PAIRS(FROM("GET", "*"), ":authority", "a.test")));
}

CHECK_CASE(host_stands_in_for_an_authority) {
  see(PAIRS(FROM("GET", "/"), "host", "a.test:"), false);
  CHECK_TEXT("a.test", last_seen.authority);
  CHECK_INT(1u << AB_FIELD_HOST, last_seen.known);
}

CHECK_CASE(both_must_be_the_same) {
  static const struct {
    const char *authority, *host;
    int error;
  } cases[] = {
      {"a.test", "a.test", AB_OK},
      {"a.test", "A.TEST:", AB_OK},
      {"a.test:80", "a.test:80", AB_OK},
      {"a.test", "b.test", AB_HTTP_HOST_DIFFERS},
      {"a.test", "a.tes", AB_HTTP_HOST_DIFFERS},
      {"a.test:1", "a.test", AB_HTTP_HOST_DIFFERS},
      {"a.test:1", "a.test:2", AB_HTTP_HOST_DIFFERS},
      {"u@a.test", "a.test", AB_HTTP_HOST_SYNTAX},
      {"a.test", "u:p@a.test", AB_HTTP_HOST_SYNTAX},
      {"a%41.test", "a.test", AB_HTTP_HOST_SYNTAX},
      {"a.test:65536", "a.test", AB_HTTP_HOST_SYNTAX},
      {"[::1]:8", "[::1]:8", AB_OK},
      {"[::1%25lo]", "[::1]", AB_HTTP_HOST_SYNTAX},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    const char *const pairs[] = {
        FROM("GET", "/"), ":authority", cases[i].authority, "host", cases[i].host, NULL, NULL};
    int error = verdict(pairs);
    /* The library may have seen it first. */
    if (error != 1 || cases[i].error != AB_HTTP_HOST_SYNTAX) CHECK_INT(cases[i].error, error);
  }
}

CHECK_CASE(targets_have_the_grammar_of_http1) {
  static const char *const bad[] = {"/a#b", "/a\\b", "/\"", "/<", "/?a#", "http://a.test/", "a"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    int error = verdict(PAIRS(FROM("GET", bad[i]), ":authority", "a.test"));
    CHECK(error == AB_HTTP_TARGET_SYNTAX || error == 1); /* the library may have seen it first */
  }
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, verdict(PAIRS(FROM("GET", "/a#b"), ":authority", "a.test")));
  see(PAIRS(FROM("GET", "/|{}[]^`%?\\"), ":authority", "a.test"), false);
  CHECK_TEXT("/|{}[]^`%", last_seen.path);
  CHECK_TEXT("\\", last_seen.query);
}

CHECK_CASE(methods_are_those_of_http1) {
  CHECK_INT(AB_OK, verdict(PAIRS(FROM("VERSION-CONTROL", "/"), ":authority", "a.test")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, verdict(PAIRS(FROM("TRACE", "/"), ":authority", "a.test")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, verdict(PAIRS(FROM("get", "/"), ":authority", "a.test")));
  CHECK_INT(AB_HTTP_METHOD_TOO_LONG,
            verdict(PAIRS(FROM("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "/"), ":authority", "a.test")));
  CHECK_INT(1, verdict(PAIRS(FROM("G T", "/"), ":authority", "a.test")));
}

CHECK_CASE(methods_of_ones_own_count) {
  const ab_view names[] = {{"BREW", 4}};
  const ab_methods methods = {.names = names, .count = 1};
  for (int i = 0; i < 2; i++) {
    server s;
    peer p;
    CHECK(server_init(&s, NULL, 0));
    s.h2->methods = &methods;
    peer_init(&p);
    peer_request(&p, PAIRS(PAIRS_OF(i ? "BREW" : "GET", "/")), false);
    play(&s, &p);
    CHECK_INT(i ? AB_OK : AB_HTTP_METHOD_UNKNOWN, server_last(&s)->error);
    end(&s, &p);
  }
}

CHECK_CASE(a_tunnel_needs_a_protocol) {
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN,
            verdict(PAIRS(":method", "CONNECT", ":authority", "a.test:443")));
  see(PAIRS(":method", "CONNECT", ":scheme", "https", ":path", "/chat?x", ":authority", "a.test",
            ":protocol", "websocket"),
      true);
  CHECK(last_seen.has_protocol);
  CHECK_TEXT("websocket", last_seen.protocol);
  CHECK_TEXT("CONNECT", last_seen.method);
  CHECK_TEXT("/chat", last_seen.path);
  CHECK_INT(1, verdict(PAIRS(FROM("GET", "/"), ":authority", "a.test", ":protocol", "websocket")));
}

CHECK_CASE(other_expectations_fail) {
  CHECK_INT(AB_HTTP_EXPECTATION_UNKNOWN,
            verdict(PAIRS(FROM("GET", "/"), ":authority", "a.test", "expect", "luck")));
}

CHECK_CASE(crumbs_are_joined_in_their_order) {
  server s;
  peer p;
  ask(&s, &p,
      PAIRS(PAIRS_OF("GET", "/"), "x", "0", "cookie", "a=1", "y", "1", "cookie", "", "cookie",
            "b=2", "z", "2"));
  CHECK_TEXT("x=0;cookie=a=1; ; b=2;y=1;z=2;", server_last(&s)->fields);
  end(&s, &p);
  ask(&s, &p, PAIRS(PAIRS_OF("GET", "/"), "cookie", "", "cookie", "a=1"));
  CHECK_TEXT("cookie=; a=1;", server_last(&s)->fields);
  end(&s, &p);
}

CHECK_CASE(what_is_malformed_is_reset) {
  static const char *const bad[][2] = {{"connection", "close"},
                                       {"keep-alive", "1"},
                                       {"proxy-connection", ""},
                                       {"upgrade", "x"},
                                       {"transfer-encoding", "chunked"},
                                       {"te", "gzip"},
                                       {"x", "a\nb"},
                                       {"x", "a\x01"},
                                       {"x y", "1"},
                                       {"x", " a"},
                                       {"x", "a "},
                                       {":status", "200"},
                                       {":other", "1"},
                                       {":path", "/b"},
                                       {"content-length", "x"},
                                       {"content-length", "1,1"},
                                       {"content-length", ""},
                                       {"content-length", "1"},
                                       {"content-length", "99999999999999999999"}};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    int error = verdict(PAIRS(PAIRS_OF("GET", "/"), bad[i][0], bad[i][1]));
    CHECK_INT(1, error);
    if (error != 1) fprintf(stderr, "  %s: %s\n", bad[i][0], bad[i][1]);
  }
  CHECK_INT(1, verdict(PAIRS(":method", "GET", ":path", "/", ":authority", "a.test")));
  CHECK_INT(1, verdict(PAIRS(":method", "GET", ":scheme", "https", ":authority", "a.test")));
  CHECK_INT(1, verdict(PAIRS(FROM("GET", ""), ":authority", "a.test")));
  CHECK_INT(1, verdict(PAIRS(FROM("GET", "/")))); /* neither authority nor host */
  CHECK_INT(1, verdict(PAIRS(FROM("GET", "/"), "host", "a.test", "host", "a.test")));
  CHECK_INT(1, verdict(PAIRS("x", "1", PAIRS_OF("GET", "/"))));
}

CHECK_CASE(a_body_may_not_be_longer_than_anything) {
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  peer_init(&p);
  p.upload = "x";
  peer_request(&p, PAIRS(PAIRS_OF("POST", "/"), "content-length", "1152921504606846976"), true);
  play(&s, &p);
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, server_last(&s)->error);
  end(&s, &p);
}

CHECK_CASE(a_length_is_a_promise) {
  static const char *const lengths[] = {"3", "5"};
  for (size_t i = 0; i < AB_ARRAY_LEN(lengths); i++) {
    server s;
    peer p;
    CHECK(server_init(&s, NULL, 0));
    peer_init(&p);
    p.upload = "body";
    peer_request(&p, PAIRS(PAIRS_OF("POST", "/"), "content-length", lengths[i]), true);
    s.on_request = look;
    play(&s, &p);
    CHECK_INT(AB_H2_PROTOCOL_ERROR, p.streams[1].code);
    CHECK_BYTES("R1 c1", s.events, s.events_len);
    end(&s, &p);
  }
}

CHECK_CASE(bodies_of_refused_requests_are_dropped) {
  server s;
  peer p;
  CHECK(server_init(&s, NULL, 0));
  peer_init(&p);
  p.upload = "body";
  peer_request(&p, PAIRS(PAIRS_OF("TRACE", "/")), true);
  /* All of it is there before the answer is sent. */
  peer_to_server(&p, &s, 0);
  CHECK_BYTES("E1", s.events, s.events_len);
  play(&s, &p);
  CHECK_BYTES("E1 c1", s.events, s.events_len);
  CHECK_BYTES(":status=501;|", p.streams[1].heads, p.streams[1].heads_len);
  CHECK(p.streams[1].ended);
  end(&s, &p);
}

CHECK_MAIN()
