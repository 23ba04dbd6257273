/* Keeps N connections busy, each with one request at a time, and looks at the order of the answers:
 * in a fair server a request waits for one round at most, in which every other connection is
 * answered once. Prints one line of figures: requests after the warm-up, their latencies in
 * microseconds, for how many rounds a request has waited, in hundredths, and of the whole run the
 * answers that were 200, those that were not, and its time in microseconds. With GROUPS, the
 * connections are opened in so many equal groups: each waits for a line of input, and is told of on
 * the output when all of it have an answer. After one line more all are busy, without a warm-up.
 * With FORM, each request sends it, and is to be answered with 303. */
#include <arpa/inet.h>
#include <errno.h>

#include "http.h"

#define EVENTS_MAX 1024
#define ANSWER_MAX 16384
#define WARM_UP    (SECOND / 2)
#define HANG       (20 * SECOND)

struct peer {
  int fd;
  int64_t sent;    /* when, monotonic ns */
  uint64_t before; /* answers to anybody until then */
  size_t got;
  char answer[ANSWER_MAX];
};

struct load {
  int epoll_fd;
  struct sockaddr_in addr;
  struct peer *peers;
  size_t count;
  char request[512];
  size_t request_len;
  const char *right; /* how an answer begins */
  uint64_t answered, failed;
  int64_t counts_from; /* what was sent before is warm-up */
  struct list took, rounds;
};

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void ask(struct load *load, struct peer *peer) {
  peer->got = 0;
  peer->before = load->answered;
  peer->sent = now();
  ssize_t len = (ssize_t)load->request_len;
  if (send(peer->fd, load->request, (size_t)len, MSG_NOSIGNAL) != len) die("send");
}

/* A field of the head, which ends at `stop`; NULL without it. */
static const char *field_before(const char *stop, const struct peer *peer, const char *name) {
  const char *found = field(peer->answer, name);
  return found && found <= stop ? found : NULL;
}

static bool ends_with(const struct peer *peer, const char *end) {
  size_t len = strlen(end);
  return peer->got >= len && memcmp(peer->answer + peer->got - len, end, len) == 0;
}

/* Is the answer complete? Chunks are not looked at, up to the last one. */
static bool is_complete(struct peer *peer) {
  peer->answer[peer->got] = '\0';
  const char *stop = strstr(peer->answer, "\r\n\r\n");
  if (!stop) return false;
  if (field_before(stop, peer, "\r\ntransfer-encoding: chunked"))
    return ends_with(peer, "\r\n0\r\n\r\n");
  const char *length = field_before(stop, peer, "\r\ncontent-length:");
  if (!length) fail("an answer has no Content-Length");
  size_t size = (size_t)(stop - peer->answer) + 4 + strtoul(length, NULL, 10);
  if (peer->got > size) fail("an answer is too long");
  return peer->got == size;
}

static void open_peer(struct load *load, struct peer *peer) {
  peer->fd = open_socket(&load->addr, load->epoll_fd, peer);
  if (peer->fd < 0) die("connect");
}

/* A server may close a connection after a number of requests. */
static void reopen_if_asked(struct load *load, struct peer *peer) {
  if (!strcasestr(peer->answer, "\r\nconnection: close\r\n")) return;
  close(peer->fd);
  open_peer(load, peer);
}

static void receive(struct load *load, struct peer *peer, bool asks) {
  size_t room = sizeof peer->answer - 1 - peer->got;
  if (room == 0) fail("an answer is too long");
  ssize_t got = recv(peer->fd, peer->answer + peer->got, room, 0);
  if (got <= 0) fail("a connection was closed");
  peer->got += (size_t)got;
  if (!is_complete(peer)) return;
  bool good = strncmp(peer->answer, load->right, strlen(load->right)) == 0;
  load->failed += !good;
  if (good && peer->sent >= load->counts_from) {
    uint64_t others = load->answered - peer->before;
    add(&load->took, now() - peer->sent);
    add(&load->rounds, (int64_t)(others * 100 / load->count));
  }
  load->answered++;
  peer->sent = 0;
  reopen_if_asked(load, peer);
  if (asks) ask(load, peer);
}

static void open_some(struct load *load, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) open_peer(load, &load->peers[i]);
  for (size_t i = from; i < to; i++) ask(load, &load->peers[i]);
}

static size_t waiting(const struct load *load) {
  size_t count = 0;
  for (size_t i = 0; i < load->count; i++) count += load->peers[i].sent != 0;
  return count;
}

/* Who still waits at the end is waited for: the longest of all must not be missing. */
static void run(struct load *load, int64_t end) {
  static struct epoll_event events[EVENTS_MAX];
  bool asks = true;
  while (asks || waiting(load) > 0) {
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, 1000);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    int64_t at = now();
    if (at > end) asks = false;
    if (at > end + HANG) fail("a request was not answered in 20 s");
    for (int i = 0; i < count; i++) receive(load, events[i].data.ptr, asks);
  }
}

static void await_line(void) {
  char line[8];
  if (!fgets(line, sizeof line, stdin)) fail("no line of input");
}

/* Wherever the one who writes the lines has them accepted. */
static void open_in_groups(struct load *load, size_t groups) {
  for (size_t i = 0; i < groups; i++) {
    await_line();
    open_some(load, load->count * i / groups, load->count * (i + 1) / groups);
    run(load, now() - 1);
    printf("answered=%zu\n", load->count * (i + 1) / groups);
    fflush(stdout);
  }
  await_line();
}

static void report(struct load *load, int64_t took, int64_t whole) {
  struct list *times = &load->took, *rounds = &load->rounds;
  if (times->count == 0) fail("nothing was answered");
  sort(times);
  sort(rounds);
  printf("requests=%zu microseconds=%lld p50=%lld p99=%lld p999=%lld worst=%lld rounds_p99=%lld "
         "rounds_max=%lld answers=%llu failed=%llu whole=%lld\n",
         times->count, (long long)took / 1000, microseconds(times, 50), microseconds(times, 99),
         microseconds(times, 99.9), microseconds(times, 100), (long long)at_share(rounds, 99),
         (long long)at_share(rounds, 100), (unsigned long long)(load->answered - load->failed),
         (unsigned long long)load->failed, (long long)whole / 1000);
}

static void make_request(struct load *load, const char *path, const char *form) {
  char *text = load->request;
  size_t room = sizeof load->request;
  int len = form ? snprintf(text, room,
                            "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/x-www-form-urlencoded\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            path, strlen(form), form)
                 : snprintf(text, room, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
  if (len < 0 || (size_t)len >= room) fail("the request is too long");
  load->request_len = (size_t)len;
  load->right = form ? "HTTP/1.1 303" : "HTTP/1.1 200";
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 7) {
    fprintf(stderr, "usage: rounds PORT CONNECTIONS SECONDS [PATH [GROUPS [FORM]]]\n");
    return 2;
  }
  struct load load = {.count = strtoul(argv[2], NULL, 10)};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[1])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  make_request(&load, argc > 4 ? argv[4] : "/", argc > 6 ? argv[6] : NULL);
  load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  load.peers = calloc(load.count, sizeof *load.peers);
  if (load.epoll_fd < 0 || !load.peers || load.count == 0) die("start");
  size_t groups = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
  load.counts_from = INT64_MAX;
  if (groups > 0) open_in_groups(&load, groups);
  int64_t begun = now();
  load.counts_from = begun + (groups > 0 ? 0 : WARM_UP);
  if (groups > 0) {
    for (size_t i = 0; i < load.count; i++) ask(&load, &load.peers[i]);
  } else {
    open_some(&load, 0, load.count);
  }
  run(&load, load.counts_from + (int64_t)(atof(argv[3]) * SECOND));
  int64_t ended = now();
  report(&load, ended - load.counts_from, ended - begun);
  return 0;
}
