/* A new name replaces one of its place that was not asked for again; when all were, each has to
 * earn its stay anew. So names that come once do not displace those of each request. */
#include "http/names.h"

void ab_names_init(ab_names *names, const uint64_t key[2]) {
  memset(names, 0, sizeof *names);
  names->key[0] = key[0];
  names->key[1] = key[1] | 1; /* a product with 0 would forget everything */
}

static ab_name *make_room(ab_name *place) {
  for (int i = 0; i < AB_NAME_ROOM; i++) {
    if (place[i].len == 0) return &place[i];
  }
  for (int i = 0; i < AB_NAME_ROOM; i++) {
    if (!place[i].again) return &place[i];
  }
  for (int i = 0; i < AB_NAME_ROOM; i++) place[i].again = false;
  return place;
}

void ab_names_add(ab_names *names, const char *name, size_t len, uintptr_t value, uint8_t flags) {
  if (len == 0 || len > AB_NAME_LEN_MAX) return;
  ab_name *free = make_room(ab__names_place(names, name, len));
  *free = (ab_name){.value = value, .flags = flags, .len = (uint8_t)len};
  memcpy(free->name, name, len);
}
