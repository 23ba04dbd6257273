/* System calls on sockets and files, with our error codes. All descriptors are non-blocking and
 * close-on-exec. */
#ifndef AB_IO_SOCKET_H
#define AB_IO_SOCKET_H

#include <sys/uio.h>

#include "base/addr.h"
#include "base/base.h"
#include "base/mem.h"
#include "io/poller.h"

/* One recv; len > 0. Returns bytes > 0; 0 at the end of the stream; AB_AGAIN; AB_EPEER (reset,
 * timeout); AB_ENOMEM (try later). */
ssize_t ab_sock_recv(int fd, char *buf, size_t len);
/* The same into several buffers, filled in order. */
ssize_t ab_sock_recv_split(int fd, const struct iovec *iov, int count);
/* One sendmsg without SIGPIPE. Returns bytes; AB_AGAIN; AB_EPEER; AB_ENOMEM (try later). */
ssize_t ab_sock_send(int fd, const struct iovec *iov, int count);
/* The same; what follows at once, as by ab_sock_sendfile, may leave in the same packet. */
ssize_t ab_sock_send_more(int fd, const struct iovec *iov, int count);
/* One ab_os_sendfile; len > 0. Returns bytes, which may be fewer than len (2 GB at most);
 * 0 if the file ends at or before offset; AB_AGAIN; AB_EPEER; AB_ENOMEM (try later); AB_ESYS (the
 * file cannot be read, or not be sent this way; errno says). */
ssize_t ab_sock_sendfile(int fd, int file_fd, uint64_t offset, uint64_t len);
/* The same for a descriptor that may block: AB_AGAIN with EINTR in errno if a signal ended it. */
ssize_t ab_sock_sendfile_once(int fd, int file_fd, uint64_t offset, uint64_t len);
/* Bytes of a stream socket that its peer has not acknowledged; 0 if unknown. */
uint64_t ab_sock_queued(int fd);
/* True if the connection is broken, or the peer has closed it; with `half`, also if the peer has
 * only ended its own side and its bytes have been read. */
bool ab_sock_ended(int fd, bool half);
/* Two stream sockets of which each is the other's peer, with small buffers. AB_ESYS with errno. */
int ab_sock_pair(int *a, int *b) AB_WARN_UNUSED;
/* Half-closes for writing. */
void ab_sock_shutdown(int fd);
/* Closes so that the peer gets a reset, for a peer that deserves no better. */
void ab_sock_reset(int fd);
void ab_fd_close(int fd);

/* Identifies a socket to code that does not own the descriptor, which may be closed and reused. */
typedef struct ab_sock_id {
  uint64_t numbers[2];
} ab_sock_id;

/* False, with errno, if the descriptor is not open. */
bool ab_sock_identify(int fd, ab_sock_id *id);
/* True while the number stands for this socket. */
bool ab_sock_is(int fd, const ab_sock_id *id);
/* Ends the peer's side for readers here, and with `both` ours as well. Never touches another socket
 * than this one. Returns false if the number stands for another, or there was no descriptor. */
bool ab_sock_end(int fd, const ab_sock_id *id, bool both);
/* Another descriptor of the same file or socket; AB_ESYS with errno if there is none. */
int ab_fd_duplicate(int fd);
/* How many the process may have open. */
size_t ab_fd_most(void);
/* One read from `offset`, which may wait for a disk. Returns bytes; 0 at the end; AB_ESYS. */
ssize_t ab_file_read(int fd, uint64_t offset, char *buf, size_t len);
/* True while the file has at least `end` bytes. */
bool ab_file_reaches(int fd, uint64_t end);
/* Returns the fd for reading and sets *size; AB_ESYS with errno (EINVAL: not a regular file). */
int ab_file_open(const char *path, uint64_t *size);

typedef struct ab_listener ab_listener;

enum ab_listener_family { AB_LISTEN_TCP, AB_LISTEN_UNIX };

typedef struct ab_listener_options {
  int backlog;         /* 0: 1024 */
  bool defer_accept;   /* TCP_DEFER_ACCEPT: the kernel wakes us when there is data */
  uint32_t dead_after; /* tcp: seconds after which a peer whose machine answers neither data nor
                          probes is a broken connection; 0: the system's, which is hours */
  bool reuse_port;     /* SO_REUSEPORT */
  int umask;           /* unix: the process's while the socket file is made; -1: as it is */
  int mode;            /* unix: of the socket file, in place of umask; -1: what umask leaves */
} ab_listener_options;

/* Listens on a numeric IPv4 or IPv6 address (EINVAL for anything else); "::" serves IPv4 too.
 * Accepted sockets have TCP_NODELAY, and the kernel's buffer for a peer that does not read is
 * bounded. options may be NULL. Returns NULL and sets errno. */
ab_listener *ab_listener_tcp(const ab_mem *mem, const char *address, uint16_t port,
                             const ab_listener_options *options);
/* `path` may begin with '@' for the abstract name space (EINVAL where there is none). A stale
 * socket file is replaced. A umask applies to the whole process for a moment: at boot only. options
 * may be NULL. Returns NULL and sets errno (EADDRINUSE: a live server answers; ENOTSOCK: another
 * kind of file; ENAMETOOLONG). */
ab_listener *ab_listener_unix(const ab_mem *mem, const char *path,
                              const ab_listener_options *options);
/* Takes a listening descriptor, and makes it non-blocking and close-on-exec. Its socket file is
 * never removed. Returns NULL and sets errno (EINVAL: it does not listen); then it stays the
 * caller's. */
ab_listener *ab_listener_adopt(const ab_mem *mem, int fd);
/* The same for a socket that an earlier program of this process, or a sibling, has opened for this
 * purpose: applies the options. `owns_path`: removes its socket file at the end. */
ab_listener *ab_listener_inherit(const ab_mem *mem, int fd, const ab_listener_options *options,
                                 bool owns_path);
/* Another process continues with the socket: its file stays, ab_listener_hasten does nothing. */
void ab_listener_keep(ab_listener *listener);
/* Closes it, and frees it. */
void ab_listener_fini(ab_listener *listener);

/* Undoes defer_accept, if this process had set it. Returns whether connections that the kernel has
 * held back are on their way: they come within AB_HASTEN_TIME. False also where the kernel does not
 * tell. */
bool ab_listener_hasten(ab_listener *listener);
/* The kernel sends its half of a handshake again a second after the first time. */
#define AB_HASTEN_TIME (1100 * AB_NSEC_PER_MS)

/* Closes the socket, and removes the socket file if this process created it. Idempotent. */
void ab_listener_close(ab_listener *listener);

int ab_listener_fd(const ab_listener *listener);
enum ab_listener_family ab_listener_family(const ab_listener *listener);
uint16_t ab_listener_port(const ab_listener *listener); /* the real one if 0 was asked for */
/* "127.0.0.1" or the path; NUL-terminated, lives as long as the listener. */
const char *ab_listener_name(const ab_listener *listener);

/* One accept. Returns the fd; AB_AGAIN if no connection waits; AB_ELIMIT if descriptors ran out
 * (one connection was refused with the spare one) or the kernel has no memory: the caller must rest
 * for a while; AB_ESYS otherwise. */
int ab_listener_accept(ab_listener *listener, ab_addr *peer);

#endif
