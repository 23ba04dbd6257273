/* Links: what is received and when nothing is left, what leaves, how one ends. */
#include "engine/link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static void nobody_calls(ab_watch *watch AB_UNUSED, uint32_t events AB_UNUSED) {
  CHECK(!"the watch is not registered");
}

/* Returns the other end. */
static int open_link(ab_link *link) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) abort();
  ab_link_init(link, ends[0], nobody_calls);
  return ends[1];
}

CHECK_CASE(a_short_read_drains_a_plain_link) {
  ab_link link;
  int peer = open_link(&link);
  char one[4], two[4];
  struct iovec iov[] = {{one, 4}, {two, 4}};
  bool drained = false;
  CHECK_INT(AB_AGAIN, ab_link_receive(&link, iov, 1, &drained));
  CHECK(drained);
  CHECK_INT(10, write(peer, "0123456789", 10));
  CHECK_INT(8, ab_link_receive(&link, iov, 2, &drained));
  CHECK_BYTES("0123", one, 4);
  CHECK_BYTES("4567", two, 4);
  CHECK(!drained);
  CHECK_INT(2, ab_link_receive(&link, iov, 1, &drained));
  CHECK_BYTES("89", one, 2);
  CHECK(drained);
  close(peer);
  CHECK_INT(0, ab_link_receive(&link, iov, 1, &drained));
  CHECK(drained);
  ab_link_close(&link, false);
  CHECK(!ab_link_open(&link));
}

CHECK_CASE(bytes_and_files_leave) {
  ab_link link;
  int peer = open_link(&link), fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK_INT(6, write(fd, "a file", 6));
  struct iovec iov[] = {{"bytes, ", 7}, {"and ", 4}};
  CHECK_INT(11, ab_link_send(&link, iov, 2));
  CHECK_INT(4, ab_link_sendfile(&link, fd, 2, 4));
  char text[32];
  CHECK_INT(15, recv(peer, text, sizeof text, 0));
  CHECK_BYTES("bytes, and file", text, 15);
  ab_link_shutdown(&link);
  CHECK_INT(0, recv(peer, text, sizeof text, 0));
  close(fd);
  close(peer);
  CHECK_INT(AB_EPEER, ab_link_send(&link, iov, 2));
  ab_link_close(&link, false);
}

CHECK_CASE(a_full_one_says_so) {
  ab_link link;
  int peer = open_link(&link);
  static char plenty[1 << 20];
  struct iovec iov = {plenty, sizeof plenty};
  ssize_t n;
  while ((n = ab_link_send(&link, &iov, 1)) > 0) continue;
  CHECK_INT(AB_AGAIN, n);
  CHECK_INT(AB_HAS(UNSENT), ab_link_pending(&link) > 0);
  close(peer);
  ab_link_close(&link, true);
}

CHECK_CASE(the_peers_end_is_seen) {
  ab_link link;
  int peer = open_link(&link);
  CHECK(!ab_link_ended(&link, true));
  shutdown(peer, SHUT_WR);
  CHECK(ab_link_ended(&link, true));
  CHECK(!ab_link_ended(&link, false));
  close(peer);
  CHECK(ab_link_ended(&link, false));
  ab_link_close(&link, false);
}

CHECK_CASE(a_duplicate_outlives_the_link) {
  ab_link link;
  int peer = open_link(&link);
  int other = ab_link_duplicate(&link);
  CHECK(other >= 0 && other != link.watch.fd);
  ab_link_close(&link, false);
  CHECK(!ab_link_open(&link));
  CHECK_INT(-1, ab_link_duplicate(&link));
  CHECK_INT(1, write(other, "x", 1)); /* both are the socket */
  char byte;
  CHECK_INT(1, recv(peer, &byte, 1, 0));
  close(other);
  close(peer);
}

CHECK_MAIN()
