/* Sends N requests at once, each on a connection of its own, and checks that each gets its own
 * answer: the request for /I must be answered with the body "/I". Prints one line of figures; times
 * run from the first connect (wall) and from each connection's own connect (latencies). Those that
 * are told 503 are counted apart. Connections are begun as fast as they come about, so that the
 * kernel does not drop any that nobody has accepted yet. */
#include <arpa/inet.h>
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
#include <unistd.h>

#include "client.h"

#define ANSWER_MAX     4096
#define EVENTS_MAX     256
#define CONNECTING_MAX 256

enum state { CONNECTING, READING, DONE };

struct request {
  int fd;
  enum state state;
  bool right, refused;
  int64_t started, took; /* monotonic ns */
  size_t len;
  char answer[ANSWER_MAX];
};

struct burst {
  int epoll_fd;
  struct sockaddr_in addr;
  struct request *requests;
  size_t count, begun, connecting, open;
};

static void start(struct burst *burst, size_t i) {
  struct request *request = &burst->requests[i];
  request->started = now();
  request->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (request->fd < 0) die("socket");
  if (connect(request->fd, (struct sockaddr *)&burst->addr, sizeof burst->addr) < 0 &&
      errno != EINPROGRESS)
    die("connect");
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = i};
  if (epoll_ctl(burst->epoll_fd, EPOLL_CTL_ADD, request->fd, &event) < 0) die("epoll_ctl");
  burst->open++;
  burst->connecting++;
}

static void start_some(struct burst *burst) {
  while (burst->begun < burst->count && burst->connecting < CONNECTING_MAX)
    start(burst, burst->begun++);
}

static void finish(struct burst *burst, struct request *request, bool right) {
  if (request->state == CONNECTING) burst->connecting--;
  request->state = DONE;
  request->right = right;
  request->refused =
      !right && request->len >= 12 && memcmp(request->answer, "HTTP/1.1 503", 12) == 0;
  request->took = now() - request->started;
  close(request->fd);
  burst->open--;
}

/* Status 200, and a body that is the target of this very request. */
static bool is_own_answer(struct request *request, size_t number) {
  char want[32];
  size_t want_len = (size_t)snprintf(want, sizeof want, "\r\n\r\n/%zu", number);
  return request->len >= want_len + 12 && memcmp(request->answer, "HTTP/1.1 200", 12) == 0 &&
         memcmp(request->answer + request->len - want_len, want, want_len) == 0;
}

static void ask(struct burst *burst, struct request *request, size_t number) {
  char head[128];
  int len = snprintf(head, sizeof head,
                     "GET /%zu HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", number);
  if (send(request->fd, head, (size_t)len, MSG_NOSIGNAL) == len) {
    request->state = READING;
    burst->connecting--;
  } else {
    finish(burst, request, false);
  }
}

/* The answer is whole when the server closes, as it was asked to. */
static void take(struct burst *burst, struct request *request, size_t number) {
  while (request->state == READING) {
    size_t room = ANSWER_MAX - request->len;
    ssize_t got = room > 0 ? recv(request->fd, request->answer + request->len, room, 0) : -1;
    if (room > 0 && got < 0 && errno == EAGAIN) return;
    if (got > 0)
      request->len += (size_t)got;
    else
      finish(burst, request, got == 0 && is_own_answer(request, number));
  }
}

static void run(struct burst *burst, int64_t deadline) {
  struct epoll_event events[EVENTS_MAX];
  start_some(burst);
  while (burst->open > 0) {
    int64_t left = (deadline - now()) / 1000000;
    int count = left > 0 ? epoll_wait(burst->epoll_fd, events, EVENTS_MAX, (int)left) : 0;
    if (count < 0 && errno != EINTR) die("epoll_wait");
    if (count == 0) return;
    for (int i = 0; i < count; i++) {
      size_t number = (size_t)events[i].data.u64;
      struct request *request = &burst->requests[number];
      if (request->state == CONNECTING && events[i].events & (EPOLLHUP | EPOLLERR))
        finish(burst, request, false);
      if (request->state == CONNECTING && events[i].events & EPOLLOUT) ask(burst, request, number);
      take(burst, request, number);
    }
    start_some(burst);
  }
}

static void report(const struct burst *burst, int64_t wall) {
  size_t right = 0, wrong = 0, dropped = 0, refused = 0;
  int64_t refused_slowest = 0;
  int64_t *took = calloc(burst->count, sizeof *took);
  if (!took) die("memory");
  for (size_t i = 0; i < burst->count; i++) {
    const struct request *request = &burst->requests[i];
    if (request->right)
      took[right++] = request->took / 1000;
    else if (request->refused && ++refused > 0)
      refused_slowest = request->took > refused_slowest ? request->took : refused_slowest;
    else if (request->state == DONE && request->len > 0)
      wrong++;
    else if (request->state == DONE)
      dropped++;
  }
  qsort(took, right, sizeof *took, by_size);
  long long p50 = right ? (long long)took[(right - 1) / 2] : 0;
  long long p99 = right ? (long long)took[(right - 1) * 99 / 100] : 0;
  long long slowest = right ? (long long)took[right - 1] : 0;
  printf("right=%zu wrong=%zu dropped=%zu unanswered=%zu wall=%lld p50=%lld p99=%lld slowest=%lld "
         "refused=%zu refused_slowest=%lld\n",
         right, wrong, dropped, burst->count - right - wrong - dropped - refused,
         (long long)wall / 1000, p50, p99, slowest, refused, (long long)refused_slowest / 1000);
  free(took);
}

int main(int argc, char **argv) {
  int port = argc == 4 ? atoi(argv[1]) : 0;
  int count = argc == 4 ? atoi(argv[2]) : 0, seconds = argc == 4 ? atoi(argv[3]) : 0;
  if (port <= 0 || port > 65535 || count <= 0 || seconds <= 0) {
    fprintf(stderr, "usage: burst PORT REQUESTS DEADLINE_SECONDS   (times are printed in us)\n");
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct burst burst = {.count = (size_t)count};
  burst.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  burst.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (burst.epoll_fd < 0) die("epoll_create1");
  burst.requests = calloc(burst.count, sizeof *burst.requests);
  if (!burst.requests) die("memory");
  int64_t began = now();
  run(&burst, began + (int64_t)seconds * 1000000000);
  report(&burst, now() - began);
  free(burst.requests);
}
