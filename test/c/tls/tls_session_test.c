/* Sessions: handshakes, content in both directions, the end. */
#include "tls/peer.h"

static const pki_order plain_order = {.subject = "a.example", .names = "DNS:a.example"};

typedef struct pair {
  pki_identity identity;
  ab_tls_context *context;
  server *server;
  peer client;
} pair;

static void pair_init(pair *self, int version) {
  self->identity = pki_identity_of(&plain_order);
  ab_tls_options options = options_of(&self->identity.source, 1);
  self->context = context_of(&options);
  self->server = server_new(self->context);
  peer_init(&self->client, NULL);
  if (version) peer_version(&self->client, version);
}

static void pair_fini(pair *self) {
  server_free(self->server);
  peer_fini(&self->client);
  ab_tls_context_release(self->context);
  pki_identity_free(&self->identity);
}

static void exchange(int version, const char *name) {
  pair pair;
  char buf[64];
  pair_init(&pair, version);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  CHECK(ab_tls_is_done(pair.server->tls));
  CHECK_BYTES(name, ab_tls_version(pair.server->tls), strlen(ab_tls_version(pair.server->tls)));
  CHECK_INT(5, SSL_write(pair.client.ssl, "hello", 5));
  CHECK_INT(5, server_read(pair.server, &pair.client, buf, sizeof buf));
  CHECK_BYTES("hello", buf, 5);
  CHECK_INT(AB_AGAIN, server_read(pair.server, &pair.client, buf, sizeof buf));
  CHECK(server_write(pair.server, &pair.client, "world", 5) > 5);
  CHECK_INT(5, SSL_read(pair.client.ssl, buf, sizeof buf));
  CHECK_BYTES("world", buf, 5);
  pair_fini(&pair);
}

CHECK_CASE(both_versions_carry_bytes) {
  exchange(TLS1_3_VERSION, "TLSv1.3");
  exchange(TLS1_2_VERSION, "TLSv1.2");
}

CHECK_MAIN()
