/* Full handshakes, as many as the server can do on N connections at once, or RATE a second: TLS 1.3
 * with X25519 and AES-128-GCM, no session to resume; then close_notify and the end, without a
 * request. Prints one line of figures: handshakes that were done, those that failed, those of the
 * rate that could not begin since N were on their way, and the time of each from the connect on, in
 * microseconds. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

#define EVENTS_MAX 256
#define PATIENCE   (5 * SECOND) /* with those that are on their way at the end */

enum state { FREE, SHAKING, LEAVING };

struct peer {
  enum state state;
  int fd;
  SSL *ssl;
  int64_t began;
};

struct load {
  int epoll_fd, rate;
  struct sockaddr_in addr;
  SSL_CTX *ctx;
  struct peer *peers;
  size_t count, busy, due, done, failed, late; /* due: by the rate, so far */
  struct list took;
};

static void end(struct load *load, struct peer *peer) {
  SSL_free(peer->ssl);
  close(peer->fd);
  peer->state = FREE;
  load->busy--;
}

static void fail(struct load *load, struct peer *peer) {
  load->failed++;
  end(load, peer);
}

static bool in_progress(void) {
  return errno == EAGAIN || errno == EINPROGRESS;
}

static void begin(struct load *load, struct peer *peer) {
  peer->began = now();
  peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  peer->ssl = SSL_new(load->ctx);
  if (peer->fd < 0 || !peer->ssl || SSL_set_fd(peer->ssl, peer->fd) != 1) die("socket");
  peer->state = SHAKING;
  load->busy++;
  if (connect(peer->fd, (struct sockaddr *)&load->addr, sizeof load->addr) < 0 && !in_progress()) {
    fail(load, peer);
    return;
  }
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = peer};
  if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, peer->fd, &event) < 0) die("epoll_ctl");
}

/* Tickets, and what the server says when it closes, are not looked at. */
static void drain(struct load *load, struct peer *peer) {
  char data[4096];
  ssize_t got;
  while ((got = recv(peer->fd, data, sizeof data, 0)) > 0) continue;
  if (got == 0 || !in_progress()) end(load, peer);
}

static void shake(struct load *load, struct peer *peer) {
  ERR_clear_error();
  int result = SSL_connect(peer->ssl);
  if (result != 1) {
    if (SSL_get_error(peer->ssl, result) != SSL_ERROR_WANT_READ) fail(load, peer);
    return;
  }
  if (SSL_session_reused(peer->ssl)) {
    fail(load, peer);
    return;
  }
  add(&load->took, now() - peer->began);
  load->done++;
  SSL_shutdown(peer->ssl);
  shutdown(peer->fd, SHUT_WR);
  peer->state = LEAVING;
  drain(load, peer);
}

/* How many may begin now. */
static size_t quota(struct load *load, int64_t passed) {
  size_t room = load->count - load->busy;
  if (load->rate == 0) return room;
  size_t due = (size_t)(passed * load->rate / SECOND), wanted = due - load->due;
  load->due = due;
  if (wanted <= room) return wanted;
  load->late += wanted - room;
  return room;
}

static void begin_some(struct load *load, size_t wanted) {
  for (size_t i = 0; i < load->count && wanted > 0; i++) {
    if (load->peers[i].state != FREE) continue;
    begin(load, &load->peers[i]);
    wanted--;
  }
}

static void run(struct load *load, int64_t began, int64_t deadline) {
  struct epoll_event events[EVENTS_MAX];
  for (;;) {
    int64_t at = now();
    if (at < deadline)
      begin_some(load, quota(load, at - began));
    else if (load->busy == 0 || at > deadline + PATIENCE)
      break;
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, load->rate ? 1 : 20);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      struct peer *peer = events[i].data.ptr;
      if (peer->state == SHAKING)
        shake(load, peer);
      else if (peer->state == LEAVING)
        drain(load, peer);
    }
  }
  load->failed += load->busy;
}

static SSL_CTX *context(void) {
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(ctx, "X25519") != 1) {
    ERR_print_errors_fp(stderr);
    exit(1);
  }
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
  return ctx;
}

int main(int argc, char **argv) {
  int port = argc > 3 ? atoi(argv[1]) : 0, count = argc > 3 ? atoi(argv[2]) : 0;
  int seconds = argc > 3 ? atoi(argv[3]) : 0, rate = argc > 4 ? atoi(argv[4]) : 0;
  if (port <= 0 || port > 65535 || count <= 0 || seconds <= 0 || rate < 0) {
    fprintf(stderr, "usage: handshakes PORT CONNECTIONS SECONDS [RATE]   (times in us)\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  struct load load = {.ctx = context(), .count = (size_t)count, .rate = rate};
  load.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (load.epoll_fd < 0) die("epoll_create1");
  load.peers = calloc(load.count, sizeof *load.peers);
  if (!load.peers) die("memory");
  int64_t began = now();
  run(&load, began, began + seconds * SECOND);
  sort(&load.took);
  printf("done=%zu failed=%zu late=%zu p50=%lld p99=%lld worst=%lld microseconds=%lld\n", load.done,
         load.failed, load.late, microseconds(&load.took, 50), microseconds(&load.took, 99),
         microseconds(&load.took, 100), (long long)(seconds * SECOND / 1000));
  free(load.took.values);
  free(load.peers);
  SSL_CTX_free(load.ctx);
}
