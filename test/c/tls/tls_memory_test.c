/* Every allocation fails in turn: OpenSSL's, and ours. The server leaves OpenSSL its own allocator,
 * which Ruby's openssl shares; only here it has one that fails. */
#include <openssl/crypto.h>

#include "tls/internal.h"
#include "tls/peer.h"

/* --- the allocator of both --- */

static struct {
  size_t calls, fail_at; /* while armed: 0 never fails */
  bool armed, failed;
} trap;

static bool springs(void) {
  if (!trap.armed || ++trap.calls != trap.fail_at) return false;
  trap.failed = true;
  return true;
}

static void *trap_malloc(size_t size, const char *file AB_UNUSED, int line AB_UNUSED) {
  return springs() ? NULL : malloc(size);
}

static void *trap_realloc(void *ptr, size_t size, const char *file AB_UNUSED, int line AB_UNUSED) {
  return springs() ? NULL : realloc(ptr, size);
}

static void trap_free(void *ptr, const char *file AB_UNUSED, int line AB_UNUSED) {
  free(ptr);
}

static size_t live;

static void *our_realloc(void *ctx AB_UNUSED, void *ptr, size_t size) {
  if (size == 0) {
    live -= ptr != NULL;
    free(ptr);
    return NULL;
  }
  void *moved = springs() ? NULL : realloc(ptr, size);
  live += moved && !ptr;
  return moved;
}

static const ab_mem failing = {our_realloc, NULL};

static void arm(size_t fail_at) {
  trap.calls = 0;
  trap.fail_at = fail_at;
  trap.failed = false;
  trap.armed = true;
}

static void disarm(void) {
  trap.armed = false;
}

/* --- what is done with it --- */

typedef struct site {
  pki_identity one, two;
  pki_pair authority, good, stranger; /* and clients of its, and of nobody's */
  char *ca, *crl;
  ab_tls_identity sources[2];
  ab_tls_options options;
} site;

static void site_init(site *self) {
  pki_order one = {.subject = "a", .names = "DNS:a.example, DNS:*.a.example"};
  pki_order two = {.subject = "b", .names = "DNS:b.example"};
  pki_order authority = {.subject = "authority", .authority = true};
  self->one = pki_identity_of(&one);
  self->two = pki_identity_of(&two);
  self->authority = pki_make(&authority);
  pki_order good = {.subject = "good", .issuer = &self->authority};
  pki_order stranger = {.subject = "stranger"};
  self->good = pki_make(&good);
  self->stranger = pki_make(&stranger);
  self->ca = pki_chain_text(&self->authority, NULL);
  self->crl = pki_revoked_text(&self->authority, NULL);
  self->sources[0] = self->one.source;
  self->sources[1] = self->two.source;
  self->options = options_of(self->sources, 2);
  self->options.verify = AB_TLS_VERIFY_PEER;
  self->options.ca = self->ca;
  self->options.ca_len = strlen(self->ca);
  self->options.crl = self->crl;
  self->options.crl_len = strlen(self->crl);
}

static void site_fini(site *self) {
  pki_identity_free(&self->one);
  pki_identity_free(&self->two);
  pki_free(&self->authority);
  pki_free(&self->good);
  pki_free(&self->stranger);
  free(self->ca);
  free(self->crl);
}

/* The step between two failures: all of the first ones, then a sample. */
static size_t next_failure(size_t fail_at) {
  return fail_at < 400 ? fail_at + 1 : fail_at + fail_at / 97;
}

CHECK_CASE(a_context_without_memory_is_none) {
  site site;
  ab_tls_problem problem;
  size_t refused = 0;
  site_init(&site);
  ab_tls_context_release(context_of(&site.options)); /* what OpenSSL makes once is made */
  for (size_t fail_at = 1;; fail_at = next_failure(fail_at)) {
    arm(fail_at);
    ab_tls_context *context = ab_tls_context_new(&failing, &site.options, PKI_NOW, &problem);
    disarm();
    CHECK(context || problem.text[0] != 0);
    CHECK_INT(0, ERR_peek_error());
    refused += !context;
    bool failed = trap.failed;
    ab_tls_context_release(context);
    CHECK_INT(0, live);
    if (!failed) break;
  }
  CHECK(refused > 100);
  site_fini(&site);
}

typedef struct visit {
  int version;
  const pki_pair *own;  /* the client's certificate */
  SSL_SESSION *session; /* that it resumes; or NULL */
} visit;

static void client_init(peer *client, const visit *visit) {
  peer_init(client, NULL);
  peer_version(client, visit->version);
  SSL_set_tlsext_host_name(client->ssl, "b.example");
  SSL_use_certificate(client->ssl, visit->own->certificate);
  SSL_use_PrivateKey(client->ssl, visit->own->key);
  if (visit->session) SSL_set_session(client->ssl, visit->session);
}

/* One conversation; the session's calls alone meet the failure. Returns whether it could not go on.
 * *resumed may be NULL, and so may *left: what the client may resume. */
static bool talk(ab_tls_context *context, const visit *visit, bool *resumed, SSL_SESSION **left) {
  static char out[SERVER_ROOM];
  server *server = calloc(1, sizeof *server);
  peer client;
  char buf[64];
  int result = AB_AGAIN;
  client_init(&client, visit);
  trap.armed = true;
  server->tls = ab_tls_init(&failing, context);
  trap.armed = false;
  for (int i = 0; server->tls && i < 10 && result == AB_AGAIN; i++) {
    SSL_do_handshake(client.ssl);
    server_pull(server, &client);
    ab_tls_wire wire = {server->in, server->in_len, out, 0, sizeof out};
    trap.armed = true;
    result = ab_tls_handshake(server->tls, &wire, true, PKI_NOW);
    trap.armed = false;
    server_took(server, &wire);
    peer_give(&client, out, wire.out_len);
  }
  SSL_do_handshake(client.ssl);
  ERR_clear_error();
  if (result == AB_OK) {
    SSL_write(client.ssl, "hello", 5);
    server_pull(server, &client);
    ab_tls_wire wire = {server->in, server->in_len, out, 0, sizeof out};
    trap.armed = true;
    ssize_t n = ab_tls_read(server->tls, &wire, buf, sizeof buf);
    if (n == 5) result = ab_tls_write(server->tls, &wire, "world", 5);
    ab_tls_peer_certificate(server->tls, (unsigned char *)buf, sizeof buf);
    ab_tls_peer_subject(server->tls, buf, sizeof buf);
    ab_tls_end(server->tls, &wire);
    trap.armed = false;
    peer_give(&client, out, wire.out_len);
    SSL_read(client.ssl, buf, sizeof buf); /* takes tickets */
    ERR_clear_error();
    if (n != 5) result = AB_EPEER;
    CHECK(n == 5 || n == AB_EPEER);
  }
  CHECK(result == AB_OK || result == AB_EPEER || !server->tls);
  CHECK(!server->tls || (result == AB_EPEER) == (ab_tls_fault(server->tls) != NULL));
  trap.armed = false;
  CHECK_INT(0, ERR_peek_error());
  if (resumed) *resumed = ab_tls_is_resumed(server->tls);
  if (left) *left = SSL_get1_session(client.ssl);
  SSL_set_shutdown(client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* it stays valid */
  server_free(server);
  peer_fini(&client);
  return result != AB_OK;
}

/* Again and again, and something else fails each time. Returns how often it could not go on, and
 * how often it was begun. */
static int talk_failing(ab_tls_context *context, const visit *visit, int *times) {
  int ended = 0;
  *times = 0;
  for (size_t fail_at = 1;; fail_at = next_failure(fail_at)) {
    arm(fail_at);
    disarm();
    ended += talk(context, visit, NULL, NULL);
    ++*times;
    CHECK_INT(0, live);
    if (!trap.failed) return ended;
  }
}

static void calm(void) {
  arm(0);
  disarm();
}

#define FOR_BOTH(version) for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++)

CHECK_CASE(a_session_without_memory_ends) {
  site site;
  int times;
  site_init(&site);
  ab_tls_context *context = context_of(&site.options);
  FOR_BOTH(version) {
    visit visit = {version, &site.good, NULL};
    calm();
    CHECK(!talk(context, &visit, NULL, NULL));
    CHECK(talk_failing(context, &visit, &times) > 50);
  }
  ab_tls_context_release(context);
  site_fini(&site);
}

/* A ticket that cannot be read for want of memory is none, or the session ends. */
CHECK_CASE(a_resumed_session_without_memory) {
  site site;
  int times;
  bool resumed;
  site_init(&site);
  ab_tls_context *context = context_of(&site.options);
  FOR_BOTH(version) {
    visit visit = {version, &site.good, NULL};
    SSL_SESSION *session;
    calm();
    CHECK(!talk(context, &visit, NULL, &session));
    visit.session = session;
    CHECK(!talk(context, &visit, &resumed, NULL));
    CHECK(resumed);
    CHECK(talk_failing(context, &visit, &times) > 50);
    SSL_SESSION_free(session);
  }
  ab_tls_context_release(context);
  site_fini(&site);
}

/* What fails while a certificate is verified does not make it a good one. */
CHECK_CASE(nobody_gets_by_for_want_of_memory) {
  site site;
  int times;
  site_init(&site);
  ab_tls_context *context = context_of(&site.options);
  FOR_BOTH(version) {
    visit visit = {version, &site.stranger, NULL};
    int ended = talk_failing(context, &visit, &times);
    CHECK_INT(times, ended);
    CHECK(times > 50);
  }
  ab_tls_context_release(context);
  site_fini(&site);
}

int main(int argc, char **argv) {
  /* Before OpenSSL has allocated anything. */
  if (CRYPTO_set_mem_functions(trap_malloc, trap_realloc, trap_free) != 1) abort();
  return check_run(argc > 1 ? argv[1] : NULL);
}
