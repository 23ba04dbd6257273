/* What a context and a session are made of; only for this folder and its tests. */
#ifndef AB_TLS_INTERNAL_H
#define AB_TLS_INTERNAL_H

#ifdef AB_HAVE_TLS

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdatomic.h>

#include "tls/context.h"
#include "tls/facts.h"
#include "tls/session.h"

/* Kinds of keys that one name may have. */
#define AB__TLS_KINDS 6
/* The time for which a key makes tickets; it takes them for as long again. */
#define AB__TLS_TICKET_PERIOD 43200
/* Messages after the handshake that carry no content (updates of keys, attempts to negotiate anew,
 * alerts), and how much content in either direction makes up for one more. */
#define AB__TLS_EXCESS_MAX 128
#define AB__TLS_EXCESS_PER 65536

/* --- identity.c: a certificate with its key --- */

typedef struct ab__tls_identity {
  X509 *certificate;
  STACK_OF(X509) * chain;
  EVP_PKEY *key;
  ab_tls_certificate facts; /* which owns its texts and names */
} ab__tls_identity;

/* Reads, and checks. AB_OK; or AB_EINVAL or AB_ENOMEM with a problem; ab__tls_identity_fini follows
 * in any case. */
int ab__tls_identity_init(ab__tls_identity *identity, const ab_mem *mem,
                          const ab_tls_identity *source, int64_t now_unix, ab_tls_problem *problem);
void ab__tls_identity_fini(ab__tls_identity *identity, const ab_mem *mem);
/* All certificates of a PEM text, which must have one. NULL, with what is wrong in the queue of
 * OpenSSL's errors, or nothing there if there is none. The caller frees it. */
STACK_OF(X509) * ab__tls_read_certificates(const char *pem, size_t len);
/* To read a PEM text; NULL without memory. The caller frees it. */
BIO *ab__tls_read_pem(const char *pem, size_t len);
/* True if the last error says no more than that the text has ended; then it is none any more. */
bool ab__tls_pem_has_ended(void);
/* NUL-terminated, `lower`: in lower case. NULL without memory. */
char *ab__tls_copy_text(const ab_mem *mem, const char *ptr, size_t len, bool lower);

/* For OpenSSL: the password, or none. Otherwise it would ask at a terminal. */
int ab__tls_tell_password(char *buf, int size, int writes, void *password);

/* --- host_names.c: who answers to which name --- */

/* Identities that stand side by side, one of each kind of key. */
typedef struct ab__tls_set {
  SSL_CTX *ctx; /* context.c's */
  uint32_t members[AB__TLS_KINDS];
  uint32_t count;
} ab__tls_set;

typedef struct ab__tls_name {
  const char *ptr; /* the identity's */
  size_t len;
  uint32_t identity;
  uint32_t set;
} ab__tls_name;

typedef struct ab__tls_names {
  ab__tls_name *list; /* sorted by name, then by identity */
  size_t count;
  ab__tls_set *sets; /* the first is the default */
  size_t set_count;
} ab__tls_names;

/* Borrows the identities. AB_OK or AB_ENOMEM; ab__tls_names_fini follows in any case. */
int ab__tls_names_init(ab__tls_names *names, const ab_mem *mem, const ab__tls_identity *identities,
                       size_t count);
void ab__tls_names_fini(ab__tls_names *names, const ab_mem *mem);
/* The set for a name in lower case: its own, or a wildcard's for its first label, or NULL. */
const ab__tls_set *ab__tls_names_find(const ab__tls_names *names, const char *ptr, size_t len);

/* --- ticket.c: what lets clients resume --- */

typedef struct ab__tls_tickets {
  unsigned char base[32]; /* what keys derive from */
  unsigned char tag[8];   /* begins the name of each key */
  unsigned char id[32];   /* the context of sessions */
} ab__tls_tickets;

/* False if OpenSSL fails. */
bool ab__tls_tickets_init(ab__tls_tickets *tickets, const ab_tls_options *options);
/* Has the sessions of `ctx` use them. */
bool ab__tls_tickets_use(const ab__tls_tickets *tickets, SSL_CTX *ctx,
                         const ab_tls_options *options);

/* --- hello.c: what the client asks for --- */

int ab__tls_on_hello(SSL *ssl, int *alert, void *unused);
int ab__tls_on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                         const unsigned char *list, unsigned len, void *unused);

/* --- wire.c: bytes of the network, for OpenSSL --- */

/* NULL without memory; BIO_meth_free frees it. */
BIO_METHOD *ab__tls_wire_method(void);

/* --- context.c --- */

struct ab_tls_context {
  ab_mem mem;
  atomic_uint holders; /* taken relaxed by who holds it already; let go acquired and released */
  ab__tls_identity *identities;
  size_t identity_count;
  ab__tls_names names;
  ab__tls_tickets tickets;
  BIO_METHOD *wire;
  enum ab_tls_verify verify;
  bool http2;
};

void ab__tls_say(ab_tls_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The first of OpenSSL's errors in words; the queue is empty then. */
const char *ab__tls_error(void);

/* --- tls_session.c --- */

struct ab_tls {
  const ab_mem *mem;
  ab_tls_context *context;
  SSL *ssl;
  ab_tls_wire *wire; /* during a call */
  char *name;        /* that the client asked for, NUL-terminated */
  size_t name_len;
  int64_t now; /* during a handshake's call */
  uint64_t content;
  const char *fault;
  ab_tls_facts *facts; /* one count, once they were asked for */
  uint32_t excess;     /* messages without content, after the handshake */
  bool may_sign;
  bool known;      /* there is a certificate for the name */
  bool done;       /* the handshake */
  bool failed;     /* OpenSSL must not be called any more */
  bool ended;      /* close_notify was sent, */
  bool peer_ended; /* and received */
};

/* The session of an SSL. */
ab_tls *ab__tls_of(const SSL *ssl);
/* More messages without content than is decent. */
bool ab__tls_is_excessive(const ab_tls *tls);
/* Counts such messages. */
void ab__tls_on_message(int sent, int version, int type, const void *ptr, size_t len, SSL *ssl,
                        void *unused);

#endif
#endif
