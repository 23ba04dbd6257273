/* Created at boot, where errno explains each failure. No failed accept stops or spins the loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/socket.h"
#include "os/sockets.h"
#include "os/tcp.h"

#define DEFAULT_BACKLOG 1024
#define UNSENT_MAX      131072 /* bytes beyond the peer's window; see set_tcp_options */
#define NAME_MAX_SIZE   128    /* sun_path with '@' and NUL, or an address with "%interface" */

struct ab_listener {
  const ab_mem *mem;
  int fd;
  int spare; /* open on /dev/null, or -1 if it could not be reopened */
  enum ab_listener_family family;
  uint16_t port;
  /* The socket file that we created: only this process removes it, and only while it is ours. */
  bool made_path;
  bool defers; /* TCP_DEFER_ACCEPT was set here; an inherited socket is also others' */
  pid_t pid;
  dev_t dev;
  ino_t ino;
  char name[NAME_MAX_SIZE];
};

static const ab_listener_options default_options = {
    .backlog = DEFAULT_BACKLOG, .umask = -1, .mode = -1};

static int open_spare(void) {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Closes what has been opened and returns NULL; errno is kept. */
static ab_listener *give_up(ab_listener *listener) {
  int saved = errno;
  ab_listener_fini(listener);
  errno = saved;
  return NULL;
}

static ab_listener *new_listener(const ab_mem *mem, enum ab_listener_family family) {
  ab_listener *listener = ab_alloc_zero(mem, sizeof *listener);
  if (!listener) {
    errno = ENOMEM;
    return NULL;
  }
  listener->mem = mem;
  listener->family = family;
  listener->fd = -1;
  listener->pid = getpid();
  listener->spare = open_spare();
  return listener->spare < 0 ? give_up(listener) : listener;
}

static bool turn_on(int fd, int level, int option) {
  int one = 1;
  return setsockopt(fd, level, option, &one, sizeof one) == 0;
}

static bool listen_with(int fd, const ab_listener_options *options) {
  return listen(fd, options->backlog > 0 ? options->backlog : DEFAULT_BACKLOG) == 0;
}

/* Numeric only: a resolver may take seconds, and answer differently next time. getaddrinfo reads
 * the "%interface" of link-local addresses; inet_pton reads IPv4 and does not accept "127.1". */
static bool parse_address(const char *text, uint16_t port, struct sockaddr_storage *storage,
                          socklen_t *len) {
  memset(storage, 0, sizeof *storage);
  struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    *len = sizeof *v4;
    return true;
  }
  const struct addrinfo hints = {
      .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
  struct addrinfo *found = NULL;
  if (getaddrinfo(text, NULL, &hints, &found) != 0) {
    errno = EINVAL;
    return false;
  }
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
  memcpy(v6, found->ai_addr, sizeof *v6);
  v6->sin6_port = htons(port);
  *len = sizeof *v6;
  freeaddrinfo(found);
  return true;
}

/* A peer that has lost its power sends no reset. Unacknowledged data reveals it, else a probe after
 * half of the time, then one each quarter. These are hints: the kernel has its own bounds. */
static void notice_dead_peers(int fd, uint32_t seconds) {
  uint32_t idle = seconds / 2 > 0 ? seconds / 2 : 1, interval = seconds / 4 > 0 ? seconds / 4 : 1;
  ab_os_tcp_probe(fd, idle, interval);
  ab_os_tcp_give_up_after(fd, seconds);
}

/* The options that accepted sockets inherit, which spares a system call for each connection. */
static bool set_tcp_options(int fd, const ab_listener_options *options) {
  if (!turn_on(fd, IPPROTO_TCP, TCP_NODELAY)) return false;
  /* The kernel would buffer 4 MB for a peer that does not read, and take milliseconds to fill it.
   * What is in flight to a peer that reads does not count. */
  ab_os_tcp_keep_unsent_below(fd, UNSENT_MAX);
  /* Only a hint; a kernel without it works, too. */
  if (options->defer_accept) ab_os_tcp_defer_accept(fd, true);
  if (options->dead_after > 0) notice_dead_peers(fd, options->dead_after);
  return true;
}

static bool bind_tcp(int fd, const struct sockaddr_storage *address, socklen_t len,
                     const ab_listener_options *options) {
  if (!turn_on(fd, SOL_SOCKET, SO_REUSEADDR)) return false;
  if (options->reuse_port && ab_os_tcp_share_port(fd) != 0) return false;
  if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    int only = !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) != 0) return false;
  }
  return set_tcp_options(fd, options) && bind(fd, (const struct sockaddr *)address, len) == 0 &&
         listen_with(fd, options);
}

static void name_unix(ab_listener *listener, const struct sockaddr_un *address, socklen_t len) {
  size_t path = len > offsetof(struct sockaddr_un, sun_path)
                    ? len - offsetof(struct sockaddr_un, sun_path)
                    : 0;
  memcpy(listener->name, address->sun_path, path);
  listener->name[path] = '\0';
  if (path && listener->name[0] == '\0') listener->name[0] = '@';
}

static bool learn_name(ab_listener *listener) {
  struct sockaddr_storage storage;
  socklen_t len = sizeof storage;
  memset(&storage, 0, sizeof storage);
  if (getsockname(listener->fd, (struct sockaddr *)&storage, &len) != 0) return false;
  listener->family = storage.ss_family == AF_UNIX ? AB_LISTEN_UNIX : AB_LISTEN_TCP;
  if (storage.ss_family == AF_UNIX) {
    name_unix(listener, (struct sockaddr_un *)&storage, len);
    return true;
  }
  if (storage.ss_family == AF_INET)
    listener->port = ntohs(((struct sockaddr_in *)&storage)->sin_port);
  else if (storage.ss_family == AF_INET6)
    listener->port = ntohs(((struct sockaddr_in6 *)&storage)->sin6_port);
  if (getnameinfo((struct sockaddr *)&storage, len, listener->name, sizeof listener->name, NULL, 0,
                  NI_NUMERICHOST) == 0)
    return true;
  errno = EAFNOSUPPORT;
  return false;
}

ab_listener *ab_listener_tcp(const ab_mem *mem, const char *address, uint16_t port,
                             const ab_listener_options *options) {
  if (!options) options = &default_options;
  struct sockaddr_storage storage;
  socklen_t len;
  if (!parse_address(address, port, &storage, &len)) return NULL;
  ab_listener *listener = new_listener(mem, AB_LISTEN_TCP);
  if (!listener) return NULL;
  listener->fd = ab_os_socket(storage.ss_family, SOCK_STREAM);
  if (listener->fd < 0 || !bind_tcp(listener->fd, &storage, len, options) || !learn_name(listener))
    return give_up(listener);
  listener->defers = options->defer_accept;
  return listener;
}

/* "@name" is the abstract name space: a NUL, then the name, and no NUL at its end. */
static bool parse_path(const char *path, struct sockaddr_un *address, socklen_t *len) {
  size_t size = strlen(path);
  bool abstract = path[0] == '@';
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (size < (abstract ? 2 : 1) || (abstract && !ab_os_has_abstract_names())) {
    errno = EINVAL;
    return false;
  }
  if (size > sizeof address->sun_path - (abstract ? 0 : 1)) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(address->sun_path, path, size);
  if (abstract) address->sun_path[0] = '\0';
  *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + !abstract);
  return true;
}

/* True if the name was that of a dead server's socket, now removed; else errno says what it is. */
static bool remove_stale(const struct sockaddr_un *address, socklen_t len) {
  struct stat info;
  if (lstat(address->sun_path, &info) != 0) return errno == ENOENT;
  if (!S_ISSOCK(info.st_mode)) {
    errno = ENOTSOCK;
    return false;
  }
  int fd = ab_os_socket(AF_UNIX, SOCK_STREAM);
  if (fd < 0) return false;
  /* Only a refusal proves that the server is gone: EAGAIN is a live server with a full queue,
   * EPROTOTYPE a datagram socket, EACCES a server that we may not talk to. */
  bool stale = connect(fd, (const struct sockaddr *)address, len) != 0 && errno == ECONNREFUSED;
  close(fd);
  if (!stale) {
    errno = EADDRINUSE;
    return false;
  }
  return unlink(address->sun_path) == 0 || errno == ENOENT;
}

/* Sets the mode of a socket's file, if it has another one. Not by chmod, which would follow a link
 * that somebody has put in its place. */
static bool set_mode(const char *path, const struct stat *info, int mode) {
  if (mode < 0 || (info->st_mode & 0777) == (mode_t)mode) return true;
  return fchmodat(AT_FDCWD, path, (mode_t)mode, AT_SYMLINK_NOFOLLOW) == 0;
}

/* With its mode from the beginning, so that no client gets in under the wrong one. */
static bool bind_with_mode(int fd, const struct sockaddr_un *address, socklen_t len,
                           const ab_listener_options *options) {
  int mask = options->mode >= 0 ? ~options->mode & 0777 : options->umask;
  mode_t before = mask >= 0 ? umask((mode_t)mask) : 0;
  int result = bind(fd, (const struct sockaddr *)address, len);
  int saved = errno;
  if (mask >= 0) umask(before);
  errno = saved;
  return result == 0;
}

static bool bind_unix(ab_listener *listener, const struct sockaddr_un *address, socklen_t len,
                      const ab_listener_options *options) {
  bool abstract = address->sun_path[0] == '\0';
  if (!bind_with_mode(listener->fd, address, len, options)) {
    if (errno != EADDRINUSE || abstract || !remove_stale(address, len) ||
        !bind_with_mode(listener->fd, address, len, options))
      return false;
  }
  if (!abstract) {
    struct stat info;
    if (lstat(address->sun_path, &info) != 0) return false;
    listener->made_path = true;
    listener->dev = info.st_dev;
    listener->ino = info.st_ino;
    /* The umask has no effect in a folder with a default ACL. */
    if (!set_mode(address->sun_path, &info, options->mode)) return false;
  }
  return listen_with(listener->fd, options);
}

ab_listener *ab_listener_unix(const ab_mem *mem, const char *path,
                              const ab_listener_options *options) {
  if (!options) options = &default_options;
  struct sockaddr_un address;
  socklen_t len;
  if (!parse_path(path, &address, &len)) return NULL;
  ab_listener *listener = new_listener(mem, AB_LISTEN_UNIX);
  if (!listener) return NULL;
  snprintf(listener->name, sizeof listener->name, "%s", path);
  listener->fd = ab_os_socket(AF_UNIX, SOCK_STREAM);
  if (listener->fd < 0 || !bind_unix(listener, &address, len, options)) return give_up(listener);
  return listener;
}

/* False, with errno, unless fd is a listening stream socket. */
static bool is_listening(int fd) {
  int type = 0, listens = ab_os_listens(fd);
  socklen_t len = sizeof type;
  if (listens < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0) return false;
  if (listens && type == SOCK_STREAM) return true;
  errno = EINVAL;
  return false;
}

ab_listener *ab_listener_adopt(const ab_mem *mem, int fd) {
  if (!is_listening(fd)) return NULL;
  ab_listener *listener = new_listener(mem, AB_LISTEN_TCP);
  if (!listener) return NULL;
  listener->fd = fd;
  if (learn_name(listener) && ab_os_adopt(fd) &&
      (listener->family == AB_LISTEN_UNIX || set_tcp_options(fd, &default_options)))
    return listener;
  listener->fd = -1; /* stays the caller's */
  return give_up(listener);
}

static bool reset_options(const ab_listener *listener, const ab_listener_options *options) {
  if (listener->family == AB_LISTEN_TCP) {
    ab_os_tcp_defer_accept(listener->fd, false);
    ab_os_tcp_give_up_after(listener->fd, 0);
    ab_os_tcp_probe(listener->fd, 0, 0);
    if (!set_tcp_options(listener->fd, options)) return false;
  }
  return listen_with(listener->fd, options);
}

/* False, with errno, if the file is there and its mode cannot be changed. */
static bool own_path(ab_listener *listener, const ab_listener_options *options) {
  struct stat info;
  if (lstat(listener->name, &info) != 0 || !S_ISSOCK(info.st_mode)) return true;
  listener->made_path = true;
  listener->dev = info.st_dev;
  listener->ino = info.st_ino;
  return set_mode(listener->name, &info, options->mode);
}

ab_listener *ab_listener_inherit(const ab_mem *mem, int fd, const ab_listener_options *options,
                                 bool owns_path) {
  ab_listener *listener = ab_listener_adopt(mem, fd);
  if (!listener) return NULL;
  owns_path = owns_path && listener->family == AB_LISTEN_UNIX && listener->name[0] != '@';
  if (!reset_options(listener, options) || (owns_path && !own_path(listener, options))) {
    listener->made_path = false;
    listener->fd = -1; /* stays the caller's */
    return give_up(listener);
  }
  listener->defers = listener->family == AB_LISTEN_TCP && options->defer_accept;
  return listener;
}

void ab_listener_keep(ab_listener *listener) {
  listener->made_path = false;
  listener->defers = false;
}

static void remove_path(ab_listener *listener) {
  if (!listener->made_path || listener->pid != getpid()) return;
  listener->made_path = false;
  struct stat info;
  /* A server started after us may have put its own socket there. */
  if (lstat(listener->name, &info) == 0 && info.st_dev == listener->dev &&
      info.st_ino == listener->ino)
    unlink(listener->name);
}

bool ab_listener_hasten(ab_listener *listener) {
  if (!listener->defers) return false;
  listener->defers = false;
  ab_os_tcp_defer_accept(listener->fd, false);
  return ab_os_tcp_holds_back(listener->port);
}

void ab_listener_close(ab_listener *listener) {
  /* The file goes first: once the socket does not listen, another server may take the file for
   * stale, and its inode number may be reused for that server's file. */
  remove_path(listener);
  ab_fd_close(listener->fd);
  ab_fd_close(listener->spare);
  listener->fd = listener->spare = -1;
}

void ab_listener_fini(ab_listener *listener) {
  if (!listener) return;
  ab_listener_close(listener);
  ab_free(listener->mem, listener);
}

int ab_listener_fd(const ab_listener *listener) {
  return listener->fd;
}

enum ab_listener_family ab_listener_family(const ab_listener *listener) {
  return listener->family;
}

uint16_t ab_listener_port(const ab_listener *listener) {
  return listener->port;
}

const char *ab_listener_name(const ab_listener *listener) {
  return listener->name;
}

static void note_peer(ab_addr *peer, const struct sockaddr_storage *storage) {
  *peer = (ab_addr){0};
  if (storage->ss_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)storage;
    memcpy(peer->bytes, &v4->sin_addr, 4);
    peer->port = ntohs(v4->sin_port);
    peer->family = 4;
  } else if (storage->ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)storage;
    memcpy(peer->bytes, &v6->sin6_addr, 16);
    peer->port = ntohs(v6->sin6_port);
    peer->family = 6;
  }
}

/* No descriptor is left: accepts with the spare one and hangs up, or else the loop would spin. */
static int refuse_one(ab_listener *listener) {
  if (listener->spare < 0) {
    /* Another thread took the descriptor the last time. */
    listener->spare = open_spare();
    return AB_ELIMIT;
  }
  close(listener->spare);
  int fd = ab_os_accept(listener->fd, NULL, NULL);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  listener->spare = open_spare();
  /* The kernel looks for a descriptor before it looks into the queue, which may be empty. */
  return error == EAGAIN ? AB_AGAIN : AB_ELIMIT;
}

static int accept_error(ab_listener *listener, int number) {
  switch (number) {
  case EMFILE:
  case ENFILE:
    return refuse_one(listener);
  case ENOBUFS:
  case ENOMEM:
    return AB_ELIMIT;
  case EAGAIN:
  case EINTR:
  case ECONNABORTED:
    return AB_AGAIN;
  default:
    return AB_ESYS;
  }
}

int ab_listener_accept(ab_listener *listener, ab_addr *peer) {
  struct sockaddr_storage storage;
  socklen_t len = sizeof storage;
  storage.ss_family = AF_UNSPEC;
  int fd = ab_os_accept(listener->fd, (struct sockaddr *)&storage, &len);
  if (AB_UNLIKELY(fd < 0)) return accept_error(listener, errno);
  note_peer(peer, &storage);
  return fd;
}
