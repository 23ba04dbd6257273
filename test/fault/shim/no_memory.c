/* For LD_PRELOAD: a system that has no memory for one answer. The socket takes nothing of a
 * response with status 200 and the content "unsent", and the next piece of memory that its thread
 * asks for is not there. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_realloc(void *ptr, size_t size);

static __thread bool fails;

static bool contains(const void *bytes, size_t len, const char *text) {
  return memmem(bytes, len, text, strlen(text)) != NULL;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags) {
  if (contains(bytes, len, " 200 ") && contains(bytes, len, "\r\n\r\nunsent")) {
    fails = true;
    errno = EAGAIN;
    return -1;
  }
  return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

void *realloc(void *ptr, size_t size) {
  if (fails && size > 0) {
    fails = false;
    errno = ENOMEM;
    return NULL;
  }
  return __libc_realloc(ptr, size);
}
