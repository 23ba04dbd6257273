/* What a listener's TLS is: certificates by name, versions, ciphers, whom it asks for a
 * certificate, keys of tickets. Made whole, then never changed: a change is another one, swapped
 * for it. It is counted, and may be used by many threads at once. Stands on OpenSSL 3.0 or later,
 * which no other room knows. */
#ifndef AB_TLS_CONTEXT_H
#define AB_TLS_CONTEXT_H

#include "base/mem.h"

typedef struct ab_tls_context ab_tls_context;

/* Name and version of the library that is loaded; NULL in a build without it. */
const char *ab_tls_library(void);

/* A certificate with its key. */
typedef struct ab_tls_identity {
  const char *chain; /* PEM: the certificate, then what leads from it to a root */
  size_t chain_len;
  const char *key; /* PEM; may be encrypted */
  size_t key_len;
  const char *password; /* of the key, or NULL */
  const char *label;    /* for messages: the file's name */
} ab_tls_identity;

enum ab_tls_verify {
  AB_TLS_VERIFY_NONE,      /* no certificate is asked for */
  AB_TLS_VERIFY_PEER,      /* it is asked for, and must be good if there is one */
  AB_TLS_VERIFY_FORCE_PEER /* there must be a good one */
};

typedef struct ab_tls_options {
  /* The first is the default. A name goes to all that have it, one of each kind of key (RSA, ECDSA,
   * ...), the earlier first, and of those with wildcards only the kinds that are missing. */
  const ab_tls_identity *identities;
  size_t identity_count;
  const char *ca; /* PEM: who may have issued certificates of clients; needed to verify */
  size_t ca_len;
  const char *crl; /* PEM: which of these are revoked; or NULL */
  size_t crl_len;
  enum ab_tls_verify verify;
  unsigned long verification_flags; /* X509_V_FLAG_*; a list of revoked ones adds CRL_CHECK */
  const char *ciphers;              /* of TLS 1.2, as OpenSSL writes them; NULL: Mozilla's */
  const char *ciphersuites;         /* of TLS 1.3; NULL: Mozilla's (both: its intermediate ones) */
  int min_version, max_version;     /* 0x0301 (TLS 1.0) to 0x0304 (1.3); 0: 1.2, and 1.3 */
  bool http2;                       /* ALPN offers h2 before http/1.1 */
  bool tickets;                     /* clients may resume */
  unsigned char ticket_secret[32];  /* their keys follow from it, from the time, and from `name` */
  const char *name;                 /* the listener's: nobody resumes at another what began here */
} ab_tls_options;

/* Why there is no context: a sentence with the label of the identity, without a full stop. */
typedef struct ab_tls_problem {
  char text[256];
} ab_tls_problem;

/* Copies everything. Checks each identity: key and certificate are a pair, the chain is one, and
 * now_unix lies within the certificate's time (0: not checked). The caller has the one count. NULL
 * with a problem; without memory too. */
ab_tls_context *ab_tls_context_new(const ab_mem *mem, const ab_tls_options *options,
                                   int64_t now_unix, ab_tls_problem *problem);
/* One more, and one less, that has it; the last one frees it. Any thread. NULL is allowed. */
ab_tls_context *ab_tls_context_hold(ab_tls_context *context);
void ab_tls_context_release(ab_tls_context *context);

/* What is known of an identity's certificate; lives as long as the context. */
typedef struct ab_tls_certificate {
  const char *label;
  const char *subject;      /* RFC 4514; perhaps "" */
  const char *serial;       /* hexadecimal */
  const char *key;          /* "RSA 2048", "ECDSA 256", ... */
  const char *const *names; /* in lower case, perhaps "*.example.org" or an address */
  size_t name_count;
  int64_t not_before, not_after; /* Unix time */
} ab_tls_certificate;

size_t ab_tls_context_certificates(const ab_tls_context *context);
/* In the order of the options. */
const ab_tls_certificate *ab_tls_context_certificate(const ab_tls_context *context, size_t index);
/* As the options say. */
enum ab_tls_verify ab_tls_context_verify(const ab_tls_context *context);
/* True if a certificate was made for this name, which is in lower case; the default alone does not
 * count. */
bool ab_tls_context_has_name(const ab_tls_context *context, const char *name, size_t len);

#endif
