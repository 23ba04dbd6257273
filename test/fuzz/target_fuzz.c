/* Request targets and authorities. The first byte takes the method, whose forms of the target
 * differ; the second one where the target is cut. */
#include "fuzz.h"

#include "http/target.h"

static void check_authority(const char *bytes, size_t len, const ab_authority *authority) {
  require(authority->host.len > 0 && authority->host.len <= AB_HOST_MAX, "the host has a size");
  require(inside(bytes, len, authority->host), "the host is inside");
  require(inside(bytes, len, authority->port), "the port is inside");
  require(authority->port.len <= 5, "the port is short");
  for (size_t i = 0; i < authority->port.len; i++) {
    require(authority->port.ptr[i] >= '0' && authority->port.ptr[i] <= '9', "the port is digits");
  }
  size_t whole = authority->host.len + (authority->port.len ? authority->port.len + 1 : 0);
  require(authority->whole.len == whole, "host and port are the whole");
  ab_authority again;
  require(ab_authority_parse(authority->whole, &again), "what was parsed is parsed again");
  require(again.host.len == authority->host.len, "and is the same");
}

static void check_target(const char *bytes, size_t len, const char *end,
                         const ab_request *request) {
  require(end > bytes && end < bytes + len && *end == ' ', "a blank ends the target");
  require(request->target.ptr == bytes && request->target.len == (size_t)(end - bytes), "target");
  require(request->path.len > 0, "there is a path");
  require(*request->path.ptr == '/' || *request->path.ptr == '*', "the path starts as one");
  require(!request->query.ptr || inside(bytes, len, request->query), "the query is inside");
  for (size_t i = 0; i < request->target.len; i++) {
    char byte = request->target.ptr[i];
    require(byte > ' ' || byte < 0, "a target has neither blanks nor controls");
    require(byte != '#' && byte != '\x7f', "a target has no fragment");
  }
}

/* AB_OK, or what went wrong. */
static int parse(const char *bytes, size_t len, ab_view method) {
  ab_request request = {.method = method};
  ab_authority authority = {0};
  int error;
  const char *end = ab_target_parse(bytes, bytes + len, &request, &authority, &error);
  if (!end) return error;
  check_target(bytes, len, end, &request);
  if (authority.host.len) check_authority(bytes, len, &authority);
  return AB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ab_view methods[] = {{"GET", 3}, {"OPTIONS", 7}, {"CONNECT", 7}};
  if (size < 2) return 0;
  size_t len = size - 2;
  ab_view method = methods[data[0] % 3];
  char *bytes = fuzz_copy((const char *)data + 2, len);
  int whole = parse(bytes, len, method);
  ab_authority authority;
  if (ab_authority_parse((ab_view){bytes, len}, &authority)) {
    check_authority(bytes, len, &authority);
  }
  free(bytes);
  size_t part = (size_t)data[1] < len ? data[1] : len;
  bytes = fuzz_copy((const char *)data + 2, part);
  int early = parse(bytes, part, method);
  require(early == AB_AGAIN || early == whole, "an early verdict is the last one");
  free(bytes);
  return 0;
}
