/* TLS on one connection: bytes of the network to bytes of HTTP, and back. No descriptors, no clock
 * (time is an argument), no Ruby. One thread at a time; its owner's lock guards the questions too.
 *
 * Each call gets what has come from the network, and a place for what is to be sent there. Any call
 * may give something to send, also one that fails: its alert. Nothing is kept of either place. */
#ifndef AB_TLS_SESSION_H
#define AB_TLS_SESSION_H

#include <sys/types.h>

#include "base/mem.h"
#include "tls/context.h"

typedef struct ab_tls ab_tls;

/* The network, for the time of one call: borrowed. */
typedef struct ab_tls_wire {
  const char *in; /* what has come; the call moves it behind what it has taken */
  size_t in_len;
  char *out; /* where to put what is to be sent; the call adds behind out_len */
  size_t out_len, out_size;
} ab_tls_wire;

/* What ab_tls_write makes is at most this much longer than its content. */
#define AB_TLS_RECORD_EXTRA 4096
#define AB_TLS_RECORD_MAX   16384

/* The server's end; holds the context. NULL without memory. */
ab_tls *ab_tls_init(const ab_mem *mem, ab_tls_context *context);
/* Says nothing to the peer. NULL is allowed. */
void ab_tls_fini(ab_tls *tls);

/* Returned by ab_tls_handshake: the next step is the answer to a ClientHello, which signs, and it
 * may not. */
#define AB_TLS_SIGNS 1

/* Goes on with the handshake. AB_OK: done. AB_AGAIN: it needs more bytes, or room in `out`.
 * AB_TLS_SIGNS: it needs may_sign; without that no ClientHello is answered. AB_EPEER: it has
 * failed. now_unix: for tickets. */
int ab_tls_handshake(ab_tls *tls, ab_tls_wire *wire, bool may_sign,
                     int64_t now_unix) AB_WARN_UNUSED;
/* Bytes of HTTP, len > 0. Returns how many, at least one; 0 when the peer has ended its side;
 * AB_AGAIN when all of `in` is taken and more is needed; AB_EPEER. After the handshake. */
ssize_t ab_tls_read(ab_tls *tls, ab_tls_wire *wire, char *buf, size_t len) AB_WARN_UNUSED;
/* True if ab_tls_read may give bytes without any of `in`. */
bool ab_tls_has_bytes(const ab_tls *tls);
/* Makes one record of at most AB_TLS_RECORD_MAX bytes, len > 0, for which `out` has room: len +
 * AB_TLS_RECORD_EXTRA. AB_OK, or AB_EPEER. After the handshake. */
int ab_tls_write(ab_tls *tls, ab_tls_wire *wire, const char *ptr, size_t len) AB_WARN_UNUSED;
/* Ends our side: close_notify, once, unless the session has failed or the handshake is not done. */
void ab_tls_end(ab_tls *tls, ab_tls_wire *wire);

/* --- questions; after the handshake, unless something else is said --- */

bool ab_tls_is_done(const ab_tls *tls);        /* the handshake; at any time */
const char *ab_tls_version(const ab_tls *tls); /* "TLSv1.3" */
const char *ab_tls_cipher(const ab_tls *tls);  /* OpenSSL's name for it */
int ab_tls_cipher_bits(const ab_tls *tls);
/* The name that the client asked for, in lower case, NUL-terminated; ptr NULL: none. Any time. */
ab_view ab_tls_server_name(const ab_tls *tls);
/* Whether there is a certificate for that name; true without a name. */
bool ab_tls_knows_name(const ab_tls *tls);
/* ALPN chose HTTP/2; and what it chose, "h2", "http/1.1", or NULL. */
bool ab_tls_chose_http2(const ab_tls *tls);
const char *ab_tls_protocol(const ab_tls *tls);
bool ab_tls_is_resumed(const ab_tls *tls);
/* X509_V_*; 0 (X509_V_OK) also when no certificate was asked for, or none was given. */
long ab_tls_verify_result(const ab_tls *tls);
/* The peer's certificate as DER, and its subject as RFC 4514 writes it. Copies at most `room` bytes
 * and returns the whole length; 0: there is none. */
size_t ab_tls_peer_certificate(const ab_tls *tls, unsigned char *buf, size_t room);
size_t ab_tls_peer_subject(const ab_tls *tls, char *buf, size_t room);
/* The peer has ended its side as it should, by close_notify. Any time. */
bool ab_tls_peer_has_ended(const ab_tls *tls);
/* Why it has failed: a static text in OpenSSL's words, or NULL. Any time. */
const char *ab_tls_fault(const ab_tls *tls);

#endif
