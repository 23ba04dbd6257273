/* What link.h promises, over TLS. Internal to link.c. */
#ifndef AB_ENGINE_LINK_TLS_H
#define AB_ENGINE_LINK_TLS_H

#include "engine/link.h"

/* The bytes of all pieces together. */
static inline size_t ab__link_room(const struct iovec *iov, int count) {
  size_t room = 0;
  for (int i = 0; i < count; i++) room += iov[i].iov_len;
  return room;
}

ssize_t ab__link_tls_receive(ab_link *link, const struct iovec *iov, int count, bool *drained);
ssize_t ab__link_tls_send(ab_link *link, const struct iovec *iov, int count);
ssize_t ab__link_tls_send_pieces(ab_link *link, const ab_link_piece *pieces, int count);
/* True when the peer has ended its side, as far as has been received. */
bool ab__link_tls_ended(const ab_link *link);
void ab__link_tls_shutdown(ab_link *link);
/* Before the socket is closed: says so, if `says` and it can be said, and frees what is kept. */
void ab__link_tls_fini(ab_link *link, bool says);

#endif
