/* Listeners: what they bind, what they refuse to bind, what accepted sockets inherit, and how they
 * get along without descriptors. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "io/socket.h"

static const ab_listener_options plain = {.umask = -1, .mode = -1};

/* A directory for the socket files of one case. */
static char dir[32];

static const char *path_in_dir(const char *name) {
  static char path[64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static void make_dir(void) {
  strcpy(dir, "/tmp/abaca-listener-XXXXXX");
  if (!mkdtemp(dir)) abort();
}

/* Fails when a case left a file behind. */
static void remove_dir(void) {
  CHECK_INT(0, rmdir(dir));
}

static int connect_tcp(const char *address, uint16_t port) {
  struct sockaddr_storage storage = {0};
  socklen_t len;
  if (strchr(address, ':')) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    inet_pton(AF_INET6, address, &v6->sin6_addr);
    len = sizeof *v6;
  } else {
    struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    inet_pton(AF_INET, address, &v4->sin_addr);
    len = sizeof *v4;
  }
  int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&storage, len) == 0) return fd;
  close(fd);
  return -1;
}

static int connect_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t size = strlen(path);
  memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (path[0] != '@'));
  if (connect(fd, (struct sockaddr *)&address, len) == 0) return fd;
  close(fd);
  return -1;
}

static int accept_soon(ab_listener *listener, ab_addr *peer) {
  struct pollfd wait = {ab_listener_fd(listener), POLLIN, 0};
  poll(&wait, 1, 10000);
  return ab_listener_accept(listener, peer);
}

static bool has_ipv6(void) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "::1", 0, &plain);
  ab_listener_fini(listener);
  return listener != NULL;
}

static int option_of(int fd, int level, int option) {
  int value = -1;
  socklen_t len = sizeof value;
  CHECK_INT(0, getsockopt(fd, level, option, &value, &len));
  return value;
}

CHECK_CASE(tcp_accepts_and_names_the_peer) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  CHECK(listener != NULL);
  CHECK_INT(AB_LISTEN_TCP, ab_listener_family(listener));
  CHECK_BYTES("127.0.0.1", ab_listener_name(listener), strlen(ab_listener_name(listener)));
  CHECK(ab_listener_port(listener) != 0);
  ab_addr peer;
  CHECK_INT(AB_AGAIN, ab_listener_accept(listener, &peer));
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  struct sockaddr_in local;
  socklen_t len = sizeof local;
  CHECK_INT(0, getsockname(client, (struct sockaddr *)&local, &len));
  int fd = accept_soon(listener, &peer);
  CHECK(fd >= 0);
  CHECK_INT(4, peer.family);
  CHECK_INT(ntohs(local.sin_port), peer.port);
  char text[AB_ADDR_TEXT_MAX];
  CHECK_BYTES("127.0.0.1", text, ab_addr_text(&peer, text));
  CHECK_INT(AB_AGAIN, ab_listener_accept(listener, &peer));
  ab_fd_close(fd);
  ab_fd_close(client);
  ab_listener_fini(listener);
}

CHECK_CASE(a_hastened_listener_defers_no_more) {
  ab_listener_options options = plain;
  options.defer_accept = true;
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &options);
  CHECK(!ab_listener_hasten(listener));
  CHECK_INT(0, option_of(ab_listener_fd(listener), IPPROTO_TCP, TCP_DEFER_ACCEPT));
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  ab_addr peer;
  int fd = accept_soon(listener, &peer); /* the client has sent nothing */
  CHECK(fd >= 0);
  ab_fd_close(fd);
  ab_fd_close(client);
  CHECK(!ab_listener_hasten(listener));
  ab_listener_fini(listener);
}

/* Whoever the kernel has held back comes when it asks again. */
CHECK_CASE(a_hastened_listener_knows_who_is_silent) {
  CHECK_NEEDS(SOCKET_DIAGNOSTICS);
  CHECK_EMULATOR_LACKS("socket diagnostics");
  static const char *const addresses[][2] = {{"127.0.0.1", "127.0.0.1"}, {"::", "127.0.0.1"}};
  for (size_t i = 0; i < (has_ipv6() ? 2 : 1); i++) {
    ab_listener_options options = plain;
    options.defer_accept = true;
    ab_listener *listener = ab_listener_tcp(&ab_mem_libc, addresses[i][0], 0, &options);
    int client = connect_tcp(addresses[i][1], ab_listener_port(listener));
    ab_addr peer;
    CHECK_INT(AB_AGAIN, ab_listener_accept(listener, &peer));
    CHECK(ab_listener_hasten(listener));
    int fd = accept_soon(listener, &peer);
    CHECK(fd >= 0);
    ab_fd_close(fd);
    ab_fd_close(client);
    ab_listener_fini(listener);
  }
}

CHECK_CASE(accepted_sockets_inherit_and_are_set) {
  ab_listener_options options = plain;
  options.defer_accept = true;
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &options);
  CHECK_INT(AB_HAS(DEFER_ACCEPT),
            option_of(ab_listener_fd(listener), IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
  CHECK_INT(1, option_of(ab_listener_fd(listener), SOL_SOCKET, SO_REUSEADDR));
  CHECK_INT(0, option_of(ab_listener_fd(listener), SOL_SOCKET, SO_REUSEPORT));
  CHECK(fcntl(ab_listener_fd(listener), F_GETFL) & O_NONBLOCK);
  CHECK(fcntl(ab_listener_fd(listener), F_GETFD) & FD_CLOEXEC);
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  ab_addr peer;
  /* Deferred: nothing to accept until the client has sent something. */
  if (AB_HAS(DEFER_ACCEPT)) CHECK_INT(AB_AGAIN, ab_listener_accept(listener, &peer));
  CHECK_INT(1, send(client, "x", 1, MSG_NOSIGNAL));
  int fd = accept_soon(listener, &peer);
  CHECK(fd >= 0);
  CHECK_INT(1, option_of(fd, IPPROTO_TCP, TCP_NODELAY));
  if (AB_HAS(UNSENT_LIMIT)) CHECK_INT(131072, option_of(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT));
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  ab_fd_close(fd);
  ab_fd_close(client);
  ab_listener_fini(listener);
}

/* The kernel would take 4 MB. */
CHECK_CASE(a_peer_that_does_not_read_holds_little) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  ab_addr peer;
  int fd = accept_soon(listener, &peer);
  static char bytes[16384];
  const struct iovec piece = {bytes, sizeof bytes};
  size_t taken = 0;
  ssize_t sent;
  while ((sent = ab_sock_send(fd, &piece, 1)) > 0 && taken < 4 * 1024 * 1024) taken += (size_t)sent;
  CHECK_INT(AB_AGAIN, sent);
  CHECK(taken >= 65536);
  CHECK(taken <= 1024 * 1024);
  ab_fd_close(fd);
  ab_fd_close(client);
  ab_listener_fini(listener);
}

/* Accepted sockets inherit it, also what is too short or too long for the kernel. */
CHECK_CASE(dead_peers_are_noticed) {
  static const struct {
    uint32_t after;
    int idle, interval, user;
  } cases[] = {{120, 60, 30, 120000}, {1, 1, 1, 1000}, {UINT32_MAX, 32767, 32767, INT32_MAX}};
  for (size_t i = 0; i < AB_ARRAY_LEN(cases); i++) {
    ab_listener_options options = {.umask = -1, .mode = -1, .dead_after = cases[i].after};
    ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &options);
    int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
    ab_addr peer;
    int fd = accept_soon(listener, &peer);
    CHECK_INT(1, option_of(fd, SOL_SOCKET, SO_KEEPALIVE));
    if (AB_HAS(KEEPALIVE_TIMES)) {
      CHECK_INT(cases[i].idle, option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE));
      CHECK_INT(cases[i].interval, option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL));
    }
    CHECK_INT(AB_HAS(USER_TIMEOUT) ? cases[i].user : 0,
              option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT));
    ab_fd_close(fd);
    ab_fd_close(client);
    ab_listener_fini(listener);
  }
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  CHECK_INT(0, option_of(ab_listener_fd(listener), SOL_SOCKET, SO_KEEPALIVE));
  CHECK_INT(0, option_of(ab_listener_fd(listener), IPPROTO_TCP, TCP_USER_TIMEOUT));
  ab_listener_fini(listener);
}

CHECK_CASE(a_port_in_use_is_told) {
  ab_listener *first = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  uint16_t port = ab_listener_port(first);
  errno = 0;
  CHECK(ab_listener_tcp(&ab_mem_libc, "127.0.0.1", port, &plain) == NULL);
  CHECK_INT(EADDRINUSE, errno);
  ab_listener_fini(first);
}

CHECK_CASE(a_port_can_be_shared) {
  ab_listener_options shared = plain;
  shared.reuse_port = true;
  errno = 0;
  ab_listener *first = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &shared);
  if (!AB_HAS(SHARED_PORTS)) {
    CHECK(first == NULL);
    CHECK_INT(ENOPROTOOPT, errno);
    return;
  }
  ab_listener *second =
      ab_listener_tcp(&ab_mem_libc, "127.0.0.1", ab_listener_port(first), &shared);
  CHECK(second != NULL);
  ab_listener_fini(first);
  ab_listener_fini(second);
}

/* A server that closed first leaves connections in TIME_WAIT; it must be able to start again. */
CHECK_CASE(a_port_can_be_bound_again_at_once) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, NULL);
  uint16_t port = ab_listener_port(listener);
  int client = connect_tcp("127.0.0.1", port);
  ab_addr peer;
  int fd = accept_soon(listener, &peer);
  ab_fd_close(fd);
  char byte;
  CHECK_INT(0, read(client, &byte, 1));
  ab_fd_close(client);
  ab_listener_fini(listener);
  listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", port, NULL);
  CHECK(listener != NULL);
  ab_listener_fini(listener);
}

CHECK_CASE(only_numeric_addresses_are_taken) {
  static const char *const bad[] = {
      "",     "localhost",  "127.1", "127.0.0.1 ",   "127.0.0.256", "[::1]",
      ":::1", "0x7f.0.0.1", "::1%",  "example.test", "1::2::3",     "*"};
  for (size_t i = 0; i < AB_ARRAY_LEN(bad); i++) {
    errno = 0;
    ab_listener *listener = ab_listener_tcp(&ab_mem_libc, bad[i], 0, &plain);
    CHECK(listener == NULL);
    CHECK_INT(EINVAL, errno);
    ab_listener_fini(listener);
  }
  /* Numeric, and of no interface of ours. */
  errno = 0;
  CHECK(ab_listener_tcp(&ab_mem_libc, "192.0.2.77", 0, &plain) == NULL);
  CHECK_INT(EADDRNOTAVAIL, errno);
}

CHECK_CASE(ipv6_serves_itself_and_the_wildcard_serves_all) {
  if (!has_ipv6()) return;
  ab_addr peer;
  char text[AB_ADDR_TEXT_MAX];
  ab_listener *all = ab_listener_tcp(&ab_mem_libc, "::", 0, &plain);
  CHECK(all != NULL);
  CHECK_BYTES("::", ab_listener_name(all), strlen(ab_listener_name(all)));
  int v4 = connect_tcp("127.0.0.1", ab_listener_port(all));
  int fd = accept_soon(all, &peer);
  CHECK(fd >= 0);
  CHECK_INT(6, peer.family);
  CHECK_BYTES("127.0.0.1", text, ab_addr_text(&peer, text));
  ab_fd_close(fd);
  int v6 = connect_tcp("::1", ab_listener_port(all));
  fd = accept_soon(all, &peer);
  CHECK_BYTES("::1", text, ab_addr_text(&peer, text));
  ab_fd_close(fd);
  ab_fd_close(v4);
  ab_fd_close(v6);
  ab_listener_fini(all);

  /* One of them leaves the port to a listener of the other family. */
  ab_listener *six = ab_listener_tcp(&ab_mem_libc, "::1", 0, &plain);
  CHECK_INT(1, option_of(ab_listener_fd(six), IPPROTO_IPV6, IPV6_V6ONLY));
  CHECK_INT(-1, connect_tcp("127.0.0.1", ab_listener_port(six)));
  ab_listener *four = ab_listener_tcp(&ab_mem_libc, "0.0.0.0", ab_listener_port(six), &plain);
  CHECK(four != NULL);
  ab_listener_fini(four);
  ab_listener_fini(six);
}

CHECK_CASE(unix_accepts_and_removes_its_file) {
  make_dir();
  const char *path = path_in_dir("sock");
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, path, &plain);
  CHECK(listener != NULL);
  CHECK_INT(AB_LISTEN_UNIX, ab_listener_family(listener));
  CHECK_INT(0, ab_listener_port(listener));
  CHECK_BYTES(path, ab_listener_name(listener), strlen(ab_listener_name(listener)));
  int client = connect_unix(path);
  ab_addr peer = {.family = 9};
  int fd = accept_soon(listener, &peer);
  CHECK(fd >= 0);
  CHECK_INT(0, peer.family);
  ab_fd_close(fd);
  ab_fd_close(client);
  ab_listener_close(listener);
  CHECK_INT(-1, access(path, F_OK));
  CHECK_BYTES(path, ab_listener_name(listener), strlen(ab_listener_name(listener)));
  CHECK_INT(-1, ab_listener_fd(listener));
  CHECK_INT(AB_ESYS, ab_listener_accept(listener, &peer));
  ab_listener_close(listener);
  ab_listener_fini(listener);
  remove_dir();
}

CHECK_CASE(unix_replaces_a_stale_file_only) {
  make_dir();
  const char *path = path_in_dir("sock");
  /* A server that died: bound, closed, not removed. */
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_INT(0, bind(dead, (struct sockaddr *)&address, sizeof address));
  close(dead);
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, path, &plain);
  CHECK(listener != NULL);

  /* One that lives keeps its place, also with a full queue. */
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, path, &plain) == NULL);
  CHECK_INT(EADDRINUSE, errno);
  int client = connect_unix(path);
  CHECK(client >= 0);
  ab_fd_close(client);
  ab_listener_fini(listener);

  ab_listener_options narrow = plain;
  narrow.backlog = 1;
  listener = ab_listener_unix(&ab_mem_libc, path, &narrow);
  int clients[2] = {connect_unix(path), connect_unix(path)};
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, path, &plain) == NULL);
  CHECK_INT(EADDRINUSE, errno);
  CHECK_INT(0, access(path, F_OK));
  ab_fd_close(clients[0]);
  ab_fd_close(clients[1]);
  ab_listener_fini(listener);
  remove_dir();
}

CHECK_CASE(unix_leaves_other_files_alone) {
  make_dir();
  const char *path = path_in_dir("precious");
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  CHECK_INT(4, write(fd, "data", 4));
  close(fd);
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, path, &plain) == NULL);
  CHECK_INT(ENOTSOCK, errno);
  struct stat info;
  CHECK_INT(0, stat(path, &info));
  CHECK_INT(4, info.st_size);
  unlink(path);

  /* Nor is a link followed to what it leads to. */
  CHECK_INT(0, symlink("nowhere", path));
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, path, &plain) == NULL);
  CHECK_INT(ENOTSOCK, errno);
  CHECK_INT(0, lstat(path, &info));
  unlink(path);

  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, path_in_dir("no/such/dir"), &plain) == NULL);
  CHECK_INT(ENOENT, errno);
  remove_dir();
}

CHECK_CASE(unix_removes_no_file_of_another) {
  make_dir();
  const char *path = path_in_dir("sock");
  ab_listener *first = ab_listener_unix(&ab_mem_libc, path, &plain);
  CHECK_INT(0, unlink(path));
  ab_listener *second = ab_listener_unix(&ab_mem_libc, path, &plain);
  ab_listener_fini(first);
  CHECK_INT(0, access(path, F_OK));

  /* Nor does a worker remove the file of the process that forked it. */
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    ab_listener_fini(second);
    _exit(0);
  }
  CHECK_INT(pid, waitpid(pid, NULL, 0));
  CHECK_INT(0, access(path, F_OK));
  ab_listener_fini(second);
  CHECK_INT(-1, access(path, F_OK));
  remove_dir();
}

CHECK_CASE(unix_applies_umask_and_mode) {
  make_dir();
  const char *path = path_in_dir("sock");
  struct stat info;
  mode_t before = umask(022);
  ab_listener_options options = plain;
  options.umask = 0117;
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, path, &options);
  CHECK_INT(0, stat(path, &info));
  CHECK_INT(0660, info.st_mode & 0777);
  ab_listener_fini(listener);
  options.mode = 0604;
  listener = ab_listener_unix(&ab_mem_libc, path, &options);
  CHECK_INT(0, stat(path, &info));
  CHECK_INT(0604, info.st_mode & 0777);
  ab_listener_fini(listener);
  CHECK_INT(022, umask(before));
  remove_dir();
}

/* Whoever may write to the folder puts a link in the socket's place, at the moment at which its
 * mode is set by the path. */
int chmod(const char *path, mode_t mode) {
  if (unlink(path) != 0 || symlink("theirs", path) != 0) abort();
  return fchmodat(AT_FDCWD, path, mode, 0);
}

static mode_t mode_of(const char *path) {
  struct stat info;
  CHECK_INT(0, lstat(path, &info));
  return info.st_mode & 0777;
}

CHECK_CASE(unix_sets_the_mode_of_nothing_else) {
  make_dir();
  char theirs[64];
  snprintf(theirs, sizeof theirs, "%s", path_in_dir("theirs"));
  close(open(theirs, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const char *path = path_in_dir("sock");
  ab_listener_options options = {.umask = 0077, .mode = 0664};
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, path, &options);
  CHECK_INT(0664, mode_of(path));
  options.mode = 0666;
  ab_listener *heir =
      ab_listener_inherit(&ab_mem_libc, dup(ab_listener_fd(listener)), &options, true);
  CHECK_INT(0666, mode_of(path));
  CHECK_INT(0600, mode_of(theirs));
  ab_listener_keep(listener);
  ab_listener_fini(listener);
  ab_listener_fini(heir);
  unlink(path);
  unlink(theirs);
  remove_dir();
}

CHECK_CASE(unix_knows_abstract_names) {
  CHECK_NEEDS(ABSTRACT_NAMES);
  char name[64];
  snprintf(name, sizeof name, "@abaca-test-%d", (int)getpid());
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, name, &plain);
  CHECK(listener != NULL);
  CHECK_BYTES(name, ab_listener_name(listener), strlen(ab_listener_name(listener)));
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, name, &plain) == NULL);
  CHECK_INT(EADDRINUSE, errno);
  int client = connect_unix(name);
  ab_addr peer;
  int fd = accept_soon(listener, &peer);
  CHECK(fd >= 0);
  ab_fd_close(fd);
  ab_fd_close(client);
  ab_listener_fini(listener);
}

CHECK_CASE(unix_checks_the_length_of_names) {
  struct sockaddr_un address;
  char name[200];
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, "", &plain) == NULL);
  CHECK_INT(EINVAL, errno);
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, "@", &plain) == NULL);
  CHECK_INT(EINVAL, errno);
  memset(name, 'x', sizeof name);
  memcpy(name, "/tmp/", 5);
  name[sizeof address.sun_path] = '\0'; /* one byte too long, for the NUL */
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, name, &plain) == NULL);
  CHECK_INT(ENAMETOOLONG, errno);
  name[sizeof address.sun_path - 1] = '\0';
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, name, &plain);
  CHECK(listener != NULL);
  CHECK_BYTES(name, ab_listener_name(listener), sizeof address.sun_path - 1);
  ab_listener_fini(listener);
  CHECK_INT(-1, access(name, F_OK));
}

CHECK_CASE(unix_without_abstract_names_refuses_them) {
  if (AB_HAS(ABSTRACT_NAMES)) CHECK_LEAVE_OUT("the build has abstract names");
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, "@abaca-test", &plain) == NULL);
  CHECK_INT(EINVAL, errno);
}

/* One ends without a NUL, so it may be one longer than a path. */
CHECK_CASE(unix_checks_the_length_of_abstract_names) {
  CHECK_NEEDS(ABSTRACT_NAMES);
  struct sockaddr_un address;
  char name[200];
  memset(name, 'x', sizeof name);
  name[0] = '@';
  name[sizeof address.sun_path] = '\0';
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, name, &plain);
  CHECK(listener != NULL);
  ab_listener *adopted = ab_listener_adopt(&ab_mem_libc, dup(ab_listener_fd(listener)));
  CHECK_BYTES(name, ab_listener_name(adopted), strlen(ab_listener_name(adopted)));
  ab_listener_fini(adopted);
  ab_listener_fini(listener);
  name[sizeof address.sun_path] = 'x';
  name[sizeof address.sun_path + 1] = '\0';
  errno = 0;
  CHECK(ab_listener_unix(&ab_mem_libc, name, &plain) == NULL);
  CHECK_INT(ENAMETOOLONG, errno);
}

CHECK_CASE(adopt_takes_what_listens) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  errno = 0;
  CHECK(ab_listener_adopt(&ab_mem_libc, fd) == NULL);
  CHECK_INT(EINVAL, errno);
  CHECK(fcntl(fd, F_GETFD) >= 0);
  errno = 0;
  CHECK(ab_listener_adopt(&ab_mem_libc, -1) == NULL);
  CHECK_INT(EBADF, errno);
  int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  errno = 0;
  CHECK(ab_listener_adopt(&ab_mem_libc, file) == NULL);
  CHECK_INT(ENOTSOCK, errno);
  close(file);

  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK_INT(0, bind(fd, (struct sockaddr *)&address, sizeof address));
  CHECK_INT(0, listen(fd, 8));
  ab_listener *listener = ab_listener_adopt(&ab_mem_libc, fd);
  CHECK(listener != NULL);
  CHECK_INT(fd, ab_listener_fd(listener));
  CHECK_INT(AB_LISTEN_TCP, ab_listener_family(listener));
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  CHECK_INT(1, option_of(fd, IPPROTO_TCP, TCP_NODELAY));
  CHECK_BYTES("127.0.0.1", ab_listener_name(listener), strlen(ab_listener_name(listener)));
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  ab_addr peer;
  int accepted = accept_soon(listener, &peer);
  CHECK(accepted >= 0);
  ab_fd_close(accepted);
  ab_fd_close(client);
  ab_listener_fini(listener);
}

/* Between the programs of a restart. */
CHECK_CASE(inherit_applies_the_options) {
  ab_listener_options options = {.umask = -1, .mode = -1, .defer_accept = true, .dead_after = 120};
  ab_listener *old = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &options);
  int fd = dup(ab_listener_fd(old));
  ab_listener *heir = ab_listener_inherit(&ab_mem_libc, fd, &plain, true);
  CHECK_INT(ab_listener_port(old), ab_listener_port(heir));
  CHECK_INT(0, option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT));
  CHECK_INT(0, option_of(fd, SOL_SOCKET, SO_KEEPALIVE));
  ab_listener_keep(heir);
  ab_listener_fini(heir);
  fd = dup(ab_listener_fd(old));
  heir = ab_listener_inherit(&ab_mem_libc, fd, &options, true);
  CHECK_INT(AB_HAS(DEFER_ACCEPT), option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
  CHECK_INT(AB_HAS(USER_TIMEOUT) ? 120000 : 0, option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT));
  ab_listener_keep(old);
  CHECK(!ab_listener_hasten(old));
  CHECK_INT(AB_HAS(DEFER_ACCEPT), option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
  ab_listener_hasten(heir);
  CHECK_INT(0, option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT));
  ab_listener_fini(heir);
  ab_listener_fini(old);
  errno = 0;
  CHECK(ab_listener_inherit(&ab_mem_libc, -1, &plain, true) == NULL);
  CHECK_INT(EBADF, errno);
}

CHECK_CASE(the_heir_removes_the_socket_file) {
  make_dir();
  const char *path = path_in_dir("s");
  ab_listener_options options = {.umask = -1, .mode = 0640};
  ab_listener *old = ab_listener_unix(&ab_mem_libc, path, &plain);
  ab_listener *other = ab_listener_inherit(&ab_mem_libc, dup(ab_listener_fd(old)), &plain, false);
  ab_listener *heir = ab_listener_inherit(&ab_mem_libc, dup(ab_listener_fd(old)), &options, true);
  struct stat info;
  CHECK_INT(0, stat(path, &info));
  CHECK_INT(0640, info.st_mode & 0777);
  ab_listener_keep(old);
  ab_listener_fini(old);
  ab_listener_fini(other);
  CHECK_INT(0, stat(path, &info));
  int client = connect_unix(path);
  CHECK(client >= 0);
  ab_fd_close(client);
  ab_listener_fini(heir);
  CHECK_INT(-1, stat(path, &info));
  remove_dir();
}

CHECK_CASE(adopt_leaves_the_socket_file) {
  make_dir();
  const char *path = path_in_dir("sock");
  ab_listener *made = ab_listener_unix(&ab_mem_libc, path, &plain);
  ab_listener *adopted = ab_listener_adopt(&ab_mem_libc, dup(ab_listener_fd(made)));
  CHECK(adopted != NULL);
  CHECK_INT(AB_LISTEN_UNIX, ab_listener_family(adopted));
  CHECK_BYTES(path, ab_listener_name(adopted), strlen(ab_listener_name(adopted)));
  ab_listener_fini(adopted);
  CHECK_INT(0, access(path, F_OK));
  ab_listener_fini(made);
  remove_dir();
}

/* Sets the soft limit of descriptors; the hard one is left alone, so that this can be undone. */
static void limit_descriptors(rlim_t count) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
  limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
}

/* Uses up all descriptors that `limit` allows, and accepts. */
static int starve(void) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  int clients[3];
  for (int i = 0; i < 3; i++) clients[i] = connect_tcp("127.0.0.1", ab_listener_port(listener));
  int lowest = dup(0);
  close(lowest);
  limit_descriptors((rlim_t)lowest);

  ab_addr peer;
  char byte;
  for (int i = 0; i < 3; i++) {
    CHECK_INT(AB_ELIMIT, ab_listener_accept(listener, &peer));
    /* In the order in which they came, and told at once. */
    CHECK_INT(0, read(clients[i], &byte, 1));
  }
  /* Nobody waits any more: the listener is quiet, and the caller need not rest. */
  CHECK_INT(AB_AGAIN, ab_listener_accept(listener, &peer));

  /* With descriptors again everything is as before. */
  limit_descriptors(RLIM_INFINITY);
  int client = connect_tcp("127.0.0.1", ab_listener_port(listener));
  int fd = accept_soon(listener, &peer);
  CHECK(fd >= 0);
  ab_fd_close(fd);
  ab_fd_close(client);
  for (int i = 0; i < 3; i++) ab_fd_close(clients[i]);
  ab_listener_fini(listener);
  return check_failures;
}

/* Another thread took the number of the spare descriptor: the limit went down meanwhile. */
static int starve_without_spare(void) {
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  int clients[2];
  for (int i = 0; i < 2; i++) clients[i] = connect_tcp("127.0.0.1", ab_listener_port(listener));
  ab_addr peer;
  limit_descriptors(0);
  /* The spare one is given up in vain, and cannot be had back. */
  CHECK_INT(AB_ELIMIT, ab_listener_accept(listener, &peer));
  CHECK_INT(AB_ELIMIT, ab_listener_accept(listener, &peer));
  limit_descriptors(RLIM_INFINITY);
  for (int i = 0; i < 2; i++) {
    int fd = ab_listener_accept(listener, &peer);
    CHECK(fd >= 0);
    ab_fd_close(fd);
    ab_fd_close(clients[i]);
  }
  ab_listener_fini(listener);
  return check_failures;
}

static int in_child(int (*body)(void)) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    check_failures = 0;
    _exit(body() != 0);
  }
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

CHECK_CASE(want_of_descriptors_refuses_instead_of_spinning) {
  CHECK_INT(0, in_child(starve));
}

CHECK_CASE(the_spare_descriptor_may_be_lost) {
  CHECK_INT(0, in_child(starve_without_spare));
}

static int listen_without_descriptors(void) {
  make_dir();
  const char *path = path_in_dir("sock");
  int lowest = dup(0);
  close(lowest);
  for (rlim_t left = 0; left < 2; left++) {
    limit_descriptors((rlim_t)lowest + left);
    check_mem mem;
    check_mem_init(&mem, 0);
    errno = 0;
    CHECK(ab_listener_tcp(&mem.mem, "127.0.0.1", 0, &plain) == NULL);
    CHECK_INT(EMFILE, errno);
    errno = 0;
    CHECK(ab_listener_unix(&mem.mem, path, &plain) == NULL);
    CHECK_INT(EMFILE, errno);
    CHECK_INT(0, mem.live);
    CHECK_INT(-1, fcntl(lowest, F_GETFD));
  }
  remove_dir();
  return check_failures;
}

CHECK_CASE(making_one_survives_the_want_of_descriptors) {
  CHECK_INT(0, in_child(listen_without_descriptors));
}

CHECK_CASE(making_one_survives_a_failing_allocator) {
  check_mem mem;
  check_mem_init(&mem, 1);
  errno = 0;
  CHECK(ab_listener_tcp(&mem.mem, "127.0.0.1", 0, &plain) == NULL);
  CHECK_INT(ENOMEM, errno);
  check_mem_init(&mem, 1);
  CHECK(ab_listener_unix(&mem.mem, "abaca-no-memory", &plain) == NULL);
  CHECK_INT(ENOMEM, errno);
  ab_listener *listener = ab_listener_tcp(&ab_mem_libc, "127.0.0.1", 0, &plain);
  int fd = dup(ab_listener_fd(listener));
  check_mem_init(&mem, 1);
  CHECK(ab_listener_adopt(&mem.mem, fd) == NULL);
  CHECK_INT(ENOMEM, errno);
  CHECK_INT(0, close(fd));
  ab_listener_fini(listener);
  ab_listener_fini(NULL);
}

CHECK_MAIN()
