/* Request targets and authorities. The first octet takes the method, whose forms of the target
 * differ; the second one where the target is cut. */
#include "fuzz.h"

#include "http1/target.h"
#include "http1/write.h"

static void check_authority(const char *octets, size_t len, const ab__authority *authority) {
  require(authority->host.len > 0 && authority->host.len <= AB__HOST_MAX, "the host has a size");
  require(inside(octets, len, authority->host), "the host is inside");
  require(inside(octets, len, authority->port), "the port is inside");
  require(authority->port.len <= 5, "the port is short");
  for (size_t i = 0; i < authority->port.len; i++) {
    require(authority->port.ptr[i] >= '0' && authority->port.ptr[i] <= '9', "the port is digits");
  }
  size_t whole = authority->host.len + (authority->port.len ? authority->port.len + 1 : 0);
  require(authority->whole.len == whole, "host and port are the whole");
  ab__authority again;
  require(ab__authority_parse(authority->whole, &again), "what was parsed is parsed again");
  require(again.host.len == authority->host.len, "and is the same");
}

static void check_target(const char *octets, size_t len, const char *end,
                         const ab_request *request) {
  require(end > octets && end < octets + len && *end == ' ', "a blank ends the target");
  require(request->target.ptr == octets && request->target.len == (size_t)(end - octets), "target");
  require(request->path.len > 0, "there is a path");
  require(*request->path.ptr == '/' || *request->path.ptr == '*', "the path starts as one");
  require(!request->query.ptr || inside(octets, len, request->query), "the query is inside");
  for (size_t i = 0; i < request->target.len; i++) {
    char octet = request->target.ptr[i];
    require(octet > ' ' || octet < 0, "a target has neither blanks nor controls");
    require(octet != '#' && octet != '\x7f', "a target has no fragment");
  }
}

/* AB_OK, or what went wrong. */
static int parse(const char *octets, size_t len, ab_view method) {
  ab_request request = {.method = method};
  ab__authority authority = {0};
  int error;
  const char *end = ab__target_parse(octets, octets + len, &request, &authority, &error);
  if (!end) return error;
  check_target(octets, len, end, &request);
  if (authority.host.len) check_authority(octets, len, &authority);
  return AB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ab_view methods[] = {{"GET", 3}, {"OPTIONS", 7}, {"CONNECT", 7}};
  if (size < 2) return 0;
  size_t len = size - 2;
  ab_view method = methods[data[0] % 3];
  char *octets = fuzz_copy((const char *)data + 2, len);
  int whole = parse(octets, len, method);
  ab__authority authority;
  if (ab__authority_parse((ab_view){octets, len}, &authority)) {
    check_authority(octets, len, &authority);
  }
  free(octets);
  size_t part = (size_t)data[1] < len ? data[1] : len;
  octets = fuzz_copy((const char *)data + 2, part);
  int early = parse(octets, part, method);
  require(early == AB_AGAIN || early == whole, "an early verdict is the last one");
  free(octets);
  return 0;
}
