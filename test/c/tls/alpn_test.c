/* The protocol that is chosen (RFC 7301). */
#include "tls/peer.h"

typedef struct choice {
  int result;
  bool http2;
  char protocol[16]; /* as the session tells; "" for none */
  char seen[16];     /* as the client has it */
  int alert;         /* what it was told, as SSL_alert_desc_string_long's number; 0: nothing */
} choice;

static pki_identity identity;
static int last_alert;

static void note_alert(const SSL *ssl AB_UNUSED, int where, int what) {
  if (where == SSL_CB_READ_ALERT && what >> 8 == SSL3_AL_FATAL) last_alert = what & 0xff;
}

/* What comes of a client's list, as it stands on the wire. */
static choice choose(bool http2, int version, const char *ciphers, const char *list, size_t len) {
  if (!identity.source.chain) {
    static const pki_order order = {.subject = "a", .names = "DNS:a.example", .kind = "RSA"};
    identity = pki_identity_of(&order);
  }
  ab_tls_options options = options_of(&identity.source, 1);
  options.http2 = http2;
  options.ciphers = ciphers;
  ab_tls_context *context = context_of(&options);
  server *server = server_new(context);
  peer client;
  choice choice = {0};
  peer_init(&client, NULL);
  peer_version(&client, version);
  SSL_set_info_callback(client.ssl, note_alert);
  if (len > 0) SSL_set_alpn_protos(client.ssl, (const unsigned char *)list, (unsigned)len);
  last_alert = 0;
  choice.result = shake(server, &client);
  choice.alert = last_alert;
  choice.http2 = ab_tls_chose_http2(server->tls);
  const char *name = ab_tls_protocol(server->tls);
  snprintf(choice.protocol, sizeof choice.protocol, "%s", name ? name : "");
  const unsigned char *seen;
  unsigned seen_len;
  SSL_get0_alpn_selected(client.ssl, &seen, &seen_len);
  memcpy(choice.seen, seen_len ? (const char *)seen : "", seen_len);
  server_free(server);
  peer_fini(&client);
  ab_tls_context_release(context);
  return choice;
}

#define LIST(text) text, sizeof(text) - 1

static void check_choice(const char *protocol, choice choice) {
  CHECK_INT(AB_OK, choice.result);
  CHECK_BYTES(protocol, choice.protocol, strlen(choice.protocol));
  CHECK_BYTES(protocol, choice.seen, strlen(choice.seen));
  CHECK(choice.http2 == (strcmp(protocol, "h2") == 0));
}

CHECK_CASE(the_server_prefers_http2) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    check_choice("h2", choose(true, version, NULL, LIST("\2h2\10http/1.1")));
    check_choice("h2", choose(true, version, NULL, LIST("\10http/1.1\2h2")));
    check_choice("h2", choose(true, version, NULL, LIST("\3h2c\2h2")));
    check_choice("http/1.1", choose(true, version, NULL, LIST("\10http/1.1")));
    check_choice("http/1.1", choose(false, version, NULL, LIST("\2h2\10http/1.1")));
    check_choice("", choose(true, version, NULL, NULL, 0));
  }
}

CHECK_CASE(without_a_common_protocol_there_is_an_alert) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    choice choice = choose(true, version, NULL, LIST("\10http/1.0\6spdy/3"));
    CHECK_INT(AB_EPEER, choice.result);
    CHECK_INT(SSL_AD_NO_APPLICATION_PROTOCOL, choice.alert);
    choice = choose(false, version, NULL, LIST("\2h2"));
    CHECK_INT(AB_EPEER, choice.result);
    CHECK_INT(SSL_AD_NO_APPLICATION_PROTOCOL, choice.alert);
    choice = choose(true, version, NULL, LIST("\1h\7http/1.\11http/1.1x"));
    CHECK_INT(SSL_AD_NO_APPLICATION_PROTOCOL, choice.alert);
  }
}

/* RFC 9113 9.2.2: a client that offers no better cipher gets HTTP/1. */
CHECK_CASE(http2_needs_a_modern_cipher) {
  const char *list = "\2h2\10http/1.1";
  check_choice("http/1.1", choose(true, TLS1_2_VERSION, "ECDHE-RSA-AES128-SHA256", list, 12));
  check_choice("http/1.1", choose(true, TLS1_2_VERSION, "AES128-GCM-SHA256", list, 12));
  check_choice("h2", choose(true, TLS1_2_VERSION, "ECDHE-RSA-AES128-GCM-SHA256", list, 12));
  CHECK_INT(AB_EPEER, choose(true, TLS1_2_VERSION, "AES128-GCM-SHA256", list, 3).result);
}

/* --- lists that no client of OpenSSL's sends --- */

/* A ClientHello whose list has these bytes; they are as many as those of "\10http/1.1". */
static int send_list(const char *bytes) {
  ab_tls_options options = options_of(&identity.source, 1);
  ab_tls_context *context = context_of(&options);
  server *server = server_new(context);
  peer client;
  peer_init(&client, NULL);
  SSL_set_alpn_protos(client.ssl, (const unsigned char *)"\10http/1.1", 9);
  SSL_do_handshake(client.ssl);
  server_pull(server, &client);
  char *found = memmem(server->in, server->in_len, "\0\x9\10http/1.1", 11);
  CHECK(found != NULL);
  if (found) memcpy(found, bytes, 11);
  int result = server_handshake(server, &client);
  peer_fini(&client);
  server_free(server);
  ab_tls_context_release(context);
  return result;
}

CHECK_CASE(malformed_lists_end_the_handshake) {
  CHECK_INT(AB_OK, choose(true, TLS1_3_VERSION, NULL, LIST("\2h2")).result);
  CHECK_INT(AB_AGAIN, send_list("\0\x9\10http/1.1"));
  CHECK_INT(AB_EPEER, send_list("\0\0\10http/1.1"));   /* empty, with bytes behind it */
  CHECK_INT(AB_EPEER, send_list("\0\x9\0http/1.1"));   /* an empty name */
  CHECK_INT(AB_EPEER, send_list("\0\x9\11http/1.1"));  /* a name beyond the end */
  CHECK_INT(AB_EPEER, send_list("\0\x9\xffhttp/1.1")); /* far beyond it */
  CHECK_INT(AB_EPEER, send_list("\0\x8\7http/1.1"));   /* bytes behind the list */
  CHECK_INT(AB_EPEER, send_list("\1\x9\10http/1.1"));  /* a list beyond its extension */
  pki_identity_free(&identity);
}

CHECK_MAIN()
