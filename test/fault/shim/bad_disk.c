/* For LD_PRELOAD: a disk on which files can be read up to 64 KB, and not behind it, whether they
 * are sent or read. */
#include <errno.h>
#include <stdbool.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GOOD 65536

/* Leaves of `count` what can be read; false, with EIO, if that is nothing. */
static bool reaches(off_t offset, size_t *count) {
  if (offset >= GOOD) {
    errno = EIO;
    return false;
  }
  if (*count > (size_t)(GOOD - offset)) *count = (size_t)(GOOD - offset);
  return true;
}

/* These and their second names are the same where the size of files is 64 bits wide anyway. */
ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
  if (offset && !reaches(*offset, &count)) return -1;
  return syscall(SYS_sendfile, out, in, offset, count);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
  return sendfile(out, in, offset, count);
}

ssize_t pread(int fd, void *buf, size_t count, off_t offset) {
  if (!reaches(offset, &count)) return -1;
  return syscall(SYS_pread64, fd, buf, count, offset);
}

ssize_t pread64(int fd, void *buf, size_t count, off64_t offset) {
  return pread(fd, buf, count, offset);
}
