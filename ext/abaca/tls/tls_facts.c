/* What a session can be asked. */
#ifdef AB_HAVE_TLS

#include <openssl/err.h>
#include <string.h>

#include "tls/internal.h"

bool ab_tls_is_done(const ab_tls *tls) {
  return tls->done;
}

const char *ab_tls_version(const ab_tls *tls) {
  return SSL_get_version(tls->ssl);
}

const char *ab_tls_cipher(const ab_tls *tls) {
  return SSL_get_cipher_name(tls->ssl);
}

int ab_tls_cipher_bits(const ab_tls *tls) {
  return SSL_get_cipher_bits(tls->ssl, NULL);
}

ab_view ab_tls_server_name(const ab_tls *tls) {
  return (ab_view){tls->name, tls->name_len};
}

bool ab_tls_knows_name(const ab_tls *tls) {
  return tls->known;
}

const char *ab_tls_protocol(const ab_tls *tls) {
  const unsigned char *ptr = NULL;
  unsigned len = 0;
  SSL_get0_alpn_selected(tls->ssl, &ptr, &len);
  if (!ptr) return NULL;
  return len == 2 ? "h2" : "http/1.1"; /* nothing else is chosen */
}

bool ab_tls_chose_http2(const ab_tls *tls) {
  const char *name = ab_tls_protocol(tls);
  return name && strcmp(name, "h2") == 0;
}

bool ab_tls_is_resumed(const ab_tls *tls) {
  return SSL_session_reused(tls->ssl) == 1;
}

long ab_tls_verify_result(const ab_tls *tls) {
  return SSL_get_verify_result(tls->ssl);
}

size_t ab_tls_peer_certificate(const ab_tls *tls, unsigned char *buf, size_t room) {
  X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
  unsigned char *der = NULL;
  int len = certificate ? i2d_X509(certificate, &der) : 0;
  if (len > 0 && room > 0) memcpy(buf, der, (size_t)len < room ? (size_t)len : room);
  OPENSSL_free(der);
  ERR_clear_error();
  return len > 0 ? (size_t)len : 0;
}

size_t ab_tls_peer_subject(const ab_tls *tls, char *buf, size_t room) {
  X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
  BIO *bio = certificate ? BIO_new(BIO_s_mem()) : NULL;
  size_t len = 0;
  if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
    char *text;
    long size = BIO_get_mem_data(bio, &text);
    len = size > 0 ? (size_t)size : 0;
    if (len > 0 && room > 0) memcpy(buf, text, len < room ? len : room);
  }
  BIO_free(bio);
  ERR_clear_error();
  return len;
}

bool ab_tls_peer_has_ended(const ab_tls *tls) {
  return tls->peer_ended;
}

const char *ab_tls_fault(const ab_tls *tls) {
  return tls->fault;
}

#endif
