/* Asks for pages on some connections, each again as soon as it is answered, and for something light
 * on others, each at a fixed pace. If an answer takes longer than the pace, the requests that were
 * due meanwhile are dropped, and the next one is sent at once.
 *
 *   prints "warm"   when the server is warm: it has answered WARM pages or has had LIMIT seconds,
 *                   and has answered every connection once (at most PATIENCE seconds later)
 *   reads a line    the window begins
 *   prints "over"   the window is over; the load goes on, so that both ends are alike
 *   reads the end   prints one line of figures of the window, times in microseconds
 *
 * An answer counts if it arrives within the window. "worst" includes requests that are still
 * waiting at its end. */
#include <arpa/inet.h>
#include <errno.h>

#include "http.h"

#define EVENTS_MAX 256
#define LAST_CHUNK "0\r\n\r\n"
#define TAIL       (sizeof LAST_CHUNK - 1)

enum kind { PAGE, LIGHT, KINDS };
enum phase { WARMING, WARM, WINDOW, OVER };

struct peer {
  enum kind kind;
  int fd;
  int64_t due, sent; /* monotonic ns; sent is 0 while it asks for nothing */
  uint64_t answers;  /* in the window */
  bool answered;
  char tail[TAIL]; /* the last bytes of a body in chunks */
  struct head head;
};

struct load {
  int epoll_fd;
  struct sockaddr_in addr;
  struct peer *peers;
  size_t count, unanswered, pages;
  enum phase phase;
  bool ended; /* the input */
  int64_t began, window_began, window, pace;
  char request[KINDS][512];
  struct list took[KINDS];
  int64_t worst[KINDS];
  size_t wrong, lost;
};

struct options {
  int port, pages, lights, pace, seconds, warm, limit, patience;
  const char *page, *light;
};

static void open_peer(struct load *load, struct peer *peer) {
  peer->fd = open_socket(&load->addr, load->epoll_fd, peer);
  if (peer->fd < 0) die("connect");
}

/* A server may close a connection: with a request on it, the request is lost. */
static void reopen(struct load *load, struct peer *peer) {
  if (peer->sent && load->phase == WINDOW) load->lost++;
  peer->sent = 0;
  close(peer->fd);
  open_peer(load, peer);
}

static void ask(struct load *load, struct peer *peer) {
  int64_t at = now();
  peer->due += load->pace;
  if (peer->due < at) peer->due += (at - peer->due) / load->pace * load->pace;
  begin_head(&peer->head);
  memset(peer->tail, 0, TAIL);
  const char *request = load->request[peer->kind];
  size_t len = strlen(request);
  /* If the server has closed meanwhile, the next look at the connection says so. */
  if (send(peer->fd, request, len, MSG_NOSIGNAL) == (ssize_t)len) peer->sent = at;
}

static void finish(struct load *load, struct peer *peer) {
  int64_t took = now() - peer->sent;
  if (!peer->answered) load->unanswered--;
  peer->answered = true;
  load->pages += peer->kind == PAGE;
  if (load->phase == WINDOW) {
    peer->answers++;
    load->wrong += !peer->head.right;
    add(&load->took[peer->kind], took);
  }
  peer->sent = 0;
  if (peer->head.closing) reopen(load, peer);
}

/* Whether these bytes of a body are its last ones. */
static bool take_body(struct peer *peer, const char *data, size_t len) {
  int64_t *left = &peer->head.body_left;
  if (*left >= 0) return (*left -= (int64_t)len) <= 0;
  size_t part = len < TAIL ? len : TAIL;
  memmove(peer->tail, peer->tail + part, TAIL - part);
  memcpy(peer->tail + TAIL - part, data + len - part, part);
  return memcmp(peer->tail, LAST_CHUNK, TAIL) == 0;
}

static void receive(struct load *load, struct peer *peer) {
  static char data[65536];
  ssize_t got = recv(peer->fd, data, sizeof data, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    reopen(load, peer);
    return;
  }
  if (!peer->sent) return;
  ssize_t used = peer->head.body_left == IN_HEAD ? take_head(&peer->head, data, (size_t)got) : 0;
  if (used < 0) errno = EMSGSIZE, die("head");
  if (peer->head.body_left == IN_HEAD) return;
  if (take_body(peer, data + used, (size_t)(got - used))) finish(load, peer);
}

/* Asks where it is time; returns when it is time next. */
static int64_t ask_due(struct load *load, int64_t next) {
  for (size_t i = 0; i < load->count; i++) {
    struct peer *peer = &load->peers[i];
    if (peer->sent) continue;
    if (peer->kind == PAGE || peer->due <= now()) ask(load, peer);
    if (!peer->sent && peer->due < next) next = peer->due;
  }
  return next;
}

static bool is_warm(const struct load *load, const struct options *options) {
  int64_t elapsed = now() - load->began;
  bool enough = load->pages >= (size_t)options->warm || elapsed >= (int64_t)options->limit * SECOND;
  int64_t last = ((int64_t)options->limit + options->patience) * SECOND;
  return enough && (load->unanswered == 0 || elapsed >= last);
}

/* A request without an answer has taken at least until now. */
static void end_window(struct load *load) {
  int64_t at = now();
  load->window = at - load->window_began;
  for (int kind = 0; kind < KINDS; kind++) {
    sort(&load->took[kind]);
    load->worst[kind] = at_share(&load->took[kind], 100);
  }
  for (size_t i = 0; i < load->count; i++) {
    struct peer *peer = &load->peers[i];
    int64_t waits = peer->sent ? at - peer->sent : 0;
    if (waits > load->worst[peer->kind]) load->worst[peer->kind] = waits;
  }
}

static void say(struct load *load, enum phase phase, const char *word) {
  load->phase = phase;
  puts(word);
  fflush(stdout);
}

/* The input: a line begins the window, its end ends all. */
static void listen_to_input(struct load *load) {
  char line[64];
  load->ended = read(STDIN_FILENO, line, sizeof line) <= 0;
  if (load->ended || load->phase != WARM) return;
  load->phase = WINDOW;
  load->window_began = now();
}

static void run(struct load *load, const struct options *options) {
  struct epoll_event events[EVENTS_MAX];
  while (!load->ended) {
    if (load->phase == WARMING && is_warm(load, options)) say(load, WARM, "warm");
    int64_t end = load->window_began + options->seconds * SECOND;
    if (load->phase == WINDOW && now() >= end) {
      end_window(load);
      say(load, OVER, "over");
    }
    int64_t next = load->phase == WINDOW ? end : now() + 10 * MS;
    int64_t left = ask_due(load, next) - now();
    int timeout = left > 0 ? (int)((left + MS - 1) / MS) : 0;
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, timeout);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      if (events[i].data.ptr)
        receive(load, events[i].data.ptr);
      else
        listen_to_input(load);
    }
  }
}

static void print_kind(const struct load *load, enum kind kind, const char *name) {
  const struct list *took = &load->took[kind];
  uint64_t least = UINT64_MAX, most = 0;
  for (size_t i = 0; i < load->count; i++) {
    const struct peer *peer = &load->peers[i];
    if (peer->kind != kind) continue;
    if (peer->answers < least) least = peer->answers;
    if (peer->answers > most) most = peer->answers;
  }
  printf("%s=%zu %s_p50=%lld %s_p99=%lld %s_worst=%lld %s_least=%llu %s_most=%llu ", name,
         took->count, name, microseconds(took, 50), name, microseconds(took, 99), name,
         (long long)load->worst[kind] / 1000, name,
         (unsigned long long)(least == UINT64_MAX ? 0 : least), name, (unsigned long long)most);
}

static void make(struct load *load, const struct options *options) {
  const char *paths[KINDS] = {options->page, options->light};
  for (int kind = 0; kind < KINDS; kind++)
    snprintf(load->request[kind], sizeof load->request[kind],
             "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[kind]);
  load->count = load->unanswered = (size_t)options->pages + (size_t)options->lights;
  load->peers = calloc(load->count, sizeof *load->peers);
  if (!load->peers) die("memory");
  load->began = now();
  for (size_t i = 0; i < load->count; i++) {
    struct peer *peer = &load->peers[i];
    peer->kind = i < (size_t)options->pages ? PAGE : LIGHT;
    /* Spread over one interval. */
    peer->due =
        load->began + (peer->kind == LIGHT ? load->pace * (int64_t)i / (int64_t)load->count : 0);
    open_peer(load, peer);
  }
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0) die("input");
}

int main(int argc, char **argv) {
  if (argc != 11) {
    fputs("usage: pages PORT SECONDS PAGES /PAGE LIGHTS /LIGHT PACE_MS WARM LIMIT PATIENCE\n",
          stderr);
    return 2;
  }
  struct options options = {.port = atoi(argv[1]),
                            .seconds = atoi(argv[2]),
                            .pages = atoi(argv[3]),
                            .page = argv[4],
                            .lights = atoi(argv[5]),
                            .light = argv[6],
                            .pace = atoi(argv[7]),
                            .warm = atoi(argv[8]),
                            .limit = atoi(argv[9]),
                            .patience = atoi(argv[10])};
  if (options.pages + options.lights <= 0 || options.pace <= 0 || options.seconds <= 0) return 2;
  struct load load = {.pace = options.pace * MS, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)options.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (load.epoll_fd < 0) die("epoll_create1");
  make(&load, &options);
  run(&load, &options);
  print_kind(&load, PAGE, "page");
  print_kind(&load, LIGHT, "light");
  printf("window=%lld wrong=%zu lost=%zu\n", (long long)load.window / 1000, load.wrong, load.lost);
  return 0;
}
