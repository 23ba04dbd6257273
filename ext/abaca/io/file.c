/* Files that are sent as response bodies. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/socket.h"

/* Files that the kernel generates while they are read have size 0, whatever they contain. */
static bool is_plain(int fd, uint64_t *size) {
  struct stat st;
  char byte;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0) return false;
  *size = (uint64_t)st.st_size;
  return st.st_size > 0 || pread(fd, &byte, 1, 0) == 0;
}

int ab_file_open(const char *path, uint64_t *size) {
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return AB_ESYS;
  if (is_plain(fd, size)) return fd;
  close(fd);
  errno = EINVAL;
  return AB_ESYS;
}

ssize_t ab_file_read(int fd, uint64_t offset, char *buf, size_t len) {
  ssize_t n;
  do n = pread(fd, buf, len, (off_t)offset);
  while (n < 0 && errno == EINTR);
  return n < 0 ? AB_ESYS : n;
}

bool ab_file_reaches(int fd, uint64_t end) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_size >= 0 && (uint64_t)st.st_size >= end;
}

int ab_fd_duplicate(int fd) {
  int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return other < 0 ? AB_ESYS : other;
}

size_t ab_fd_most(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX) return INT_MAX;
  return (size_t)limit.rlim_cur;
}
