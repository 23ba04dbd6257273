/* A connection: requests with bodies, one behind the other, played as the engine does it. However
 * the bytes are cut, everything that a client or an app can see is the same. */
#include "fuzz.h"

#include "model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  model_outcome whole = model_play(input.bytes, input.len, &input.limits, NULL, NULL);
  require(whole.consumed <= input.len, "no more is used than came");
  model_outcome cut = model_play(input.bytes, input.len, &input.limits, fuzz_next_segment, &input);
  require(model_same(&whole, &cut), "segments are as the whole");
  model_outcome each = model_play(input.bytes, input.len, &input.limits, model_next_one, NULL);
  require(model_same(&whole, &each), "segments of one byte are as the whole");
  return 0;
}
