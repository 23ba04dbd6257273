/* Abaca::Page::Line: looks as one line of JSON. They have thousands of values, so it is written
 * natively. */
#include <ruby/encoding.h>

#include "base/json.h"
#include "rb/page/rb_page.h"

/* Lists in lists: none of ours has so many. */
#define MOST_DEEP 100
/* Bytes for which there is room at first. */
#define FIRST_ROOM 4096

typedef struct line {
  VALUE text; /* its length is set at the end, and when it grows */
  char *at, *end;
  VALUE stand_in;
  VALUE written; /* the class of what is JSON already */
  bool rounds;   /* to microseconds */
  unsigned deep;
} line;

/* --- the text --- */

static void set_place(line *line) {
  line->at = RSTRING_PTR(line->text) + RSTRING_LEN(line->text);
  line->end = RSTRING_PTR(line->text) + rb_str_capacity(line->text);
}

static void set_length(line *line) {
  rb_str_set_len(line->text, line->at - RSTRING_PTR(line->text));
}

/* As much again as there is, at least. */
static void json_make_room(line *line, size_t size) {
  if ((size_t)(line->end - line->at) >= size) return;
  set_length(line);
  if (size > LONG_MAX / 4) rb_raise(rb_eArgError, "a text is too long");
  rb_str_modify_expand(line->text, RSTRING_LEN(line->text) + (long)size);
  set_place(line);
}

static void json_put(line *line, const char *bytes, size_t len) {
  json_make_room(line, len);
  memcpy(line->at, bytes, len);
  line->at += len;
}

#define JSON_PUT(line, literal) json_put(line, literal, sizeof(literal) - 1)

static void put_all(line *line, VALUE string) {
  json_put(line, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
  RB_GC_GUARD(string);
}

/* --- values --- */

/* In other encodings a text is transcoded first. */
static VALUE as_utf8(const line *line, VALUE string) {
  int encoding = ENCODING_GET(string);
  if (encoding == rb_utf8_encindex() || encoding == rb_ascii8bit_encindex()) return string;
  if (rb_enc_str_coderange(string) == ENC_CODERANGE_7BIT) return string;
  return rb_funcall(rb_path2class("Abaca::Log::Text"), rb_intern("utf8"), 2, string,
                    line->stand_in);
}

static void put_string(line *line, VALUE string) {
  size_t room;
  string = as_utf8(line, string);
  ab_view text = {RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};
  ab_view stand_in = {RSTRING_PTR(line->stand_in), (size_t)RSTRING_LEN(line->stand_in)};
  if (!ab_json_text_room(text.len, &room)) rb_raise(rb_eArgError, "a text is too long");
  json_make_room(line, room);
  line->at = ab_json_text(line->at, text, stand_in);
  RB_GC_GUARD(string);
}

static void put_text_of(line *line, VALUE value) {
  if (RB_TYPE_P(value, T_STRING) && RBASIC_CLASS(value) == line->written)
    return put_all(line, value);
  put_string(line, SYMBOL_P(value) ? rb_sym2str(value) : rb_obj_as_string(value));
}

static void put_integer(line *line, VALUE value) {
  long number = FIXNUM_P(value) ? FIX2LONG(value) : -1;
  if (number < 0) return put_all(line, rb_obj_as_string(value));
  json_make_room(line, AB_JSON_NUMBER_MAX);
  line->at = ab_json_count(line->at, (uint64_t)number);
}

/* Half of a microsecond is rounded up. */
static void put_float(line *line, VALUE value) {
  double number = RFLOAT_VALUE(value);
  uint64_t billionths;
  if (!isfinite(number)) return JSON_PUT(line, "null");
  if (!ab_json_billionths(number, &billionths)) {
    if (line->rounds) value = rb_funcall(value, rb_intern("round"), 1, INT2FIX(6));
    return put_all(line, rb_obj_as_string(value));
  }
  if (line->rounds) billionths = (billionths + 500) / 1000 * 1000;
  json_make_room(line, AB_JSON_NUMBER_MAX);
  line->at = ab_json_fraction(line->at, billionths);
}

static void put_time(line *line, VALUE time) {
  VALUE utc = rb_funcall(time, rb_intern("getutc"), 0);
  put_string(line, rb_funcall(utc, rb_intern("strftime"), 1, rb_str_new_cstr("%FT%T.%3NZ")));
}

static void put_value(line *line, VALUE value);

static void put_array(line *line, VALUE array) {
  JSON_PUT(line, "[");
  for (long i = 0; i < RARRAY_LEN(array); i++) {
    if (i > 0) JSON_PUT(line, ",");
    put_value(line, RARRAY_AREF(array, i));
  }
  JSON_PUT(line, "]");
}

static int put_pair(VALUE key, VALUE value, VALUE arg) {
  line *line = (struct line *)arg;
  if (line->at[-1] != '{') JSON_PUT(line, ",");
  put_text_of(line, key);
  JSON_PUT(line, ":");
  put_value(line, value);
  return ST_CONTINUE;
}

static void put_hash(line *line, VALUE hash) {
  JSON_PUT(line, "{");
  rb_hash_foreach(hash, put_pair, (VALUE)line);
  JSON_PUT(line, "}");
}

static void put_list(line *line, VALUE value) {
  if (++line->deep > MOST_DEEP) rb_raise(rb_eArgError, "lists in more than %d lists", MOST_DEEP);
  if (RB_TYPE_P(value, T_HASH))
    put_hash(line, value);
  else
    put_array(line, value);
  line->deep--;
}

static void put_value(line *line, VALUE value) {
  switch (rb_type(value)) {
  case T_NIL:
    return JSON_PUT(line, "null");
  case T_TRUE:
    return JSON_PUT(line, "true");
  case T_FALSE:
    return JSON_PUT(line, "false");
  case T_FIXNUM:
  case T_BIGNUM:
    return put_integer(line, value);
  case T_FLOAT:
    return put_float(line, value);
  case T_HASH:
  case T_ARRAY:
    return put_list(line, value);
  default:
    if (RTEST(rb_obj_is_kind_of(value, rb_cTime))) return put_time(line, value);
    put_text_of(line, value);
  }
}

/* call-seq: json(value, stand_in, rounds) -> String */
static VALUE line_json(VALUE klass, VALUE value, VALUE stand_in, VALUE rounds) {
  StringValue(stand_in);
  if (RSTRING_LEN(stand_in) > AB_JSON_STAND_IN_MAX) rb_raise(rb_eArgError, "too long to stand in");
  line line = {.text = rb_enc_str_new(NULL, 0, rb_utf8_encoding()),
               .stand_in = rb_str_new_frozen(stand_in),
               .written = rb_const_get(klass, rb_intern("Written")),
               .rounds = RTEST(rounds)};
  rb_str_modify_expand(line.text, FIRST_ROOM);
  set_place(&line);
  put_value(&line, value);
  set_length(&line);
  RB_GC_GUARD(value);
  RB_GC_GUARD(line.text);
  RB_GC_GUARD(line.stand_in);
  return line.text;
}

void ab_init_json(VALUE mAbaca) {
  VALUE cPage = rb_const_get(mAbaca, rb_intern("Page"));
  VALUE mLine = rb_define_module_under(cPage, "Line");
  rb_define_class_under(mLine, "Written", rb_cString);
  rb_define_singleton_method(mLine, "json", line_json, 3);
}
