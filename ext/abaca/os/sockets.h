/* Sockets: what Linux does in one call, or by a flag of it. */
#ifndef AB_OS_SOCKETS_H
#define AB_OS_SOCKETS_H

#include <limits.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/base.h"

/* Buffers that one call takes at most. */
#ifdef AB_HAS_LONG_VECTORS
#define AB_OS_BUFFERS_MAX IOV_MAX
#else
#define AB_OS_BUFFERS_MAX 16 /* what POSIX asks for at least */
#endif

/* The descriptors of the next four are non-blocking and close-on-exec. Where the system cannot make
 * them so at once, a program that another thread starts in between inherits them. */
int ab_os_socket(int family, int type) AB_WARN_UNUSED;
/* Two streams of which each is the other's peer. */
int ab_os_stream_pair(int ends[2]) AB_WARN_UNUSED;
/* The same for messages, which come whole and in order, if need be with descriptors. */
int ab_os_message_pair(int ends[2]) AB_WARN_UNUSED;
/* ECONNABORTED: a connection broke while it waited in the queue, whatever its error was. */
int ab_os_accept(int fd, struct sockaddr *peer, socklen_t *len) AB_WARN_UNUSED;
/* Makes a descriptor that comes from elsewhere so, too. False, with errno, if that fails. */
bool ab_os_adopt(int fd) AB_WARN_UNUSED;

/* Without SIGPIPE. `more`: what follows at once may leave in the same packet. */
ssize_t ab_os_send(int fd, const void *bytes, size_t len, bool more);
ssize_t ab_os_sendmsg(int fd, const struct msghdr *message, bool more);
/* The descriptors that come with the message are close-on-exec. */
ssize_t ab_os_recvmsg(int fd, struct msghdr *message);
/* The next three also say EAGAIN for a descriptor in blocking mode, and send without SIGPIPE.
 * ENOTSOCK for anything else than a socket. */
ssize_t ab_os_recv_now(int fd, void *buf, size_t len);
ssize_t ab_os_send_now(int fd, const void *bytes, size_t len);
ssize_t ab_os_sendmsg_now(int fd, const struct msghdr *message);
/* Sends a part of a file, to any descriptor, without SIGPIPE. Returns bytes, which may be fewer; 0
 * if the file ends at or before the offset. */
ssize_t ab_os_sendfile(int fd, int file_fd, off_t offset, size_t len);

/* Two numbers that no other socket has at the same time. Where the system gives none to those of
 * TCP, they are others once both sides have ended. False, with errno, if the descriptor is not
 * open. */
bool ab_os_identify(int fd, uint64_t numbers[2]);
/* Whether it accepts connections: 1, 0, or -1 with errno. Where the system does not tell, what has
 * no peer is taken for such a socket. */
int ab_os_listens(int fd);
/* Bytes of a stream that its peer has not acknowledged; 0 if the system does not tell. */
uint64_t ab_os_unsent(int fd);
/* True if the connection is broken, or the peer has closed it; with `half`, also if the peer has
 * only ended its own side and its bytes have been read. */
bool ab_os_ended(int fd, bool half);
/* The peer of a connection that is being made. Whether it is known. */
bool ab_os_peer_being_made(int fd, struct sockaddr *name, socklen_t len);
/* Whether a socket of this machine may have a name that no file system has (unix(7)). */
bool ab_os_has_abstract_names(void);

#endif
