/* Connections that have completed their handshake but that the kernel holds back, since they have
 * sent nothing (TCP_DEFER_ACCEPT). Only the kernel's socket diagnostics show them, sock_diag(7). */
#include "os/tcp.h"

#ifdef AB_HAS_SOCKET_DIAGNOSTICS
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct question {
  struct nlmsghdr header;
  struct inet_diag_req_v2 body;
} question;

static bool ask(int fd, uint8_t family, uint16_t port) {
  question q;
  memset(&q, 0, sizeof q);
  q.header.nlmsg_len = sizeof q;
  q.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  q.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  q.body.sdiag_family = family;
  q.body.sdiag_protocol = IPPROTO_TCP;
  q.body.idiag_states = 1u << TCP_SYN_RECV;
  q.body.id.idiag_sport = htons(port);
  return send(fd, &q, sizeof q, 0) == (ssize_t)sizeof q;
}

/* The first message of the answer decides: a socket, or the end. */
static bool finds(int fd, uint8_t family, uint16_t port) {
  union {
    struct nlmsghdr header;
    char bytes[8192];
  } answer;
  if (!ask(fd, family, port)) return false;
  ssize_t n = recv(fd, &answer, sizeof answer, 0);
  return n >= (ssize_t)sizeof answer.header && answer.header.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

bool ab_os_tcp_holds_back(uint16_t port) {
  /* One socket per question, so that the rest of an answer goes with it. "::" has peers of both
   * families. */
  static const uint8_t families[] = {AF_INET, AF_INET6};
  bool found = false;
  for (size_t i = 0; i < AB_ARRAY_LEN(families) && !found; i++) {
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) return false;
    found = finds(fd, families[i], port);
    close(fd);
  }
  return found;
}
#else
bool ab_os_tcp_holds_back(uint16_t port AB_UNUSED) {
  return false;
}
#endif
