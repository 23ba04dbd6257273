/* For clients that ask over HTTP/1.1 on many connections at once: opening one, and the head of a
 * response. */
#ifndef BENCH_CLIENTS_HTTP_H
#define BENCH_CLIENTS_HTTP_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

/* --- connections --- */

/* A socket that is connected, without delay, and watched for input. Returns -1, with errno set, if
 * the server does not listen. On the loopback no program has to answer for that. */
static inline int open_socket(const struct sockaddr_in *addr, int epoll_fd, void *ctx) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) die("socket");
  if (connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0) {
    close(fd);
    return -1;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = ctx};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
  return fd;
}

/* --- heads --- */

#define HEAD_MAX 8192
#define IN_HEAD  -1 /* body_left: the head is not complete */
#define CHUNKED  -2

struct head {
  size_t len;
  int64_t body_left; /* bytes of the body to come, or one of the above */
  bool closing;      /* the connection ends with the response */
  bool right;        /* it is 200 */
  char text[HEAD_MAX + 1];
};

static inline void begin_head(struct head *head) {
  head->len = 0;
  head->body_left = IN_HEAD;
  head->closing = head->right = false;
}

/* What follows the name in the text, or NULL. */
static inline const char *field(const char *text, const char *name) {
  const char *found = strcasestr(text, name);
  return found ? found + strlen(name) : NULL;
}

/* Takes the head as far as it is in `data`. Returns how many of its bytes belong to the head, or -1
 * if that is too long. */
static inline ssize_t take_head(struct head *head, const char *data, size_t len) {
  size_t before = head->len, room = HEAD_MAX - before;
  size_t part = len < room ? len : room;
  memcpy(head->text + before, data, part);
  head->len += part;
  head->text[head->len] = '\0';
  const char *stop = strstr(head->text, "\r\n\r\n");
  if (!stop) return part < len ? -1 : (ssize_t)part;
  size_t used = (size_t)(stop - head->text) + 4;
  head->text[used] = '\0';
  const char *length = field(head->text, "\r\ncontent-length:");
  head->body_left = length ? strtoll(length, NULL, 10) : CHUNKED;
  head->closing = field(head->text, "\r\nconnection: close") != NULL;
  head->right = strncmp(head->text, "HTTP/1.1 200", 12) == 0;
  return (ssize_t)(used - before);
}

#endif
