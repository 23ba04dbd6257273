/* For LD_PRELOAD: clients that read as fast as anybody writes. The socket takes all of what has
 * "to the fast reader" in it, and nobody gets it. */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_for_it(const void *bytes, size_t len) {
  static const char text[] = "to the fast reader";
  return memmem(bytes, len, text, sizeof text - 1) != NULL;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags) {
  if (is_for_it(bytes, len)) return (ssize_t)len;
  return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  size_t len = 0;
  bool takes = false;
  for (size_t i = 0; i < message->msg_iovlen; i++) {
    len += message->msg_iov[i].iov_len;
    takes = takes || is_for_it(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  }
  return takes ? (ssize_t)len : syscall(SYS_sendmsg, fd, message, flags);
}
