#include "page/series.h"

#include "page/row.h"

static uint64_t series_word_of(ab_series_key key) {
  uint64_t word;
  memcpy(&word, &key, sizeof(word));
  return word;
}

static uint64_t word_at(const ab_series *series) {
  uint64_t word;
  ab_words_get(&word, &series->key, sizeof(word));
  return word;
}

/* Where a key is, or would be. */
static uint16_t *series_place_of(ab_series_table *self, uint64_t word) {
  size_t places = AB_ARRAY_LEN(self->places);
  size_t at = (size_t)(word * 0x9e3779b97f4a7c15u >> 32) % places;
  while (self->places[at] && self->keys[self->places[at] - 1] != word) at = (at + 1) % places;
  return &self->places[at];
}

static uint32_t own_of(uint32_t count) {
  uint32_t own = count > AB_SERIES_KIND_COUNT ? count - AB_SERIES_KIND_COUNT : 0;
  return own < AB_PAGE_SERIES ? own : AB_PAGE_SERIES;
}

uint32_t ab_series_used(const uint32_t *used, uint32_t count) {
  /* Acquire: the keys up to there are seen. Partner: the release in ab_series_find. */
  uint32_t keys = __atomic_load_n(used, __ATOMIC_ACQUIRE), own = own_of(count);
  return keys < own ? keys : own;
}

static void series_enter(ab_series_table *self, uint32_t number, uint64_t word) {
  uint16_t *place = series_place_of(self, word);
  self->keys[number] = word;
  *place = (uint16_t)(number + 1);
}

void ab_series_table_over(ab_series_table *self, ab_series *series, uint32_t count, uint32_t *shown,
                          uint64_t *dropped) {
  *self = (ab_series_table){
      .series = series, .most = own_of(count), .shown = shown, .dropped = dropped};
  uint32_t there = ab_series_used(shown, count);
  for (; self->used < there; self->used++)
    series_enter(self, self->used, word_at(&series[self->used]));
}

ab_series *ab_series_find(ab_series_table *self, ab_series_key key) {
  uint64_t word = series_word_of(key);
  uint16_t place = *series_place_of(self, word);
  if (AB_LIKELY(place)) return &self->series[place - 1];
  uint32_t number = self->used;
  if (number >= self->most) {
    AB_ADD(*self->dropped, 1);
    return &self->series[self->most + key.kind];
  }
  self->used++;
  series_enter(self, number, word);
  /* The key is there before its number is: a process that is killed in here has added nothing. */
  ab_words_put(&self->series[number].key, &word, sizeof(word));
  /* Release: partner is ab_series_used. */
  __atomic_store_n(self->shown, self->used, __ATOMIC_RELEASE);
  return &self->series[number];
}

bool ab_series_key_of(const ab_series *series, uint32_t count, uint32_t i, uint32_t other,
                      ab_series_key *key) {
  uint32_t own = own_of(count);
  if (i >= own) {
    *key = (ab_series_key){.kind = (uint8_t)(i - own), .route = other};
    return i - own < AB_SERIES_KIND_COUNT;
  }
  uint64_t word = word_at(&series[i]);
  memcpy(key, &word, sizeof(word));
  return key->kind < AB_SERIES_KIND_COUNT && key->method < AB_ROW_METHOD_COUNT;
}

const char *ab_series_kind_name(enum ab_series_kind kind) {
  static const char *const names[] = {
#define AB_SERIES_KIND_TEXT(name, text) text,
      AB_SERIES_KINDS(AB_SERIES_KIND_TEXT)
#undef AB_SERIES_KIND_TEXT
  };
  return names[kind];
}
