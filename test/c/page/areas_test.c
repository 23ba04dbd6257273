/* The areas of a slot over the deaths of its processes: what is in flight goes with each, no
 * counter falls, no row leaks, and histograms agree with what was counted. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "page/look.h"
#include "page/rows.h"

static const ab_page_time start = {1000, 2000};
static const ab_page_options options = {2, 40, 10};

/* A worker's own tables. */
typedef struct worker {
  ab_page_parts parts;
  ab_rows rows, queued;
  ab_page_routes routes;
  ab_series_table series;
  ab_page_clients clients;
  ab_nsec now;
} worker;

static void worker_init(worker *self, ab_page *page, uint32_t index) {
  self->parts = ab_page_parts_of(page, index);
  ab_page_parts *parts = &self->parts;
  ab_page_app *app = &parts->slot->app;
  ab_page_queue *queue = &parts->slot->queue;
  CHECK_INT(AB_OK, ab_rows_init(&self->rows, &ab_mem_libc, parts->rows, parts->row_count,
                                &app->mark, &app->missed));
  CHECK_INT(AB_OK, ab_rows_init(&self->queued, &ab_mem_libc, parts->queued, parts->queued_count,
                                &queue->mark, &queue->missed));
  ab_page_routes_over(&self->routes, parts->routes, parts->route_count, 64, &app->routes,
                      &app->routes_dropped);
  ab_series_table_over(&self->series, parts->series, parts->series_count, &app->series,
                       &app->series_dropped);
  ab_page_clients_over(&self->clients, parts->clients, parts->client_count);
  self->now = AB_NSEC_PER_SEC;
}

static void worker_fini(worker *self) {
  ab_rows_fini(&self->rows);
  ab_rows_fini(&self->queued);
}

/* All that happens to a request, by every writer. `told` counts before it is counted. */
static void serve(worker *self, uint64_t n, uint64_t *told) {
  ab_page_parts *parts = &self->parts;
  ab_addr peer = {.bytes = {10, 0, 0, (uint8_t)n}, .family = 4};
  ab_row_start row_start = {.id = n, .began = self->now, .peer = &peer, .path = {"/a/b", 4}};
  ab_row *waits = ab_rows_take(&self->queued), *row = ab_rows_take(&self->rows);
  ab_row_begin(waits, &row_start);
  ab_row_begin(row, &row_start);
  ab_rows_give(&self->queued, waits);
  ab_loop_line_turn(&parts->loops[0], AB_LOOP_STATE_BUSY, 0, self->now, 0);
  ab_row_turn(row, AB_STATE_RUN, self->now += 1000);
  ab_row_wait(row, AB_STATE_DB, &peer, self->now += 5000);
  ab_row_turn(row, AB_STATE_RUN, self->now += 2 * AB_NSEC_PER_MS);
  char name[16];
  int len = snprintf(name, sizeof name, "/r/%u", (unsigned)(n % 100));
  uint32_t route = ab_page_routes_find(&self->routes, NULL, (ab_view){name, (size_t)len});
  ab_series_key key = {.kind = AB_SERIES_REQUEST, .method = n % 9, .status = 200, .route = route};
  ab_series *series = ab_series_find(&self->series, key);
  __atomic_fetch_add(told, 1, __ATOMIC_SEQ_CST);
  ab_series_add(series, n * 1000003 % (AB_NSEC_PER_SEC * 200));
  ab_page_route_add(&parts->routes[route], row, false);
  ab_row_add_sums(parts->slot->app.sums, row);
  AB_ADD(parts->slot->app.ended, 1);
  ab_kept_add(parts->kept, parts->kept_count, &parts->slot->app.kept, row, AB_KEPT_SLOW);
  ab_page_event event = {.kind = AB_PAGE_EVENT_STALL, .when = self->now, .id = n};
  ab_page_event_write(parts->events, parts->event_count, &parts->slot->events, &event,
                      (ab_view){"a text", 6});
  ab_page_clients_count(&self->clients, &peer, &(ab_page_client_request){.bytes = 5});
  if (n % 3) ab_rows_give(&self->rows, row); /* others stay in flight */
}

static void serve_until_killed(ab_page *page, uint64_t *told) {
  static worker self;
  /* Behind those before it, so that there are more series than room, however slow all are. */
  for (uint64_t n = *told;;) {
    if (ab_page_claim(page, 0, 0, start) != AB_OK) _exit(1);
    ab_page_set_state(page, 0, AB_PAGE_SERVING);
    worker_init(&self, page, 0);
    ab_loop_line_begin(&self.parts.loops[0], AB_LOOP_MAIN, 1, self.now);
    for (int i = 0; i < 60; i++) serve(&self, n++, told);
    worker_fini(&self);
  }
}

typedef struct sums {
  uint64_t requests, plain, fine, ended, dropped, missed, kept, events, by_route, states, loops;
} sums;

static sums look(const ab_page *page) {
  ab_page_parts parts = ab_page_parts_of(page, 0);
  const ab_page_app *app = &parts.slot->app;
  ab_cells cells = {.sum = 0};
  ab_page_requests(&parts, &cells);
  ab_cells_view view = ab_cells_view_of(&cells);
  sums sums = {.requests = view.count,
               .fine = view.least + view.most,
               .ended = AB_GET(app->ended),
               .dropped = AB_GET(app->series_dropped),
               .missed = AB_GET(app->missed),
               .kept = AB_GET(app->kept),
               .events = AB_GET(parts.slot->events)};
  for (unsigned i = 0; i < AB_CELLS_PLAIN; i++) sums.plain += view.plain[i];
  for (unsigned i = 0; i < AB_CELLS_FINE; i++) sums.fine += view.fine[i];
  for (uint32_t i = 0; i < parts.route_count; i++)
    sums.by_route += AB_GET(parts.routes[i].requests);
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) sums.states += AB_GET(app->sums[i]);
  for (unsigned i = 0; i < AB_LOOP_STATE_COUNT; i++) sums.loops += AB_GET(parts.loops[0].sums[i]);
  return sums;
}

static bool none_fell(const sums *before, const sums *after) {
  const uint64_t *a = (const uint64_t *)before, *b = (const uint64_t *)after;
  for (size_t i = 0; i < sizeof(sums) / sizeof(uint64_t); i++) {
    if (b[i] < a[i]) return false;
  }
  return true;
}

static void has_nothing_in_flight(const ab_page *page) {
  ab_page_parts parts = ab_page_parts_of(page, 0);
  ab_page_states states = ab_page_states_of(&parts);
  ab_row row;
  ab_loop_line line;
  ab_page_client client;
  for (unsigned i = 0; i < AB_STATE_COUNT; i++) CHECK_INT(0, states.now[i]);
  for (uint32_t i = 0; i < parts.row_count; i++) {
    CHECK(!ab_row_load(&parts.rows[i], &row));
    CHECK_INT(0, parts.rows[i].touched);
    for (unsigned j = 0; j < AB_STATE_COUNT; j++) CHECK_INT(0, parts.rows[i].sums[j]);
  }
  for (uint32_t i = 0; i < parts.queued_count; i++) CHECK(!ab_row_load(&parts.queued[i], &row));
  for (uint32_t i = 0; i < parts.loop_count; i++) CHECK(!ab_loop_line_load(&parts.loops[i], &line));
  for (uint32_t i = 0; i < parts.client_count; i++)
    CHECK(!ab_page_client_load(&parts.clients[i], &client));
}

/* 200 deaths: wherever a process is killed, of what it told at most the last is not counted. */
CHECK_CASE(workers_are_killed_anywhere) {
  ab_page *page = ab_page_create(&ab_mem_libc, &options, start);
  uint64_t *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != NULL && told != MAP_FAILED);
  uint64_t missing = 0, last = 0;
  sums before = look(page);
  for (int i = 0; i < 200; i++) {
    pid_t pid = fork();
    if (pid == 0) serve_until_killed(page, told);
    while (__atomic_load_n(told, __ATOMIC_SEQ_CST) < last + 20 + (uint64_t)i) {
      sums now = look(page);
      CHECK(none_fell(&before, &now));
      before = now;
    }
    CHECK_INT(0, kill(pid, SIGKILL));
    CHECK_INT(pid, waitpid(pid, NULL, 0));
    last = *told;
    sums now = look(page);
    CHECK(none_fell(&before, &now));
    CHECK(last - missing - now.requests <= 1);
    missing = last - now.requests;
    CHECK_INT(now.requests, now.plain);
    CHECK_INT(now.requests, now.fine);
    /* Counters that are stored after another may lack one for each death. */
    CHECK(now.requests - now.by_route <= (uint64_t)i + 1);
    CHECK(now.by_route - now.ended <= (uint64_t)i + 1);
    before = now;
  }
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, start));
  has_nothing_in_flight(page);
  sums now = look(page);
  CHECK(none_fell(&before, &now));
  CHECK(now.dropped > 0 && now.missed == 0 && now.events > 0 && now.loops > 0);
  munmap(told, 4096);
  ab_page_drop(page);
}

/* As a claim leaves a slot whose process is killed in it: the next one does it all. */
CHECK_CASE(a_claim_clears_what_was_in_flight) {
  ab_page *page = ab_page_create(&ab_mem_libc, &options, start);
  uint64_t told = 0;
  worker self;
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, start));
  for (int round = 0; round < 3; round++) {
    worker_init(&self, page, 0);
    ab_loop_line_begin(&self.parts.loops[0], AB_LOOP_MAIN, 1, self.now);
    for (uint64_t n = 0; n < 60; n++) serve(&self, n, &told);
    worker_fini(&self);
    sums before = look(page);
    AB_PUT(self.parts.slot->process.fibers, 9);
    for (uint32_t i = 0; i < 20; i++) ab_row_open(&self.parts.rows[i]);
    if (round == 1) AB_PUT(self.parts.slot->app.mark, UINT32_MAX); /* a fault */
    CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, start));
    has_nothing_in_flight(page);
    CHECK_INT(0, self.parts.slot->process.fibers);
    CHECK_INT(0, self.parts.slot->app.mark);
    sums after = look(page);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
  }
  ab_page_drop(page);
}

CHECK_CASE(totals_for_the_history) {
  ab_page *page = ab_page_create(&ab_mem_libc, &options, start);
  uint64_t told = 0;
  worker self;
  CHECK_INT(AB_OK, ab_page_claim(page, 0, 0, start));
  worker_init(&self, page, 0);
  for (uint64_t n = 0; n < 10; n++) serve(&self, n, &told);
  worker_fini(&self);
  self.parts.slot->figures.in_app = 4;
  self.parts.slot->figures.rejected[AB_REJECT_QUEUE_FULL] = 3;
  self.parts.slot->app.failed = 2;
  ab_history_totals totals = ab_page_totals(&self.parts);
  CHECK_INT(13, totals.requests); /* what was rejected is a request, too */
  CHECK_INT(5, totals.failed);
  CHECK_INT(4, totals.in_app);
  CHECK_INT(10 * 2 * AB_NSEC_PER_MS, totals.db);
  CHECK_INT(4, ab_page_states_of(&self.parts).now[AB_STATE_RUN]);
  CHECK_INT(4, ab_page_rows_marked(&self.parts));
  CHECK_INT(1, ab_page_queued_marked(&self.parts));
  ab_page_drop(page);
}

CHECK_MAIN()
