/* What a listener's TLS is: from options to contexts of OpenSSL's, one for each set of
 * certificates, alike in everything else. */
#ifdef AB_HAVE_TLS

#include "tls/context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "tls/internal.h"

/* Mozilla's intermediate recommendation, version 5.8, in our order: the least work first. */
#define CIPHERS                                                                                    \
  "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"                                     \
  "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"                                     \
  "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define CIPHERSUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS       "X25519:P-256:P-384"

const char *ab_tls_library(void) {
  return OpenSSL_version(OPENSSL_VERSION);
}

/* --- what is wrong --- */

void ab__tls_say(ab_tls_problem *problem, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(problem->text, sizeof problem->text, format, arguments);
  va_end(arguments);
}

const char *ab__tls_error(void) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return reason ? reason : "OpenSSL fails";
}

static int context_fail(ab_tls_problem *problem, const char *what) {
  ab__tls_say(problem, "%s: %s", what, ab__tls_error());
  return AB_EINVAL;
}

/* --- whom it asks for a certificate --- */

/* What clients' certificates are checked with. */
typedef struct authorities {
  X509_STORE *store;
  STACK_OF(X509_NAME) * names;
} authorities;

static int read_authorities(authorities *all, const ab_tls_options *options,
                            ab_tls_problem *problem) {
  STACK_OF(X509) *list = ab__tls_read_certificates(options->ca, options->ca_len);
  if (!list) {
    bool none = ERR_peek_error() == 0;
    ab__tls_say(problem, "ca: %s", none ? "there is no certificate in it (PEM)" : ab__tls_error());
    return AB_EINVAL;
  }
  bool ok = true;
  for (int i = 0; ok && i < sk_X509_num(list); i++) {
    X509 *one = sk_X509_value(list, i);
    X509_NAME *name = X509_NAME_dup(X509_get_subject_name(one));
    ok = name && X509_STORE_add_cert(all->store, one) == 1 &&
         sk_X509_NAME_push(all->names, name) > 0;
    if (!ok) X509_NAME_free(name);
  }
  sk_X509_pop_free(list, X509_free);
  return ok ? AB_OK : context_fail(problem, "ca");
}

static int read_revoked(authorities *all, const ab_tls_options *options, ab_tls_problem *problem) {
  BIO *bio = ab__tls_read_pem(options->crl, options->crl_len);
  size_t count = 0;
  bool ok = bio != NULL;
  while (ok) {
    X509_CRL *one = PEM_read_bio_X509_CRL(bio, NULL, ab__tls_tell_password, NULL);
    if (!one) break;
    ok = X509_STORE_add_crl(all->store, one) == 1;
    X509_CRL_free(one);
    count++;
  }
  BIO_free(bio);
  if (!ok || !ab__tls_pem_has_ended()) return context_fail(problem, "crl");
  if (count > 0) return AB_OK;
  ab__tls_say(problem, "crl: there is no list of revoked certificates in it (PEM)");
  return AB_EINVAL;
}

static void authorities_fini(authorities *all) {
  X509_STORE_free(all->store);
  sk_X509_NAME_pop_free(all->names, X509_NAME_free);
}

static int authorities_init(authorities *all, const ab_tls_options *options,
                            ab_tls_problem *problem) {
  *all = (authorities){0};
  if (options->verify == AB_TLS_VERIFY_NONE) return AB_OK;
  if (!options->ca) {
    ab__tls_say(problem, "to verify clients, it needs to know who issues their certificates (ca)");
    return AB_EINVAL;
  }
  ERR_clear_error();
  all->store = X509_STORE_new();
  all->names = sk_X509_NAME_new_null();
  if (!all->store || !all->names) return context_fail(problem, "ca");
  int error = read_authorities(all, options, problem);
  return error || !options->crl ? error : read_revoked(all, options, problem);
}

/* Takes nothing of `all`. */
static int verify_by(SSL_CTX *ctx, const authorities *all, const ab_tls_options *options,
                     ab_tls_problem *problem) {
  if (options->verify == AB_TLS_VERIFY_NONE) return AB_OK;
  bool forced = options->verify == AB_TLS_VERIFY_FORCE_PEER;
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (forced ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
  STACK_OF(X509_NAME) *names = SSL_dup_CA_list(all->names);
  if (!names) return context_fail(problem, "ca");
  SSL_CTX_set_client_CA_list(ctx, names);
  SSL_CTX_set1_cert_store(ctx, all->store);
  unsigned long flags =
      options->verification_flags | (options->crl ? (unsigned long)X509_V_FLAG_CRL_CHECK : 0);
  if (flags == 0 || X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), flags) == 1) return AB_OK;
  return context_fail(problem, "verification_flags");
}

/* --- one context of OpenSSL's --- */

static int set_versions(SSL_CTX *ctx, const ab_tls_options *options, ab_tls_problem *problem) {
  int least = options->min_version ? options->min_version : TLS1_2_VERSION;
  int most = options->max_version ? options->max_version : TLS1_3_VERSION;
  ERR_clear_error();
  if (least <= most && SSL_CTX_set_min_proto_version(ctx, least) == 1 &&
      SSL_CTX_set_max_proto_version(ctx, most) == 1) {
    return AB_OK;
  }
  ab__tls_say(problem, "there is no version of TLS from 0x%04x to 0x%04x", (unsigned)least,
              (unsigned)most);
  ERR_clear_error();
  return AB_EINVAL;
}

static int set_ciphers(SSL_CTX *ctx, const ab_tls_options *options, ab_tls_problem *problem) {
  ERR_clear_error();
  if (SSL_CTX_set_cipher_list(ctx, options->ciphers ? options->ciphers : CIPHERS) != 1) {
    return context_fail(problem, "ssl_cipher_filter"); /* as a configuration says it */
  }
  const char *suites = options->ciphersuites ? options->ciphersuites : CIPHERSUITES;
  if (SSL_CTX_set_ciphersuites(ctx, suites) != 1) return context_fail(problem, "ssl_ciphersuites");
  /* From 3.5 on the library's own choice begins with X25519MLKEM768, and is as good; before, it has
   * finite fields too. Without X25519 (FIPS) the library's choice stays. */
  if (OpenSSL_version_num() < 0x30500000L && SSL_CTX_set1_groups_list(ctx, GROUPS) != 1) {
    ERR_clear_error();
  }
  return AB_OK;
}

/* Ours, but for clients that begin with ChaCha20: they have no instructions for AES. */
static void set_order(SSL_CTX *ctx) {
  SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
}

static void set_manners(SSL_CTX *ctx) {
  set_order(ctx);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_IGNORE_UNEXPECTED_EOF);
#ifdef SSL_OP_NO_TX_CERTIFICATE_COMPRESSION /* CVE-2025-66199 */
  SSL_CTX_set_options(ctx,
                      SSL_OP_NO_TX_CERTIFICATE_COMPRESSION | SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
  SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_max_early_data(ctx, 0); /* it could be replayed */
  SSL_CTX_set_client_hello_cb(ctx, ab__tls_on_hello, NULL);
  SSL_CTX_set_alpn_select_cb(ctx, ab__tls_on_protocols, NULL);
  SSL_CTX_set_msg_callback(ctx, ab__tls_on_message);
}

static int add_identities(SSL_CTX *ctx, const ab_tls_context *context, const ab__tls_set *set,
                          ab_tls_problem *problem) {
  for (uint32_t i = 0; i < set->count; i++) {
    const ab__tls_identity *one = &context->identities[set->members[i]];
    ERR_clear_error();
    if (SSL_CTX_use_cert_and_key(ctx, one->certificate, one->key, one->chain, 1) != 1) {
      return context_fail(problem, one->facts.label);
    }
  }
  return AB_OK;
}

static int make_set(ab_tls_context *context, ab__tls_set *set, const authorities *all,
                    const ab_tls_options *options, ab_tls_problem *problem) {
  ERR_clear_error();
  SSL_CTX *ctx = set->ctx = SSL_CTX_new(TLS_server_method());
  if (!ctx) return context_fail(problem, "TLS");
  set_manners(ctx);
  int error = set_versions(ctx, options, problem);
  if (!error) error = set_ciphers(ctx, options, problem);
  if (!error) error = verify_by(ctx, all, options, problem);
  if (!error && !ab__tls_tickets_use(&context->tickets, ctx, options)) {
    error = context_fail(problem, "tickets");
  }
  return error ? error : add_identities(ctx, context, set, problem);
}

static int make_sets(ab_tls_context *context, const ab_tls_options *options,
                     ab_tls_problem *problem) {
  authorities all;
  int error = authorities_init(&all, options, problem);
  for (size_t i = 0; !error && i < context->names.set_count; i++) {
    error = make_set(context, &context->names.sets[i], &all, options, problem);
  }
  authorities_fini(&all);
  return error;
}

/* --- life --- */

static int read_identities(ab_tls_context *context, const ab_tls_options *options, int64_t now_unix,
                           ab_tls_problem *problem) {
  size_t size;
  if (options->identity_count == 0) {
    ab__tls_say(problem, "there is no certificate");
    return AB_EINVAL;
  }
  bool fits = options->identity_count < UINT32_MAX &&
              ab_mul_size(options->identity_count, sizeof(ab__tls_identity), &size);
  context->identities = fits ? ab_alloc_zero(&context->mem, size) : NULL;
  if (!context->identities) return AB_ENOMEM;
  for (size_t i = 0; i < options->identity_count; i++) {
    context->identity_count = i + 1;
    int error = ab__tls_identity_init(&context->identities[i], &context->mem,
                                      &options->identities[i], now_unix, problem);
    if (error) return error;
  }
  return AB_OK;
}

static void destroy(ab_tls_context *context) {
  const ab_mem mem = context->mem;
  ab__tls_names_fini(&context->names, &mem);
  for (size_t i = 0; i < context->identity_count; i++) {
    ab__tls_identity_fini(&context->identities[i], &mem);
  }
  ab_free(&mem, context->identities);
  BIO_meth_free(context->wire);
  OPENSSL_cleanse(&context->tickets, sizeof context->tickets);
  ab_free(&mem, context);
}

ab_tls_context *ab_tls_context_new(const ab_mem *mem, const ab_tls_options *options,
                                   int64_t now_unix, ab_tls_problem *problem) {
  ab__tls_say(problem, "no memory");
  ab_tls_context *context = ab_alloc_zero(mem, sizeof(*context));
  if (!context) return NULL;
  context->mem = *mem;
  context->http2 = options->http2;
  context->verify = options->verify;
  atomic_init(&context->holders, 1);
  ERR_clear_error();
  context->wire = ab__tls_wire_method();
  int error = context->wire ? AB_OK : AB_ENOMEM;
  if (!error) error = read_identities(context, options, now_unix, problem);
  if (!error) {
    error = ab__tls_names_init(&context->names, mem, context->identities, context->identity_count);
  }
  if (!error && !ab__tls_tickets_init(&context->tickets, options))
    error = context_fail(problem, "tickets");
  if (!error) error = make_sets(context, options, problem);
  ERR_clear_error();
  if (!error) {
    problem->text[0] = 0;
    return context;
  }
  destroy(context);
  return NULL;
}

ab_tls_context *ab_tls_context_hold(ab_tls_context *context) {
  if (context) atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
  return context;
}

void ab_tls_context_release(ab_tls_context *context) {
  if (context && atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) == 1) {
    destroy(context);
  }
}

/* --- what is known of it --- */

size_t ab_tls_context_certificates(const ab_tls_context *context) {
  return context->identity_count;
}

const ab_tls_certificate *ab_tls_context_certificate(const ab_tls_context *context, size_t index) {
  return index < context->identity_count ? &context->identities[index].facts : NULL;
}

enum ab_tls_verify ab_tls_context_verify(const ab_tls_context *context) {
  return context->verify;
}

bool ab_tls_context_has_name(const ab_tls_context *context, const char *name, size_t len) {
  return ab__tls_names_find(&context->names, name, len) != NULL;
}

#endif
