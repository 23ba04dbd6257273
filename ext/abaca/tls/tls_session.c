/* TLS on one connection: OpenSSL's SSL between two places in memory. Its queue of errors belongs to
 * the thread, and Ruby's openssl uses it too: it is emptied before each call, and left empty. */
#ifdef AB_HAVE_TLS

#include <limits.h>
#include <openssl/err.h>
#include <string.h>

#include "tls/internal.h"

ab_tls *ab__tls_of(const SSL *ssl) {
  return BIO_get_data(SSL_get_rbio(ssl));
}

/* --- life --- */

ab_tls *ab_tls_init(const ab_mem *mem, ab_tls_context *context) {
  ab_tls *tls = ab_alloc_zero(mem, sizeof(*tls));
  if (!tls) return NULL;
  ERR_clear_error();
  tls->mem = mem;
  tls->known = true;
  tls->ssl = SSL_new(context->names.sets[0].ctx);
  BIO *bio = tls->ssl ? BIO_new(context->wire) : NULL;
  if (!bio) {
    SSL_free(tls->ssl);
    ab_free(mem, tls);
    ERR_clear_error();
    return NULL;
  }
  BIO_set_data(bio, tls);
  SSL_set_bio(tls->ssl, bio, bio);
  SSL_set_accept_state(tls->ssl);
  tls->context = ab_tls_context_hold(context);
  return tls;
}

void ab_tls_fini(ab_tls *tls) {
  if (!tls) return;
  ERR_clear_error();
  SSL_free(tls->ssl);
  ERR_clear_error();
  ab_tls_context_release(tls->context);
  ab_tls_facts_release(tls->facts);
  ab_free(tls->mem, tls->name);
  ab_free(tls->mem, tls);
}

/* --- calls --- */

static bool begin(ab_tls *tls, ab_tls_wire *wire) {
  if (tls->failed) return false;
  tls->wire = wire;
  ERR_clear_error();
  return true;
}

static int end(ab_tls *tls, int result) {
  tls->wire = NULL;
  ERR_clear_error();
  return result;
}

/* Why it failed. The texts live as long as the library. */
static const char *reason(const ab_tls *tls) {
  unsigned long error = ERR_peek_error();
  if (ab__tls_is_excessive(tls)) return "too many messages without content";
  if (ERR_GET_LIB(error) == ERR_LIB_SSL &&
      ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl));
  }
  const char *text = ERR_reason_error_string(error);
  return text ? text : "the connection broke";
}

static int session_fail(ab_tls *tls) {
  tls->failed = true;
  tls->fault = reason(tls);
  return AB_EPEER;
}

/* What a call that did not succeed means; `result` is what it returned. */
static int outcome(ab_tls *tls, int result) {
  switch (SSL_get_error(tls->ssl, result)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    return AB_AGAIN;
  case SSL_ERROR_WANT_CLIENT_HELLO_CB:
    return AB_TLS_SIGNS;
  default: /* SSL_ERROR_SSL, SSL_ERROR_SYSCALL: neither writing nor a shutdown may follow */
    return session_fail(tls);
  }
}

int ab_tls_handshake(ab_tls *tls, ab_tls_wire *wire, bool may_sign, int64_t now_unix) {
  if (tls->done && !tls->failed) return AB_OK;
  if (!begin(tls, wire)) return AB_EPEER;
  tls->may_sign = may_sign;
  tls->now = now_unix;
  int result = SSL_do_handshake(tls->ssl);
  tls->done = result == 1;
  return end(tls, tls->done ? AB_OK : outcome(tls, result));
}

ssize_t ab_tls_read(ab_tls *tls, ab_tls_wire *wire, char *buf, size_t len) {
  if (tls->peer_ended) return 0;
  if (!tls->done || !begin(tls, wire)) return AB_EPEER;
  int result = SSL_read(tls->ssl, buf, len < INT_MAX ? (int)len : INT_MAX);
  if (result > 0) {
    tls->content += (uint64_t)result;
    return end(tls, result);
  }
  if (SSL_get_error(tls->ssl, result) == SSL_ERROR_ZERO_RETURN) {
    tls->peer_ended = true;
    return end(tls, 0);
  }
  return end(tls, outcome(tls, result));
}

bool ab_tls_has_bytes(const ab_tls *tls) {
  return !tls->failed && SSL_pending(tls->ssl) > 0;
}

/* A client may have asked for records that are shorter (RFC 6066 4): then it makes several. */
int ab_tls_write(ab_tls *tls, ab_tls_wire *wire, const char *ptr, size_t len) {
  if (!tls->done || tls->ended || !begin(tls, wire)) return AB_EPEER;
  for (size_t at = 0, part; at < len; at += part) {
    if (SSL_write_ex(tls->ssl, ptr + at, len - at, &part) != 1) return end(tls, session_fail(tls));
  }
  tls->content += len;
  return end(tls, AB_OK);
}

void ab_tls_end(ab_tls *tls, ab_tls_wire *wire) {
  if (!tls->done || tls->ended || !begin(tls, wire)) return;
  tls->ended = true;
  SSL_shutdown(tls->ssl); /* the peer's is not waited for */
  end(tls, AB_OK);
}

/* --- messages without content --- */

bool ab__tls_is_excessive(const ab_tls *tls) {
  return tls->excess > AB__TLS_EXCESS_MAX + tls->content / AB__TLS_EXCESS_PER;
}

void ab__tls_on_message(int sent, int version AB_UNUSED, int type, const void *ptr AB_UNUSED,
                        size_t len AB_UNUSED, SSL *ssl, void *unused AB_UNUSED) {
  if (sent || (type != SSL3_RT_HANDSHAKE && type != SSL3_RT_ALERT)) return;
  ab_tls *tls = ab__tls_of(ssl);
  if (tls->done && tls->excess < UINT32_MAX) tls->excess++;
}

#endif
