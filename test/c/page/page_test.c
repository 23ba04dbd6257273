/* The page's memory: what stands in it, who finds it, and what happens when there is none. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "page/page.h"

static const ab_page_time start = {1000, 2000};
static const ab_page_options two = {2, 100, 40};

/* The descriptor of this process's page; -1 without one. */
static int page_fd(void) {
  for (int fd = 0; fd < 64; fd++) {
    char path[64], target[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, AB_PAGE_NAME)) return fd;
  }
  return -1;
}

CHECK_CASE(a_page_begins_with_its_head) {
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){3, 8, 4}, start);
  CHECK(page != NULL);
  const ab_page_head *head = ab_page_head_of(page);
  CHECK(memcmp((char *)ab_page_slot_of(page, 0) - 4096, "abacapag", 8) == 0);
  CHECK_INT(AB_PAGE_VERSION, head->version);
  CHECK_INT(4096, head->head_size);
  CHECK_INT(3, head->slot_count);
  CHECK_INT(4096 + 3 * (size_t)head->slot_size, head->size);
  CHECK_INT(getpid(), head->creator);
  CHECK_INT(1000, head->made_at);
  CHECK_INT(2000, head->made_at_unix);
  CHECK_INT(3, ab_page_size(page));
  size_t apart = (size_t)((char *)ab_page_slot_of(page, 2) - (char *)ab_page_slot_of(page, 0));
  CHECK_INT(2 * head->slot_size, apart);
  ab_page *other = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
  CHECK(memcmp(head->id, ab_page_head_of(other)->id, sizeof head->id) != 0);
  ab_page_drop(other);
  ab_page_drop(page);
}

CHECK_CASE(its_memory_cannot_shrink) {
  CHECK_NEEDS(SEALS);
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
  int fd = page_fd();
  CHECK(fd >= 0);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK_INT(-1, ftruncate(fd, 0));
  CHECK_INT(EPERM, errno);
  CHECK_INT(-1, ftruncate(fd, 1 << 20));
  ab_page_drop(page);
  CHECK_INT(-1, page_fd());
}

CHECK_CASE(a_file_where_there_is_no_memfd) {
  ab_page *page = ab__page_create_in(&ab_mem_libc, "/tmp", &two, start);
  CHECK(page != NULL);
  int fd = page_fd();
  struct stat found;
  CHECK_INT(0, fstat(fd, &found));
  CHECK_INT(0, found.st_nlink);
  CHECK_INT(ab_page_head_of(page)->size, found.st_size);
  CHECK(found.st_blocks * 512 <= 4096 + 2 * AB_PAGE_CORE_SIZE + 4096);
  CHECK_INT(48, ab_page_parts_of(page, 0).row_count);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  /* What is claimed is there, and what is not takes nothing. */
  CHECK_INT(AB_OK, ab_page_claim(page, 1, 0, start));
  CHECK_INT(0, fstat(fd, &found));
  if (AB_HAS(FALLOCATE)) CHECK(found.st_blocks * 512 >= ab_page_head_of(page)->slot_size);
  CHECK(found.st_blocks * 512 <= 256 * 1024 + 12 * 1024);
  CHECK(ab_page_head_of(page)->slot_size <= 256 * 1024);
  ab_page_drop(page);
  CHECK_INT(-1, page_fd());
}

CHECK_CASE(a_file_that_others_find) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/" AB_PAGE_NAME ".%d", (int)getpid());
  close(open(path, O_CREAT | O_WRONLY, 0644));
  ab_page *page = ab_page_create_at(&ab_mem_libc, path, &two, start);
  CHECK(page != NULL);
  struct stat found;
  CHECK_INT(0, stat(path, &found));
  CHECK_INT(S_IFREG | 0600, found.st_mode);
  CHECK_INT(ab_page_head_of(page)->size, found.st_size);
  int error, fd = open(path, O_RDONLY | O_CLOEXEC);
  uint32_t version;
  ab_page *seen = ab_page_open(&ab_mem_libc, fd, &error, &version);
  close(fd);
  CHECK(seen != NULL);
  CHECK_INT(AB_OK, ab_page_claim(page, 1, 7, start));
  CHECK_INT(7, ab_page_look(ab_page_slot_of(seen, 1)).phase);
  CHECK_INT(0, unlink(path));
  ab_page_drop(seen);
  ab_page_drop(page);
  CHECK(!ab_page_create_at(&ab_mem_libc, "/tmp/there is no such folder/page", &two, start));
  CHECK_INT(ENOENT, errno);
}

/* Its descriptor leads to something that keeps no room. */
CHECK_CASE(a_file_system_without_room_for_a_slot) {
  CHECK_NEEDS(FALLOCATE);
  ab_page *page = ab__page_create_in(&ab_mem_libc, "/tmp", &two, start);
  int fd = page_fd(), other = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK_INT(fd, dup2(other, fd));
  CHECK_INT(AB_ENOSPC, ab_page_claim(page, 0, 0, start));
  CHECK_INT(0, ab_page_look(ab_page_slot_of(page, 0)).claims);
  close(other);
  ab_page_drop(page);
}

CHECK_CASE(areas_stand_side_by_side) {
  ab_page *page = ab_page_create(&ab_mem_libc, &two, start);
  const ab_page_head *head = ab_page_head_of(page);
  ab_page_parts parts = ab_page_parts_of(page, 1);
  CHECK(parts.slot == ab_page_slot_of(page, 1));
  CHECK_INT(AB_HAS(MEMFD) ? 100 : 48, parts.row_count);
  CHECK_INT(AB_HAS(MEMFD) ? 40 : 16, parts.queued_count);
  CHECK_INT(AB_HAS(MEMFD) ? AB_PAGE_TENS : 120, parts.ten_count);
  CHECK((char *)parts.loops == (char *)parts.slot + AB_PAGE_CORE_SIZE);
  size_t end = AB_PAGE_CORE_SIZE;
  for (unsigned i = 0; i < AB_PAGE_AREA_COUNT; i++) {
    const ab_page_area *area = &head->areas[i];
    CHECK(area->offset >= end && area->offset < end + 4096 && area->offset % 4096 == 0);
    end = area->offset + (size_t)area->count * area->size;
  }
  CHECK(end <= head->slot_size && head->slot_size < end + 4096);
  memset(parts.clients, 0xff, parts.client_count * sizeof *parts.clients);
  CHECK_INT(0, ab_page_look(parts.slot).claims);
  ab_page_drop(page);
}

/* Resident are the head and the cores that somebody looks at, and nothing of the areas. */
CHECK_CASE(what_nobody_uses_takes_no_memory) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page_options many = {64, 4000, 1024};
  ab_page *page = ab_page_create(&ab_mem_libc, &many, start);
  struct stat found;
  CHECK(page != NULL);
  CHECK(ab_page_head_of(page)->size > (size_t)256 << 20);
  CHECK_INT(0, ab_page_sums(page).requests);
  CHECK_INT(0, fstat(page_fd(), &found));
  CHECK(found.st_blocks * 512 <= 4096 + 64 * AB_PAGE_CORE_SIZE);
  CHECK_INT(AB_OK, ab_page_claim(page, 63, 0, start));
  CHECK_INT(0, fstat(page_fd(), &found));
  /* A claim looks at loops and clients, and the sanitizer at nothing. */
  CHECK(found.st_blocks * 512 <= 4096 + 66 * AB_PAGE_CORE_SIZE);
  ab_page_drop(page);
}

CHECK_CASE(there_is_a_most_of_rows) {
  CHECK_NEEDS(MEMFD); /* in a file there is less room */
  ab_page *page =
      ab_page_create(&ab_mem_libc, &(ab_page_options){1, UINT32_MAX, UINT32_MAX}, start);
  CHECK_INT(AB_PAGE_MAX_ROWS, ab_page_parts_of(page, 0).row_count);
  CHECK_INT(0, ab_page_parts_of(page, 0).queued_count);
  ab_page_drop(page);
  page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 65000, UINT32_MAX}, start);
  CHECK_INT(536, ab_page_parts_of(page, 0).queued_count);
  ab_page_drop(page);
}

CHECK_CASE(no_file_can_be_made) {
  CHECK(!ab__page_create_in(&ab_mem_libc, "/tmp/there is no such folder", &two, start));
  CHECK_INT(ENOENT, errno);
  char longest[400];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  CHECK(!ab__page_create_in(&ab_mem_libc, longest, &two, start));
  CHECK_INT(ENAMETOOLONG, errno);
}

static void *nothing(void *ctx AB_UNUSED, void *ptr AB_UNUSED, size_t size AB_UNUSED) {
  return NULL;
}

/* Not in another folder, either. */
CHECK_CASE(without_memory_there_is_no_page) {
  const ab_mem mem = {nothing, NULL};
  CHECK(!ab_page_create(&mem, &(ab_page_options){1, 8, 4}, start));
  CHECK_INT(ENOMEM, errno);
  CHECK_INT(-1, page_fd());
}

static void fails_in_a_child(int resource, rlim_t most, int expected) {
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = {most, most};
    if (setrlimit(resource, &limit) < 0) _exit(2);
    ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
    _exit(!page && errno == expected && page_fd() < 0 ? 0 : 1);
  }
  int status = -1;
  CHECK_INT(pid, waitpid(pid, &status, 0));
  CHECK_INT(0, status);
}

CHECK_CASE(without_a_descriptor_there_is_no_page) {
  fails_in_a_child(RLIMIT_NOFILE, 3, EMFILE);
}

/* The sanitizer has the address space already, so that nothing more can be mapped. */
CHECK_CASE(without_address_space_there_is_no_page) {
  CHECK_EMULATOR_LACKS("limit of address space");
  fails_in_a_child(RLIMIT_AS, 4096, ENOMEM);
}

CHECK_CASE(the_last_hold_unmaps_it) {
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
  ab_page_hold(page);
  ab_page_drop(page);
  CHECK_INT(1, ab_page_size(page));
  ab_page_drop(page);
  CHECK_INT(-1, page_fd());
}

/* --- readers --- */

CHECK_CASE(a_reader_sees_what_is_written_later) {
  int error;
  uint32_t version;
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){2, 8, 4}, start);
  ab_page *reader = ab_page_open(&ab_mem_libc, page_fd(), &error, &version);
  CHECK(reader != NULL);
  CHECK_INT(AB_OK, error);
  CHECK_INT(AB_PAGE_VERSION, version);
  CHECK(ab_page_is_read_only(reader) && !ab_page_is_read_only(page));
  CHECK_INT(AB_OK, ab_page_claim(page, 1, 4, start));
  ab_page_view view = ab_page_look(ab_page_slot_of(reader, 1));
  CHECK_INT(getpid(), view.pid);
  CHECK_INT(4, view.phase);
  ab_page_drop(page);
  CHECK_INT(getpid(), ab_page_look(ab_page_slot_of(reader, 1)).pid);
  ab_page_drop(reader);
}

/* Writes a page's first bytes into memory of its own, `more` bytes longer, changes one word, and
 * opens that. */
static int opened_with(size_t offset, uint32_t value, int more, uint32_t *version) {
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
  int fd = memfd_create("other", MFD_CLOEXEC), error = 0;
  CHECK_INT(0, ftruncate(fd, (off_t)ab_page_head_of(page)->size + more));
  CHECK_INT((ssize_t)sizeof(ab_page_head),
            pwrite(fd, ab_page_head_of(page), sizeof(ab_page_head), 0));
  CHECK_INT((ssize_t)sizeof value, pwrite(fd, &value, sizeof value, (off_t)offset));
  ab_page *reader = ab_page_open(&ab_mem_libc, fd, &error, version);
  CHECK(!reader || error == AB_OK);
  if (reader) ab_page_drop(reader);
  close(fd);
  ab_page_drop(page);
  return error;
}

#define AREA(i, member)                                                                            \
  (offsetof(ab_page_head, areas) + (i) * sizeof(ab_page_area) + offsetof(ab_page_area, member))

CHECK_CASE(a_reader_says_what_is_not_its_layout) {
  uint32_t version;
  size_t same = offsetof(ab_page_head, version);
  CHECK_INT(AB_OK, opened_with(same, AB_PAGE_VERSION, 0, &version));
  CHECK_INT(AB_ELIMIT, opened_with(same, 9, 0, &version));
  CHECK_INT(9, version);
  CHECK_INT(AB_EINVAL, opened_with(0, 0, 0, &version));
  CHECK_INT(0, version);
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_size), 64, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_size), 8192, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, head_size), 8192, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_count), 2, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_count), 0, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, size), 8192, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, area_count), 3, 0, &version));
  CHECK_INT(AB_EINVAL, opened_with(same, AB_PAGE_VERSION, 4096, &version));
  CHECK_INT(AB_EINVAL, opened_with(same, AB_PAGE_VERSION, -4096, &version));
  for (unsigned i = 0; i < AB_PAGE_AREA_COUNT; i++) {
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, offset), 0, 0, &version));
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, offset), 4100, 0, &version));
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, offset), UINT32_MAX - 4095, 0, &version));
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, count), UINT32_MAX, 0, &version));
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, count), 65536, 0, &version));
    CHECK_INT(AB_EINVAL, opened_with(AREA(i, size), 8, 0, &version));
  }
}

/* Something that is too short for a head, or longer than any page. */
CHECK_CASE(a_reader_of_a_file_that_is_none) {
  int fd = memfd_create("other", MFD_CLOEXEC), error;
  uint32_t version;
  CHECK_INT(0, ftruncate(fd, 100));
  CHECK(!ab_page_open(&ab_mem_libc, fd, &error, &version));
  CHECK_INT(AB_EINVAL, error);
  CHECK_INT(0, ftruncate(fd, 1 << 24));
  CHECK(!ab_page_open(&ab_mem_libc, fd, &error, &version));
  CHECK_INT(AB_EINVAL, error);
  close(fd);
}

CHECK_CASE(a_reader_without_memory) {
  int error;
  uint32_t version;
  check_mem mem;
  check_mem_init(&mem, 1);
  ab_page *page = ab_page_create(&ab_mem_libc, &(ab_page_options){1, 8, 4}, start);
  CHECK(!ab_page_open(&mem.mem, page_fd(), &error, &version));
  CHECK_INT(AB_ENOMEM, error);
  CHECK(page_fd() >= 0);
  ab_page_drop(page);
  CHECK(!ab_page_open(&ab_mem_libc, -1, &error, &version));
  CHECK_INT(AB_ESYS, error);
  int pipes[2];
  CHECK_INT(0, pipe(pipes));
  CHECK(!ab_page_open(&ab_mem_libc, pipes[0], &error, &version));
  CHECK_INT(AB_EINVAL, error);
  close(pipes[0]);
  close(pipes[1]);
}

CHECK_MAIN()
