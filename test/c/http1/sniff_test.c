/* What is no HTTP is told by its first bytes, wherever they are cut off. */
#include "http1/sniff.h"

#include "check.h"

static void check_named(const char *part, const char *bytes, size_t len) {
  const char *name = ab_sniff_protocol(bytes, len);
  CHECK(part ? name && strstr(name, part) : !name);
}

#define NAMED(part, bytes) check_named(part, bytes, sizeof(bytes) - 1)

CHECK_CASE(known_protocols) {
  NAMED("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
  NAMED("TLS", "\x16");
  NAMED("TLS", "\x80.\x01\x00\x02");
  NAMED("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  NAMED("HTTP/2", "PRI * ");
  NAMED("SSH", "SSH-2.0-OpenSSH_9.2\r\n");
  NAMED("PROXY", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n");
  NAMED("PROXY", "\r\n\r\n\0\r\nQUIT\n!\x11");
}

CHECK_CASE(others) {
  NAMED(NULL, "");
  NAMED(NULL, "GET / HTTP/1.1\r\n");
  NAMED(NULL, "PRI ");
  NAMED(NULL, "PRI /x HTTP/1.1\r\n");
  NAMED(NULL, "PROXYX");
  NAMED(NULL, "\r\n\r\n");
  NAMED(NULL, "\x16\x04");
  NAMED(NULL, "SSH");
  NAMED(NULL, "\x80\x01\x02");
}

CHECK_MAIN()
