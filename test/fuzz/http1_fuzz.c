/* libFuzzer target of the http1 room. The first octet picks the limits and where to split; the rest
 * is what a client sends. However it is split, the outcome is the same; and what was parsed lies in
 * the octets it came from.
 *
 *   clang -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined \
 *     -fno-sanitize-recover=undefined -Iext/abaca -Itest/c/http1 test/fuzz/http1_fuzz.c \
 *     ext/abaca/http1/[a-z]*.c -o tmp/http1_fuzz
 *   tmp/http1_fuzz -max_total_time=60 -max_len=4096 tmp/http1_corpus
 */
#include <stdio.h>

#include "model.h"

#include "http1/write.h"

/* Small ones, so that a short input gets past them. */
static ab_limits tight_limits(void) {
  ab_limits limits = ab_limits_default();
  limits.max_request_line = 40;
  limits.max_header_line = 30;
  limits.max_header_count = 4;
  limits.max_head_size = 120;
  limits.max_trailer_count = 2;
  limits.max_trailer_size = 24;
  limits.max_chunk_line = 12;
  limits.max_chunk_extensions = 20;
  limits.max_body_size = 32;
  return limits;
}

static void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "broken: %s\n", what);
  abort();
}

static bool inside(const char *octets, size_t len, ab_view view) {
  return view.len == 0 || (view.ptr >= octets && view.ptr + view.len <= octets + len);
}

/* The first head's parts, seen from outside the model. */
static void check_head(const char *octets, size_t len, const ab_limits *limits) {
  ab_head_progress progress = {0};
  ab_request request;
  ab_field fields[MODEL_FIELDS];
  int size = ab_head_parse(octets, len, limits, &progress, &request, fields);
  if (size <= 0) {
    require(size == AB_AGAIN || ab_http1_error_status(size) != 500, "the error is of the table");
    return;
  }
  require((size_t)size <= len && (size_t)size <= limits->max_head_size, "the size is in bounds");
  require(request.field_count <= limits->max_header_count, "the fields are counted");
  require(request.path.len > 0, "there is a path");
  require(ab_is_token(request.method.ptr, request.method.len), "the method is a token");
  require(inside(octets, len, request.target), "the target is in the head");
  require(inside(octets, len, request.authority), "the authority is in the head");
  require(request.minor == 0 || request.host.len > 0, "there is a host");
  require(request.framing.body != AB_BODY_CHUNKED || !request.framing.has_length, "one framing");
  for (uint32_t i = 0; i < request.field_count; i++) {
    require(ab_is_token(fields[i].name, fields[i].name_len), "the name is a token");
    require(ab_is_field_value(fields[i].value, fields[i].value_len), "the value is clean");
    require(inside(octets, len, (ab_view){fields[i].value, fields[i].value_len}), "a view");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  const char *octets = (const char *)data + 1;
  size_t len = size - 1, split = 1 + (size_t)(data[0] >> 1) * len / 128;
  ab_limits limits = data[0] & 1 ? tight_limits() : ab_limits_default();
  check_head(octets, len, &limits);
  model_outcome whole = model_play(octets, len, &limits, NULL, NULL);
  model_outcome two = model_play(octets, len, &limits, model_next_two, &split);
  require(model_same(&whole, &two), "two segments are as one");
  model_outcome each = model_play(octets, len, &limits, model_next_one, NULL);
  require(model_same(&whole, &each), "segments of one octet are as one");
  return 0;
}
