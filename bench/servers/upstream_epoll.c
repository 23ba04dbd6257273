/* An upstream that takes its time: every request is answered after the same delay with its own
 * request target as the body, and the connection is closed. One thread holds thousands of them, so
 * that in `bin/bench waiting` nobody waits for anything but the delay. */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX   2048
#define EVENTS_MAX 256

struct conn {
  size_t len;
  char head[HEAD_MAX];
};

struct waiting {
  int fd;
  int64_t due; /* monotonic ns */
};

/* The delay is the same for all, so who came first is due first: the timers are a plain ring. Each
 * descriptor stands in it at most once, so a ring as long as the table of descriptors suffices. */
struct upstream {
  int epoll_fd, listen_fd;
  int64_t delay;
  struct conn **conns; /* by descriptor; only while a head is being read */
  struct waiting *ring;
  size_t size, first, count;
};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void *must_alloc(size_t count, size_t size) {
  void *ptr = calloc(count, size);
  if (!ptr) die("memory");
  return ptr;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void forget(struct upstream *up, int fd) {
  free(up->conns[fd]);
  up->conns[fd] = NULL;
}

/* The connection leaves epoll while it waits; a client that goes away meanwhile is found out when
 * its answer is sent. The answer is rendered now, into the memory of the head. */
static void start_waiting(struct upstream *up, int fd) {
  struct conn *conn = up->conns[fd];
  char target[512] = "";
  conn->head[conn->len] = '\0';
  sscanf(conn->head, "GET %511s", target);
  conn->len = (size_t)snprintf(conn->head, HEAD_MAX,
                               "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
                               "content-length: %zu\r\nconnection: close\r\n\r\n%s",
                               strlen(target), target);
  epoll_ctl(up->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
  up->ring[(up->first + up->count++) % up->size] = (struct waiting){fd, now() + up->delay};
}

static void answer_due(struct upstream *up) {
  int64_t time = now();
  while (up->count > 0 && up->ring[up->first].due <= time) {
    int fd = up->ring[up->first].fd;
    up->first = (up->first + 1) % up->size;
    up->count--;
    /* It fits into an empty socket buffer; whether anybody is left to read it is not our business.
     */
    (void)!send(fd, up->conns[fd]->head, up->conns[fd]->len, MSG_NOSIGNAL);
    forget(up, fd);
    close(fd);
  }
}

static void read_head(struct upstream *up, int fd) {
  struct conn *conn = up->conns[fd];
  size_t room = HEAD_MAX - 1 - conn->len;
  ssize_t got = room > 0 ? recv(fd, conn->head + conn->len, room, 0) : 0;
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    forget(up, fd);
    close(fd);
    return;
  }
  conn->len += (size_t)got;
  if (memmem(conn->head, conn->len, "\r\n\r\n", 4)) start_waiting(up, fd);
}

static void accept_all(struct upstream *up) {
  int fd;
  while ((fd = accept4(up->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if ((size_t)fd >= up->size || epoll_ctl(up->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
      close(fd);
      continue;
    }
    up->conns[fd] = must_alloc(1, sizeof **up->conns);
  }
  /* A figure from a run that lacked descriptors would mean nothing. */
  if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) die("accept4");
}

static int timeout_ms(const struct upstream *up) {
  if (up->count == 0) return -1;
  int64_t left = up->ring[up->first].due - now();
  return left <= 0 ? 0 : (int)((left + 999999) / 1000000);
}

static void run(struct upstream *up) {
  struct epoll_event events[EVENTS_MAX];
  for (;;) {
    int count = epoll_wait(up->epoll_fd, events, EVENTS_MAX, timeout_ms(up));
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      if (events[i].data.fd == up->listen_fd)
        accept_all(up);
      else
        read_head(up, events[i].data.fd);
    }
    answer_due(up);
  }
}

static void listen_on(struct upstream *up, uint16_t port) {
  int on = 1;
  struct sockaddr_in addr = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  up->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (up->listen_fd < 0) die("socket");
  if (setsockopt(up->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) die("setsockopt");
  if (bind(up->listen_fd, (struct sockaddr *)&addr, sizeof addr) < 0) die("bind");
  if (listen(up->listen_fd, 4096) < 0) die("listen");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = up->listen_fd};
  if (epoll_ctl(up->epoll_fd, EPOLL_CTL_ADD, up->listen_fd, &event) < 0) die("epoll_ctl");
}

int main(int argc, char **argv) {
  int port = argc == 3 ? atoi(argv[1]) : 0, delay_ms = argc == 3 ? atoi(argv[2]) : -1;
  if (port <= 0 || port > 65535 || delay_ms < 0) {
    fprintf(stderr, "usage: upstream_epoll PORT DELAY_MS\n");
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct upstream up = {.delay = (int64_t)delay_ms * 1000000};
  up.size = limit.rlim_cur < 1 << 20 ? (size_t)limit.rlim_cur : 1 << 20;
  up.conns = must_alloc(up.size, sizeof *up.conns);
  up.ring = must_alloc(up.size, sizeof *up.ring);
  up.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (up.epoll_fd < 0) die("epoll_create1");
  listen_on(&up, (uint16_t)port);
  run(&up);
}
