/* Clients of a gateway: each asks once and reads a stream of events, of which every one has its
 * number and the time at which the upstream has sent it (servers/events_epoll.c). The clients come
 * spread over the first pace. Every event is looked at: who gets another one than the next is
 * wrong. Prints one line of figures; the delay of an event is from the upstream's send to its
 * arrival here, a gap is the time between two of a stream, in microseconds. */
#include <arpa/inet.h>
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
#include <unistd.h>

#include "client.h"

#define EVENTS_MAX 256
#define EVENT_SIZE 60
#define HEAD_MAX   4096
#define HANG       (10 * SECOND) /* beyond the time that the streams need */

/* Where a peer is in its answer: the head; a chunk's size, content, and the line's end after it; a
 * body without chunks; its end. */
enum state { HEAD, SIZE, CONTENT, AFTER, PLAIN, ENDED };

struct peer {
  int fd;
  enum state state;
  size_t head_len, left; /* left: of a chunk */
  int events;            /* that have come */
  bool wrong;
  int64_t last; /* when the last one came, monotonic ns */
  size_t event_len;
  char event[EVENT_SIZE];
  char head[HEAD_MAX + 1];
};

struct load {
  int epoll_fd, events;
  struct sockaddr_in addr;
  struct peer *peers;
  size_t count, alive;
  struct list delays, gaps;
};

static void open_peer(struct load *load, struct peer *peer) {
  static const char request[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (peer->fd < 0) die("socket");
  if (connect(peer->fd, (struct sockaddr *)&load->addr, sizeof load->addr) < 0) die("connect");
  if (send(peer->fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
    die("send");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
  if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, peer->fd, &event) < 0) die("epoll_ctl");
  load->alive++;
}

static void close_peer(struct load *load, struct peer *peer) {
  close(peer->fd);
  peer->fd = -1;
  load->alive--;
}

static void take_event(struct load *load, struct peer *peer, int64_t at) {
  char text[EVENT_SIZE + 1];
  memcpy(text, peer->event, EVENT_SIZE);
  text[EVENT_SIZE] = '\0';
  int number;
  long long sent;
  if (sscanf(text, "data: %d %lld", &number, &sent) != 2 || number != peer->events ||
      memcmp(text + EVENT_SIZE - 2, "\n\n", 2) != 0) {
    peer->wrong = true;
    return;
  }
  add(&load->delays, at - sent);
  if (peer->events > 0) add(&load->gaps, at - peer->last);
  peer->last = at;
  peer->events++;
}

static void take_content(struct load *load, struct peer *peer, const char *bytes, size_t len,
                         int64_t at) {
  while (len > 0) {
    size_t part = EVENT_SIZE - peer->event_len;
    if (part > len) part = len;
    memcpy(peer->event + peer->event_len, bytes, part);
    peer->event_len += part;
    bytes += part;
    len -= part;
    if (peer->event_len < EVENT_SIZE) return;
    peer->event_len = 0;
    take_event(load, peer, at);
  }
}

/* One byte of the head, or of a line between chunks, which are gathered in `head`. */
static void take_line(struct peer *peer, char byte) {
  if (peer->head_len < HEAD_MAX) peer->head[peer->head_len++] = byte;
  peer->head[peer->head_len] = '\0';
  if (peer->state == HEAD) {
    if (peer->head_len < 4 || memcmp(peer->head + peer->head_len - 4, "\r\n\r\n", 4) != 0) return;
    peer->wrong = strncmp(peer->head, "HTTP/1.1 200", 12) != 0;
    peer->state = strcasestr(peer->head, "\r\ntransfer-encoding: chunked") ? SIZE : PLAIN;
    peer->head_len = 0;
  } else if (byte == '\n') {
    if (peer->state == SIZE) {
      peer->left = strtoul(peer->head, NULL, 16);
      peer->state = peer->left ? CONTENT : ENDED;
    } else {
      peer->state = SIZE;
    }
    peer->head_len = 0;
  }
}

static void take(struct load *load, struct peer *peer, const char *bytes, size_t len) {
  int64_t at = now();
  while (len > 0 && peer->state != ENDED) {
    size_t part = 1;
    if (peer->state == CONTENT || peer->state == PLAIN) {
      part = peer->state == CONTENT && peer->left < len ? peer->left : len;
      take_content(load, peer, bytes, part, at);
      if (peer->state == CONTENT && (peer->left -= part) == 0) peer->state = AFTER;
    } else {
      take_line(peer, *bytes);
    }
    bytes += part;
    len -= part;
  }
}

static void receive(struct load *load, struct peer *peer) {
  static char bytes[1 << 16];
  ssize_t got = recv(peer->fd, bytes, sizeof bytes, 0);
  if (got > 0) take(load, peer, bytes, (size_t)got);
  if (got <= 0 || peer->state == ENDED) close_peer(load, peer);
}

static void run(struct load *load, int64_t pace) {
  static struct epoll_event events[EVENTS_MAX];
  int64_t begun = now(), end = begun + pace * (load->events + 1) + HANG;
  size_t opened = 0;
  while ((opened < load->count || load->alive > 0) && now() < end) {
    while (opened < load->count && now() >= begun + pace * (int64_t)opened / (int64_t)load->count)
      open_peer(load, &load->peers[opened++]);
    int wait = opened < load->count ? 1 : 1000;
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, wait);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) receive(load, events[i].data.ptr);
  }
}

static void report(struct load *load) {
  size_t complete = 0, wrong = 0;
  for (size_t i = 0; i < load->count; i++) {
    wrong += load->peers[i].wrong;
    complete += !load->peers[i].wrong && load->peers[i].events == load->events;
  }
  sort(&load->delays);
  sort(&load->gaps);
  printf("streams=%zu complete=%zu wrong=%zu events=%zu p50=%lld p99=%lld worst=%lld gap_p50=%lld "
         "gap_p99=%lld gap_worst=%lld\n",
         load->count, complete, wrong, load->delays.count, microseconds(&load->delays, 50),
         microseconds(&load->delays, 99), microseconds(&load->delays, 100),
         microseconds(&load->gaps, 50), microseconds(&load->gaps, 99),
         microseconds(&load->gaps, 100));
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: streams PORT STREAMS EVENTS PACE_MS\n");
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct load load = {.count = strtoul(argv[2], NULL, 10), .events = atoi(argv[3])};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[1])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  load.peers = calloc(load.count, sizeof *load.peers);
  if (load.epoll_fd < 0 || !load.peers || load.count == 0 || load.events <= 0) die("start");
  run(&load, atoi(argv[4]) * MS);
  report(&load);
  free(load.delays.values);
  free(load.gaps.values);
  free(load.peers);
}
