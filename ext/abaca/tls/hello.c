/* What the client asks for: a name (RFC 6066 3), which decides the certificate, and a protocol (RFC
 * 7301). */
#ifdef AB_HAVE_TLS

#include <string.h>

#include "base/bits.h"
#include "tls/internal.h"

/* --- the name --- */

/* The host name of the extension; ptr NULL if there is none, or if it is malformed: OpenSSL, which
 * looks at it afterwards, ends that handshake. */
static ab_view host_name(SSL *ssl) {
  const unsigned char *ptr;
  size_t len;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ptr, &len) != 1 || len < 5) {
    return (ab_view){NULL, 0};
  }
  size_t list = (size_t)(ptr[0] << 8 | ptr[1]), name = (size_t)(ptr[3] << 8 | ptr[4]);
  bool formed = list == len - 2 && ptr[2] == TLSEXT_NAMETYPE_host_name && name <= len - 5;
  return formed ? (ab_view){(const char *)ptr + 5, name} : (ab_view){NULL, 0};
}

/* No host has another: it would stand in logs, and in what an application compares. */
static bool is_decent(ab_view name) {
  if (name.len == 0 || name.len > TLSEXT_MAXLEN_host_name) return false;
  for (size_t i = 0; i < name.len; i++) {
    if (name.ptr[i] <= ' ' || name.ptr[i] >= 0x7f) return false;
  }
  return true;
}

static bool keep_name(ab_tls *tls, ab_view name) {
  char *copy = ab__tls_copy_text(tls->mem, name.ptr, name.len, true);
  if (!copy) return false;
  ab_free(tls->mem, tls->name); /* after HelloRetryRequest it comes again */
  tls->name = copy;
  tls->name_len = name.len;
  return true;
}

int ab__tls_on_hello(SSL *ssl, int *alert, void *unused AB_UNUSED) {
  ab_tls *tls = ab__tls_of(ssl);
  if (!tls->may_sign) return SSL_CLIENT_HELLO_RETRY;
  ab_view name = host_name(ssl);
  if (!name.ptr) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_UNRECOGNIZED_NAME;
  if (!is_decent(name)) return SSL_CLIENT_HELLO_ERROR;
  *alert = SSL_AD_INTERNAL_ERROR;
  if (!keep_name(tls, name)) return SSL_CLIENT_HELLO_ERROR;
  size_t len = tls->name_len;
  if (len > 1 && tls->name[len - 1] == '.') len--;
  /* All sets have the same rules, so that nothing else has to change. */
  const ab__tls_set *set = ab__tls_names_find(&tls->context->names, tls->name, len);
  tls->known = set != NULL;
  if (!set) set = tls->context->names.sets;
  return SSL_set_SSL_CTX(ssl, set->ctx) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
}

/* --- the protocol --- */

/* In the client's list (RFC 7301 3.1), which is checked here again: a list that was empty has been
 * read beyond (CVE-2024-5535). NULL: it is not there. */
static const unsigned char *hello_find(const unsigned char *list, size_t len, const char *name,
                                       size_t name_len) {
  for (size_t at = 0; at < len; at += 1 + (size_t)list[at]) {
    if (list[at] > len - at - 1) return NULL;
    if (list[at] == name_len && memcmp(list + at + 1, name, name_len) == 0) return list + at;
  }
  return NULL;
}

/* HTTP/2 over TLS 1.2 demands more of the cipher than TLS does (RFC 9113 9.2.2). */
static bool has_cipher_for_http2(SSL *ssl) {
  const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
  if (SSL_version(ssl) >= TLS1_3_VERSION) return true;
  return SSL_version(ssl) == TLS1_2_VERSION && cipher && SSL_CIPHER_is_aead(cipher) &&
         (SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe ||
          SSL_CIPHER_get_kx_nid(cipher) == NID_kx_dhe);
}

int ab__tls_on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                         const unsigned char *list, unsigned len, void *unused AB_UNUSED) {
  const unsigned char *found = NULL;
  if (ab__tls_of(ssl)->context->http2 && has_cipher_for_http2(ssl)) {
    found = hello_find(list, len, "h2", 2);
  }
  if (!found) found = hello_find(list, len, "http/1.1", 8);
  if (!found) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found + 1;
  *chosen_len = found[0];
  return SSL_TLSEXT_ERR_OK;
}

#endif
