/* Arithmetic at the edges, where it must say that it overflowed. */
#include "base/bits.h"
#include "check.h"

CHECK_CASE(sums_and_products_of_sizes) {
  size_t result = 0;
  CHECK(ab_add_size(SIZE_MAX - 1, 1, &result) && result == SIZE_MAX);
  CHECK(ab_add_size(0, 0, &result) && result == 0);
  CHECK(!ab_add_size(SIZE_MAX, 1, &result));
  CHECK(!ab_add_size(SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1, &result));
  CHECK(ab_mul_size(SIZE_MAX / 2, 2, &result) && result == SIZE_MAX - 1);
  CHECK(ab_mul_size(0, SIZE_MAX, &result) && result == 0);
  CHECK(ab_mul_size(1, SIZE_MAX, &result) && result == SIZE_MAX);
  CHECK(!ab_mul_size(SIZE_MAX / 2 + 1, 2, &result));
}

CHECK_CASE(sums_of_u64) {
  uint64_t result = 0;
  CHECK(ab_add_u64(UINT64_MAX, 0, &result) && result == UINT64_MAX);
  CHECK(!ab_add_u64(UINT64_MAX, 1, &result));
  CHECK(!ab_add_u64(UINT64_MAX, UINT64_MAX, &result));
}

/* Reads `text` in `base`; false on overflow. */
static bool parse(const char *text, unsigned base, uint64_t *value) {
  *value = 0;
  for (; *text; text++) {
    unsigned digit = *text <= '9' ? (unsigned)(*text - '0') : (unsigned)(*text - 'a' + 10);
    if (!ab_push_digit_u64(value, base, digit)) return false;
  }
  return true;
}

CHECK_CASE(digits_up_to_the_largest_number) {
  uint64_t value;
  CHECK(parse("0", 10, &value) && value == 0);
  CHECK(parse("18446744073709551615", 10, &value) && value == UINT64_MAX);
  CHECK(!parse("18446744073709551616", 10, &value)); /* the digit overflows */
  CHECK(!parse("18446744073709551620", 10, &value)); /* the product overflows */
  CHECK(!parse("99999999999999999999", 10, &value));
  CHECK(parse("ffffffffffffffff", 16, &value) && value == UINT64_MAX);
  CHECK(!parse("10000000000000000", 16, &value));
  CHECK(parse("0000000000000000000000001f", 16, &value) && value == 31);
}

CHECK_CASE(powers_of_two) {
  CHECK_INT(1, ab_round_up_pow2(1));
  CHECK_INT(2, ab_round_up_pow2(2));
  CHECK_INT(4, ab_round_up_pow2(3));
  for (unsigned shift = 2; shift < 31; shift++) {
    uint32_t power = (uint32_t)1 << shift;
    CHECK_INT(power, ab_round_up_pow2(power - 1));
    CHECK_INT(power, ab_round_up_pow2(power));
    CHECK_INT(power * 2, ab_round_up_pow2(power + 1));
  }
  CHECK_INT((uint32_t)1 << 31, ab_round_up_pow2((uint32_t)1 << 31));
}

CHECK_MAIN()
