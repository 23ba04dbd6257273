/* What of a file is in memory, and that reading brings it there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#include "io/storage.h"

#define LEN AB_STORAGE_PIECE

/* A file of LEN bytes that is on its disk. */
static int new_file(void) {
  char path[] = "/var/tmp/abaca-storage-test-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) abort();
  unlink(path);
  static char bytes[LEN];
  CHECK_INT(LEN, write(fd, bytes, LEN));
  fsync(fd);
  return fd;
}

/* Has the kernel forget it, and tells whether all of it is forgotten: not where it is nowhere but
 * in memory, or somebody has it mapped. A mapping shows that, since one look by ab_storage_is_warm
 * may have the kernel read ahead: what has been looked at may be warm at any time. */
static bool forget(int fd) {
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  unsigned char resident[LEN / 4096];
  void *pages = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
  bool cold = mincore(pages, LEN, resident) == 0;
  for (size_t i = 0; i < sizeof resident && cold; i++) cold = !(resident[i] & 1);
  munmap(pages, LEN);
  return cold && ab_file_kind(fd) == AB_FILE_DISK;
}

/* Whether this part of a file is cold after `page` has been read; NULL reads none. Looking can make
 * the kernel read ahead, so each try uses a new file. A file system that never drops pages passes.
 */
static bool is_cold_beside(const uint64_t *page, uint64_t at, size_t len) {
  bool forgotten = false, cold = false;
  for (int i = 0; i < 20 && !cold; i++) {
    int fd = new_file();
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no more than that page */
    if (forget(fd)) {
      forgotten = true;
      if (page) ab_storage_warm(fd, *page, 4096);
      cold = !ab_storage_is_warm(fd, at, len);
    }
    close(fd);
  }
  return cold || !forgotten;
}

static bool is_cold(uint64_t at, size_t len) {
  return is_cold_beside(NULL, at, len);
}

CHECK_CASE(what_was_written_is_warm) {
  CHECK_NEEDS(MINCORE);
  int fd = new_file();
  CHECK(ab_storage_is_warm(fd, 0, LEN));
  CHECK(ab_storage_is_warm(fd, LEN - 1, 1));
  close(fd);
}

CHECK_CASE(what_was_forgotten_is_cold_until_it_is_read) {
  CHECK_NEEDS(MINCORE);
  CHECK(is_cold(0, LEN));
  CHECK(is_cold(0, 1));
  CHECK(is_cold(LEN / 2, LEN / 2));
  int fd = new_file();
  forget(fd);
  ab_storage_warm(fd, 0, LEN);
  CHECK(ab_storage_is_warm(fd, 0, LEN));
  CHECK(ab_storage_is_warm(fd, 5000, 1));
  close(fd);
}

/* Its beginning alone, as a client leaves it that has broken off. */
CHECK_CASE(a_part_is_not_all) {
  CHECK_NEEDS(MINCORE);
  const uint64_t first = 0, last = LEN - 4096;
  CHECK(is_cold_beside(&first, 0, LEN));
  CHECK(is_cold_beside(&last, 4096, LEN - 4096));
  int fd = new_file();
  forget(fd);
  ab_storage_warm(fd, 0, 4096);
  CHECK(ab_storage_is_warm(fd, 0, 4096));
  CHECK(ab_storage_is_warm(fd, 4095, 1));
  close(fd);
}

/* A thread reads it first, then. */
CHECK_CASE(what_the_system_does_not_tell_is_cold) {
  if (AB_HAS(MINCORE)) CHECK_LEAVE_OUT("the system tells");
  int fd = new_file();
  CHECK_INT(AB_FILE_DISK, ab_file_kind(fd));
  CHECK(!ab_storage_is_warm(fd, 0, LEN));
  ab_storage_warm(fd, 0, LEN);
  CHECK(!ab_storage_is_warm(fd, 0, 1));
  close(fd);
}

CHECK_CASE(memory_is_always_warm) {
  CHECK_NEEDS(FILE_SYSTEM_TYPES);
  int fd = memfd_create("storage", MFD_CLOEXEC);
  CHECK(fd >= 0);
  CHECK_INT(0, ftruncate(fd, LEN));
  CHECK_INT(AB_FILE_MEMORY, ab_file_kind(fd));
  CHECK(ab_storage_is_warm(fd, 0, LEN));
  close(fd);
}

/* What sendfile would fail for is not waited for. */
CHECK_CASE(what_cannot_be_read_keeps_nobody_waiting) {
  CHECK_NEEDS(MINCORE);
  int fd = new_file();
  CHECK(ab_storage_is_warm(fd, 10 * LEN, 1));
  ab_storage_warm(fd, 10 * LEN, 100);
  ab_storage_warm(fd, LEN - 10, 100);
  close(fd);
  CHECK(ab_storage_is_warm(-1, 0, LEN));
  ab_storage_warm(-1, 0, LEN);
}

CHECK_MAIN()
