/* What the application says of a response is queued as output of its protocol, whole or not at all.
 * All functions run with the lock held unless engine.h says otherwise. */
#include <string.h>

#include "engine/conn.h"

static const ab_protocol *protocol_of(const ab_exchange *exchange) {
  return ab__conn_protocol(exchange->conn);
}

char *ab_exchange_put_framing(const ab_exchange *exchange, char *dst, ab_content *content) {
  return protocol_of(exchange)->put_framing(exchange, dst, content);
}

int ab_exchange_head(ab_exchange *exchange, char *text, size_t len, const ab_content *content,
                     const char *whole, size_t count) {
  return protocol_of(exchange)->head(exchange, text, len, content, whole, count);
}

int ab_exchange_inform(ab_exchange *exchange, char *text, size_t len) {
  return protocol_of(exchange)->inform(exchange, text, len);
}

int ab_exchange_switch(ab_exchange *exchange, char *text, size_t len) {
  return protocol_of(exchange)->switch_to(exchange, text, len);
}

int ab_exchange_answer_error(ab_exchange *exchange, int status, size_t *content) {
  exchange->framed = false;
  return protocol_of(exchange)->answer_error(exchange, status, content);
}

static uint64_t queued(const ab_conn *conn) {
  return conn->out ? ab_outbox_queued(conn->out) : 0;
}

/* What stands before this many bytes of content. */
static int respond_begin(ab_exchange *exchange, uint64_t len, uint32_t slices) {
  int error = ab__conn_writable(exchange->conn);
  if (error || AB_LIKELY(!exchange->framed)) return error;
  return protocol_of(exchange)->begin_piece(exchange, len, slices);
}

/* What stands behind it. `error` is that of the content; `before` is what had been queued before
 * it, of which nothing was sent meanwhile. */
static int respond_end(ab_exchange *exchange, uint64_t before, int error) {
  if (AB_LIKELY(!exchange->framed)) return error;
  ab_outbox *out = exchange->conn->out;
  if (!error) error = protocol_of(exchange)->end_piece(exchange);
  if (error) ab_outbox_take_back(out, ab_outbox_queued(out) - before);
  return error;
}

int ab_exchange_write(ab_exchange *exchange, const char *ptr, size_t len) {
  const ab_conn *conn = exchange->conn;
  uint64_t before = queued(conn);
  int error = respond_begin(exchange, len, 1);
  return error ? error : respond_end(exchange, before, ab_outbox_write(conn->out, ptr, len));
}

int ab_exchange_borrow(ab_exchange *exchange, const char *ptr, size_t len, void *owner) {
  const ab_conn *conn = exchange->conn;
  uint64_t before = queued(conn);
  int error = respond_begin(exchange, len, 1);
  return error ? error
               : respond_end(exchange, before, ab_outbox_borrow(conn->out, ptr, len, owner));
}

/* When there are too many in all, the slowest readers are closed. */
static void files_queued(ab_conn *conn) {
  if (conn->blocked) ab__files_blocked(conn, false);
  for (ab_conn *reader; (reader = ab__files_surplus(conn->engine));) ab__conn_drop(reader);
}

int ab_exchange_file(ab_exchange *exchange, int fd, uint64_t offset, uint64_t len, void *owner) {
  ab_conn *conn = exchange->conn;
  uint64_t before = queued(conn);
  int error = respond_begin(exchange, len, 1);
  if (error) return error;
  error = respond_end(exchange, before, ab_outbox_file(conn->out, fd, offset, len, owner));
  if (!error) files_queued(conn);
  return error;
}

int ab_exchange_move(ab_exchange *exchange, ab_outbox *from, ab_outbox_adopt adopt, void *ctx) {
  ab_conn *conn = exchange->conn;
  uint64_t before = queued(conn);
  bool files = ab_outbox_files(from) > 0;
  int error = respond_begin(exchange, ab_outbox_pending(from), ab_outbox_slices(from));
  if (error) return error;
  error = respond_end(exchange, before, ab_outbox_move(from, conn->out, adopt, ctx));
  if (!error && files) files_queued(conn);
  return error;
}

int ab_exchange_send(ab_exchange *exchange, const char *ptr, size_t len) {
  if (exchange->framed) return protocol_of(exchange)->send_piece(exchange, ptr, len);
  const struct iovec iov = {(char *)ptr, len};
  return ab__conn_send(exchange->conn, &iov, 1);
}

int ab_exchange_end(ab_exchange *exchange, const char *trailers, size_t len) {
  ab_conn *conn = exchange->conn;
  if (!exchange->framed) return AB_OK;
  uint64_t before = queued(conn);
  int error = ab__conn_writable(conn);
  if (!error) error = protocol_of(exchange)->end_content(exchange, trailers, len);
  if (error && conn->out) ab_outbox_take_back(conn->out, ab_outbox_queued(conn->out) - before);
  return error;
}
