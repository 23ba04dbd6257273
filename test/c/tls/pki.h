/* Keys and certificates, made when a test runs. */
#ifndef AB_TEST_TLS_PKI_H
#define AB_TEST_TLS_PKI_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "check.h"
#include "tls/context.h"

#define PKI_NOW 1700000000 /* a time that the certificates are valid at */

/* A certificate with its key. */
typedef struct pki_pair {
  X509 *certificate;
  EVP_PKEY *key;
} pki_pair;

typedef struct pki_order {
  const char *subject;    /* its common name */
  const char *names;      /* "DNS:a.example, IP:192.0.2.1", or NULL */
  const char *kind;       /* "EC" (NULL), "RSA", "RSA1024", "ED25519" */
  const pki_pair *issuer; /* NULL: itself */
  bool authority;
  long before, after; /* days from PKI_NOW; 0, 0: far away */
  long serial;
} pki_order;

static AB_UNUSED EVP_PKEY *pki_key(const char *kind) {
  if (kind && strcmp(kind, "RSA") == 0) return EVP_RSA_gen(2048);
  if (kind && strcmp(kind, "RSA1024") == 0) return EVP_RSA_gen(1024);
  if (kind && strcmp(kind, "ED25519") == 0) return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  return EVP_EC_gen("P-256");
}

static AB_UNUSED void pki_extend(X509 *certificate, X509 *issuer, int nid, const char *value) {
  X509V3_CTX ctx;
  X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
  if (!extension || X509_add_ext(certificate, extension, -1) != 1) abort();
  X509_EXTENSION_free(extension);
}

static AB_UNUSED pki_pair pki_make(const pki_order *order) {
  pki_pair pair = {X509_new(), pki_key(order->kind)};
  X509 *x = pair.certificate, *issuer = order->issuer ? order->issuer->certificate : x;
  static long serial = 0x1000;
  bool dated = order->before != 0 || order->after != 0;
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), order->serial ? order->serial : ++serial);
  ASN1_TIME_set(X509_getm_notBefore(x), PKI_NOW + 86400 * (dated ? order->before : -365));
  ASN1_TIME_set(X509_getm_notAfter(x), PKI_NOW + 86400 * (dated ? order->after : 36500));
  X509_NAME *name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)order->subject, -1,
                             -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer));
  X509_set_pubkey(x, pair.key);
  if (order->names) pki_extend(x, issuer, NID_subject_alt_name, order->names);
  if (order->authority) pki_extend(x, issuer, NID_basic_constraints, "critical,CA:TRUE");
  if (order->authority) pki_extend(x, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
  EVP_PKEY *signer = order->issuer ? order->issuer->key : pair.key;
  bool digests = EVP_PKEY_get_base_id(signer) != EVP_PKEY_ED25519;
  if (X509_sign(x, signer, digests ? EVP_sha256() : NULL) == 0) abort();
  return pair;
}

static AB_UNUSED void pki_free(pki_pair *pair) {
  X509_free(pair->certificate);
  EVP_PKEY_free(pair->key);
}

/* --- as PEM; the caller frees the text --- */

static AB_UNUSED char *pki_text(BIO *bio) {
  char *ptr;
  long len = BIO_get_mem_data(bio, &ptr);
  char *text = malloc((size_t)len + 1);
  memcpy(text, ptr, (size_t)len);
  text[len] = 0;
  BIO_free(bio);
  return text;
}

static AB_UNUSED char *pki_chain_text(const pki_pair *one, const pki_pair *two) {
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, one->certificate);
  if (two) PEM_write_bio_X509(bio, two->certificate);
  return pki_text(bio);
}

static AB_UNUSED char *pki_key_text(const pki_pair *pair, const char *password) {
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, pair->key, password ? EVP_aes_256_cbc() : NULL, password,
                                password ? (int)strlen(password) : 0, NULL, NULL);
  return pki_text(bio);
}

/* A list with this one revoked. */
static AB_UNUSED char *pki_revoked_text(const pki_pair *authority, const pki_pair *revoked) {
  X509_CRL *crl = X509_CRL_new();
  ASN1_TIME *time = ASN1_TIME_set(NULL, PKI_NOW - 86400);
  X509_CRL_set_version(crl, 1);
  X509_CRL_set_issuer_name(crl, X509_get_subject_name(authority->certificate));
  X509_CRL_set1_lastUpdate(crl, time);
  ASN1_TIME_set(time, PKI_NOW + 86400L * 36500);
  X509_CRL_set1_nextUpdate(crl, time);
  if (revoked) {
    X509_REVOKED *entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->certificate));
    ASN1_TIME_set(time, PKI_NOW - 86400);
    X509_REVOKED_set_revocationDate(entry, time);
    X509_CRL_add0_revoked(crl, entry);
  }
  if (X509_CRL_sign(crl, authority->key, EVP_sha256()) == 0) abort();
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509_CRL(bio, crl);
  X509_CRL_free(crl);
  ASN1_TIME_free(time);
  return pki_text(bio);
}

/* --- identities --- */

/* An identity of an order, or of more than one; the texts are its own. */
typedef struct pki_identity {
  pki_pair pair;
  ab_tls_identity source;
} pki_identity;

static AB_UNUSED pki_identity pki_identity_of(const pki_order *order) {
  pki_identity identity = {.pair = pki_make(order)};
  char *chain = pki_chain_text(&identity.pair, order->issuer);
  char *key = pki_key_text(&identity.pair, NULL);
  identity.source = (ab_tls_identity){.chain = chain,
                                      .chain_len = strlen(chain),
                                      .key = key,
                                      .key_len = strlen(key),
                                      .label = order->subject};
  return identity;
}

static AB_UNUSED void pki_identity_free(pki_identity *identity) {
  free((char *)identity->source.chain);
  free((char *)identity->source.key);
  pki_free(&identity->pair);
}

#endif
