/* Content in chunks (RFC 9112 7.1). Behind a head that says how long a chunk is nothing else may
 * come, so what cannot be queued whole is not begun. All functions run with the lock held. */
#include "engine/conn.h"
#include "http1/write.h"

#define CRLF     "\r\n"
#define CRLF_LEN 2

/* The head of a chunk with so many slices of content. Afterwards there is memory for those, and for
 * the end. */
static int begin(ab_conn *conn, uint64_t len, uint32_t slices) {
  char head[AB_CHUNK_HEAD_MAX];
  int error = ab__conn_writable(conn);
  if (!error) error = ab_outbox_prepare(conn->out, slices + 2, AB_CHUNK_HEAD_MAX + CRLF_LEN);
  if (error) return error;
  return ab_outbox_write(conn->out, head, (size_t)(ab_write_chunk_head(head, len) - head));
}

/* `error` is that of the content; `before` is what had been queued before the chunk, of which
 * nothing was sent meanwhile. */
static int end(ab_conn *conn, uint64_t before, int error) {
  if (!error) error = ab_outbox_write(conn->out, CRLF, CRLF_LEN);
  if (error) ab_outbox_take_back(conn->out, ab_outbox_queued(conn->out) - before);
  return error;
}

static uint64_t queued(const ab_conn *conn) {
  return conn->out ? ab_outbox_queued(conn->out) : 0;
}

int ab_conn_write_chunk(ab_conn *conn, const char *ptr, size_t len) {
  uint64_t before = queued(conn);
  int error = begin(conn, len, 1);
  return error ? error : end(conn, before, ab_outbox_write(conn->out, ptr, len));
}

int ab_conn_borrow_chunk(ab_conn *conn, const char *ptr, size_t len, void *owner) {
  uint64_t before = queued(conn);
  int error = begin(conn, len, 1);
  return error ? error : end(conn, before, ab_outbox_borrow(conn->out, ptr, len, owner));
}

int ab_conn_move_chunk(ab_conn *conn, ab_outbox *from, ab_outbox_adopt adopt, void *ctx) {
  uint64_t before = queued(conn);
  bool files = ab_outbox_files(from) > 0;
  int error = begin(conn, ab_outbox_pending(from), ab_outbox_slices(from));
  if (!error) error = end(conn, before, ab_outbox_move(from, conn->out, adopt, ctx));
  if (!error && files) ab__files_queued(conn);
  return error;
}
