/* A process takes a slot, again and again, while others look at it; ThreadSanitizer looks on as
 * well
 * (`rake races`). */
#include <pthread.h>

#include "check.h"
#include "page/look.h"

#define ROUNDS 5000

typedef struct stage {
  ab_page *page;
  ab_page_parts parts;
  bool done;
  unsigned looks, rows, wrong;
} stage;

static void count(unsigned *number) {
  __atomic_fetch_add(number, 1, __ATOMIC_RELAXED);
}

/* All numbers of a claim, and of its request, follow from one. */
static void take(stage *self, uint32_t n) {
  int result = ab_page_claim(self->page, 0, n, (ab_page_time){n, n});
  if (result != AB_OK) count(&self->wrong);
  AB_PUT(self->parts.slot->app.mark, 1);
  ab_row *row = self->parts.rows;
  ab_row_begin(row, &(ab_row_start){.id = n, .began = n, .state = AB_STATE_HEAD});
  ab_row_turn(row, AB_STATE_RUN, 2 * n);
  ab_row_turn(row, AB_STATE_SLEEP, 3 * n);
}

static void *write_all(void *arg) {
  stage *self = arg;
  for (uint32_t n = 1; n <= ROUNDS; n++) take(self, n);
  __atomic_store_n(&self->done, true, __ATOMIC_RELEASE);
  return NULL;
}

static void look_at_slot(stage *self) {
  ab_page_view view = ab_page_look(self->parts.slot);
  if (!view.settled || view.state != AB_PAGE_BOOTING) return;
  count(&self->looks);
  bool fits = view.claims == view.phase && view.taken_at == view.phase;
  if (!fits || view.started_at != view.phase) count(&self->wrong);
}

static void look_at_row(stage *self) {
  ab_row row;
  if (!ab_row_load(self->parts.rows, &row)) return;
  count(&self->rows);
  bool head = row.state == AB_STATE_HEAD, run = head || row.state == AB_STATE_RUN;
  bool fits = row.sums[AB_STATE_HEAD] == (head ? 0 : row.id);
  if (!fits || row.sums[AB_STATE_RUN] != (run ? 0 : row.id)) count(&self->wrong);
}

static void *read_all(void *arg) {
  stage *self = arg;
  while (!__atomic_load_n(&self->done, __ATOMIC_ACQUIRE)) {
    look_at_slot(self);
    for (int i = 0; i < 20; i++) look_at_row(self);
  }
  return NULL;
}

CHECK_CASE(what_a_claim_clears_is_not_seen_in_part) {
  unsigned looks = 0, rows = 0;
  for (int i = 0; i < 40 && (looks < 1000 || rows < 20000); i++) {
    stage self = {.looks = 0};
    self.page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, (ab_page_time){1, 1});
    CHECK(self.page != NULL);
    self.parts = ab_page_parts_of(self.page, 0);
    pthread_t threads[3];
    for (int j = 0; j < 3; j++)
      CHECK_INT(0, pthread_create(&threads[j], NULL, j ? read_all : write_all, &self));
    for (int j = 0; j < 3; j++) pthread_join(threads[j], NULL);
    CHECK_INT(0, self.wrong);
    looks += self.looks;
    rows += self.rows;
    ab_page_drop(self.page);
  }
  CHECK(looks >= 100 && rows >= 1000);
}

CHECK_MAIN()
