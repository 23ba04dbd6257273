/* An Abaca::Outbox's bytes move to the connection's queue without a copy. Without a block it is
 * complete, its length known. A block writes until more than the high watermark is pending, then
 * all of that moves, and the block waits if the client is slow. */
#include <errno.h>

#include "rb/outbox/rb_outbox.h"
#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_response.h"

typedef struct adoption {
  ab_rack *rack;
  int error; /* errno, when a descriptor could not be had */
} adoption;

/* Takes over a borrowed string, or a file by a descriptor of its own: the app may close it. */
static void *adopt(void *ctx, ab_outbox_slice *slice) {
  adoption *a = ctx;
  if (slice->ptr) return ab_borrow_make(a->rack, (VALUE)slice->owner, -1);
  int fd = ab_fd_duplicate(slice->fd);
  if (fd < 0) {
    a->error = errno;
    return NULL;
  }
  ab_borrow *borrow = ab_borrow_make(a->rack, Qnil, fd);
  if (!borrow) ab_fd_close(fd);
  slice->fd = fd;
  return borrow;
}

/* More than Content-Length has promised: what is too much is not sent (RFC 9112 6.3). */
static void send_what_was_promised(VALUE handle, VALUE outbox) {
  ab_call *call = ab_call_of(handle);
  call->overrun = true;
  VALUE left = ULL2NUM(call->body_left);
  VALUE bytes = rb_funcall(outbox, rb_intern("peek"), 1, left);
  rb_funcall(outbox, rb_intern("drain"), 0);
  ab_response_content(ab_call_of(handle), bytes);
}

/* Moves what is pending to the connection, and waits while that has too much to send. */
static void move_pending(VALUE outbox, VALUE handle, bool now) {
  ab_call *call = ab_call_of(handle);
  ab_outbox *queue = ab_box_queue(outbox);
  uint64_t len = ab_outbox_pending(queue);
  if (len == 0) {
    if (now) ab_call_flush(call); /* what was queued before and still waits for more */
    return;
  }
  if (call->has_length && len > call->body_left) {
    send_what_was_promised(handle, outbox);
    return;
  }
  adoption a = {.rack = call->rack};
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  int error = ab_exchange_move(call->exchange, queue, adopt, &a);
  if (!error && now) ab_exchange_flush(call->exchange);
  if (!error && !now) ab_body_soon(call);
  ab_response_pause pause = error ? NULL : ab_response_pause_for(call, ab_exchange_want_room);
  bool gone = ab_exchange_gone(call->exchange);
  ab_engine_unlock(engine);
  if (a.error) rb_syserr_fail(a.error, "a file of the outbox");
  if (error || gone) ab_response_raise(error ? error : AB_EPEER);
  call->body_sent += len;
  if (call->has_length) call->body_left -= len;
  ab_box_moved_on(outbox);
  /* The app's flush blocks have run. */
  if (pause) ab_response_wait(ab_call_of(handle), pause);
}

typedef struct writing {
  ab_lines *head;
  VALUE outbox;
} writing;

static VALUE write_outbox(VALUE arg) {
  writing *w = (writing *)arg;
  ab_call *call = w->head->call;
  if (ab_box_has_block(w->outbox)) {
    ab_body_begin(w->head);
    if (!call->no_content) ab_box_fill(w->outbox, move_pending, call->handle);
  } else {
    ab_head_put_framing(w->head, ab_outbox_pending(ab_box_queue(w->outbox)));
    ab_head_queue(w->head, NULL, 0);
    if (!call->no_content) move_pending(w->outbox, call->handle, false);
  }
  ab_body_end(w->head);
  return Qnil;
}

/* Whatever has become of the response, the rest is not sent. */
static VALUE drop_rest(VALUE arg) {
  ab_box_end(((writing *)arg)->outbox);
  return Qnil;
}

void ab_body_write_outbox(ab_lines *head, VALUE outbox) {
  writing w = {head, outbox};
  rb_ensure(write_outbox, (VALUE)&w, drop_rest, (VALUE)&w);
}
