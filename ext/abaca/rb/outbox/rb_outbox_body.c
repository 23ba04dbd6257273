/* An outbox as a body. A block fills it while the server (ab_box_fill) or `each` takes it. */
#include "rb/outbox/rb_outbox_parts.h"

bool ab_box_has_block(VALUE outbox) {
  return !NIL_P(ab__box(outbox)->block);
}

ab_outbox *ab_box_queue(VALUE outbox) {
  ab_box *box = ab__box(outbox);
  ab__box_check_free(box);
  ab_outbox_slice slice;
  for (uint32_t i = 0; ab_outbox_slice_at(box->queue, i, &slice); i++) {
    if (!slice.ptr) ab__box_file(&slice);
  }
  return box->queue;
}

void ab_box_moved_on(VALUE outbox) {
  ab__box_moved_on(outbox, ab__box(outbox));
}

void ab_box_end(VALUE outbox) {
  ab_box *box = ab__box(outbox);
  ab_outbox_close(box->queue);
  ab__box_drain(outbox, box);
}

/* --- filling --- */

typedef struct filling {
  VALUE outbox, block;
} filling;

static VALUE call_block(VALUE arg) {
  filling *f = (filling *)arg;
  ab_box *box = ab__box(f->outbox);
  if (!NIL_P(f->block)) {
    rb_proc_call_with_block(f->block, 1, &f->outbox, Qnil);
    ab_outbox_close(box->queue);
  }
  box->taker(f->outbox, box->taker_arg, false);
  return Qnil;
}

static VALUE leave(VALUE arg) {
  ab_box *box = ab__box(((filling *)arg)->outbox);
  box->taker = NULL;
  box->taker_arg = Qnil;
  return Qnil;
}

void ab_box_fill(VALUE outbox, ab_box_taker take, VALUE arg) {
  ab_box *box = ab__box_to_change(outbox);
  if (box->taker) ab__box_raise_busy();
  filling f = {outbox, box->block};
  box->block = Qnil;
  box->taker = take;
  RB_OBJ_WRITE(outbox, &box->taker_arg, arg);
  rb_ensure(call_block, (VALUE)&f, leave, (VALUE)&f);
  RB_GC_GUARD(f.block);
}

/* --- each --- */

static VALUE yield_all(VALUE self) {
  ab_box *box = ab__box(self);
  ab_outbox_slice slice;
  while (ab_outbox_slice_at(box->queue, 0, &slice)) {
    size_t len = slice.len < AB_OUTBOX_BYTES_MAX ? (size_t)slice.len : AB_OUTBOX_BYTES_MAX;
    VALUE bytes = slice.ptr ? ab__box_string(&slice, len) : ab__box_read(&slice);
    uint64_t drains = box->drains;
    len = (size_t)RSTRING_LEN(bytes);
    rb_proc_call_with_block(box->taker_arg, 1, &bytes, Qnil);
    if (box->drains == drains) ab__box_shift(self, box, len);
    RB_GC_GUARD(bytes);
  }
  return Qnil;
}

/* What another fiber writes meanwhile is yielded by the one that is already yielding. */
static void yield_pending(VALUE outbox, VALUE block, bool now) {
  (void)block, (void)now;
  ab_box *box = ab__box(outbox);
  if (box->taken) return;
  ab__box_take(box);
  rb_ensure(yield_all, outbox, ab__box_release, outbox);
}

static VALUE box_each(VALUE self) {
  RETURN_ENUMERATOR(self, 0, 0);
  ab__box_check_free(ab__box(self));
  ab_box_fill(self, yield_pending, rb_block_proc());
  return self;
}

void ab__init_outbox_body(VALUE cOutbox) {
  rb_define_method(cOutbox, "each", box_each, 0);
}
