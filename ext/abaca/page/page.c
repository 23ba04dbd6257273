/* The page's memory: made, found again through a descriptor, unmapped. */
#include "page/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/bytes.h"
#include "os/nameless.h"
#include "os/sockets.h"

struct ab_page {
  ab_mem mem;
  void *start;
  size_t size;
  ab_page_head
      head; /* as it was when it was mapped: whatever becomes of it, it leads nowhere else */
  ab__page_claim *claims; /* of this process, by slot; NULL: a reader's */
  bool reserves;          /* it is a file: a slot's areas are reserved when it is claimed */
  int fd;                 /* -1: a reader's */
  int relay[2];           /* -1: a reader's, or not made yet */
  unsigned holds;
};

/* --- where everything stands --- */

static const uint32_t record_sizes[AB_PAGE_AREA_COUNT] = {
#define RECORD_SIZE(name, type) sizeof(type),
    AB_PAGE_AREAS(RECORD_SIZE)
#undef RECORD_SIZE
};

typedef struct counts {
  uint32_t of[AB_PAGE_AREA_COUNT];
} counts;

static uint32_t at_most(uint32_t count, uint32_t most) {
  return count < most ? count : most;
}

/* What is not used costs nothing. */
static counts in_memory(const ab_page_options *options) {
  uint32_t rows = at_most(options->rows, AB_PAGE_MAX_ROWS);
  return (counts){{
      [AB_PAGE_AREA_LOOPS] = AB_PAGE_LOOPS,
      [AB_PAGE_AREA_ROWS] = rows,
      [AB_PAGE_AREA_QUEUED] = at_most(options->queued, AB_PAGE_MAX_ROWS - rows),
      [AB_PAGE_AREA_ROUTES] = AB_PAGE_ROUTES,
      [AB_PAGE_AREA_SERIES] = AB_PAGE_SERIES,
      [AB_PAGE_AREA_EVENTS] = AB_PAGE_EVENTS,
      [AB_PAGE_AREA_KEPT] = AB_PAGE_KEPT,
      [AB_PAGE_AREA_SECONDS] = AB_PAGE_SECONDS,
      [AB_PAGE_AREA_TENS] = AB_PAGE_TENS,
      [AB_PAGE_AREA_CLIENTS] = AB_PAGE_CLIENTS,
      [AB_PAGE_AREA_EXEMPLARS] = AB_PAGE_SERIES,
      [AB_PAGE_AREA_POOLS] = AB_PAGE_POOLS,
  }};
}

/* What a claim reserves on a file system: 256 KB. */
static counts in_a_file(const ab_page_options *options) {
  counts all = in_memory(options);
  all.of[AB_PAGE_AREA_LOOPS] = 16;
  all.of[AB_PAGE_AREA_ROWS] = at_most(options->rows, 48);
  all.of[AB_PAGE_AREA_QUEUED] = at_most(options->queued, 16);
  all.of[AB_PAGE_AREA_SERIES] = 64;
  all.of[AB_PAGE_AREA_EXEMPLARS] = 0;
  all.of[AB_PAGE_AREA_EVENTS] = 64;
  all.of[AB_PAGE_AREA_KEPT] = 16;
  all.of[AB_PAGE_AREA_SECONDS] = 120;
  all.of[AB_PAGE_AREA_TENS] = 120;
  all.of[AB_PAGE_AREA_POOLS] = 5;
  return all;
}

/* Each area begins with a page of memory, so that one that nobody uses takes none. */
static size_t whole_pages(size_t size) {
  return (size + 4095) / 4096 * 4096;
}

static void place_areas(ab_page_head *head, const counts *counts) {
  size_t offset = AB_PAGE_CORE_SIZE;
  for (unsigned i = 0; i < AB_PAGE_AREA_COUNT; i++) {
    head->areas[i] =
        (ab_page_area){.offset = (uint32_t)offset, .count = counts->of[i], .size = record_sizes[i]};
    offset += whole_pages((size_t)counts->of[i] * record_sizes[i]);
  }
  head->slot_size = (uint32_t)offset;
}

/* The most records of an area, so that no sum of sizes goes wrong. */
static bool fits(const ab_page_head *head, const ab_page_area *area, unsigned i) {
  size_t end = area->offset + (size_t)area->count * area->size;
  return area->size == record_sizes[i] && area->count <= AB_PAGE_MAX_ROWS &&
         area->offset >= AB_PAGE_CORE_SIZE && area->offset % 4096 == 0 && end <= head->slot_size;
}

static bool page_is_sound(const ab_page_head *head, size_t size) {
  bool sound = head->head_size == AB_PAGE_HEAD_SIZE && head->area_count == AB_PAGE_AREA_COUNT &&
               head->slot_count > 0 && head->slot_count <= AB_PAGE_MAX_SLOTS &&
               head->slot_size >= AB_PAGE_CORE_SIZE && head->slot_size % 4096 == 0 &&
               head->size == size &&
               AB_PAGE_HEAD_SIZE + (size_t)head->slot_count * head->slot_size == size;
  for (unsigned i = 0; i < AB_PAGE_AREA_COUNT; i++) sound = sound && fits(head, &head->areas[i], i);
  return sound;
}

static uint64_t magic(void) {
  uint64_t number;
  memcpy(&number, AB_PAGE_MAGIC, sizeof(number));
  return number;
}

/* --- memory without a name --- */

/* Takes fd, which is closed on an error. */
static int sized(int fd, const ab_page_head *head, bool reserves) {
  int error = ftruncate(fd, (off_t)head->size) == 0 ? 0 : errno;
  /* The cores of all slots are looked at. */
  if (!error && reserves) error = ab_nameless_reserve(fd, 0, AB_PAGE_HEAD_SIZE);
  for (uint32_t i = 0; !error && reserves && i < head->slot_count; i++)
    error =
        ab_nameless_reserve(fd, AB_PAGE_HEAD_SIZE + (size_t)i * head->slot_size, AB_PAGE_CORE_SIZE);
  if (!error) return fd;
  close(fd);
  errno = error;
  return -1;
}

/* The head of a page with such areas; `magic` is missing. */
static ab_page_head planned(const counts *counts, uint32_t slots, ab_page_time now) {
  ab_page_head head = {.version = AB_PAGE_VERSION,
                       .head_size = AB_PAGE_HEAD_SIZE,
                       .slot_count = slots,
                       .creator = (uint32_t)getpid(),
                       .area_count = AB_PAGE_AREA_COUNT,
                       .made_at = now.monotonic,
                       .made_at_unix = now.unix_time};
  place_areas(&head, counts);
  head.size = AB_PAGE_HEAD_SIZE + (size_t)slots * head.slot_size;
  /* Early in the machine's boot there may be none; the time and the process still differ. */
  if (!ab_os_random(head.id, sizeof(head.id), false)) {
    uint64_t own[2] = {now.unix_time, (uint64_t)getpid()};
    memcpy(head.id, own, sizeof(head.id));
  }
  return head;
}

static int file_in(const char *directory, const ab_page_head *head) {
  int fd = ab_nameless_file(directory, AB_PAGE_NAME);
  return fd < 0 ? -1 : sized(fd, head, true);
}

static int file_at(const char *path, const ab_page_head *head) {
  unlink(path);
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  return fd < 0 ? -1 : sized(fd, head, true);
}

static int memory_for(const ab_page_head *head) {
  int fd = ab_nameless_memory(AB_PAGE_NAME);
  if (fd < 0 || sized(fd, head, false) < 0) return -1;
  ab_nameless_seal(fd);
  return fd;
}

/* --- the page --- */

/* Takes fd. NULL with errno. */
static ab_page *map(const ab_mem *mem, int fd, size_t size, bool writes) {
  ab_page *page = ab_alloc_zero(mem, sizeof(*page));
  if (!page) {
    if (writes) close(fd);
    errno = ENOMEM;
    return NULL;
  }
  *page =
      (ab_page){.mem = *mem, .size = size, .fd = writes ? fd : -1, .relay = {-1, -1}, .holds = 1};
  page->start = mmap(NULL, size, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (page->start != MAP_FAILED) {
    ab_nameless_map_sparsely(page->start, size);
    return page;
  }
  int error = errno;
  if (writes) close(fd);
  ab_free(mem, page);
  errno = error;
  return NULL;
}

static void write_head(ab_page *page, const ab_page_head *planned) {
  ab_page_head *head = page->start;
  page->head = *head = *planned;
  page->head.magic = magic();
  /* Release: a reader that finds the magic finds the rest. Partner: the acquire in check. */
  __atomic_store_n(&head->magic, magic(), __ATOMIC_RELEASE);
}

static void drop_with_errno(ab_page *page) {
  int error = errno;
  ab_page_drop(page);
  errno = error;
}

/* Takes fd. */
static ab_page *create_on(const ab_mem *mem, int fd, const ab_page_head *head) {
  ab_page *page = fd < 0 ? NULL : map(mem, fd, head->size, true);
  if (!page) return NULL;
  page->claims = ab_alloc_zero(mem, head->slot_count * sizeof(*page->claims));
  if (!page->claims) errno = ENOMEM;
  /* Messages keep their bounds, and a full queue says so. */
  if (!page->claims || ab_os_message_pair(page->relay) != 0) {
    drop_with_errno(page);
    return NULL;
  }
  write_head(page, head);
  return page;
}

typedef int make_file(const char *place, const ab_page_head *head);

static ab_page *create_file(const ab_mem *mem, make_file *make, const char *place,
                            const ab_page_options *options, ab_page_time now) {
  counts counts = in_a_file(options);
  ab_page_head head = planned(&counts, options->slots, now);
  ab_page *page = create_on(mem, make(place, &head), &head);
  if (page) page->reserves = true;
  return page;
}

ab_page *ab__page_create_in(const ab_mem *mem, const char *directory,
                            const ab_page_options *options, ab_page_time now) {
  return create_file(mem, file_in, directory, options, now);
}

ab_page *ab_page_create_at(const ab_mem *mem, const char *path, const ab_page_options *options,
                           ab_page_time now) {
  return create_file(mem, file_at, path, options, now);
}

ab_page *ab_page_create(const ab_mem *mem, const ab_page_options *options, ab_page_time now) {
  counts counts = in_memory(options);
  ab_page_head head = planned(&counts, options->slots, now);
  ab_page *page = create_on(mem, memory_for(&head), &head);
  if (page || (errno != ENOSYS && errno != EPERM)) return page;
  page = ab__page_create_in(mem, "/dev/shm", options, now);
  return page ? page : ab__page_create_in(mem, "/tmp", options, now);
}

int ab__page_reserve(const ab_page *page, uint32_t index) {
  if (!page->reserves) return AB_OK;
  size_t offset = AB_PAGE_HEAD_SIZE + (size_t)index * page->head.slot_size;
  return ab_nameless_reserve(page->fd, offset, page->head.slot_size) == 0 ? AB_OK : AB_ENOSPC;
}

bool ab_page_is_read_only(const ab_page *page) {
  return page->fd < 0;
}

int ab_page_fd(const ab_page *page) {
  return page->fd;
}

void ab_page_hold(ab_page *page) {
  page->holds++;
}

void ab_page_drop(ab_page *page) {
  if (--page->holds > 0) return;
  munmap(page->start, page->size);
  if (page->fd >= 0) close(page->fd);
  if (page->relay[0] >= 0) close(page->relay[0]);
  if (page->relay[1] >= 0) close(page->relay[1]);
  ab_mem mem = page->mem;
  ab_free(&mem, page->claims);
  ab_free(&mem, page);
}

const int *ab_page_relay(const ab_page *page) {
  return page->relay[0] < 0 ? NULL : page->relay;
}

const ab_page_head *ab_page_head_of(const ab_page *page) {
  return &page->head;
}

ab__page_claim *ab__page_claim_of(const ab_page *page, uint32_t index) {
  return page->claims ? &page->claims[index] : NULL;
}

uint32_t ab_page_size(const ab_page *page) {
  return page->head.slot_count;
}

ab_page_slot *ab_page_slot_of(const ab_page *page, uint32_t index) {
  return (ab_page_slot *)((char *)page->start + AB_PAGE_HEAD_SIZE +
                          (size_t)index * page->head.slot_size);
}

ab_page_parts ab_page_parts_of(const ab_page *page, uint32_t index) {
  ab_page_slot *slot = ab_page_slot_of(page, index);
  const ab_page_area *areas = page->head.areas;
#define START(name) (void *)((char *)slot + areas[AB_PAGE_AREA_##name].offset)
#define COUNT(name) areas[AB_PAGE_AREA_##name].count
  return (ab_page_parts){
      .slot = slot,
      .loops = START(LOOPS),
      .rows = START(ROWS),
      .queued = START(QUEUED),
      .routes = START(ROUTES),
      .series = START(SERIES),
      .events = START(EVENTS),
      .kept = START(KEPT),
      .seconds = START(SECONDS),
      .tens = START(TENS),
      .clients = START(CLIENTS),
      .exemplars = START(EXEMPLARS),
      .pools = START(POOLS),
      .loop_count = COUNT(LOOPS),
      .row_count = COUNT(ROWS),
      .queued_count = COUNT(QUEUED),
      .route_count = COUNT(ROUTES),
      .series_count = COUNT(SERIES),
      .event_count = COUNT(EVENTS),
      .kept_count = COUNT(KEPT),
      .second_count = COUNT(SECONDS),
      .ten_count = COUNT(TENS),
      .client_count = COUNT(CLIENTS),
      .exemplar_count = COUNT(EXEMPLARS),
      .pool_count = COUNT(POOLS),
  };
#undef START
#undef COUNT
}

ab_page_parts ab_page_parts_to_read(const ab_page *page, uint32_t index) {
  ab_page_parts parts = ab_page_parts_of(page, index);
  /* Relaxed: the areas have no order with it. */
  bool used = __atomic_load_n(&parts.slot->holder, __ATOMIC_RELAXED) != 0;
  return used ? parts : (ab_page_parts){.slot = parts.slot};
}

/* --- a reader's --- */

static int check(ab_page *page, uint32_t *version) {
  const ab_page_head *head = page->start;
  if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != magic()) return AB_EINVAL;
  *version = head->version;
  if (head->version != AB_PAGE_VERSION) return AB_ELIMIT;
  page->head = *head;
  return page_is_sound(&page->head, page->size) ? AB_OK : AB_EINVAL;
}

ab_page *ab_page_open(const ab_mem *mem, int fd, int *error, uint32_t *version) {
  struct stat found;
  *version = 0;
  *error = AB_ESYS;
  if (fstat(fd, &found) < 0) return NULL;
  *error = AB_EINVAL;
  if (found.st_size < AB_PAGE_HEAD_SIZE) return NULL;
  ab_page *page = map(mem, fd, (size_t)found.st_size, false);
  if (!page) {
    *error = errno == ENOMEM ? AB_ENOMEM : AB_ESYS;
    return NULL;
  }
  *error = check(page, version);
  if (*error == AB_OK) return page;
  ab_page_drop(page);
  return NULL;
}
