/* Sockets that block nobody, that no program inherits, and that raise no signal. */
#include "os/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

static void check_flags(int fd) {
  CHECK(fd >= 0);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static int open_fds(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* A listener on any port of the loopback address. */
static int listen_on(struct sockaddr_in *address) {
  socklen_t len = sizeof *address;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = ab_os_socket(AF_INET, SOCK_STREAM);
  if (bind(fd, (struct sockaddr *)address, len) != 0 || listen(fd, 8) != 0 ||
      getsockname(fd, (struct sockaddr *)address, &len) != 0)
    abort();
  return fd;
}

static int connect_to(const struct sockaddr_in *address) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) abort();
  return fd;
}

CHECK_CASE(what_is_accepted) {
  struct sockaddr_in address, peer;
  socklen_t len = sizeof peer;
  int listener = listen_on(&address);
  check_flags(listener);
  CHECK_INT(-1, ab_os_accept(listener, NULL, NULL));
  CHECK_INT(EAGAIN, errno);
  int client = connect_to(&address);
  int accepted = ab_os_accept(listener, (struct sockaddr *)&peer, &len);
  check_flags(accepted);
  CHECK_INT(AF_INET, peer.sin_family);
  close(accepted);
  close(client);
  close(listener);
  CHECK_INT(-1, ab_os_accept(listener, NULL, NULL));
  CHECK_INT(EBADF, errno);
}

CHECK_CASE(streams) {
  int ends[2];
  char buf[8];
  CHECK_INT(0, ab_os_stream_pair(ends));
  check_flags(ends[0]);
  check_flags(ends[1]);
  CHECK_INT(3, ab_os_send(ends[0], "one", 3, true));
  CHECK_INT(3, ab_os_send(ends[0], "two", 3, false));
  CHECK_INT(6, ab_os_recv_now(ends[1], buf, sizeof buf));
  CHECK_BYTES("onetwo", buf, 6);
  CHECK_INT(-1, ab_os_recv_now(ends[1], buf, sizeof buf));
  CHECK_INT(EAGAIN, errno);
  close(ends[0]);
  close(ends[1]);
}

CHECK_CASE(messages_keep_their_bounds_and_a_full_queue_says_so) {
  int ends[2];
  char buf[8];
  CHECK_INT(0, ab_os_message_pair(ends));
  check_flags(ends[0]);
  check_flags(ends[1]);
  CHECK_INT(3, ab_os_send(ends[0], "one", 3, false));
  CHECK_INT(3, ab_os_send(ends[0], "two", 3, false));
  CHECK_INT(3, recv(ends[1], buf, sizeof buf, 0));
  CHECK_BYTES("one", buf, 3);
  CHECK_INT(3, recv(ends[1], buf, sizeof buf, 0));
  CHECK_BYTES("two", buf, 3);
  int sent = 0;
  while (sent < 100000 && ab_os_send(ends[0], "again", 5, false) == 5) sent++;
  CHECK(sent > 0 && sent < 100000);
  CHECK(errno == EAGAIN || errno == ENOBUFS);
  for (int i = 0; i < sent; i++) CHECK_INT(5, recv(ends[1], buf, sizeof buf, 0));
  CHECK_INT(-1, recv(ends[1], buf, sizeof buf, 0));
  close(ends[0]);
  close(ends[1]);
}

/* Sends a copy of `fd` along. */
static void send_descriptor(int end, int fd) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {
      .head = {.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  struct iovec iov = {(void *)"fd", 2};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_SPACE(sizeof fd)};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  CHECK_INT(2, ab_os_sendmsg(end, &message, false));
}

CHECK_CASE(descriptors_that_come_are_close_on_exec) {
  int ends[2], came, before = open_fds();
  char buf[8];
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec iov = {buf, sizeof buf};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  CHECK_INT(0, ab_os_message_pair(ends));
  send_descriptor(ends[0], STDERR_FILENO);
  CHECK_INT(2, ab_os_recvmsg(ends[1], &message));
  memcpy(&came, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof came);
  CHECK_INT(FD_CLOEXEC, fcntl(came, F_GETFD));
  close(came);
  CHECK_INT(-1, ab_os_recvmsg(ends[1], &message));
  CHECK_INT(EAGAIN, errno);
  close(ends[0]);
  close(ends[1]);
  CHECK_INT(before, open_fds());
}

/* With a signal, the program would end here. */
CHECK_CASE(a_broken_connection_raises_no_signal) {
  int ends[2];
  signal(SIGPIPE, SIG_DFL);
  CHECK_INT(0, ab_os_stream_pair(ends));
  close(ends[1]);
  struct iovec iov = {(void *)"text", 4};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  CHECK_INT(-1, ab_os_send(ends[0], "text", 4, false));
  CHECK_INT(EPIPE, errno);
  CHECK_INT(-1, ab_os_sendmsg(ends[0], &message, true));
  CHECK_INT(EPIPE, errno);
  CHECK_INT(-1, ab_os_send_now(ends[0], "text", 4));
  CHECK_INT(EPIPE, errno);
  CHECK_INT(-1, ab_os_sendmsg_now(ends[0], &message));
  CHECK_INT(EPIPE, errno);
  FILE *file = tmpfile();
  CHECK_INT(4, fwrite("text", 1, 4, file));
  fflush(file);
  CHECK_INT(-1, ab_os_sendfile(ends[0], fileno(file), 0, 4));
  CHECK_INT(EPIPE, errno);
  fclose(file);
  close(ends[0]);
}

CHECK_CASE(a_blocking_socket_blocks_nobody_and_stays_one) {
  int ends[2];
  static char much[1 << 20];
  struct iovec iov = {much, sizeof much};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  CHECK_INT(-1, ab_os_recv_now(ends[0], much, sizeof much));
  CHECK_INT(EAGAIN, errno);
  while (ab_os_send_now(ends[0], much, sizeof much) > 0) continue;
  CHECK_INT(EAGAIN, errno);
  CHECK_INT(-1, ab_os_sendmsg_now(ends[0], &message));
  CHECK_INT(EAGAIN, errno);
  CHECK(!(fcntl(ends[0], F_GETFL) & O_NONBLOCK));
  close(ends[0]);
  close(ends[1]);
  int pipes[2];
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(-1, ab_os_recv_now(pipes[0], much, 1));
  CHECK_INT(ENOTSOCK, errno);
  CHECK_INT(-1, ab_os_send_now(pipes[1], much, 1));
  CHECK_INT(ENOTSOCK, errno);
  close(pipes[0]);
  close(pipes[1]);
}

/* --- files --- */

#define LENGTH 200000

/* A file of LENGTH bytes, of which each says where it stands. */
static FILE *numbered(void) {
  FILE *file = tmpfile();
  for (int i = 0; i < LENGTH; i++) putc(i * 7 % 251, file);
  fflush(file);
  return file;
}

CHECK_CASE(a_file_comes_whole) {
  int ends[2], at = 1000, seen = 1000;
  FILE *file = numbered();
  CHECK_INT(0, ab_os_stream_pair(ends));
  bool right = true;
  while (at < LENGTH && right) {
    ssize_t sent = ab_os_sendfile(ends[0], fileno(file), at, (size_t)(LENGTH - at));
    if (sent > 0) at += (int)sent;
    right = sent > 0 || errno == EAGAIN;
    unsigned char buf[4096];
    ssize_t got = recv(ends[1], buf, sizeof buf, 0);
    for (ssize_t i = 0; i < got; i++) right = right && buf[i] == seen++ * 7 % 251;
  }
  CHECK(right);
  CHECK_INT(LENGTH, at);
  CHECK_INT(0, ab_os_sendfile(ends[0], fileno(file), LENGTH, 1));
  CHECK_INT(-1, ab_os_sendfile(ends[0], -1, 0, 1));
  CHECK_INT(EBADF, errno);
  fclose(file);
  close(ends[0]);
  close(ends[1]);
}

CHECK_CASE(a_file_goes_into_a_pipe) {
  int pipes[2];
  unsigned char buf[16];
  FILE *file = numbered();
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(16, ab_os_sendfile(pipes[1], fileno(file), 100, 16));
  CHECK_INT(16, read(pipes[0], buf, sizeof buf));
  CHECK_INT(700 % 251, buf[0]);
  signal(SIGPIPE, SIG_DFL);
  close(pipes[0]);
  CHECK_INT(-1, ab_os_sendfile(pipes[1], fileno(file), 100, 16));
  CHECK_INT(EPIPE, errno);
  sigset_t pending;
  CHECK_INT(0, sigpending(&pending));
  CHECK(!sigismember(&pending, SIGPIPE));
  fclose(file);
  close(pipes[1]);
}

/* --- what is asked of them --- */

static bool are_same(int one, int other) {
  uint64_t a[2], b[2];
  CHECK(ab_os_identify(one, a));
  CHECK(ab_os_identify(other, b));
  return a[0] == b[0] && a[1] == b[1];
}

CHECK_CASE(which_socket_it_is) {
  struct sockaddr_in address;
  int listener = listen_on(&address), ends[2];
  int client = connect_to(&address), other_client = connect_to(&address);
  int accepted = ab_os_accept(listener, NULL, NULL), other = ab_os_accept(listener, NULL, NULL);
  int same = fcntl(accepted, F_DUPFD_CLOEXEC, 0);
  CHECK_INT(0, ab_os_stream_pair(ends));
  CHECK(are_same(accepted, accepted));
  CHECK(are_same(accepted, same));
  CHECK(!are_same(accepted, other));
  CHECK(!are_same(accepted, client));
  CHECK(!are_same(accepted, listener));
  CHECK(!are_same(accepted, ends[0]));
  CHECK(!are_same(ends[0], ends[1]));
  shutdown(client, SHUT_WR);
  CHECK(are_same(accepted, same));
  close(same);
  uint64_t numbers[2];
  CHECK(!ab_os_identify(same, numbers));
  CHECK_INT(EBADF, errno);
  int all[] = {listener, client, other_client, accepted, other, ends[0], ends[1]};
  for (size_t i = 0; i < AB_ARRAY_LEN(all); i++) close(all[i]);
}

CHECK_CASE(what_listens) {
  struct sockaddr_in address;
  int listener = listen_on(&address), client = connect_to(&address);
  int made = ab_os_socket(AF_INET, SOCK_STREAM), pipes[2];
  CHECK_INT(1, ab_os_listens(listener));
  CHECK_INT(0, ab_os_listens(client));
  CHECK_INT(0, ab_os_listens(made));
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(-1, ab_os_listens(pipes[0]));
  CHECK_INT(ENOTSOCK, errno);
  int all[] = {listener, client, made, pipes[0], pipes[1]};
  for (size_t i = 0; i < AB_ARRAY_LEN(all); i++) close(all[i]);
}

CHECK_CASE(what_has_ended) {
  struct sockaddr_in address;
  int listener = listen_on(&address), client = connect_to(&address);
  int accepted = ab_os_accept(listener, NULL, NULL);
  CHECK(!ab_os_ended(accepted, true));
  CHECK_INT(1, write(client, "x", 1));
  shutdown(client, SHUT_WR);
  char byte;
  while (recv(accepted, &byte, 1, 0) != 1) continue;
  while (!ab_os_ended(accepted, true)) continue; /* it arrives at once, but not yet */
  CHECK(!ab_os_ended(accepted, false));
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(client);
  while (!ab_os_ended(accepted, false)) continue;
  CHECK(ab_os_ended(accepted, true));
  close(accepted);
  close(listener);
}

CHECK_CASE(what_has_not_been_sent) {
  int ends[2];
  CHECK_INT(0, ab_os_stream_pair(ends));
  CHECK_INT(0, ab_os_unsent(ends[0]));
  CHECK_INT(4, ab_os_send(ends[0], "text", 4, false));
#ifdef AB_HAS_UNSENT
  CHECK(ab_os_unsent(ends[0]) >= 4);
#else
  CHECK_INT(0, ab_os_unsent(ends[0]));
#endif
  close(ends[0]);
  close(ends[1]);
  CHECK_INT(0, ab_os_unsent(ends[0]));
}

CHECK_CASE(the_peer_of_a_connection_that_is_being_made) {
  CHECK_EMULATOR_LACKS("SO_PEERNAME");
  struct sockaddr_in address, peer = {.sin_family = AF_UNSPEC};
  int listener = listen_on(&address), client = connect_to(&address);
#ifdef AB_HAS_PEERNAME
  CHECK(ab_os_peer_being_made(client, (struct sockaddr *)&peer, sizeof peer));
  CHECK_INT(address.sin_port, peer.sin_port);
#else
  CHECK(!ab_os_peer_being_made(client, (struct sockaddr *)&peer, sizeof peer));
#endif
  close(client);
  close(listener);
}

CHECK_MAIN()
