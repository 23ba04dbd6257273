/* Sockets on the loopback interface and in socket pairs, and what their errors turn into. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "io/socket.h"
#include "os/sockets.h"

static void make_pair(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) abort();
}

/* fds[0] has connected to fds[1]. */
static void make_tcp_pair(int fds[2]) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &len) != 0)
    abort();
  fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fds[0], (struct sockaddr *)&address, len) != 0) abort();
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fds[1] < 0) abort();
  close(listener);
}

/* Waits without an upper bound that a slow machine could miss. */
static ssize_t recv_soon(int fd, char *buf, size_t len) {
  ssize_t got;
  for (int i = 0; (got = ab_sock_recv(fd, buf, len)) == AB_AGAIN && i < 10000; i++) usleep(1000);
  return got;
}

static int make_file(const char *content, size_t len) {
  char name[] = "/tmp/abaca-socket-XXXXXX";
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0 || write(fd, content, len) != (ssize_t)len) abort();
  unlink(name);
  return fd;
}

CHECK_CASE(recv_tells_data_end_and_nothing_apart) {
  int fds[2];
  char buf[16];
  make_pair(fds);
  CHECK_INT(AB_AGAIN, ab_sock_recv(fds[0], buf, sizeof buf));
  CHECK_INT(5, write(fds[1], "hello", 5));
  CHECK_INT(3, ab_sock_recv(fds[0], buf, 3));
  CHECK_BYTES("hel", buf, 3);
  CHECK_INT(2, ab_sock_recv(fds[0], buf, sizeof buf));
  ab_sock_shutdown(fds[1]);
  CHECK_INT(0, ab_sock_recv(fds[0], buf, sizeof buf));
  /* Half-closed: the other direction lives. */
  CHECK_INT(1, write(fds[0], "x", 1));
  CHECK_INT(1, ab_sock_recv(fds[1], buf, sizeof buf));
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
}

CHECK_CASE(recv_split_fills_in_order) {
  int fds[2];
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
  char first[3], second[8];
  struct iovec iov[] = {{first, sizeof first}, {second, sizeof second}};
  CHECK_INT(AB_AGAIN, ab_sock_recv_split(fds[0], iov, 2));
  CHECK_INT(2, send(fds[1], "ab", 2, 0));
  CHECK_INT(2, ab_sock_recv_split(fds[0], iov, 2));
  CHECK_INT(5, send(fds[1], "cdefg", 5, 0));
  CHECK_INT(5, ab_sock_recv_split(fds[0], iov, 2));
  CHECK_BYTES("cde", first, sizeof first);
  CHECK_BYTES("fg", second, 2);
  close(fds[1]);
  CHECK_INT(0, ab_sock_recv_split(fds[0], iov, 2));
  close(fds[0]);
}

CHECK_CASE(send_gathers) {
  int fds[2];
  char buf[16];
  make_pair(fds);
  struct iovec iov[3] = {{"ab", 2}, {"", 0}, {"cde", 3}};
  CHECK_INT(5, ab_sock_send(fds[0], iov, 3));
  CHECK_INT(5, ab_sock_recv(fds[1], buf, sizeof buf));
  CHECK_BYTES("abcde", buf, 5);
  CHECK_INT(3, ab_sock_send(fds[0], iov + 2, 1));
  CHECK_INT(3, ab_sock_recv(fds[1], buf, sizeof buf));
  CHECK_BYTES("cde", buf, 3);
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
}

CHECK_CASE(send_takes_more_pieces_than_the_kernel) {
  enum { COUNT = AB_OS_BUFFERS_MAX + 10 };
  static struct iovec iov[COUNT];
  int fds[2];
  make_pair(fds);
  for (int i = 0; i < COUNT; i++) iov[i] = (struct iovec){"x", 1};
  CHECK_INT(AB_OS_BUFFERS_MAX, ab_sock_send(fds[0], iov, COUNT));
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
}

CHECK_CASE(send_stops_when_the_peer_does_not_read) {
  static char block[65536];
  struct iovec one = {block, sizeof block}, two[2] = {{block, 10}, {block, sizeof block - 10}};
  int fds[2];
  make_pair(fds);
  ssize_t sent = 0;
  for (int i = 0; i < 1000 && sent >= 0; i++) sent = ab_sock_send(fds[0], &one, 1);
  CHECK_INT(AB_AGAIN, sent);
  CHECK_INT(AB_AGAIN, ab_sock_send(fds[0], two, 2));
  int file = make_file("hello", 5);
  CHECK_INT(AB_AGAIN, ab_sock_sendfile(fds[0], file, 0, 5));
  ab_fd_close(file);
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
}

/* The disposition stays at its default, which kills: the case ends the program if it is raised. */
CHECK_CASE(a_peer_that_left_raises_no_signal) {
  struct iovec iov[2] = {{"ab", 2}, {"c", 1}};
  int fds[2], file = make_file("hello", 5);
  char byte;
  make_pair(fds);
  ab_fd_close(fds[1]);
  signal(SIGPIPE, SIG_DFL);
  CHECK_INT(AB_EPEER, ab_sock_send(fds[0], iov, 1));
  CHECK_INT(AB_EPEER, ab_sock_send(fds[0], iov, 2));
  CHECK_INT(AB_EPEER, ab_sock_sendfile(fds[0], file, 0, 5));
  CHECK_INT(0, ab_sock_recv(fds[0], &byte, 1));
  sigset_t mask, pending;
  CHECK_INT(0, pthread_sigmask(SIG_SETMASK, NULL, &mask));
  CHECK(!sigismember(&mask, SIGPIPE));

  /* A caller that blocks the signal gets its mask back, too. */
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  CHECK_INT(AB_EPEER, ab_sock_sendfile(fds[0], file, 0, 5));
  CHECK_INT(0, pthread_sigmask(SIG_SETMASK, NULL, &mask));
  CHECK(sigismember(&mask, SIGPIPE));
  const struct timespec zero = {0, 0};
  while (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE))
    sigtimedwait(&blocked, NULL, &zero);
  pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
  ab_fd_close(fds[0]);
  ab_fd_close(file);
}

CHECK_CASE(reset_reaches_the_peer_as_such) {
  int fds[2];
  char byte;
  struct iovec iov = {"x", 1};
  make_tcp_pair(fds);
  ab_sock_reset(fds[1]);
  CHECK_INT(AB_EPEER, recv_soon(fds[0], &byte, 1));
  CHECK_INT(AB_EPEER, ab_sock_send(fds[0], &iov, 1));
  ab_fd_close(fds[0]);
}

CHECK_CASE(an_unconnected_socket_has_no_peer) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  char byte;
  struct iovec iov = {"x", 1};
  CHECK_INT(AB_EPEER, ab_sock_recv(fd, &byte, 1));
  CHECK_INT(AB_EPEER, ab_sock_send(fd, &iov, 1));
  ab_fd_close(fd);
}

CHECK_CASE(sendfile_sends_ranges) {
  int fds[2], file = make_file("hello, world", 12);
  char buf[32];
  make_tcp_pair(fds);
  CHECK_INT(5, ab_sock_sendfile(fds[0], file, 7, 5));
  CHECK_INT(5, recv_soon(fds[1], buf, sizeof buf));
  CHECK_BYTES("world", buf, 5);
  /* The range goes beyond the end, then begins there. */
  CHECK_INT(2, ab_sock_sendfile(fds[0], file, 10, 100));
  CHECK_INT(0, ab_sock_sendfile(fds[0], file, 12, 88));
  CHECK_INT(0, ab_sock_sendfile(fds[0], file, 1 << 20, UINT64_MAX));
  CHECK_INT(2, recv_soon(fds[1], buf, sizeof buf));
  CHECK_BYTES("ld", buf, 2);
  /* It works on an offset of its own. */
  CHECK_INT(12, lseek(file, 0, SEEK_CUR));
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
  ab_fd_close(file);
}

CHECK_CASE(sendfile_reads_beyond_four_gigabytes) {
  int fds[2], file = make_file("", 0);
  char buf[8];
  const uint64_t offset = ((uint64_t)5 << 30) + 3;
  make_tcp_pair(fds);
  CHECK_INT(4, pwrite(file, "tail", 4, (off_t)offset));
  CHECK_INT(4, ab_sock_sendfile(fds[0], file, offset, 4));
  CHECK_INT(4, recv_soon(fds[1], buf, sizeof buf));
  CHECK_BYTES("tail", buf, 4);
  /* A length beyond what one call can move is cut, not refused. */
  ssize_t sent = ab_sock_sendfile(fds[0], file, 0, (uint64_t)5 << 30);
  CHECK(sent > 0);
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
  ab_fd_close(file);
}

CHECK_CASE(sendfile_blames_the_file) {
  int fds[2], pipe_fds[2];
  make_pair(fds);
  CHECK_INT(0, pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK));
  errno = 0;
  CHECK_INT(AB_ESYS, ab_sock_sendfile(fds[0], pipe_fds[0], 0, 5));
  CHECK(errno == ESPIPE || errno == EINVAL);
  CHECK_INT(AB_ESYS, ab_sock_sendfile(fds[0], -1, 0, 5));
  CHECK_INT(EBADF, errno);
  CHECK_INT(AB_ESYS, ab_sock_sendfile(fds[0], pipe_fds[0], UINT64_MAX, 5));
  CHECK_INT(EOVERFLOW, errno);
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
  ab_fd_close(pipe_fds[0]);
  ab_fd_close(pipe_fds[1]);
}

static void ignore_signal(int number) {
  (void)number;
}

/* A descriptor that blocks: signals come until one finds sendfile waiting for the peer. */
CHECK_CASE(a_signal_ends_sendfile) {
  int fds[2], file = make_file("hello", 5);
  make_pair(fds);
  CHECK_INT(0, fcntl(fds[0], F_SETFL, fcntl(fds[0], F_GETFL) & ~O_NONBLOCK));
  struct sigaction action = {.sa_handler = ignore_signal}, before;
  struct itimerval tick = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &tick, NULL);
  ssize_t sent = 5;
  for (int i = 0; sent == 5 && i < 1000000; i++) sent = ab_sock_sendfile_once(fds[0], file, 0, 5);
  CHECK_INT(AB_AGAIN, sent);
  CHECK_INT(EINTR, errno);
  setitimer(ITIMER_REAL, &none, NULL);
  sigaction(SIGALRM, &before, NULL);
  ab_fd_close(file);
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
}

CHECK_CASE(close_keeps_errno) {
  errno = ENOTTY;
  ab_fd_close(-1);
  ab_fd_close(dup(0));
  CHECK_INT(ENOTTY, errno);
}

/* What the peer has in its own buffer is taken: only what waits here counts. */
CHECK_CASE(queue_is_what_the_peer_has_not_taken) {
  CHECK_NEEDS(UNSENT);
  static char bytes[1 << 20];
  int fds[2];
  make_tcp_pair(fds);
  CHECK_INT(0, ab_sock_queued(fds[0]));
  struct iovec iov = {bytes, sizeof bytes};
  size_t sent = 0;
  for (ssize_t n; (n = ab_sock_send(fds[0], &iov, 1)) > 0;) sent += (size_t)n;
  uint64_t full = ab_sock_queued(fds[0]);
  CHECK(full > 0 && full < sent);
  size_t got = 0;
  for (int i = 0; got < sent && i < 100000; i++) {
    ssize_t n = ab_sock_recv(fds[1], bytes, sizeof bytes);
    if (n > 0) got += (size_t)n;
    if (n < 0) usleep(100);
  }
  for (int i = 0; ab_sock_queued(fds[0]) > 0 && i < 10000; i++) usleep(1000);
  CHECK_INT(0, ab_sock_queued(fds[0]));
  ab_fd_close(fds[0]);
  ab_fd_close(fds[1]);
  CHECK_INT(0, ab_sock_queued(-1));
}

static bool ended_soon(int fd, bool half) {
  for (int i = 0; i < 10000; i++) {
    if (ab_sock_ended(fd, half)) return true;
    usleep(1000);
  }
  return false;
}

CHECK_CASE(ended_tells_half_and_whole_apart) {
  int fds[2];
  make_tcp_pair(fds);
  CHECK(!ab_sock_ended(fds[1], true));
  CHECK_INT(1, send(fds[0], "x", 1, MSG_NOSIGNAL));
  CHECK(!ab_sock_ended(fds[1], true)); /* bytes are no end */
  ab_sock_shutdown(fds[0]);
  char byte;
  if (!AB_HAS(POLLRDHUP)) CHECK_INT(1, ab_sock_recv(fds[1], &byte, 1)); /* it hides the end */
  CHECK(ended_soon(fds[1], true));
  CHECK(!ab_sock_ended(fds[1], false));
  ab_sock_reset(fds[0]);
  CHECK(ended_soon(fds[1], false));
  ab_fd_close(fds[1]);
  make_pair(fds);
  ab_fd_close(fds[0]);
  CHECK(ended_soon(fds[1], false)); /* on one machine a close is no half-close */
  ab_fd_close(fds[1]);
}

CHECK_MAIN()
