/* A thread writes rows while others read them; ThreadSanitizer looks on as well (`rake races`). */
#include <pthread.h>

#include "check.h"
#include "page/row_taken.h"
#include "page/rows.h"

#define COUNT  8
#define LEAST  20000 /* rows that are written; more until readers have seen ENOUGH, at most MOST */
#define MOST   (1000 * LEAST)
#define ENOUGH 10000

typedef struct stage {
  ab_rows list;
  ab_row rows[COUNT];
  uint32_t mark;
  uint64_t missed;
  bool done;
  unsigned seen, wrong;
} stage;

/* Of each request all numbers follow from its id. */
static void write_one(ab_rows *rows, uint64_t id) {
  static const ab_addr database = {.bytes = {10, 0, 0, 9}, .port = 5432, .family = 4};
  char path[AB_ROW_PATH];
  memset(path, (int)(id % 256), sizeof path);
  ab_addr peer = {.bytes = {(uint8_t)id}, .port = (uint16_t)id, .family = 4};
  const ab_row_start start = {.id = id,
                              .began = id,
                              .state = id % 2 ? AB_STATE_QUEUE : AB_STATE_HEAD,
                              .peer = &peer,
                              .path = {path, id % sizeof path}};
  ab_row *row = ab_rows_take(rows);
  if (id % 2) { /* plain ones and others, in the same rows */
    ab_row_begin_taken(row, &start, 2 * id);
    ab_row_end(row);
    ab_row_begin_taken(row, &start, 2 * id);
    ab_rows_give(rows, row);
    return;
  }
  ab_row_begin(row, &start);
  ab_row_turn(row, AB_STATE_RUN, 2 * id);
  ab_row_wait(row, AB_STATE_DB, &database, 3 * id);
  ab_row_turn(row, AB_STATE_RUN, 3 * id + 2 * AB_NSEC_PER_MS);
  ab_row_shift(row, AB_STATE_RUN, AB_STATE_GC, 1);
  ab_rows_give(rows, row);
}

static void *write_all(void *arg) {
  stage *self = arg;
  for (uint64_t id = 1; id <= MOST; id++) {
    if (id > LEAST && __atomic_load_n(&self->seen, __ATOMIC_RELAXED) >= ENOUGH) break;
    write_one(&self->list, id);
  }
  __atomic_store_n(&self->done, true, __ATOMIC_RELEASE);
  return NULL;
}

static bool fits(const ab_row *copy) {
  uint64_t id = copy->id;
  bool plain = id % 2;
  ab_nsec head = copy->state == AB_STATE_HEAD || plain ? 0 : id;
  bool paths = copy->path_len == id % AB_ROW_PATH;
  for (unsigned i = 0; i < copy->path_len; i++) paths &= copy->path[i] == (char)(id % 256);
  return paths && copy->began == id && copy->peer.port == (uint16_t)id &&
         copy->sums[AB_STATE_HEAD] == head && copy->sums[AB_STATE_QUEUE] == (plain ? id : 0) &&
         (!plain || (copy->state == AB_STATE_RUN && ab_row_is_plain(copy))) &&
         (copy->state == AB_STATE_DB) == (copy->waits_for.port == 5432 && copy->waits_for.family);
}

static void *read_all(void *arg) {
  stage *self = arg;
  while (!__atomic_load_n(&self->done, __ATOMIC_ACQUIRE)) {
    uint32_t mark = AB_GET(self->mark);
    for (uint32_t i = 0; i < mark; i++) {
      ab_row copy;
      if (!ab_row_load(&self->rows[i], &copy)) continue;
      __atomic_fetch_add(&self->seen, 1, __ATOMIC_RELAXED);
      if (!fits(&copy)) __atomic_fetch_add(&self->wrong, 1, __ATOMIC_RELAXED);
    }
  }
  return NULL;
}

CHECK_CASE(readers_see_whole_rows) {
  stage self = {0};
  pthread_t threads[3];
  CHECK_INT(AB_OK,
            ab_rows_init(&self.list, &ab_mem_libc, self.rows, COUNT, &self.mark, &self.missed));
  for (unsigned i = 0; i < AB_ARRAY_LEN(threads); i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, i ? read_all : write_all, &self));
  for (unsigned i = 0; i < AB_ARRAY_LEN(threads); i++) pthread_join(threads[i], NULL);
  ab_rows_fini(&self.list);
  CHECK_INT(0, self.wrong);
  CHECK(self.seen >= ENOUGH);
}

CHECK_MAIN()
