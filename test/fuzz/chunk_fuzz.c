/* Bodies in the chunked transfer coding, from their first byte on. */
#include "chunks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  ab_chunk_decoder decoder;
  ab_chunk_init(&decoder);
  chunks_check(decoder, &input);
  return 0;
}
