/* Files that are sent as response bodies. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/socket.h"

int ab_file_open(const char *path, uint64_t *size) {
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return AB_ESYS;
  struct stat st;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
    *size = (uint64_t)st.st_size;
    return fd;
  }
  close(fd);
  errno = EINVAL;
  return AB_ESYS;
}
