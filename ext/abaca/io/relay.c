#include "io/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/sockets.h"

/* Aligned for its head, with room for more descriptors than one, which are closed. */
typedef union relay_control {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(4 * sizeof(int))];
} relay_control;

int ab_relay_send(int end, const struct iovec *iov, int count, int fd) {
  relay_control control = {0};
  struct msghdr message = {.msg_iov = (struct iovec *)iov,
                           .msg_iovlen = (size_t)count,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_SPACE(sizeof fd)};
  control.head = (struct cmsghdr){
      .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  ssize_t sent;
  do sent = ab_os_sendmsg(end, &message, false);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return AB_OK;
  /* ETOOMANYREFS: of the user's descriptors as many are on their way as it may have open. */
  return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS
             ? AB_AGAIN
             : AB_ELIMIT;
}

/* The kernel drops a descriptor for which there is no number, and the message is gone. */
static bool is_number_free(int fd) {
  int probe = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (probe < 0) return false;
  close(probe);
  return true;
}

/* The first descriptor; the others are closed. */
static int take_descriptor(struct msghdr *message) {
  int taken = -1;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (taken < 0) {
        taken = fd;
      } else {
        close(fd);
      }
    }
  }
  return taken;
}

ssize_t ab_relay_receive(int end, char *buf, size_t room, int *fd) {
  relay_control control;
  struct iovec iov = {buf, room};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  *fd = -1;
  if (!is_number_free(end)) return AB_ELIMIT;
  ssize_t got;
  do got = ab_os_recvmsg(end, &message);
  while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN ? AB_AGAIN : AB_ELIMIT;
  *fd = take_descriptor(&message);
  if (!(message.msg_flags & MSG_TRUNC)) return got;
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return AB_EINVAL;
}
