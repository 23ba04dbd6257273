#include "os/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef AB_HAS_MEMFD
int ab_nameless_memory(const char *name) {
  return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}
#else
int ab_nameless_memory(const char *name AB_UNUSED) {
  errno = ENOSYS;
  return -1;
}
#endif

#ifdef AB_HAS_MKOSTEMP
static int make(char *path) {
  return mkostemp(path, O_CLOEXEC);
}
#else
static int make(char *path) {
  int fd = mkstemp(path);
  if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}
#endif

int ab_nameless_file(const char *directory, const char *name) {
  char path[256];
  int len = snprintf(path, sizeof(path), "%s/%s.XXXXXX", directory, name);
  if (len < 0 || (size_t)len >= sizeof(path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = make(path);
  if (fd >= 0) unlink(path);
  return fd;
}

#ifdef AB_HAS_SEALS
void ab_nameless_seal(int fd) {
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}
#else
void ab_nameless_seal(int fd AB_UNUSED) {}
#endif

#ifdef AB_HAS_FALLOCATE
int ab_nameless_reserve(int fd, size_t offset, size_t size) {
  int error = posix_fallocate(fd, (off_t)offset, (off_t)size);
  /* Not every file system can (EINVAL, says POSIX), and not every C library writes zeros then. */
  return error == EINVAL || error == EOPNOTSUPP ? 0 : error;
}
#else
int ab_nameless_reserve(int fd AB_UNUSED, size_t offset AB_UNUSED, size_t size AB_UNUSED) {
  return 0;
}
#endif

#ifdef AB_HAS_HUGE_PAGES
void ab_nameless_map_sparsely(void *start, size_t size) {
  madvise(start, size, MADV_NOHUGEPAGE);
}
#else
void ab_nameless_map_sparsely(void *start AB_UNUSED, size_t size AB_UNUSED) {}
#endif
