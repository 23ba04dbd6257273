/* Field names seen before, as spelled, with what the caller has made of each: the usual field costs
 * one comparison. Bounded, so that no client can make it grow, and keyed, so that none can choose
 * names that share a place, which has room for a few. */
#ifndef AB_HTTP_NAMES_H
#define AB_HTTP_NAMES_H

#include <string.h>

#include "base/base.h"

#define AB_NAME_LEN_MAX 40  /* a longer name is not remembered */
#define AB_NAME_PLACES  256 /* a power of two */
#define AB_NAME_ROOM    4   /* names of one place */

typedef struct ab_name {
  uintptr_t value; /* the caller's */
  uint8_t flags;   /* the caller's */
  uint8_t len;     /* 0: free */
  bool again;      /* it was asked for since it could have been replaced last */
  char name[AB_NAME_LEN_MAX];
} ab_name;

typedef struct ab_names {
  uint64_t key[2];
  ab_name places[AB_NAME_PLACES][AB_NAME_ROOM];
} ab_names;

/* Forgets everything; the key is secret. */
void ab_names_init(ab_names *names, const uint64_t key[2]);

static inline uint64_t ab__names_fold(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* All bytes count: names that differ in a few of them only have different places. 0 < len. */
static inline ab_name *ab__names_place(ab_names *names, const char *name, size_t len) {
  uint64_t hash = names->key[0] ^ len, part = 0;
  size_t left = len;
  for (; left > 8; left -= 8, name += 8) {
    memcpy(&part, name, 8);
    hash = ab__names_fold(hash ^ part, names->key[1]);
  }
  if (len >= 8) {
    memcpy(&part, name + left - 8, 8); /* some bytes twice, which is cheaper than a few */
  } else {
    memcpy(&part, name, left);
  }
  hash = ab__names_fold(hash ^ part, names->key[1]);
  return names->places[hash & (AB_NAME_PLACES - 1)];
}

/* NULL for a name that is not remembered. */
static inline const ab_name *ab_names_find(ab_names *names, const char *name, size_t len) {
  if (len == 0 || len > AB_NAME_LEN_MAX) return NULL;
  ab_name *place = ab__names_place(names, name, len);
  for (int i = 0; i < AB_NAME_ROOM; i++) {
    if (place[i].len != len || memcmp(place[i].name, name, len) != 0) continue;
    if (!place[i].again) place[i].again = true;
    return &place[i];
  }
  return NULL;
}

/* Remembers a name that was not found, unless it is too long. */
void ab_names_add(ab_names *names, const char *name, size_t len, uintptr_t value, uint8_t flags);

#endif
