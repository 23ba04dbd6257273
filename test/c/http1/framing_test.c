/* Content-Length, Transfer-Encoding, Connection, Expect and Upgrade. */
#include "check.h"

#include "parse.h"

#define V11 "HTTP/1.1"
#define V10 "HTTP/1.0"

static const ab_framing *framing(const char *version, const char *lines) {
  int size = parse_lines(version, lines);
  CHECK(size > 0);
  return &parse_head.framing;
}

static bool upgrade(const char *version, const char *lines) {
  CHECK(parse_lines(version, lines) > 0);
  return parse_head.request.upgrade;
}

CHECK_CASE(a_length_frames_the_body) {
  const ab_framing *the = framing(V11, "Content-Length: 005\r\n");
  CHECK_INT(AB_BODY_LENGTH, the->body);
  CHECK_INT(5, the->length);
  CHECK(the->has_length);
  the = framing(V11, "Content-Length: 0\r\n");
  CHECK_INT(AB_BODY_NONE, the->body);
  CHECK(the->has_length);
  the = framing(V11, "");
  CHECK_INT(AB_BODY_NONE, the->body);
  CHECK(!the->has_length);
  the = framing(V11, "Content-Length: 1152921504606846975\r\n"); /* the ceiling */
  CHECK(the->length == AB_BODY_CEILING);
}

CHECK_CASE(other_lengths_are_refused) {
  static const char *const bad[] = {"",
                                    "-0",
                                    "+5",
                                    "0x5",
                                    "5, 5",
                                    ",5",
                                    "5,",
                                    "5 5",
                                    "\"5\"",
                                    "5e0",
                                    "1_0",
                                    "\xb2",
                                    "5.0",
                                    "five",
                                    "18446744073709551616",
                                    "18446744073709551621"};
  char line[128];
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    snprintf(line, sizeof(line), "Content-Length: %s\r\n", bad[i]);
    CHECK_INT(AB_HTTP_LENGTH_SYNTAX, parse_lines(V11, line));
  }
  const char *above = "Content-Length: 1152921504606846976\r\n";
  CHECK_INT(AB_HTTP_BODY_TOO_LARGE, parse_lines(V11, above));
  CHECK_INT(AB_HTTP_LENGTH_REPEATED,
            parse_lines(V11, "Content-Length: 5\r\nX: y\r\nContent-Length: 5\r\n"));
  CHECK_INT(AB_HTTP_LENGTH_REPEATED, parse_lines(V11, "Content-Length:\r\nContent-Length: 5\r\n"));
}

CHECK_CASE(chunked_frames_the_body) {
  const ab_framing *the = framing(V11, "Transfer-Encoding: ChunkeD \r\n");
  CHECK_INT(AB_BODY_CHUNKED, the->body);
  CHECK_INT(0, the->length);
  CHECK(!the->has_length);
}

CHECK_CASE(other_codings_are_refused) {
  static const struct {
    const char *value;
    int error;
  } bad[] = {
      {"", AB_HTTP_CODING_SYNTAX},
      {",", AB_HTTP_CODING_SYNTAX},
      {",chunked", AB_HTTP_CODING_SYNTAX},
      {"chunked,", AB_HTTP_CODING_SYNTAX},
      {"chunked;q=1", AB_HTTP_CODING_SYNTAX},
      {"chunked, chunked", AB_HTTP_CODING_SYNTAX},
      {"chunked, gzip", AB_HTTP_CODING_SYNTAX},
      {"identity, chunked", AB_HTTP_CODING_SYNTAX},
      {"cow chunked", AB_HTTP_CODING_SYNTAX},
      {"\"chunked\"", AB_HTTP_CODING_SYNTAX},
      {"\xa0"
       "chunked",
       AB_HTTP_CODING_SYNTAX},
      {"gzip,, chunked", AB_HTTP_CODING_SYNTAX},
      {"gzip", AB_HTTP_CODING_UNKNOWN},
      {"X-GZIP, chunked", AB_HTTP_CODING_UNKNOWN},
      {"deflate, compress, chunked", AB_HTTP_CODING_UNKNOWN},
      {"x-compress", AB_HTTP_CODING_UNKNOWN},
      {"identity", AB_HTTP_CODING_UNKNOWN},
      {"xchunked", AB_HTTP_CODING_UNKNOWN},
  };
  char line[128];
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    snprintf(line, sizeof(line), "Transfer-Encoding: %s\r\n", bad[i].value);
    CHECK_INT(bad[i].error, parse_lines(V11, line));
    CHECK_INT(AB_HTTP_CODING_IN_1_0, parse_lines(V10, line));
  }
}

CHECK_CASE(lines_of_codings_make_one_list) {
  const char *first = "Transfer-Encoding: chunked\r\n", *second = "Transfer-Encoding: gzip\r\n";
  char lines[128];
  snprintf(lines, sizeof(lines), "%s%s", first, second);
  CHECK_INT(AB_HTTP_CODING_SYNTAX, parse_lines(V11, lines));
  snprintf(lines, sizeof(lines), "%s%s", second, first);
  CHECK_INT(AB_HTTP_CODING_UNKNOWN, parse_lines(V11, lines));
}

CHECK_CASE(a_length_and_a_coding_exclude_each_other) {
  CHECK_INT(AB_HTTP_LENGTH_WITH_CODING,
            parse_lines(V11, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"));
  CHECK_INT(AB_HTTP_LENGTH_WITH_CODING,
            parse_lines(V11, "Transfer-Encoding: xchunked\r\nContent-Length: +5\r\n"));
}

CHECK_CASE(connections_are_kept_by_version_and_options) {
  CHECK(framing(V11, "")->keep_alive);
  CHECK(!framing(V10, "")->keep_alive);
  CHECK(framing(V10, "Connection: Keep-Alive\r\n")->keep_alive);
  CHECK(!framing(V11, "Connection: CLOSE\r\n")->keep_alive);
  CHECK(!framing(V11, "Connection: keep-alive, close\r\n")->keep_alive);
  CHECK(!framing(V11, "Connection: close\r\nX: y\r\nConnection: keep-alive\r\n")->keep_alive);
  CHECK(!framing(V10, "Connection: , keep-alive ,close,\r\n")->keep_alive);
  CHECK(framing(V11, "Connection: closed, x-close\r\n")->keep_alive);
  CHECK(!framing(V10, "Connection: keep-alived\r\n")->keep_alive);
}

CHECK_CASE(an_upgrade_needs_both_fields) {
  CHECK(upgrade(V11, "Connection: x, Upgrade\r\nUpgrade: websocket\r\n"));
  CHECK(!upgrade(V11, "Connection: upgrade\r\n"));
  CHECK(!upgrade(V11, "Upgrade: websocket\r\n"));
  CHECK(!upgrade(V10, "Connection: upgrade\r\nUpgrade: websocket\r\n"));
}

CHECK_CASE(a_continue_is_expected_with_a_body_only) {
  CHECK(framing(V11, "Expect: 100-Continue\r\nContent-Length: 5\r\n")->expect_continue);
  CHECK(framing(V11, "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n")->expect_continue);
  CHECK(!framing(V11, "Expect: 100-continue\r\n")->expect_continue);
  CHECK(!framing(V11, "Expect: 100-continue\r\nContent-Length: 0\r\n")->expect_continue);
  CHECK(!framing(V11, "Expect:\r\nContent-Length: 5\r\n")->expect_continue);
  CHECK(!framing(V10, "Expect: 100-continue\r\nContent-Length: 5\r\n")->expect_continue);
  CHECK(!framing(V10, "Expect: something\r\nContent-Length: 5\r\n")->expect_continue);
}

CHECK_CASE(other_expectations_fail) {
  CHECK_INT(AB_HTTP_EXPECTATION_UNKNOWN, parse_lines(V11, "Expect: 200-ok\r\n"));
  CHECK_INT(AB_HTTP_EXPECTATION_UNKNOWN, parse_lines(V11, "Expect: 100-continue, x\r\n"));
  CHECK_INT(AB_HTTP_EXPECTATION_UNKNOWN, parse_lines(V11, "Expect: 100-continue\r\nExpect: x\r\n"));
}

CHECK_MAIN()
