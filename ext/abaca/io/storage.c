#include "io/storage.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/page_cache.h"

#define SMALLEST_PAGE 4096
#define BUFFER        32768 /* on the reader's stack */

/* --- what kind of file --- */

enum ab_file_kind ab_file_kind(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return AB_FILE_STREAM;
  if (S_ISBLK(st.st_mode)) return AB_FILE_DISK;
  if (S_ISDIR(st.st_mode)) return AB_FILE_MEMORY;
  if (!S_ISREG(st.st_mode)) return AB_FILE_STREAM;
  switch (ab_os_medium_of(fd, st.st_dev)) {
  case AB_OS_MEDIUM_MEMORY:
    return AB_FILE_MEMORY;
  case AB_OS_MEDIUM_REMOTE:
    return AB_FILE_REMOTE;
  default:
    return AB_FILE_DISK;
  }
}

/* --- what is in memory --- */

enum answer { WARM, COLD, NO_ANSWER };

/* A read that would wait fails. A read that fails for another reason does not wait, either. */
static enum answer probe(int fd, uint64_t offset) {
  char byte;
  if (ab_os_read_cached(fd, &byte, 1, (off_t)offset) >= 0) return WARM;
  if (errno == EAGAIN) return COLD;
  return errno == EOPNOTSUPP || errno == ENOSYS ? NO_ANSWER : WARM;
}

/* A mapping shows all of a file as in memory if it may not tell us about the file. */
static bool may_ask_about(int fd) {
  struct stat st;
  uid_t user = geteuid();
  return user == 0 || (fstat(fd, &st) == 0 && st.st_uid == user);
}

/* The data of overlayfs is in the page cache of the file systems below, which a mapping shows. */
static bool is_mapped_warm(int fd, uint64_t offset, size_t len) {
  return may_ask_about(fd) && ab_os_is_resident(fd, (off_t)offset, len);
}

static bool is_warm_where_reads_do_not_tell(int fd, uint64_t offset, size_t len) {
  enum ab_file_kind kind = ab_file_kind(fd);
  if (kind == AB_FILE_MEMORY) return true;
  /* Another machine may be asked whether the cached data is current. */
  return kind == AB_FILE_DISK && is_mapped_warm(fd, offset, len);
}

bool ab_storage_is_warm(int fd, uint64_t offset, size_t len) {
  uint64_t last = offset + len - 1;
  enum answer answer = probe(fd, offset);
  if (answer == NO_ANSWER) return is_warm_where_reads_do_not_tell(fd, offset, len);
  if (answer == COLD || offset / SMALLEST_PAGE == last / SMALLEST_PAGE) return answer == WARM;
  return probe(fd, last) == WARM;
}

void ab_storage_warm(int fd, uint64_t offset, size_t len) {
  char buffer[BUFFER];
  while (len > 0) {
    ssize_t n = pread(fd, buffer, len < sizeof buffer ? len : sizeof buffer, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    offset += (uint64_t)n;
    len -= (size_t)n;
  }
}
