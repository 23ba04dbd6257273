/* Trailer sections: what comes behind the last chunk, and its fields one by one. */
#include "chunks.h"

#include "http/char.h"
#include "http/trailer.h"

/* A section that the decoder has found to be valid. */
static void check_fields(const fuzz_input *input, size_t len) {
  char *bytes = fuzz_copy(input->bytes, len);
  ab_view section = {bytes, len}, name, value;
  uint64_t count = 0;
  while (ab_trailer_next(&section, &name, &value)) {
    require(inside(bytes, len, name) && ab_is_token(name.ptr, name.len), "the name is a token");
    require(inside(bytes, len, value), "the value is inside");
    require(ab_is_field_value(value.ptr, value.len), "the value has no controls");
    count++;
  }
  require(count <= input->limits.max_trailer_count, "the fields are counted");
  require(section.len <= 2, "nothing but the empty line is left");
  free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char last_chunk[] = "0\r\n";
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  ab_chunk_decoder decoder;
  ab_chunk_init(&decoder);
  chunks_outcome before = {0};
  chunks_feed(&decoder, &input.limits, last_chunk, sizeof(last_chunk) - 1, &before);
  chunks_outcome outcome = chunks_check(decoder, &input);
  require(outcome.body == 0, "a trailer section has no data");
  if (outcome.result != AB_CHUNK_DONE) return 0;
  require(outcome.consumed >= 2, "an empty line ends the section");
  require(memcmp(input.bytes + outcome.consumed - 2, "\r\n", 2) == 0, "and nothing else does");
  require(outcome.consumed <= input.limits.max_trailer_size + 2, "the section is in bounds");
  check_fields(&input, outcome.consumed);
  return 0;
}
