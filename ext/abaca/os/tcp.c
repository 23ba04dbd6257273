#include "os/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define MOST_SECONDS 32767 /* of a probe's time */

static int set(int fd, int level, int option, uint32_t value) {
  int number = value < INT32_MAX ? (int)value : INT32_MAX;
  return setsockopt(fd, level, option, &number, sizeof number);
}

#ifdef AB_HAS_DEFER_ACCEPT
void ab_os_tcp_defer_accept(int fd, bool on) {
  set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, on);
}
#else
void ab_os_tcp_defer_accept(int fd AB_UNUSED, bool on AB_UNUSED) {}
#endif

#ifdef AB_HAS_UNSENT_LIMIT
void ab_os_tcp_keep_unsent_below(int fd, uint32_t bytes) {
  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
}
#else
void ab_os_tcp_keep_unsent_below(int fd, uint32_t bytes) {
  set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}
#endif

#ifdef AB_HAS_USER_TIMEOUT
void ab_os_tcp_give_up_after(int fd, uint32_t seconds) {
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds < INT32_MAX / 1000 ? seconds * 1000 : INT32_MAX);
}
#else
void ab_os_tcp_give_up_after(int fd AB_UNUSED, uint32_t seconds AB_UNUSED) {}
#endif

#ifdef AB_HAS_KEEPALIVE_TIMES
static void set_times(int fd, uint32_t idle, uint32_t interval) {
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle < MOST_SECONDS ? idle : MOST_SECONDS);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval < MOST_SECONDS ? interval : MOST_SECONDS);
}
#else
static void set_times(int fd AB_UNUSED, uint32_t idle AB_UNUSED, uint32_t interval AB_UNUSED) {}
#endif

void ab_os_tcp_probe(int fd, uint32_t idle, uint32_t interval) {
  if (idle > 0) set_times(fd, idle, interval);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, idle > 0);
}

#ifdef AB_HAS_SHARED_PORTS
int ab_os_tcp_share_port(int fd) {
  return set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
}
#else
int ab_os_tcp_share_port(int fd AB_UNUSED) {
  errno = ENOPROTOOPT;
  return -1;
}
#endif
