#include "page/sums.h"

#define LEAST 64

void ab_sums_init(ab_sums *self, const ab_mem *mem) {
  *self = (ab_sums){.mem = *mem};
}

void ab_sums_fini(ab_sums *self) {
  ab_free(&self->mem, self->series);
  ab_free(&self->mem, self->names);
  ab_free(&self->mem, self->places);
  *self = (ab_sums){.mem = self->mem};
}

/* --- names --- */

/* Room for one more. */
static bool grow_names(ab_sums *self) {
  if (self->name_count < self->name_room) return true;
  uint32_t room = self->name_room ? 2 * self->name_room : LEAST;
  ab_sums_name *names = ab_realloc(&self->mem, self->names, room * sizeof(*names));
  if (!names) return false;
  self->names = names;
  self->name_room = room;
  return true;
}

/* The index of a slot's name; AB_SERIES_NO_ROUTE without memory. */
static uint32_t enter_name(ab_sums *self, const ab_page_route *route) {
  ab_sums_name name;
  name.len = ab_page_route_name(route, name.text);
  for (uint32_t i = 0; i < self->name_count; i++) {
    if (self->names[i].len == name.len && memcmp(self->names[i].text, name.text, name.len) == 0)
      return i;
  }
  if (!grow_names(self)) return AB_SERIES_NO_ROUTE;
  self->names[self->name_count] = name;
  return self->name_count++;
}

/* --- series --- */

static uint64_t sums_word_of(ab_series_key key) {
  uint64_t word;
  memcpy(&word, &key, sizeof(word));
  return word;
}

static uint32_t *sums_place_of(const ab_sums *self, ab_series_key key) {
  uint64_t word = sums_word_of(key);
  size_t places = (size_t)self->room * 2;
  size_t at = (size_t)(word * 0x9e3779b97f4a7c15u >> 32) % places;
  while (self->places[at] && sums_word_of(self->series[self->places[at] - 1].key) != word)
    at = (at + 1) % places;
  return &self->places[at];
}

/* Room for one more, and places for all. */
static bool sums_grow(ab_sums *self) {
  if (self->count < self->room) return true;
  uint32_t room = self->room ? 2 * self->room : LEAST;
  ab_series *series = ab_realloc(&self->mem, self->series, room * sizeof(*series));
  if (!series) return false;
  self->series = series;
  uint32_t *places = ab_alloc_zero(&self->mem, (size_t)room * 2 * sizeof(*places));
  if (!places) return false;
  ab_free(&self->mem, self->places);
  self->places = places;
  self->room = room;
  for (uint32_t i = 0; i < self->count; i++) *sums_place_of(self, series[i].key) = i + 1;
  return true;
}

/* NULL without memory. */
static ab_cells *cells_for(ab_sums *self, ab_series_key key) {
  if (!sums_grow(self)) return NULL;
  uint32_t *place = sums_place_of(self, key);
  if (!*place) {
    self->series[self->count] = (ab_series){.key = key};
    *place = ++self->count;
  }
  return &self->series[*place - 1].cells;
}

static bool is_used(const ab_cells *cells) {
  for (unsigned i = 0; i < AB_CELLS; i++) {
    if (AB_GET(cells->counts[i])) return true;
  }
  return false;
}

/* A slot's number of a route as that of the sums. */
static bool translate(ab_sums *self, const ab_page_parts *parts, uint32_t *route) {
  if (*route >= parts->route_count) {
    *route = AB_SERIES_NO_ROUTE;
    return true;
  }
  bool named = *route < ab_page_routes_used(&parts->slot->app.routes, parts->route_count);
  *route = named ? enter_name(self, &parts->routes[*route]) : AB_SUMS_OTHER;
  return *route != AB_SERIES_NO_ROUTE;
}

int ab_sums_add(ab_sums *self, const ab_page_parts *parts) {
  uint32_t count = parts->series_count, other = parts->route_count - 1;
  uint32_t used = ab_series_used(&parts->slot->app.series, count);
  for (uint32_t i = ab_series_skip(0, used, count); i < count;
       i = ab_series_skip(i + 1, used, count)) {
    ab_series_key key;
    if (!is_used(&parts->series[i].cells) ||
        !ab_series_key_of(parts->series, count, i, other, &key))
      continue;
    ab_cells *cells = translate(self, parts, &key.route) ? cells_for(self, key) : NULL;
    if (!cells) return AB_ENOMEM;
    ab_cells_join(cells, &parts->series[i].cells);
  }
  return AB_OK;
}
