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
  ab_page *page = ab_page_create(&ab_mem_libc, 3, start);
  CHECK(page != NULL);
  const ab_page_head *head = ab_page_head_of(page);
  CHECK(memcmp(head, "abacapag", 8) == 0);
  CHECK_INT(AB_PAGE_VERSION, head->version);
  CHECK_INT(4096, head->head_size);
  CHECK_INT(8192, head->slot_size);
  CHECK_INT(3, head->slot_count);
  CHECK_INT(4096 + 3 * 8192, head->size);
  CHECK_INT(getpid(), head->creator);
  CHECK_INT(1000, head->made_at);
  CHECK_INT(2000, head->made_at_unix);
  CHECK_INT(3, ab_page_size(page));
  CHECK((char *)ab_page_slot_of(page, 2) - (char *)head == 4096 + 2 * 8192);
  ab_page *other = ab_page_create(&ab_mem_libc, 1, start);
  CHECK(memcmp(head->id, ab_page_head_of(other)->id, sizeof head->id) != 0);
  ab_page_drop(other);
  ab_page_drop(page);
}

CHECK_CASE(its_memory_cannot_shrink) {
  ab_page *page = ab_page_create(&ab_mem_libc, 1, start);
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
  ab_page *page = ab__page_create_in(&ab_mem_libc, "/tmp", 2, start);
  CHECK(page != NULL);
  int fd = page_fd();
  struct stat found;
  CHECK_INT(0, fstat(fd, &found));
  CHECK_INT(0, found.st_nlink);
  CHECK_INT(4096 + 2 * 8192, found.st_size);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK_INT(AB_OK, ab_page_claim(ab_page_slot_of(page, 1), 0, start));
  ab_page_drop(page);
  CHECK_INT(-1, page_fd());
}

CHECK_CASE(no_file_can_be_made) {
  CHECK(!ab__page_create_in(&ab_mem_libc, "/tmp/there is no such folder", 1, start));
  CHECK_INT(ENOENT, errno);
  char longest[400];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  CHECK(!ab__page_create_in(&ab_mem_libc, longest, 1, start));
  CHECK_INT(ENAMETOOLONG, errno);
}

CHECK_CASE(without_memory_there_is_no_page) {
  check_mem mem;
  check_mem_init(&mem, 1);
  CHECK(!ab_page_create(&mem.mem, 1, start));
  CHECK_INT(ENOMEM, errno);
  CHECK_INT(-1, page_fd());
  CHECK_INT(0, mem.live);
}

static void fails_in_a_child(int resource, rlim_t most, int expected) {
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = {most, most};
    if (setrlimit(resource, &limit) < 0) _exit(2);
    ab_page *page = ab_page_create(&ab_mem_libc, 1, start);
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
  fails_in_a_child(RLIMIT_AS, 4096, ENOMEM);
}

CHECK_CASE(the_last_hold_unmaps_it) {
  ab_page *page = ab_page_create(&ab_mem_libc, 1, start);
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
  ab_page *page = ab_page_create(&ab_mem_libc, 2, start);
  ab_page *reader = ab_page_open(&ab_mem_libc, page_fd(), &error, &version);
  CHECK(reader != NULL);
  CHECK_INT(AB_OK, error);
  CHECK_INT(AB_PAGE_VERSION, version);
  CHECK(ab_page_is_read_only(reader) && !ab_page_is_read_only(page));
  CHECK_INT(AB_OK, ab_page_claim(ab_page_slot_of(page, 1), 4, start));
  ab_page_view view = ab_page_look(ab_page_slot_of(reader, 1));
  CHECK_INT(getpid(), view.pid);
  CHECK_INT(4, view.phase);
  ab_page_drop(page);
  CHECK_INT(getpid(), ab_page_look(ab_page_slot_of(reader, 1)).pid);
  ab_page_drop(reader);
}

/* Writes a page's first bytes into memory of its own, changes one word, and opens that. */
static int opened_with(size_t offset, uint32_t value, size_t size, uint32_t *version) {
  ab_page *page = ab_page_create(&ab_mem_libc, 1, start);
  int fd = memfd_create("other", MFD_CLOEXEC), error = 0;
  CHECK_INT(0, ftruncate(fd, (off_t)size));
  CHECK_INT((ssize_t)sizeof(ab_page_head),
            pwrite(fd, ab_page_head_of(page), sizeof(ab_page_head), 0));
  CHECK_INT((ssize_t)sizeof value, pwrite(fd, &value, sizeof value, (off_t)offset));
  ab_page *reader = ab_page_open(&ab_mem_libc, fd, &error, version);
  CHECK(!reader);
  close(fd);
  ab_page_drop(page);
  return error;
}

CHECK_CASE(a_reader_says_what_is_not_its_layout) {
  uint32_t version;
  CHECK_INT(AB_ELIMIT, opened_with(offsetof(ab_page_head, version), 9, 12288, &version));
  CHECK_INT(9, version);
  CHECK_INT(AB_EINVAL, opened_with(0, 0, 12288, &version));
  CHECK_INT(0, version);
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_size), 64, 12288, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, head_size), 8192, 12288, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_count), 2, 12288, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, slot_count), 0, 12288, &version));
  CHECK_INT(AB_EINVAL, opened_with(offsetof(ab_page_head, size), 8192, 12288, &version));
  CHECK_INT(AB_EINVAL,
            opened_with(offsetof(ab_page_head, version), AB_PAGE_VERSION, 16384, &version));
  CHECK_INT(AB_EINVAL,
            opened_with(offsetof(ab_page_head, version), AB_PAGE_VERSION, 100, &version));
}

CHECK_CASE(a_reader_without_memory) {
  int error;
  uint32_t version;
  check_mem mem;
  check_mem_init(&mem, 1);
  ab_page *page = ab_page_create(&ab_mem_libc, 1, start);
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
