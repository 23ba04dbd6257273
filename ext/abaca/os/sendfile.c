/* Parts of files, sent by the kernel or read first. */
#include "os/sockets.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#ifdef AB_HAS_SENDFILE
#include <sys/sendfile.h>
#endif

/* Neither sendfile nor write has MSG_NOSIGNAL, and ignoring SIGPIPE is the application's choice, so
 * the signal is blocked during the call and swallowed. If the thread blocks it already, a pending
 * one may belong to other code and stays. */
static void block_signal(sigset_t *before) {
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, before);
}

static void swallow_signal(void) {
  sigset_t signals;
  int taken;
  if (sigpending(&signals) != 0 || !sigismember(&signals, SIGPIPE)) return;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigwait(&signals, &taken);
}

/* Returns the call's result. */
static ssize_t unblock_signal(const sigset_t *before, ssize_t sent) {
  int saved = errno;
  if (!sigismember(before, SIGPIPE)) {
    if (AB_UNLIKELY(sent < 0 && saved == EPIPE)) swallow_signal();
    pthread_sigmask(SIG_SETMASK, before, NULL);
  }
  errno = saved;
  return sent;
}

#ifdef AB_HAS_SENDFILE
ssize_t ab_os_sendfile(int fd, int file_fd, off_t offset, size_t len) {
  sigset_t before;
  block_signal(&before);
  return unblock_signal(&before, sendfile(fd, file_fd, &offset, len));
}
#else
#define PIECE 32768 /* on the stack of whoever sends */

static ssize_t write_quietly(int fd, const char *bytes, size_t len) {
  sigset_t before;
  block_signal(&before);
  return unblock_signal(&before, write(fd, bytes, len));
}

ssize_t ab_os_sendfile(int fd, int file_fd, off_t offset, size_t len) {
  char piece[PIECE];
  ssize_t got = pread(file_fd, piece, len < sizeof piece ? len : sizeof piece, offset);
  if (got <= 0) return got;
  ssize_t sent = ab_os_send(fd, piece, (size_t)got, false);
  return sent < 0 && errno == ENOTSOCK ? write_quietly(fd, piece, (size_t)got) : sent;
}
#endif
