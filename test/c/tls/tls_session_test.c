/* Sessions: handshakes, content in both directions, the end. */
#include "tls/internal.h"
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

/* --- the ClientHello --- */

CHECK_CASE(a_hello_may_come_byte_by_byte) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    pair pair;
    char hello[4096];
    pair_init(&pair, version);
    SSL_do_handshake(pair.client.ssl);
    size_t len = peer_take(&pair.client, hello, sizeof hello);
    CHECK(len > 100);
    for (size_t i = 0; i < len; i++) {
      ab_tls_wire wire = {hello + i, 1, pair.server->out, 0, SERVER_ROOM};
      CHECK_INT(AB_AGAIN, ab_tls_handshake(pair.server->tls, &wire, true, PKI_NOW));
      CHECK_INT(0, wire.in_len);
      CHECK((wire.out_len > 0) == (i == len - 1));
      peer_give(&pair.client, pair.server->out, wire.out_len);
    }
    CHECK_INT(AB_OK, shake(pair.server, &pair.client));
    pair_fini(&pair);
  }
}

/* Gives these bytes at once, or in records of `part`; returns the session's last result. */
static int give(server *server, const char *ptr, size_t len, size_t part) {
  int result = AB_AGAIN;
  for (size_t at = 0; at < len && result == AB_AGAIN; at += part) {
    size_t n = len - at < part ? len - at : part;
    ab_tls_wire wire = {ptr + at, n, server->out, 0, SERVER_ROOM};
    result = ab_tls_handshake(server->tls, &wire, true, PKI_NOW);
  }
  return result;
}

/* A ClientHello of `size` bytes, with a padding extension (RFC 7685), in records of 16 KB. */
static size_t long_hello(peer *client, size_t size, char *out) {
  char hello[4096], *message = malloc(size + 4096);
  SSL_do_handshake(client->ssl);
  size_t len = peer_take(client, hello, sizeof hello) - 5; /* one record */
  memcpy(message, hello + 5, len);
  /* Version, random, session, ciphers, compression: the extensions' length follows. */
  size_t at = 4 + 2 + 32;
  at += 1 + (unsigned char)message[at];
  at += 2 + ((size_t)(unsigned char)message[at] << 8 | (unsigned char)message[at + 1]);
  at += 1 + (unsigned char)message[at];
  size_t padding = size > len + 4 ? size - len - 4 : 0, extensions = len - at - 2 + 4 + padding;
  memcpy(message + len, (char[]){0, 21, (char)(padding >> 8), (char)padding}, 4);
  memset(message + len + 4, 0, padding);
  message[at] = (char)(extensions >> 8);
  message[at + 1] = (char)extensions;
  len += 4 + padding;
  message[1] = (char)((len - 4) >> 16);
  message[2] = (char)((len - 4) >> 8);
  message[3] = (char)(len - 4);
  size_t total = 0;
  for (size_t from = 0; from < len; from += 16384) {
    size_t n = len - from < 16384 ? len - from : 16384;
    memcpy(out + total, (char[]){22, 3, 1, (char)(n >> 8), (char)n}, 5);
    memcpy(out + total + 5, message + from, n);
    total += 5 + n;
  }
  free(message);
  return total;
}

CHECK_CASE(a_hello_may_be_as_long_as_its_extensions) {
  static char bytes[1 << 18];
  const size_t parts[] = {SIZE_MAX / 2, 1000, 1};
  for (size_t i = 0; i < AB_ARRAY_LEN(parts); i++) {
    pair pair;
    pair_init(&pair, TLS1_3_VERSION);
    size_t len = long_hello(&pair.client, 65000, bytes);
    CHECK(len > 65000);
    CHECK_INT(AB_AGAIN, give(pair.server, bytes, len, parts[i]));
    CHECK(!ab_tls_fault(pair.server->tls));
    CHECK(pair.server->out[0] == 22); /* it is answered */
    pair_fini(&pair);
  }
}

CHECK_CASE(a_hello_without_end_is_refused) {
  static char bytes[1 << 18];
  pair pair;
  pair_init(&pair, 0);
  memset(bytes, 0, sizeof bytes);
  for (size_t at = 0; at + 16389 < sizeof bytes; at += 16389) {
    memcpy(bytes + at, (char[]){22, 3, 1, 0x40, 0}, 5);
  }
  memcpy(bytes + 5, (char[]){1, 0x7f, 0, 0, 3, 3}, 6); /* 8 MB are said to follow */
  CHECK_INT(AB_EPEER, give(pair.server, bytes, sizeof bytes, 16389));
  CHECK(ab_tls_fault(pair.server->tls) != NULL);
  pair_fini(&pair);
}

CHECK_CASE(many_extensions_do_no_harm) {
  static char bytes[1 << 18];
  pair pair;
  pair_init(&pair, TLS1_3_VERSION);
  size_t len = long_hello(&pair.client, 8000, bytes);
  /* The padding becomes a thousand empty extensions of unknown kinds. */
  size_t at = len - 4000;
  for (size_t i = 0; i < 1000; i++) {
    memcpy(bytes + at + i * 4, (char[]){(char)(0x70 + (i >> 8)), (char)i, 0, 0}, 4);
  }
  char *header = memmem(bytes, len, "\0\x15", 2);
  while (header &&
         header + 4 + ((unsigned char)header[2] << 8 | (unsigned char)header[3]) != bytes + len) {
    header = memmem(header + 1, len - (size_t)(header + 1 - bytes), "\0\x15", 2);
  }
  CHECK(header != NULL);
  if (header) {
    size_t padding = (size_t)(bytes + at - header - 4);
    header[2] = (char)(padding >> 8);
    header[3] = (char)padding;
    CHECK_INT(AB_AGAIN, give(pair.server, bytes, len, SIZE_MAX / 2));
    CHECK(!ab_tls_fault(pair.server->tls));
  }
  pair_fini(&pair);
}

CHECK_CASE(a_step_that_signs_waits_for_leave) {
  pair pair;
  pair_init(&pair, TLS1_3_VERSION);
  pair.server->may_sign = false;
  SSL_set1_groups_list(pair.client.ssl, "P-521:P-256"); /* HelloRetryRequest comes first */
  CHECK_INT(AB_TLS_SIGNS, shake(pair.server, &pair.client));
  pair.server->may_sign = true;
  CHECK_INT(AB_AGAIN, server_handshake(pair.server, &pair.client));
  pair.server->may_sign = false;
  CHECK_INT(AB_TLS_SIGNS, shake(pair.server, &pair.client)); /* the second ClientHello */
  pair.server->may_sign = true;
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  pair_fini(&pair);
}

/* A flight that the place is too small for comes in parts. */
CHECK_CASE(a_small_place_is_enough) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    pair pair;
    char hello[4096], out[64];
    pair_init(&pair, version);
    SSL_do_handshake(pair.client.ssl);
    size_t len = peer_take(&pair.client, hello, sizeof hello), given = 0;
    ab_tls_wire wire = {hello, len, out, 0, sizeof out};
    for (int i = 0; i < 1000; i++) {
      CHECK_INT(AB_AGAIN, ab_tls_handshake(pair.server->tls, &wire, true, PKI_NOW));
      peer_give(&pair.client, out, wire.out_len);
      given += wire.out_len;
      bool full = wire.out_len == wire.out_size;
      wire.out_len = 0;
      if (!full) break;
    }
    CHECK(given > 500);
    CHECK_INT(AB_OK, shake(pair.server, &pair.client));
    pair_fini(&pair);
  }
}

CHECK_CASE(old_versions_and_foreign_ciphers_are_refused) {
  pair pair;
  pair_init(&pair, 0);
  SSL_set_min_proto_version(pair.client.ssl, TLS1_VERSION);
  SSL_set_max_proto_version(pair.client.ssl, TLS1_1_VERSION);
  SSL_set_cipher_list(pair.client.ssl, "ALL:@SECLEVEL=0");
  CHECK_INT(AB_EPEER, shake(pair.server, &pair.client));
  CHECK_BYTES("unsupported protocol", ab_tls_fault(pair.server->tls),
              strlen(ab_tls_fault(pair.server->tls)));
  pair_fini(&pair);
  const char *weak[] = {"AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256"};
  for (size_t i = 0; i < AB_ARRAY_LEN(weak); i++) {
    pair_init(&pair, TLS1_2_VERSION);
    SSL_set_cipher_list(pair.client.ssl, weak[i]);
    CHECK_INT(AB_EPEER, shake(pair.server, &pair.client));
    CHECK_BYTES("no shared cipher", ab_tls_fault(pair.server->tls),
                strlen(ab_tls_fault(pair.server->tls)));
    pair_fini(&pair);
  }
  pair_init(&pair, TLS1_2_VERSION);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  CHECK(strncmp("ECDHE-ECDSA-", ab_tls_cipher(pair.server->tls), 12) == 0);
  CHECK(ab_tls_cipher_bits(pair.server->tls) >= 128);
  pair_fini(&pair);
}

CHECK_CASE(the_order_of_ciphers_is_the_servers) {
  static const char *const orders[][2] = {
      {"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
       "ECDHE-ECDSA-AES128-GCM-SHA256"},
      {"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305",
       "ECDHE-ECDSA-AES256-GCM-SHA384"},
      /* A client that begins with it has no instructions for AES. */
      {"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
       "ECDHE-ECDSA-CHACHA20-POLY1305"}};
  for (size_t i = 0; i < AB_ARRAY_LEN(orders); i++) {
    pair pair;
    pair_init(&pair, TLS1_2_VERSION);
    SSL_set_cipher_list(pair.client.ssl, orders[i][0]);
    CHECK_INT(AB_OK, shake(pair.server, &pair.client));
    CHECK_BYTES(orders[i][1], ab_tls_cipher(pair.server->tls), strlen(orders[i][1]));
    pair_fini(&pair);
  }
}

/* --- after the handshake --- */

CHECK_CASE(calls_out_of_turn_are_errors) {
  pair pair;
  char buf[16];
  pair_init(&pair, 0);
  CHECK_INT(AB_EPEER, server_read(pair.server, &pair.client, buf, sizeof buf));
  CHECK_INT(AB_EPEER, server_write(pair.server, &pair.client, "x", 1));
  CHECK_INT(0, server_end(pair.server, &pair.client));
  CHECK(!ab_tls_has_bytes(pair.server->tls));
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  CHECK_INT(AB_OK, server_handshake(pair.server, &pair.client));
  CHECK(server_end(pair.server, &pair.client) > 0);
  CHECK_INT(0, server_end(pair.server, &pair.client));
  CHECK_INT(AB_EPEER, server_write(pair.server, &pair.client, "x", 1));
  /* The other direction goes on. */
  CHECK_INT(2, SSL_write(pair.client.ssl, "on", 2));
  CHECK_INT(2, server_read(pair.server, &pair.client, buf, sizeof buf));
  SSL_shutdown(pair.client.ssl);
  CHECK_INT(0, server_read(pair.server, &pair.client, buf, sizeof buf));
  CHECK(ab_tls_peer_has_ended(pair.server->tls));
  pair_fini(&pair);
}

CHECK_CASE(records_have_the_room_that_is_promised) {
  static char plenty[AB_TLS_RECORD_MAX];
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    for (int small = 0; small <= 1; small++) {
      pair pair;
      pair_init(&pair, version);
      if (small) {
        SSL_set_tlsext_max_fragment_length(pair.client.ssl, TLSEXT_max_fragment_length_512);
      }
      CHECK_INT(AB_OK, shake(pair.server, &pair.client));
      ssize_t n = server_write(pair.server, &pair.client, plenty, sizeof plenty);
      CHECK(n > (ssize_t)sizeof plenty);
      CHECK(n <= (ssize_t)sizeof plenty + AB_TLS_RECORD_EXTRA);
      pair_fini(&pair);
    }
  }
}

/* After an error neither content nor close_notify may follow: they would be sent behind the alert.
 */
CHECK_CASE(a_failed_session_says_nothing_more) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    pair pair;
    char buf[16];
    pair_init(&pair, version);
    CHECK_INT(AB_OK, shake(pair.server, &pair.client));
    ab_tls_wire wire = {"\x17\3\3\0\3bad", 8, pair.server->out, 0, SERVER_ROOM};
    CHECK_INT(AB_EPEER, ab_tls_read(pair.server->tls, &wire, buf, sizeof buf));
    CHECK(wire.out_len > 0); /* the alert */
    CHECK(ab_tls_fault(pair.server->tls) != NULL);
    CHECK_INT(0, server_end(pair.server, &pair.client));
    CHECK_INT(AB_EPEER, server_write(pair.server, &pair.client, "x", 1));
    CHECK_INT(AB_EPEER, server_read(pair.server, &pair.client, buf, sizeof buf));
    CHECK_INT(AB_EPEER, server_handshake(pair.server, &pair.client));
    CHECK(!ab_tls_has_bytes(pair.server->tls));
    pair_fini(&pair);
  }
}

/* --- messages without content --- */

/* How many updates of keys are taken until the session fails; `content` bytes come before each. */
static int flood_with_updates(int most, size_t content) {
  static char buf[1 << 20], bytes[1 << 17];
  pair pair;
  int taken = 0;
  pair_init(&pair, TLS1_3_VERSION);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  while (taken < most) {
    if (content > 0) SSL_write(pair.client.ssl, bytes, (int)content);
    SSL_key_update(pair.client.ssl, SSL_KEY_UPDATE_REQUESTED);
    SSL_do_handshake(pair.client.ssl);
    ssize_t n;
    while ((n = server_read(pair.server, &pair.client, buf, sizeof buf)) > 0) continue;
    if (n != AB_AGAIN) break;
    CHECK(server_write(pair.server, &pair.client, "x", 1) > 0); /* sends the answer too */
    taken++;
  }
  if (taken < most) {
    const char *fault = ab_tls_fault(pair.server->tls);
    CHECK_BYTES("too many messages without content", fault, strlen(fault));
    CHECK_INT(AB_EPEER, server_write(pair.server, &pair.client, "x", 1));
  }
  pair_fini(&pair);
  return taken;
}

CHECK_CASE(updates_of_keys_are_counted) {
  CHECK_INT(128, flood_with_updates(1000, 0));
  CHECK_INT(200, flood_with_updates(200, 65536)); /* content makes up for them */
}

/* All in one read: no more than the limit are looked at. */
CHECK_CASE(a_flood_in_one_piece_stops_early) {
  pair pair;
  char buf[16];
  pair_init(&pair, TLS1_3_VERSION);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  for (int i = 0; i < 1000; i++) {
    SSL_key_update(pair.client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(pair.client.ssl);
  }
  server_pull(pair.server, &pair.client);
  size_t before = pair.server->in_len;
  CHECK_INT(AB_EPEER, server_read(pair.server, &pair.client, buf, sizeof buf));
  size_t taken = before - pair.server->in_len;
  CHECK(taken > before / 10 && taken < before / 7);
  pair_fini(&pair);
}

/* Version 1.2: attempts to negotiate anew are refused, and counted. */
CHECK_CASE(renegotiation_is_refused_and_counted) {
  pair pair;
  char buf[16];
  pair_init(&pair, TLS1_2_VERSION);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  CHECK_INT(0, pair.server->tls->excess);
  CHECK_INT(1, SSL_renegotiate(pair.client.ssl));
  SSL_do_handshake(pair.client.ssl);
  CHECK_INT(AB_AGAIN, server_read(pair.server, &pair.client, buf, sizeof buf));
  CHECK_INT(1, pair.server->tls->excess);
  ERR_clear_error();
  CHECK(SSL_do_handshake(pair.client.ssl) <= 0);
  CHECK_INT(SSL_R_NO_RENEGOTIATION, ERR_GET_REASON(ERR_peek_error()));
  CHECK(server_write(pair.server, &pair.client, "x", 1) > 0); /* we go on */
  pair_fini(&pair);
}

/* What version 1.3 has to pass over for the sake of old boxes in between. */
CHECK_CASE(a_flood_of_changes_of_ciphers_ends_the_handshake) {
  pair pair;
  int taken = 0;
  pair_init(&pair, TLS1_3_VERSION);
  SSL_do_handshake(pair.client.ssl);
  CHECK_INT(AB_AGAIN, server_handshake(pair.server, &pair.client));
  while (taken < 1000 && give(pair.server, "\x14\3\3\0\1\1", 6, 6) == AB_AGAIN) taken++;
  CHECK(taken >= 1 && taken < 64);
  pair_fini(&pair);
}

/* Warnings that mean nothing: CVE-2016-8610. */
CHECK_CASE(a_flood_of_alerts_ends_the_session) {
  pair pair;
  char buf[16];
  int taken = 0;
  const char *warning = "\x15\3\3\0\2\1\x5a";
  pair_init(&pair, TLS1_2_VERSION);
  SSL_do_handshake(pair.client.ssl);
  CHECK_INT(AB_AGAIN, server_handshake(pair.server, &pair.client));
  while (taken < 1000 && give(pair.server, warning, 7, 7) == AB_AGAIN) taken++;
  CHECK(taken < 10);
  pair_fini(&pair);
  /* And in clear where there must be none. */
  pair_init(&pair, TLS1_2_VERSION);
  CHECK_INT(AB_OK, shake(pair.server, &pair.client));
  ab_tls_wire wire = {warning, 7, pair.server->out, 0, SERVER_ROOM};
  CHECK_INT(AB_EPEER, ab_tls_read(pair.server->tls, &wire, buf, sizeof buf));
  pair_fini(&pair);
}

CHECK_MAIN()
