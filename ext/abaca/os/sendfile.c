/* Parts of files, sent by the kernel or read first. */
#include "os/sockets.h"

#include <errno.h>
#include <unistd.h>

#ifdef AB_HAS_SENDFILE
#include <signal.h>
#include <sys/sendfile.h>
#include <time.h>

/* sendfile has no MSG_NOSIGNAL, and ignoring SIGPIPE is the application's choice, so the signal is
 * blocked during the call and swallowed. If the thread blocks it already, a pending one may belong
 * to other code and stays. */
ssize_t ab_os_sendfile(int fd, int file_fd, off_t offset, size_t len) {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ssize_t sent = sendfile(fd, file_fd, &offset, len);
  int saved = errno;
  if (!sigismember(&before, SIGPIPE)) {
    if (AB_UNLIKELY(sent < 0 && saved == EPIPE)) {
      const struct timespec zero = {0, 0};
      while (sigtimedwait(&pipe_signal, NULL, &zero) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved;
  return sent;
}
#else
#define PIECE 32768 /* on the stack of whoever sends */

ssize_t ab_os_sendfile(int fd, int file_fd, off_t offset, size_t len) {
  char piece[PIECE];
  ssize_t got = pread(file_fd, piece, len < sizeof piece ? len : sizeof piece, offset);
  if (got <= 0) return got;
  ssize_t sent = ab_os_send(fd, piece, (size_t)got, false);
  return sent < 0 && errno == ENOTSOCK ? write(fd, piece, (size_t)got) : sent;
}
#endif
