/* The PROXY protocol's header. The first byte says what is accepted, and under which limit; the
 * rest is how a connection begins. */
#include "fuzz.h"

#include "http1/proxy.h"

static const ab_addr untouched = {.bytes = {9, 9, 9, 9}, .port = 9, .family = 9};

static bool is_untouched(const ab_addr *addr) {
  return addr->family == 9 && addr->port == 9 && memcmp(addr->bytes, untouched.bytes, 16) == 0;
}

/* The verdict on the first `len` bytes, from memory that ends behind them. */
static int parse(const char *bytes, size_t len, unsigned accept, uint64_t max, ab_addr *source) {
  char *copy = fuzz_copy(bytes, len);
  *source = untouched;
  int verdict = ab_proxy_parse(copy, len, accept, max, source);
  free(copy);
  return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2 || size > 1024) return 0;
  unsigned accept = data[0] & 7;
  uint64_t max = data[0] & 8 ? 40 : 4096;
  const char *bytes = (const char *)data + 1;
  size_t len = size - 1;
  ab_addr source, early_source;
  int verdict = parse(bytes, len, accept, max, &source);
  require(verdict > 0 || is_untouched(&source), "only a valid header names a source");
  require(is_untouched(&source) || source.family == 4 || source.family == 6, "it has a family");
  if (verdict > 0) {
    require((size_t)verdict <= len, "the header is there");
    require((uint64_t)verdict <= (*bytes == 'P' ? AB_PROXY_V1_MAX : max), "its size is in bounds");
  } else if (verdict == 0) {
    require(accept & AB_PROXY_OPTIONAL, "only an optional header may be missing");
  } else if (verdict == AB_AGAIN) {
    require(len < (*bytes == 'P' ? AB_PROXY_V1_MAX : max), "waiting is in bounds");
  } else {
    require(verdict == AB_HTTP_PROXY_SYNTAX || verdict == AB_HTTP_PROXY_TOO_LONG, "an error");
  }
  bool decided = false;
  for (size_t part = 1; part < len; part++) {
    int early = parse(bytes, part, accept, max, &early_source);
    require(!decided || early == verdict, "a verdict stays");
    decided = early != AB_AGAIN;
    require(!decided || early == verdict, "an early verdict is the last one");
    require(verdict <= 0 || decided == (part >= (size_t)verdict), "neither early nor late");
  }
  return 0;
}
