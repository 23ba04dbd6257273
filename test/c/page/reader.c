/* A reader as one would write it in another language: it knows layout.h, and nothing else of
 * Abaca's. `reader PID` prints a line for the page of that process, and one for each slot in use:
 *
 *   page slots=2 creator=17
 *   slot=0 state=2 pid=18 phase=0 claims=1 requests=3 sum=5 connections=1 rows=1 beat_ms=420
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "find.h"

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

static void fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static const char *map(int fd) {
  struct stat found;
  if (fstat(fd, &found) < 0 || found.st_size < AB_PAGE_HEAD_SIZE) fail("too short");
  const char *page = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) fail("cannot be mapped");
  if (memcmp(page, AB_PAGE_MAGIC, 8) != 0) fail("no page");
  uint32_t version = ((const ab_page_head *)page)->version;
  if (version == AB_PAGE_VERSION) return page;
  fprintf(stderr, "layout %u, not %u\n", version, AB_PAGE_VERSION);
  exit(1);
}

/* The requests in the application, of which the area has a row each. */
static unsigned count_rows(const char *page, const ab_page_slot *slot) {
  const ab_page_area *area = &((const ab_page_head *)page)->areas[AB_PAGE_AREA_ROWS];
  uint32_t mark = LOAD(slot->app.mark);
  unsigned used = 0;
  for (uint32_t i = 0; i < mark && i < area->count; i++) {
    const char *at = (const char *)slot + area->offset + (size_t)i * area->size;
    used += LOAD(((const ab_row *)at)->used) == 1;
  }
  return used;
}

static void print_slot(const char *page, unsigned index, const ab_page_slot *slot) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  uint64_t holder = LOAD(slot->holder), beat = LOAD(slot->beat);
  uint64_t sum = LOAD(slot->figures.requests);
  if (!holder) return;
  printf("slot=%u state=%u pid=%u phase=%u claims=%u requests=%llu sum=%llu connections=%u "
         "rows=%u beat_ms=%llu\n",
         index, LOAD(slot->state), (unsigned)(holder >> 32), LOAD(slot->phase), (unsigned)holder,
         (unsigned long long)(sum - LOAD(slot->before.requests)), (unsigned long long)sum,
         LOAD(slot->figures.connections), count_rows(page, slot),
         (unsigned long long)(ms - beat / 1000000));
}

int main(int argc, char **argv) {
  if (argc != 2) fail("reader PID");
  int fd = find_page(argv[1], O_RDONLY);
  if (fd < 0) fail("the process has no page, or is another user's");
  const char *page = map(fd);
  const ab_page_head *head = (const ab_page_head *)page;
  printf("page slots=%u creator=%u\n", head->slot_count, head->creator);
  for (unsigned i = 0; i < head->slot_count; i++) {
    size_t at = head->head_size + (size_t)i * head->slot_size;
    print_slot(page, i, (const ab_page_slot *)(page + at));
  }
  return 0;
}
