/* Tickets: what lets clients resume. Their keys follow from a secret and the time, so that
 * processes that share the secret agree without a message: each key makes tickets for half a day,
 * and takes them for half a day more, or from a clock that is ahead.
 *
 * The keys are bound to the listener's name and to how it verifies clients: no ticket gets past a
 * demand for a certificate that did not hold where the ticket comes from (CVE-2025-23419), and none
 * outlives a change of the authorities or of their lists of revoked certificates. */
#ifdef AB_HAVE_TLS

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <string.h>

#include "tls/internal.h"

#define KEY_NAME 16 /* OpenSSL's: our tag, then the number of the period */

static bool hash(const void *key, int key_len, const void *ptr, size_t len, unsigned char *out) {
  unsigned out_len = 0;
  return HMAC(EVP_sha256(), key, key_len, ptr, len, out, &out_len) && out_len == 32;
}

/* base = HMAC(base, text): what differs in anything fed so differs in the end. */
static bool feed(unsigned char *base, const void *ptr, size_t len) {
  unsigned char next[32];
  if (!hash(base, 32, ptr ? ptr : "", ptr ? len : 0, next)) return false;
  memcpy(base, next, 32);
  return true;
}

bool ab__tls_tickets_init(ab__tls_tickets *tickets, const ab_tls_options *options) {
  const char *name = options->name ? options->name : "";
  uint64_t rules[] = {options->verify, options->verification_flags};
  bool verifies = options->verify != AB_TLS_VERIFY_NONE;
  unsigned char *base = tickets->base, text[32];
  bool ok = hash(options->ticket_secret, 32, "abaca tickets 1", 15, base) &&
            feed(base, name, strlen(name)) && feed(base, rules, sizeof rules) &&
            (!verifies || (feed(base, options->ca, options->ca_len) &&
                           feed(base, options->crl, options->crl_len)));
  if (!ok || !hash(base, 32, "name", 4, text)) return false;
  memcpy(tickets->tag, text, sizeof tickets->tag);
  return hash(base, 32, "id", 2, tickets->id);
}

/* --- the keys of a period --- */

typedef struct ticket_keys {
  unsigned char cipher[32], mac[32];
} ticket_keys;

static void write_period(unsigned char *out, uint64_t period) {
  for (int i = 7; i >= 0; i--, period >>= 8) out[i] = (unsigned char)period;
}

static uint64_t read_period(const unsigned char *in) {
  uint64_t period = 0;
  for (int i = 0; i < 8; i++) period = period << 8 | in[i];
  return period;
}

static bool derive(const ab__tls_tickets *tickets, uint64_t period, ticket_keys *keys) {
  unsigned char text[9] = "e";
  write_period(text + 1, period);
  if (!hash(tickets->base, 32, text, sizeof text, keys->cipher)) return false;
  text[0] = 'm';
  return hash(tickets->base, 32, text, sizeof text, keys->mac);
}

static bool use_keys(const ticket_keys *keys, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts) {
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)keys->mac, sizeof keys->mac),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
      OSSL_PARAM_construct_end()};
  return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, keys->cipher, iv, encrypts) == 1 &&
         EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* For OpenSSL: 1: go on; 2: go on, and give a new ticket; 0: without a ticket; -1: an error. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts) {
  const ab_tls *tls = ab__tls_of(ssl);
  const ab__tls_tickets *tickets = &tls->context->tickets;
  uint64_t now = (uint64_t)tls->now / AB__TLS_TICKET_PERIOD, period = now;
  if (encrypts) {
    if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1) return -1;
    memcpy(name, tickets->tag, sizeof tickets->tag);
    write_period(name + sizeof tickets->tag, period);
  } else {
    if (memcmp(name, tickets->tag, sizeof tickets->tag) != 0) return 0;
    period = read_period(name + sizeof tickets->tag);
    if (period + 1 < now || period > now + 1) return 0;
  }
  ticket_keys keys;
  bool ok = derive(tickets, period, &keys) && use_keys(&keys, iv, cipher, mac, encrypts);
  OPENSSL_cleanse(&keys, sizeof keys);
  if (!ok) return -1;
  return period < now ? 2 : 1;
}

/* --- sessions of clients with certificates --- */

/* A certificate that has expired since lets nobody in. */
static SSL_TICKET_RETURN on_resume(SSL *ssl, SSL_SESSION *session,
                                   const unsigned char *name AB_UNUSED, size_t len AB_UNUSED,
                                   SSL_TICKET_STATUS status, void *unused AB_UNUSED) {
  bool renews = status == SSL_TICKET_SUCCESS_RENEW;
  if (status != SSL_TICKET_SUCCESS && !renews) return SSL_TICKET_RETURN_IGNORE_RENEW;
  X509 *peer = SSL_SESSION_get0_peer(session);
  time_t now = (time_t)ab__tls_of(ssl)->now;
  if (peer && X509_cmp_time(X509_get0_notAfter(peer), &now) <= 0) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  return renews ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

bool ab__tls_tickets_use(const ab__tls_tickets *tickets, SSL_CTX *ctx,
                         const ab_tls_options *options) {
  /* Forked processes share no cache, and one that nobody empties grows (CVE-2024-2511). */
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_session_id_context(ctx, tickets->id, sizeof tickets->id) != 1) return false;
  if (!options->tickets) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    return SSL_CTX_set_num_tickets(ctx, 0) == 1;
  }
  SSL_CTX_set_timeout(ctx, AB__TLS_TICKET_PERIOD);
  bool verifies = options->verify != AB_TLS_VERIFY_NONE;
  return SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
         SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1 &&
         (!verifies || SSL_CTX_set_session_ticket_cb(ctx, NULL, on_resume, NULL) == 1);
}

#endif
