/* Output as Ruby strings: operation, serialize, peek, to_s. Copied bytes are copied again, since
 * their memory is reused. A borrowed string is returned itself if it joins with any other
 * (binary or ASCII), otherwise as a binary String that shares its bytes. */
#include <errno.h>
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <unistd.h>

#include "rb/outbox/rb_outbox_parts.h"

/* --- one slice --- */

static VALUE binary(VALUE string) {
  rb_enc_associate(string, rb_ascii8bit_encoding());
  return string;
}

static bool joins_any(VALUE string) {
  return rb_enc_get_index(string) == rb_ascii8bit_encindex() || rb_enc_str_asciionly_p(string);
}

static VALUE part_of_owner(const ab_outbox_slice *slice, size_t len) {
  VALUE owner = (VALUE)slice->owner;
  long offset = slice->ptr - RSTRING_PTR(owner);
  if (offset == 0 && (long)len == RSTRING_LEN(owner) && joins_any(owner)) return owner;
  return binary(rb_str_subseq(owner, offset, (long)len));
}

VALUE ab__box_string(const ab_outbox_slice *slice, size_t len) {
  if (slice->owner) return part_of_owner(slice, len);
  return rb_str_new(slice->ptr, (long)len);
}

int ab__box_file(const ab_outbox_slice *slice) {
  /* The number may belong to another file by now, if the IO has been closed. */
  return rb_io_descriptor((VALUE)slice->owner);
}

/* Appends the first `len` bytes of a file's slice. */
static void append_file(VALUE string, const ab_outbox_slice *slice, size_t len) {
  int fd = ab__box_file(slice);
  uint64_t offset = slice->offset;
  while (len > 0) {
    size_t most = len < AB_BOX_READ_MAX ? len : AB_BOX_READ_MAX;
    rb_str_modify_expand(string, (long)most);
    long used = RSTRING_LEN(string);
    ssize_t count = pread(fd, RSTRING_PTR(string) + used, most, (off_t)offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) rb_sys_fail("pread");
    if (count == 0) rb_raise(rb_eEOFError, "the file has become shorter than the scheduled part");
    rb_str_set_len(string, used + count);
    offset += (uint64_t)count;
    len -= (size_t)count;
  }
}

VALUE ab__box_read(const ab_outbox_slice *slice) {
  size_t len = slice->len < AB_BOX_READ_MAX ? (size_t)slice->len : AB_BOX_READ_MAX;
  VALUE string = rb_str_buf_new((long)len);
  append_file(string, slice, len);
  return string;
}

/* --- strings that are reused --- */

/* An empty String of the caller's, or a new one. */
static VALUE emptied(VALUE string) {
  if (!RB_TYPE_P(string, T_STRING) || OBJ_FROZEN(string)) return rb_str_buf_new(0);
  rb_str_modify(string);
  rb_str_set_len(string, 0);
  return binary(string);
}

/* A slice as a String: `old` if possible. A borrowed one is frozen: emptying it would copy it. */
static VALUE refill(VALUE old, const ab_outbox_slice *slice, size_t len) {
  if (slice->owner) return rb_obj_freeze(part_of_owner(slice, len));
  return rb_str_cat(emptied(old), slice->ptr, (long)len);
}

/* The slices of `next` as Strings in an Array, which reuses the Strings that it holds. */
static void fill_slices(VALUE slices, const ab_box *box, const ab_outbox_next_op *next) {
  for (int i = 0; i < next->iov_count; i++) {
    ab_outbox_slice slice;
    ab_outbox_slice_at(box->queue, (uint32_t)i, &slice);
    VALUE old = i < RARRAY_LEN(slices) ? RARRAY_AREF(slices, i) : Qnil;
    VALUE string = refill(old, &slice, next->iov[i].iov_len);
    if (string != old) rb_ary_store(slices, i, string);
  }
  if (RARRAY_LEN(slices) > next->iov_count) rb_ary_resize(slices, next->iov_count);
}

/* --- operation --- */

static VALUE filled(VALUE array, int count, const VALUE *members) {
  for (int i = 0; i < count; i++) rb_ary_store(array, i, members[i]);
  rb_ary_resize(array, count);
  return array;
}

static VALUE writev_operation(const ab_box *box, const ab_outbox_next_op *next, VALUE array) {
  VALUE slices = RARRAY_LEN(array) == 2 ? RARRAY_AREF(array, 1) : Qnil;
  if (!RB_TYPE_P(slices, T_ARRAY) || OBJ_FROZEN(slices)) {
    slices = rb_ary_new_capa(next->iov_count);
  }
  fill_slices(slices, box, next);
  VALUE members[] = {ID2SYM(rb_intern("writev")), slices};
  return filled(array, 2, members);
}

static VALUE file_operation(const ab_box *box, VALUE array) {
  ab_outbox_slice slice;
  ab_outbox_slice_at(box->queue, 0, &slice);
  VALUE members[] = {ID2SYM(rb_intern("file")), (VALUE)slice.owner, ULL2NUM(slice.offset),
                     ULL2NUM(slice.len)};
  return filled(array, 4, members);
}

static VALUE box_operation(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  ab_box *box = ab__box(self);
  VALUE array = argc > 0 ? argv[0] : Qnil;
  if (NIL_P(array)) {
    array = rb_ary_new_capa(2);
  } else {
    Check_Type(array, T_ARRAY);
    rb_check_frozen(array);
  }
  ab_outbox_next_op next;
  ab_outbox_next(box->queue, &next);
  if (next.op == AB_OUTBOX_WRITE) return writev_operation(box, &next, array);
  if (next.op == AB_OUTBOX_FILE) return file_operation(box, array);
  VALUE name = ID2SYM(next.op == AB_OUTBOX_CLOSE ? rb_intern("close") : rb_intern("yield"));
  return filled(array, 1, &name);
}

/* --- serialize --- */

/* The Array for the block: that of the last call, unless the block has frozen it. */
static VALUE shown(VALUE self, ab_box *box, const ab_outbox_next_op *next, uint64_t *offered) {
  if (NIL_P(box->reused) || OBJ_FROZEN(box->reused)) {
    RB_OBJ_WRITE(self, &box->reused, rb_ary_new());
  }
  VALUE slices = box->reused;
  *offered = next->bytes;
  if (next->op == AB_OUTBOX_WRITE) {
    fill_slices(slices, box, next);
    return slices;
  }
  ab_outbox_slice slice;
  ab_outbox_slice_at(box->queue, 0, &slice);
  VALUE bytes = ab__box_read(&slice);
  *offered = (uint64_t)RSTRING_LEN(bytes);
  return filled(slices, 1, &bytes);
}

/* What the block has returned; UINT64_MAX is :closed. */
static uint64_t taken_of(VALUE result, uint64_t offered) {
  if (result == ID2SYM(rb_intern("closed"))) return UINT64_MAX;
  bool fits = FIXNUM_P(result) && FIX2LONG(result) >= 0 && (uint64_t)FIX2LONG(result) <= offered;
  if (!fits) {
    rb_raise(rb_eArgError,
             "serialize: the block must return 0 to %llu bytes or :closed, not %+" PRIsVALUE,
             (unsigned long long)offered, result);
  }
  return (uint64_t)FIX2LONG(result);
}

static VALUE serialize(VALUE self) {
  ab_box *box = ab__box(self);
  for (;;) {
    ab_outbox_next_op next;
    ab_outbox_next(box->queue, &next);
    if (next.op == AB_OUTBOX_CLOSE) return ID2SYM(rb_intern("close"));
    if (next.op != AB_OUTBOX_WRITE && next.op != AB_OUTBOX_FILE) break;
    uint64_t offered, drains = box->drains;
    VALUE slices = shown(self, box, &next, &offered);
    uint64_t count = taken_of(rb_yield(slices), offered);
    if (count == UINT64_MAX) {
      ab_outbox_close(box->queue);
      ab__box_drain(self, box);
      continue; /* output that flush callbacks queue is refused: this is the end */
    }
    if (box->drains != drains) continue; /* what was shown has been dropped */
    ab__box_shift(self, box, count);
    if (count < offered) break;
  }
  return ID2SYM(rb_intern("yield"));
}

static VALUE box_serialize(VALUE self) {
  ab_box *box = ab__box_to_change(self);
  rb_need_block();
  ab__box_take(box);
  return rb_ensure(serialize, self, ab__box_release, self);
}

/* --- peek and to_s --- */

static VALUE collect(const ab_box *box, VALUE string, uint64_t len) {
  ab_outbox_slice slice;
  for (uint32_t i = 0; len > 0 && ab_outbox_slice_at(box->queue, i, &slice); i++) {
    uint64_t part = slice.len < len ? slice.len : len;
    if (slice.ptr) {
      rb_str_cat(string, slice.ptr, (long)part);
    } else {
      append_file(string, &slice, (size_t)part);
    }
    len -= part;
  }
  return string;
}

static VALUE box_peek(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 2);
  ab_box *box = ab__box(self);
  long long len = NUM2LL(argv[0]);
  if (len < 0) rb_raise(rb_eArgError, "negative length %lld", len);
  VALUE buffer = argc > 1 ? argv[1] : Qnil;
  if (NIL_P(buffer)) {
    buffer = rb_str_buf_new(0);
  } else {
    StringValue(buffer);
    rb_str_modify(buffer); /* raises if it is frozen */
    buffer = emptied(buffer);
  }
  return collect(box, buffer, (uint64_t)len);
}

static VALUE box_to_s(VALUE self) {
  ab_box *box = ab__box(self);
  uint64_t pending = ab_outbox_pending(box->queue);
  if (pending > LONG_MAX / 2) rb_raise(rb_eRangeError, "too much is pending for a String");
  return collect(box, rb_str_buf_new((long)pending), pending);
}

void ab__init_outbox_take(VALUE cOutbox) {
  rb_define_method(cOutbox, "operation", box_operation, -1);
  rb_define_method(cOutbox, "serialize", box_serialize, 0);
  rb_define_method(cOutbox, "peek", box_peek, -1);
  rb_define_method(cOutbox, "to_s", box_to_s, 0);
}
