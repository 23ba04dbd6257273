/* A link through TLS.
 *
 * Bytes of the network pass through memory that all links of the engine share: what the session
 * does not take, or the socket, is kept in memory of the link's own, which is rare. An idle link
 * keeps neither.
 *
 * What is to be sent is encrypted in batches, a system call each. Of a batch that the socket does
 * not take whole, bytes count as sent in proportion to what has left, the last one with the last
 * byte: the caller still has the others, so that nothing closes the link before they have left, and
 * the peer's progress can be seen. They are not encrypted again when they come back. */
#include "engine/link_tls.h"

#include <string.h>

#include "base/bits.h"

#define BATCH_MAX    65536 /* bytes that are encrypted at once, */
#define BATCH_WHOLE  67584 /* and a little more if those are all: four frames with their heads */
#define SCRATCH_IN   BATCH_WHOLE
#define SCRATCH_OUT  (BATCH_WHOLE + 8192)
#define RECEIVE_MIN  17408 /* a whole record */
#define SMALL_RECORD 1300  /* fits a segment: its bytes can be used as soon as that has come */
#define SMALL_UNTIL  65536
#define SMALL_AGAIN  AB_NSEC_PER_SEC /* idle for so long, its window may have shrunk */
#define TLS_FIRST    0x16            /* the first byte of a handshake's record */

struct ab_link_tls {
  ab_tls *session;
  ab_link_scratch *scratch;
  char *kept; /* of what has come, what the session has not taken */
  size_t kept_at, kept_len;
  char *rest; /* of what is to be sent, what the socket has not taken */
  size_t rest_at, rest_len;
  size_t due;          /* bytes of the caller's in `rest` that do not count as sent yet */
  size_t started;      /* bytes of the caller's sent since the link was idle, up to SMALL_UNTIL */
  ab_nsec sent_at;     /* when it sent last */
  bool begun : 1;      /* the first byte is a handshake's */
  bool broken : 1;     /* the socket, or the session, has failed */
  bool peer_ended : 1; /* its stream of bytes */
  bool ends : 1;       /* our side ends when `rest` has left */
};

static int break_link(ab_link_tls *tls) {
  tls->broken = true;
  return AB_EPEER;
}

/* --- memory --- */

static bool take_scratch(ab_link_scratch *scratch) {
  if (AB_LIKELY(scratch->in != NULL)) return true;
  scratch->in = ab_alloc(scratch->mem, SCRATCH_IN + SCRATCH_OUT);
  if (scratch->in) scratch->out = scratch->in + SCRATCH_IN;
  return scratch->in != NULL;
}

static void forget_kept(ab_link_tls *tls) {
  ab_free(tls->scratch->mem, tls->kept);
  tls->kept = NULL;
  tls->kept_at = tls->kept_len = 0;
}

static void forget_rest(ab_link_tls *tls) {
  ab_free(tls->scratch->mem, tls->rest);
  tls->rest = NULL;
  tls->rest_at = tls->rest_len = 0;
}

static ab_tls_wire way_out(const ab_link_tls *tls) {
  return (ab_tls_wire){.out = tls->scratch->out, .out_size = SCRATCH_OUT};
}

static ab_tls_wire open_wire(const ab_link_tls *tls) {
  ab_tls_wire wire = way_out(tls);
  if (tls->kept) wire.in = tls->kept + tls->kept_at;
  wire.in_len = tls->kept_len;
  return wire;
}

/* Keeps what the session has not taken. */
static int close_wire(ab_link_tls *tls, const ab_tls_wire *wire) {
  if (AB_LIKELY(wire->in_len == 0)) {
    if (tls->kept) forget_kept(tls);
    return AB_OK;
  }
  if (tls->kept) {
    tls->kept_at += tls->kept_len - wire->in_len;
    tls->kept_len = wire->in_len;
    return AB_OK;
  }
  tls->kept = ab_alloc(tls->scratch->mem, wire->in_len);
  if (!tls->kept) return break_link(tls);
  memcpy(tls->kept, wire->in, wire->in_len);
  tls->kept_at = 0;
  tls->kept_len = wire->in_len;
  return AB_OK;
}

/* --- to the socket --- */

/* `n` bytes of `len` have left: as much of what is due counts as sent. */
static size_t count_sent(ab_link_tls *tls, size_t n, size_t len) {
  size_t sent = n == len ? tls->due : (size_t)((uint64_t)tls->due * n / len);
  tls->due -= sent;
  return sent;
}

static ssize_t send_bytes(ab_link *link, const char *ptr, size_t len) {
  struct iovec iov = {(char *)ptr, len};
  ssize_t n = ab_sock_send(link->watch.fd, &iov, 1);
  return n == AB_EPEER ? break_link(link->tls) : n;
}

/* Sends what has been kept. *sent: bytes of the caller's that count as sent now. AB_OK when all of
 * it has left; AB_AGAIN, AB_EPEER or AB_ENOMEM. */
static int send_rest(ab_link *link, size_t *sent) {
  ab_link_tls *tls = link->tls;
  *sent = 0;
  if (AB_LIKELY(tls->rest_len == 0)) return AB_OK;
  ssize_t n = send_bytes(link, tls->rest + tls->rest_at, tls->rest_len);
  if (n < 0) return (int)n;
  tls->sent_at = *tls->scratch->now; /* a peer that takes its time is not idle */
  *sent = count_sent(tls, (size_t)n, tls->rest_len);
  tls->rest_at += (size_t)n;
  tls->rest_len -= (size_t)n;
  if (tls->rest_len > 0) return AB_AGAIN;
  forget_rest(tls);
  if (tls->ends) ab_sock_shutdown(link->watch.fd);
  return AB_OK;
}

/* Behind what is kept already. */
static int link_tls_keep_rest(ab_link_tls *tls, const char *ptr, size_t len) {
  size_t needed;
  char *rest =
      ab_add_size(tls->rest_len, len, &needed) ? ab_alloc(tls->scratch->mem, needed) : NULL;
  if (!rest) return break_link(tls);
  if (tls->rest_len > 0) memcpy(rest, tls->rest + tls->rest_at, tls->rest_len);
  memcpy(rest + tls->rest_len, ptr, len);
  ab_free(tls->scratch->mem, tls->rest);
  tls->rest = rest;
  tls->rest_at = 0;
  tls->rest_len = needed;
  return AB_OK;
}

/* Sends what the session has given, or keeps it. Returns as send_rest. */
static int send_wire(ab_link *link, const ab_tls_wire *wire, size_t *sent) {
  ab_link_tls *tls = link->tls;
  *sent = 0;
  if (AB_LIKELY(wire->out_len == 0)) return AB_OK;
  ssize_t n = tls->rest_len > 0 ? AB_AGAIN : send_bytes(link, wire->out, wire->out_len);
  if (n == AB_EPEER) return AB_EPEER;
  size_t left = n > 0 ? (size_t)n : 0;
  *sent = count_sent(tls, left, wire->out_len);
  if (AB_LIKELY(left == wire->out_len)) return AB_OK;
  if (link_tls_keep_rest(tls, wire->out + left, wire->out_len - left) != AB_OK) return AB_EPEER;
  return n == AB_ENOMEM ? AB_ENOMEM : AB_AGAIN;
}

/* --- from the socket --- */

/* One read into the shared memory. AB_OK, AB_AGAIN, AB_EPEER or AB_ENOMEM; at the end of the stream
 * AB_OK, without bytes. *emptied: nothing more is there. */
static int receive_bytes(ab_link *link, ab_tls_wire *wire, size_t most, bool *emptied) {
  ab_link_tls *tls = link->tls;
  if (most > SCRATCH_IN) most = SCRATCH_IN;
  ssize_t n = ab_sock_recv(link->watch.fd, tls->scratch->in, most);
  *emptied = n < (ssize_t)most;
  if (n < 0) return n == AB_EPEER ? break_link(tls) : (int)n;
  if (n == 0) tls->peer_ended = true;
  tls->scratch->received += (uint64_t)n;
  wire->in = tls->scratch->in;
  wire->in_len = (size_t)n;
  if (tls->kept) forget_kept(tls); /* it was taken */
  return AB_OK;
}

/* Fills the buffers from what has come. Returns bytes, or as ab_tls_read if there are none. */
static ssize_t read_content(ab_link_tls *tls, ab_tls_wire *wire, const struct iovec *iov,
                            int count) {
  size_t total = 0;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < iov[i].iov_len;) {
      if (wire->in_len == 0 && !ab_tls_has_bytes(tls->session)) {
        return total > 0 ? (ssize_t)total : AB_AGAIN;
      }
      ssize_t n =
          ab_tls_read(tls->session, wire, (char *)iov[i].iov_base + at, iov[i].iov_len - at);
      if (n == AB_EPEER) break_link(tls);
      if (n <= 0) return total > 0 ? (ssize_t)total : n;
      at += (size_t)n;
      total += (size_t)n;
    }
  }
  return (ssize_t)total;
}

/* As ab_link_receive, but for what the session has to say. */
static ssize_t link_tls_receive(ab_link *link, ab_tls_wire *wire, const struct iovec *iov,
                                int count, bool *emptied) {
  ab_link_tls *tls = link->tls;
  size_t room = ab__link_room(iov, count), most = room > RECEIVE_MIN ? room : RECEIVE_MIN;
  ssize_t n = read_content(tls, wire, iov, count);
  while (n == AB_AGAIN && !*emptied) {
    int error = receive_bytes(link, wire, most, emptied);
    if (error) return error;
    if (tls->peer_ended) return 0;
    n = read_content(tls, wire, iov, count);
  }
  return n;
}

ssize_t ab__link_tls_receive(ab_link *link, const struct iovec *iov, int count, bool *drained) {
  ab_link_tls *tls = link->tls;
  bool emptied = false;
  size_t sent;
  *drained = true;
  if (tls->broken) return AB_EPEER;
  if (tls->peer_ended || ab_tls_peer_has_ended(tls->session)) return 0;
  /* What is due is for a call that can report it. */
  if (tls->due == 0 && send_rest(link, &sent) == AB_EPEER) return AB_EPEER;
  ab_tls_wire wire = open_wire(tls);
  ssize_t n = link_tls_receive(link, &wire, iov, count, &emptied);
  bool waits = wire.in_len > 0 || ab_tls_has_bytes(tls->session);
  bool lost = send_wire(link, &wire, &sent) == AB_EPEER || close_wire(tls, &wire) != AB_OK;
  if (n <= 0) return lost ? AB_EPEER : n;
  /* The next call tells of an end, or of an error: no event does. */
  *drained = emptied && !waits && !tls->broken && !ab_tls_peer_has_ended(tls->session);
  return n;
}

/* --- encrypting --- */

/* Where a batch begins its next record. */
typedef struct source {
  const struct iovec *iov;
  int left;
  size_t at; /* in the first */
} source;

/* The next `len` bytes, which there are: where they are, or copied together. */
static const char *next_bytes(source *source, char *copy, size_t len) {
  const char *ptr = (const char *)source->iov->iov_base + source->at;
  if (source->iov->iov_len - source->at >= len) {
    source->at += len;
    return ptr;
  }
  for (size_t at = 0; at < len;) {
    size_t part = source->iov->iov_len - source->at;
    if (part > len - at) part = len - at;
    if (part > 0) memcpy(copy + at, (const char *)source->iov->iov_base + source->at, part);
    at += part;
    source->at += part;
    if (at < len) {
      source->iov++;
      source->at = 0;
    }
  }
  return copy;
}

/* Short ones while the peer's window is short, if its application may use a part of what comes. */
static size_t record_size(ab_link_tls *tls, uint64_t total) {
  if (*tls->scratch->now - tls->sent_at >= SMALL_AGAIN) tls->started = 0;
  bool small = tls->started < SMALL_UNTIL && total > AB_TLS_RECORD_MAX;
  return small ? SMALL_RECORD : AB_TLS_RECORD_MAX;
}

static size_t batch_of(uint64_t len) {
  return len <= BATCH_WHOLE ? (size_t)len : BATCH_MAX;
}

/* Encrypts as much as a batch takes; `total` bytes follow in all. Returns bytes, or AB_EPEER. */
static ssize_t encrypt(ab_link_tls *tls, ab_tls_wire *wire, source source, size_t len,
                       uint64_t total) {
  size_t size = record_size(tls, total), done = 0;
  len = batch_of(len);
  while (done < len) {
    size_t part = len - done < size ? len - done : size;
    if (wire->out_size - wire->out_len < part + AB_TLS_RECORD_EXTRA) break;
    const char *ptr = next_bytes(&source, tls->scratch->in, part);
    if (ab_tls_write(tls->session, wire, ptr, part) != AB_OK) return break_link(tls);
    done += part;
  }
  tls->sent_at = *tls->scratch->now;
  if (tls->started < SMALL_UNTIL) tls->started += done;
  return (ssize_t)done;
}

/* A batch, when nothing is kept. Returns as ab_link_send. */
static ssize_t send_batch(ab_link *link, const struct iovec *iov, int count, size_t len,
                          uint64_t total) {
  ab_link_tls *tls = link->tls;
  ab_tls_wire wire = way_out(tls);
  ssize_t n = encrypt(tls, &wire, (source){iov, count, 0}, len, total);
  size_t sent;
  tls->due = n > 0 ? (size_t)n : 0;
  int error = send_wire(link, &wire, &sent);
  if (n < 0) return n;
  return error == AB_EPEER || sent == 0 ? error : (ssize_t)sent;
}

/* What an earlier batch has left. True if the call is over, with *result. */
static bool owes_first(ab_link *link, ssize_t *result) {
  size_t sent;
  if (link->tls->broken) {
    *result = AB_EPEER;
    return true;
  }
  int error = send_rest(link, &sent);
  *result = error == AB_EPEER || sent == 0 ? error : (ssize_t)sent;
  return *result != 0;
}

ssize_t ab__link_tls_send(ab_link *link, const struct iovec *iov, int count) {
  ssize_t result;
  if (owes_first(link, &result)) return result;
  size_t len = ab__link_room(iov, count);
  return len > 0 ? send_batch(link, iov, count, len, len) : 0;
}

/* Into `to`, which has room for `len` bytes. Returns as ab_file_read. */
static ssize_t read_piece(const ab_link_piece *piece, char *to, size_t len) {
  if (!piece->ptr) return ab_file_read(piece->fd, piece->offset, to, len);
  memcpy(to, piece->ptr, len);
  return (ssize_t)len;
}

/* Their first `most` bytes, up to what cannot be read. Returns bytes, or as read_piece of the first
 * piece. */
static ssize_t gather(char *buf, const ab_link_piece *pieces, size_t most) {
  size_t at = 0;
  for (int i = 0; at < most; i++) {
    size_t len = pieces[i].len < most - at ? pieces[i].len : most - at;
    ssize_t n = read_piece(&pieces[i], buf + at, len);
    if (n <= 0) return at > 0 ? (ssize_t)at : n;
    at += (size_t)n;
    if ((size_t)n < len) break;
  }
  return (ssize_t)at;
}

static uint64_t sum_of(const ab_link_piece *pieces, int count) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum += pieces[i].len;
  return sum;
}

ssize_t ab__link_tls_send_pieces(ab_link *link, const ab_link_piece *pieces, int count) {
  ssize_t result;
  if (owes_first(link, &result)) return result;
  char *buf = link->tls->scratch->in;
  uint64_t sum = sum_of(pieces, count);
  ssize_t n = gather(buf, pieces, batch_of(sum));
  if (n <= 0) return n;
  struct iovec iov = {buf, (size_t)n};
  return send_batch(link, &iov, 1, (size_t)n, sum);
}

/* --- the end --- */

bool ab__link_tls_ended(const ab_link *link) {
  const ab_link_tls *tls = link->tls;
  return tls->peer_ended || ab_tls_peer_has_ended(tls->session);
}

static void say_end(ab_link *link) {
  ab_link_tls *tls = link->tls;
  ab_tls_wire wire = way_out(tls);
  size_t sent;
  ab_tls_end(tls->session, &wire);
  if (!tls->broken && send_wire(link, &wire, &sent) == AB_EPEER) tls->broken = true;
}

void ab__link_tls_shutdown(ab_link *link) {
  ab_link_tls *tls = link->tls;
  if (!tls->broken) say_end(link);
  tls->ends = true;
  if (tls->rest_len == 0) ab_sock_shutdown(link->watch.fd);
}

void ab__link_tls_fini(ab_link *link, bool says) {
  ab_link_tls *tls = link->tls;
  if (says && !tls->broken && tls->rest_len == 0) say_end(link);
  ab_tls_fini(tls->session);
  forget_kept(tls);
  forget_rest(tls);
  ab_free(tls->scratch->mem, tls);
  link->tls = NULL;
}

/* --- the handshake --- */

int ab_link_begin_tls(ab_link *link, ab_link_scratch *scratch, ab_tls_context *context,
                      const char *ptr, size_t len) {
  if (!take_scratch(scratch)) return AB_ENOMEM;
  ab_link_tls *tls = ab_alloc_zero(scratch->mem, sizeof(*tls));
  if (!tls) return AB_ENOMEM;
  tls->scratch = scratch;
  tls->session = ab_tls_init(scratch->mem, context);
  tls->kept = len > 0 ? ab_alloc(scratch->mem, len) : NULL;
  if (!tls->session || (len > 0 && !tls->kept)) {
    ab_tls_fini(tls->session);
    ab_free(scratch->mem, tls->kept);
    ab_free(scratch->mem, tls);
    return AB_ENOMEM;
  }
  if (len > 0) memcpy(tls->kept, ptr, len);
  tls->kept_len = len;
  link->tls = tls;
  return AB_OK;
}

/* The first byte decides. Returns AB_OK if it is TLS's, AB_LINK_CLEAR, or an error. */
static int look_at_first(ab_link *link, ab_tls_wire *wire, bool *emptied) {
  ab_link_tls *tls = link->tls;
  if (wire->in_len == 0) {
    int error = receive_bytes(link, wire, SCRATCH_IN, emptied);
    if (error) return error;
    if (tls->peer_ended) return AB_EPEER;
  }
  if ((unsigned char)*wire->in != TLS_FIRST) return AB_LINK_CLEAR;
  tls->begun = true;
  return AB_OK;
}

static int shake_hands(ab_link *link, ab_tls_wire *wire, bool may_sign) {
  ab_link_tls *tls = link->tls;
  bool emptied = false;
  int result = tls->begun ? AB_OK : look_at_first(link, wire, &emptied);
  while (result == AB_OK) {
    size_t sent;
    result = ab_tls_handshake(tls->session, wire, may_sign, *tls->scratch->second);
    bool full = wire->out_len == wire->out_size;
    int error = send_wire(link, wire, &sent);
    wire->out_len = 0;
    if (result == AB_EPEER || error == AB_EPEER) return break_link(tls);
    if (result != AB_AGAIN) break;
    if (full) {
      result = error; /* AB_OK: there is room again */
    } else if (!emptied) {
      result = receive_bytes(link, wire, SCRATCH_IN, &emptied);
      if (result == AB_OK && tls->peer_ended) return break_link(tls);
    }
  }
  return result;
}

int ab_link_handshake(ab_link *link, bool may_sign) {
  ab_link_tls *tls = link->tls;
  size_t sent;
  if (tls->broken) return AB_EPEER;
  int error = send_rest(link, &sent);
  if (error) return error;
  ab_tls_wire wire = open_wire(tls);
  int result = shake_hands(link, &wire, may_sign);
  return close_wire(tls, &wire) == AB_OK ? result : AB_EPEER;
}

ab_view ab_link_clear_bytes(const ab_link *link) {
  const ab_link_tls *tls = link->tls;
  return (ab_view){tls->kept + tls->kept_at, tls->kept_len};
}

void ab_link_drop_tls(ab_link *link) {
  if (link->tls) ab__link_tls_fini(link, false);
}

bool ab_link_owes(const ab_link *link) {
  return link->tls && link->tls->rest_len > 0;
}

bool ab_link_is_amid(const ab_link *link) {
  return link->tls && link->tls->due > 0;
}

const ab_tls *ab_link_session(const ab_link *link) {
  return link->tls ? link->tls->session : NULL;
}
