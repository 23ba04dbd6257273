/* Errors that are not listed are blamed on the peer: the connection is closed either way. */
#include "io/socket.h"

#include <errno.h>
#include <unistd.h>

#include "os/sockets.h"

#define MAX_TRANSFER ((uint64_t)0x7ffff000) /* Linux moves no more in one call */

static int socket_error_of(int number) {
  switch (number) {
  case EAGAIN:
#if EWOULDBLOCK != EAGAIN
  case EWOULDBLOCK:
#endif
    return AB_AGAIN;
  case ENOBUFS:
  case ENOMEM:
    return AB_ENOMEM;
  default: /* ECONNRESET, EPIPE, ETIMEDOUT, ENOTCONN, EHOSTUNREACH, ... */
    return AB_EPEER;
  }
}

ssize_t ab_sock_recv(int fd, char *buf, size_t len) {
  ssize_t got;
  do got = recv(fd, buf, len, 0);
  while (AB_UNLIKELY(got < 0 && errno == EINTR));
  return got >= 0 ? got : socket_error_of(errno);
}

ssize_t ab_sock_recv_split(int fd, const struct iovec *iov, int count) {
  ssize_t got;
  do got = readv(fd, iov, count);
  while (AB_UNLIKELY(got < 0 && errno == EINTR));
  return got >= 0 ? got : socket_error_of(errno);
}

static inline ssize_t send_quietly(int fd, const struct iovec *iov, int count, bool more) {
  ssize_t sent;
  if (count == 1) {
    do sent = ab_os_send(fd, iov->iov_base, iov->iov_len, more);
    while (AB_UNLIKELY(sent < 0 && errno == EINTR));
  } else {
    struct msghdr msg = {.msg_iov = (struct iovec *)iov,
                         .msg_iovlen =
                             (size_t)(count > AB_OS_BUFFERS_MAX ? AB_OS_BUFFERS_MAX : count)};
    do sent = ab_os_sendmsg(fd, &msg, more);
    while (AB_UNLIKELY(sent < 0 && errno == EINTR));
  }
  return sent >= 0 ? sent : socket_error_of(errno);
}

ssize_t ab_sock_send(int fd, const struct iovec *iov, int count) {
  return send_quietly(fd, iov, count, false);
}

ssize_t ab_sock_send_more(int fd, const struct iovec *iov, int count) {
  return send_quietly(fd, iov, count, true);
}

ssize_t ab_sock_sendfile_once(int fd, int file_fd, uint64_t offset, uint64_t len) {
  if (offset > INT64_MAX) {
    errno = EOVERFLOW;
    return AB_ESYS;
  }
  size_t part = (size_t)(len < MAX_TRANSFER ? len : MAX_TRANSFER);
  ssize_t sent = ab_os_sendfile(fd, file_fd, (off_t)offset, part);
  if (sent >= 0) return sent;
  switch (errno) {
  case EINTR:
    return AB_AGAIN;
  case EIO: /* the disk */
  case EBADF:
  case EINVAL: /* a file that cannot be sent this way */
  case EOVERFLOW:
  case ESPIPE:
    return AB_ESYS;
  default:
    return socket_error_of(errno);
  }
}

ssize_t ab_sock_sendfile(int fd, int file_fd, uint64_t offset, uint64_t len) {
  ssize_t sent;
  do sent = ab_sock_sendfile_once(fd, file_fd, offset, len);
  while (AB_UNLIKELY(sent == AB_AGAIN && errno == EINTR));
  return sent;
}

uint64_t ab_sock_queued(int fd) {
  return ab_os_unsent(fd);
}

bool ab_sock_ended(int fd, bool half) {
  return ab_os_ended(fd, half);
}

int ab_sock_pair(int *a, int *b) {
  int ends[2];
  if (ab_os_stream_pair(ends) != 0) return AB_ESYS;
  const int bytes = 65536;
  for (int i = 0; i < 2; i++) setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  *a = ends[0];
  *b = ends[1];
  return AB_OK;
}

void ab_sock_shutdown(int fd) {
  shutdown(fd, SHUT_WR);
}

void ab_sock_reset(int fd) {
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ab_fd_close(fd);
}

void ab_fd_close(int fd) {
  if (fd < 0) return;
  int saved = errno;
  /* Not repeated on EINTR: Linux has released the number by then, and it may be in use again. */
  close(fd);
  errno = saved;
}

bool ab_sock_identify(int fd, ab_sock_id *id) {
  return ab_os_identify(fd, id->numbers);
}

bool ab_sock_is(int fd, const ab_sock_id *id) {
  ab_sock_id now;
  return ab_sock_identify(fd, &now) && now.numbers[0] == id->numbers[0] &&
         now.numbers[1] == id->numbers[1];
}

bool ab_sock_end(int fd, const ab_sock_id *id, bool both) {
  /* Closing a duplicate of a file gives up the process's locks of it: look first. */
  if (!ab_sock_is(fd, id)) return false;
  /* The duplicate is closed only here: what it is found to be, it stays. */
  int own = ab_fd_duplicate(fd);
  bool same = own >= 0 && ab_sock_is(own, id);
  if (same) shutdown(own, both ? SHUT_RDWR : SHUT_RD);
  ab_fd_close(own);
  return same;
}
