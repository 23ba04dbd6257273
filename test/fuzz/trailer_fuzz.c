/* Trailer sections: what comes behind the last chunk. */
#include "chunks.h"

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
  require(memcmp(input.octets + outcome.consumed - 2, "\r\n", 2) == 0, "and nothing else does");
  require(outcome.consumed <= input.limits.max_trailer_size + 2, "the section is in bounds");
  return 0;
}
