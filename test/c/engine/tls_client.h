/* Listeners that speak TLS, with certificates of the test's own, and OpenSSL as their client. */
#ifndef AB_TEST_ENGINE_TLS_CLIENT_H
#define AB_TEST_ENGINE_TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "engine/fixture.h"

/* --- certificates --- */

/* In PEM; made once for each list of names, "DNS:a.test,DNS:*.b.test", and kept. */
typedef struct tls_pair {
  const char *names;
  char chain[4096], key[1024];
} tls_pair;

static AB_UNUSED void tls_write(BIO *bio, char *text, size_t room) {
  int n = BIO_read(bio, text, (int)room - 1);
  text[n > 0 ? n : 0] = '\0';
  BIO_free(bio);
}

static AB_UNUSED void tls_make_pair(tls_pair *pair, const char *names) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
  X509_NAME *name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_set_pubkey(cert, key);
  X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
  X509_add_ext(cert, san, -1);
  X509_EXTENSION_free(san);
  X509_EXTENSION *ca = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "CA:TRUE");
  X509_add_ext(cert, ca, -1);
  X509_EXTENSION_free(ca);
  CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, cert);
  tls_write(bio, pair->chain, sizeof pair->chain);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
  tls_write(bio, pair->key, sizeof pair->key);
  X509_free(cert);
  EVP_PKEY_free(key);
  pair->names = names;
}

static AB_UNUSED const tls_pair *tls_pair_of(const char *names) {
  static tls_pair pairs[8];
  size_t i = 0;
  while (i < AB_ARRAY_LEN(pairs) - 1 && pairs[i].names && strcmp(pairs[i].names, names) != 0) i++;
  if (!pairs[i].names || strcmp(pairs[i].names, names) != 0) tls_make_pair(&pairs[i], names);
  return &pairs[i];
}

#define TLS_NAMES "DNS:a.test,DNS:*.w.test"

/* What a listener's connections have. The caller releases it. */
static AB_UNUSED ab_tls_context *tls_context_with(const char *names, enum ab_tls_verify verify) {
  const tls_pair *pair = tls_pair_of(names);
  const ab_tls_identity identity = {.chain = pair->chain,
                                    .chain_len = strlen(pair->chain),
                                    .key = pair->key,
                                    .key_len = strlen(pair->key),
                                    .label = "test"};
  const ab_tls_options options = {.identities = &identity,
                                  .identity_count = 1,
                                  .ca = pair->chain,
                                  .ca_len = strlen(pair->chain),
                                  .verify = verify,
                                  .http2 = true,
                                  .tickets = true,
                                  .name = "test"};
  ab_tls_problem problem = {""};
  ab_tls_context *context = ab_tls_context_new(&ab_mem_libc, &options, 0, &problem);
  if (!context) fprintf(stderr, "%s\n", problem.text);
  CHECK(context);
  return context;
}

/* A listener like `terms`, or a usual one, with TLS. 0 without memory. */
static AB_UNUSED uint16_t tls_listen_on(fixture *fx, const ab_listener_terms *terms) {
  ab_listener_terms with = terms ? *terms : (ab_listener_terms){.limits = NULL};
  ab_tls_context *context = with.tls ? with.tls : tls_context_with(TLS_NAMES, AB_TLS_VERIFY_NONE);
  with.tls = context;
  uint16_t port = fixture_listen_on(fx, &with);
  ab_tls_context_release(context);
  return port;
}

/* --- clients --- */

typedef struct tls_client {
  SSL_CTX *ctx;
  SSL *ssl;
  int fd;
  fixture *fx;
} tls_client;

#define TLS_H2   "\2h2\10http/1.1"
#define TLS_HTTP "\10http/1.1"

/* On a socket that is connected, with nothing said yet. `alpn` may be NULL. */
static AB_UNUSED tls_client tls_client_on(fixture *fx, int fd, int version, const char *alpn) {
  tls_client client = {.ctx = SSL_CTX_new(TLS_client_method()), .fd = fd, .fx = fx};
  SSL_CTX_set_min_proto_version(client.ctx, version);
  SSL_CTX_set_max_proto_version(client.ctx, version);
  SSL_CTX_set_mode(client.ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  client.ssl = SSL_new(client.ctx);
  if (alpn) SSL_set_alpn_protos(client.ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
  SSL_set_tlsext_host_name(client.ssl, "a.test");
  SSL_set_fd(client.ssl, fd);
  SSL_set_connect_state(client.ssl);
  return client;
}

/* Goes on with the handshake until it is done, or nothing happens any more. True: done. */
static AB_UNUSED bool tls_shake(tls_client *client) {
  for (unsigned i = 0; i < 20; i++) {
    ERR_clear_error();
    int result = SSL_do_handshake(client->ssl);
    fixture_run(client->fx);
    if (result == 1) return true;
    int error = SSL_get_error(client->ssl, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
  }
  return false;
}

static AB_UNUSED tls_client tls_connect(fixture *fx, uint16_t port) {
  tls_client client = tls_client_on(fx, client_tcp(port), TLS1_3_VERSION, NULL);
  CHECK(tls_shake(&client));
  return client;
}

static AB_UNUSED void tls_send(tls_client *client, const char *text) {
  ERR_clear_error();
  CHECK_INT(strlen(text), SSL_write(client->ssl, text, (int)strlen(text)));
  fixture_run(client->fx);
}

/* What has come, with a NUL behind it, in static memory. *end: whether close_notify was behind it;
 * -1: the stream ended without. */
static AB_UNUSED const char *tls_read(tls_client *client, int *end) {
  static char buf[1 << 16];
  size_t len = 0;
  int n = 0, error;
  do {
    ERR_clear_error();
    n = SSL_read(client->ssl, buf + len, (int)(sizeof buf - 1 - len));
    if (n > 0) len += (size_t)n;
  } while (n > 0 && len < sizeof buf - 1);
  buf[len] = '\0';
  error = n > 0 ? SSL_ERROR_WANT_READ : SSL_get_error(client->ssl, n);
  if (end) *end = error == SSL_ERROR_ZERO_RETURN ? 1 : error == SSL_ERROR_WANT_READ ? 0 : -1;
  return buf;
}

static AB_UNUSED const char *tls_ask(tls_client *client, const char *text, int *end) {
  tls_send(client, text);
  return tls_read(client, end);
}

static AB_UNUSED void tls_free(tls_client *client) {
  SSL_set_quiet_shutdown(client->ssl, 1);
  SSL_free(client->ssl);
  SSL_CTX_free(client->ctx);
  if (client->fd >= 0) close(client->fd);
  client->fd = -1;
  fixture_run(client->fx);
}

static AB_UNUSED void tls_end(tls_client *client, fixture *fx) {
  tls_free(client);
  fixture_fini(fx);
}

#endif
