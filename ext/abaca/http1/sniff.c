/* Protocols that end up at an HTTP port by mistake, by their first bytes, once the parser has
 * refused them; the pattern may not be all here then. */
#include "http1/sniff.h"

#include <string.h>

#include "base/base.h"

typedef struct pattern {
  const char *bytes;
  size_t len;
  size_t least; /* bytes that are enough to tell */
  const char *name;
} pattern;

static const pattern patterns[] = {
    {"\x16\x03", 2, 1, "a TLS handshake"},
    {"PRI * HTTP/2.0\r\n", 16, 6, "an HTTP/2 preface"},
    {"SSH-", 4, 4, "an SSH banner"},
    {"PROXY ", 6, 6, "a PROXY header, which this listener does not expect,"},
    {"\r\n\r\n\0\r\nQUIT\n", 12, 5, "a PROXY header, which this listener does not expect,"},
};

/* An SSLv2 record with a ClientHello: two bytes of length, the first bit set, and the type. */
static bool is_ssl2(const char *buf, size_t len) {
  return len >= 3 && (buf[0] & 0x80) && buf[2] == 1;
}

const char *ab_sniff_protocol(const char *buf, size_t len) {
  for (size_t i = 0; i < AB_ARRAY_LEN(patterns); i++) {
    const pattern *known = &patterns[i];
    size_t same = len < known->len ? len : known->len;
    if (len >= known->least && memcmp(buf, known->bytes, same) == 0) return known->name;
  }
  return is_ssl2(buf, len) ? "a TLS handshake" : NULL;
}
