/* The page's memory: made, found again through a descriptor, unmapped. */
#include "page/page.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page/nameless.h"

struct ab_page {
  ab_mem mem;
  void *start;
  size_t size;
  int fd;       /* -1: a reader's */
  int relay[2]; /* -1: a reader's, or not made yet */
  unsigned holds;
};

static size_t size_of(uint32_t slots) {
  return AB_PAGE_HEAD_SIZE + (size_t)slots * AB_PAGE_SLOT_SIZE;
}

static uint64_t magic(void) {
  uint64_t number;
  memcpy(&number, AB_PAGE_MAGIC, sizeof(number));
  return number;
}

/* --- memory without a name --- */

/* Takes fd, which is closed on an error. */
static int sized(int fd, size_t size, bool reserve) {
  int error = ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
  /* A file system that is full says so now, not by a SIGBUS later. */
  if (!error && reserve) error = posix_fallocate(fd, 0, (off_t)size);
  if (!error) return fd;
  close(fd);
  errno = error;
  return -1;
}

static int file_in(const char *directory, size_t size) {
  int fd = ab_nameless_file(directory, AB_PAGE_NAME);
  return fd < 0 ? -1 : sized(fd, size, true);
}

static int anonymous(size_t size) {
  int fd = ab_nameless_memory(AB_PAGE_NAME);
  if (fd >= 0) {
    if (sized(fd, size, false) < 0) return -1;
#ifdef F_ADD_SEALS
    /* Nothing can pull the memory away from under a process that has it mapped. */
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
#endif
    return fd;
  }
  if (errno != ENOSYS && errno != EPERM) return -1;
  int file = file_in("/dev/shm", size);
  return file >= 0 ? file : file_in("/tmp", size);
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
  if (page->start != MAP_FAILED) return page;
  int error = errno;
  if (writes) close(fd);
  ab_free(mem, page);
  errno = error;
  return NULL;
}

static void write_head(ab_page *page, uint32_t slots, ab_page_time now) {
  ab_page_head *head = page->start;
  head->version = AB_PAGE_VERSION;
  head->head_size = AB_PAGE_HEAD_SIZE;
  head->slot_size = AB_PAGE_SLOT_SIZE;
  head->slot_count = slots;
  head->size = page->size;
  head->creator = (uint32_t)getpid();
  head->made_at = now.monotonic;
  head->made_at_unix = now.unix_time;
  /* Early in the machine's boot there may be none; the time and the process still differ. */
  if (getrandom(head->id, sizeof(head->id), GRND_NONBLOCK) < 0) {
    uint64_t own[2] = {now.unix_time, (uint64_t)getpid()};
    memcpy(head->id, own, sizeof(head->id));
  }
  /* Release: a reader that finds the magic finds the rest. Partner: the acquire in check. */
  __atomic_store_n(&head->magic, magic(), __ATOMIC_RELEASE);
}

static void drop_with_errno(ab_page *page) {
  int error = errno;
  ab_page_drop(page);
  errno = error;
}

/* Takes fd. */
static ab_page *create_on(const ab_mem *mem, int fd, uint32_t slots, ab_page_time now) {
  ab_page *page = fd < 0 ? NULL : map(mem, fd, size_of(slots), true);
  if (!page) return NULL;
  /* Messages keep their bounds, and a full queue says so. */
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, page->relay) < 0) {
    drop_with_errno(page);
    return NULL;
  }
  write_head(page, slots, now);
  return page;
}

ab_page *ab_page_create(const ab_mem *mem, uint32_t slots, ab_page_time now) {
  return create_on(mem, anonymous(size_of(slots)), slots, now);
}

ab_page *ab__page_create_in(const ab_mem *mem, const char *directory, uint32_t slots,
                            ab_page_time now) {
  return create_on(mem, file_in(directory, size_of(slots)), slots, now);
}

bool ab_page_is_read_only(const ab_page *page) {
  return page->fd < 0;
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
  ab_free(&mem, page);
}

const int *ab_page_relay(const ab_page *page) {
  return page->relay[0] < 0 ? NULL : page->relay;
}

const ab_page_head *ab_page_head_of(const ab_page *page) {
  return page->start;
}

uint32_t ab_page_size(const ab_page *page) {
  return ab_page_head_of(page)->slot_count;
}

ab_page_slot *ab_page_slot_of(const ab_page *page, uint32_t index) {
  return (ab_page_slot *)((char *)page->start + AB_PAGE_HEAD_SIZE) + index;
}

/* --- a reader's --- */

static int check(const ab_page *page, uint32_t *version) {
  const ab_page_head *head = page->start;
  if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != magic()) return AB_EINVAL;
  *version = head->version;
  if (head->version != AB_PAGE_VERSION) return AB_ELIMIT;
  bool fits = head->head_size == AB_PAGE_HEAD_SIZE && head->slot_size == AB_PAGE_SLOT_SIZE &&
              head->slot_count > 0 && head->slot_count <= AB_PAGE_MAX_SLOTS &&
              head->size == page->size && size_of(head->slot_count) == page->size;
  return fits ? AB_OK : AB_EINVAL;
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
