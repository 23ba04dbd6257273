/* An upstream that streams, as one with a language model does: each request is answered by so many
 * events of 60 bytes, one chunk each, at a steady pace; then the connection is closed. An event has
 * its number and the time at which it was sent, on the clock that all processes share. One thread
 * has all streams, so that in `bin/bench relay` nobody waits for anything but the pace. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
#define EVENT_SIZE 60

struct stream {
  size_t len; /* of the head */
  int sent;   /* events; -1 while the head is being read */
  char head[HEAD_MAX];
};

struct turn {
  int fd;
  uint32_t age; /* of the descriptor: a turn of one that has been closed since is void */
  int64_t due;  /* monotonic ns */
};

/* The pace is the same for all, so who had a turn first has the next one first: the timers are a
 * ring. A descriptor that is closed and given away again may stand in it twice for a moment. */
struct upstream {
  int epoll_fd, listen_fd, events;
  int64_t pace;
  struct stream **streams; /* by descriptor */
  uint32_t *ages;
  struct turn *ring;
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

static void end(struct upstream *up, int fd) {
  free(up->streams[fd]);
  up->streams[fd] = NULL;
  up->ages[fd]++;
  close(fd);
}

static void next_turn(struct upstream *up, int fd, int64_t due) {
  if (up->count == 2 * up->size) die("too many turns");
  up->ring[(up->first + up->count++) % (2 * up->size)] = (struct turn){fd, up->ages[fd], due};
}

/* What is sent always fits into the socket's buffer, unless the client is gone or does not read. */
static bool say(int fd, const char *text, size_t len) {
  return send(fd, text, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Sends the next event. Returns whether there is one more. */
static bool send_event(struct upstream *up, int fd) {
  struct stream *stream = up->streams[fd];
  char text[128];
  int begun = snprintf(text, sizeof text, "%x\r\ndata: %06d %019lld ", EVENT_SIZE, stream->sent,
                       (long long)now());
  size_t head = 4, len = (size_t)begun;
  memset(text + len, '.', head + EVENT_SIZE - len);
  memcpy(text + head + EVENT_SIZE - 2, "\n\n\r\n", 4);
  if (!say(fd, text, head + EVENT_SIZE + 2)) return false;
  if (++stream->sent < up->events) return true;
  say(fd, "0\r\n\r\n", 5);
  return false;
}

static void begin(struct upstream *up, int fd) {
  static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                             "connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
  up->streams[fd]->sent = 0;
  if (say(fd, head, sizeof head - 1) && send_event(up, fd))
    next_turn(up, fd, now() + up->pace);
  else
    end(up, fd);
}

static void take_turns(struct upstream *up) {
  int64_t time = now();
  while (up->count > 0 && up->ring[up->first].due <= time) {
    struct turn turn = up->ring[up->first];
    up->first = (up->first + 1) % (2 * up->size);
    up->count--;
    if (up->ages[turn.fd] != turn.age) continue;
    if (send_event(up, turn.fd))
      next_turn(up, turn.fd, turn.due + up->pace);
    else
      end(up, turn.fd);
  }
}

static void read_some(struct upstream *up, int fd) {
  struct stream *stream = up->streams[fd];
  if (!stream) return;
  size_t room = HEAD_MAX - 1 - stream->len;
  ssize_t got = stream->sent < 0 && room > 0 ? recv(fd, stream->head + stream->len, room, 0) : 0;
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    end(up, fd);
    return;
  }
  stream->len += (size_t)got;
  if (memmem(stream->head, stream->len, "\r\n\r\n", 4)) begin(up, fd);
}

static void accept_all(struct upstream *up) {
  int fd;
  while ((fd = accept4(up->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if ((size_t)fd >= up->size || epoll_ctl(up->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
      close(fd);
      continue;
    }
    up->streams[fd] = must_alloc(1, sizeof **up->streams);
    up->streams[fd]->sent = -1;
  }
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
        read_some(up, events[i].data.fd);
    }
    take_turns(up);
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
  int port = argc == 4 ? atoi(argv[1]) : 0, events = argc == 4 ? atoi(argv[2]) : 0,
      pace_ms = argc == 4 ? atoi(argv[3]) : 0;
  if (port <= 0 || port > 65535 || events <= 0 || pace_ms <= 0) {
    fprintf(stderr, "usage: events_epoll PORT EVENTS PACE_MS\n");
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct upstream up = {.events = events, .pace = (int64_t)pace_ms * 1000000};
  up.size = limit.rlim_cur < 1 << 20 ? (size_t)limit.rlim_cur : 1 << 20;
  up.streams = must_alloc(up.size, sizeof *up.streams);
  up.ages = must_alloc(up.size, sizeof *up.ages);
  up.ring = must_alloc(2 * up.size, sizeof *up.ring);
  up.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (up.epoll_fd < 0) die("epoll_create1");
  listen_on(&up, (uint16_t)port);
  run(&up);
}
