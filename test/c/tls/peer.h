/* A client of OpenSSL's over memory, and what joins it to a session of ours. */
#ifndef AB_TEST_TLS_PEER_H
#define AB_TEST_TLS_PEER_H

#include <openssl/ssl.h>

#include "check.h"
#include "tls/pki.h"
#include "tls/session.h"

/* --- the client --- */

typedef struct peer {
  SSL_CTX *ctx;
  SSL *ssl;
  BIO *in, *out; /* what it reads, and what it has written */
} peer;

static AB_UNUSED SSL_CTX *peer_context(void) {
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  return ctx;
}

static AB_UNUSED void peer_init(peer *self, SSL_CTX *ctx) {
  if (ctx) SSL_CTX_up_ref(ctx);
  self->ctx = ctx ? ctx : peer_context();
  self->ssl = SSL_new(self->ctx);
  self->in = BIO_new(BIO_s_mem());
  self->out = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(self->in, -1);
  SSL_set_bio(self->ssl, self->in, self->out);
  SSL_set_connect_state(self->ssl);
}

static AB_UNUSED void peer_version(peer *self, int version) {
  SSL_set_min_proto_version(self->ssl, version);
  SSL_set_max_proto_version(self->ssl, version);
}

static AB_UNUSED void peer_fini(peer *self) {
  SSL_free(self->ssl);
  SSL_CTX_free(self->ctx);
  ERR_clear_error();
}

/* Takes what it has written; returns bytes. */
static AB_UNUSED size_t peer_take(peer *self, char *buf, size_t room) {
  int n = BIO_read(self->out, buf, (int)room);
  return n > 0 ? (size_t)n : 0;
}

static AB_UNUSED void peer_give(peer *self, const char *ptr, size_t len) {
  if (len > 0 && BIO_write(self->in, ptr, (int)len) != (int)len) abort();
}

/* --- the session --- */

#define SERVER_ROOM (1 << 20)

typedef struct server {
  ab_tls *tls;
  char in[SERVER_ROOM]; /* from the client, not yet taken */
  size_t in_len;
  char out[SERVER_ROOM];
  bool may_sign;
  int64_t now;
} server;

/* The first byte that the session has not taken moves to the front. */
static AB_UNUSED void server_took(server *self, const ab_tls_wire *wire) {
  memmove(self->in, self->in + (self->in_len - wire->in_len), wire->in_len);
  self->in_len = wire->in_len;
}

static AB_UNUSED server *server_new(ab_tls_context *context) {
  server *self = calloc(1, sizeof *self);
  self->tls = ab_tls_init(&ab_mem_libc, context);
  self->may_sign = true;
  self->now = PKI_NOW;
  return self;
}

static AB_UNUSED void server_free(server *self) {
  ab_tls_fini(self->tls);
  free(self);
}

static AB_UNUSED void server_pull(server *self, peer *client) {
  self->in_len += peer_take(client, self->in + self->in_len, SERVER_ROOM - self->in_len);
}

static AB_UNUSED int server_handshake(server *self, peer *client) {
  server_pull(self, client);
  ab_tls_wire wire = {self->in, self->in_len, self->out, 0, SERVER_ROOM};
  int result = ab_tls_handshake(self->tls, &wire, self->may_sign, self->now);
  server_took(self, &wire);
  peer_give(client, self->out, wire.out_len);
  return result;
}

/* Until nobody has anything to say. Returns the session's last result. */
static AB_UNUSED int shake(server *self, peer *client) {
  int result = AB_AGAIN;
  for (int i = 0; i < 10 && result == AB_AGAIN; i++) {
    SSL_do_handshake(client->ssl);
    ERR_clear_error();
    result = server_handshake(self, client);
  }
  SSL_do_handshake(client->ssl);
  ERR_clear_error();
  return result;
}

static AB_UNUSED ssize_t server_read(server *self, peer *client, char *buf, size_t room) {
  server_pull(self, client);
  ab_tls_wire wire = {self->in, self->in_len, self->out, 0, SERVER_ROOM};
  ssize_t n = ab_tls_read(self->tls, &wire, buf, room);
  server_took(self, &wire);
  peer_give(client, self->out, wire.out_len);
  return n;
}

/* Returns the bytes on the wire, or an error. */
static AB_UNUSED ssize_t server_write(server *self, peer *client, const char *ptr, size_t len) {
  ab_tls_wire wire = {NULL, 0, self->out, 0, SERVER_ROOM};
  int error = ab_tls_write(self->tls, &wire, ptr, len);
  peer_give(client, self->out, wire.out_len);
  return error ? error : (ssize_t)wire.out_len;
}

static AB_UNUSED size_t server_end(server *self, peer *client) {
  ab_tls_wire wire = {NULL, 0, self->out, 0, SERVER_ROOM};
  ab_tls_end(self->tls, &wire);
  peer_give(client, self->out, wire.out_len);
  return wire.out_len;
}

/* --- contexts --- */

static AB_UNUSED ab_tls_options options_of(const ab_tls_identity *identities, size_t count) {
  return (ab_tls_options){.identities = identities,
                          .identity_count = count,
                          .http2 = true,
                          .tickets = true,
                          .ticket_secret = "thirty-two bytes of no secret..",
                          .name = "ssl://0.0.0.0:443"};
}

static AB_UNUSED ab_tls_context *context_of(const ab_tls_options *options) {
  ab_tls_problem problem;
  ab_tls_context *context = ab_tls_context_new(&ab_mem_libc, options, PKI_NOW, &problem);
  if (!context) {
    fprintf(stderr, "no context: %s\n", problem.text);
    abort();
  }
  return context;
}

#endif
