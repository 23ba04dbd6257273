/* Resumption: where tickets are good, and where and when not. */
#include "tls/peer.h"

#define HALF_A_DAY 43200

static int tickets_seen;

static int note_ticket(SSL *ssl AB_UNUSED, SSL_SESSION *session AB_UNUSED) {
  tickets_seen++;
  return 0;
}

typedef struct site {
  pki_identity identity;
  pki_pair authority, client, other;
  char *ca, *ca2, *crl;
} site;

static void site_init(site *self) {
  pki_order server = {.subject = "a", .names = "DNS:a.example, DNS:b.example"};
  pki_order authority = {.subject = "authority", .authority = true};
  self->identity = pki_identity_of(&server);
  self->authority = pki_make(&authority);
  self->other = pki_make(&authority);
  pki_order client = {.subject = "client", .issuer = &self->authority, .before = -1, .after = 5000};
  self->client = pki_make(&client);
  self->ca = pki_chain_text(&self->authority, NULL);
  self->ca2 = pki_chain_text(&self->authority, &self->other);
  self->crl = pki_revoked_text(&self->authority, NULL);
}

static void site_fini(site *self) {
  pki_identity_free(&self->identity);
  pki_free(&self->authority);
  pki_free(&self->client);
  pki_free(&self->other);
  free(self->ca);
  free(self->ca2);
  free(self->crl);
}

typedef struct visit {
  const ab_tls_options *options;
  int version;
  int64_t now;
  SSL_SESSION *session; /* to resume, or NULL */
  const pki_pair *own;  /* the client's certificate */
  const char *name;     /* that it asks for */
  const char *early;    /* data before the handshake */
} visit;

static visit at(const ab_tls_options *options, int version) {
  return (visit){.options = options, .version = version, .now = PKI_NOW};
}

/* Returns the session that the visit leaves, which the caller frees; *resumed: it went on with the
 * one that was given. */
static SSL_SESSION *pay(const visit *visit, bool *resumed) {
  ab_tls_context *context = context_of(visit->options);
  server *server = server_new(context);
  SSL_CTX *ctx = peer_context();
  peer client;
  char buf[64];
  server->now = visit->now;
  SSL_CTX_sess_set_new_cb(ctx, note_ticket);
  peer_init(&client, ctx);
  SSL_CTX_free(ctx);
  peer_version(&client, visit->version);
  if (visit->name) SSL_set_tlsext_host_name(client.ssl, visit->name);
  if (visit->own) {
    SSL_use_certificate(client.ssl, visit->own->certificate);
    SSL_use_PrivateKey(client.ssl, visit->own->key);
  }
  if (visit->session) SSL_set_session(client.ssl, visit->session);
  if (visit->early) {
    size_t written = 0;
    CHECK_INT(1, SSL_write_early_data(client.ssl, visit->early, strlen(visit->early), &written));
  }
  tickets_seen = 0;
  CHECK_INT(AB_OK, shake(server, &client));
  *resumed = ab_tls_is_resumed(server->tls);
  CHECK(*resumed == (SSL_session_reused(client.ssl) == 1));
  if (visit->early) {
    CHECK_INT(SSL_EARLY_DATA_REJECTED, SSL_get_early_data_status(client.ssl));
    CHECK_INT(AB_AGAIN, server_read(server, &client, buf, sizeof buf)); /* none of it came */
  }
  CHECK(SSL_read(client.ssl, buf, sizeof buf) <= 0); /* takes tickets */
  if (visit->options->verify == AB_TLS_VERIFY_FORCE_PEER) {
    CHECK(ab_tls_peer_certificate(server->tls, NULL, 0) > 0); /* resumed or not */
  }
  SSL_SESSION *session = SSL_get1_session(client.ssl);
  SSL_set_shutdown(client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  server_free(server);
  peer_fini(&client);
  ab_tls_context_release(context);
  return session;
}

/* Whether the second visit resumes what the first one has left. */
static bool resumes(visit first, visit second) {
  bool resumed;
  SSL_SESSION *session = pay(&first, &resumed);
  CHECK(!resumed);
  second.session = session;
  SSL_SESSION *next = pay(&second, &resumed);
  SSL_SESSION_free(session);
  SSL_SESSION_free(next);
  return resumed;
}

#define FOR_BOTH(version) for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++)

CHECK_CASE(workers_that_share_the_secret_agree) {
  site site;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options one = options_of(&site.identity.source, 1), two = one;
    CHECK(resumes(at(&one, version), at(&two, version)));
    two.ticket_secret[31] ^= 1;
    CHECK(!resumes(at(&one, version), at(&two, version)));
  }
  site_fini(&site);
}

CHECK_CASE(one_ticket_is_given) {
  site site;
  bool resumed;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options options = options_of(&site.identity.source, 1);
    visit first = at(&options, version);
    SSL_SESSION *session = pay(&first, &resumed);
    CHECK(SSL_SESSION_has_ticket(session));
    if (version == TLS1_3_VERSION) CHECK_INT(1, tickets_seen);
    SSL_SESSION_free(session);
    options.tickets = false;
    session = pay(&first, &resumed);
    CHECK(!SSL_SESSION_has_ticket(session));
    CHECK_INT(0, tickets_seen);
    SSL_SESSION_free(session);
    CHECK(!resumes(at(&options, version), at(&options, version)));
  }
  site_fini(&site);
}

CHECK_CASE(no_ticket_is_good_at_another_listener) {
  site site;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options one = options_of(&site.identity.source, 1), two = one;
    two.name = "ssl://0.0.0.0:8443";
    CHECK(!resumes(at(&one, version), at(&two, version)));
    two.name = NULL;
    CHECK(!resumes(at(&one, version), at(&two, version)));
  }
  site_fini(&site);
}

/* CVE-2025-23419: a ticket must not stand for a certificate. */
CHECK_CASE(no_ticket_is_good_under_other_rules_for_clients) {
  site site;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options none = options_of(&site.identity.source, 1), peer = none, forced, wider, crl;
    peer.verify = AB_TLS_VERIFY_PEER;
    peer.ca = site.ca;
    peer.ca_len = strlen(site.ca);
    forced = wider = crl = peer;
    forced.verify = AB_TLS_VERIFY_FORCE_PEER;
    visit with = {&forced, version, PKI_NOW, NULL, &site.client, NULL, NULL};
    visit without = {&none, version, PKI_NOW, NULL, NULL, NULL, NULL};
    visit asked = {&peer, version, PKI_NOW, NULL, &site.client, NULL, NULL};
    CHECK(resumes(with, with));
    CHECK(!resumes(without, with));
    CHECK(!resumes(without, asked));
    CHECK(!resumes(asked, with));
    CHECK(!resumes(with, without));
    /* Nor after the authorities, or what they have revoked, have changed. */
    wider.ca = site.ca2;
    wider.ca_len = strlen(site.ca2);
    wider.verify = AB_TLS_VERIFY_FORCE_PEER;
    visit changed = {&wider, version, PKI_NOW, NULL, &site.client, NULL, NULL};
    CHECK(!resumes(with, changed));
    crl.verify = AB_TLS_VERIFY_FORCE_PEER;
    crl.crl = site.crl;
    crl.crl_len = strlen(site.crl);
    changed.options = &crl;
    CHECK(!resumes(with, changed));
    crl = forced;
    crl.verification_flags = X509_V_FLAG_TRUSTED_FIRST;
    CHECK(!resumes(with, changed));
  }
  site_fini(&site);
}

/* The server's clock is beyond the certificate's time when the client comes again. */
CHECK_CASE(an_expired_certificate_of_a_client_resumes_nothing) {
  site site;
  site_init(&site);
  int64_t end = PKI_NOW + (int64_t)5000 * 86400;
  FOR_BOTH(version) {
    ab_tls_options options = options_of(&site.identity.source, 1);
    options.verify = AB_TLS_VERIFY_FORCE_PEER;
    options.ca = site.ca;
    options.ca_len = strlen(site.ca);
    visit before = {&options, version, end - 60, NULL, &site.client, NULL, NULL}, after = before;
    after.now = end - 1;
    CHECK(resumes(before, after));
    after.now = end + 1;
    CHECK(!resumes(before, after));
  }
  site_fini(&site);
}

CHECK_CASE(keys_change_with_time) {
  site site;
  int64_t begin = (int64_t)PKI_NOW / HALF_A_DAY * HALF_A_DAY;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options options = options_of(&site.identity.source, 1);
    visit first = {.options = &options, .version = version, .now = begin}, later = first;
    const struct {
      int64_t after;
      bool good;
    } each[] = {{HALF_A_DAY - 1, true},  {HALF_A_DAY, true}, {2 * HALF_A_DAY - 1, true},
                {2 * HALF_A_DAY, false}, {-1, true}, /* a clock that is behind */
                {-HALF_A_DAY - 1, false}};
    for (size_t i = 0; i < AB_ARRAY_LEN(each); i++) {
      later.now = begin + each[i].after;
      CHECK(resumes(first, later) == each[i].good);
    }
  }
  site_fini(&site);
}

/* A ticket of the last key is exchanged for one of this key. */
CHECK_CASE(old_tickets_are_renewed) {
  site site;
  bool resumed;
  site_init(&site);
  FOR_BOTH(version) {
    ab_tls_options options = options_of(&site.identity.source, 1);
    visit visit = {.options = &options, .version = version, .now = PKI_NOW};
    SSL_SESSION *session = pay(&visit, &resumed);
    for (int i = 0; i < 3; i++) {
      visit.session = session;
      visit.now += HALF_A_DAY;
      SSL_SESSION *next = pay(&visit, &resumed);
      CHECK(resumed);
      if (version == TLS1_3_VERSION) CHECK_INT(1, tickets_seen);
      SSL_SESSION_free(session);
      session = next;
    }
    SSL_SESSION_free(session);
  }
  site_fini(&site);
}

CHECK_CASE(a_damaged_ticket_is_no_ticket) {
  site site;
  bool resumed;
  site_init(&site);
  ab_tls_options options = options_of(&site.identity.source, 1);
  FOR_BOTH(version) {
    visit visit = {.options = &options, .version = version, .now = PKI_NOW};
    for (size_t at = 0; at < 80; at += 8) {
      SSL_SESSION *session = pay(&visit, &resumed), *next;
      const unsigned char *ticket;
      size_t len;
      SSL_SESSION_get0_ticket(session, &ticket, &len);
      CHECK(len > 80);
      ((unsigned char *)ticket)[at] ^= 0x10;
      visit.session = session;
      next = pay(&visit, &resumed);
      CHECK(!resumed);
      SSL_SESSION_free(session);
      SSL_SESSION_free(next);
      visit.session = NULL;
    }
  }
  site_fini(&site);
}

/* It is this visit's name that counts. */
CHECK_CASE(a_resumed_session_tells_the_name_of_this_visit) {
  site site;
  bool resumed;
  site_init(&site);
  ab_tls_options options = options_of(&site.identity.source, 1);
  ab_tls_context *context = context_of(&options);
  visit first = {
      .options = &options, .version = TLS1_3_VERSION, .now = PKI_NOW, .name = "a.example"};
  SSL_SESSION *session = pay(&first, &resumed);
  server *server = server_new(context);
  peer client;
  peer_init(&client, NULL);
  SSL_set_session(client.ssl, session);
  SSL_set_tlsext_host_name(client.ssl, "b.example");
  CHECK_INT(AB_OK, shake(server, &client));
  ab_view name = ab_tls_server_name(server->tls);
  CHECK_BYTES("b.example", name.ptr, name.len);
  SSL_SESSION_free(session);
  server_free(server);
  peer_fini(&client);
  ab_tls_context_release(context);
  site_fini(&site);
}

CHECK_CASE(early_data_is_refused) {
  site site;
  bool resumed;
  site_init(&site);
  ab_tls_options options = options_of(&site.identity.source, 1);
  visit visit = {.options = &options, .version = TLS1_3_VERSION, .now = PKI_NOW};
  SSL_SESSION *session = pay(&visit, &resumed);
  CHECK_INT(0, SSL_SESSION_get_max_early_data(session));
  SSL_SESSION_set_max_early_data(session, 1000); /* a client that does not care */
  visit.session = session;
  visit.early = "GET /transfer HTTP/1.1\r\n\r\n";
  SSL_SESSION *next = pay(&visit, &resumed);
  CHECK(resumed);
  SSL_SESSION_free(next);
  SSL_SESSION_free(session);
  site_fini(&site);
}

CHECK_MAIN()
