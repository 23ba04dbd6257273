/* Abaca::Input, the rack.input of a request with a body: it reads from the connection as bytes
 * come, straight into the Ruby string where it can, and parks the fiber while there are none. Its
 * state is the call's, so that a request's input is one object and no memory beside it. */
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <string.h>

#include "http/char.h"
#include "http/trailer.h"
#include "os/bytes.h"
#include "rb/rack/rb_call.h"
#include "rb/rack/rb_lookup.h"

/* Strings grow by no more than this, or by what they hold already: what a client announces is not
 * what it sends. */
#define GROWTH     65536
#define LINE_AHEAD 8192

static const rb_data_type_t input_type = {
    .wrap_struct_name = "Abaca::Input",
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE ab_input_make(ab_call *call) {
  void *mark = ab_call_mark(call);
  return call->input = rb_data_typed_object_wrap(call->rack->input_class, mark, &input_type);
}

static ab_call *call_or_null(VALUE self) {
  return ab_call_at(rb_check_typeddata(self, &input_type));
}

static ab_call *call_of(VALUE self) {
  ab_call *call = call_or_null(self);
  if (!call) rb_raise(rb_eIOError, "the request is over: its body is closed");
  if (call->input_closed) rb_raise(rb_eIOError, "closed stream");
  if (call->hijacked) rb_raise(rb_eIOError, "the connection was hijacked, its body with it");
  ab_call_check_own(call);
  return call;
}

static void raise_body_error(int error) {
  if (error == AB_EPEER) {
    rb_raise(ab_class("IncompleteBody"), "the client went away in the middle of its body");
  }
  rb_raise(ab_class("BodyError"), "the request's body cannot be read: %s",
           ab_http_error_reason(error));
}

/* --- bytes --- */

static VALUE lower_case(ab_view name) {
  VALUE string = rb_enc_str_new(name.ptr, (long)name.len, rb_utf8_encoding());
  char *p = RSTRING_PTR(string);
  for (size_t i = 0; i < name.len; i++) p[i] = ab_lower(p[i]);
  return string;
}

/* Names and values of the trailer section, in turn. */
static VALUE read_trailers(const ab_call *call) {
  const ab_body *body = ab_exchange_body(call->exchange);
  ab_view section = {body->trailers, body->trailers_len}, name, value;
  VALUE lines = rb_ary_new();
  while (ab_trailer_next(&section, &name, &value)) {
    if (!ab_trailer_allowed(name)) continue;
    rb_ary_push(lines, lower_case(name));
    rb_ary_push(lines, rb_str_new(value.ptr, (long)value.len));
  }
  return lines;
}

/* The body has ended: env["abaca.trailers"] is filled (RFC 9110 6.5). In that Hash there may be
 * keys of the app's, which are compared by its code: the call is not used any more by then. */
static void fill_trailers(ab_call *call) {
  VALUE trailers = call->trailers, lines = read_trailers(call);
  call->trailers = Qnil;
  if (NIL_P(trailers) || RB_OBJ_FROZEN(trailers)) return;
  for (long i = 0; i < RARRAY_LEN(lines); i += 2) {
    VALUE key = RARRAY_AREF(lines, i), text = RARRAY_AREF(lines, i + 1);
    VALUE before = rb_hash_lookup(trailers, key);
    if (!NIL_P(before)) text = rb_str_append(rb_str_cat_cstr(rb_str_dup(before), ", "), text);
    rb_hash_aset(trailers, key, text);
  }
  RB_GC_GUARD(lines);
}

/* Bytes that a line which was read left over. */
static size_t ahead_len(const ab_call *call) {
  if (AB_LIKELY(NIL_P(call->ahead))) return 0;
  return (size_t)RSTRING_LEN(call->ahead) - call->ahead_used;
}

/* Moves at most `len` of them to `to`; returns their number. The String stays the same one as long
 * as the request, since another fiber may be waiting for bytes to append to it. */
static size_t take_ahead(ab_call *call, char *to, size_t len) {
  size_t there = ahead_len(call);
  if (AB_LIKELY(there == 0)) return 0;
  if (len > there) len = there;
  memcpy(to, RSTRING_PTR(call->ahead) + call->ahead_used, len);
  call->ahead_used += len;
  return len;
}

/* --- waiting --- */

static VALUE wait_parked(VALUE self) {
  ab_call_wait(call_of(self), AB_WAIT_REQUEST_BODY);
  return Qnil;
}

/* For a fiber that an exception has taken out of its wait no deadline may pass. */
static VALUE wait_left(VALUE self) {
  ab_call *call = call_or_null(self);
  if (!call || !ab_list_empty(&call->waits)) return Qnil;
  ab_engine_lock(call->rack->engine);
  ab_exchange_leave_body(call->exchange);
  ab_engine_unlock(call->rack->engine);
  return Qnil;
}

/* One wait of a thread that is not the server's, or of a fiber that cannot be parked: for the
 * socket itself. The time is short, as the engine may have other news. */
static VALUE wait_for_socket(VALUE arg) {
  struct timeval tenth = {0, 100000};
  return INT2FIX(rb_wait_for_single_fd((int)arg, RB_WAITFD_IN, &tenth));
}

static VALUE close_duplicate(VALUE arg) {
  ab_fd_close((int)arg);
  return Qnil;
}

static void input_wait_in_place(ab_call *call) {
  ab_rack *rack = call->rack;
  ab_engine_lock(rack->engine);
  int fd = ab_exchange_duplicate(call->exchange);
  ab_engine_unlock(rack->engine);
  ab_rack_tell_leader(rack); /* it has a deadline to set */
  if (fd >= 0) {
    rb_ensure(wait_for_socket, (VALUE)fd, close_duplicate, (VALUE)fd);
  } else {
    rb_thread_wait_for((struct timeval){0, 2000});
  }
}

static void wait_for_bytes(VALUE self) {
  ab_call *call = call_of(self);
  if (AB_LIKELY(call->runner->executor->can_wait(call->runner))) {
    rb_ensure(wait_parked, self, wait_left, self);
  } else {
    input_wait_in_place(call);
  }
}

/* --- reading --- */

/* Appends at least one and at most `most` bytes of the body; waits for them. Returns their number,
 * 0 at the end. Other fibers may run meanwhile, so nothing is kept over the wait. */
static size_t append(VALUE self, VALUE string, size_t most, bool from_ahead) {
  for (;;) {
    ab_call *call = call_of(self);
    ab_engine *engine = call->rack->engine;
    rb_str_modify_expand(string, (long)most);
    long before = RSTRING_LEN(string);
    char *to = RSTRING_PTR(string) + before;
    ssize_t got = from_ahead ? (ssize_t)take_ahead(call, to, most) : 0;
    ab_engine_lock(engine);
    if (got == 0) got = ab_exchange_read_body(call->exchange, to, most);
    bool done = ab_exchange_body(call->exchange)->done;
    ab_engine_unlock(engine);
    if (got >= 0) {
      rb_str_set_len(string, before + got);
      if (done && !NIL_P(call->trailers)) fill_trailers(call);
      return (size_t)got;
    }
    if (got != AB_AGAIN) raise_body_error((int)got);
    wait_for_bytes(self);
  }
}

/* `here`: bytes that have come and were not read, framing included. */
static uint64_t look_at_rest(const ab_call *call, size_t *here) {
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  const ab_body *body = ab_exchange_body(call->exchange);
  uint64_t left = body->done ? 0 : body->chunked || body->open ? UINT64_MAX : body->left;
  *here = ab_exchange_input_len(call->exchange);
  ab_engine_unlock(engine);
  return left == UINT64_MAX ? left : left + ahead_len(call);
}

static uint64_t to_come(const ab_call *call) {
  size_t here;
  return look_at_rest(call, &here);
}

static size_t next_piece(const ab_call *call, size_t have, uint64_t wanted) {
  size_t piece = have > GROWTH ? have : GROWTH, here;
  uint64_t left = look_at_rest(call, &here);
  /* A short body that is here already gets a string of its size, even if the length is unknown. */
  if (left == UINT64_MAX && have == 0 && here > 0) piece = here;
  if (piece > left) piece = (size_t)left;
  return piece < wanted ? piece : (size_t)wanted;
}

static VALUE emptied(VALUE buffer) {
  if (NIL_P(buffer)) return Qnil;
  StringValue(buffer);
  rb_str_modify(buffer);
  rb_str_set_len(buffer, 0);
  return rb_enc_associate(buffer, rb_ascii8bit_encoding());
}

/* Longer ones are not made by rb_str_new, which from Ruby 4.0 on writes zeros to all of it, and so
 * takes its memory while a slow client is waited for. A short one is to be in its object. */
#define SHORT 640

static VALUE empty_with_room(size_t room) {
  if (room > SHORT) return rb_str_buf_new((long)room);
  VALUE string = rb_str_new(NULL, (long)room);
  rb_str_set_len(string, 0);
  return string;
}

/* Reads `wanted` bytes or to the end, into the buffer or a new String. */
static VALUE read_bytes(VALUE self, uint64_t wanted, VALUE buffer) {
  ab_call *call = call_of(self);
  VALUE string = NIL_P(buffer) ? empty_with_room(next_piece(call, 0, wanted)) : buffer;
  uint64_t read = 0;
  while (read < wanted && to_come(call) > 0) {
    size_t got = append(self, string, next_piece(call, (size_t)read, wanted - read), true);
    if (got == 0) break;
    read += got;
    call = call_of(self);
  }
  /* Room for what did not come is not kept. */
  if (NIL_P(buffer)) rb_str_resize(string, RSTRING_LEN(string));
  return string;
}

/* --- methods --- */

/* call-seq: read(length = nil, buffer = nil) -> String or nil
 *
 * As IO#read: waits for `length` bytes or the end of the body; all of it without a length. The
 * String is binary. Returns nil at the end when the length is positive, and "" when it is nil or
 * 0. Raises BodyError when the client goes away, is too slow or sends what is no body; IOError
 * after #close and after the request. */
static VALUE input_read(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 2);
  VALUE length = argc > 0 ? argv[0] : Qnil;
  uint64_t wanted = UINT64_MAX;
  if (!NIL_P(length)) {
    long number = NUM2LONG(length);
    if (number < 0) rb_raise(rb_eArgError, "negative length %ld given", number);
    wanted = (uint64_t)number;
  }
  call_of(self);
  VALUE string = read_bytes(self, wanted, emptied(argc > 1 ? argv[1] : Qnil));
  return RSTRING_LEN(string) == 0 && !NIL_P(length) && wanted > 0 ? Qnil : string;
}

/* call-seq: readpartial(length, buffer = nil) -> String
 *
 * As IO#readpartial: waits only when nothing is here. Raises EOFError at the end, and what #read
 * raises. */
static VALUE input_readpartial(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, 2);
  long length = NUM2LONG(argv[0]);
  if (length < 0) rb_raise(rb_eArgError, "negative length %ld given", length);
  call_of(self);
  VALUE string = argc > 1 && !NIL_P(argv[1]) ? emptied(argv[1]) : rb_str_new(NULL, 0);
  if (length == 0) return string;
  size_t piece = next_piece(call_of(self), 0, (uint64_t)length);
  if (piece == 0 || append(self, string, piece, true) == 0) rb_eof_error();
  return string;
}

/* Reads more behind what is read ahead; false at the end. */
static bool read_ahead(VALUE self) {
  ab_call *call = call_of(self);
  if (NIL_P(call->ahead)) call->ahead = rb_str_new(NULL, 0);
  VALUE ahead = call->ahead;
  size_t left = ahead_len(call);
  if (call->ahead_used > 0) {
    rb_str_modify(ahead);
    memmove(RSTRING_PTR(ahead), RSTRING_PTR(ahead) + call->ahead_used, left);
    rb_str_set_len(ahead, (long)left);
    call->ahead_used = 0;
  }
  return append(self, ahead, left > LINE_AHEAD ? left : LINE_AHEAD, false) > 0;
}

static VALUE cut_ahead(ab_call *call, size_t len) {
  VALUE line = rb_str_new(NULL, (long)len);
  take_ahead(call, RSTRING_PTR(line), len);
  return line;
}

/* Where in what is read ahead the first separator ends; 0: none is there. `searched` bytes are
 * known to begin none. */
static size_t find_end(const ab_call *call, VALUE separator, size_t searched) {
  size_t there = ahead_len(call), width = (size_t)RSTRING_LEN(separator);
  if (there < width || there <= searched) return 0;
  const char *start = RSTRING_PTR(call->ahead) + call->ahead_used;
  const char *found = ab_os_find(start + searched, there - searched, RSTRING_PTR(separator), width);
  return found ? (size_t)(found - start) + width : 0;
}

/* call-seq: take_line(separator, limit) -> String or nil
 *
 * The bytes up to and with `separator` (nil: to the end), at most `limit` (nil: any number). nil
 * at the end. */
static VALUE input_take_line(VALUE self, VALUE separator, VALUE limit) {
  if (!NIL_P(separator)) StringValue(separator);
  size_t most = NIL_P(limit) ? SIZE_MAX : NUM2SIZET(limit), searched = 0;
  for (;;) {
    ab_call *call = call_of(self);
    size_t there = ahead_len(call);
    size_t end = NIL_P(separator) ? 0 : find_end(call, separator, searched);
    if (end > 0 || there >= most) return cut_ahead(call, end && end < most ? end : most);
    if (!NIL_P(separator) && there >= (size_t)RSTRING_LEN(separator)) {
      searched = there - (size_t)RSTRING_LEN(separator) + 1;
    }
    if (read_ahead(self)) continue;
    call = call_of(self);
    there = ahead_len(call);
    return there > 0 ? cut_ahead(call, there) : Qnil;
  }
}

/* call-seq: eof? -> true or false
 *
 * Waits for a byte or the end. Raises what #read raises. */
static VALUE input_eof_p(VALUE self) {
  ab_call *call = call_of(self);
  if (ahead_len(call) > 0) return Qfalse;
  return to_come(call) > 0 && read_ahead(self) ? Qfalse : Qtrue;
}

/* call-seq: size -> Integer or nil
 *
 * The body's bytes; nil while only its end can tell. */
static VALUE input_size(VALUE self) {
  const ab_call *call = call_of(self);
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  const ab_body *body = ab_exchange_body(call->exchange);
  bool known = (!body->chunked || body->done) && !body->endless;
  uint64_t size = body->size + body->left;
  ab_engine_unlock(engine);
  return known ? ULL2NUM(size) : Qnil;
}

/* call-seq: close -> nil
 *
 * Nothing can be read any more. Idempotent, after the request too. */
static VALUE input_close(VALUE self) {
  ab_call *call = ab_call_own(call_or_null(self));
  if (call) {
    call->input_closed = true;
    call->ahead = Qnil;
  }
  return Qnil;
}

/* call-seq: closed? -> true or false */
static VALUE input_closed_p(VALUE self) {
  ab_call *call = ab_call_own(call_or_null(self));
  return !call || call->input_closed ? Qtrue : Qfalse;
}

void ab_init_input(VALUE mAbaca) {
  VALUE cInput = rb_define_class_under(mAbaca, "Input", rb_cObject);
  rb_undef_alloc_func(cInput);
  rb_undef_method(CLASS_OF(cInput), "new");
  rb_define_method(cInput, "read", input_read, -1);
  rb_define_method(cInput, "readpartial", input_readpartial, -1);
  rb_define_private_method(cInput, "take_line", input_take_line, 2);
  rb_define_method(cInput, "eof?", input_eof_p, 0);
  rb_define_method(cInput, "size", input_size, 0);
  rb_define_method(cInput, "close", input_close, 0);
  rb_define_method(cInput, "closed?", input_closed_p, 0);
}
