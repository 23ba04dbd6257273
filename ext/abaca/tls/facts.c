/* Facts of a session: see facts.h. All of them stand in one piece of memory. */
#include "tls/facts.h"

#include <stdatomic.h>
#include <string.h>

#include "tls/internal.h"

struct ab_tls_facts {
  ab_mem mem;
  atomic_uint holds;
  void *slot;
  const char *version, *cipher, *protocol; /* static texts of the library's */
  int bits;
  bool resumed, named;
  long verify_result;
  size_t name_len, certificate_len, subject_len;
  char bytes[]; /* the name and a NUL, the certificate, the subject */
};

/* False if something cannot be copied as it was counted: for want of memory. */
static bool fill(ab_tls_facts *facts, const ab_tls *tls) {
  char *name = facts->bytes, *certificate = name + facts->name_len + 1;
  char *subject = certificate + facts->certificate_len;
  size_t certificate_len = facts->certificate_len, subject_len = facts->subject_len;
  if (facts->named) memcpy(name, ab_tls_server_name(tls).ptr, facts->name_len);
  name[facts->name_len] = '\0';
  if (certificate_len == 0) return true;
  return ab_tls_peer_certificate(tls, (unsigned char *)certificate, certificate_len) ==
             certificate_len &&
         ab_tls_peer_subject(tls, subject, subject_len) == subject_len;
}

/* With one count. */
static ab_tls_facts *make(const ab_mem *mem, const ab_tls *tls) {
  ab_view name = ab_tls_server_name(tls);
  size_t certificate_len = ab_tls_peer_certificate(tls, NULL, 0);
  size_t subject_len = certificate_len > 0 ? ab_tls_peer_subject(tls, NULL, 0) : 0;
  if (certificate_len > UINT32_MAX || subject_len > UINT32_MAX) return NULL;
  ab_tls_facts *facts =
      ab_alloc(mem, sizeof(*facts) + name.len + 1 + certificate_len + subject_len);
  if (!facts) return NULL;
  *facts = (ab_tls_facts){
      .mem = *mem,
      .version = ab_tls_version(tls),
      .cipher = ab_tls_cipher(tls),
      .protocol = ab_tls_protocol(tls),
      .bits = ab_tls_cipher_bits(tls),
      .resumed = ab_tls_is_resumed(tls),
      .named = name.ptr != NULL,
      .verify_result = ab_tls_verify_result(tls),
      .name_len = name.len,
      .certificate_len = certificate_len,
      .subject_len = subject_len,
  };
  atomic_init(&facts->holds, 1);
  if (fill(facts, tls)) return facts;
  ab_free(mem, facts);
  return NULL;
}

#ifdef AB_HAVE_TLS
/* That the session keeps them is no change that anybody sees. */
ab_tls_facts *ab_tls_facts_hold(const ab_tls *tls) {
  ab_tls_facts **kept = &((ab_tls *)tls)->facts;
  if (!*kept) *kept = make(tls->mem, tls);
  if (*kept) atomic_fetch_add_explicit(&(*kept)->holds, 1, memory_order_relaxed);
  return *kept;
}
#else
ab_tls_facts *ab_tls_facts_hold(const ab_tls *tls) {
  return make(&ab_mem_libc, tls);
}
#endif

void ab_tls_facts_release(ab_tls_facts *facts) {
  /* Acquire and release: what others have done with it is done before it is freed. */
  if (!facts || atomic_fetch_sub_explicit(&facts->holds, 1, memory_order_acq_rel) > 1) return;
  ab_mem mem = facts->mem;
  ab_free(&mem, facts);
}

bool ab_tls_facts_alone(const ab_tls_facts *facts) {
  return atomic_load_explicit(&facts->holds, memory_order_acquire) == 1;
}

void **ab_tls_facts_slot(ab_tls_facts *facts) {
  return &facts->slot;
}

const char *ab_tls_facts_version(const ab_tls_facts *facts) {
  return facts->version;
}

const char *ab_tls_facts_cipher(const ab_tls_facts *facts) {
  return facts->cipher;
}

int ab_tls_facts_bits(const ab_tls_facts *facts) {
  return facts->bits;
}

const char *ab_tls_facts_protocol(const ab_tls_facts *facts) {
  return facts->protocol;
}

const char *ab_tls_facts_server_name(const ab_tls_facts *facts) {
  return facts->named ? facts->bytes : NULL;
}

bool ab_tls_facts_resumed(const ab_tls_facts *facts) {
  return facts->resumed;
}

long ab_tls_facts_verify_result(const ab_tls_facts *facts) {
  return facts->verify_result;
}

ab_view ab_tls_facts_certificate(const ab_tls_facts *facts) {
  if (facts->certificate_len == 0) return (ab_view){NULL, 0};
  return (ab_view){facts->bytes + facts->name_len + 1, facts->certificate_len};
}

ab_view ab_tls_facts_subject(const ab_tls_facts *facts) {
  if (facts->certificate_len == 0) return (ab_view){NULL, 0};
  const char *place = facts->bytes + facts->name_len + 1 + facts->certificate_len;
  return (ab_view){place, facts->subject_len};
}
