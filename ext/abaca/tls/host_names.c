/* Who answers to which name: identities that have it, one of each kind of key, side by side. */
#ifdef AB_HAVE_TLS

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "tls/internal.h"

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len) {
  int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_entries(const void *a, const void *b) {
  const ab__tls_name *one = a, *other = b;
  int order = compare_texts(one->ptr, one->len, other->ptr, other->len);
  return order != 0 ? order : (one->identity > other->identity) - (one->identity < other->identity);
}

/* The first entry of a name; NULL: there is none. */
static const ab__tls_name *host_names_find(const ab__tls_names *names, const char *ptr,
                                           size_t len) {
  size_t low = 0, high = names->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const ab__tls_name *entry = &names->list[middle];
    if (compare_texts(entry->ptr, entry->len, ptr, len) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const ab__tls_name *entry = &names->list[low];
  bool found = low < names->count && compare_texts(entry->ptr, entry->len, ptr, len) == 0;
  return found ? entry : NULL;
}

/* The wildcard that stands for its first label. */
static const ab__tls_name *find_wildcard(const ab__tls_names *names, const char *ptr, size_t len) {
  char text[256];
  const char *dot = memchr(ptr, '.', len);
  size_t rest = dot ? len - (size_t)(dot - ptr) : 0;
  if (rest == 0 || rest >= sizeof text || dot == ptr || *ptr == '*') return NULL;
  text[0] = '*';
  memcpy(text + 1, dot, rest);
  return host_names_find(names, text, rest + 1);
}

/* --- sets --- */

static void add_member(ab__tls_set *set, const ab__tls_identity *identities, uint32_t index) {
  int kind = EVP_PKEY_get_base_id(identities[index].key);
  for (uint32_t i = 0; i < set->count; i++) {
    if (EVP_PKEY_get_base_id(identities[set->members[i]].key) == kind) return;
  }
  if (set->count < AB__TLS_KINDS) set->members[set->count++] = index;
}

/* All that have the name of this entry, in their order. */
static void add_members(ab__tls_set *set, const ab__tls_names *names,
                        const ab__tls_identity *identities, const ab__tls_name *first) {
  if (!first) return;
  const ab__tls_name *end = names->list + names->count;
  for (const ab__tls_name *entry = first;
       entry < end && compare_texts(entry->ptr, entry->len, first->ptr, first->len) == 0; entry++) {
    add_member(set, identities, entry->identity);
  }
}

static bool is_same(const ab__tls_set *a, const ab__tls_set *b) {
  return a->count == b->count &&
         memcmp(a->members, b->members, a->count * sizeof a->members[0]) == 0;
}

/* Its number, among the sets that there are. There is room for one more. */
static uint32_t number_of(ab__tls_names *names, const ab__tls_set *set) {
  size_t i = 0;
  while (i < names->set_count && !is_same(&names->sets[i], set)) i++;
  if (i == names->set_count) names->sets[names->set_count++] = *set;
  return (uint32_t)i;
}

static ab__tls_set set_of(const ab__tls_names *names, const ab__tls_identity *identities,
                          const char *ptr, size_t len) {
  ab__tls_set set = {0};
  add_members(&set, names, identities, host_names_find(names, ptr, len));
  add_members(&set, names, identities, find_wildcard(names, ptr, len));
  return set;
}

/* The default is what the first name of the first identity gets. */
static ab__tls_set default_set(const ab__tls_names *names, const ab__tls_identity *identities) {
  ab__tls_set set = {0};
  const ab_tls_certificate *facts = &identities->facts;
  add_member(&set, identities, 0);
  if (facts->name_count == 0) return set;
  ab__tls_set named = set_of(names, identities, facts->names[0], strlen(facts->names[0]));
  for (uint32_t i = 0; i < named.count; i++) add_member(&set, identities, named.members[i]);
  return set;
}

int ab__tls_names_init(ab__tls_names *names, const ab_mem *mem, const ab__tls_identity *identities,
                       size_t count) {
  size_t total = 0, list_size, sets_size;
  *names = (ab__tls_names){0};
  for (size_t i = 0; i < count; i++) total += identities[i].facts.name_count;
  if (!ab_mul_size(total + 1, sizeof(ab__tls_name), &list_size) ||
      !ab_mul_size(total + 1, sizeof(ab__tls_set), &sets_size)) {
    return AB_ENOMEM;
  }
  names->list = ab_alloc_zero(mem, list_size);
  names->sets = ab_alloc_zero(mem, sets_size);
  if (!names->list || !names->sets) return AB_ENOMEM;
  for (size_t i = 0; i < count; i++) {
    const ab_tls_certificate *facts = &identities[i].facts;
    for (size_t k = 0; k < facts->name_count; k++) {
      names->list[names->count++] =
          (ab__tls_name){facts->names[k], strlen(facts->names[k]), (uint32_t)i, 0};
    }
  }
  qsort(names->list, names->count, sizeof(ab__tls_name), compare_entries);
  ab__tls_set set = default_set(names, identities);
  number_of(names, &set);
  for (size_t i = 0; i < names->count; i++) {
    ab__tls_name *entry = &names->list[i];
    set = set_of(names, identities, entry->ptr, entry->len);
    entry->set = number_of(names, &set);
  }
  return AB_OK;
}

void ab__tls_names_fini(ab__tls_names *names, const ab_mem *mem) {
  for (size_t i = 0; i < names->set_count; i++) SSL_CTX_free(names->sets[i].ctx);
  ab_free(mem, names->sets);
  ab_free(mem, names->list);
}

const ab__tls_set *ab__tls_names_find(const ab__tls_names *names, const char *ptr, size_t len) {
  const ab__tls_name *entry = host_names_find(names, ptr, len);
  if (!entry) entry = find_wildcard(names, ptr, len);
  return entry ? &names->sets[entry->set] : NULL;
}

#endif
