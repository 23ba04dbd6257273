/* Bodies that are an Abaca::Outbox: their octets move to the connection's queue as they are,
 * without a copy. One without a block is complete, and its length known. One with a block is filled
 * while the response is sent; it writes on until more than its high watermark is pending, then all
 * of that moves, and the block waits if the client is slow. */
#include <errno.h>

#include "rb/outbox/rb_outbox.h"
#include "rb/server/rb_response.h"

typedef struct adoption {
  ab_server *server;
  int error; /* errno, when a descriptor could not be had */
} adoption;

/* Takes over a borrowed string, or a file by a descriptor of its own: the app may close it. */
static void *adopt(void *ctx, ab_outbox_slice *slice) {
  adoption *a = ctx;
  if (slice->ptr) return ab_server_borrow(a->server, (VALUE)slice->owner, -1);
  int fd = ab_fd_duplicate(slice->fd);
  if (fd < 0) {
    a->error = errno;
    return NULL;
  }
  ab_borrow *borrow = ab_server_borrow(a->server, Qnil, fd);
  if (!borrow) ab_fd_close(fd);
  slice->fd = fd;
  return borrow;
}

/* [locked] All of it, or nothing. */
static int queue_all(ab_exchange *exchange, ab_outbox *queue, adoption *a) {
  return exchange->chunked ? ab_conn_move_chunk(exchange->conn, queue, adopt, a)
                           : ab_conn_move(exchange->conn, queue, adopt, a);
}

/* More than Content-Length has promised: what is too much is not sent (RFC 9112 6.3). */
static void send_what_was_promised(VALUE handle, VALUE outbox) {
  ab_exchange *exchange = ab_exchange_of(handle);
  exchange->overrun = true;
  VALUE left = ULL2NUM(exchange->body_left);
  VALUE octets = rb_funcall(outbox, rb_intern("peek"), 1, left);
  rb_funcall(outbox, rb_intern("drain"), 0);
  ab_response_content(ab_exchange_of(handle), octets);
}

/* What was queued before and still waits for more. */
static void send_queued(ab_exchange *exchange) {
  ab_engine_lock(exchange->server->engine);
  ab_conn_flush(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
}

/* Moves what is pending to the connection, and waits while that has too much to send. */
static void move_pending(VALUE outbox, VALUE handle, bool now) {
  ab_exchange *exchange = ab_exchange_of(handle);
  ab_outbox *queue = ab_box_queue(outbox);
  uint64_t len = ab_outbox_pending(queue);
  if (len == 0) {
    if (now) send_queued(exchange);
    return;
  }
  if (exchange->has_length && len > exchange->body_left) {
    send_what_was_promised(handle, outbox);
    return;
  }
  adoption a = {.server = exchange->server};
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error = queue_all(exchange, queue, &a);
  if (!error && now) ab_conn_flush(exchange->conn);
  if (!error && !now) ab_body_soon(exchange);
  bool wait = !error && ab_conn_want_room(exchange->conn), gone = ab_conn_gone(exchange->conn);
  ab_engine_unlock(engine);
  if (a.error) rb_syserr_fail(a.error, "a file of the outbox");
  if (error || gone) ab_response_raise(error ? error : AB_EPEER);
  exchange->body_sent += len;
  if (exchange->has_length) exchange->body_left -= len;
  ab_box_moved_on(outbox);
  /* The app's flush blocks have run. */
  if (wait) ab_response_wait(ab_exchange_of(handle), ab_conn_want_room);
}

typedef struct writing {
  ab_lines *head;
  VALUE outbox;
} writing;

static VALUE write_outbox(VALUE arg) {
  writing *w = (writing *)arg;
  ab_exchange *exchange = w->head->exchange;
  if (ab_box_has_block(w->outbox)) {
    ab_head_put_framing(w->head, UINT64_MAX);
    ab_body_ask_for_input(exchange);
    ab_body_begin(w->head);
    if (!exchange->no_content) ab_box_fill(w->outbox, move_pending, exchange->handle);
  } else {
    ab_head_put_framing(w->head, ab_outbox_pending(ab_box_queue(w->outbox)));
    ab_head_queue(w->head);
    if (!exchange->no_content) move_pending(w->outbox, exchange->handle, false);
  }
  ab_body_end(w->head);
  return Qnil;
}

/* Whatever has become of the response, nobody takes the rest. */
static VALUE drop_rest(VALUE arg) {
  ab_box_end(((writing *)arg)->outbox);
  return Qnil;
}

void ab_body_write_outbox(ab_lines *head, VALUE outbox) {
  writing w = {head, outbox};
  rb_ensure(write_outbox, (VALUE)&w, drop_rest, (VALUE)&w);
}
