/* Request lines, field lines and limits. */
#include "check.h"

#include "parse.h"

#define HOST "Host: a.test\r\n"

CHECK_CASE(a_request_is_taken_apart) {
  const char *text = "GET /a/b?c=d HTTP/1.1\r\nHost: a.test:8080\r\nX-A: \t v w \t\r\nX-B:\r\n\r\n";
  CHECK_INT(strlen(text), parse(text));
  CHECK_VIEW("GET", parse_head.request.method);
  CHECK_VIEW("/a/b?c=d", parse_head.request.target);
  CHECK_VIEW("/a/b", parse_head.request.path);
  CHECK_VIEW("c=d", parse_head.request.query);
  CHECK_VIEW("a.test", parse_head.request.host);
  CHECK_VIEW("8080", parse_head.request.port);
  CHECK_VIEW("a.test:8080", parse_head.request.authority);
  CHECK_INT(3, parse_head.request.field_count);
  CHECK_BYTES("X-A", parse_fields[1].name, parse_fields[1].name_len);
  CHECK_BYTES("v w", parse_fields[1].value, parse_fields[1].value_len);
  CHECK_INT(0, parse_fields[2].value_len);
  CHECK_INT(strlen(text), parse_head.size);
  CHECK_INT(1, parse_head.request.minor);
  CHECK_INT(1u << AB_FIELD_HOST, parse_head.request.known);
  CHECK(parse_head.request.fields == parse_fields);
  CHECK(!parse_head.request.is_head);
}

CHECK_CASE(bytes_behind_the_head_are_left_alone) {
  const char *head = "GET / HTTP/1.1\r\n" HOST "\r\n";
  char text[256];
  snprintf(text, sizeof(text), "%s\x01rest", head);
  CHECK_INT(strlen(head), parse(text));
}

CHECK_CASE(known_fields_have_their_id) {
  static const struct {
    const char *name;
    uint8_t id;
  } known[] = {
      {"hOsT", AB_FIELD_HOST},
      {"CONNECTION", AB_FIELD_CONNECTION},
      {"content-type", AB_FIELD_CONTENT_TYPE},
      {"Expect", AB_FIELD_EXPECT},
      {"Upgrade", AB_FIELD_UPGRADE},
      {"cookie", AB_FIELD_COOKIE},
      {"X-Request-Start", AB_FIELD_REQUEST_START},
      {"Content-Length", AB_FIELD_CONTENT_LENGTH},
      {"Transfer-Encoding", AB_FIELD_TRANSFER_ENCODING},
      {"Content_Length", AB_FIELD_OTHER},
      {"Transfer_Encoding", AB_FIELD_OTHER},
      {"Hosts", AB_FIELD_OTHER},
      {"Hose", AB_FIELD_OTHER},
      {"Expecu", AB_FIELD_OTHER},
      {"Upgradf", AB_FIELD_OTHER},
      {"Connectioo", AB_FIELD_OTHER},
      {"Content-Typf", AB_FIELD_OTHER},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(known); i++) {
    const char *value = known[i].id == AB_FIELD_CONTENT_LENGTH      ? "0"
                        : known[i].id == AB_FIELD_TRANSFER_ENCODING ? "chunked"
                        : known[i].id == AB_FIELD_EXPECT            ? "100-continue"
                                                                    : "b.test";
    bool host = known[i].id == AB_FIELD_HOST;
    char text[256];
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s: %s\r\n%s\r\n", known[i].name, value,
             host ? "" : HOST);
    CHECK_INT(strlen(text), parse(text));
    CHECK_INT(known[i].id, parse_fields[0].id);
    CHECK_INT(known[i].id != 0, (parse_head.request.known & 1u << known[i].id) != 0);
  }
}

CHECK_CASE(registered_methods_are_known) {
  static const char *const methods[] = {"GET",
                                        "POST",
                                        "HEAD",
                                        "PUT",
                                        "DELETE",
                                        "PATCH",
                                        "OPTIONS",
                                        "QUERY",
                                        "ACL",
                                        "BASELINE-CONTROL",
                                        "PROPFIND",
                                        "UPDATEREDIRECTREF",
                                        "VERSION-CONTROL",
                                        "UNLOCK"};
  for (size_t i = 0; i < AB_ARRAY_LEN(methods); i++) {
    char text[128];
    snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n" HOST "\r\n", methods[i]);
    CHECK_INT(strlen(text), parse(text));
    CHECK_INT(strcmp(methods[i], "HEAD") == 0, parse_head.request.is_head);
  }
}

#define REQUEST(method) method " / HTTP/1.1\r\n" HOST "\r\n"

CHECK_CASE(a_set_of_methods_replaces_the_registry) {
  const ab_view names[] = {{"GET", 3}, {"BREW", 4}, {"CONNECT", 7}};
  ab_methods methods = {.names = names, .count = AB_ARRAY_LEN(names)};
  parse_methods = &methods;
  CHECK_INT(strlen(REQUEST("GET")), parse(REQUEST("GET")));
  CHECK_INT(strlen(REQUEST("BREW")), parse(REQUEST("BREW")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse(REQUEST("POST")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse(REQUEST("BREWS")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("CONNECT a.test:443 HTTP/1.1\r\n" HOST "\r\n"));
  methods = (ab_methods){.any = true};
  CHECK_INT(strlen(REQUEST("POST")), parse(REQUEST("POST")));
  CHECK_INT(strlen(REQUEST("TRACE")), parse(REQUEST("TRACE")));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("CONNECT a.test:443 HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_SYNTAX, parse(REQUEST("G(T")));
  parse_methods = NULL;
}

CHECK_CASE(other_methods_are_refused) {
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("get / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("GETS / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("TRACE / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("PRI / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse("CONNECT a.test:443 HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_SYNTAX, parse("G(T / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_SYNTAX, parse(" / HTTP/1.1\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_METHOD_SYNTAX, parse("GET\r\n"));
  CHECK_INT(AB_HTTP_LINE_END, parse("GET\n"));
  char longest[64] = {0};
  memset(longest, 'A', 32);
  CHECK_INT(AB_AGAIN, parse(longest));
  longest[32] = 'A';
  CHECK_INT(AB_HTTP_METHOD_TOO_LONG, parse(longest));
}

CHECK_CASE(syntax_errors_come_before_errors_of_meaning) {
  CHECK_INT(AB_HTTP_FIELD_NAME_SYNTAX, parse("FROB / HTTP/2.0\r\n" HOST "bad name: x\r\n\r\n"));
  CHECK_INT(AB_HTTP_VERSION_UNSUPPORTED, parse("FROB / HTTP/2.0\r\n\r\n"));
  CHECK_INT(AB_HTTP_HOST_MISSING, parse("FROB / HTTP/1.1\r\n\r\n"));
  CHECK_INT(AB_AGAIN, parse("FROB / HTTP/2.0\r\n"));
}

/* Each of these is known before its line, let alone the head, is complete. */
CHECK_CASE(errors_are_reported_at_the_first_wrong_byte) {
  static const struct {
    const char *text; /* the last byte is the wrong one */
    int error;
  } early[] = {
      {"\x80", AB_HTTP_METHOD_SYNTAX},
      {"\n", AB_HTTP_LINE_END},
      {"\rG", AB_HTTP_LINE_END},
      {"GET /\r", AB_HTTP_REQUEST_LINE_SYNTAX},
      {"GET /\n", AB_HTTP_LINE_END},
      {"GET /a\x7f", AB_HTTP_TARGET_SYNTAX},
      {"GET  ", AB_HTTP_TARGET_SYNTAX},
      {"GET a ", AB_HTTP_TARGET_SYNTAX},
      {"GET / h", AB_HTTP_VERSION_SYNTAX},
      {"GET / HTTP/1.x", AB_HTTP_VERSION_SYNTAX},
      {"GET / HTTP/1.10", AB_HTTP_VERSION_SYNTAX},
      {"GET / HTTP/1.1 ", AB_HTTP_REQUEST_LINE_SYNTAX},
      {"GET / HTTP/1.1\n", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\rX", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\r\n ", AB_HTTP_FIELD_FOLDED},
      {"GET / HTTP/1.1\r\n:", AB_HTTP_FIELD_NAME_SYNTAX},
      {"GET / HTTP/1.1\r\n\n", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\r\nX ", AB_HTTP_FIELD_NAME_SYNTAX},
      {"GET / HTTP/1.1\r\nX\n", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\r\nX: a\x01", AB_HTTP_FIELD_VALUE_SYNTAX},
      {"GET / HTTP/1.1\r\nX: a\n", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\r\nX: a\rb", AB_HTTP_LINE_END},
      {"GET / HTTP/1.1\r\nX: a\r\n\t", AB_HTTP_FIELD_FOLDED},
      {"GET / HTTP/1.1\r\nX: a\r\n\rX", AB_HTTP_LINE_END},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(early); i++) {
    size_t len = strlen(early[i].text);
    CHECK_INT(early[i].error, parse(early[i].text));
    CHECK_INT(AB_AGAIN, parse_byte_run(early[i].text, len - 1));
  }
  CHECK_INT(AB_HTTP_FIELD_VALUE_SYNTAX, parse_byte_run("GET / HTTP/1.1\r\nX: \0", 20));
}

CHECK_CASE(versions_are_read) {
  CHECK(parse("GET / HTTP/1.0\r\n\r\n") > 0);
  CHECK_INT(0, parse_head.request.minor);
  CHECK_INT(0, parse_head.request.host.len);
  CHECK(parse("GET / HTTP/1.2\r\n" HOST "\r\n") > 0);
  CHECK_INT(1, parse_head.request.minor);
  CHECK_INT(AB_HTTP_VERSION_UNSUPPORTED, parse("GET / HTTP/0.9\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_VERSION_UNSUPPORTED, parse("GET / HTTP/3.0\r\n" HOST "\r\n"));
}

CHECK_CASE(a_few_empty_lines_may_come_first) {
  const char *text = "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n";
  CHECK_INT(strlen(text), parse(text));
  CHECK_INT(strlen(text), parse_head.size);
  CHECK_INT(AB_AGAIN, parse("\r\n\r\n\r\n\r\n"));
  CHECK_INT(AB_HTTP_REQUEST_LINE_SYNTAX, parse("\r\n\r\n\r\n\r\n\r"));
  CHECK_INT(AB_AGAIN, parse(""));
}

CHECK_CASE(host_is_required_and_checked) {
  CHECK_INT(AB_HTTP_HOST_MISSING, parse("GET / HTTP/1.1\r\n\r\n"));
  CHECK_INT(AB_HTTP_HOST_MISSING, parse("GET http://a.test/ HTTP/1.1\r\n\r\n"));
  CHECK_INT(AB_HTTP_HOST_REPEATED, parse("GET / HTTP/1.1\r\n" HOST HOST "\r\n"));
  CHECK_INT(AB_HTTP_HOST_REPEATED, parse("GET / HTTP/1.0\r\nHost: b\r\nX: y\r\n" HOST "\r\n"));
  CHECK_INT(AB_HTTP_HOST_SYNTAX, parse("GET / HTTP/1.1\r\nHost:\r\n\r\n"));
  CHECK_INT(AB_HTTP_HOST_SYNTAX, parse("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"));
  CHECK_INT(AB_HTTP_HOST_SYNTAX, parse("GET http://a.test/ HTTP/1.1\r\nHost: /\r\n\r\n"));
}

CHECK_CASE(the_targets_authority_wins) {
  CHECK(parse("GET http://b.test:81/x HTTP/1.1\r\nHost: a.test:80\r\n\r\n") > 0);
  CHECK_VIEW("b.test", parse_head.request.host);
  CHECK_VIEW("81", parse_head.request.port);
  CHECK_VIEW("b.test:81", parse_head.request.authority);
}

/* limit - 1, limit and limit + 1 bytes or lines, without the CRLF. */
static int with_request_line(size_t len, uint64_t limit) {
  ab_limits limits = ab_limits_default();
  limits.max_request_line = limit;
  char text[512], path[256] = {0};
  memset(path, 'a', len - strlen("GET / HTTP/1.1"));
  int size = snprintf(text, sizeof(text), "GET /%s HTTP/1.1\r\n" HOST "\r\n", path);
  int result = parse_with(text, (size_t)size, &limits);
  return result == size ? AB_OK : result;
}

static int with_field_line(size_t len, uint64_t limit) {
  ab_limits limits = ab_limits_default();
  limits.max_header_line = limit;
  char text[512], value[256] = {0};
  memset(value, 'a', len - strlen("X: "));
  int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "X: %s\r\n\r\n", value);
  int result = parse_with(text, (size_t)size, &limits);
  return result == size ? AB_OK : result;
}

static int with_head(size_t len, uint64_t limit) {
  ab_limits limits = ab_limits_default();
  limits.max_head_size = limit;
  char text[512], value[256] = {0};
  memset(value, 'a', len - strlen("GET / HTTP/1.1\r\n" HOST "X: \r\n\r\n"));
  int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "X: %s\r\n\r\n", value);
  CHECK_INT(len, size);
  int result = parse_with(text, (size_t)size, &limits);
  return result == size ? AB_OK : result;
}

static int with_fields(int fields, uint64_t limit) {
  ab_limits limits = ab_limits_default();
  limits.max_header_count = limit;
  char text[2048];
  int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST);
  for (int i = 1; i < fields; i++) size += snprintf(text + size, sizeof(text) - size, "X: y\r\n");
  size += snprintf(text + size, sizeof(text) - size, "\r\n");
  int result = parse_with(text, (size_t)size, &limits);
  return result == size ? AB_OK : result;
}

CHECK_CASE(limits_hold_to_the_byte) {
  CHECK_INT(AB_OK, with_request_line(79, 80));
  CHECK_INT(AB_OK, with_request_line(80, 80));
  CHECK_INT(AB_HTTP_REQUEST_LINE_TOO_LONG, with_request_line(81, 80));
  CHECK_INT(AB_OK, with_field_line(79, 80));
  CHECK_INT(AB_OK, with_field_line(80, 80));
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, with_field_line(81, 80));
  CHECK_INT(AB_OK, with_head(99, 100));
  CHECK_INT(AB_OK, with_head(100, 100));
  CHECK_INT(AB_HTTP_HEAD_TOO_LONG, with_head(101, 100));
  CHECK_INT(AB_OK, with_fields(19, 20));
  CHECK_INT(AB_OK, with_fields(20, 20));
  CHECK_INT(AB_HTTP_FIELD_TOO_MANY, with_fields(21, 20));
}

/* What is over a limit is refused with the first byte that shows it, in a head that grows too. */
CHECK_CASE(limits_are_noticed_at_once) {
  ab_limits limits = ab_limits_default();
  limits.max_request_line = limits.max_header_line = 8;
  CHECK_INT(AB_AGAIN, parse_with("GET /aaaa", 9, &limits));
  CHECK_INT(AB_HTTP_REQUEST_LINE_TOO_LONG, parse_with("GET /aaaaa", 10, &limits));
  limits.max_request_line = 80;
  CHECK_INT(AB_AGAIN, parse_with("GET / HTTP/1.1\r\nX: aaaaaa", 25, &limits));
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, parse_with("GET / HTTP/1.1\r\nX: aaaaaaa", 26, &limits));
  limits.max_header_count = 2;
  CHECK_INT(AB_AGAIN, parse_with("GET / HTTP/1.1\r\na:\r\nb:\r\n", 24, &limits));
  CHECK_INT(AB_HTTP_FIELD_TOO_MANY, parse_with("GET / HTTP/1.1\r\na:\r\nb:\r\nc", 25, &limits));
}

/* A limit must not wait for the delimiter that never comes. */
CHECK_CASE(limits_need_no_line_end) {
  size_t room = 80000;
  char *text = malloc(room);
  const ab_limits limits = ab_limits_default();
  ab_head_progress progress = {0};
  memset(text, 'a', room);
  memcpy(text, "GET /", 5);
  CHECK_INT(AB_HTTP_REQUEST_LINE_TOO_LONG, parse_once(text, room, &limits, &progress));
  memcpy(text, "GET / HTTP/1.1\r\n", 16);
  progress = (ab_head_progress){0};
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, parse_once(text, room, &limits, &progress));
  memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
  progress = (ab_head_progress){0};
  CHECK_INT(AB_HTTP_FIELD_TOO_LONG, parse_once(text, room, &limits, &progress));
  free(text);
}

CHECK_CASE(a_name_too_long_for_its_member_is_refused) {
  ab_limits limits = ab_limits_default();
  limits.max_header_line = limits.max_head_size = 200000;
  size_t before = strlen("GET / HTTP/1.1\r\n" HOST), room = before + 65536 + 6;
  for (size_t name = 65535; name <= 65536; name++) {
    char *text = malloc(room);
    memset(text, 'n', room);
    memcpy(text, "GET / HTTP/1.1\r\n" HOST, before);
    memcpy(text + before + name, ":v\r\n\r\n", 6);
    ab_head_progress progress = {0};
    int result = parse_once(text, before + name + 6, &limits, &progress);
    CHECK_INT(name == 65535 ? (int)(before + name + 6) : AB_HTTP_FIELD_TOO_LONG, result);
    progress = (ab_head_progress){0};
    result = parse_once(text, before + name, &limits, &progress);
    CHECK_INT(name == 65535 ? AB_AGAIN : AB_HTTP_FIELD_TOO_LONG, result);
    free(text);
  }
}

/* The lines that have been checked are not looked at again before the head is complete: they may
 * even change without being noticed. */
CHECK_CASE(a_growing_head_is_not_checked_twice) {
  const ab_limits limits = ab_limits_default();
  ab_head_progress progress = {0};
  CHECK_INT(AB_AGAIN, parse_once("GET / HTTP/1.1\r\nX: a\r\nY: ", 25, &limits, &progress));
  CHECK_INT(22, progress.checked);
  CHECK_INT(1, progress.lines);
  CHECK_INT(AB_AGAIN,
            parse_once("\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1Y: b", 26, &limits, &progress));
}

static uint64_t seed = UINT64_C(88172645463325252);

static uint32_t next_random(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (uint32_t)(seed >> 32);
}

/* Heads with a few bytes changed: whatever the verdict, it is the same byte by byte and in
 * random segments. */
CHECK_CASE(damaged_heads_have_one_verdict) {
  static const char head[] = "\r\nPOST http://a.test:80/p?q HTTP/1.1\r\nHost: [::1]:80\r\n"
                             "Transfer-Encoding: chunked\r\nConnection: close, upgrade\r\n"
                             "Expect: 100-continue\r\nUpgrade: x\r\n\r\n";
  static const char odd[] = "\r\n \t:\0/?#\x7f\xff[]@,;\"aZ09.";
  const ab_limits limits = ab_limits_default();
  for (int round = 0; round < 3000; round++) {
    char text[sizeof(head)];
    memcpy(text, head, sizeof(head));
    for (uint32_t i = next_random() % 4; i > 0; i--) {
      text[next_random() % (sizeof(head) - 1)] = odd[next_random() % (sizeof(odd) - 1)];
    }
    int whole = parse_byte_run(text, sizeof(head) - 1), result = AB_AGAIN;
    ab_head_progress progress = {0};
    for (size_t here = 0; here < sizeof(head) - 1 && result == AB_AGAIN;) {
      here += 1 + next_random() % 40;
      if (here > sizeof(head) - 1) here = sizeof(head) - 1;
      result = parse_once(text, here, &limits, &progress);
    }
    CHECK_INT(whole, result);
  }
}

CHECK_MAIN()
