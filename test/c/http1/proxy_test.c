/* The PROXY protocol's header: what is read from good ones, what is refused, and that neither
 * depends on how the bytes arrive. */
#include "check.h"

#include "http1/proxy.h"

#define ANY (AB_PROXY_V1 | AB_PROXY_V2)
#define SIG "\r\n\r\n\0\r\nQUIT\n"
#define MAX 600

typedef struct bytes {
  const char *ptr;
  size_t len;
} bytes;
#define BYTES(text)                                                                                \
  { text, sizeof(text) - 1 }

/* Parses bytes that arrive one by one, each time from memory that ends where they do. Returns the
 * first verdict that is not AB_AGAIN, or AB_AGAIN. */
static int parse_slowly(bytes input, unsigned accept, uint64_t max, ab_addr *source, size_t *at) {
  for (size_t len = 1; len <= input.len; len++) {
    char *copy = malloc(len);
    memcpy(copy, input.ptr, len);
    int verdict = ab_proxy_parse(copy, len, accept, max, source);
    free(copy);
    *at = len;
    if (verdict != AB_AGAIN) return verdict;
  }
  return AB_AGAIN;
}

static const ab_addr untouched = {.bytes = {9, 9, 9, 9}, .port = 9, .family = 4};

static bool same(const ab_addr *a, const ab_addr *b) {
  return a->family == b->family && a->port == b->port && memcmp(a->bytes, b->bytes, 16) == 0;
}

/* The verdict on the bytes at once, which has to be the same in pieces of one byte. */
static int parse(bytes input, unsigned accept, uint64_t max, ab_addr *source) {
  ab_addr slow = untouched;
  size_t at = 0;
  *source = untouched;
  int verdict = ab_proxy_parse(input.ptr, input.len, accept, max, source);
  CHECK_INT(verdict, parse_slowly(input, accept, max, &slow, &at));
  CHECK(same(&slow, source));
  if (verdict > 0) CHECK_INT(verdict, at); /* complete with its last byte, not before */
  return verdict;
}

static void check_source(bytes input, int size, const char *text, int port) {
  ab_addr source;
  char got[AB_ADDR_TEXT_MAX];
  CHECK_INT(size, parse(input, ANY, MAX, &source));
  CHECK_BYTES(text, got, ab_addr_text(&source, got));
  CHECK_INT(port, source.port);
}

CHECK_CASE(version_1_names_the_source) {
  static const struct {
    bytes input;
    const char *text;
    int port;
  } table[] = {
      {BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), "1.2.3.4", 1},
      {BYTES("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255",
       65535},
      {BYTES("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n"), "0.0.0.0", 0},
      {BYTES("PROXY TCP6 2001:db8::1 ::1 56324 443\r\n"), "2001:db8::1", 56324},
      {BYTES("PROXY TCP6 2001:DB8::a ::1 1 443\r\n"), "2001:db8::a", 1},
      {BYTES("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
             "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
       "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    check_source(table[i].input, (int)table[i].input.len, table[i].text, table[i].port);
  }
}

CHECK_CASE(unknown_keeps_the_address) {
  static const bytes table[] = {
      BYTES("PROXY UNKNOWN\r\n"),
      BYTES("PROXY UNKNOWN \r\n"),
      BYTES("PROXY UNKNOWN 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    check_source(table[i], (int)table[i].len, "9.9.9.9", 9);
  }
  CHECK_INT(AB_PROXY_V1_MAX, table[3].len);
}

CHECK_CASE(what_follows_is_left_alone) {
  check_source((bytes)BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n"), 32, "1.2.3.4",
               1);
  check_source((bytes)BYTES(SIG "\x20\x00\x00\x00"
                                "PROXY TCP4"),
               16, "9.9.9.9", 9);
}

CHECK_CASE(version_1_is_strict) {
  static const bytes table[] = {
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r "),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n"),
      BYTES("PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY\tTCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4\t1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8\r\n"),
      BYTES("PROXY TCP4\r\n"),
      BYTES("PROXY \r\n"),
      BYTES("PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY UNKNOWNS\r\n"),
      BYTES("PROXY TCP4 ::1 ::1 1 2\r\n"),
      BYTES("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 ::1 1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP4 a.test 5.6.7.8 1 2\r\n"),
      BYTES("PROXY TCP6 [::1] ::1 1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 100000 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 00 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 0x1 2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4 5.6.7.8  2\r\n"),
      BYTES("PROXY TCP4 1.2.3.4\0 5.6.7.8 1 2\r\n"),
      BYTES("PROXY UNKNOWN \x01\r\n"),
      BYTES("PROXY UNKNOWN \x7f\r\n"),
      BYTES("GET / HTTP/1.1\r\n"),
      BYTES("POST / HTTP/1.1\r\n"),
      BYTES("PROX"
            "\r\n"),
      BYTES("\nPROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    ab_addr source;
    int before = check_failures;
    CHECK_INT(AB_HTTP_PROXY_SYNTAX, parse(table[i], ANY, MAX, &source));
    CHECK(same(&untouched, &source));
    if (check_failures != before) fprintf(stderr, "  %.*s\n", (int)table[i].len, table[i].ptr);
  }
}

CHECK_CASE(version_1_has_an_end) {
  char line[200];
  memset(line, 'x', sizeof line);
  memcpy(line, "PROXY UNKNOWN ", 14);
  ab_addr source;
  size_t at;
  CHECK_INT(AB_AGAIN, parse((bytes){line, AB_PROXY_V1_MAX - 1}, ANY, MAX, &source));
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG, parse((bytes){line, sizeof line}, ANY, MAX, &source));
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG,
            parse_slowly((bytes){line, sizeof line}, ANY, MAX, &source, &at));
  CHECK_INT(AB_PROXY_V1_MAX, at);
  memcpy(line + AB_PROXY_V1_MAX - 2, "\r\n", 2);
  CHECK_INT(AB_PROXY_V1_MAX, parse((bytes){line, sizeof line}, ANY, MAX, &source));
  memcpy(line + AB_PROXY_V1_MAX - 2, "x\r\n", 3);
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG, parse((bytes){line, sizeof line}, ANY, MAX, &source));
}

#define V4 "\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbb"
#define V6                                                                                         \
  "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"                                                     \
  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02"                                                             \
  "\xff\xff\x01\xbb"

CHECK_CASE(version_2_names_the_source) {
  check_source((bytes)BYTES(SIG "\x21\x11\x00\x0c" V4), 28, "1.2.3.4", 80);
  check_source((bytes)BYTES(SIG "\x21\x21\x00\x24" V6), 52, "2001:db8::1", 65535);
  /* With TLVs behind the addresses. */
  check_source((bytes)BYTES(SIG "\x21\x11\x00\x13" V4 "\x03\x00\x04"
                                "abcd"),
               35, "1.2.3.4", 80);
}

CHECK_CASE(version_2_without_an_ip_address_keeps_the_socket_s) {
  char unix_header[16 + 216] = SIG "\x21\x31\x00\xd8";
  memcpy(unix_header + 16, "/run/a.sock", 11);
  check_source((bytes){unix_header, sizeof unix_header}, 232, "9.9.9.9", 9);
  static const bytes table[] = {
      BYTES(SIG "\x21\x00\x00\x00"),         BYTES(SIG "\x21\x00\x00\x03\x04\x00\x00"),
      BYTES(SIG "\x20\x00\x00\x00"),         BYTES(SIG "\x20\x11\x00\x0c" V4),
      BYTES(SIG "\x20\xff\x00\x02\x04\x00"), BYTES(SIG "\x20\x21\x00\x00"),
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    check_source(table[i], (int)table[i].len, "9.9.9.9", 9);
  }
}

CHECK_CASE(version_2_is_strict) {
  static const bytes table[] = {
      BYTES(SIG "\x11\x11\x00\x0c" V4), /* version 1 */
      BYTES(SIG "\x31\x11\x00\x0c" V4), /* version 3 */
      BYTES(SIG "\x22\x11\x00\x0c" V4), /* no command */
      BYTES(SIG "\x21\x10\x00\x0c" V4), /* no transport */
      BYTES(SIG "\x21\x12\x00\x0c" V4), /* datagrams */
      BYTES(SIG "\x21\x22\x00\x24" V6),
      BYTES(SIG "\x21\x32\x00\xd8"),
      BYTES(SIG "\x21\x41\x00\x0c" V4), /* no family */
      BYTES(SIG "\x21\x01\x00\x00"),
      BYTES(SIG "\x21\x11\x00\x0b" V4), /* shorter than its addresses */
      BYTES(SIG "\x21\x11\x00\x00"),
      BYTES(SIG "\x21\x21\x00\x23" V6),
      BYTES(SIG "\x21\x31\x00\xd7"),
      BYTES("\r\n\r\n\0\r\nQUIT\r"),
      BYTES("\r\n\r\nGET / HTTP/1.1\r\n"),
      BYTES("\r\n\r\n\0\r\nQUIT\n\0"),
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    ab_addr source;
    CHECK_INT(AB_HTTP_PROXY_SYNTAX, parse(table[i], ANY, MAX, &source));
    CHECK(same(&untouched, &source));
  }
}

CHECK_CASE(version_2_has_an_end) {
  char header[16 + 0x10000] = SIG "\x21\x11\x00\x20" V4;
  ab_addr source;
  CHECK_INT(48, parse((bytes){header, 64}, ANY, 48, &source));
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG, parse((bytes){header, 64}, ANY, 47, &source));
  /* Known from the length, before anything of it has come. */
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG, parse((bytes){header, 16}, ANY, 47, &source));
  CHECK_INT(AB_AGAIN, parse((bytes){header, 47}, ANY, 48, &source));
  memcpy(header + 14, "\xff\xff", 2);
  CHECK_INT(AB_HTTP_PROXY_TOO_LONG, parse((bytes){header, 64}, ANY, 16 + 0xfffe, &source));
  CHECK_INT(16 + 0xffff, ab_proxy_parse(header, sizeof header, ANY, UINT64_MAX, &source));
  CHECK_INT(AB_AGAIN, ab_proxy_parse(header, 16 + 0xfffe, ANY, UINT64_MAX, &source));
}

CHECK_CASE(only_the_version_that_was_asked_for) {
  bytes v1 = BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), v2 = BYTES(SIG "\x21\x11\x00\x0c" V4);
  ab_addr source;
  CHECK_INT(AB_HTTP_PROXY_SYNTAX, parse(v1, AB_PROXY_V2, MAX, &source));
  CHECK_INT(AB_HTTP_PROXY_SYNTAX, parse(v2, AB_PROXY_V1, MAX, &source));
  CHECK_INT(32, parse(v1, AB_PROXY_V1, MAX, &source));
  CHECK_INT(28, parse(v2, AB_PROXY_V2, MAX, &source));
}

CHECK_CASE(a_header_may_be_optional) {
  static const bytes without[] = {
      BYTES("GET / HTTP/1.1\r\n"), BYTES("POST / HTTP/1.1\r\n"), BYTES("PROPFIND / HTTP/1.1\r\n"),
      BYTES("PROXYING"),           BYTES("\r\nGET /"),           BYTES("\0")};
  ab_addr source;
  for (size_t i = 0; i < AB_ARRAY_LEN(without); i++) {
    CHECK_INT(0, parse(without[i], AB_PROXY_V1 | AB_PROXY_OPTIONAL, MAX, &source));
    CHECK(same(&untouched, &source));
  }
  bytes v1 = BYTES("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), bad = BYTES("PROXY x\r\n");
  CHECK_INT(32, parse(v1, AB_PROXY_V1 | AB_PROXY_OPTIONAL, MAX, &source));
  CHECK_INT(AB_HTTP_PROXY_SYNTAX, parse(bad, AB_PROXY_V1 | AB_PROXY_OPTIONAL, MAX, &source));
  CHECK_INT(AB_AGAIN, parse((bytes)BYTES("PROXY"), AB_PROXY_V1 | AB_PROXY_OPTIONAL, MAX, &source));
}

CHECK_MAIN()
