#include "page/routes.h"

uint32_t ab_page_routes_used(const uint32_t *used, uint32_t count) {
  /* Acquire: the names up to there are seen. Partner: the release in take_up. */
  uint32_t names = __atomic_load_n(used, __ATOMIC_ACQUIRE);
  return count == 0 ? 0 : names < count - 1 ? names : count - 1;
}

void ab_page_routes_over(ab_page_routes *self, ab_page_route *routes, uint32_t count, uint32_t most,
                         uint32_t *shown, uint64_t *dropped) {
  if (count > AB_PAGE_ROUTES) count = AB_PAGE_ROUTES;
  *self = (ab_page_routes){.routes = routes,
                           .count = count,
                           .most = most < count - 1 ? most : count - 1,
                           .used = ab_page_routes_used(shown, count),
                           .shown = shown,
                           .dropped = dropped};
  for (uint32_t i = 0; i < self->used; i++)
    self->names[i].len = ab_page_route_name(&routes[i], self->names[i].text);
}

static bool has_name(const ab_page_routes *self, uint32_t number, ab_view name) {
  return self->names[number].len == name.len &&
         memcmp(self->names[number].text, name.ptr, name.len) == 0;
}

/* The name is there before its number is: a process that is killed in here has taken up nothing. */
static uint32_t routes_take_up(ab_page_routes *self, ab_view name) {
  uint32_t number = self->used;
  if (number >= self->most) {
    AB_ADD(*self->dropped, 1);
    return self->count - 1;
  }
  ab_page_route *route = &self->routes[number];
  self->used++;
  self->names[number].len = (uint32_t)name.len;
  memcpy(self->names[number].text, name.ptr, name.len);
  ab_words_put(route->name, self->names[number].text, AB_PAGE_ROUTE_NAME);
  AB_PUT(route->name_len, (uint32_t)name.len);
  /* Release: partner is ab_page_routes_used. */
  __atomic_store_n(self->shown, self->used, __ATOMIC_RELEASE);
  return number;
}

static uint32_t routes_find(ab_page_routes *self, ab_view name) {
  for (uint32_t i = 0; i < self->used; i++) {
    if (has_name(self, i, name)) return i;
  }
  return routes_take_up(self, name);
}

uint32_t ab_page_routes_find(ab_page_routes *self, const void *key, ab_view name) {
  if (name.len > AB_PAGE_ROUTE_NAME) name.len = AB_PAGE_ROUTE_NAME;
  if (name.len == 0) return self->count - 1;
  size_t place = ((uintptr_t)key >> 3) % AB_PAGE_ROUTES_IN_MIND;
  uint32_t number = self->in_mind[place].number;
  /* An address may be another's meanwhile: its name tells. */
  if (AB_LIKELY(key && self->in_mind[place].key == key) && has_name(self, number, name))
    return number;
  number = routes_find(self, name);
  if (number == self->count - 1) return number;
  self->in_mind[place].key = key;
  self->in_mind[place].number = number;
  return number;
}

void ab_row_add_sums(uint64_t sums[AB_STATE_COUNT], const ab_row *row) {
  /* Those of nearly all; one that was not charged is 0. */
  const uint32_t usual = 1u << AB_STATE_QUEUE | 1u << AB_STATE_RUN;
  AB_ADD(sums[AB_STATE_QUEUE], row->sums[AB_STATE_QUEUE]);
  AB_ADD(sums[AB_STATE_RUN], row->sums[AB_STATE_RUN]);
  for (uint32_t left = ab_row_touched(row) & ~usual; AB_UNLIKELY(left); left &= left - 1) {
    unsigned state = (unsigned)__builtin_ctz(left);
    AB_ADD(sums[state], row->sums[state]);
  }
}

void ab_page_route_add(ab_page_route *route, const ab_row *row, bool failed) {
  AB_ADD(route->requests, 1);
  if (AB_UNLIKELY(failed)) AB_ADD(route->errors, 1);
  if (AB_UNLIKELY(row->stalls)) {
    AB_ADD(route->stalls, row->stalls);
    AB_ADD(route->stall_time, row->stall_time);
  }
  ab_row_add_sums(route->sums, row);
}

uint32_t ab_page_route_name(const ab_page_route *route, char name[AB_PAGE_ROUTE_NAME]) {
  ab_words_get(name, route->name, AB_PAGE_ROUTE_NAME);
  uint32_t len = AB_GET(route->name_len);
  return len < AB_PAGE_ROUTE_NAME ? len : AB_PAGE_ROUTE_NAME;
}
