/* Who the client is behind trusted proxies: a table of fields, and what of them is believed. */
#include "check.h"

#include "http/forwarded.h"
#include "http1/head.h"

#define FIELDS 64

typedef struct heading {
  ab_head parsed;
  ab_field fields[FIELDS];
  ab_limits limits;
} heading;

static void parse_head(heading *self, const char *lines) {
  static char bytes[65536];
  self->limits = ab_limits_default();
  self->limits.max_header_count = FIELDS;
  self->limits.max_header_line = sizeof bytes;
  int len = snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\nHost: a.test\r\n%s\r\n", lines);
  ab_head_progress progress = {0};
  CHECK_INT(len, ab_head_parse(bytes, (size_t)len, &self->limits, NULL, &progress, &self->parsed,
                               self->fields));
}

static ab_addr address(const char *text) {
  ab_addr addr = {0};
  if (*text) CHECK(ab_addr_parse(text, strlen(text), &addr));
  addr.port = 4711;
  return addr;
}

static ab_forwarded resolve(const char *peer_text, const char *lines, bool rfc7239,
                            const char *field) {
  static const char *const trusted[] = {"10.0.0.0/8", "127.0.0.1", "2001:db8:aa::/48"};
  ab_net nets[AB_ARRAY_LEN(trusted)];
  for (size_t i = 0; i < AB_ARRAY_LEN(trusted); i++) {
    CHECK(ab_net_parse(trusted[i], strlen(trusted[i]), &nets[i]));
  }
  heading head;
  parse_head(&head, lines);
  ab_forwarding forwarding = {.trusted = nets,
                              .trusted_count = AB_ARRAY_LEN(nets),
                              .client_field = {field, strlen(field)},
                              .rfc7239 = rfc7239};
  ab_addr peer = address(peer_text);
  return ab_forwarded_resolve(&forwarding, &peer, &head.parsed.request);
}

enum { NONE = AB_SCHEME_UNSAID, HTTP = AB_SCHEME_HTTP, HTTPS = AB_SCHEME_HTTPS };

typedef struct expectation {
  const char *lines, *client;
  int scheme;
} expectation;

static void check_table(const expectation *table, size_t count, bool rfc7239, const char *field) {
  for (size_t i = 0; i < count; i++) {
    ab_forwarded got = resolve("10.0.0.1", table[i].lines, rfc7239, field);
    char text[AB_ADDR_TEXT_MAX];
    int before = check_failures;
    CHECK_BYTES(table[i].client, text, ab_addr_text(&got.client, text));
    CHECK_INT(table[i].scheme, got.scheme);
    if (check_failures != before) fprintf(stderr, "  in row %zu: %.200s\n", i, table[i].lines);
  }
}

#define XFF   "X-Forwarded-For: "
#define PROTO "X-Forwarded-Proto: "
#define END   "\r\n"

CHECK_CASE(x_forwarded_for) {
  static const expectation table[] = {
      {"", "10.0.0.1", NONE},
      {XFF END, "10.0.0.1", NONE},
      {XFF " , ,, " END, "10.0.0.1", NONE},
      {XFF "192.0.2.1" END, "192.0.2.1", NONE},
      {"x-FORWARDED-for:192.0.2.1" END, "192.0.2.1", NONE},
      /* The rightmost one that is not trusted: what is left of it may be made up. */
      {XFF "6.6.6.6, 192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "6.6.6.6,192.0.2.1,10.1.1.1, 10.2.2.2" END, "192.0.2.1", NONE},
      {XFF "10.9.9.9, 192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "127.0.0.1, 192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "10.3.3.3, 10.2.2.2" END, "10.3.3.3", NONE},
      {XFF "6.6.6.6\t,\t192.0.2.1 ,, " END, "192.0.2.1", NONE},
      /* Lines are one list. */
      {XFF "6.6.6.6" END XFF "192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "192.0.2.1" END "A: b" END XFF "10.1.1.1, 10.2.2.2" END, "192.0.2.1", NONE},
      {XFF "192.0.2.1" END XFF END, "192.0.2.1", NONE},
      /* IPv6, brackets, ports. */
      {XFF "2001:db8::1" END, "2001:db8::1", NONE},
      {XFF "[2001:db8::1]" END, "2001:db8::1", NONE},
      {XFF "[2001:db8::1]:443" END, "2001:db8::1", NONE},
      {XFF "192.0.2.1:443" END, "192.0.2.1", NONE},
      {XFF "6.6.6.6, 2001:db8:aa::5" END, "6.6.6.6", NONE},
      {XFF "6.6.6.6, ::ffff:10.1.1.1" END, "6.6.6.6", NONE},
      /* What is no address ends the way at the proxy that wrote it. */
      {XFF "unknown" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1, unknown" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1, garbage, 10.2.2.2" END, "10.2.2.2", NONE},
      {XFF "_hidden, 192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "192.0.2.256" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1:99x" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1:" END, "10.0.0.1", NONE},
      {XFF "[192.0.2.1]" END, "10.0.0.1", NONE},
      {XFF "[::1" END, "10.0.0.1", NONE},
      {XFF "[::1]443" END, "10.0.0.1", NONE},
      {XFF "[]" END, "10.0.0.1", NONE},
      {XFF "fe80::1%eth0" END, "10.0.0.1", NONE},
      {XFF "\"192.0.2.1\"" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1 192.0.2.2" END, "10.0.0.1", NONE},
      {XFF "0x7f.1" END, "10.0.0.1", NONE},
      {XFF "\xff\xfe" END, "10.0.0.1", NONE},
      /* Other names. */
      {"X_Forwarded_For: 6.6.6.6" END, "10.0.0.1", NONE},
      {"X_Forwarded-For: 6.6.6.6" END XFF "192.0.2.1" END, "192.0.2.1", NONE},
      {XFF "192.0.2.1" END "X_Forwarded_For: 6.6.6.6" END, "192.0.2.1", NONE},
      {"X-Forwarded-Fo: 6.6.6.6" END "X-Forwarded-For2: 6.6.6.6" END, "10.0.0.1", NONE},
      {"Forwarded: for=6.6.6.6;proto=https" END, "10.0.0.1", NONE},
      {"X-Real-IP: 6.6.6.6" END, "10.0.0.1", NONE},
  };
  check_table(table, AB_ARRAY_LEN(table), false, "");
}

CHECK_CASE(x_forwarded_proto) {
  static const expectation table[] = {
      {PROTO "https" END, "10.0.0.1", HTTPS},
      {PROTO "HTTPS" END, "10.0.0.1", HTTPS},
      {PROTO "http" END, "10.0.0.1", HTTP},
      {PROTO "wss" END, "10.0.0.1", HTTPS},
      {PROTO "ws" END, "10.0.0.1", HTTP},
      {PROTO END, "10.0.0.1", NONE},
      {PROTO "httpsx" END, "10.0.0.1", NONE},
      {PROTO "https evil" END, "10.0.0.1", NONE},
      {PROTO "\"https\"" END, "10.0.0.1", NONE},
      {"X_Forwarded_Proto: https" END, "10.0.0.1", NONE},
      {XFF "192.0.2.1" END PROTO "https" END, "192.0.2.1", HTTPS},
      /* The client has sent the left one. */
      {XFF "192.0.2.1" END PROTO "https, http" END, "192.0.2.1", HTTP},
      {XFF "192.0.2.1" END PROTO "https" END PROTO "http" END, "192.0.2.1", HTTP},
      {XFF "6.6.6.6, 192.0.2.1" END PROTO "https, http" END, "192.0.2.1", HTTP},
      {PROTO "https, http" END, "10.0.0.1", HTTP},
      /* The first of two proxies has noted how the client came. */
      {XFF "192.0.2.1, 10.2.2.2" END PROTO "https, http" END, "192.0.2.1", HTTPS},
      {XFF "192.0.2.1, 10.2.2.2" END PROTO "http, https, http" END, "192.0.2.1", HTTPS},
      {XFF "192.0.2.1, 10.2.2.2" END PROTO "https" END, "192.0.2.1", HTTPS},
      {XFF "192.0.2.1, 10.3.3.3, 10.2.2.2" END PROTO "https, http" END, "192.0.2.1", NONE},
      {XFF "10.3.3.3, 10.2.2.2" END PROTO "https, http" END, "10.3.3.3", HTTPS},
      {XFF "unknown" END PROTO "https" END, "10.0.0.1", HTTPS},
  };
  check_table(table, AB_ARRAY_LEN(table), false, "");
}

#define FWD "Forwarded: "

CHECK_CASE(forwarded) {
  static const expectation table[] = {
      {FWD "for=192.0.2.1" END, "192.0.2.1", NONE},
      {FWD "For=192.0.2.1;Proto=https;By=203.0.113.43;Host=a.test" END, "192.0.2.1", HTTPS},
      {FWD "proto=http;for=192.0.2.1" END, "192.0.2.1", HTTP},
      {FWD "for=\"192.0.2.1\";proto=\"https\"" END, "192.0.2.1", HTTPS},
      {FWD "for=\"192.0.2.1:47011\"" END, "192.0.2.1", NONE},
      {FWD "for=192.0.2.1:47011" END, "192.0.2.1", NONE},
      {FWD "for=\"192.0.2.1:_port.A-9\"" END, "192.0.2.1", NONE},
      {FWD "for=\"[2001:db8::1]\"" END, "2001:db8::1", NONE},
      {FWD "for=\"[2001:db8::1]:80\"" END, "2001:db8::1", NONE},
      {FWD "for=\"[2001:db8::1]:_p\"" END, "2001:db8::1", NONE},
      {FWD "for=192.0.2.1; proto=https ;by=x" END, "192.0.2.1", HTTPS},
      {FWD ";;for=192.0.2.1;" END, "192.0.2.1", NONE},
      {FWD "for=192.0.2.1;x=\"a,b;c\\\"d\\\\\"" END, "192.0.2.1", NONE},
      {FWD "for=6.6.6.6;proto=https, for=192.0.2.1;proto=http" END, "192.0.2.1", HTTP},
      {FWD "for=192.0.2.1;proto=https, for=10.2.2.2;proto=http" END, "192.0.2.1", HTTPS},
      {FWD "for=192.0.2.1, for=10.2.2.2;proto=https" END, "192.0.2.1", NONE},
      {FWD "for=6.6.6.6" END FWD "for=192.0.2.1" END, "192.0.2.1", NONE},
      {FWD "for=192.0.2.1" END FWD "for=\"[2001:db8:aa::1]\",for=10.1.1.1" END, "192.0.2.1", NONE},
      /* Who hides is not found, but how it came is said. */
      {FWD "for=unknown;proto=https" END, "10.0.0.1", HTTPS},
      {FWD "for=_hidden" END, "10.0.0.1", NONE},
      {FWD "proto=https" END, "10.0.0.1", HTTPS},
      {FWD "for=6.6.6.6, for=_SEVKISEK, for=10.1.1.1" END, "10.1.1.1", NONE},
      /* Malformed elements end the way. */
      {FWD "for=6.6.6.6, for" END, "10.0.0.1", NONE},
      {FWD "for=6.6.6.6, =1" END, "10.0.0.1", NONE},
      {FWD "for=" END, "10.0.0.1", NONE},
      {FWD "for = 192.0.2.1" END, "10.0.0.1", NONE},
      {FWD "for=192.0.2.1;for=192.0.2.2" END, "10.0.0.1", NONE},
      {FWD "for=192.0.2.1;proto=http;proto=https" END, "10.0.0.1", NONE},
      {FWD "for=192.0.2.1 proto=https" END, "10.0.0.1", NONE},
      {FWD "for=\"192.0.2.1" END, "10.0.0.1", NONE},
      {FWD "for=\"192.0.2.1\\\"" END, "10.0.0.1", NONE},
      {FWD "for=\"192.0.2.1\\" END, "10.0.0.1", NONE},
      {FWD "for=\"192.0.2.1\"x" END, "10.0.0.1", NONE},
      {FWD "for=\"\"" END, "10.0.0.1", NONE},
      {FWD "for=192.0.2\\.1" END, "10.0.0.1", NONE},
      {FWD "for=192.0.2.1;proto=https;garbage, for=10.2.2.2;proto=http" END, "10.2.2.2", NONE},
      /* A client's garbage does not hide what the proxy has added. */
      {FWD "for=\"6.6.6.6, for=192.0.2.1" END, "192.0.2.1", NONE},
      {FWD "for=\"6.6.6.6\\, for=192.0.2.1" END, "192.0.2.1", NONE},
      {FWD "\"\"\", for=\"192.0.2.1\"" END, "192.0.2.1", NONE},
      {FWD "\\, for=\"192.0.2.1\"" END, "192.0.2.1", NONE},
      {FWD "for=\"6.6.6.6" END FWD "for=\"192.0.2.1\"" END, "192.0.2.1", NONE},
      /* The other fields are not looked at. */
      {XFF "6.6.6.6" END PROTO "https" END, "10.0.0.1", NONE},
      {"F_orwarded: for=6.6.6.6" END, "10.0.0.1", NONE},
  };
  check_table(table, AB_ARRAY_LEN(table), true, "");
}

CHECK_CASE(a_field_of_its_own) {
  static const expectation table[] = {
      {"X-Real-IP: 192.0.2.1" END, "192.0.2.1", NONE},
      {"x-real-ip: 192.0.2.1, 6.6.6.6" END, "192.0.2.1", NONE},
      {"X-Real-IP: 192.0.2.1 6.6.6.6" END, "192.0.2.1", NONE},
      {"X-Real-IP: [2001:db8::1]:80" END, "2001:db8::1", NONE},
      {"X-Real-IP: 192.0.2.1" END "X-Real-IP: 6.6.6.6" END, "192.0.2.1", NONE},
      {"X-Real-IP: garbage" END, "10.0.0.1", NONE},
      {"X-Real-IP:" END, "10.0.0.1", NONE},
      {"X_Real_IP: 6.6.6.6" END, "10.0.0.1", NONE},
      {XFF "6.6.6.6" END, "10.0.0.1", NONE},
      {"X-Real-IP: 192.0.2.1" END PROTO "http, https" END, "192.0.2.1", HTTPS},
      {"X-Real-IP: 192.0.2.1" END XFF "6.6.6.6, 10.1.1.1" END PROTO "http, https" END, "192.0.2.1",
       HTTPS},
  };
  check_table(table, AB_ARRAY_LEN(table), false, "x-real-ip");
  static const expectation rfc7239[] = {
      {"X-Real-IP: 192.0.2.1" END FWD "for=6.6.6.6;proto=http,for=10.1.1.1;proto=https" END,
       "192.0.2.1", HTTPS},
  };
  check_table(rfc7239, 1, true, "x-real-ip");
}

CHECK_CASE(strangers_are_not_believed) {
  static const char lines[] = XFF "6.6.6.6" END PROTO "https" END FWD "for=6.6.6.6;proto=https" END
                                  "X-Real-IP: 6.6.6.6" END;
  static const char *const peers[] = {"192.0.2.9", "11.0.0.1", "127.0.0.2", "::1",
                                      "2001:db8:ab::1"};
  for (size_t i = 0; i < AB_ARRAY_LEN(peers); i++) {
    for (int way = 0; way < 4; way++) {
      ab_forwarded got = resolve(peers[i], lines, way & 1, way & 2 ? "x-real-ip" : "");
      char text[AB_ADDR_TEXT_MAX];
      CHECK_BYTES(peers[i], text, ab_addr_text(&got.client, text));
      CHECK_INT(4711, got.client.port);
      CHECK_INT(NONE, got.scheme);
    }
  }
}

/* Puma's set_remote_address without a list of proxies: the address, and nothing else. */
CHECK_CASE(a_field_that_everybody_may_send) {
  heading head;
  parse_head(&head, "X-Real-IP: 192.0.2.1" END PROTO "https" END);
  ab_forwarding forwarding = {.client_field = {"x-real-ip", 9}};
  ab_addr peer = address("10.0.0.1");
  ab_forwarded got = ab_forwarded_resolve(&forwarding, &peer, &head.parsed.request);
  char text[AB_ADDR_TEXT_MAX];
  CHECK_BYTES("192.0.2.1", text, ab_addr_text(&got.client, text));
  CHECK_INT(NONE, got.scheme);
}

CHECK_CASE(a_unix_socket_is_this_machine) {
  ab_forwarded got = resolve("", XFF "192.0.2.1" END PROTO "https" END, false, "");
  char text[AB_ADDR_TEXT_MAX];
  CHECK_BYTES("192.0.2.1", text, ab_addr_text(&got.client, text));
  CHECK_INT(HTTPS, got.scheme);
  got = resolve("", "", false, "");
  CHECK_INT(0, got.client.family);
}

/* The hops from the client on: 192.0.2.1, and `proxies` trusted ones. */
static void check_long_list(unsigned proxies, bool rfc7239, const char *client) {
  static char lines[60000];
  const char *before = rfc7239 ? "for=" : "";
  int len = snprintf(lines, sizeof lines, "%s%s192.0.2.1", rfc7239 ? FWD : XFF, before);
  for (unsigned i = 0; i < proxies; i++) {
    len += snprintf(lines + len, sizeof(lines) - (size_t)len, ",%s10.1.%u.%u", before, i / 256,
                    i % 256);
  }
  snprintf(lines + len, sizeof(lines) - (size_t)len, "\r\n");
  ab_forwarded got = resolve("10.0.0.1", lines, rfc7239, "");
  char text[AB_ADDR_TEXT_MAX];
  CHECK_BYTES(client, text, ab_addr_text(&got.client, text));
}

CHECK_CASE(long_lists_are_not_followed_for_ever) {
  for (int rfc7239 = 0; rfc7239 < 2; rfc7239++) {
    check_long_list(AB_FORWARDED_HOPS - 1, rfc7239, "192.0.2.1");
    check_long_list(AB_FORWARDED_HOPS, rfc7239, "10.1.0.0");
    check_long_list(3000, rfc7239, "10.1.11.152"); /* the 32nd of them from the right */
  }
}

CHECK_MAIN()
