#include "page/tally.h"

/* --- series --- */

#define ROOM 64

_Static_assert(ROOM >= AB_SERIES_KIND_COUNT, "there is room for those of all others");

static int tally_grow(ab_tally *self) {
  uint32_t room = self->series_room ? self->series_room * 2 : ROOM;
  void *series = ab_realloc(self->mem, self->series, room * sizeof(*self->series));
  if (!series) return AB_ENOMEM;
  self->series = series;
  self->series_room = room;
  return AB_OK;
}

static bool tally_same(ab_series_key a, ab_series_key b) {
  return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Where a key is, or would be. */
static uint16_t *tally_place_of(ab_tally *self, ab_series_key key) {
  uint64_t word;
  memcpy(&word, &key, sizeof(word));
  size_t at = (size_t)(word * 0x9e3779b97f4a7c15u >> 32) % AB_ARRAY_LEN(self->places);
  while (self->places[at] && !tally_same(self->series[self->places[at] - 1].key, key))
    at = (at + 1) % AB_ARRAY_LEN(self->places);
  return &self->places[at];
}

/* There is room. */
static void add_key(ab_tally *self, ab_series_key key) {
  self->series[self->series_count++] = (ab_tally_series){.key = key};
  *tally_place_of(self, key) = (uint16_t)self->series_count;
}

/* What a slot, or we, cannot tell apart, is of a route, a method and a status that are not known.
 * Only requests have any. */
static ab_series_key key_of_others(const ab_tally *self, unsigned kind) {
  uint32_t route = kind == AB_SERIES_REQUEST ? self->most : AB_SERIES_NO_ROUTE;
  return (ab_series_key){.kind = (uint8_t)kind, .route = route};
}

/* NULL without memory. */
static ab_tally_series *series_of(ab_tally *self, ab_series_key key) {
  uint16_t place = *tally_place_of(self, key);
  if (place) return &self->series[place - 1];
  if (self->series_count == AB_TALLY_SERIES) return &self->series[key.kind];
  if (self->series_count == self->series_room && tally_grow(self) != AB_OK) return NULL;
  add_key(self, key);
  return &self->series[self->series_count - 1];
}

/* --- a tally --- */

int ab_tally_init(ab_tally *self, const ab_mem *mem, uint32_t most) {
  *self = (ab_tally){.mem = mem, .most = most < AB_PAGE_ROUTES ? most : AB_PAGE_ROUTES - 1};
  self->routes = ab_alloc_zero(mem, (self->most + 1) * sizeof(*self->routes));
  self->copy = ab_alloc_zero(mem, AB_PAGE_ROUTES * sizeof(*self->copy));
  if (self->routes && self->copy && tally_grow(self) == AB_OK) {
    for (unsigned i = 0; i < AB_SERIES_KIND_COUNT; i++) add_key(self, key_of_others(self, i));
    return AB_OK;
  }
  ab_tally_fini(self);
  return AB_ENOMEM;
}

void ab_tally_fini(ab_tally *self) {
  ab_free(self->mem, self->routes);
  ab_free(self->mem, self->copy);
  ab_free(self->mem, self->series);
  ab_free(self->mem, self->pools);
  self->pools = NULL;
  self->routes = NULL;
  self->copy = NULL;
  self->series = NULL;
}

static void clear_pool(ab_tally_pool *pool) {
  ab_tally_pool empty = {.name_len = pool->name_len};
  memcpy(empty.name, pool->name, sizeof(empty.name));
  *pool = empty;
}

/* Names and keys stay, and what no route has. */
static void clear(ab_tally *self) {
  self->totals = (ab_tally_totals){.ended = 0};
  for (uint32_t i = 0; i <= self->most; i++) {
    ab_tally_route *route = &self->routes[i];
    route->requests = route->errors = route->stalls = route->stall_time = 0;
    memset(route->sums, 0, sizeof(route->sums));
  }
  for (uint32_t i = 0; i < self->series_count; i++)
    self->series[i] = (ab_tally_series){.key = self->series[i].key};
  for (uint32_t i = 0; i < self->pool_count; i++) clear_pool(&self->pools[i]);
}

/* --- routes --- */

static uint32_t number_of(ab_tally *self, uint32_t first, const char *name, uint32_t len) {
  for (uint32_t i = 0; i < self->names; i++) {
    /* Slots mostly have the names in the same order. */
    uint32_t at = (first + i) % self->names;
    const ab_tally_route *route = &self->routes[at];
    if (route->name_len == len && memcmp(route->name, name, len) == 0) return at;
  }
  if (self->names == self->most) return self->most;
  ab_tally_route *route = &self->routes[self->names];
  memcpy(route->name, name, len);
  route->name_len = len;
  return self->names++;
}

static void add_route(ab_tally_route *sum, const ab_page_route *one) {
  sum->requests += one->requests;
  sum->errors += one->errors;
  sum->stalls += one->stalls;
  sum->stall_time += one->stall_time;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) sum->sums[i] += one->sums[i];
}

static void add_app(ab_tally_totals *totals, const ab_page_app *app) {
  totals->ended += app->ended;
  totals->failed += app->failed;
  totals->stalls += app->stalls;
  totals->stall_time += app->stall_time;
  totals->missed += app->missed;
  totals->routes_dropped += app->routes_dropped;
  totals->series_dropped += app->series_dropped;
  totals->pools_dropped += app->pools_dropped;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) totals->sums[i] += app->sums[i];
}

/* Copies what the slot has counted of requests, the others behind the names; returns how many names
 * there are. A request is in the whole and in its route, or in neither, unless its writer never
 * rests, or sleeps or was killed in between: then it may be in its route only. */
static uint32_t copy_requests(ab_tally *self, const ab_page_parts *parts, ab_page_app *app) {
  uint32_t used = 0, count = parts->route_count;
  if (count > AB_PAGE_ROUTES) count = AB_PAGE_ROUTES;
  for (int i = 0; i < AB_SEQ_TRIES; i++) {
    uint32_t seq = ab_seq_begin(&parts->slot->app.seq);
    ab_words_get(app, &parts->slot->app, sizeof(*app));
    /* Acquire: what the whole has, the routes below have as well. Partner: the fence in
     * ab_page_count_ended. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    used = ab_page_routes_used(&parts->slot->app.routes, count);
    ab_words_get(self->copy, parts->routes, used * sizeof(*self->copy));
    if (count) ab_words_get(&self->copy[used], &parts->routes[count - 1], sizeof(*self->copy));
    if (ab_seq_holds(&parts->slot->app.seq, seq)) break;
  }
  return used;
}

/* Returns how many of `numbers` are known. */
static uint32_t add_requests(ab_tally *self, const ab_page_parts *parts) {
  ab_page_app app;
  uint32_t used = copy_requests(self, parts, &app);
  for (uint32_t i = 0; i < used; i++) {
    const ab_page_route *route = &self->copy[i];
    uint32_t len = route->name_len < AB_PAGE_ROUTE_NAME ? route->name_len : AB_PAGE_ROUTE_NAME;
    self->numbers[i] = number_of(self, i, route->name, len);
    add_route(&self->routes[self->numbers[i]], route);
  }
  if (parts->route_count) add_route(&self->routes[self->most], &self->copy[used]);
  add_app(&self->totals, &app);
  self->totals.missed += AB_GET(parts->slot->queue.missed);
  return used;
}

static int add_one(ab_tally *self, const ab_page_parts *parts, uint32_t i, uint32_t names) {
  ab_series_key key;
  if (!ab_series_key_of(parts->series, parts->series_count, i, 0, &key)) return AB_OK;
  bool other = i + AB_SERIES_KIND_COUNT >= parts->series_count;
  if (key.route != AB_SERIES_NO_ROUTE)
    key.route = key.route < names ? self->numbers[key.route] : self->most;
  ab_tally_series *series = series_of(self, other ? key_of_others(self, key.kind) : key);
  if (!series) return AB_ENOMEM;
  ab_cells_join(&series->cells, &parts->series[i].cells);
  /* Where none was noted, even a look would take memory. */
  bool noted = key.kind == AB_SERIES_REQUEST && AB_GET(parts->slot->app.exemplars) > 0;
  if (noted && i < parts->exemplar_count)
    ab_exemplars_join(&series->exemplars, &parts->exemplars[i]);
  return AB_OK;
}

/* --- pools --- */

/* The one of that name; NULL if there are too many. */
static ab_tally_pool *pool_of(ab_tally *self, const char *name, uint32_t len) {
  for (uint32_t i = 0; i < self->pool_count; i++) {
    ab_tally_pool *pool = &self->pools[i];
    if (pool->name_len == len && memcmp(pool->name, name, len) == 0) return pool;
  }
  if (self->pool_count == AB_TALLY_POOLS) return NULL;
  ab_tally_pool *pool = &self->pools[self->pool_count++];
  *pool = (ab_tally_pool){.name_len = len};
  memcpy(pool->name, name, len);
  return pool;
}

static void add_pool(ab_tally_pool *sum, const ab_page_pool *one, bool live) {
  if (live) {
    sum->pending += AB_GET(one->pending);
    sum->most += AB_GET(one->most);
    sum->used += AB_GET(one->used);
    sum->idle += AB_GET(one->idle);
  }
  sum->timeouts += AB_GET(one->timeouts);
  ab_cells_join(&sum->waits, &one->waits);
}

static int add_pools(ab_tally *self, const ab_page_parts *parts) {
  uint32_t used = ab_page_pools_used(&parts->slot->app.pools, parts->pool_count);
  if (used > 0 && !self->pools) {
    self->pools = ab_alloc_zero(self->mem, AB_TALLY_POOLS * sizeof(*self->pools));
    if (!self->pools) return AB_ENOMEM;
  }
  bool live = used > 0 && ab_page_is_live(ab_page_look(parts->slot).state);
  for (uint32_t i = 0; i < used; i++) {
    char name[AB_PAGE_POOL_NAME];
    uint32_t len = ab_page_pool_name(&parts->pools[i], name);
    ab_tally_pool *pool = pool_of(self, name, len);
    if (pool) add_pool(pool, &parts->pools[i], live);
  }
  return AB_OK;
}

/* --- all --- */

static int add_slot(ab_tally *self, const ab_page_parts *parts) {
  uint32_t count = parts->series_count;
  /* Before the names are read: each route of these series has its name by then. */
  uint32_t used = ab_series_used(&parts->slot->app.series, count);
  uint32_t names = add_requests(self, parts);
  for (uint32_t i = ab_series_skip(0, used, count); i < count;
       i = ab_series_skip(i + 1, used, count)) {
    int result = add_one(self, parts, i, names);
    if (result != AB_OK) return result;
  }
  int result = add_pools(self, parts);
  if (result != AB_OK) return result;
  self->totals.gc_time += AB_GET(parts->slot->process.gc_time);
  self->totals.gc_minor += AB_GET(parts->slot->process.gc_minor);
  self->totals.gc_major += AB_GET(parts->slot->process.gc_major);
  return AB_OK;
}

/* The routes are never less than they were, but the whole may lack what they have already. */
static void find_routeless(ab_tally *self) {
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) {
    uint64_t whole = self->totals.sums[i], sum = 0;
    for (uint32_t j = 0; j <= self->most; j++) sum += self->routes[j].sums[i];
    if (whole > sum && whole - sum > self->routeless[i]) self->routeless[i] = whole - sum;
  }
}

int ab_tally_take(ab_tally *self, const ab_page *page) {
  clear(self);
  for (uint32_t i = 0; i < ab_page_size(page); i++) {
    ab_page_parts parts = ab_page_parts_of(page, i);
    /* Relaxed: in a slot that nobody has taken yet, nothing is counted. */
    if (AB_GET(parts.slot->holder) == 0) continue;
    int result = add_slot(self, &parts);
    if (result != AB_OK) return result;
  }
  find_routeless(self);
  return AB_OK;
}
