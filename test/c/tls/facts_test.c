/* What the application may know of a session, also when that has ended. */
#include "tls/facts.h"

#include "tls/peer.h"

static size_t live;
static bool fails;

static void *counted(void *ctx AB_UNUSED, void *ptr, size_t size) {
  if (size == 0) {
    live -= ptr != NULL;
    free(ptr);
    return NULL;
  }
  void *moved = fails ? NULL : realloc(ptr, size);
  live += moved && !ptr;
  return moved;
}

static const ab_mem memory = {counted, NULL};

typedef struct site {
  pki_identity identity;
  pki_pair authority, client;
  char *ca;
  ab_tls_context *context;
  server *server;
  peer peer;
} site;

/* A handshake, with a certificate of the client's if `own`. */
static void site_init(site *self, bool own) {
  pki_order names = {.subject = "a", .names = "DNS:a.example"};
  pki_order authority = {.subject = "authority", .authority = true};
  self->identity = pki_identity_of(&names);
  self->authority = pki_make(&authority);
  pki_order client = {.subject = "good client", .issuer = &self->authority};
  self->client = pki_make(&client);
  self->ca = pki_chain_text(&self->authority, NULL);
  ab_tls_options options = options_of(&self->identity.source, 1);
  options.verify = AB_TLS_VERIFY_PEER;
  options.ca = self->ca;
  options.ca_len = strlen(self->ca);
  self->context = context_of(&options);
  self->server = server_new(self->context);
  ab_tls_fini(self->server->tls);
  self->server->tls = ab_tls_init(&memory, self->context);
  peer_init(&self->peer, NULL);
  if (own) {
    SSL_use_certificate(self->peer.ssl, self->client.certificate);
    SSL_use_PrivateKey(self->peer.ssl, self->client.key);
    SSL_set_tlsext_host_name(self->peer.ssl, "A.example");
  }
  CHECK_INT(AB_OK, shake(self->server, &self->peer));
}

static void end_session(site *self) {
  ab_tls_fini(self->server->tls);
  self->server->tls = NULL;
}

static void site_fini(site *self) {
  server_free(self->server);
  peer_fini(&self->peer);
  ab_tls_context_release(self->context);
  pki_identity_free(&self->identity);
  pki_free(&self->authority);
  pki_free(&self->client);
  free(self->ca);
  CHECK_INT(0, live);
}

CHECK_CASE(they_outlive_the_session) {
  site site;
  site_init(&site, true);
  ab_tls_facts *facts = ab_tls_facts_hold(site.server->tls);
  ab_tls_facts *again = ab_tls_facts_hold(site.server->tls);
  CHECK(facts == again && *ab_tls_facts_slot(facts) == NULL);
  *ab_tls_facts_slot(facts) = &site;
  ab_tls_facts_release(again);
  CHECK(!ab_tls_facts_alone(facts));
  end_session(&site);
  CHECK(ab_tls_facts_alone(facts) && *ab_tls_facts_slot(facts) == &site);
  CHECK_BYTES("a.example", ab_tls_facts_server_name(facts),
              strlen(ab_tls_facts_server_name(facts)));
  CHECK_BYTES("TLSv1.3", ab_tls_facts_version(facts), strlen(ab_tls_facts_version(facts)));
  CHECK(strstr(ab_tls_facts_cipher(facts), "TLS_") != NULL && ab_tls_facts_bits(facts) >= 128);
  CHECK(ab_tls_facts_protocol(facts) == NULL && !ab_tls_facts_resumed(facts));
  CHECK_INT(X509_V_OK, ab_tls_facts_verify_result(facts));
  ab_view subject = ab_tls_facts_subject(facts), der = ab_tls_facts_certificate(facts);
  CHECK_BYTES("CN=good client", subject.ptr, subject.len);
  unsigned char *expected = NULL;
  CHECK_INT(i2d_X509(site.client.certificate, &expected), der.len);
  CHECK(memcmp(expected, der.ptr, der.len) == 0);
  OPENSSL_free(expected);
  ab_tls_facts_release(facts);
  ab_tls_facts_release(NULL);
  site_fini(&site);
}

CHECK_CASE(a_client_that_tells_nothing) {
  site site;
  site_init(&site, false);
  ab_tls_facts *facts = ab_tls_facts_hold(site.server->tls);
  CHECK(ab_tls_facts_server_name(facts) == NULL);
  CHECK(ab_tls_facts_subject(facts).ptr == NULL && ab_tls_facts_certificate(facts).ptr == NULL);
  ab_tls_facts_release(facts);
  site_fini(&site);
}

CHECK_CASE(without_memory_there_are_none) {
  site site;
  site_init(&site, true);
  fails = true;
  CHECK(ab_tls_facts_hold(site.server->tls) == NULL);
  fails = false;
  ab_tls_facts *facts = ab_tls_facts_hold(site.server->tls);
  CHECK(facts != NULL);
  ab_tls_facts_release(facts);
  site_fini(&site);
}

CHECK_MAIN()
