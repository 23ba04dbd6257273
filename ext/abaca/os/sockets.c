#include "os/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef AB_HAS_UNSENT
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

/* --- how they are made --- */

static bool add_flag(int fd, int get, int set, int flag) {
  int flags = fcntl(fd, get);
  return flags >= 0 && ((flags & flag) || fcntl(fd, set, flags | flag) == 0);
}

bool ab_os_adopt(int fd) {
  return add_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC) && add_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK);
}

#if !defined(AB_HAS_SOCKET_FLAGS) || !defined(AB_HAS_ACCEPT4)
/* Where no call has a flag for it, the socket has one (macOS); elsewhere there is SIGPIPE. */
static void silence(int fd) {
#if !defined(MSG_NOSIGNAL) && defined(SO_NOSIGPIPE)
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#else
  (void)fd;
#endif
}

/* Takes fd, which is closed on an error. */
static int prepared(int fd) {
  if (fd < 0) return fd;
  silence(fd);
  if (ab_os_adopt(fd)) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}
#endif

#ifdef AB_HAS_SOCKET_FLAGS
int ab_os_socket(int family, int type) {
  return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int make_pair(int type, int ends[2]) {
  return socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
}
#else
int ab_os_socket(int family, int type) {
  return prepared(socket(family, type, 0));
}

static int make_pair(int type, int ends[2]) {
  if (socketpair(AF_UNIX, type, 0, ends) != 0) return -1;
  int a = prepared(ends[0]), b = prepared(ends[1]);
  if (a >= 0 && b >= 0) return 0;
  int error = errno;
  if (a >= 0) close(a);
  if (b >= 0) close(b);
  errno = error;
  return -1;
}
#endif

int ab_os_stream_pair(int ends[2]) {
  return make_pair(SOCK_STREAM, ends);
}

/* Both kinds keep the bounds of messages and lose none, and a full queue says so. With the first
 * one an end also sees that the other has gone. */
#ifdef AB_HAS_SEQPACKET
int ab_os_message_pair(int ends[2]) {
  return make_pair(SOCK_SEQPACKET, ends);
}
#else
#define MESSAGES_MAX 131072 /* bytes that wait; by default one message may have 2 KB (macOS) */

int ab_os_message_pair(int ends[2]) {
  if (make_pair(SOCK_DGRAM, ends) != 0) return -1;
  const int room = MESSAGES_MAX;
  for (int i = 0; i < 2; i++) {
    setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  }
  return 0;
}
#endif

/* accept(2) passes on the error of a connection that broke in the queue. */
static bool broke_in_queue(int error) {
  switch (error) {
  case ECONNRESET:
  case ETIMEDOUT:
  case EPROTO:
  case EPERM:
  case ENETDOWN:
  case ENOPROTOOPT:
  case EHOSTUNREACH:
  case EOPNOTSUPP:
  case ENETUNREACH:
#ifdef EHOSTDOWN
  case EHOSTDOWN:
#endif
#ifdef ENONET
  case ENONET:
#endif
    return true;
  default:
    return false;
  }
}

int ab_os_accept(int fd, struct sockaddr *peer, socklen_t *len) {
#ifdef AB_HAS_ACCEPT4
  int accepted = accept4(fd, peer, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  int accepted = prepared(accept(fd, peer, len));
#endif
  if (AB_UNLIKELY(accepted < 0) && broke_in_queue(errno)) errno = ECONNABORTED;
  return accepted;
}

/* --- messages --- */

#ifdef MSG_NOSIGNAL
#define QUIET MSG_NOSIGNAL
#else
#define QUIET 0
#endif
#ifdef AB_HAS_MSG_MORE
#define MORE MSG_MORE
#else
#define MORE 0
#endif

ssize_t ab_os_send(int fd, const void *bytes, size_t len, bool more) {
  return send(fd, bytes, len, more ? QUIET | MORE : QUIET);
}

ssize_t ab_os_sendmsg(int fd, const struct msghdr *message, bool more) {
  return sendmsg(fd, message, more ? QUIET | MORE : QUIET);
}

#ifdef AB_HAS_CMSG_CLOEXEC
ssize_t ab_os_recvmsg(int fd, struct msghdr *message) {
  return recvmsg(fd, message, MSG_CMSG_CLOEXEC);
}
#else
static void close_on_exec(const struct cmsghdr *head) {
  size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; i++) {
    int fd;
    memcpy(&fd, (const char *)CMSG_DATA((struct cmsghdr *)head) + i * sizeof fd, sizeof fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

ssize_t ab_os_recvmsg(int fd, struct msghdr *message) {
  ssize_t got = recvmsg(fd, message, 0);
  if (got < 0) return got;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) close_on_exec(head);
  }
  return got;
}
#endif

#ifdef AB_HAS_MSG_DONTWAIT
ssize_t ab_os_recv_now(int fd, void *buf, size_t len) {
  return recv(fd, buf, len, MSG_DONTWAIT);
}

ssize_t ab_os_send_now(int fd, const void *bytes, size_t len) {
  return send(fd, bytes, len, MSG_DONTWAIT | QUIET);
}

ssize_t ab_os_sendmsg_now(int fd, const struct msghdr *message) {
  return sendmsg(fd, message, MSG_DONTWAIT | QUIET);
}
#else
/* The mode is all descriptors' of the socket: another process's, too, finds it changed meanwhile.
 * Hardly any is in blocking mode. */
static int unblock(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || flags & O_NONBLOCK) return -1;
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  return flags;
}

static ssize_t restored(int fd, int flags, ssize_t result) {
  int error = errno;
  if (flags >= 0) fcntl(fd, F_SETFL, flags);
  errno = error;
  return result;
}

ssize_t ab_os_recv_now(int fd, void *buf, size_t len) {
  int flags = unblock(fd);
  return restored(fd, flags, recv(fd, buf, len, 0));
}

ssize_t ab_os_send_now(int fd, const void *bytes, size_t len) {
  int flags = unblock(fd);
  return restored(fd, flags, send(fd, bytes, len, QUIET));
}

ssize_t ab_os_sendmsg_now(int fd, const struct msghdr *message) {
  int flags = unblock(fd);
  return restored(fd, flags, sendmsg(fd, message, QUIET));
}
#endif

/* --- what is asked of them --- */

static bool identify_file(int fd, uint64_t numbers[2]) {
  struct stat info;
  if (fstat(fd, &info) != 0) return false;
  numbers[0] = (uint64_t)info.st_dev;
  numbers[1] = (uint64_t)info.st_ino;
  return true;
}

#ifdef AB_HAS_SOCKET_NUMBERS
bool ab_os_identify(int fd, uint64_t numbers[2]) {
  return identify_file(fd, numbers);
}
#else
typedef int ask_name(int fd, struct sockaddr *name, socklen_t *len);

/* Of one end's address, by FNV-1a; 0: it has none, or the socket is of AF_UNIX, and has numbers as
 * files have. */
static uint64_t number_of_end(int fd, ask_name *ask) {
  union {
    struct sockaddr head;
    struct sockaddr_storage whole;
    unsigned char bytes[sizeof(struct sockaddr_storage)];
  } name = {.whole = {0}};
  socklen_t len = sizeof name;
  if (ask(fd, &name.head, &len) != 0 || name.head.sa_family == AF_UNIX) return 0;
  uint64_t number = 14695981039346656037u;
  for (size_t i = 0; i < sizeof name; i++) number = (number ^ name.bytes[i]) * 1099511628211u;
  return number;
}

bool ab_os_identify(int fd, uint64_t numbers[2]) {
  if (!identify_file(fd, numbers)) return false;
  uint64_t own = number_of_end(fd, getsockname);
  if (own == 0) return true;
  numbers[0] = own;
  numbers[1] = number_of_end(fd, getpeername);
  return true;
}
#endif

/* macOS knows the option, and has no answer (ENOPROTOOPT). */
int ab_os_listens(int fd) {
  int listens = 0;
  socklen_t len = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0) return listens != 0;
  if (errno != ENOPROTOOPT) return -1;
  struct sockaddr_storage peer;
  len = sizeof peer;
  return getpeername(fd, (struct sockaddr *)&peer, &len) != 0;
}

#ifdef AB_HAS_UNSENT
uint64_t ab_os_unsent(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}
#else
uint64_t ab_os_unsent(int fd AB_UNUSED) {
  return 0;
}
#endif

#ifdef AB_HAS_POLLRDHUP
bool ab_os_ended(int fd, bool half) {
  struct pollfd pollfd = {.fd = fd, .events = half ? POLLRDHUP : 0};
  return poll(&pollfd, 1, 0) > 0;
}
#else
/* The end of a stream can be peeked at, once its bytes have been read, and so can a reset: macOS's
 * poll tells nobody of it who does not ask for input. */
static bool ends_here(int fd, bool half) {
  struct pollfd pollfd = {.fd = fd, .events = POLLIN};
  char byte;
  if (poll(&pollfd, 1, 0) <= 0) return false;
  ssize_t got = recv(fd, &byte, 1, MSG_PEEK);
  return got == 0 ? half : got < 0 && (errno == ECONNRESET || errno == ETIMEDOUT);
}

bool ab_os_ended(int fd, bool half) {
  struct pollfd pollfd = {.fd = fd};
  return poll(&pollfd, 1, 0) > 0 || ends_here(fd, half);
}
#endif

#ifdef AB_HAS_PEERNAME
bool ab_os_peer_being_made(int fd, struct sockaddr *name, socklen_t len) {
  return getsockopt(fd, SOL_SOCKET, SO_PEERNAME, name, &len) == 0;
}
#else
bool ab_os_peer_being_made(int fd AB_UNUSED, struct sockaddr *name AB_UNUSED,
                           socklen_t len AB_UNUSED) {
  return false;
}
#endif

bool ab_os_has_abstract_names(void) {
#ifdef AB_HAS_ABSTRACT_NAMES
  return true;
#else
  return false;
#endif
}
