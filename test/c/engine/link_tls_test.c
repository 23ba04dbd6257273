/* Links through TLS: over a pair of sockets, with a client in memory at the other end. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "engine/link.h"
#include "tls/peer.h"

typedef struct fixture {
  pki_identity identity;
  ab_tls_context *context;
  ab_link_scratch scratch;
  ab_nsec now;
  int64_t second;
  ab_link link;
  int fd; /* the client's */
  peer client;
  bool may_sign;
} fixture;

static void nobody_calls(ab_watch *watch AB_UNUSED, uint32_t events AB_UNUSED) {
  CHECK(!"the watch is not registered");
}

static void fixture_init(fixture *self, int version) {
  static const pki_order order = {.subject = "a.example", .names = "DNS:a.example"};
  int ends[2];
  *self = (fixture){.now = 1000 * AB_NSEC_PER_SEC, .second = PKI_NOW, .may_sign = true};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) abort();
  self->identity = pki_identity_of(&order);
  ab_tls_options options = options_of(&self->identity.source, 1);
  self->context = context_of(&options);
  ab_link_scratch_init(&self->scratch, &ab_mem_libc, &self->now, &self->second);
  ab_link_init(&self->link, ends[0], nobody_calls);
  self->fd = ends[1];
  peer_init(&self->client, NULL);
  if (version) peer_version(&self->client, version);
}

static void begin(fixture *self) {
  CHECK_INT(AB_OK, ab_link_begin_tls(&self->link, &self->scratch, self->context, NULL, 0));
}

static void fixture_fini(fixture *self) {
  if (ab_link_open(&self->link)) ab_link_close(&self->link, false);
  ab_link_scratch_fini(&self->scratch);
  if (self->fd >= 0) close(self->fd);
  peer_fini(&self->client);
  ab_tls_context_release(self->context);
  pki_identity_free(&self->identity);
}

/* What the client has written goes to its socket. */
static void client_sends(fixture *self) {
  static char buf[1 << 20];
  size_t len = peer_take(&self->client, buf, sizeof buf);
  if (len > 0) CHECK_INT(len, write(self->fd, buf, len));
}

/* At most `most` bytes of its socket go to the client; returns how many, 0 at the end. */
static ssize_t client_receives(fixture *self, size_t most) {
  static char buf[1 << 20];
  ssize_t n = recv(self->fd, buf, most < sizeof buf ? most : sizeof buf, 0);
  if (n > 0) peer_give(&self->client, buf, (size_t)n);
  return n;
}

static int handshake(fixture *self) {
  int result = AB_AGAIN;
  for (int i = 0; i < 10 && result == AB_AGAIN; i++) {
    SSL_do_handshake(self->client.ssl);
    client_sends(self);
    result = ab_link_handshake(&self->link, self->may_sign);
    client_receives(self, SIZE_MAX);
  }
  return result;
}

CHECK_CASE(a_link_carries_bytes_through_tls) {
  fixture f;
  char buf[64];
  struct iovec iov[] = {{buf, 4}, {buf + 4, 60}};
  bool drained;
  fixture_init(&f, 0);
  CHECK(!ab_link_is_tls(&f.link) && ab_link_can_move(&f.link));
  begin(&f);
  CHECK(ab_link_is_tls(&f.link) && !ab_link_can_move(&f.link));
  CHECK_INT(-1, ab_link_duplicate(&f.link));
  CHECK_INT(AB_OK, handshake(&f));
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, iov, 2, &drained));
  CHECK(drained);
  SSL_write(f.client.ssl, "0123456789", 10);
  client_sends(&f);
  CHECK_INT(10, ab_link_receive(&f.link, iov, 2, &drained));
  CHECK_BYTES("0123456789", buf, 10);
  CHECK(drained);
  struct iovec out[] = {{"head ", 5}, {"body", 4}};
  CHECK_INT(9, ab_link_send(&f.link, out, 2));
  CHECK(client_receives(&f, SIZE_MAX) > 9);
  CHECK_INT(9, SSL_read(f.client.ssl, buf, sizeof buf)); /* one record */
  CHECK_BYTES("head body", buf, 9);
  fixture_fini(&f);
}

CHECK_MAIN()
