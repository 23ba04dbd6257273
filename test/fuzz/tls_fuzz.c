/* A session of TLS gets what libFuzzer invents: as the first bytes of a connection, or behind a
 * real handshake, between what a real client says. */
#include "fuzz.h"

#include "tls/peer.h"

/* Made once: a certificate takes longer than an input. */
static ab_tls_context *context_for_all(void) {
  static ab_tls_context *context;
  if (context) return context;
  static const pki_order order = {.subject = "a.example",
                                  .names = "DNS:a.example, DNS:*.b.example"};
  pki_identity identity = pki_identity_of(&order);
  ab_tls_options options = options_of(&identity.source, 1);
  context = context_of(&options);
  pki_identity_free(&identity);
  return context;
}

static char out[SERVER_ROOM], content[SERVER_ROOM], said[SERVER_ROOM];

static void check_wire(const ab_tls_wire *wire) {
  require(wire->out_len <= sizeof out, "it stays in its place");
  require(ERR_peek_error() == 0, "it leaves no error");
}

/* --- the first bytes of a connection --- */

/* What is sent is whole records of kinds that a server sends. */
static void check_records(const char *ptr, size_t len) {
  for (size_t at = 0; at < len;) {
    const uint8_t *head = (const uint8_t *)ptr + at;
    require(len - at >= 5, "a record has a header");
    size_t size = (size_t)head[3] << 8 | head[4];
    require(head[0] >= 20 && head[0] <= 23 && len - at - 5 >= size, "a record is whole");
    at += 5 + size;
  }
}

/* Returns the last result; *said_len: bytes that were answered, *name_len: of the name asked for.
 */
static int play_hello(fuzz_input *input, size_t *said_len, size_t *name_len) {
  ab_tls *tls = ab_tls_init(&ab_mem_libc, context_for_all());
  require(tls != NULL, "there is memory");
  int result = AB_AGAIN;
  *said_len = 0;
  for (size_t at = 0; at < input->len && result == AB_AGAIN;) {
    size_t step = fuzz_next_segment(input, at), rest = input->len - at;
    if (step > rest) step = rest;
    char *bytes = fuzz_copy(input->bytes + at, step);
    ab_tls_wire wire = {bytes, step, out, 0, sizeof out};
    result = ab_tls_handshake(tls, &wire, false, PKI_NOW);
    require(result == AB_TLS_SIGNS || wire.out_len == 0 || result == AB_EPEER,
            "without leave nothing is answered");
    if (result == AB_TLS_SIGNS) result = ab_tls_handshake(tls, &wire, true, PKI_NOW);
    require(result != AB_OK, "nobody finishes without keys");
    require(result == AB_AGAIN || result == AB_EPEER || result == AB_TLS_SIGNS,
            "a result is one of those");
    check_wire(&wire);
    check_records(out, wire.out_len);
    *said_len += wire.out_len;
    free(bytes);
    at += step;
  }
  require((result == AB_EPEER) == (ab_tls_fault(tls) != NULL), "a failure has a reason");
  ab_view name = ab_tls_server_name(tls);
  require(!name.ptr || strlen(name.ptr) == name.len, "a name is text");
  *name_len = name.len;
  ab_tls_fini(tls);
  return result;
}

/* --- behind a handshake --- */

/* Each two bytes of the input are a deed of the client and its size. */
static void play_talk(fuzz_input *input) {
  server *server = server_new(context_for_all());
  peer client;
  size_t got = 0, written = 0;
  bool sound = true, over = false;
  peer_init(&client, NULL);
  peer_version(&client, input->len % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
  require(shake(server, &client) == AB_OK, "the handshake is done");
  for (size_t at = 0; at + 1 < input->len && !over; at += 2) {
    unsigned deed = (unsigned char)input->bytes[at], size = (unsigned char)input->bytes[at + 1];
    if (deed % 8 < 4) {
      if (written + size * 64 > sizeof said) break;
      memset(said + written, (int)(at & 0xff), size * 64);
      int n = size > 0 ? SSL_write(client.ssl, said + written, (int)size * 64) : 0;
      if (n > 0) written += (size_t)n;
    } else if (deed % 8 == 4) {
      SSL_key_update(client.ssl, size % 2);
      SSL_do_handshake(client.ssl);
    } else if (deed % 8 == 5) {
      SSL_renegotiate(client.ssl);
      SSL_do_handshake(client.ssl);
    } else if (deed % 8 == 6) { /* damage: the bytes that follow, in clear */
      size_t len = size < input->len - at - 2 ? size : input->len - at - 2;
      server_pull(server, &client);
      memcpy(server->in + server->in_len, input->bytes + at + 2, len);
      server->in_len += len;
      sound = sound && len == 0;
    } else {
      SSL_shutdown(client.ssl);
    }
    ERR_clear_error();
    for (ssize_t n = 1; n > 0 && !over;) {
      char *place = fuzz_copy(content, size + 1u);
      n = server_read(server, &client, place, size + 1u);
      require(ERR_peek_error() == 0, "it leaves no error");
      require(got + (n > 0 ? (size_t)n : 0) <= written, "nothing comes that was not said");
      require(n <= 0 || memcmp(said + got, place, (size_t)n) == 0, "content comes as it was said");
      if (n > 0) got += (size_t)n;
      over = n == 0 || n == AB_EPEER;
      free(place);
    }
    if (!over && deed & 0x40) {
      require(server_write(server, &client, said, 1 + size * 8) > 0, "it can answer");
    }
  }
  require(!sound || over || got == written, "all content comes");
  require(server_end(server, &client) <= 64, "the end is short");
  server_free(server);
  peer_fini(&client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  if (data[0] & 0x80) {
    play_talk(&input);
    return 0;
  }
  size_t answered, answered_whole, name, name_whole;
  int result = play_hello(&input, &answered, &name);
  input.cut_count = 0;
  int whole = play_hello(&input, &answered_whole, &name_whole);
  require(result == whole, "the verdict does not depend on segments");
  require(name == name_whole, "nor does the name");
  require((answered > 0) == (answered_whole > 0), "nor whether there is an answer");
  return 0;
}
