/* A certificate with its chain and its key: from PEM, checked, and what is told of it. */
#ifdef AB_HAVE_TLS

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "os/bytes.h"
#include "os/time.h"
#include "tls/internal.h"

/* --- reading --- */

BIO *ab__tls_read_pem(const char *pem, size_t len) {
  return pem && len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
}

int ab__tls_tell_password(char *buf, int size, int writes AB_UNUSED, void *password) {
  size_t len = password ? strlen(password) : 0;
  if (!password || len > (size_t)size) return -1;
  memcpy(buf, password, len);
  return (int)len;
}

bool ab__tls_pem_has_ended(void) {
  unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
    return false;
  ERR_clear_error();
  return true;
}

STACK_OF(X509) * ab__tls_read_certificates(const char *pem, size_t len) {
  ERR_clear_error();
  STACK_OF(X509) *list = sk_X509_new_null();
  BIO *bio = ab__tls_read_pem(pem, len);
  X509 *one = NULL;
  while (list && bio && (one = PEM_read_bio_X509(bio, NULL, ab__tls_tell_password, NULL)) != NULL) {
    if (sk_X509_push(list, one) <= 0) break;
    one = NULL;
  }
  bool whole = list && bio && !one && ab__tls_pem_has_ended() && sk_X509_num(list) > 0;
  X509_free(one);
  BIO_free(bio);
  if (whole) return list;
  sk_X509_pop_free(list, X509_free);
  return NULL;
}

static int read_chain(ab__tls_identity *identity, const ab_tls_identity *source,
                      ab_tls_problem *problem) {
  identity->chain = ab__tls_read_certificates(source->chain, source->chain_len);
  if (!identity->chain) {
    bool none = ERR_peek_error() == 0;
    ab__tls_say(problem, "%s: %s", source->label,
                none ? "there is no certificate in it (PEM)" : ab__tls_error());
    return AB_EINVAL;
  }
  identity->certificate = sk_X509_shift(identity->chain);
  return AB_OK;
}

static bool contains(const ab_tls_identity *source, const char *text) {
  return ab_os_find(source->key, source->key_len, text, strlen(text)) != NULL;
}

/* OpenSSL's errors do not tell these cases apart: it tries one format after the other. */
static void say_key_fails(const ab_tls_identity *source, ab_tls_problem *problem) {
  const char *label = source->label;
  if (source->key_len == 0 || !contains(source, "PRIVATE KEY-----")) {
    ab__tls_say(problem, "%s: there is no private key for it (PEM)", label);
  } else if (contains(source, "ENCRYPTED") && source->password) {
    ab__tls_say(problem, "%s: its key cannot be decrypted with the password", label);
  } else if (contains(source, "ENCRYPTED")) {
    ab__tls_say(problem, "%s: its key is encrypted, and no password is given", label);
  } else {
    ab__tls_say(problem, "%s: its key cannot be read: %s", label, ab__tls_error());
  }
  ERR_clear_error();
}

static int read_key(ab__tls_identity *identity, const ab_tls_identity *source,
                    ab_tls_problem *problem) {
  ERR_clear_error();
  BIO *bio = ab__tls_read_pem(source->key, source->key_len);
  if (bio) {
    identity->key =
        PEM_read_bio_PrivateKey(bio, NULL, ab__tls_tell_password, (void *)source->password);
  }
  BIO_free(bio);
  if (identity->key) return AB_OK;
  say_key_fails(source, problem);
  return AB_EINVAL;
}

/* --- checking --- */

static int check_pair(const ab__tls_identity *identity, const char *label,
                      ab_tls_problem *problem) {
  ERR_clear_error();
  bool pair = X509_check_private_key(identity->certificate, identity->key) == 1;
  ERR_clear_error();
  if (pair) return AB_OK;
  ab__tls_say(problem, "%s: the key is another certificate's", label);
  return AB_EINVAL;
}

static bool issued(X509 *issuer, X509 *subject) {
  bool ok = X509_check_issued(issuer, subject) == X509_V_OK &&
            X509_verify(subject, X509_get0_pubkey(issuer)) == 1;
  ERR_clear_error();
  return ok;
}

/* Each has issued one before it: a client finds its way whatever the order beyond that. */
static int check_chain(const ab__tls_identity *identity, const char *label,
                       ab_tls_problem *problem) {
  for (int i = 0; i < sk_X509_num(identity->chain); i++) {
    X509 *issuer = sk_X509_value(identity->chain, i);
    bool used = issued(issuer, identity->certificate);
    for (int k = 0; !used && k < i; k++) used = issued(issuer, sk_X509_value(identity->chain, k));
    if (used) continue;
    ab__tls_say(problem, "%s: certificate %d of the chain has issued none before it", label, i + 2);
    return AB_EINVAL;
  }
  return AB_OK;
}

static bool unix_time(const ASN1_TIME *time, int64_t *seconds) {
  struct tm tm;
  if (ASN1_TIME_to_tm(time, &tm) != 1) return false;
  *seconds = ab_os_unix_time(&tm);
  return true;
}

static void date_text(int64_t seconds, char *text, size_t size) {
  time_t time = (time_t)seconds;
  struct tm tm;
  if (!gmtime_r(&time, &tm) || strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) *text = 0;
}

static int check_dates(const ab_tls_certificate *facts, int64_t now, const char *label,
                       ab_tls_problem *problem) {
  char date[64];
  if (now == 0 || (facts->not_before <= now && now <= facts->not_after)) return AB_OK;
  bool early = now < facts->not_before;
  date_text(early ? facts->not_before : facts->not_after, date, sizeof date);
  ab__tls_say(problem, "%s: the certificate %s %s", label,
              early ? "is not valid before" : "has expired at", date);
  return AB_EINVAL;
}

/* --- what is told of it --- */

char *ab__tls_copy_text(const ab_mem *mem, const char *ptr, size_t len, bool lower) {
  size_t size;
  char *copy = ab_add_size(len, 1, &size) ? ab_alloc(mem, size) : NULL;
  if (!copy) return NULL;
  for (size_t i = 0; i < len; i++) {
    bool upper = lower && ptr[i] >= 'A' && ptr[i] <= 'Z';
    copy[i] = upper ? (char)(ptr[i] | 0x20) : ptr[i];
  }
  copy[len] = 0;
  return copy;
}

static const char *subject_text(const ab_mem *mem, X509 *certificate) {
  BIO *bio = BIO_new(BIO_s_mem());
  char *text = NULL, *ptr;
  if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
    long len = BIO_get_mem_data(bio, &ptr);
    text = ab__tls_copy_text(mem, ptr, len > 0 ? (size_t)len : 0, false);
  }
  BIO_free(bio);
  return text;
}

static const char *serial_text(const ab_mem *mem, X509 *certificate) {
  BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
  char *hex = number ? BN_bn2hex(number) : NULL;
  char *text = hex ? ab__tls_copy_text(mem, hex, strlen(hex), true) : NULL;
  OPENSSL_free(hex);
  BN_free(number);
  return text;
}

static const char *key_text(const ab_mem *mem, const EVP_PKEY *key) {
  char text[64];
  const char *kind = EVP_PKEY_get0_type_name(key);
  if (!kind) kind = "key";
  if (strcmp(kind, "EC") == 0) kind = "ECDSA";
  int len = strncmp(kind, "ED", 2) == 0
                ? snprintf(text, sizeof text, "%s", kind)
                : snprintf(text, sizeof text, "%s %d", kind, EVP_PKEY_get_bits(key));
  return ab__tls_copy_text(mem, text, len < (int)sizeof text ? (size_t)len : sizeof text - 1,
                           false);
}

/* --- names --- */

/* The text of a name that a certificate is for; len 0: none of use. */
static size_t name_text(const GENERAL_NAME *name, char *text, size_t size) {
  const ASN1_STRING *string = name->d.ia5; /* of both kinds that are used here */
  const unsigned char *ptr =
      name->type == GEN_DNS || name->type == GEN_IPADD ? ASN1_STRING_get0_data(string) : NULL;
  int len = ptr ? ASN1_STRING_length(string) : 0;
  if (len <= 0) return 0;
  if (name->type == GEN_IPADD) {
    int family = len == 4 ? AF_INET : AF_INET6;
    if ((len != 4 && len != 16) || !inet_ntop(family, ptr, text, (socklen_t)size)) return 0;
    return strlen(text);
  }
  if ((size_t)len >= size || memchr(ptr, 0, (size_t)len)) return 0;
  memcpy(text, ptr, (size_t)len);
  return (size_t)len;
}

static int add_name(ab_tls_certificate *facts, const ab_mem *mem, const char *text, size_t len) {
  if (len == 0) return AB_OK;
  char *name = ab__tls_copy_text(mem, text, len, true);
  if (!name) return AB_ENOMEM;
  ((const char **)facts->names)[facts->name_count++] = name;
  return AB_OK;
}

/* The common name, where nothing else names a host. */
static int add_common_name(ab_tls_certificate *facts, const ab_mem *mem, X509 *certificate) {
  char text[256];
  int len = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, text,
                                      sizeof text);
  if (len <= 0 || memchr(text, 0, (size_t)len) || memchr(text, ' ', (size_t)len)) return AB_OK;
  return add_name(facts, mem, text, (size_t)len);
}

static int read_names(ab_tls_certificate *facts, const ab_mem *mem, X509 *certificate) {
  GENERAL_NAMES *list = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  int count = list ? sk_GENERAL_NAME_num(list) : 0, error = AB_OK;
  size_t size;
  bool fits = ab_mul_size((size_t)count + 1, sizeof(char *), &size);
  facts->names = fits ? ab_alloc(mem, size) : NULL;
  if (!facts->names) error = AB_ENOMEM;
  for (int i = 0; !error && i < count; i++) {
    char text[256];
    size_t len = name_text(sk_GENERAL_NAME_value(list, i), text, sizeof text);
    error = add_name(facts, mem, text, len);
  }
  GENERAL_NAMES_free(list);
  ERR_clear_error();
  if (!error && facts->name_count == 0) error = add_common_name(facts, mem, certificate);
  return error;
}

static int tell(ab__tls_identity *identity, const ab_mem *mem, const ab_tls_identity *source,
                ab_tls_problem *problem) {
  ab_tls_certificate *facts = &identity->facts;
  X509 *certificate = identity->certificate;
  facts->label = ab__tls_copy_text(mem, source->label, strlen(source->label), false);
  facts->subject = subject_text(mem, certificate);
  facts->serial = serial_text(mem, certificate);
  facts->key = key_text(mem, identity->key);
  ERR_clear_error();
  if (!facts->label || !facts->subject || !facts->serial || !facts->key ||
      read_names(facts, mem, certificate) != AB_OK) {
    ab__tls_say(problem, "%s: no memory", source->label);
    return AB_ENOMEM;
  }
  if (unix_time(X509_get0_notBefore(certificate), &facts->not_before) &&
      unix_time(X509_get0_notAfter(certificate), &facts->not_after)) {
    return AB_OK;
  }
  ab__tls_say(problem, "%s: the dates of the certificate cannot be read", source->label);
  return AB_EINVAL;
}

int ab__tls_identity_init(ab__tls_identity *identity, const ab_mem *mem,
                          const ab_tls_identity *source, int64_t now_unix,
                          ab_tls_problem *problem) {
  *identity = (ab__tls_identity){0};
  int error = read_chain(identity, source, problem);
  if (!error) error = read_key(identity, source, problem);
  if (!error) error = tell(identity, mem, source, problem);
  if (!error) error = check_pair(identity, source->label, problem);
  if (!error) error = check_chain(identity, source->label, problem);
  if (!error) error = check_dates(&identity->facts, now_unix, source->label, problem);
  return error;
}

void ab__tls_identity_fini(ab__tls_identity *identity, const ab_mem *mem) {
  ab_tls_certificate *facts = &identity->facts;
  for (size_t i = 0; i < facts->name_count; i++) ab_free(mem, (void *)facts->names[i]);
  ab_free(mem, (void *)facts->names);
  ab_free(mem, (void *)facts->label);
  ab_free(mem, (void *)facts->subject);
  ab_free(mem, (void *)facts->serial);
  ab_free(mem, (void *)facts->key);
  sk_X509_pop_free(identity->chain, X509_free);
  X509_free(identity->certificate);
  EVP_PKEY_free(identity->key);
}

#endif
