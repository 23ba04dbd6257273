/* Threads write in all areas while others read them; ThreadSanitizer looks on as well (`rake
 * races`). */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "page/ended.h"
#include "page/look.h"
#include "page/opens.h"
#include "page/tally.h"

#define ROUNDS 20000

typedef struct stage {
  ab_page *page;
  ab_page_parts parts;
  uint64_t counted; /* requests that all cells have */
  unsigned running; /* threads that write */
  unsigned seen, wrong;
} stage;

static void count(unsigned *number) {
  __atomic_fetch_add(number, 1, __ATOMIC_RELAXED);
}

/* --- writers: all numbers of a record follow from one --- */

static void note_exemplar(stage *self, ab_row *row, uint64_t n) {
  ab_trace trace = {.sampled = true};
  memset(trace.trace, (int)(n % 255 + 1), sizeof trace.trace);
  memset(trace.span, (int)(n % 255 + 1), sizeof trace.span);
  ab_row_set_trace(row, &trace);
  if (self->parts.exemplar_count > 0) ab_exemplars_note(self->parts.exemplars, row);
}

static void write_app(stage *self) {
  static ab_page_routes routes;
  static ab_series_table series;
  ab_page_parts *parts = &self->parts;
  ab_page_app *app = &parts->slot->app;
  ab_page_routes_over(&routes, parts->routes, parts->route_count, 64, &app->routes,
                      &app->routes_dropped);
  ab_series_table_over(&series, parts->series, parts->series_count, &app->series,
                       &app->series_dropped);
  ab_row row = {.seq = 0};
  for (uint64_t n = 1; n <= ROUNDS; n++) {
    char name[16];
    int len = snprintf(name, sizeof name, "/%u", (unsigned)(n % 80));
    ab_row_begin(&row, &(ab_row_start){.id = n, .began = n, .path = {name, (size_t)len}});
    ab_row_turn(&row, AB_STATE_RUN, 2 * n);
    uint32_t route = ab_page_routes_find(&routes, NULL, (ab_view){name, (size_t)len});
    ab_page_count_ended(parts, &row, route, false);
    ab_series_key key = {.kind = AB_SERIES_REQUEST, .status = 200, .route = route};
    ab_series_add(ab_series_find(&series, key), n);
    note_exemplar(self, &row, n);
    ab_kept_add(parts->kept, parts->kept_count, &app->kept, &row, AB_KEPT_SLOW);
    __atomic_store_n(&self->counted, n, __ATOMIC_RELEASE);
  }
}

/* What is used, idle and most are of one look, which readers may see halves of. */
static void write_pools(stage *self) {
  ab_page_app *app = &self->parts.slot->app;
  for (uint32_t n = 1; n <= ROUNDS; n++) {
    char name[16];
    int len = snprintf(name, sizeof name, "pool %u", n % 20);
    ab_page_pool *pool = ab_page_pool_find(self->parts.pools, self->parts.pool_count, &app->pools,
                                           (ab_view){name, (size_t)len});
    if (!pool) continue;
    ab_page_pool_enter(pool);
    ab_page_pool_show(pool, n, n, n);
    ab_cells_add(&pool->waits, n);
    ab_page_pool_leave(pool);
  }
}

static void write_loop(stage *self) {
  ab_loop_line *line = self->parts.loops;
  ab_loop_line_begin(line, AB_LOOP_MAIN, 1, 0);
  for (uint32_t n = 1; n <= ROUNDS; n++) {
    ab_loop_line_turn(line, AB_LOOP_STATE_BUSY, n, n, 0);
    ab_loop_line_tick(line);
  }
  ab_loop_line_end(line, ROUNDS + 1);
}

static void write_events(stage *self) {
  for (uint64_t n = 1; n <= ROUNDS; n++) {
    ab_page_event event = {.when = n, .id = n, .time = n, .pid = (uint32_t)n};
    ab_page_event_write(self->parts.events, self->parts.event_count, &self->parts.slot->events,
                        &event, (ab_view){"text", n % 4});
  }
}

static void write_history(stage *self) {
  static ab_history history;
  static ab_cells cells;
  ab_history_totals totals = {.requests = 0};
  ab_page_parts *parts = &self->parts;
  ab_history_over(&history, parts->seconds, parts->second_count, parts->tens, parts->ten_count,
                  &totals, &cells);
  for (uint32_t n = 1; n <= ROUNDS / 10; n++) {
    totals.in_app = totals.waiting = totals.connections = n;
    ab_history_tick(&history, n * AB_NSEC_PER_SEC, &totals, &cells);
  }
}

static void write_clients(stage *self) {
  static ab_page_clients clients;
  static ab_opens opens;
  ab_page_clients_over(&clients, self->parts.clients, self->parts.client_count);
  for (uint32_t n = 1; n <= ROUNDS; n++) {
    ab_addr peer = {.bytes = {(uint8_t)(n >> 8), (uint8_t)n}, .family = 4};
    ab_page_client_request request = {.bytes = peer.bytes[0] * 256u + peer.bytes[1]};
    ab_page_clients_count(&clients, &peer, &request);
    ab_opens_show(&opens, self->parts.clients, self->parts.client_count);
  }
}

/* --- readers --- */

static void read_loop_and_clients(stage *self) {
  ab_loop_line line;
  ab_page_client client;
  if (ab_loop_line_load(self->parts.loops, &line)) {
    count(&self->seen);
    if (line.state == AB_LOOP_STATE_BUSY && line.row != line.since) count(&self->wrong);
  }
  for (uint32_t i = 0; i < self->parts.client_count; i++) {
    if (!ab_page_client_load(&self->parts.clients[i], &client)) continue;
    uint64_t own = client.addr.bytes[0] * 256u + client.addr.bytes[1];
    /* Each counter is for itself, and all are of this address, which comes once (clients.h). */
    if (client.requests - client.over > 1 || (client.bytes && client.bytes != own))
      count(&self->wrong);
  }
}

static void read_rings(stage *self) {
  const uint64_t *next = &self->parts.slot->app.kept;
  uint64_t events = AB_GET(self->parts.slot->events), kept = ab_kept_next(next);
  ab_page_event event;
  ab_row row;
  for (uint64_t n = events > 20 ? events - 20 : 0; n < events; n++) {
    if (!ab_page_event_load(self->parts.events, self->parts.event_count, n, &event)) continue;
    count(&self->seen);
    bool fits = event.when == event.id && event.time == event.id && event.pid == event.id;
    if (!fits || event.text_len != event.id % 4) count(&self->wrong);
  }
  for (uint64_t n = kept > 20 ? kept - 20 : 0; n < kept; n++) {
    if (!ab_kept_load(self->parts.kept, self->parts.kept_count, n, &row)) {
      if (ab_kept_next(next) < n + self->parts.kept_count) count(&self->wrong);
      continue;
    }
    count(&self->seen);
    if (row.id != n + 1 || row.began != row.id || row.sums[AB_STATE_PROXY] != row.id)
      count(&self->wrong);
  }
}

static void read_sums(stage *self) {
  ab_cells cells = {.sum = 0};
  char name[AB_PAGE_ROUTE_NAME];
  uint64_t before = __atomic_load_n(&self->counted, __ATOMIC_ACQUIRE);
  ab_page_requests(&self->parts, &cells);
  if (ab_cells_count(&cells) < before) count(&self->wrong);
  uint32_t used = ab_page_routes_used(&self->parts.slot->app.routes, self->parts.route_count);
  for (uint32_t i = 0; i < used; i++) {
    uint32_t len = ab_page_route_name(&self->parts.routes[i], name);
    if (len < 2 || len > 3 || name[0] != '/') count(&self->wrong);
  }
  for (uint32_t tick = 1; tick < 600; tick++) {
    ab_history_record record;
    if (!ab_history_load(self->parts.seconds, self->parts.second_count, tick, &record)) continue;
    if (record.values.in_app != tick || record.values.connections != tick) count(&self->wrong);
  }
}

static void read_pools(stage *self) {
  uint32_t used = ab_page_pools_used(&self->parts.slot->app.pools, self->parts.pool_count);
  for (uint32_t i = 0; i < used; i++) {
    const ab_page_pool *pool = &self->parts.pools[i];
    char name[AB_PAGE_POOL_NAME];
    uint32_t len = ab_page_pool_name(pool, name);
    if (len < 6 || memcmp(name, "pool ", 5) != 0) count(&self->wrong);
    if (AB_GET(pool->pending) > 1 || AB_GET(pool->used) > ROUNDS) count(&self->wrong);
  }
}

/* Sums over slots, as a scrape takes them. */
static void tally(stage *self, ab_tally *tally) {
  uint64_t before = tally->pool_count ? ab_cells_count(&tally->pools[0].waits) : 0;
  if (ab_tally_take(tally, self->page) != AB_OK) count(&self->wrong);
  if (tally->pool_count && ab_cells_count(&tally->pools[0].waits) < before) count(&self->wrong);
}

static void read_exemplars(stage *self) {
  ab_exemplars newest = {.of[0].seq = 0};
  if (self->parts.exemplar_count > 0) ab_exemplars_join(&newest, self->parts.exemplars);
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) {
    const ab_exemplar *one = &newest.of[i];
    if (!one->at) continue;
    count(&self->seen);
    bool fits = one->at == 2 * one->time && one->trace[0] == one->time % 255 + 1;
    if (!fits || one->trace[15] != one->trace[0] || one->span[7] != one->trace[0])
      count(&self->wrong);
  }
}

static void *read_all(void *arg) {
  stage *self = arg;
  ab_tally sums;
  if (ab_tally_init(&sums, &ab_mem_libc, 64) != AB_OK) count(&self->wrong);
  while (__atomic_load_n(&self->running, __ATOMIC_ACQUIRE) > 0) {
    read_loop_and_clients(self);
    read_rings(self);
    read_sums(self);
    read_pools(self);
    tally(self, &sums);
    read_exemplars(self);
  }
  ab_tally_fini(&sums);
  return NULL;
}

/* --- together --- */

typedef struct part {
  stage *stage;
  void (*write)(stage *stage);
} part;

static void *write_part(void *arg) {
  part *self = arg;
  self->write(self->stage);
  __atomic_fetch_sub(&self->stage->running, 1, __ATOMIC_RELEASE);
  return NULL;
}

CHECK_CASE(readers_see_whole_records) {
  /* Events have two writers. */
  void (*const writers[])(stage *) = {write_app,    write_pools,   write_loop,   write_events,
                                      write_events, write_history, write_clients};
  enum { WRITERS = sizeof writers / sizeof *writers };
  unsigned seen = 0;
  while (seen < 1000) {
    stage self = {.running = WRITERS};
    self.page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, (ab_page_time){1, 1});
    CHECK(self.page != NULL);
    CHECK_INT(AB_OK, ab_page_claim(self.page, 0, 0, (ab_page_time){1, 1}));
    self.parts = ab_page_parts_of(self.page, 0);
    pthread_t threads[WRITERS + 1];
    part parts[WRITERS];
    CHECK_INT(0, pthread_create(&threads[WRITERS], NULL, read_all, &self));
    for (int j = 0; j < WRITERS; j++) {
      parts[j] = (part){&self, writers[j]};
      CHECK_INT(0, pthread_create(&threads[j], NULL, write_part, &parts[j]));
    }
    for (int j = 0; j <= WRITERS; j++) pthread_join(threads[j], NULL);
    CHECK_INT(0, self.wrong);
    seen += self.seen;
    ab_page_drop(self.page);
  }
}

/* --- a writer that never rests: no reader finds a moment in which nothing is being counted --- */

static void *count_requests(void *arg) {
  stage *self = arg;
  const ab_row row = {.touched = 1u << AB_STATE_RUN, .sums[AB_STATE_RUN] = 1000};
  for (uint64_t n = 1; __atomic_load_n(&self->running, __ATOMIC_RELAXED) > 0; n++) {
    ab_page_count_ended(&self->parts, &row, (uint32_t)(n % self->parts.route_count), false);
    __atomic_store_n(&self->counted, n, __ATOMIC_RELEASE);
  }
  return NULL;
}

static uint64_t requests_of_routes(const ab_tally *tally) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i <= tally->most; i++) sum += tally->routes[i].requests;
  return sum;
}

static void name_all(ab_page_parts *parts) {
  static ab_page_routes routes;
  ab_page_app *app = &parts->slot->app;
  ab_page_routes_over(&routes, parts->routes, parts->route_count, 64, &app->routes,
                      &app->routes_dropped);
  for (unsigned i = 0; i < 64; i++) {
    char name[16];
    ab_page_routes_find(&routes, NULL, (ab_view){name, (size_t)snprintf(name, 16, "/%u", i)});
  }
}

static uint64_t counted(const stage *self) {
  return __atomic_load_n(&self->counted, __ATOMIC_ACQUIRE);
}

/* All requests have routes. */
CHECK_CASE(a_writer_that_never_rests) {
  stage self = {.running = 1};
  pthread_t writer;
  ab_tally sums;
  self.page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 1}, (ab_page_time){1, 1});
  CHECK(self.page != NULL);
  CHECK_INT(AB_OK, ab_page_claim(self.page, 0, 0, (ab_page_time){1, 1}));
  self.parts = ab_page_parts_of(self.page, 0);
  name_all(&self.parts);
  CHECK_INT(AB_OK, ab_tally_init(&sums, &ab_mem_libc, 64));
  CHECK_INT(0, pthread_create(&writer, NULL, count_requests, &self));
  while (counted(&self) == 0) sched_yield();
  /* At least one taking beside a writer that goes on. */
  for (int i = 0; i < 200 || self.seen == 0; i++) {
    uint64_t before = counted(&self), last = sums.totals.ended;
    CHECK_INT(AB_OK, ab_tally_take(&sums, self.page));
    if (counted(&self) > before + 100) self.seen++;
    if (sums.totals.ended < before || sums.totals.ended < last) count(&self.wrong);
    if (requests_of_routes(&sums) < sums.totals.ended || sums.routeless[AB_STATE_RUN] > 0)
      count(&self.wrong);
  }
  __atomic_store_n(&self.running, 0, __ATOMIC_RELAXED);
  pthread_join(writer, NULL);
  CHECK_INT(0, self.wrong);
  ab_tally_fini(&sums);
  ab_page_drop(self.page);
}

CHECK_MAIN()
