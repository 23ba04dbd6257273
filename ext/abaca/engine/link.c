#include "engine/link.h"

#include "engine/link_tls.h"

void ab_link_init(ab_link *link, int fd, void (*ready)(ab_watch *watch, uint32_t events)) {
  link->tls = NULL;
  link->watch = (ab_watch){.ready = ready, .fd = fd, .roams = true};
}

ssize_t ab_link_receive(ab_link *link, const struct iovec *iov, int count, bool *drained) {
  if (AB_UNLIKELY(link->tls != NULL)) return ab__link_tls_receive(link, iov, count, drained);
  int fd = link->watch.fd;
  ssize_t n = count == 1 ? ab_sock_recv(fd, iov->iov_base, iov->iov_len)
                         : ab_sock_recv_split(fd, iov, count);
  /* A short read has emptied the socket. */
  *drained = n <= 0 || (size_t)n < ab__link_room(iov, count);
  return n;
}

ssize_t ab_link_send(ab_link *link, const struct iovec *iov, int count) {
  if (AB_UNLIKELY(link->tls != NULL)) return ab__link_tls_send(link, iov, count);
  return ab_sock_send(link->watch.fd, iov, count);
}

ssize_t ab_link_sendfile(ab_link *link, int fd, uint64_t offset, size_t len) {
  if (AB_UNLIKELY(link->tls != NULL)) {
    return ab__link_tls_send_pieces(link, &(ab_link_piece){NULL, fd, offset, len}, 1);
  }
  return ab_sock_sendfile(link->watch.fd, fd, offset, len);
}

ssize_t ab_link_send_more(ab_link *link, const struct iovec *iov, int count) {
  if (AB_UNLIKELY(link->tls != NULL)) return ab__link_tls_send(link, iov, count);
  return ab_sock_send_more(link->watch.fd, iov, count);
}

ssize_t ab_link_send_pieces(ab_link *link, const ab_link_piece *pieces, int count) {
  return ab__link_tls_send_pieces(link, pieces, count);
}

uint64_t ab_link_pending(const ab_link *link) {
  return ab_link_open(link) ? ab_sock_queued(link->watch.fd) : 0;
}

bool ab_link_ended(const ab_link *link, bool half) {
  if (!ab_link_open(link)) return false;
  if (half && link->tls && ab__link_tls_ended(link)) return true;
  return ab_sock_ended(link->watch.fd, half);
}

void ab_link_shutdown(ab_link *link) {
  if (AB_UNLIKELY(link->tls != NULL)) {
    ab__link_tls_shutdown(link);
  } else {
    ab_sock_shutdown(link->watch.fd);
  }
}

void ab_link_close(ab_link *link, bool reset) {
  if (AB_UNLIKELY(link->tls != NULL)) ab__link_tls_fini(link, !reset);
  if (reset) {
    ab_sock_reset(link->watch.fd);
  } else {
    ab_fd_close(link->watch.fd);
  }
  link->watch.fd = -1;
}

int ab_link_duplicate(const ab_link *link) {
  int fd = ab_link_can_move(link) ? ab_fd_duplicate(link->watch.fd) : -1;
  return fd < 0 ? -1 : fd;
}
