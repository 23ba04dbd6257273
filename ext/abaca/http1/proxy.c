/* Only proxies send the header, so there is one right form and no leniency: what a proxy did not
 * mean must not become an address that the application trusts. */
#include "http1/proxy.h"

#include <string.h>

#include "http/char.h"

static const char v1_start[6] = {'P', 'R', 'O', 'X', 'Y', ' '};
static const char v2_start[12] = {'\r', '\n', '\r', '\n', '\0', '\r',
                                  '\n', 'Q',  'U',  'I',  'T',  '\n'};

#define V2_HEAD 16 /* signature, version and command, family, length */

/* The word at *ptr, up to a single SP or the end; sets *ptr behind that SP, or to NULL. */
static ab_view next_word(const char **ptr, const char *end) {
  const char *start = *ptr;
  if (!start) return (ab_view){NULL, 0};
  const char *space = memchr(start, ' ', (size_t)(end - start));
  *ptr = space ? space + 1 : NULL;
  return (ab_view){start, (size_t)((space ? space : end) - start)};
}

static bool parse_address(ab_view word, uint8_t family, ab_addr *addr) {
  return ab_addr_parse(word.ptr, word.len, addr) && addr->family == family;
}

/* 0 to 65535 without leading zeros. */
static bool parse_port(ab_view word, uint16_t *port) {
  uint64_t value;
  if (!ab_parse_digits(word.ptr, word.len, &value) || value > 65535) return false;
  *port = (uint16_t)value;
  return *word.ptr != '0' || word.len == 1;
}

/* What stands between "PROXY " and CRLF. */
static bool parse_line(const char *ptr, const char *end, ab_addr *source) {
  ab_view protocol = next_word(&ptr, end);
  if (ab_view_is(protocol, "UNKNOWN", 7)) return true; /* and what follows is to be ignored */
  uint8_t family = ab_view_is(protocol, "TCP4", 4) ? 4 : ab_view_is(protocol, "TCP6", 4) ? 6 : 0;
  ab_addr from, to;
  uint16_t to_port;
  if (family == 0 || !parse_address(next_word(&ptr, end), family, &from) ||
      !parse_address(next_word(&ptr, end), family, &to) ||
      !parse_port(next_word(&ptr, end), &from.port) ||
      !parse_port(next_word(&ptr, end), &to_port) || ptr) {
    return false;
  }
  *source = from;
  return true;
}

/* The line begins with "PROXY ". */
static int parse_v1(const char *buf, size_t len, ab_addr *source) {
  const char *stop = buf + (len < AB_PROXY_V1_MAX ? len : AB_PROXY_V1_MAX);
  const char *end = ab_skip_value(buf, stop);
  if (end == stop || (*end == '\r' && end + 1 == stop)) {
    return len < AB_PROXY_V1_MAX ? AB_AGAIN : AB_HTTP_PROXY_TOO_LONG;
  }
  if (end[0] != '\r' || end[1] != '\n' || !parse_line(buf + sizeof v1_start, end, source)) {
    return AB_HTTP_PROXY_SYNTAX;
  }
  return (int)(end + 2 - buf);
}

enum v2_command { V2_LOCAL = 0x20, V2_PROXY = 0x21 };

/* Family in the upper half, transport in the lower one, always a stream. */
enum v2_family { V2_UNSPEC = 0x00, V2_TCP4 = 0x11, V2_TCP6 = 0x21, V2_UNIX = 0x31 };

/* Bytes of the family's addresses; -1 for one that is not accepted. */
static int addresses_size(uint8_t family) {
  return family == V2_UNSPEC ? 0
         : family == V2_TCP4 ? 2 * (4 + 2)
         : family == V2_TCP6 ? 2 * (16 + 2)
         : family == V2_UNIX ? 2 * 108
                             : -1;
}

static unsigned number_at(const char *ptr) {
  return (unsigned)(uint8_t)ptr[0] << 8 | (uint8_t)ptr[1];
}

/* Source and destination address, then source and destination port. */
static void read_source(const char *ptr, uint8_t family, ab_addr *source) {
  if (family != V2_TCP4 && family != V2_TCP6) return;
  size_t size = family == V2_TCP4 ? 4 : 16;
  *source = (ab_addr){.family = family == V2_TCP4 ? 4 : 6};
  memcpy(source->bytes, ptr, size);
  source->port = (uint16_t)number_at(ptr + 2 * size);
}

/* The bytes begin with the signature. */
static int parse_v2(const char *buf, size_t len, uint64_t max, ab_addr *source) {
  if (len == sizeof v2_start) return AB_AGAIN;
  uint8_t command = (uint8_t)buf[12];
  if (command != V2_LOCAL && command != V2_PROXY) return AB_HTTP_PROXY_SYNTAX;
  if (len == 13) return AB_AGAIN;
  uint8_t family = (uint8_t)buf[13];
  /* Of a connection that the proxy opened for itself, the family means nothing. */
  int addresses = command == V2_LOCAL ? 0 : addresses_size(family);
  if (addresses < 0) return AB_HTTP_PROXY_SYNTAX;
  if (len < V2_HEAD) return AB_AGAIN;
  unsigned rest = number_at(buf + 14);
  if (rest < (unsigned)addresses) return AB_HTTP_PROXY_SYNTAX;
  if (V2_HEAD + rest > max) return AB_HTTP_PROXY_TOO_LONG;
  if (len < V2_HEAD + rest) return AB_AGAIN;
  if (command == V2_PROXY) read_source(buf + V2_HEAD, family, source);
  return (int)(V2_HEAD + rest);
}

static bool begins_with(const char *buf, size_t len, const char *start, size_t start_len) {
  return memcmp(buf, start, len < start_len ? len : start_len) == 0;
}

int ab_proxy_parse(const char *buf, size_t len, unsigned accept, uint64_t max, ab_addr *source) {
  if (accept & AB_PROXY_V1 && begins_with(buf, len, v1_start, sizeof v1_start)) {
    return len < sizeof v1_start ? AB_AGAIN : parse_v1(buf, len, source);
  }
  if (accept & AB_PROXY_V2 && begins_with(buf, len, v2_start, sizeof v2_start)) {
    return len < sizeof v2_start ? AB_AGAIN : parse_v2(buf, len, max, source);
  }
  return accept & AB_PROXY_OPTIONAL ? 0 : AB_HTTP_PROXY_SYNTAX;
}
