/* One socket's way in and out: by plain system calls, or through TLS. The rest of the engine knows
 * no socket. */
#ifndef AB_ENGINE_LINK_H
#define AB_ENGINE_LINK_H

#include "engine/link_scratch.h"
#include "io/poller.h"
#include "io/socket.h"
#include "tls/session.h"

typedef struct ab_link_tls ab_link_tls;

/* Bytes of memory, or of a file. */
typedef struct ab_link_piece {
  const char *ptr; /* NULL: of the file */
  int fd;
  uint64_t offset;
  size_t len; /* at least 1 */
} ab_link_piece;

typedef struct ab_link {
  ab_watch watch;   /* fd: -1 once it is closed */
  ab_link_tls *tls; /* NULL: plain */
} ab_link;

/* Takes the socket; `ready` is called with the watch. */
void ab_link_init(ab_link *link, int fd, void (*ready)(ab_watch *watch, uint32_t events));

static inline bool ab_link_open(const ab_link *link) {
  return link->watch.fd >= 0;
}

static inline bool ab_link_is_tls(const ab_link *link) {
  return link->tls != NULL;
}

/* True if another process can continue with the socket: nothing of it is kept here. */
static inline bool ab_link_can_move(const ab_link *link) {
  return ab_link_open(link) && !ab_link_is_tls(link);
}

/* Fills the buffers in order. Returns bytes > 0; 0 at the end of the stream; AB_AGAIN, AB_EPEER or
 * AB_ENOMEM, as ab_sock_recv. *drained: nothing more is there before the poller says so, but
 * perhaps the end of the stream, of which the poller tells once. */
ssize_t ab_link_receive(ab_link *link, const struct iovec *iov, int count,
                        bool *drained) AB_WARN_UNUSED;
/* Return as ab_sock_send and ab_sock_sendfile. Over TLS, bytes that were not reported as sent may
 * be encrypted already: the next call must begin with them again, whether it is for memory or for
 * a file; ab_link_is_amid says so. */
ssize_t ab_link_send(ab_link *link, const struct iovec *iov, int count) AB_WARN_UNUSED;
ssize_t ab_link_sendfile(ab_link *link, int fd, uint64_t offset, size_t len) AB_WARN_UNUSED;
/* As ab_link_send, of bytes that are followed at once by a file's. */
ssize_t ab_link_send_more(ab_link *link, const struct iovec *iov, int count) AB_WARN_UNUSED;
/* Over TLS only: memory and files in order, so that they share records. At least one piece. Returns
 * as ab_link_sendfile, which is told of the first piece's file. */
ssize_t ab_link_send_pieces(ab_link *link, const ab_link_piece *pieces, int count) AB_WARN_UNUSED;
/* Bytes that were sent and that the peer has not taken yet, as far as that can be told. */
uint64_t ab_link_pending(const ab_link *link);
/* True when the connection is broken or closed by the peer; with `half` also half-closed by it. */
bool ab_link_ended(const ab_link *link, bool half);
/* Ends our side. */
void ab_link_shutdown(ab_link *link);
/* Closes it, by a reset if the end must not look like one that was meant. */
void ab_link_close(ab_link *link, bool reset);
/* Another descriptor of the socket; -1 when there is none, as over TLS. */
int ab_link_duplicate(const ab_link *link);

/* --- TLS --- */

/* TLS begins. Copies `len` bytes that were received already, behind a PROXY header. Borrows the
 * scratch memory, holds the context. AB_OK, or AB_ENOMEM: then it is plain as before. */
int ab_link_begin_tls(ab_link *link, ab_link_scratch *scratch, ab_tls_context *context,
                      const char *ptr, size_t len) AB_WARN_UNUSED;

/* Of ab_link_handshake, beside enum ab_err. */
enum { AB_LINK_SIGNS = AB_TLS_SIGNS, AB_LINK_CLEAR = 2 };

/* Goes on with the handshake. AB_OK: done, and perhaps bytes of HTTP have come: receive. AB_AGAIN:
 * the peer's bytes are needed, or, while ab_link_owes, room in the socket. AB_LINK_SIGNS: the next
 * step would sign, and may_sign is false; call again in another step. AB_LINK_CLEAR: what the peer
 * has sent is not TLS, from its first byte on. AB_EPEER: it has failed, or the peer has gone. */
int ab_link_handshake(ab_link *link, bool may_sign) AB_WARN_UNUSED;
/* After AB_LINK_CLEAR: what was read; valid until ab_link_drop_tls or ab_link_close. */
ab_view ab_link_clear_bytes(const ab_link *link);
/* After AB_LINK_CLEAR: the link is plain from here on. */
void ab_link_drop_tls(ab_link *link);
/* Something of TLS's own, or encrypted bytes, wait for room in the socket: the next call sends them
 * first. What is not a caller's is little, and can wait for that, but within a handshake and after
 * ab_link_shutdown. false for a plain link. */
bool ab_link_owes(const ab_link *link);
/* Bytes were encrypted that were not reported as sent. They cannot be taken back: a caller that
 * cannot send them again must close the link. false for a plain link. */
bool ab_link_is_amid(const ab_link *link);
/* The session, for its questions; NULL for a plain link. */
const ab_tls *ab_link_session(const ab_link *link);
/* ALPN chose HTTP/2. */
static inline bool ab_link_chose_http2(const ab_link *link) {
  return ab_link_is_tls(link) && ab_tls_chose_http2(ab_link_session(link));
}

#endif
