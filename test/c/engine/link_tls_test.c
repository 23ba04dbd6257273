/* Links through TLS: over a pair of sockets, with a client in memory at the other end. */
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

static void establish(fixture *self) {
  begin(self);
  CHECK_INT(AB_OK, handshake(self));
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

/* --- the handshake --- */

CHECK_CASE(bytes_that_came_before_are_a_part_of_it) {
  fixture f;
  char hello[4096], buf[16];
  struct iovec iov = {buf, sizeof buf};
  bool drained;
  fixture_init(&f, 0);
  SSL_do_handshake(f.client.ssl);
  size_t len = peer_take(&f.client, hello, sizeof hello);
  CHECK_INT(AB_OK, ab_link_begin_tls(&f.link, &f.scratch, f.context, hello, 100));
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  CHECK_INT(len - 100, write(f.fd, hello + 100, len - 100));
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  CHECK(client_receives(&f, SIZE_MAX) > 0);
  /* What the client says at once behind its end of the handshake is not lost. */
  SSL_do_handshake(f.client.ssl);
  SSL_write(f.client.ssl, "early bird", 10);
  client_sends(&f);
  CHECK_INT(AB_OK, ab_link_handshake(&f.link, true));
  CHECK_INT(10, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_BYTES("early bird", buf, 10);
  CHECK(!drained); /* the socket was not asked */
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK(drained);
  fixture_fini(&f);
}

CHECK_CASE(a_step_that_signs_waits_for_leave) {
  for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
    fixture f;
    fixture_init(&f, version);
    begin(&f);
    f.may_sign = false;
    CHECK_INT(AB_LINK_SIGNS, handshake(&f));
    CHECK_INT(AB_LINK_SIGNS, ab_link_handshake(&f.link, false));
    CHECK_INT(AB_AGAIN, client_receives(&f, SIZE_MAX) < 0 ? AB_AGAIN : AB_OK); /* no answer yet */
    CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
    CHECK(client_receives(&f, SIZE_MAX) > 0);
    CHECK_INT(AB_OK, handshake(&f)); /* what follows does not sign */
    fixture_fini(&f);
  }
}

CHECK_CASE(what_is_not_tls_is_given_back) {
  const char *others[] = {"GET / HTTP/1.1\r\n\r\n", "\x80\x2e\1\3\1", "\x15\3\1\0\2\2\x28", "x"};
  for (size_t i = 0; i < AB_ARRAY_LEN(others); i++) {
    fixture f;
    char buf[64];
    struct iovec iov = {"HTTP/1.1 400", 12};
    size_t len = i == 2 ? 7 : strlen(others[i]);
    fixture_init(&f, 0);
    CHECK_INT(AB_OK, ab_link_begin_tls(&f.link, &f.scratch, f.context, others[i], i == 3));
    if (i < 3) CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
    if (i < 3) CHECK_INT(len, write(f.fd, others[i], len));
    CHECK_INT(AB_LINK_CLEAR, ab_link_handshake(&f.link, true));
    CHECK_INT(AB_LINK_CLEAR, ab_link_handshake(&f.link, true));
    ab_view clear = ab_link_clear_bytes(&f.link);
    CHECK(clear.len == len && memcmp(others[i], clear.ptr, len) == 0);
    ab_link_drop_tls(&f.link);
    CHECK(!ab_link_is_tls(&f.link));
    CHECK_INT(12, ab_link_send(&f.link, &iov, 1));
    CHECK_INT(12, recv(f.fd, buf, sizeof buf, 0));
    CHECK_BYTES("HTTP/1.1 400", buf, 12);
    ab_link_drop_tls(&f.link); /* nothing */
    fixture_fini(&f);
  }
}

/* Clear bytes within the handshake are never anything but an error. */
CHECK_CASE(clear_bytes_behind_the_first_record_fail) {
  fixture f;
  char buf[64];
  struct iovec iov = {buf, sizeof buf};
  bool drained;
  fixture_init(&f, 0);
  begin(&f);
  SSL_do_handshake(f.client.ssl);
  client_sends(&f);
  CHECK_INT(18, write(f.fd, "GET / HTTP/1.1\r\n\r\n", 18));
  CHECK_INT(AB_EPEER, ab_link_handshake(&f.link, true));
  CHECK_INT(AB_EPEER, ab_link_handshake(&f.link, true));
  CHECK_INT(AB_EPEER, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_INT(AB_EPEER, ab_link_send(&f.link, &iov, 1));
  CHECK_INT(AB_EPEER, ab_link_sendfile(&f.link, f.fd, 0, 1));
  CHECK(ab_tls_fault(ab_link_session(&f.link)) != NULL);
  fixture_fini(&f);
}

CHECK_CASE(a_client_that_goes_ends_the_handshake) {
  for (int half = 0; half <= 1; half++) {
    fixture f;
    fixture_init(&f, 0);
    begin(&f);
    SSL_do_handshake(f.client.ssl);
    if (half) client_sends(&f);
    if (half) CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
    close(f.fd);
    f.fd = -1;
    CHECK_INT(AB_EPEER, ab_link_handshake(&f.link, true));
    fixture_fini(&f);
  }
}

/* The answer to a ClientHello does not fit the socket. */
CHECK_CASE(a_full_socket_holds_the_handshake_up) {
  fixture f;
  static char filler[1 << 20];
  struct iovec iov = {filler, sizeof filler};
  fixture_init(&f, 0);
  size_t filled = 0;
  for (ssize_t n; (n = ab_link_send(&f.link, &iov, 1)) > 0;) filled += (size_t)n;
  begin(&f);
  SSL_do_handshake(f.client.ssl);
  client_sends(&f);
  CHECK(!ab_link_owes(&f.link));
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  CHECK(ab_link_owes(&f.link) && !ab_link_is_amid(&f.link));
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  while (filled > 0) {
    ssize_t n = recv(f.fd, filler, filled, 0);
    if (n > 0) filled -= (size_t)n;
  }
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  CHECK(!ab_link_owes(&f.link));
  CHECK(client_receives(&f, SIZE_MAX) > 0);
  CHECK_INT(AB_OK, handshake(&f));
  fixture_fini(&f);
}

/* --- receiving --- */

CHECK_CASE(drained_means_that_nothing_is_kept_anywhere) {
  fixture f;
  char buf[8];
  struct iovec iov = {buf, 4};
  bool drained;
  fixture_init(&f, 0);
  establish(&f);
  SSL_write(f.client.ssl, "01234567", 8);
  SSL_write(f.client.ssl, "abcdef", 6);
  client_sends(&f);
  CHECK_INT(4, ab_link_receive(&f.link, &iov, 1, &drained)); /* the session has the rest */
  CHECK(!drained);
  CHECK_INT(4, ab_link_receive(&f.link, &iov, 1, &drained)); /* a record waits */
  CHECK(!drained);
  CHECK_INT(4, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_BYTES("abcd", buf, 4);
  CHECK(!drained);
  CHECK_INT(2, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_BYTES("ef", buf, 2);
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK(drained);
  fixture_fini(&f);
}

/* A megabyte, in pieces and buffers of every size. */
CHECK_CASE(large_bodies_arrive_whole) {
  enum { SIZE = 1 << 20 };
  static char sent[SIZE], got[SIZE + 8];
  uint32_t state = 7;
  for (size_t i = 0; i < SIZE; i++) sent[i] = (char)((state = state * 1103515245 + 12345) >> 16);
  const size_t rooms[] = {1000, 16384, 65536, 17, 100000};
  for (size_t r = 0; r < AB_ARRAY_LEN(rooms); r++) {
    fixture f;
    bool drained = false;
    size_t at = 0, written = 0, room = rooms[r];
    fixture_init(&f, r % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
    establish(&f);
    for (int calls = 0; at < SIZE && calls < 200000; calls++) {
      if (written < SIZE && drained) {
        size_t part = SIZE - written < 30000 ? SIZE - written : 30000;
        SSL_write(f.client.ssl, sent + written, (int)part);
        written += part;
        client_sends(&f);
      }
      size_t left = sizeof got - at < room ? sizeof got - at : room;
      struct iovec iov[] = {{got + at, left / 3}, {got + at + left / 3, left - left / 3}};
      ssize_t n = ab_link_receive(&f.link, iov, 2, &drained);
      if (n > 0) at += (size_t)n;
      if (n < 0 && n != AB_AGAIN) break;
    }
    CHECK_INT(SIZE, at);
    CHECK(memcmp(sent, got, SIZE) == 0);
    fixture_fini(&f);
  }
}

/* Half a record, then silence: the link waits for the poller. */
CHECK_CASE(half_a_record_is_not_a_reason_to_ask_again) {
  fixture f;
  char record[128], buf[64];
  struct iovec iov = {buf, sizeof buf};
  bool drained = false;
  fixture_init(&f, 0);
  establish(&f);
  SSL_write(f.client.ssl, "content", 7);
  size_t len = peer_take(&f.client, record, sizeof record);
  for (size_t i = 0; i + 1 < len; i++) {
    CHECK_INT(1, write(f.fd, record + i, 1));
    CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
    CHECK(drained);
  }
  CHECK_INT(1, write(f.fd, record + len - 1, 1));
  CHECK_INT(7, ab_link_receive(&f.link, &iov, 1, &drained));
  fixture_fini(&f);
}

CHECK_CASE(the_peers_end_is_the_streams) {
  /* With close_notify, without, and in the middle of a record. */
  for (int how = 0; how < 3; how++) {
    fixture f;
    char buf[64];
    struct iovec iov = {buf, sizeof buf};
    bool drained;
    fixture_init(&f, 0);
    establish(&f);
    CHECK(!ab_link_ended(&f.link, true));
    SSL_write(f.client.ssl, "last", 4);
    if (how == 0) SSL_shutdown(f.client.ssl);
    if (how == 2) {
      char half[64];
      client_sends(&f);
      SSL_write(f.client.ssl, "lost", 4);
      CHECK(peer_take(&f.client, half, 9) == 9);
      CHECK_INT(9, write(f.fd, half, 9));
    } else {
      client_sends(&f);
    }
    if (how > 0) shutdown(f.fd, SHUT_WR);
    CHECK_INT(4, ab_link_receive(&f.link, &iov, 1, &drained));
    CHECK_BYTES("last", buf, 4);
    if (how == 0) CHECK(!drained); /* no event tells of it */
    CHECK_INT(0, ab_link_receive(&f.link, &iov, 1, &drained));
    CHECK_INT(0, ab_link_receive(&f.link, &iov, 1, &drained));
    CHECK(ab_link_ended(&f.link, true));
    CHECK(!ab_link_ended(&f.link, false));
    CHECK(ab_tls_peer_has_ended(ab_link_session(&f.link)) == (how == 0));
    /* The other direction is open. */
    struct iovec answer = {"answer", 6};
    CHECK_INT(6, ab_link_send(&f.link, &answer, 1));
    client_receives(&f, SIZE_MAX);
    CHECK_INT(6, SSL_read(f.client.ssl, buf, sizeof buf));
    fixture_fini(&f);
  }
}

CHECK_CASE(damaged_records_end_the_link_with_an_alert) {
  fixture f;
  char buf[64];
  struct iovec iov = {buf, sizeof buf};
  bool drained;
  fixture_init(&f, 0);
  establish(&f);
  SSL_write(f.client.ssl, "good", 4);
  client_sends(&f);
  CHECK_INT(8, write(f.fd, "\x17\3\3\0\3bad", 8));
  CHECK_INT(4, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK(!drained); /* the error is still to be told */
  CHECK_INT(AB_EPEER, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK(client_receives(&f, SIZE_MAX) > 0);
  SSL_read(f.client.ssl, buf, sizeof buf);
  CHECK(ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET); /* an alert */
  ERR_clear_error();
  ab_link_close(&f.link, false);
  CHECK_INT(0, client_receives(&f, SIZE_MAX)); /* and no close_notify behind it */
  fixture_fini(&f);
}

/* --- sending --- */

CHECK_CASE(a_batch_that_does_not_fit_is_reported_as_it_leaves) {
  enum { SIZE = 1 << 20 };
  static char sent[SIZE], got[SIZE];
  for (size_t i = 0; i < SIZE; i++) sent[i] = (char)(i * 7 + i / 251);
  const size_t steps[] = {SIZE_MAX, 100000, 1000, 4096};
  for (size_t s = 0; s < AB_ARRAY_LEN(steps); s++) {
    fixture f;
    int small = 4096;
    size_t at = 0, read = 0;
    bool owed = false;
    fixture_init(&f, s % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
    setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    establish(&f);
    CHECK(client_receives(&f, SIZE_MAX) < 0);
    for (int calls = 0; read < SIZE && calls < 1000000; calls++) {
      /* As an outbox gives it: in pieces, and after an error the same bytes first. */
      struct iovec iov[] = {{sent + at, (SIZE - at) / 2}, {sent + at + (SIZE - at) / 2, 0}};
      iov[1].iov_len = SIZE - at - iov[0].iov_len;
      ssize_t n = at < SIZE ? ab_link_send(&f.link, iov, 2) : 0;
      CHECK(n > 0 || n == AB_AGAIN || at == SIZE);
      if (n > 0) at += (size_t)n;
      owed = owed || ab_link_owes(&f.link);
      if (n == AB_AGAIN) {
        CHECK(ab_link_owes(&f.link));
        CHECK_INT(AB_HAS(UNSENT), ab_link_pending(&f.link) > 0);
      }
      if (at == SIZE) CHECK(!ab_link_owes(&f.link) && !ab_link_is_amid(&f.link));
      if (client_receives(&f, steps[s]) <= 0) continue;
      for (int k; (k = SSL_read(f.client.ssl, got + read, (int)(SIZE - read))) > 0;) {
        read += (size_t)k;
        /* Never before the client can have them. */
        if (read == SIZE) break;
      }
      ERR_clear_error();
    }
    CHECK(owed);
    CHECK_INT(SIZE, read);
    CHECK_INT(SIZE, at);
    CHECK(memcmp(sent, got, SIZE) == 0);
    fixture_fini(&f);
  }
}

/* What counts as sent follows what leaves, so that a slow reader is seen to read. */
CHECK_CASE(a_slow_reader_makes_progress) {
  static char plenty[65536];
  fixture f;
  int small = 2048;
  struct iovec iov = {plenty, sizeof plenty};
  size_t reports = 0, total = 0;
  fixture_init(&f, 0);
  setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  establish(&f);
  while (total < sizeof plenty) {
    iov = (struct iovec){plenty + total, sizeof plenty - total};
    ssize_t n = ab_link_send(&f.link, &iov, 1);
    if (n > 0) {
      total += (size_t)n;
      reports++;
      CHECK(ab_link_is_amid(&f.link) == (total < sizeof plenty));
    }
    client_receives(&f, SIZE_MAX);
  }
  CHECK(reports > 8);
  CHECK_INT(sizeof plenty, total);
  fixture_fini(&f);
}

CHECK_CASE(files_go_through_tls) {
  enum { SIZE = 300000 };
  static char content[SIZE], got[SIZE];
  fixture f;
  int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), small = 4096;
  for (size_t i = 0; i < SIZE; i++) content[i] = (char)(i * 11 + i / 255);
  CHECK_INT(SIZE, write(fd, content, SIZE));
  fixture_init(&f, 0);
  setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  establish(&f);
  size_t at = 1000, read = 1000;
  for (int calls = 0; read < SIZE && calls < 100000; calls++) {
    ssize_t n = at < SIZE ? ab_link_sendfile(&f.link, fd, at, SIZE - at) : 0;
    CHECK(n > 0 || n == AB_AGAIN || at == SIZE);
    if (n > 0) at += (size_t)n;
    client_receives(&f, SIZE_MAX);
    for (int k; (k = SSL_read(f.client.ssl, got + read, (int)(SIZE - read))) > 0;)
      read += (size_t)k;
    ERR_clear_error();
    if (read == SIZE) break;
  }
  CHECK_INT(SIZE, read);
  CHECK(memcmp(content + 1000, got + 1000, SIZE - 1000) == 0);
  CHECK_INT(0, ab_link_sendfile(&f.link, fd, SIZE, 10)); /* it has shrunk */
  CHECK_INT(AB_ESYS, ab_link_sendfile(&f.link, -1, 0, 10));
  close(fd);
  fixture_fini(&f);
}

/* Frames of a file: heads in memory, and parts of it between them. */
static int put_frames(ab_link_piece *pieces, char *heads, int fd, size_t sent) {
  enum { FRAMES = 6, PART = 16384, FRAME = PART + 9 };
  int count = 0;
  for (size_t i = sent / FRAME, at = sent % FRAME; i < FRAMES; i++, at = 0) {
    memcpy(heads + 9 * i, "123456789", 9);
    if (at < 9) pieces[count++] = (ab_link_piece){heads + 9 * i + at, -1, 0, 9 - at};
    size_t in = at < 9 ? 0 : at - 9;
    pieces[count++] = (ab_link_piece){NULL, fd, i * PART + in, PART - in};
  }
  return count;
}

/* However little the socket takes at a time. */
CHECK_CASE(memory_and_files_share_records) {
  enum { PART = 16384, FRAME = PART + 9, ALL = 6 * FRAME };
  static char content[6 * PART], got[ALL];
  for (size_t i = 0; i < sizeof content; i++) content[i] = (char)(i * 7 + i / 255);
  int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  CHECK_INT(sizeof content, write(fd, content, sizeof content));
  for (int small = 0; small < 2; small++) {
    fixture f;
    int room = 2048;
    fixture_init(&f, TLS1_3_VERSION);
    if (small) setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    establish(&f);
    size_t at = 0, read = 0;
    ssize_t first = 0;
    for (int calls = 0; read < ALL && calls < 100000; calls++) {
      ab_link_piece pieces[12];
      char heads[6 * 9];
      ssize_t n =
          at < ALL ? ab_link_send_pieces(&f.link, pieces, put_frames(pieces, heads, fd, at)) : 0;
      CHECK(n > 0 || n == AB_AGAIN || at == ALL);
      if (calls == 0) first = n;
      if (n > 0) at += (size_t)n;
      client_receives(&f, SIZE_MAX);
      for (int k; (k = SSL_read(f.client.ssl, got + read, (int)(ALL - read))) > 0;)
        read += (size_t)k;
      ERR_clear_error();
    }
    if (!small) CHECK_INT(65536, first);
    CHECK_INT(ALL, read);
    for (size_t i = 0; i < 6; i++) {
      CHECK(memcmp(got + i * FRAME, "123456789", 9) == 0);
      CHECK(memcmp(got + i * FRAME + 9, content + i * PART, PART) == 0);
    }
    fixture_fini(&f);
  }
  close(fd);
}

/* What is before it leaves; at the front it is an error. */
CHECK_CASE(pieces_of_a_file_that_has_shrunk) {
  fixture f;
  fixture_init(&f, 0);
  establish(&f);
  int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  CHECK_INT(100, write(fd, "1234567890", 10) * 10);
  const ab_link_piece pieces[] = {{"head", -1, 0, 4}, {NULL, fd, 5, 100}, {"behind", -1, 0, 6}};
  CHECK_INT(9, ab_link_send_pieces(&f.link, pieces, 3));
  const ab_link_piece gone[] = {{NULL, fd, 10, 95}, {"behind", -1, 0, 6}};
  CHECK_INT(0, ab_link_send_pieces(&f.link, gone, 2));
  const ab_link_piece closed[] = {{NULL, -1, 10, 95}, {"behind", -1, 0, 6}};
  CHECK_INT(AB_ESYS, ab_link_send_pieces(&f.link, closed, 2));
  close(fd);
  fixture_fini(&f);
}

/* Four frames with their heads are one batch: what is little more leaves with the rest. */
CHECK_CASE(a_short_rest_leaves_with_its_batch) {
  static char plenty[67585];
  for (size_t len = 65536; len <= sizeof plenty; len++) {
    if (len == 65540) len = 67583;
    fixture f;
    fixture_init(&f, TLS1_3_VERSION);
    establish(&f);
    struct iovec iov = {plenty, len};
    CHECK_INT(len <= 67584 ? len : 65536, ab_link_send(&f.link, &iov, 1));
    fixture_fini(&f);
  }
}

/* The sizes of the records in the client's socket, without their overhead. */
static int read_records(fixture *self, size_t *sizes, int most) {
  static char buf[1 << 20];
  ssize_t n = recv(self->fd, buf, sizeof buf, 0);
  int count = 0;
  for (ssize_t at = 0; at + 5 <= n && count < most;) {
    size_t len = (size_t)((unsigned char)buf[at + 3] << 8 | (unsigned char)buf[at + 4]);
    sizes[count++] = len - 17; /* the type within, and the tag */
    at += (ssize_t)len + 5;
  }
  if (n > 0) peer_give(&self->client, buf, (size_t)n);
  return count;
}

CHECK_CASE(records_are_short_at_first_where_more_follows) {
  static char plenty[200000];
  fixture f;
  size_t sizes[200];
  struct iovec iov[] = {{plenty, 300}, {plenty, sizeof plenty - 300}};
  fixture_init(&f, TLS1_3_VERSION);
  establish(&f);
  /* A whole response in one record. */
  struct iovec whole[] = {{plenty, 300}, {plenty, 16084}};
  CHECK_INT(16384, ab_link_send(&f.link, whole, 2));
  CHECK_INT(1, read_records(&f, sizes, 200));
  CHECK_INT(16384, sizes[0]);
  /* A long one begins with short ones, until 64 KB were sent. */
  CHECK_INT(65536, ab_link_send(&f.link, iov, 2));
  int count = read_records(&f, sizes, 200);
  CHECK_INT(51, count);
  for (int i = 0; i < 50; i++) CHECK_INT(1300, sizes[i]);
  CHECK_INT(65536, ab_link_send(&f.link, iov, 2));
  CHECK_INT(4, read_records(&f, sizes, 200));
  for (int i = 0; i < 4; i++) CHECK_INT(16384, sizes[i]);
  /* And again after a second without output. */
  f.now += AB_NSEC_PER_SEC - 1;
  CHECK_INT(65536, ab_link_send(&f.link, iov, 2));
  CHECK_INT(4, read_records(&f, sizes, 200));
  f.now += AB_NSEC_PER_SEC;
  CHECK_INT(65536, ab_link_send(&f.link, iov, 2));
  CHECK_INT(51, read_records(&f, sizes, 200));
  fixture_fini(&f);
}

/* A reader that takes its time is not idle: a batch that waits for it begins no new start. */
CHECK_CASE(records_stay_long_for_a_slow_reader) {
  static char plenty[200000], taken[220000];
  fixture f;
  int small = 2048;
  size_t total = 0, got = 0, records = 0;
  fixture_init(&f, TLS1_3_VERSION);
  setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  establish(&f);
  while (total < sizeof plenty) {
    struct iovec iov = {plenty + total, sizeof plenty - total};
    ssize_t n = ab_link_send(&f.link, &iov, 1);
    if (n > 0) total += (size_t)n;
    if (ab_link_is_amid(&f.link)) f.now += 2 * AB_NSEC_PER_SEC;
    n = recv(f.fd, taken + got, sizeof taken - got, 0);
    if (n > 0) got += (size_t)n;
  }
  for (size_t at = 0; at + 5 <= got; records++) {
    at += 5 + ((size_t)(unsigned char)taken[at + 3] << 8 | (unsigned char)taken[at + 4]);
  }
  CHECK_INT(51 + 9, records); /* 64 KB in short ones, then long ones */
  fixture_fini(&f);
}

/* A client that asks for short records (RFC 6066 4) gets them, and all of the bytes. */
CHECK_CASE(clients_may_ask_for_short_records) {
  static char sent[40000], got[40000];
  fixture f;
  struct iovec iov = {sent, sizeof sent};
  size_t read = 0, sizes[200];
  for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(i * 3 + i / 253);
  fixture_init(&f, TLS1_3_VERSION);
  SSL_set_tlsext_max_fragment_length(f.client.ssl, TLSEXT_max_fragment_length_512);
  establish(&f);
  CHECK_INT(sizeof sent, ab_link_send(&f.link, &iov, 1));
  int count = read_records(&f, sizes, 200);
  CHECK(count >= 79);
  for (int i = 0; i < count; i++) CHECK(sizes[i] <= 512);
  for (int k; (k = SSL_read(f.client.ssl, got + read, (int)(sizeof got - read))) > 0;) {
    read += (size_t)k;
    if (read == sizeof got) break;
  }
  CHECK_INT(sizeof sent, read);
  CHECK(memcmp(sent, got, sizeof sent) == 0);
  fixture_fini(&f);
}

CHECK_CASE(sending_to_one_that_has_gone_fails) {
  fixture f;
  struct iovec iov = {"bytes", 5};
  fixture_init(&f, 0);
  establish(&f);
  CHECK_INT(0, ab_link_send(&f.link, &iov, 0));
  close(f.fd);
  f.fd = -1;
  CHECK(ab_link_ended(&f.link, false));
  CHECK_INT(AB_EPEER, ab_link_send(&f.link, &iov, 1));
  CHECK_INT(AB_EPEER, ab_link_send(&f.link, &iov, 1));
  fixture_fini(&f);
}

/* --- the end --- */

/* How often the client has been told, and whether its stream of bytes ends. */
static int ends_told(fixture *self, bool *over) {
  char buf[64];
  int told = 0;
  ssize_t n;
  while ((n = client_receives(self, SIZE_MAX)) > 0) continue;
  *over = n == 0;
  while (SSL_read(self->client.ssl, buf, sizeof buf) > 0) continue;
  told = (SSL_get_shutdown(self->client.ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
  ERR_clear_error();
  return told;
}

CHECK_CASE(close_notify_is_sent_once) {
  bool over;
  fixture f;
  char record[64];
  fixture_init(&f, TLS1_3_VERSION);
  establish(&f);
  ab_link_shutdown(&f.link);
  CHECK_INT(24, recv(f.fd, record, sizeof record, 0)); /* one alert */
  CHECK_INT(0, recv(f.fd, record + 24, 8, 0));
  peer_give(&f.client, record, 24);
  CHECK_INT(1, ends_told(&f, &over));
  struct iovec iov = {"late", 4};
  CHECK_INT(AB_EPEER, ab_link_send(&f.link, &iov, 1));
  ab_link_shutdown(&f.link);
  ab_link_close(&f.link, false);
  CHECK_INT(0, recv(f.fd, record, sizeof record, 0));
  fixture_fini(&f);

  fixture_init(&f, TLS1_2_VERSION);
  establish(&f);
  ab_link_close(&f.link, false); /* says so too */
  CHECK(!ab_link_open(&f.link) && !ab_link_is_tls(&f.link));
  CHECK_INT(1, ends_told(&f, &over));
  CHECK(over);
  fixture_fini(&f);
}

CHECK_CASE(a_reset_and_a_broken_handshake_say_nothing) {
  bool over;
  fixture f;
  fixture_init(&f, 0);
  establish(&f);
  ab_link_close(&f.link, true);
  CHECK_INT(0, ends_told(&f, &over));
  fixture_fini(&f);

  fixture_init(&f, 0);
  begin(&f);
  SSL_do_handshake(f.client.ssl);
  client_sends(&f);
  CHECK_INT(AB_AGAIN, ab_link_handshake(&f.link, true));
  while (client_receives(&f, SIZE_MAX) > 0) continue;
  ab_link_shutdown(&f.link);
  CHECK_INT(0, client_receives(&f, SIZE_MAX)); /* the end, and no byte before it */
  fixture_fini(&f);
}

/* Our side ends when all has left. */
CHECK_CASE(the_end_waits_for_room) {
  static char plenty[1 << 20];
  fixture f;
  bool over = false, drained;
  char buf[16];
  struct iovec iov = {plenty, sizeof plenty}, in = {buf, sizeof buf};
  fixture_init(&f, 0);
  establish(&f);
  size_t raw = 0;
  for (ssize_t n; (n = send(f.link.watch.fd, plenty, sizeof plenty, MSG_NOSIGNAL)) > 0;) {
    raw += (size_t)n;
  }
  CHECK_INT(AB_AGAIN, ab_link_send(&f.link, &iov, 0) == 0 ? AB_AGAIN : AB_OK);
  ab_link_shutdown(&f.link);
  CHECK(ab_link_owes(&f.link) && !ab_link_is_amid(&f.link));
  while (raw > 0) {
    ssize_t n = recv(f.fd, plenty, raw < sizeof plenty ? raw : sizeof plenty, 0);
    if (n > 0) raw -= (size_t)n;
  }
  CHECK_INT(0, ends_told(&f, &over));
  CHECK(!over);
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &in, 1, &drained));
  CHECK(!ab_link_owes(&f.link));
  CHECK_INT(1, ends_told(&f, &over));
  CHECK(over);
  fixture_fini(&f);
}

/* --- without memory --- */

/* A handshake at a full socket, input that comes before it is asked for, and a batch that does not
 * fit: each allocation of ours fails in turn. Returns whether all went well. */
static bool struggle(check_mem *mem) {
  static char plenty[1 << 18];
  fixture f;
  char buf[16], hello[4096];
  struct iovec iov = {buf, sizeof buf}, out = {plenty, sizeof plenty};
  bool drained, well = false;
  int small = 4096;
  fixture_init(&f, 0);
  f.scratch.mem = &mem->mem;
  setsockopt(f.link.watch.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  SSL_do_handshake(f.client.ssl);
  size_t len = peer_take(&f.client, hello, sizeof hello);
  int error = ab_link_begin_tls(&f.link, &f.scratch, f.context, hello, len);
  CHECK(error == AB_OK || (error == AB_ENOMEM && !ab_link_is_tls(&f.link)));
  if (!error) error = ab_link_handshake(&f.link, true) == AB_AGAIN ? AB_OK : AB_EPEER;
  if (!error) {
    client_receives(&f, SIZE_MAX);
    SSL_do_handshake(f.client.ssl);
    SSL_write(f.client.ssl, "early", 5);
    client_sends(&f);
    error = ab_link_handshake(&f.link, true);
    CHECK(error == AB_OK || error == AB_EPEER);
  }
  if (!error) error = ab_link_receive(&f.link, &iov, 1, &drained) == 5 ? AB_OK : AB_EPEER;
  if (!error) {
    ssize_t n = ab_link_send(&f.link, &out, 1);
    well = n > 0;
    CHECK(n > 0 || n == AB_EPEER);
    if (well) CHECK(ab_link_owes(&f.link));
  }
  fixture_fini(&f);
  return well;
}

CHECK_CASE(a_link_without_memory_ends) {
  size_t failed = 0;
  for (size_t fail_at = 1; fail_at < 100; fail_at++) {
    check_mem mem;
    check_mem_init(&mem, fail_at);
    bool well = struggle(&mem);
    CHECK_INT(0, mem.live);
    if (well && mem.calls < fail_at) break;
    CHECK(!well);
    failed++;
  }
  CHECK_INT(6, failed); /* scratch, link, session, what came before, what came early, the rest */
}

/* What other code has left in OpenSSL's queue is not taken for ours, and we leave nothing there. */
CHECK_CASE(errors_of_others_do_no_harm) {
  fixture f;
  char buf[16];
  struct iovec iov = {buf, sizeof buf}, out = {"out", 3};
  bool drained;
  fixture_init(&f, 0);
  ERR_put_error(ERR_LIB_USER, 0, 100, "app.c", 1);
  begin(&f);
  int result = AB_AGAIN;
  for (int i = 0; i < 5 && result == AB_AGAIN; i++) {
    ERR_clear_error();
    SSL_do_handshake(f.client.ssl);
    client_sends(&f);
    ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
    result = ab_link_handshake(&f.link, true);
    CHECK_INT(0, ERR_peek_error());
    client_receives(&f, SIZE_MAX);
  }
  CHECK_INT(AB_OK, result);
  ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
  ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
  CHECK_INT(3, ab_link_send(&f.link, &out, 1));
  CHECK_INT(0, ERR_peek_error());
  SSL_write(f.client.ssl, "in", 2);
  client_sends(&f);
  ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
  CHECK_INT(2, ab_link_receive(&f.link, &iov, 1, &drained));
  ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_INT(5, write(f.fd, "\x17\3\3\0\1", 5)); /* OpenSSL wants more */
  ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, "app.c", 1);
  CHECK_INT(AB_AGAIN, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_INT(1, write(f.fd, "x", 1));
  CHECK_INT(AB_EPEER, ab_link_receive(&f.link, &iov, 1, &drained));
  CHECK_INT(0, ERR_peek_error());
  fixture_fini(&f);
}

CHECK_MAIN()
