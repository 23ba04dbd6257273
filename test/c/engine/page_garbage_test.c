/* Another process writes anything into the page before each turn. The worker decides by its own
 * memory: it answers everybody, and keeps its limits. */
#include "engine/balance.h"
#include "engine/fixture.h"
#include "engine/hold.h"
#include "page/opens.h"
#include "random.h"

#define GET(path)     "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " #n "\r\n\r\n"
#define CLIENTS       20

static uint64_t state = 1;

typedef struct worker {
  fixture fx;
  ab_page *page;
  ab_rows rows;
  ab_opens opens;
  int clients[CLIENTS];
} worker;

static void worker_init(worker *self) {
  self->page = ab_page_create(&ab_mem_libc, &(ab_page_options){.slots = 3, .rows = 8, .queued = 8},
                              (ab_page_time){1, 1});
  ab_page_parts parts = ab_page_parts_of(self->page, 0);
  self->opens = (ab_opens){0};
  fixture_prepare(&self->fx);
  self->fx.stats = &parts.slot->figures;
  CHECK(fixture_start(&self->fx));
  CHECK_INT(AB_OK, ab_rows_init(&self->rows, &ab_mem_libc, parts.queued, parts.queued_count,
                                &parts.slot->queue.mark, &parts.slot->queue.missed));
  ab_engine_show_queue(self->fx.engine, &self->rows);
  ab_engine_show_opens(self->fx.engine, &self->opens);
  const ab_siblings siblings = {.page = self->page, .own = 0, .moves = true};
  CHECK_INT(AB_OK, ab_engine_join(self->fx.engine, &siblings));
}

static void worker_fini(worker *self) {
  for (int i = 0; i < CLIENTS; i++) close(self->clients[i]);
  fixture_fini(&self->fx);
  ab_rows_fini(&self->rows);
  ab_page_drop(self->page);
}

/* Half of it is what a process may have written: few bits are set. */
static void spoil(void *ptr, size_t size, unsigned way) {
  unsigned char *bytes = ptr;
  for (size_t i = 0; i < size; i++) {
    uint64_t any = random_next(&state);
    bytes[i] = (unsigned char)(way < 2 ? way * 255 : way == 2 ? any : any & any >> 8 & any >> 16);
  }
}

static void spoil_page(worker *self) {
  unsigned way = (unsigned)random_below(&state, 4);
  ab_page_parts parts = ab_page_parts_of(self->page, 0);
  spoil(parts.queued, parts.queued_count * sizeof *parts.queued, way);
  spoil(parts.clients, parts.client_count * sizeof *parts.clients, way);
  for (uint32_t i = 0; i < ab_page_size(self->page); i++) {
    ab_page_slot *slot = ab_page_slot_of(self->page, i);
    spoil(slot, sizeof *slot, way);
    if (i > 0 && way != 1) slot->state = AB_PAGE_SERVING; /* it seems to be a sibling */
  }
}

/* Some turns with garbage before each, while time passes. */
static void turns(worker *self, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    spoil_page(self);
    self->fx.now += AB_NSEC_PER_MS;
    fixture_turn(&self->fx);
    spoil_page(self);
    ab_engine_deadline(self->fx.engine);
  }
}

static void ask(worker *self, const char *request) {
  for (int i = 0; i < CLIENTS; i++) {
    self->clients[i] = client_open(&self->fx);
    client_send(self->clients[i], request);
  }
}

static unsigned answered(worker *self, const char *what) {
  unsigned count = 0;
  for (int i = 0; i < CLIENTS; i++)
    count += strstr(client_read(self->clients[i], NULL), what) != NULL;
  return count;
}

CHECK_CASE(all_are_answered) {
  for (unsigned round = 0; round < 20; round++) {
    worker one;
    worker_init(&one);
    ask(&one, GET("/a"));
    turns(&one, 60); /* what has gone to siblings that are none comes back */
    CHECK_INT(CLIENTS, answered(&one, "200 OK"));
    CHECK_INT(0, stats_of(&one.fx).waiting);
    worker_fini(&one);
  }
}

CHECK_CASE(the_queue_has_its_limit) {
  for (unsigned round = 0; round < 20; round++) {
    worker one;
    worker_init(&one);
    ab_engine_part(one.fx.engine); /* or requests that wait would move */
    ab_engine_set_queue(one.fx.engine, 0, 3);
    one.fx.mute = true;
    ask(&one, GET("/a"));
    turns(&one, 10);
    CHECK_INT(3, stats_of(&one.fx).waiting);
    CHECK_INT(CLIENTS - 3, answered(&one, "503 Service"));
    one.fx.mute = false;
    turns(&one, 10);
    CHECK_INT(3, answered(&one, "200 OK"));
    worker_fini(&one);
  }
}

CHECK_CASE(places_have_their_limit) {
  worker one;
  worker_init(&one);
  ab_engine_part(one.fx.engine);
  ab_engine_set_queue(one.fx.engine, 2, 0);
  one.fx.hold = true;
  ask(&one, GET("/a"));
  turns(&one, 5);
  CHECK_INT(CLIENTS, stats_of(&one.fx).in_app); /* in the first step, nobody has waited */
  CHECK(ab__engine_crowded(one.fx.engine));
  CHECK(ab__engine_full(one.fx.engine));
  for (int i = CLIENTS; i > 0; i--) answer_held(&one.fx, 0, "x");
  turns(&one, 5);
  CHECK_INT(CLIENTS, answered(&one, "200 OK"));
  CHECK(!ab__engine_crowded(one.fx.engine));
  CHECK_INT(one.fx.now, ab_engine_idle_since(one.fx.engine) + 5 * AB_NSEC_PER_MS);
  worker_fini(&one);
}

static enum ab_buffering buffer_all(void *ctx AB_UNUSED, ab_view path AB_UNUSED) {
  return AB_BUFFER_ANY;
}

CHECK_CASE(bodies_are_buffered_as_far_as_there_is_room) {
  worker one;
  worker_init(&one);
  ab_engine_part(one.fx.engine);
  ab_engine_buffer_bodies(one.fx.engine, buffer_all, NULL, 1000);
  ask(&one, POST("/a", 4) "ab");
  turns(&one, 5);
  CHECK_INT(CLIENTS, stats_of(&one.fx).bodies.coming);
  CHECK_INT(2 * CLIENTS, stats_of(&one.fx).bodies.bytes);
  CHECK_INT(0, one.fx.taken);
  for (int i = 0; i < CLIENTS; i++) client_send(one.clients[i], "cd");
  turns(&one, 5);
  CHECK_INT(CLIENTS, answered(&one, "/a:abcd"));
  CHECK_INT(0, stats_of(&one.fx).bodies.coming);
  CHECK_INT(0, stats_of(&one.fx).bodies.bytes);
  worker_fini(&one);
}

CHECK_CASE(requests_that_are_held_back_go_on) {
  worker one;
  worker_init(&one);
  ab_engine_part(one.fx.engine);
  CHECK_INT(AB_OK, ab_engine_hold(one.fx.engine, 7));
  ab_engine_lock(one.fx.engine);
  ab_engine_pool_load(one.fx.engine, 1, 2, 5);
  ab_engine_pool_wait(one.fx.engine, 1, (ab_view){"/a", 2});
  ab_engine_unlock(one.fx.engine);
  ask(&one, GET("/a"));
  turns(&one, 5);
  CHECK_INT(CLIENTS, stats_of(&one.fx).held);
  CHECK_INT(0, one.fx.taken);
  ab_engine_lock(one.fx.engine);
  CHECK(ab_engine_pool_load(one.fx.engine, 1, 100, 0));
  ab_engine_unlock(one.fx.engine);
  turns(&one, 5);
  CHECK_INT(CLIENTS, answered(&one, "200 OK"));
  CHECK_INT(0, stats_of(&one.fx).held);
  worker_fini(&one);
}

/* What there is now stands in the page again, with the next heartbeat. */
CHECK_CASE(the_page_is_put_right) {
  worker one;
  worker_init(&one);
  ab_engine_part(one.fx.engine);
  one.fx.mute = true;
  ask(&one, GET("/a"));
  turns(&one, 2);
  CHECK_INT(one.fx.now, ab_engine_show_now(one.fx.engine));
  CHECK_INT(CLIENTS, one.fx.stats->waiting);
  CHECK_INT(CLIENTS, one.fx.stats->connections);
  CHECK_INT(0, one.fx.stats->in_app);
  CHECK_INT(0, one.fx.stats->bodies.bytes);
  one.fx.mute = false;
  fixture_run(&one.fx);
  worker_fini(&one);
}

CHECK_MAIN()
