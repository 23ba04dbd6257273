/* Input: copies, numbers, borrowed strings and files. A call that raises has queued nothing. */
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <string.h>
#include <sys/stat.h>

#include "rb/outbox/rb_outbox_parts.h"

/* Shorter strings are copied: cheaper than a slice. */
#define BORROW_MIN 512
/* A larger buffer of write_gen is not kept for the next one. */
#define SCRATCH_MAX 65536

static inline void put(VALUE self, ab_box *box, const char *bytes, size_t len) {
  int error = ab_outbox_write(box->queue, bytes, len);
  if (RB_UNLIKELY(error)) ab__box_raise(error);
  ab__box_queued(self, box);
}

/* --- strings --- */

static VALUE box_append(VALUE self, VALUE string) {
  ab_box *box = ab__box_to_change(self);
  if (RB_UNLIKELY(!RB_TYPE_P(string, T_STRING))) string = rb_obj_as_string(string);
  put(self, box, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
  RB_GC_GUARD(string);
  return self;
}

/* The part of `size` bytes that two arguments mean; a nil length: up to the end. */
typedef struct part {
  uint64_t offset, len;
} part;

static part part_of(uint64_t size, bool to_end, long long offset, long long length) {
  uint64_t from = (uint64_t)offset;
  if (offset < 0 || from > size) {
    rb_raise(rb_eRangeError, "offset %lld is not within %llu bytes", offset,
             (unsigned long long)size);
  }
  if (to_end) return (part){from, size - from};
  if (length < 0 || (uint64_t)length > size - from) {
    rb_raise(rb_eRangeError, "there are no %lld bytes from offset %lld on: the size is %llu",
             length, offset, (unsigned long long)size);
  }
  return (part){from, (uint64_t)length};
}

/* The conversions may run Ruby code, so look at the string after them. */
static part part_of_string(VALUE string, int argc, const VALUE *argv) {
  long long offset = argc > 1 ? NUM2LL(argv[1]) : 0;
  bool to_end = argc < 3 || NIL_P(argv[2]);
  long long length = to_end ? 0 : NUM2LL(argv[2]);
  return part_of((uint64_t)RSTRING_LEN(string), to_end, offset, length);
}

static VALUE box_write(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 3);
  ab_box *box = ab__box_to_change(self);
  VALUE string = argv[0];
  StringValue(string);
  if (RB_LIKELY(argc == 1)) {
    put(self, box, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
    RB_GC_GUARD(string);
    return LONG2FIX(RSTRING_LEN(string));
  }
  part chosen = part_of_string(string, argc, argv);
  put(self, box, RSTRING_PTR(string) + chosen.offset, (size_t)chosen.len);
  RB_GC_GUARD(string);
  return ULL2NUM(chosen.len);
}

static VALUE box_schedule(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 3);
  ab_box *box = ab__box_to_change(self);
  VALUE string = argv[0];
  StringValue(string);
  part chosen = part_of_string(string, argc, argv);
  if (chosen.len < BORROW_MIN) {
    put(self, box, RSTRING_PTR(string) + chosen.offset, (size_t)chosen.len);
    RB_GC_GUARD(string);
    return ULL2NUM(chosen.len);
  }
  /* A frozen String owns itself. Any other shares its bytes, and gets a copy when it is changed. */
  VALUE owner = rb_str_new_frozen(string);
  int error = ab_outbox_borrow(box->queue, RSTRING_PTR(owner) + chosen.offset, (size_t)chosen.len,
                               (void *)owner);
  if (error) ab__box_raise(error);
  RB_OBJ_WRITTEN(self, Qundef, owner);
  RB_GC_GUARD(owner);
  ab__box_queued(self, box);
  return ULL2NUM(chosen.len);
}

static VALUE box_schedule_file(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 3);
  ab_box *box = ab__box_to_change(self);
  VALUE io = rb_io_get_io(argv[0]);
  long long offset = argc > 1 ? NUM2LL(argv[1]) : 0;
  bool to_end = argc < 3 || NIL_P(argv[2]);
  long long length = to_end ? 0 : NUM2LL(argv[2]);
  rb_io_t *fptr;
  GetOpenFile(io, fptr);
  rb_io_check_readable(fptr);
  struct stat info;
  int fd = rb_io_descriptor(io);
  if (fstat(fd, &info) != 0) rb_sys_fail("fstat");
  if (!S_ISREG(info.st_mode)) rb_raise(rb_eArgError, "only regular files can be scheduled");
  part chosen = part_of((uint64_t)info.st_size, to_end, offset, length);
  int error = ab_outbox_file(box->queue, fd, chosen.offset, chosen.len, (void *)io);
  if (error) ab__box_raise(error);
  RB_OBJ_WRITTEN(self, Qundef, io);
  RB_GC_GUARD(io);
  ab__box_queued(self, box);
  return ULL2NUM(chosen.len);
}

/* --- a buffer to fill --- */

/* An empty String with room for `len` bytes: that of the last call, or a new one. */
static VALUE take_scratch(ab_box *box, long len) {
  VALUE buffer = box->scratch;
  box->scratch = Qnil;
  if (NIL_P(buffer)) return rb_str_buf_new(len);
  rb_str_modify_expand(buffer, len > RSTRING_LEN(buffer) ? len - RSTRING_LEN(buffer) : 0);
  rb_str_set_len(buffer, 0);
  rb_enc_associate(buffer, rb_ascii8bit_encoding());
  return buffer;
}

static void keep_scratch(VALUE self, ab_box *box, VALUE buffer, long long len) {
  if (OBJ_FROZEN(buffer) || len > SCRATCH_MAX) return;
  RB_OBJ_WRITE(self, &box->scratch, buffer);
}

static VALUE box_write_gen(VALUE self, VALUE length) {
  ab_box *box = ab__box_to_change(self);
  rb_need_block();
  long long len = NUM2LL(length);
  if (len < 0 || len > LONG_MAX / 2) rb_raise(rb_eRangeError, "%lld is not a length", len);
  if (ab_outbox_closed(box->queue)) ab__box_raise(AB_ECLOSED);
  VALUE buffer = take_scratch(box, (long)len);
  rb_yield(buffer);
  long made = RSTRING_LEN(buffer);
  if (made > len) {
    rb_raise(rb_eArgError, "the block has made %ld bytes, at most %lld are allowed", made, len);
  }
  put(self, box, RSTRING_PTR(buffer), (size_t)made);
  keep_scratch(self, box, buffer, len);
  RB_GC_GUARD(buffer);
  return LONG2NUM(made);
}

/* --- numbers --- */

NORETURN(static void raise_no_integer(VALUE value, unsigned bits));

static void raise_no_integer(VALUE value, unsigned bits) {
  if (!RB_INTEGER_TYPE_P(value)) {
    rb_raise(rb_eTypeError, "an Integer is needed, not %" PRIsVALUE, rb_obj_class(value));
  }
  rb_raise(rb_eRangeError, "%" PRIsVALUE " is not between 0 and 2**%u - 1", value, bits);
}

static uint64_t unsigned_of(VALUE value, unsigned bits) {
  if (RB_LIKELY(FIXNUM_P(value))) {
    long number = FIX2LONG(value);
    if (RB_LIKELY(number >= 0 && (bits == 64 || (uint64_t)number >> bits == 0))) {
      return (uint64_t)number;
    }
  } else if (bits == 64 && RB_TYPE_P(value, T_BIGNUM) &&
             rb_big_cmp(value, INT2FIX(0)) == INT2FIX(1) &&
             rb_absint_size(value, NULL) <= sizeof(uint64_t)) {
    return rb_big2ull(value);
  }
  raise_no_integer(value, bits);
}

static inline VALUE put_number(VALUE self, uint64_t number, unsigned bytes, bool big) {
  ab_box *box = ab__box_to_change(self);
  char wire[8];
  for (unsigned i = 0; i < bytes; i++) {
    wire[big ? bytes - 1 - i : i] = (char)(number >> (8 * i));
  }
  put(self, box, wire, bytes);
  return self;
}

static uint64_t bits_of_single(VALUE value) {
  float number = (float)NUM2DBL(value);
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

static uint64_t bits_of_double(VALUE value) {
  double number = NUM2DBL(value);
  uint64_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

static VALUE box_write_byte(VALUE self, VALUE value) {
  return put_number(self, unsigned_of(value, 8), 1, true);
}

#define NUMBER_METHODS(type, bytes, convert)                                                       \
  static VALUE box_write_##type##_be(VALUE self, VALUE value) {                                    \
    return put_number(self, convert, bytes, true);                                                 \
  }                                                                                                \
  static VALUE box_write_##type##_le(VALUE self, VALUE value) {                                    \
    return put_number(self, convert, bytes, false);                                                \
  }

NUMBER_METHODS(u16, 2, unsigned_of(value, 16))
NUMBER_METHODS(u32, 4, unsigned_of(value, 32))
NUMBER_METHODS(u48, 6, unsigned_of(value, 48))
NUMBER_METHODS(u64, 8, unsigned_of(value, 64))
NUMBER_METHODS(f32, 4, bits_of_single(value))
NUMBER_METHODS(f64, 8, bits_of_double(value))

#define DEFINE_NUMBER(type)                                                                        \
  rb_define_method(cOutbox, "write_" #type "_be", box_write_##type##_be, 1);                       \
  rb_define_method(cOutbox, "write_" #type "_le", box_write_##type##_le, 1);

void ab__init_outbox_write(VALUE cOutbox) {
  rb_define_method(cOutbox, "<<", box_append, 1);
  rb_define_method(cOutbox, "write", box_write, -1);
  rb_define_method(cOutbox, "schedule", box_schedule, -1);
  rb_define_method(cOutbox, "schedule_file", box_schedule_file, -1);
  rb_define_method(cOutbox, "write_gen", box_write_gen, 1);
  rb_define_method(cOutbox, "write_byte", box_write_byte, 1);
  DEFINE_NUMBER(u16)
  DEFINE_NUMBER(u32)
  DEFINE_NUMBER(u48)
  DEFINE_NUMBER(u64)
  DEFINE_NUMBER(f32)
  DEFINE_NUMBER(f64)
}
