/* Clients that each ask for one response, which has no end, and read as fast as it comes. Prints
 * one line of figures: how many of them got something, when all had (in ms; -1: never), and the
 * bytes of all, of the one that got least and of the one that got most. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

#define EVENTS_MAX 256

struct load {
  int epoll_fd;
  struct sockaddr_in addr;
  uint64_t *got; /* bytes of each */
  int *fds;
  size_t count, begun;
  int64_t began, all_begun;
};

/* None waits for another one, or for a server that is slow to accept. */
static void open_all(struct load *load) {
  for (size_t i = 0; i < load->count; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&load->addr, sizeof load->addr) < 0 && errno != EINPROGRESS)
      die("connect");
    struct epoll_event event = {.events = EPOLLOUT, .data.u64 = i};
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
    load->fds[i] = fd;
  }
}

static void ask(const struct load *load, size_t i) {
  static const char request[] = "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
  if (send(load->fds[i], request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
    die("send");
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
  if (epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, load->fds[i], &event) < 0) die("epoll_ctl");
}

static void receive(struct load *load, size_t i) {
  static char bytes[1 << 18];
  ssize_t n = recv(load->fds[i], bytes, sizeof bytes, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    close(load->fds[i]);
    return;
  }
  if (load->got[i] == 0 && ++load->begun == load->count) load->all_begun = now() - load->began;
  load->got[i] += (uint64_t)n;
}

static void run(struct load *load, int64_t until) {
  static struct epoll_event events[EVENTS_MAX];
  while (now() < until) {
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, 100);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      if (events[i].events & EPOLLOUT) {
        ask(load, events[i].data.u64);
      } else {
        receive(load, events[i].data.u64);
      }
    }
  }
}

static void report(const struct load *load) {
  uint64_t sum = 0, least = UINT64_MAX, most = 0;
  for (size_t i = 0; i < load->count; i++) {
    sum += load->got[i];
    if (load->got[i] < least) least = load->got[i];
    if (load->got[i] > most) most = load->got[i];
  }
  printf("readers=%zu begun=%zu all_begun=%lld bytes=%llu least=%llu most=%llu\n", load->count,
         load->begun, load->all_begun < 0 ? -1 : (long long)(load->all_begun / MS),
         (unsigned long long)sum, (unsigned long long)least, (unsigned long long)most);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: readers PORT READERS SECONDS\n");
    return 2;
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct load load = {.count = strtoul(argv[2], NULL, 10), .began = now(), .all_begun = -1};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[1])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  load.got = calloc(load.count, sizeof *load.got);
  load.fds = calloc(load.count, sizeof *load.fds);
  if (load.epoll_fd < 0 || !load.got || !load.fds || load.count == 0) die("start");
  open_all(&load);
  run(&load, load.began + atoi(argv[3]) * SECOND);
  report(&load);
  free(load.got);
  free(load.fds);
}
