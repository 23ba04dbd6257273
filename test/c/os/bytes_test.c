/* Bytes that are found, as memmem finds them; that are wiped; and that nobody can guess. */
#include "os/bytes.h"

#include "check.h"
#include "random.h"

static size_t place_of(const char *text, const char *part) {
  const char *found = ab_os_find(text, strlen(text), part, strlen(part));
  return found ? (size_t)(found - text) : SIZE_MAX;
}

CHECK_CASE(parts_are_found) {
  CHECK_INT(0, place_of("abcabd", ""));
  CHECK_INT(0, place_of("abcabd", "abc"));
  CHECK_INT(3, place_of("abcabd", "abd"));
  CHECK_INT(5, place_of("abcabd", "d"));
  CHECK(place_of("abcabd", "abe") == SIZE_MAX);
  CHECK(place_of("ab", "abc") == SIZE_MAX);
  CHECK(place_of("", "a") == SIZE_MAX);
  /* What stands behind the end is not looked at. */
  CHECK(ab_os_find("abc", 2, "bc", 2) == NULL);
}

/* Two letters, so that many places look right at first. */
CHECK_CASE(any_part_of_any_bytes) {
  uint64_t seed = 7;
  for (int round = 0; round < 20000; round++) {
    char text[24], part[6];
    size_t len = random_below(&seed, sizeof text), part_len = random_below(&seed, sizeof part);
    for (size_t i = 0; i < len; i++) text[i] = (char)('a' + random_below(&seed, 2));
    for (size_t i = 0; i < part_len; i++) part[i] = (char)('a' + random_below(&seed, 2));
    const char *expected = NULL;
    for (size_t i = 0; !expected && i + part_len <= len; i++)
      if (memcmp(text + i, part, part_len) == 0) expected = text + i;
    if (ab_os_find(text, len, part, part_len) != expected) CHECK(false);
  }
  CHECK(true);
}

CHECK_CASE(wiped) {
  char text[] = "secret";
  ab_os_wipe(text, sizeof text);
  for (size_t i = 0; i < sizeof text; i++) CHECK_INT(0, text[i]);
}

CHECK_CASE(made_up) {
  unsigned char once[256] = {0}, again[256] = {0};
  CHECK(ab_os_random(once, sizeof once, true));
  CHECK(ab_os_random(again, sizeof again, false));
  CHECK(memcmp(once, again, sizeof once) != 0);
  size_t zeros = 0;
  for (size_t i = 0; i < sizeof once; i++) zeros += once[i] == 0;
  CHECK(zeros < 64);
}

CHECK_MAIN()
