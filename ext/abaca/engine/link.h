/* One socket's way in and out, by plain system calls. The rest of the engine knows no socket. */
#ifndef AB_ENGINE_LINK_H
#define AB_ENGINE_LINK_H

#include "io/poller.h"
#include "io/socket.h"

typedef struct ab_link {
  ab_watch watch; /* fd: -1 once it is closed */
} ab_link;

/* Takes the socket; `ready` is called with the watch. */
void ab_link_init(ab_link *link, int fd, void (*ready)(ab_watch *watch, uint32_t events));

static inline bool ab_link_open(const ab_link *link) {
  return link->watch.fd >= 0;
}

/* True if another process can continue with the socket: nothing of it is kept here. */
static inline bool ab_link_can_move(const ab_link *link) {
  return ab_link_open(link);
}

/* Fills the buffers in order. Returns bytes > 0; 0 at the end of the stream; AB_AGAIN, AB_EPEER or
 * AB_ENOMEM, as ab_sock_recv. *drained: nothing more is there before the poller says so, but
 * perhaps the end of the stream, of which the poller tells once. */
ssize_t ab_link_receive(ab_link *link, const struct iovec *iov, int count,
                        bool *drained) AB_WARN_UNUSED;
/* Return as ab_sock_send and ab_sock_sendfile. */
ssize_t ab_link_send(ab_link *link, const struct iovec *iov, int count) AB_WARN_UNUSED;
ssize_t ab_link_sendfile(ab_link *link, int fd, uint64_t offset, size_t len) AB_WARN_UNUSED;
/* Bytes that were sent and that the peer has not taken yet, as far as that can be told. */
uint64_t ab_link_pending(const ab_link *link);
/* True when the connection is broken or closed by the peer; with `half` also half-closed by it. */
bool ab_link_ended(const ab_link *link, bool half);
/* Ends our side. */
void ab_link_shutdown(ab_link *link);
/* Closes it, by a reset if the end must not look like one that was meant. */
void ab_link_close(ab_link *link, bool reset);
/* Another descriptor of the socket; -1 when there is none. */
int ab_link_duplicate(const ab_link *link);

#endif
