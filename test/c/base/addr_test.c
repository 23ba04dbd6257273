/* Addresses from and to text, and networks. */
#include "check.h"

#include "base/addr.h"

CHECK_CASE(addresses_have_a_text) {
  static const struct {
    ab_addr addr;
    const char *text;
  } table[] = {
      {{.family = 0}, ""},
      {{.family = 4, .bytes = {127, 0, 0, 1}}, "127.0.0.1"},
      {{.family = 4, .bytes = {255, 255, 255, 255}}, "255.255.255.255"},
      {{.family = 6, .bytes = {[15] = 1}}, "::1"},
      {{.family = 6, .bytes = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 9}}, "10.0.0.9"},
      {{.family = 6,
        .bytes = {0x20, 0x01, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55,
                  0x55, 0x66, 0x66}},
       "2001:db8:1111:2222:3333:4444:5555:6666"},
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    char text[AB_ADDR_TEXT_MAX];
    memset(text, '#', sizeof text);
    size_t len = ab_addr_text(&table[i].addr, text);
    CHECK_BYTES(table[i].text, text, len);
    CHECK_INT('\0', text[len]);
  }
  CHECK_INT(20, sizeof(ab_addr));
}

CHECK_CASE(addresses_have_a_place) {
  char text[AB_ADDR_PLACE_MAX];
  const ab_addr one = {.family = 4, .bytes = {10, 0, 0, 9}, .port = 5432};
  CHECK_BYTES("10.0.0.9:5432", text, ab_addr_place(&one, text));
  const ab_addr other = {.family = 6, .bytes = {[15] = 1}, .port = 0};
  CHECK_BYTES("[::1]:0", text, ab_addr_place(&other, text));
  ab_addr longest = {.family = 6, .port = UINT16_MAX};
  memset(longest.bytes, 0xab, sizeof longest.bytes);
  CHECK_BYTES("[abab:abab:abab:abab:abab:abab:abab:abab]:65535", text,
              ab_addr_place(&longest, text));
}

CHECK_CASE(addresses_are_read) {
  static const char *const good[] = {
      "0.0.0.0", "127.0.0.1",   "255.255.255.255", "::",
      "::1",     "2001:db8::1", "1:2:3:4:5:6:7:8", "abcd:ef01:2345:6789:abcd:ef01:2345:6789"};
  for (size_t i = 0; i < AB_ARRAY_LEN(good); i++) {
    ab_addr addr;
    char text[AB_ADDR_TEXT_MAX];
    CHECK(ab_addr_parse(good[i], strlen(good[i]), &addr));
    CHECK_INT(0, addr.port);
    CHECK_BYTES(good[i], text, ab_addr_text(&addr, text));
  }
  ab_addr mapped;
  char text[AB_ADDR_TEXT_MAX];
  CHECK(ab_addr_parse("::ffff:10.0.0.9", 15, &mapped));
  CHECK_INT(6, mapped.family);
  CHECK_BYTES("10.0.0.9", text, ab_addr_text(&mapped, text));
}

CHECK_CASE(what_is_no_address_is_refused) {
  static const char *const bad[] = {"",
                                    "1",
                                    "1.2.3",
                                    "1.2.3.4.5",
                                    "1.2.3.256",
                                    "01.2.3.4",
                                    "1.2.3.04",
                                    "1.2.3.4 ",
                                    " 1.2.3.4",
                                    "0x1.2.3.4",
                                    "1.2.3.-4",
                                    "1..3.4",
                                    "+1.2.3.4",
                                    "1.2.3.4:80",
                                    "[::1]",
                                    "::1%eth0",
                                    "1::2::3",
                                    ":::",
                                    "1:2:3",
                                    "12345::",
                                    "g::1",
                                    "::1.2.3",
                                    "localhost",
                                    "::ffff:1.2.3.256",
                                    "0000:0000:0000:0000:0000:0000:255.255.255.2555"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    ab_addr addr = {.family = 9};
    CHECK(!ab_addr_parse(bad[i], strlen(bad[i]), &addr));
    CHECK_INT(9, addr.family);
  }
  ab_addr addr;
  CHECK(!ab_addr_parse("1.2.3.4\0", 8, &addr));
  CHECK(!ab_addr_parse("1.2.3\0004", 7, &addr));
}

static ab_addr address(const char *text) {
  ab_addr addr = {0};
  if (*text) CHECK(ab_addr_parse(text, strlen(text), &addr));
  return addr;
}

CHECK_CASE(networks_have_their_members) {
  static const struct {
    const char *net, *in, *out;
  } table[] = {
      {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
      {"10.9.9.9/8", "10.0.0.1", "9.255.255.255"},
      {"172.16.0.0/12", "172.31.255.255", "172.32.0.0"},
      {"192.0.2.7", "192.0.2.7", "192.0.2.6"},
      {"192.0.2.6/31", "192.0.2.7", "192.0.2.8"},
      {"0.0.0.0/0", "255.1.2.3", "2001:db8::1"},
      {"2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"},
      {"fc00::/7", "fdff::1", "fe00::1"},
      {"::1", "::1", "::2"},
      {"::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"},
      {"10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"},
      {"127.0.0.0/8", "", "128.0.0.1"}, /* a unix socket */
  };
  for (size_t i = 0; i < AB_ARRAY_LEN(table); i++) {
    ab_net net;
    CHECK(ab_net_parse(table[i].net, strlen(table[i].net), &net));
    ab_addr in = address(table[i].in), out = address(table[i].out);
    CHECK(ab_nets_include(&net, 1, &in));
    CHECK(!ab_nets_include(&net, 1, &out));
  }
}

CHECK_CASE(one_of_several_networks_is_enough) {
  ab_net nets[3];
  CHECK(ab_net_parse("10.0.0.0/8", 10, &nets[0]));
  CHECK(ab_net_parse("::1", 3, &nets[1]));
  CHECK(ab_net_parse("192.0.2.1", 9, &nets[2]));
  ab_addr last = address("192.0.2.1"), unix_peer = {0};
  CHECK(ab_nets_include(nets, 3, &last));
  CHECK(!ab_nets_include(nets, 2, &last));
  CHECK(!ab_nets_include(nets, 0, &last));
  CHECK(!ab_nets_include(nets, 3, &unix_peer));
}

CHECK_CASE(what_is_no_network_is_refused) {
  static const char *const bad[] = {"",         "/8",        "10.0.0.0/",    "10.0.0.0/33",
                                    "::/129",   "10/8",      "10.0.0.0/8 ",  "10.0.0.0/08",
                                    "::/0x1",   "::/-1",     "10.0.0.0/8/8", "10.0.0.0/255.0.0.0",
                                    "example.", "[::1]/128", "1.2.3.4/1000"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    ab_net net;
    CHECK(!ab_net_parse(bad[i], strlen(bad[i]), &net));
  }
}

CHECK_MAIN()
