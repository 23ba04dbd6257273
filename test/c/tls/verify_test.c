/* Certificates of clients: asked for, required, revoked. */
#include "tls/peer.h"

typedef struct site {
  pki_identity identity;
  pki_pair authority, good, revoked, stranger, expired;
  char *ca, *crl;
} site;

static void site_init(site *self) {
  pki_order server = {.subject = "a", .names = "DNS:a.example"};
  pki_order authority = {.subject = "authority", .authority = true};
  self->identity = pki_identity_of(&server);
  self->authority = pki_make(&authority);
  pki_order good = {.subject = "good client", .issuer = &self->authority};
  self->good = pki_make(&good);
  self->revoked = pki_make(&good);
  pki_order expired = good;
  expired.before = -9000;
  expired.after = -8000;
  self->expired = pki_make(&expired);
  pki_order stranger = {.subject = "stranger"};
  self->stranger = pki_make(&stranger);
  self->ca = pki_chain_text(&self->authority, NULL);
  self->crl = pki_revoked_text(&self->authority, &self->revoked);
}

static void site_fini(site *self) {
  pki_identity_free(&self->identity);
  pki_free(&self->authority);
  pki_free(&self->good);
  pki_free(&self->revoked);
  pki_free(&self->stranger);
  pki_free(&self->expired);
  free(self->ca);
  free(self->crl);
}

static ab_tls_options options_for(const site *site, enum ab_tls_verify verify, bool crl) {
  ab_tls_options options = options_of(&site->identity.source, 1);
  options.verify = verify;
  options.ca = site->ca;
  options.ca_len = strlen(site->ca);
  options.crl = crl ? site->crl : NULL;
  options.crl_len = crl ? strlen(site->crl) : 0;
  return options;
}

/* What comes of a client with this certificate, or none. */
static int visit(const ab_tls_options *options, int version, const pki_pair *own,
                 const char **fault) {
  ab_tls_context *context = context_of(options);
  server *server = server_new(context);
  peer client;
  char subject[64];
  unsigned char der[2048];
  peer_init(&client, NULL);
  peer_version(&client, version);
  if (own) {
    SSL_use_certificate(client.ssl, own->certificate);
    SSL_use_PrivateKey(client.ssl, own->key);
  }
  int result = shake(server, &client);
  *fault = ab_tls_fault(server->tls);
  CHECK((result == AB_OK) == (*fault == NULL));
  bool has = result == AB_OK && own && options->verify != AB_TLS_VERIFY_NONE;
  size_t len = ab_tls_peer_certificate(server->tls, der, sizeof der);
  if (result == AB_OK) CHECK_INT(has ? i2d_X509(own->certificate, NULL) : 0, len);
  if (has) {
    unsigned char *expected = NULL;
    i2d_X509(own->certificate, &expected);
    CHECK(memcmp(expected, der, len) == 0);
    OPENSSL_free(expected);
    CHECK_INT(len, ab_tls_peer_certificate(server->tls, der, 1));
    size_t size = ab_tls_peer_subject(server->tls, subject, sizeof subject);
    CHECK_BYTES("CN=good client", subject, size);
    CHECK_INT(size, ab_tls_peer_subject(server->tls, subject, 0));
  } else if (result == AB_OK) {
    CHECK_INT(0, ab_tls_peer_subject(server->tls, subject, sizeof subject));
  }
  if (result == AB_OK) CHECK_INT(X509_V_OK, ab_tls_verify_result(server->tls));
  server_free(server);
  peer_fini(&client);
  ab_tls_context_release(context);
  return result;
}

#define FOR_BOTH(version) for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++)

CHECK_CASE(nobody_is_asked_unless_it_is_said) {
  site site;
  const char *fault;
  site_init(&site);
  ab_tls_options options = options_for(&site, AB_TLS_VERIFY_NONE, false);
  FOR_BOTH(version) {
    CHECK_INT(AB_OK, visit(&options, version, NULL, &fault));
    CHECK_INT(AB_OK, visit(&options, version, &site.stranger, &fault)); /* never sent */
  }
  site_fini(&site);
}

CHECK_CASE(peer_takes_none_or_a_good_one) {
  site site;
  const char *fault;
  site_init(&site);
  ab_tls_options options = options_for(&site, AB_TLS_VERIFY_PEER, false);
  FOR_BOTH(version) {
    CHECK_INT(AB_OK, visit(&options, version, NULL, &fault));
    CHECK_INT(AB_OK, visit(&options, version, &site.good, &fault));
    CHECK_INT(AB_EPEER, visit(&options, version, &site.stranger, &fault));
    CHECK(strstr(fault, "self") != NULL);
    CHECK_INT(AB_EPEER, visit(&options, version, &site.expired, &fault));
    CHECK(strstr(fault, "expired") != NULL);
  }
  site_fini(&site);
}

CHECK_CASE(force_peer_takes_a_good_one_only) {
  site site;
  const char *fault;
  site_init(&site);
  ab_tls_options options = options_for(&site, AB_TLS_VERIFY_FORCE_PEER, false);
  FOR_BOTH(version) {
    CHECK_INT(AB_EPEER, visit(&options, version, NULL, &fault));
    CHECK(strstr(fault, "peer did not return a certificate") != NULL);
    CHECK_INT(AB_OK, visit(&options, version, &site.good, &fault));
    CHECK_INT(AB_EPEER, visit(&options, version, &site.stranger, &fault));
  }
  options.verification_flags = X509_V_FLAG_NO_CHECK_TIME;
  CHECK_INT(AB_EPEER, visit(&options, TLS1_3_VERSION, &site.stranger, &fault));
  site_fini(&site);
}

CHECK_CASE(revoked_certificates_are_refused) {
  site site;
  const char *fault;
  site_init(&site);
  ab_tls_options with = options_for(&site, AB_TLS_VERIFY_FORCE_PEER, true);
  ab_tls_options without = options_for(&site, AB_TLS_VERIFY_FORCE_PEER, false);
  FOR_BOTH(version) {
    CHECK_INT(AB_OK, visit(&with, version, &site.good, &fault));
    CHECK_INT(AB_EPEER, visit(&with, version, &site.revoked, &fault));
    CHECK(strstr(fault, "revoked") != NULL);
    CHECK_INT(AB_OK, visit(&without, version, &site.revoked, &fault));
  }
  /* A list is demanded, and there is none. */
  without.verification_flags = X509_V_FLAG_CRL_CHECK;
  CHECK_INT(AB_EPEER, visit(&without, TLS1_3_VERSION, &site.good, &fault));
  CHECK(strstr(fault, "CRL") != NULL);
  site_fini(&site);
}

CHECK_CASE(clients_are_told_whose_certificates_count) {
  site site;
  site_init(&site);
  ab_tls_options options = options_for(&site, AB_TLS_VERIFY_PEER, false);
  ab_tls_context *context = context_of(&options);
  server *server = server_new(context);
  peer client;
  peer_init(&client, NULL);
  CHECK_INT(AB_OK, shake(server, &client));
  const STACK_OF(X509_NAME) *names = SSL_get0_peer_CA_list(client.ssl);
  CHECK_INT(1, sk_X509_NAME_num(names));
  CHECK(X509_NAME_cmp(sk_X509_NAME_value(names, 0),
                      X509_get_subject_name(site.authority.certificate)) == 0);
  server_free(server);
  peer_fini(&client);
  ab_tls_context_release(context);
  site_fini(&site);
}

CHECK_MAIN()
