/* Field names that are remembered, whatever a client sends beside them. */
#include "check.h"
#include "http/names.h"

static const uint64_t key[2] = {0x0123456789abcdef, 0xfedcba9876543210};
static ab_names names;

static bool known(const char *name) {
  return ab_names_find(&names, name, strlen(name)) != NULL;
}

static void see(const char *name, uintptr_t value) {
  if (!known(name)) ab_names_add(&names, name, strlen(name), value, (uint8_t)(value & 3));
}

CHECK_CASE(exact_spellings_are_found) {
  static const char *const usual[] = {"A",
                                      "Accept",
                                      "accept",
                                      "If-None",
                                      "If-None-Match",
                                      "X-Octets8",
                                      "Sixteen-Bytes-X",
                                      "a-name-of-exactly-40-octets-and-not-more"};
  ab_names_init(&names, key);
  for (size_t i = 0; i < AB_ARRAY_LEN(usual); i++) see(usual[i], i + 1);
  for (size_t i = 0; i < AB_ARRAY_LEN(usual); i++) {
    const ab_name *found = ab_names_find(&names, usual[i], strlen(usual[i]));
    CHECK(found && found->value == i + 1 && found->flags == ((i + 1) & 3));
  }
  CHECK(!known("ACCEPT") && !known("Accep") && !known("If-None-") && !known(""));
  see("a-name-of-exactly-41-octets-and-not-less!", 9);
  see("", 9);
  CHECK(!known("a-name-of-exactly-41-octets-and-not-less!") && !known(""));
}

/* Alike at both ends and of one length, as an unkeyed hash of the ends would have them in one
 * place: here nearly all of them have room. */
CHECK_CASE(names_that_are_alike_have_different_places) {
  ab_names_init(&names, key);
  char name[32];
  unsigned kept = 0;
  for (int i = 0; i < 256; i++) {
    snprintf(name, sizeof name, "X-Prefix%08dSuffixes", i);
    see(name, 1);
  }
  for (int i = 0; i < 256; i++) {
    snprintf(name, sizeof name, "X-Prefix%08dSuffixes", i);
    kept += known(name);
  }
  CHECK(kept > 240);
}

/* Which names share a place depends on the key. */
CHECK_CASE(the_key_decides) {
  static ab_names others;
  const uint64_t other[2] = {key[0] + 1, key[1]};
  ab_names_init(&names, key);
  ab_names_init(&others, other);
  unsigned same = 0;
  char name[32];
  for (int i = 0; i < 1000; i++) {
    int len = snprintf(name, sizeof name, "X-Name-%d", i);
    ptrdiff_t one = ab__names_place(&names, name, (size_t)len) - names.places[0];
    same += one == ab__names_place(&others, name, (size_t)len) - others.places[0];
  }
  CHECK(same < 20);
}

/* A flood of names that come once does not displace those that come with each request. */
CHECK_CASE(usual_names_stay) {
  ab_names_init(&names, key);
  char name[32];
  unsigned lost = 0;
  for (int i = 0; i < 40000; i++) {
    snprintf(name, sizeof name, "X-Flood-%d", i);
    see(name, 1);
    if (i % 128) continue;
    for (int k = 0; k < 20; k++) {
      snprintf(name, sizeof name, "Usual-%d", k);
      lost += i > 0 && !known(name);
      see(name, 1);
      known(name);
    }
  }
  CHECK_INT(0, lost);
}

CHECK_MAIN()
