/* Messages with a descriptor: whole, once, and no descriptor lost or left. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "io/relay.h"
#include "os/sockets.h"

static void open_pair(int ends[2]) {
  CHECK_INT(0, ab_os_message_pair(ends));
}

static void close_pair(const int ends[2]) {
  close(ends[0]);
  close(ends[1]);
}

static int open_fds(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static int send_text(int end, const char *text, int fd) {
  const struct iovec iov[] = {{(char *)text, 1}, {(char *)text + 1, strlen(text) - 1}};
  return ab_relay_send(end, iov, 2, fd);
}

CHECK_CASE(messages_come_whole_and_in_order) {
  int ends[2], pipes[2], fd;
  char buf[16];
  open_pair(ends);
  CHECK_INT(0, pipe(pipes));
  CHECK_INT(AB_AGAIN, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK_INT(AB_OK, send_text(ends[1], "first", pipes[1]));
  CHECK_INT(AB_OK, send_text(ends[1], "second", pipes[1]));
  close(pipes[1]);
  CHECK_INT(5, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK(memcmp(buf, "first", 5) == 0);
  CHECK_INT(FD_CLOEXEC, fcntl(fd, F_GETFD));
  CHECK_INT(1, write(fd, "x", 1));
  close(fd);
  CHECK_INT(6, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK_INT(1, write(fd, "y", 1));
  close(fd);
  CHECK_INT(2, read(pipes[0], buf, sizeof buf));
  CHECK_INT(0, read(pipes[0], buf, sizeof buf)); /* no copy is left */
  close(pipes[0]);
  close_pair(ends);
}

CHECK_CASE(what_was_not_sent_is_not_there) {
  int ends[2], before = open_fds(), sent = 0, fd;
  char *much = calloc(1, 1 << 20), buf[16];
  open_pair(ends);
  const struct iovec iov = {much, 1 << 20};
  CHECK_INT(AB_ELIMIT, ab_relay_send(ends[1], &iov, 1, 0));
  CHECK_INT(AB_ELIMIT, send_text(ends[1], "closed", 250));
  int err;
  while ((err = send_text(ends[1], "one", 0)) == AB_OK) sent++;
  CHECK_INT(AB_AGAIN, err);
  for (int i = 0; i < sent; i++) {
    CHECK_INT(3, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
    close(fd);
  }
  CHECK_INT(AB_AGAIN, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  close_pair(ends);
  CHECK_INT(before, open_fds());
  free(much);
}

CHECK_CASE(messages_that_it_does_not_expect) {
  CHECK_EMULATOR_LACKS("end to descriptors that find no room");
  int ends[2], before = open_fds(), fd;
  char buf[4];
  open_pair(ends);
  CHECK_INT(AB_OK, send_text(ends[1], "too long", 0));
  CHECK_INT(3, send(ends[1], "one", 3, 0));
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(8 * sizeof(int))];
  } control = {0};
  struct iovec iov = {"many", 4};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  control.head.cmsg_len = CMSG_LEN(8 * sizeof(int)); /* eight times descriptor 0 */
  control.head.cmsg_level = SOL_SOCKET;
  control.head.cmsg_type = SCM_RIGHTS;
  CHECK_INT(4, sendmsg(ends[1], &message, 0));
  CHECK_INT(AB_EINVAL, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK_INT(-1, fd);
  CHECK_INT(3, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK_INT(-1, fd);
  CHECK_INT(4, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK(fd >= 0);
  close(fd);
  close_pair(ends);
  CHECK_INT(before, open_fds());
}

CHECK_CASE(without_a_free_descriptor_it_stays) {
  int ends[2], fd;
  char buf[16];
  struct rlimit limit, none;
  open_pair(ends);
  CHECK_INT(AB_OK, send_text(ends[1], "stays", 0));
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
  none = limit;
  none.rlim_cur = 0;
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &none));
  CHECK_INT(AB_ELIMIT, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
  CHECK_INT(5, ab_relay_receive(ends[0], buf, sizeof buf, &fd));
  close(fd);
  close_pair(ends);
}

CHECK_MAIN()
