#include "os/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifdef AB_HAS_MEMMEM
const void *ab_os_find(const void *bytes, size_t len, const void *part, size_t part_len) {
  return memmem(bytes, len, part, part_len);
}
#else
const void *ab_os_find(const void *bytes, size_t len, const void *part, size_t part_len) {
  if (part_len == 0) return bytes;
  const char *at = bytes, first = *(const char *)part;
  while (len >= part_len && (at = memchr(at, first, len - part_len + 1))) {
    if (memcmp(at, part, part_len) == 0) return at;
    at++;
    len = (size_t)((const char *)bytes + len - at);
    bytes = at;
  }
  return NULL;
}
#endif

#ifdef AB_HAS_EXPLICIT_BZERO
void ab_os_wipe(void *bytes, size_t len) {
  explicit_bzero(bytes, len);
}
#else
void ab_os_wipe(void *bytes, size_t len) {
  memset(bytes, 0, len);
  __asm__ volatile("" : : "r"(bytes) : "memory");
}
#endif

#ifdef AB_HAS_GETRANDOM
#include <sys/random.h>

bool ab_os_random(void *bytes, size_t len, bool may_wait) {
  return getrandom(bytes, len, may_wait ? 0 : GRND_NONBLOCK) == (ssize_t)len;
}
#else
bool ab_os_random(void *bytes, size_t len, bool may_wait AB_UNUSED) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got;
  do got = read(fd, bytes, len);
  while (got < 0 && errno == EINTR);
  int error = errno;
  close(fd);
  errno = error;
  return got == (ssize_t)len;
}
#endif
