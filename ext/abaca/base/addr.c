/* The text forms are the C library's, which are strict: no leading zeros, octal or short forms. */
#include "base/addr.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static char *put_number(char *at, unsigned number) {
  char digits[5];
  unsigned count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) *at++ = digits[--count];
  return at;
}

/* A look has thousands of them, and the C library takes longer than the rest of a row. */
static size_t put_ipv4(char *dst, const uint8_t bytes[4]) {
  char *at = dst;
  for (unsigned i = 0; i < 4; i++) {
    if (i > 0) *at++ = '.';
    at = put_number(at, bytes[i]);
  }
  *at = '\0';
  return (size_t)(at - dst);
}

size_t ab_addr_text(const ab_addr *addr, char dst[AB_ADDR_TEXT_MAX]) {
  const char *text = NULL;
  if (addr->family == 4) return put_ipv4(dst, addr->bytes);
  if (addr->family == 6 && memcmp(addr->bytes, mapped, sizeof mapped) == 0)
    text = inet_ntop(AF_INET, addr->bytes + sizeof mapped, dst, AB_ADDR_TEXT_MAX);
  else if (addr->family == 6)
    text = inet_ntop(AF_INET6, addr->bytes, dst, AB_ADDR_TEXT_MAX);
  if (!text) dst[0] = '\0';
  return strlen(dst);
}

size_t ab_addr_place(const ab_addr *addr, char dst[AB_ADDR_PLACE_MAX]) {
  char *at = dst;
  if (addr->family == 6) *at++ = '[';
  at += ab_addr_text(addr, at);
  if (addr->family == 6) *at++ = ']';
  *at++ = ':';
  return (size_t)(put_number(at, addr->port) - dst);
}

bool ab_addr_parse(const char *ptr, size_t len, ab_addr *addr) {
  char text[AB_ADDR_TEXT_MAX];
  if (len == 0 || len >= sizeof text || memchr(ptr, '\0', len)) return false;
  memcpy(text, ptr, len);
  text[len] = '\0';
  bool v6 = memchr(ptr, ':', len) != NULL;
  ab_addr parsed = {.family = v6 ? 6 : 4};
  if (inet_pton(v6 ? AF_INET6 : AF_INET, text, parsed.bytes) != 1) return false;
  *addr = parsed;
  return true;
}

static void widen(const ab_addr *addr, uint8_t wide[16]) {
  static const uint8_t loopback[4] = {127, 0, 0, 1};
  if (addr->family == 6) {
    memcpy(wide, addr->bytes, 16);
    return;
  }
  memcpy(wide, mapped, sizeof mapped);
  memcpy(wide + sizeof mapped, addr->family == 4 ? addr->bytes : loopback, 4);
}

static bool parse_bits(const char *ptr, size_t len, unsigned most, unsigned *bits) {
  if (len == 0 || len > 3 || (*ptr == '0' && len > 1)) return false;
  *bits = 0;
  for (size_t i = 0; i < len; i++) {
    if (ptr[i] < '0' || ptr[i] > '9') return false;
    *bits = *bits * 10 + (unsigned)(ptr[i] - '0');
  }
  return *bits <= most;
}

bool ab_net_parse(const char *ptr, size_t len, ab_net *net) {
  const char *slash = len ? memchr(ptr, '/', len) : NULL;
  ab_addr addr;
  if (!ab_addr_parse(ptr, slash ? (size_t)(slash - ptr) : len, &addr)) return false;
  unsigned most = addr.family == 4 ? 32 : 128, bits = most;
  if (slash && !parse_bits(slash + 1, (size_t)(ptr + len - slash - 1), most, &bits)) return false;
  widen(&addr, net->prefix);
  net->bits = (uint8_t)(bits + (128 - most));
  return true;
}

static bool net_has(const ab_net *net, const uint8_t wide[16]) {
  unsigned whole = net->bits / 8, rest = net->bits % 8;
  if (memcmp(net->prefix, wide, whole) != 0) return false;
  return rest == 0 || (net->prefix[whole] ^ wide[whole]) >> (8 - rest) == 0;
}

bool ab_nets_include(const ab_net *nets, size_t count, const ab_addr *addr) {
  uint8_t wide[16];
  widen(addr, wide);
  for (size_t i = 0; i < count; i++) {
    if (net_has(&nets[i], wide)) return true;
  }
  return false;
}
