/* Request targets and authorities. */
#include "check.h"

#include "http/target.h"
#include "http1/parse.h"

static int parse_target(const char *method, const char *target) {
  char text[1024];
  snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a.test\r\n\r\n", method, target);
  return parse(text);
}

CHECK_CASE(forms_are_told_apart) {
  CHECK(parse_target("GET", "/a?") > 0);
  CHECK_INT(AB_TARGET_ORIGIN, parse_head.request.target_form);
  CHECK(parse_head.request.query.ptr != NULL);
  CHECK_INT(0, parse_head.request.query.len);
  CHECK(parse_target("GET", "//b.test/x") > 0);
  CHECK_VIEW("//b.test/x", parse_head.request.path);
  CHECK_VIEW("a.test", parse_head.request.host);
  CHECK(parse_head.request.query.ptr == NULL);
  CHECK(parse_target("OPTIONS", "*") > 0);
  CHECK_INT(AB_TARGET_ASTERISK, parse_head.request.target_form);
  CHECK_VIEW("*", parse_head.request.path);
  CHECK(parse_target("GET", "HTTPS://b.test:443/x?y") > 0);
  CHECK_INT(AB_TARGET_ABSOLUTE, parse_head.request.target_form);
  CHECK_VIEW("/x", parse_head.request.path);
  CHECK_VIEW("y", parse_head.request.query);
  CHECK_VIEW("b.test", parse_head.request.host);
  CHECK_INT(AB_HTTP_METHOD_UNKNOWN, parse_target("CONNECT", "b.test:443"));
  CHECK_INT(AB_TARGET_AUTHORITY, parse_head.request.target_form);
}

CHECK_CASE(an_absolute_target_may_lack_a_path) {
  CHECK(parse_target("GET", "http://b.test") > 0);
  CHECK_VIEW("/", parse_head.request.path);
  CHECK(parse_head.request.query.ptr == NULL);
  CHECK(parse_target("GET", "http://b.test?x=1/2?3") > 0);
  CHECK_VIEW("/", parse_head.request.path);
  CHECK_VIEW("x=1/2?3", parse_head.request.query);
}

CHECK_CASE(what_browsers_send_is_passed_on) {
  static const char *const targets[] = {"/a|b",      "/{}[]^`",       "/%",       "/%zz", "/a%00b",
                                        "/\xc0\xaf", "/?a[]=\\|{}^`", "/?%zz\xff"};
  for (size_t i = 0; i < AB_ARRAY_LEN(targets); i++) {
    CHECK(parse_target("GET", targets[i]) > 0);
    CHECK_VIEW(targets[i], parse_head.request.target);
  }
}

CHECK_CASE(other_targets_are_refused) {
  static const char *const targets[] = {
      "a",           "",           "?x",          "/#f",        "/?#f",          "/\"",
      "/<",          "/>",         "/\\",         "/?\"",       "/?<",           "/?>",
      "/a\tb",       "*x",         "http:/a",     "http:///x",  "http://u@b/",   "ftp://b/",
      "http://[::1", "http://%61", "http://b:x/", "b.test:443", "http://b:65536"};
  for (size_t i = 0; i < AB_ARRAY_LEN(targets); i++) {
    CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("GET", targets[i]));
  }
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("GET", "*"));
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("CONNECT", "/x"));
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("CONNECT", "b.test"));
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("CONNECT", "b.test:"));
  CHECK_INT(AB_HTTP_TARGET_SYNTAX, parse_target("CONNECT", "http://b.test:80/"));
}

/* In a block of exact size, so that ASan sees an over-read. */
static bool authority(const char *text, ab_authority *parsed) {
  static char *bytes;
  size_t len = strlen(text);
  free(bytes);
  bytes = malloc(len ? len : 1);
  memcpy(bytes, text, len);
  bool valid = ab_authority_parse((ab_view){bytes, len}, parsed);
  if (!valid) free(bytes), bytes = NULL;
  return valid;
}

CHECK_CASE(authorities_are_taken_apart) {
  static const struct {
    const char *text, *host, *port, *whole;
  } valid[] = {
      {"a", "a", "", "a"},
      {"a.test:80", "a.test", "80", "a.test:80"},
      {"a.test:", "a.test", "", "a.test"},
      {"a_b-c~!$&'()*+,;=", "a_b-c~!$&'()*+,;=", "", "a_b-c~!$&'()*+,;="},
      {"127.0.0.1:0", "127.0.0.1", "0", "127.0.0.1:0"},
      {"a:65535", "a", "65535", "a:65535"},
      {"[::1]:80", "[::1]", "80", "[::1]:80"},
      {"[::]", "[::]", "", "[::]"},
      {"[::1]:", "[::1]", "", "[::1]"},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(valid); i++) {
    ab_authority parsed = {0};
    bool ok = authority(valid[i].text, &parsed);
    CHECK(ok);
    if (!ok) continue;
    CHECK_VIEW(valid[i].host, parsed.host);
    CHECK_VIEW(valid[i].port, parsed.port);
    CHECK_VIEW(valid[i].whole, parsed.whole);
  }
}

CHECK_CASE(other_authorities_are_refused) {
  static const char *const bad[] = {"",         ":80",    "a b",    "a/x",     "a\\b",     "a:http",
                                    "a:8 0",    "a:-1",   "a::80",  "a:65536", "a:000080", "a%2e",
                                    "\xc3\xa9", "<a>",    "u@a",    "a?",      "a#",       "::1",
                                    "[::1",     "[::1]x", "[::1]8", "[a]:",    "]",        "[]"};
  ab_authority parsed;
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) CHECK(!authority(bad[i], &parsed));
}

CHECK_CASE(ipv6_literals_are_checked) {
  static const char *const valid[] = {"::",
                                      "::1",
                                      "1::",
                                      "1:2:3:4:5:6:7:8",
                                      "::2:3:4:5:6:7:8",
                                      "1:2:3:4:5:6:7::",
                                      "1:2::5:6:7:8",
                                      "fe80::ABCD:0001",
                                      "::1.2.3.4",
                                      "1:2:3:4:5:6:1.2.3.4",
                                      "1::6:255.255.255.255",
                                      "::ffff:0.0.0.0"};
  static const char *const bad[] = {"",
                                    ":",
                                    ":::",
                                    "1",
                                    "1:",
                                    ":1",
                                    "1:2:3:4:5:6:7",
                                    "1:2:3:4:5:6:7:8:9",
                                    "1:2:3:4:5:6:7:8::",
                                    "1::2::3",
                                    "12345::",
                                    "g::",
                                    "::1%25eth0",
                                    "::1.2.3",
                                    "::1.2.3.4.5",
                                    "::1.2.3.256",
                                    "::01.2.3.4",
                                    "1:2:3:4:5:6:7:1.2.3.4",
                                    "::1.2.3.4:5",
                                    "1.2.3.4",
                                    "1:2:3:4:5:1.2.3.4",
                                    "1:2:3:4:5:6:7:8:",
                                    "::1.",
                                    "::.1.2.3",
                                    "v1.x",
                                    "1:2:3:4:5:6::1.2.3.4"};
  ab_authority parsed;
  char text[64];
  for (size_t i = 0; i < AB_ARRAY_LEN(valid); i++) {
    snprintf(text, sizeof(text), "[%s]", valid[i]);
    CHECK(authority(text, &parsed));
  }
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    snprintf(text, sizeof(text), "[%s]", bad[i]);
    CHECK(!authority(text, &parsed));
  }
}

CHECK_CASE(a_host_has_a_length) {
  ab_authority parsed;
  char text[300] = {0};
  memset(text, 'a', AB_HOST_MAX - 1);
  CHECK(authority(text, &parsed));
  text[AB_HOST_MAX - 1] = 'a';
  CHECK(authority(text, &parsed));
  memcpy(text + AB_HOST_MAX, ":80", 3);
  CHECK(authority(text, &parsed));
  text[AB_HOST_MAX] = 'a';
  CHECK(!authority(text, &parsed));
}

CHECK_CASE(a_target_that_is_whole_has_no_authority) {
  static const struct {
    const char *method, *target, *path, *query;
  } targets[] = {
      {"GET", "/", "/", NULL},
      {"GET", "/a?b?c", "/a", "b?c"},
      {"GET", "/?", "/", ""},
      {"OPTIONS", "*", "*", NULL},
      {"GET", "*", NULL, NULL},
      {"GET", "", NULL, NULL},
      {"GET", "a", NULL, NULL},
      {"GET", "/a b", NULL, NULL},
      {"GET", "/a#b", NULL, NULL},
      {"GET", "/a\\", NULL, NULL},
      {"GET", "?", NULL, NULL},
      {"GET", "//a", "//a", NULL},
      {"OPTIONS", "*?", NULL, NULL},
      {"OPTIONS", "**", NULL, NULL},
      {"GET", "http://a.test/", NULL, NULL},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(targets); i++) {
    ab_request request = {.method = {targets[i].method, strlen(targets[i].method)}};
    ab_view target = {targets[i].target, strlen(targets[i].target)};
    int error = ab_target_take(target, &request);
    CHECK_INT(targets[i].path ? AB_OK : AB_HTTP_TARGET_SYNTAX, error);
    if (error) continue;
    CHECK_BYTES(targets[i].target, request.target.ptr, request.target.len);
    CHECK_BYTES(targets[i].path, request.path.ptr, request.path.len);
    CHECK_INT(targets[i].query == NULL, request.query.ptr == NULL);
    if (targets[i].query) CHECK_BYTES(targets[i].query, request.query.ptr, request.query.len);
    CHECK_INT(*target.ptr == '*' ? AB_TARGET_ASTERISK : AB_TARGET_ORIGIN, request.target_form);
  }
}

CHECK_MAIN()
