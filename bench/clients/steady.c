/* Keeps connections busy at a measured pace, and watches them through what goes on meanwhile: each
 * light client asks, takes the answer, thinks, asks again. After a delay burners ask for something
 * long, each once; another connection asks for a health path all the time. Prints one line of
 * figures; latencies are those of requests that were on their way while a burner was, or of all if
 * there are no burners. Then it is a load that counts what becomes of every request, for a server
 * that is stopped or restarted. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "http.h"

#define EVENTS_MAX 256
#define GRACE      (3 * SECOND) /* for what is on its way in the end */

enum kind { LIGHT, BURNER, HEALTH, KINDS };
enum state { THINKING, WAITING, ENDED };

struct peer {
  enum kind kind;
  enum state state;
  int fd;
  int64_t due, sent; /* monotonic ns */
  struct head head;
};

struct load {
  int epoll_fd;
  struct sockaddr_in addr;
  struct peer *peers;
  size_t count, alive, burning;
  int64_t began, burn_began, burn_ended, think, pause;
  bool reconnect, ending; /* ending: nobody asks any more */
  bool burns;             /* there are burners */
  char request[KINDS][512];
  size_t request_len[KINDS];
  struct list took[KINDS], burned;
  size_t sent, answered, wrong, lost, closed, refused;
};

struct options {
  int port, connections, seconds, think_ms, burners, delay_ms, reconnect;
  const char *path, *burn, *health;
};

static bool open_peer(struct load *load, struct peer *peer) {
  peer->fd = open_socket(&load->addr, load->epoll_fd, peer);
  if (peer->fd < 0) {
    peer->state = ENDED;
    load->refused++;
    load->alive--;
    return false;
  }
  peer->state = THINKING;
  return true;
}

static void end(struct load *load, struct peer *peer) {
  close(peer->fd);
  peer->state = ENDED;
  load->alive--;
  if (peer->kind == BURNER) {
    load->burning--;
    load->burn_ended = now();
  }
}

/* The server has closed: in the middle of a request it has lost it. */
static void hang_up(struct load *load, struct peer *peer) {
  bool again = load->reconnect && peer->kind != BURNER;
  if (peer->state == WAITING)
    load->lost++;
  else
    load->closed++;
  int64_t due = peer->due;
  end(load, peer);
  if (!again) return;
  load->alive++;
  if (open_peer(load, peer)) peer->due = due > now() ? due : now();
}

static void ask(struct load *load, struct peer *peer) {
  begin_head(&peer->head);
  peer->sent = now();
  peer->state = WAITING;
  if (peer->kind == BURNER && !load->burn_began) load->burn_began = peer->sent;
  ssize_t len = (ssize_t)load->request_len[peer->kind];
  if (send(peer->fd, load->request[peer->kind], (size_t)len, MSG_NOSIGNAL) != len) {
    peer->state = THINKING; /* it never got there, so it is not lost */
    hang_up(load, peer);
    return;
  }
  load->sent++;
}

static void finish(struct load *load, struct peer *peer) {
  int64_t at = now();
  load->answered++;
  if (!peer->head.right) load->wrong++;
  bool during =
      !load->burns || (load->burn_began && (load->burning > 0 || peer->sent < load->burn_ended));
  if (peer->kind == BURNER)
    add(&load->burned, at - peer->sent);
  else if (during)
    add(&load->took[peer->kind], at - peer->sent);
  peer->state = THINKING;
  peer->due = at + (peer->kind == HEALTH ? load->pause : load->think);
  if (peer->kind == BURNER)
    end(load, peer);
  else if (peer->head.closing)
    hang_up(load, peer);
}

static void take(struct load *load, struct peer *peer, const char *data, size_t len) {
  if (peer->state != WAITING) return;
  if (peer->head.body_left == IN_HEAD) {
    ssize_t used = take_head(&peer->head, data, len);
    if (used < 0) hang_up(load, peer);
    if (peer->head.body_left == IN_HEAD) return;
    data += used;
    len -= (size_t)used;
  }
  if (peer->head.body_left == CHUNKED) {
    if (len >= 5 && memcmp(data + len - 5, "0\r\n\r\n", 5) == 0) finish(load, peer);
    return;
  }
  peer->head.body_left -= (int64_t)len;
  if (peer->head.body_left <= 0) finish(load, peer);
}

static void receive(struct load *load, struct peer *peer) {
  static char data[65536];
  ssize_t got = recv(peer->fd, data, sizeof data, MSG_DONTWAIT);
  if (got > 0)
    take(load, peer, data, (size_t)got);
  else if (got == 0 || (errno != EAGAIN && errno != EINTR))
    hang_up(load, peer);
}

/* Asks where it is time; returns when it is time next. */
static int64_t ask_due(struct load *load, int64_t deadline) {
  int64_t next = deadline, at = now();
  for (size_t i = 0; i < load->count; i++) {
    struct peer *peer = &load->peers[i];
    if (peer->state != THINKING || load->ending) continue;
    if (peer->due <= at) ask(load, peer);
    if (peer->state == THINKING && peer->due < next) next = peer->due;
  }
  return next;
}

static size_t waiting(const struct load *load) {
  size_t count = 0;
  for (size_t i = 0; i < load->count; i++) count += load->peers[i].state == WAITING;
  return count;
}

static void run(struct load *load, int64_t deadline, bool burners) {
  struct epoll_event events[EVENTS_MAX];
  while (load->alive > 0) {
    if (now() >= deadline) {
      if (burners || load->ending) return;
      load->ending = true;
      deadline += GRACE;
    }
    if (burners && load->burning == 0 && !load->ending) {
      load->ending = true;
      deadline = now() + GRACE;
    }
    if (load->ending && waiting(load) == 0) return;
    int64_t left = ask_due(load, deadline) - now();
    int timeout = left > 0 ? (int)((left + MS - 1) / MS) : 0;
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, timeout);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      struct peer *peer = events[i].data.ptr;
      if (peer->state != ENDED) receive(load, peer);
    }
  }
}

static void print_list(const char *name, struct list *list) {
  sort(list);
  printf("%s=%zu %s_p50=%lld %s_p99=%lld %s_worst=%lld ", name, list->count, name,
         microseconds(list, 50), name, microseconds(list, 99), name, microseconds(list, 100));
}

static void report(struct load *load) {
  print_list("light", &load->took[LIGHT]);
  print_list("health", &load->took[HEALTH]);
  print_list("burned", &load->burned);
  int64_t wall = load->burn_ended > load->burn_began ? load->burn_ended - load->burn_began : 0;
  printf("burning=%lld sent=%zu answered=%zu wrong=%zu lost=%zu closed=%zu refused=%zu "
         "unanswered=%zu\n",
         (long long)wall / 1000, load->sent, load->answered, load->wrong, load->lost, load->closed,
         load->refused, waiting(load));
}

static void make(struct load *load, const struct options *options) {
  const char *paths[KINDS] = {options->path, options->burn, options->health};
  for (int kind = 0; kind < KINDS; kind++)
    load->request_len[kind] =
        (size_t)snprintf(load->request[kind], sizeof load->request[kind],
                         "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", paths[kind]);
  load->count = (size_t)options->connections + (size_t)options->burners + (*options->health != 0);
  load->alive = load->count;
  load->burning = (size_t)options->burners;
  load->burns = options->burners > 0;
  load->peers = calloc(load->count, sizeof *load->peers);
  if (!load->peers) die("memory");
  load->began = now();
  for (size_t i = 0; i < load->count; i++) {
    struct peer *peer = &load->peers[i];
    size_t lights = (size_t)options->connections, burners = (size_t)options->burners;
    peer->kind = i < lights ? LIGHT : i < lights + burners ? BURNER : HEALTH;
    peer->due = load->began;
    /* They do not march in step. */
    if (peer->kind == LIGHT) peer->due += load->think * (int64_t)i / options->connections;
    if (peer->kind == BURNER) peer->due += options->delay_ms * MS;
    open_peer(load, peer);
  }
}

static bool read_option(struct options *options, const char *word) {
  const struct {
    const char *name;
    int *number;
    const char **text;
  } known[] = {
      {"port=", &options->port, NULL},           {"connections=", &options->connections, NULL},
      {"seconds=", &options->seconds, NULL},     {"think=", &options->think_ms, NULL},
      {"burners=", &options->burners, NULL},     {"delay=", &options->delay_ms, NULL},
      {"reconnect=", &options->reconnect, NULL}, {"path=", NULL, &options->path},
      {"burn=", NULL, &options->burn},           {"health=", NULL, &options->health},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t len = strlen(known[i].name);
    if (strncmp(word, known[i].name, len) != 0) continue;
    if (known[i].number)
      *known[i].number = atoi(word + len);
    else
      *known[i].text = word + len;
    return true;
  }
  return false;
}

int main(int argc, char **argv) {
  struct options options = {.seconds = 5,
                            .path = "/hello",
                            .burn = "/burn",
                            .health = "",
                            .think_ms = 20,
                            .delay_ms = 300,
                            .reconnect = 1};
  bool known = true;
  for (int i = 1; i < argc; i++) known = known && read_option(&options, argv[i]);
  if (!known || options.port <= 0 || options.port > 65535 || options.connections < 0 ||
      options.burners < 0 || options.seconds <= 0 || options.think_ms < 0) {
    fprintf(
        stderr,
        "usage: steady port=N connections=N seconds=S think=MS path=/P\n"
        "              [burners=N delay=MS burn=/P] [health=/P] [reconnect=0]   (times in us)\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  struct load load = {
      .think = options.think_ms * MS, .pause = 5 * MS, .reconnect = options.reconnect != 0};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)options.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (load.epoll_fd < 0) die("epoll_create1");
  make(&load, &options);
  run(&load, load.began + options.seconds * SECOND, options.burners > 0);
  report(&load);
  for (int kind = 0; kind < KINDS; kind++) free(load.took[kind].values);
  free(load.burned.values);
  free(load.peers);
}
