/* For LD_PRELOAD: a disk on which files can be read up to 64 KB, and not behind it. */
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GOOD 65536

/* sendfile64 is what it is called where the size of files is 64 bits wide anyway. */
ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
  if (offset && *offset >= GOOD) {
    errno = EIO;
    return -1;
  }
  if (offset && count > (size_t)(GOOD - *offset)) count = (size_t)(GOOD - *offset);
  return syscall(SYS_sendfile, out, in, offset, count);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
  return sendfile(out, in, offset, count);
}
