/* Requests counted: by state, and by what they wait for. */
#include "check.h"
#include "page/look.h"
#include "page/rows.h"
#include "page/crowd.h"

#define MS AB_NSEC_PER_MS

static const ab_page_time start = {1000, 2000};

typedef struct stage {
  ab_page *page;
  ab_page_parts parts;
  ab_rows rows, queued;
} stage;

static void list_over(ab_rows *list, ab_row *rows, uint32_t count, uint32_t *mark,
                      uint64_t *missed) {
  CHECK_INT(AB_OK, ab_rows_init(list, &ab_mem_libc, rows, count, mark, missed));
}

static void stage_init(stage *self) {
  self->page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 200, 4}, start);
  CHECK_INT(AB_OK, ab_page_claim(self->page, 0, 0, start));
  ab_page_set_state(self->page, 0, AB_PAGE_SERVING);
  self->parts = ab_page_parts_of(self->page, 0);
  ab_page_parts *parts = &self->parts;
  list_over(&self->rows, parts->rows, parts->row_count, &parts->slot->app.mark,
            &parts->slot->app.missed);
  list_over(&self->queued, parts->queued, parts->queued_count, &parts->slot->queue.mark,
            &parts->slot->queue.missed);
}

static void stage_fini(stage *self) {
  ab_rows_fini(&self->rows);
  ab_rows_fini(&self->queued);
  ab_page_drop(self->page);
}

/* A request that has run for a millisecond, and waits since the second one. */
static ab_row *begin(ab_rows *rows, enum ab_state state, uint8_t peer) {
  ab_addr addr = {.bytes = {10, 0, 0, peer}, .port = 5432, .family = 4};
  ab_row *row = ab_rows_take(rows);
  ab_row_begin(row, &(ab_row_start){.id = 7, .began = 1 * MS, .state = AB_STATE_RUN});
  if (peer)
    ab_row_wait(row, state, &addr, 2 * MS);
  else
    ab_row_turn(row, state, 2 * MS);
  return row;
}

CHECK_CASE(states_and_times) {
  stage self;
  ab_crowd crowd;
  stage_init(&self);
  begin(&self.rows, AB_STATE_DB, 9);
  begin(&self.rows, AB_STATE_DB, 9);
  begin(&self.rows, AB_STATE_DB, 8);
  begin(&self.rows, AB_STATE_LOCK, 0);
  ab_row *ended = begin(&self.rows, AB_STATE_DB, 9);
  ab_rows_give(&self.rows, ended);
  begin(&self.queued, AB_STATE_QUEUE, 0);
  ab_page_crowd(&self.parts, 12 * MS, &crowd);
  CHECK_INT(3, crowd.now[AB_STATE_DB]);
  CHECK_INT(1, crowd.now[AB_STATE_QUEUE]);
  CHECK_INT(0, crowd.now[AB_STATE_RUN]);
  CHECK_INT(30 * MS, crowd.sums[AB_STATE_DB]);
  CHECK_INT(5 * MS, crowd.sums[AB_STATE_RUN]);
  CHECK_INT(4, crowd.wait_count);
  CHECK_INT(2, crowd.waits[0].count);
  CHECK_INT(9, crowd.waits[0].peer.bytes[3]);
  CHECK_INT(10 * MS, crowd.waits[0].longest);
  CHECK_INT(AB_STATE_LOCK, crowd.waits[2].state);
  CHECK_INT(0, crowd.waits[2].peer.family);
  ab_page_crowd(&self.parts, 1 * MS, &crowd); /* another clock */
  CHECK_INT(0, crowd.sums[AB_STATE_DB]);
  stage_fini(&self);
}

/* More peers than there is room for count without one, and each state has its place. */
CHECK_CASE(many_peers) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  stage self;
  ab_crowd crowd;
  stage_init(&self);
  for (unsigned i = 1; i <= 150; i++) begin(&self.rows, AB_STATE_HTTP, (uint8_t)i);
  begin(&self.rows, AB_STATE_DB, 200);
  begin(&self.rows, AB_STATE_SLEEP, 0);
  ab_page_crowd(&self.parts, 12 * MS, &crowd);
  CHECK_INT(AB_CROWD_WAITS + 3, crowd.wait_count);
  uint32_t count = 0;
  for (uint32_t i = 0; i < crowd.wait_count; i++) count += crowd.waits[i].count;
  CHECK_INT(152, count);
  CHECK_INT(150, crowd.now[AB_STATE_HTTP]);
  CHECK_INT(150 - AB_CROWD_WAITS, crowd.waits[AB_CROWD_WAITS].count);
  CHECK_INT(0, crowd.waits[AB_CROWD_WAITS].peer.family);
  stage_fini(&self);
}

CHECK_CASE(nothing_of_a_process_that_has_ended) {
  stage self;
  ab_crowd crowd;
  stage_init(&self);
  begin(&self.rows, AB_STATE_DB, 9);
  ab_page_set_state(self.page, 0, AB_PAGE_ENDED);
  ab_page_crowd(&self.parts, 12 * MS, &crowd);
  CHECK_INT(0, crowd.now[AB_STATE_DB]);
  CHECK_INT(0, crowd.wait_count);
  stage_fini(&self);
}

CHECK_MAIN()
