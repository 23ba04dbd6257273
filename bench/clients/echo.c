/* Posts a long body and takes it back as it comes, both at once on one connection, and compares
 * every byte that returns with the one that was sent. Prints one line of figures: the bytes each
 * way, and the microseconds from the connect to the last byte sent, the first one back and the
 * last one back.
 *
 * The body repeats a block whose length is prime, so that a byte out of its place does not go
 * unnoticed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client.h"

#define PERIOD   1048573u /* bytes of the block */
#define WINDOW   262144u  /* bytes of one read, and of one write without chunks */
#define CHUNK    65536u   /* content of one chunk */
#define HEAD_MAX 16384u

enum framing { LENGTH, CHUNKED, CLOSE };
enum part { IN_HEAD, IN_SIZE, IN_DATA, IN_DATA_END, IN_TRAILER, COMPLETE };

struct echo {
  int fd;
  bool chunked;                       /* the request */
  uint64_t total, queued, sent, back; /* bytes of content */
  char *block;                        /* PERIOD bytes, and the first WINDOW of them again */
  char out_head[256];
  struct iovec out[3];
  int out_first, out_count;
  bool out_done;
  enum part part; /* the response */
  enum framing framing;
  uint64_t left; /* bytes of content or of this chunk that must still come */
  char head[HEAD_MAX + 1];
  size_t head_len, line_len;
  char *in;
  int64_t started, sent_at, first_at, back_at; /* monotonic ns */
  const char *problem;
  char refusal[32];
};

static void fill_block(struct echo *echo) {
  echo->block = malloc(PERIOD + WINDOW);
  echo->in = malloc(WINDOW);
  if (!echo->block || !echo->in) die("memory");
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < PERIOD; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    echo->block[i] = (char)(state >> 32);
  }
  memcpy(echo->block + PERIOD, echo->block, WINDOW);
}

/* --- the request --- */

static void put(struct echo *echo, void *base, size_t len) {
  if (len > 0) echo->out[echo->out_count++] = (struct iovec){base, len};
}

static void begin_request(struct echo *echo) {
  char framing[64];
  if (echo->chunked)
    snprintf(framing, sizeof framing, "Transfer-Encoding: chunked");
  else
    snprintf(framing, sizeof framing, "Content-Length: %llu", (unsigned long long)echo->total);
  int len =
      snprintf(echo->out_head, sizeof echo->out_head,
               "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
               "%s\r\n\r\n",
               framing);
  put(echo, echo->out_head, (size_t)len);
}

/* What is to be written next; nothing when the request is complete. */
static void next_piece(struct echo *echo) {
  echo->out_first = echo->out_count = 0;
  uint64_t left = echo->total - echo->queued;
  if (left == 0) {
    if (echo->chunked && !echo->out_done) put(echo, (char *)"0\r\n\r\n", 5);
    echo->out_done = true;
    return;
  }
  uint64_t most = echo->chunked ? CHUNK : WINDOW;
  size_t len = (size_t)(left < most ? left : most);
  if (echo->chunked) {
    put(echo, echo->out_head,
        (size_t)snprintf(echo->out_head, sizeof echo->out_head, "%zx\r\n", len));
  }
  put(echo, echo->block + echo->queued % PERIOD, len);
  if (echo->chunked) put(echo, (char *)"\r\n", 2);
  echo->queued += len;
}

static void wrote(struct echo *echo, size_t len) {
  while (len > 0) {
    struct iovec *iov = &echo->out[echo->out_first];
    size_t part = len < iov->iov_len ? len : iov->iov_len;
    iov->iov_base = (char *)iov->iov_base + part;
    iov->iov_len -= part;
    len -= part;
    if (iov->iov_len == 0) echo->out_first++;
  }
}

/* One write. False when the socket takes no more, or there is no more. */
static bool step_out(struct echo *echo) {
  if (echo->out_first == echo->out_count) next_piece(echo);
  if (echo->out_first == echo->out_count) return false;
  struct msghdr message = {.msg_iov = echo->out + echo->out_first,
                           .msg_iovlen = (size_t)(echo->out_count - echo->out_first)};
  ssize_t len = sendmsg(echo->fd, &message, MSG_NOSIGNAL);
  if (len < 0) {
    if (errno == EAGAIN || errno == EINTR) return errno == EINTR;
    /* The response may still say why. */
    echo->out_first = echo->out_count = 0;
    echo->out_done = true;
    echo->queued = echo->total;
    return false;
  }
  wrote(echo, (size_t)len);
  if (echo->out_first == echo->out_count) echo->sent = echo->queued;
  if (echo->sent == echo->total && !echo->sent_at) echo->sent_at = now();
  return true;
}

/* --- the response --- */

static void fail(struct echo *echo, const char *problem) {
  if (!echo->problem) echo->problem = problem;
}

/* The value of a field in the head, or NULL. */
static const char *field(const char *head, const char *name) {
  size_t len = strlen(name);
  for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':') continue;
    const char *value = line + 3 + len;
    return value + strspn(value, " \t");
  }
  return NULL;
}

static void head_complete(struct echo *echo) {
  int status = strncmp(echo->head, "HTTP/1.1 ", 9) == 0 ? atoi(echo->head + 9) : 0;
  bool interim = status >= 100 && status < 200;
  if (!interim) {
    const char *length = field(echo->head, "content-length");
    const char *coding = field(echo->head, "transfer-encoding");
    bool chunked = coding && strncasecmp(coding, "chunked", 7) == 0;
    echo->framing = chunked ? CHUNKED : length ? LENGTH : CLOSE;
    echo->left = echo->framing == LENGTH ? strtoull(length, NULL, 10) : 0;
    echo->part = chunked ? IN_SIZE : IN_DATA;
    if (echo->framing == LENGTH && echo->left == 0) echo->part = COMPLETE;
  }
  if (!interim && status != 200) {
    snprintf(echo->refusal, sizeof echo->refusal, "status %d", status);
    fail(echo, echo->refusal);
  }
  echo->head_len = 0;
}

/* Each of these takes bytes from buf and returns how many. */
static size_t take_head(struct echo *echo, const char *buf, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (echo->head_len == HEAD_MAX) {
      fail(echo, "a head without an end");
      return len;
    }
    echo->head[echo->head_len++] = buf[i];
    if (buf[i] != '\n' || echo->head_len < 4) continue;
    if (memcmp(echo->head + echo->head_len - 4, "\r\n\r\n", 4) != 0) continue;
    echo->head[echo->head_len] = '\0';
    head_complete(echo);
    return i + 1;
  }
  return len;
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* A chunk-size line: line_len counts its digits. */
static size_t take_size(struct echo *echo, const char *buf, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (buf[i] == '\n') {
      if (echo->line_len == 0) fail(echo, "a chunk without a size");
      echo->part = echo->left > 0 ? IN_DATA : IN_TRAILER;
      echo->line_len = 0;
      return i + 1;
    }
    if (buf[i] == '\r') continue;
    int digit = hex(buf[i]);
    if (digit < 0 || ++echo->line_len > 15) {
      fail(echo, "a chunk size that is none");
      return len;
    }
    echo->left = echo->left * 16 + (uint64_t)digit;
  }
  return len;
}

static size_t take_data(struct echo *echo, const char *buf, size_t len) {
  size_t part = echo->framing != CLOSE && echo->left < len ? (size_t)echo->left : len;
  if (echo->back == 0) echo->first_at = now();
  if (part > echo->total - echo->back) {
    fail(echo, "more came back than was sent");
  } else if (memcmp(buf, echo->block + echo->back % PERIOD, part) != 0) {
    fail(echo, "other bytes came back than were sent");
  }
  echo->back += part;
  if (echo->framing == CLOSE) return part;
  echo->left -= part;
  if (echo->left == 0) echo->part = echo->framing == CHUNKED ? IN_DATA_END : COMPLETE;
  return part;
}

/* Lines to the next one; the trailer section ends with an empty one. */
static size_t take_line(struct echo *echo, const char *buf, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (buf[i] == '\r') continue;
    if (buf[i] != '\n') {
      echo->line_len++;
      continue;
    }
    if (echo->part == IN_DATA_END) {
      if (echo->line_len > 0) fail(echo, "a chunk longer than its size");
      echo->part = IN_SIZE;
    } else if (echo->line_len == 0) {
      echo->part = COMPLETE;
    }
    echo->line_len = 0;
    return i + 1;
  }
  return len;
}

static size_t take(struct echo *echo, const char *buf, size_t len) {
  switch (echo->part) {
  case IN_HEAD:
    return take_head(echo, buf, len);
  case IN_SIZE:
    return take_size(echo, buf, len);
  case IN_DATA:
    return take_data(echo, buf, len);
  case IN_DATA_END:
  case IN_TRAILER:
    return take_line(echo, buf, len);
  default:
    fail(echo, "bytes behind the response");
    return len;
  }
}

/* The server has ended its side. */
static void ended(struct echo *echo) {
  if (echo->part == IN_DATA && echo->framing == CLOSE)
    echo->part = COMPLETE;
  else
    fail(echo, "the server closed in the middle");
}

/* One read. False when there is nothing to read. */
static bool step_in(struct echo *echo) {
  ssize_t got = recv(echo->fd, echo->in, WINDOW, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  if (got < 0) {
    fail(echo, errno == ECONNRESET ? "the server reset the connection" : strerror(errno));
    return false;
  }
  if (got == 0) ended(echo);
  size_t len = (size_t)got;
  for (const char *at = echo->in; len > 0 && !echo->problem;) {
    size_t used = take(echo, at, len);
    at += used;
    len -= used;
  }
  if (echo->part == COMPLETE) echo->back_at = now();
  return got > 0;
}

static void run(struct echo *echo, int epoll_fd, int64_t deadline) {
  struct epoll_event event;
  while (echo->part != COMPLETE && !echo->problem) {
    bool out = step_out(echo), in = step_in(echo);
    if (out || in || echo->part == COMPLETE || echo->problem) {
      if (now() < deadline) continue;
    } else {
      int64_t left = (deadline - now()) / 1000000;
      int ready = left > 0 ? epoll_wait(epoll_fd, &event, 1, (int)left) : 0;
      if (ready > 0 || (ready < 0 && errno == EINTR)) continue;
    }
    if (echo->part != COMPLETE) fail(echo, "not done within the time limit");
  }
  if (echo->back != echo->total) fail(echo, "less came back than was sent");
}

static void open_connection(struct echo *echo, int port) {
  struct sockaddr_in addr = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  echo->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (echo->fd < 0) die("socket");
  if (connect(echo->fd, (struct sockaddr *)&addr, sizeof addr) < 0) die("connect");
  int on = 1;
  if (setsockopt(echo->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) die("setsockopt");
}

static int watch(int fd) {
  int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
  if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll");
  return epoll_fd;
}

static long long since(const struct echo *echo, int64_t time) {
  return time ? (long long)(time - echo->started) / 1000 : 0;
}

int main(int argc, char **argv) {
  int port = argc == 5 ? atoi(argv[1]) : 0, seconds = argc == 5 ? atoi(argv[4]) : 0;
  long long bytes = argc == 5 ? atoll(argv[2]) : 0;
  bool chunked = argc == 5 && strcmp(argv[3], "chunked") == 0;
  bool known = chunked || (argc == 5 && strcmp(argv[3], "length") == 0);
  if (port <= 0 || port > 65535 || bytes <= 0 || !known || seconds <= 0) {
    fprintf(stderr, "usage: echo PORT BYTES length|chunked DEADLINE_SECONDS\n");
    return 2;
  }
  struct echo echo = {.total = (uint64_t)bytes, .chunked = chunked};
  fill_block(&echo);
  open_connection(&echo, port);
  int epoll_fd = watch(echo.fd);
  /* Only from here on, so that connect may wait. */
  if (fcntl(echo.fd, F_SETFL, O_NONBLOCK) < 0) die("fcntl");
  echo.started = now();
  begin_request(&echo);
  run(&echo, epoll_fd, echo.started + (int64_t)seconds * 1000000000);
  printf("sent=%llu back=%llu sent_us=%lld first_us=%lld back_us=%lld problem=%s\n",
         (unsigned long long)echo.sent, (unsigned long long)echo.back, since(&echo, echo.sent_at),
         since(&echo, echo.first_at), since(&echo, echo.back_at), echo.problem ? echo.problem : "");
  free(echo.block);
  free(echo.in);
  return 0;
}
