/* The floor of the benchmarks: one thread, one epoll loop, and nothing but answers. Every request
 * gets the same bytes that Abaca sends for apps/hello.ru, so the difference between the two is
 * what HTTP, Rack, fibers and Ruby cost on top of the kernel.
 *
 * It looks for the end of each head and for the exact text "Connection: close", as our clients
 * send it; with -c every answer is the last of its connection, which is what ab's HTTP/1.0 means.
 * It takes no request bodies and judges nothing: a yardstick, never a server for use. */
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

#define INPUT_MAX    (64 * 1024) /* bytes of one read, and of the longest head */
#define PAGE_MIN     (64 * 1024) /* a page holds as many responses as fit, at least one */
#define EVENTS_MAX   256
#define ACCEPT_BATCH 64
#define DATE_LEN     29

/* What a connection still has to send is a number, because all responses are alike: the bytes it
 * owes modulo the length of a response say where in the response the socket stopped. */
struct conn {
  size_t owed;     /* bytes of keep-alive responses */
  size_t farewell; /* bytes of the last response, the one that says "connection: close" */
  char *tail;      /* an incomplete head, or NULL */
  size_t tail_len;
  bool closing; /* no more requests; the connection ends when nothing is owed */
};

/* Responses that stand one after the other, so that one send answers a whole pipeline. */
struct page {
  char *bytes;
  size_t response_len, count, date_at;
};

struct server {
  int epoll_fd, listen_fd;
  struct conn *conns; /* by descriptor */
  size_t conns_len;
  struct page normal, farewell;
  time_t date_of;
  bool one_each; /* every answer is the last of its connection */
  char input[INPUT_MAX];
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

static void page_init(struct page *page, size_t body_len, const char *connection) {
  char head[256];
  int head_len = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\n"
                          "content-type: text/plain\r\n"
                          "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                          "Content-Length: %zu\r\n%s\r\n",
                          body_len, connection);
  page->date_at = (size_t)(strstr(head, "Thu, ") - head);
  page->response_len = (size_t)head_len + body_len;
  page->count = page->response_len < PAGE_MIN ? PAGE_MIN / page->response_len : 1;
  page->bytes = must_alloc(page->count, page->response_len);
  for (size_t i = 0; i < page->count; i++) {
    char *response = page->bytes + i * page->response_len;
    memcpy(response, head, (size_t)head_len);
    memset(response + head_len, 'x', body_len);
    if (body_len == 12) memcpy(response + head_len, "Hello World\n", 12);
  }
}

static void page_set_date(struct page *page, const char *date) {
  for (size_t i = 0; i < page->count; i++)
    memcpy(page->bytes + i * page->response_len + page->date_at, date, DATE_LEN);
}

static void refresh_date(struct server *server) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec == server->date_of) return;
  server->date_of = now.tv_sec;
  struct tm tm;
  char date[DATE_LEN + 1];
  gmtime_r(&now.tv_sec, &tm);
  strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
  page_set_date(&server->normal, date);
  page_set_date(&server->farewell, date);
}

static void conn_close(struct server *server, int fd) {
  struct conn *conn = &server->conns[fd];
  free(conn->tail);
  *conn = (struct conn){0};
  close(fd);
}

/* Sends `*owed` bytes of the page. Returns 1 when all are gone, 0 when the socket is full, -1 when
 * the peer is gone. */
static int send_owed(int fd, const struct page *page, size_t *owed) {
  while (*owed > 0) {
    size_t at = (page->response_len - *owed % page->response_len) % page->response_len;
    size_t len = page->count * page->response_len - at;
    if (len > *owed) len = *owed;
    ssize_t sent = send(fd, page->bytes + at, len, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN ? 0 : -1;
    *owed -= (size_t)sent;
  }
  return 1;
}

static int flush(struct server *server, int fd) {
  struct conn *conn = &server->conns[fd];
  int done = send_owed(fd, &server->normal, &conn->owed);
  if (done == 1) done = send_owed(fd, &server->farewell, &conn->farewell);
  return done;
}

/* Counts the complete heads in `len` bytes into what the connection owes. Returns the bytes that
 * they take. */
static size_t take_heads(struct server *server, struct conn *conn, const char *input, size_t len) {
  static const char end_of_head[] = "\r\n\r\n", close_field[] = "\r\nConnection: close\r\n";
  size_t at = 0;
  while (!conn->closing) {
    const char *end = memmem(input + at, len - at, end_of_head, 4);
    if (!end) break;
    size_t head_len = (size_t)(end + 4 - (input + at));
    if (server->one_each || memmem(input + at, head_len, close_field, sizeof close_field - 1)) {
      conn->closing = true;
      conn->farewell = server->farewell.response_len;
    } else {
      conn->owed += server->normal.response_len;
    }
    at += head_len;
  }
  return at;
}

/* Keeps an incomplete head for the next read. Returns false when it is longer than we take. */
static bool keep_tail(struct conn *conn, const char *ptr, size_t len) {
  if (len == 0) return true;
  if (len == INPUT_MAX) return false;
  conn->tail = must_alloc(1, len);
  memcpy(conn->tail, ptr, len);
  conn->tail_len = len;
  return true;
}

/* Reads and answers until the socket is empty (returns 1), full (0), or the connection is over
 * (-1). `hung_up` asks to read up to the end of the stream, because edge-triggered epoll does not
 * announce it twice. */
static int serve(struct server *server, int fd, bool hung_up) {
  struct conn *conn = &server->conns[fd];
  int flushed = flush(server, fd);
  while (flushed == 1 && !conn->closing) {
    size_t have = conn->tail_len;
    if (have > 0) memcpy(server->input, conn->tail, have);
    ssize_t got = recv(fd, server->input + have, INPUT_MAX - have, 0);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) return -1;
    free(conn->tail);
    conn->tail = NULL;
    conn->tail_len = 0;
    size_t len = have + (size_t)got;
    size_t used = take_heads(server, conn, server->input, len);
    if (!conn->closing && !keep_tail(conn, server->input + used, len - used)) return -1;
    flushed = flush(server, fd);
    if (flushed == 1 && len < INPUT_MAX && !hung_up && !conn->closing) return 1;
  }
  return flushed == 1 ? -1 : flushed;
}

/* A short connection is answered and closed here, without ever being known to epoll. */
static void greet(struct server *server, int fd) {
  if ((size_t)fd >= server->conns_len) {
    close(fd);
    return;
  }
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
  if (serve(server, fd, false) < 0 || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
    conn_close(server, fd);
}

static void accept_batch(struct server *server) {
  for (int i = 0; i < ACCEPT_BATCH; i++) {
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      greet(server, fd);
      continue;
    }
    if (errno == EAGAIN) return;
    /* A figure from a run that lacked descriptors or memory would mean nothing. */
    if (errno != ECONNABORTED && errno != EINTR) die("accept4");
  }
}

static void run(struct server *server) {
  struct epoll_event events[EVENTS_MAX];
  for (;;) {
    int count = epoll_wait(server->epoll_fd, events, EVENTS_MAX, -1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    refresh_date(server);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == server->listen_fd)
        accept_batch(server);
      else if (serve(server, fd, events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) < 0)
        conn_close(server, fd);
    }
  }
}

static void listen_on(struct server *server, uint16_t port, bool defer) {
  int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  struct sockaddr_in addr = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  /* Accepted sockets inherit the options of the listener. */
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
    die("setsockopt");
  if (defer && setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on) < 0)
    die("TCP_DEFER_ACCEPT");
  if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0) die("bind");
  if (listen(fd, 4096) < 0) die("listen");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
  server->listen_fd = fd;
}

static size_t descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
  return limit.rlim_cur < 1 << 20 ? (size_t)limit.rlim_cur : 1 << 20;
}

static unsigned long number_in(const char *text, unsigned long max) {
  char *end;
  errno = 0;
  unsigned long number = strtoul(text, &end, 10);
  if (errno || end == text || *end || number > max) {
    fprintf(stderr, "limit_epoll: not a number from 0 to %lu: %s\n", max, text);
    exit(2);
  }
  return number;
}

int main(int argc, char **argv) {
  unsigned long port = 0, body_len = 12;
  bool defer = true, one_each = false, understood = true;
  int option;
  while ((option = getopt(argc, argv, "p:s:nc")) != -1) {
    if (option == 'p') port = number_in(optarg, 65535);
    if (option == 's') body_len = number_in(optarg, 64 << 20);
    if (option == 'n') defer = false;
    if (option == 'c') one_each = true;
    if (option == '?') understood = false;
  }
  if (!understood || port == 0 || optind != argc) {
    fprintf(stderr, "usage: limit_epoll -p PORT [-s BODY_SIZE] [-n] [-c]   (-n: no "
                    "TCP_DEFER_ACCEPT, -c: close)\n");
    return 2;
  }
  struct server *server = must_alloc(1, sizeof *server);
  server->one_each = one_each;
  server->conns_len = descriptor_limit();
  server->conns = must_alloc(server->conns_len, sizeof *server->conns);
  page_init(&server->normal, body_len, "");
  page_init(&server->farewell, body_len, "Connection: close\r\n");
  refresh_date(server);
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (server->epoll_fd < 0) die("epoll_create1");
  listen_on(server, (uint16_t)port, defer);
  run(server);
}
