/* Which certificate a client gets: by the name that it asks for, and by the keys that it takes. */
#include "tls/peer.h"

static const pki_order orders[] = {
    {.subject = "first", .names = "DNS:default.example, DNS:other.example"},
    {.subject = "exact", .names = "DNS:www.example"},
    {.subject = "wild", .names = "DNS:*.example", .kind = "EC"},
    {.subject = "both-rsa", .names = "DNS:both.test, DNS:rsa.test", .kind = "RSA"},
    {.subject = "both-ec", .names = "DNS:both.test"},
    {.subject = "late-ec", .names = "DNS:both.test"},
    {.subject = "wild-rsa", .names = "DNS:*.mixed.test", .kind = "RSA"},
    {.subject = "exact-ec", .names = "DNS:www.mixed.test"},
    {.subject = "default-rsa", .names = "DNS:default.example", .kind = "RSA"},
    {.subject = "ed", .names = "DNS:ed.test", .kind = "ED25519"},
};

typedef struct site {
  pki_identity identities[AB_ARRAY_LEN(orders)];
  ab_tls_context *context;
} site;

static void site_init(site *self) {
  ab_tls_identity sources[AB_ARRAY_LEN(orders)];
  for (size_t i = 0; i < AB_ARRAY_LEN(orders); i++) {
    self->identities[i] = pki_identity_of(&orders[i]);
    sources[i] = self->identities[i].source;
  }
  ab_tls_options options = options_of(sources, AB_ARRAY_LEN(orders));
  self->context = context_of(&options);
}

static void site_fini(site *self) {
  ab_tls_context_release(self->context);
  for (size_t i = 0; i < AB_ARRAY_LEN(orders); i++) pki_identity_free(&self->identities[i]);
}

/* Asks with this name and these algorithms of signatures (NULL: all), and checks whose certificate
 * comes; NULL: none. */
static void ask(site *site, int version, const char *name, const char *algorithms,
                const char *subject) {
  peer client;
  server *server = server_new(site->context);
  char text[64] = "";
  peer_init(&client, NULL);
  peer_version(&client, version);
  if (name) SSL_set_tlsext_host_name(client.ssl, name);
  if (algorithms) SSL_set1_sigalgs_list(client.ssl, algorithms);
  int result = shake(server, &client);
  CHECK_INT(subject ? AB_OK : AB_EPEER, result);
  X509 *certificate = SSL_get0_peer_certificate(client.ssl);
  CHECK(!certificate == !subject);
  if (certificate) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, text, 64);
  }
  if (subject) CHECK_BYTES(subject, text, strlen(text));
  if (!subject) CHECK(ab_tls_fault(server->tls) != NULL);
  if (subject) CHECK(!ab_tls_fault(server->tls));
  server_free(server);
  peer_fini(&client);
}

#define EC  "ECDSA+SHA256"
#define RSA "RSA-PSS+SHA256:RSA+SHA256"

CHECK_CASE(exact_names_go_before_wildcards_and_the_default) {
  site site;
  site_init(&site);
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    ask(&site, version, NULL, NULL, "first");
    ask(&site, version, "default.example", NULL, "first");
    ask(&site, version, "unknown.test", NULL, "first");
    ask(&site, version, "www.example", NULL, "exact");
    ask(&site, version, "WWW.Example", NULL, "exact");
    ask(&site, version, "www.example.", NULL, "exact");
    ask(&site, version, "any.example", NULL, "wild");
    ask(&site, version, "a.b.example", NULL, "first");
    ask(&site, version, "example", NULL, "first");
    ask(&site, version, "ed.test", NULL, "ed");
  }
  site_fini(&site);
}

CHECK_CASE(one_certificate_of_each_kind_of_key_serves_a_name) {
  site site;
  site_init(&site);
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    ask(&site, version, "both.test", EC, "both-ec"); /* the earlier one */
    ask(&site, version, "both.test", RSA, "both-rsa");
    ask(&site, version, "rsa.test", RSA, "both-rsa");
    ask(&site, version, "rsa.test", EC, NULL);
    ask(&site, version, "www.mixed.test", EC, "exact-ec");
    ask(&site, version, "www.mixed.test", RSA, "wild-rsa"); /* for want of an exact one */
    ask(&site, version, "x.mixed.test", RSA, "wild-rsa");
    ask(&site, version, NULL, EC, "first");
    ask(&site, version, NULL, RSA, "default-rsa"); /* it has the first name of the default */
  }
  site_fini(&site);
}

/* --- names on the wire --- */

/* A ClientHello with these bytes in place of the name, which are as many. */
static int ask_with(site *site, const char *name, const char *bytes, size_t len, server **out) {
  peer client;
  server *server = server_new(site->context);
  peer_init(&client, NULL);
  SSL_set_tlsext_host_name(client.ssl, name);
  SSL_do_handshake(client.ssl);
  server_pull(server, &client);
  char *found = memmem(server->in, server->in_len, name, strlen(name));
  CHECK(found != NULL);
  if (found) memcpy(found, bytes, len);
  int result = server_handshake(server, &client);
  peer_fini(&client);
  *out = server;
  return result;
}

CHECK_CASE(names_that_no_host_has_are_refused) {
  site site;
  server *server;
  site_init(&site);
  const struct {
    const char *bytes;
    int result;
  } each[] = {{"www.example", AB_AGAIN},   {"www\0example", AB_EPEER},
              {"www.exampl\0", AB_EPEER},  {"www example", AB_EPEER},
              {"www\nexample", AB_EPEER},  {"www\xff.exam\x80", AB_EPEER},
              {"www.e\x7fxampl", AB_EPEER}};
  for (size_t i = 0; i < AB_ARRAY_LEN(each); i++) {
    CHECK_INT(each[i].result, ask_with(&site, "www.example", each[i].bytes, 11, &server));
    if (each[i].result == AB_EPEER) {
      /* A fatal alert, unrecognized_name, in a record of its own. */
      CHECK(memcmp(server->out, "\x15\x03", 2) == 0 &&
            memcmp(server->out + 3, "\0\2\2\x70", 4) == 0);
      CHECK(!ab_tls_server_name(server->tls).ptr);
    }
    server_free(server);
  }
  site_fini(&site);
}

CHECK_CASE(long_names_are_taken_to_their_limit) {
  site site;
  server *server;
  char name[256], wild[256];
  site_init(&site);
  memset(name, 'x', 255);
  name[255] = 0;
  CHECK_INT(AB_AGAIN, ask_with(&site, name, name, 255, &server));
  CHECK_INT(255, ab_tls_server_name(server->tls).len);
  CHECK(!ab_tls_knows_name(server->tls));
  server_free(server);
  memset(wild, 'x', 247);
  memcpy(wild + 247, ".example", 9);
  CHECK_INT(AB_AGAIN, ask_with(&site, wild, wild, 255, &server));
  CHECK(ab_tls_knows_name(server->tls));
  server_free(server);
  memset(wild, '.', 255);
  CHECK_INT(AB_AGAIN, ask_with(&site, name, wild, 255, &server));
  CHECK(!ab_tls_knows_name(server->tls));
  server_free(server);
  site_fini(&site);
}

CHECK_CASE(a_session_tells_what_was_asked_for) {
  site site;
  server *server;
  site_init(&site);
  CHECK_INT(AB_AGAIN, ask_with(&site, "WWW.Example", "WWW.Example", 11, &server));
  ab_view name = ab_tls_server_name(server->tls);
  CHECK_BYTES("www.example", name.ptr, name.len);
  CHECK(ab_tls_knows_name(server->tls));
  server_free(server);
  server = server_new(site.context);
  CHECK(!ab_tls_server_name(server->tls).ptr);
  CHECK(ab_tls_knows_name(server->tls));
  server_free(server);
  site_fini(&site);
}

/* With many names each is found. */
CHECK_CASE(many_names_are_found) {
  enum { COUNT = 300 };
  static char names[32 * COUNT];
  size_t len = 0;
  for (int i = 0; i < COUNT; i++) {
    len += (size_t)sprintf(names + len, "%sDNS:n%d.many.test", i ? "," : "", i);
  }
  pki_order many = {.subject = "many", .names = names}, one = {.subject = "one", .names = "DNS:o"};
  pki_identity identities[] = {pki_identity_of(&one), pki_identity_of(&many)};
  ab_tls_identity sources[] = {identities[0].source, identities[1].source};
  ab_tls_options options = options_of(sources, 2);
  site site = {.context = context_of(&options)};
  for (int i = 0; i < COUNT; i += 17) {
    char name[32];
    sprintf(name, "n%d.many.test", i);
    CHECK(ab_tls_context_has_name(site.context, name, strlen(name)));
    if (i % 5 == 0) ask(&site, TLS1_3_VERSION, name, NULL, "many");
  }
  ab_tls_context_release(site.context);
  pki_identity_free(&identities[0]);
  pki_identity_free(&identities[1]);
}

CHECK_MAIN()
