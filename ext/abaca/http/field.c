#include "http/field.h"

#include "base/bits.h"
#include "http/char.h"

bool ab_read_length(ab_view value, uint64_t *length) {
  *length = 0;
  for (size_t i = 0; i < value.len; i++) {
    if (!ab_is_digit(value.ptr[i]) ||
        !ab_push_digit_u64(length, 10, (unsigned)(value.ptr[i] - '0'))) {
      return false;
    }
  }
  return value.len > 0;
}

void ab_read_expect(ab_view value, bool *known, bool *unknown) {
  ab_view expectation;
  while (ab_next_element(&value, &expectation)) {
    bool is_known = ab_view_spells(expectation, "100-continue", 12);
    *known |= is_known;
    *unknown |= !is_known && expectation.len > 0;
  }
}
