/* Field lines from an app's Hash: the one way by which names and values of an app get on the wire,
 * in a final head, an interim one or a trailer section (RFC 9110 5, RFC 9112 5). */
#include <string.h>

#include "base/bits.h"
#include "http/char.h"
#include "http/trailer.h"
#include "http1/write.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_response.h"

#define SHOWN 200 /* characters */

VALUE ab_response_show(VALUE object) {
  int state = 0;
  VALUE text = rb_protect(rb_inspect, object, &state);
  if (state) {
    VALUE exception = rb_errinfo();
    bool is_exception = RTEST(rb_obj_is_kind_of(exception, rb_eException));
    if (!is_exception || ab_is_fatal(exception)) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    text = rb_any_to_s(object);
  }
  VALUE start = rb_str_substr(text, 0, SHOWN);
  if (RSTRING_LEN(start) == RSTRING_LEN(text)) return text;
  return rb_str_cat_cstr(start, "...");
}

void ab_response_refuse(const char *problem, VALUE object) {
  VALUE shown = ab_response_show(object);
  rb_raise(ab_class("AppError"), "invalid response: %s: %" PRIsVALUE, problem, shown);
}

static int refuse(ab_lines *lines, const char *problem, VALUE object) {
  lines->problem = problem;
  lines->problem_object = object;
  return ST_STOP;
}

/* As refuse, for what ab_lines_fill may mend. */
static int refuse_odd(ab_lines *lines, const char *problem, VALUE object) {
  lines->odd = true;
  return refuse(lines, problem, object);
}

void ab_lines_check(const ab_lines *lines) {
  if (AB_UNLIKELY(lines->problem != NULL)) {
    ab_response_refuse(lines->problem, lines->problem_object);
  }
}

char *ab__lines_grow(ab_lines *lines, size_t len) {
  ab_runner *runner = lines->call->runner;
  size_t needed, capacity = runner->scratch_capacity;
  bool fits = ab_add_size(lines->used, len, &needed);
  while (fits && capacity < needed) fits = ab_mul_size(capacity, 2, &capacity);
  char *grown = fits ? ab_realloc(&ab_mem_libc, runner->scratch, capacity) : NULL;
  if (!grown) {
    refuse(lines, "no memory for its head", Qnil);
    return NULL;
  }
  runner->scratch = grown;
  runner->scratch_capacity = capacity;
  return grown + lines->used;
}

void ab__response_shrink(ab_runner *runner) {
  char *shrunk = ab_realloc(&ab_mem_libc, runner->scratch, AB_SCRATCH_SIZE);
  if (!shrunk) return;
  runner->scratch = shrunk;
  runner->scratch_capacity = AB_SCRATCH_SIZE;
}

static ab_view view_of(VALUE string) {
  return (ab_view){RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};
}

#define NAME_IS(name, lower) ab_view_spells(view_of(name), lower, sizeof(lower) - 1)

static bool contains_nocase(const char *ptr, size_t len, const char *lower) {
  size_t want = strlen(lower);
  for (size_t i = 0; i + want <= len; i++) {
    if (ab_equals_nocase(ptr + i, lower, want)) return true;
  }
  return false;
}

static bool inspect_connection(ab_lines *lines, const char *value, size_t len) {
  if (contains_nocase(value, len, "close")) lines->content.closes = true;
  /* "upgrade" is the only other option that an app can mean (RFC 9110 7.6.1). */
  bool upgrade = contains_nocase(value, len, "upgrade");
  lines->upgrade = lines->upgrade || upgrade;
  return upgrade;
}

static bool inspect_length(ab_lines *lines, const char *value, size_t len) {
  if (lines->content.declared || !ab_parse_digits(value, len, &lines->content.length)) {
    refuse(lines, "Content-Length is no length", rb_str_new(value, (long)len));
  }
  lines->content.declared = true;
  return false;
}

static bool inspect_coding(ab_lines *lines, const char *value, size_t len) {
  if (len != 7 || !ab_equals_nocase(value, "chunked", 7)) {
    refuse(lines, "Transfer-Encoding is not chunked", rb_str_new(value, (long)len));
  }
  lines->content.coded = true;
  return false;
}

/* Fields that are about the message and the connection are ours to write: they are read here.
 * Returns false when the field is not passed on. */
static bool inspect_final(ab_lines *lines, VALUE name, const char *value, size_t len) {
  switch (RSTRING_LEN(name)) {
  case 4:
    if (NAME_IS(name, "date")) lines->has_date = true;
    return true;
  case 6: /* CGI's way to give the status, of old Rack apps */
    return !NAME_IS(name, "status");
  case 7:
    if (NAME_IS(name, "upgrade")) lines->has_upgrade = true;
    if (NAME_IS(name, "trailer")) lines->has_trailer = true;
    return true;
  case 10:
    return NAME_IS(name, "connection") ? inspect_connection(lines, value, len) : true;
  case 14:
    return NAME_IS(name, "content-length") ? inspect_length(lines, value, len) : true;
  case 17:
    return NAME_IS(name, "transfer-encoding") ? inspect_coding(lines, value, len) : true;
  default:
    return true;
  }
}

/* An interim response has no content and ends nothing (RFC 9110 15.2, 8.6; RFC 9112 6.1). */
static bool forbidden_interim(VALUE name) {
  static const char *const names[] = {"connection", "content-length", "transfer-encoding",
                                      "trailer",    "upgrade",        "keep-alive",
                                      "status"};
  for (size_t i = 0; i < AB_ARRAY_LEN(names); i++) {
    if (ab_view_spells(view_of(name), names[i], strlen(names[i]))) return true;
  }
  return false;
}

bool ab_lines_forbidden_trailer(VALUE name) {
  return !ab_trailer_allowed(view_of(name));
}

/* Returns false when the field is not passed on; with a problem when it is refused. */
static bool inspect(ab_lines *lines, VALUE name, const char *value, size_t len) {
  if (AB_LIKELY(lines->section == AB_SECTION_FINAL)) return inspect_final(lines, name, value, len);
  bool interim = lines->section == AB_SECTION_INTERIM;
  if (!(interim ? forbidden_interim(name) : ab_lines_forbidden_trailer(name))) return true;
  refuse(lines,
         interim ? "a field that no interim response may have"
                 : "a field that no trailer section may have",
         name);
  return false;
}

static void put_status(ab_lines *lines, int status) {
  char *dst = ab_lines_room(lines, AB_STATUS_LINE_MAX);
  if (dst) lines->used += (size_t)(ab_write_status_line(dst, status) - dst);
}

/* `shown` is what a problem with the field shows. */
static inline int put_checked(ab_lines *lines, const char *name, size_t name_len, const char *value,
                              size_t len, VALUE shown) {
  size_t needed;
  if (!ab_add_size(name_len, len, &needed) || !ab_add_size(needed, 4, &needed)) {
    return refuse(lines, "no memory for its head", Qnil);
  }
  char *dst = ab_lines_room(lines, needed);
  if (AB_UNLIKELY(!dst)) return ST_STOP;
  if (AB_UNLIKELY(!ab_write_field(dst, name, name_len, value, len))) {
    if (memchr(value, '\n', len)) lines->odd = true;
    return refuse(lines, "this field has a byte that must not be there", shown);
  }
  lines->used += needed;
  return ST_CONTINUE;
}

void ab_lines_put_field(ab_lines *lines, const char *name, size_t name_len, const char *value,
                        size_t len) {
  put_checked(lines, name, name_len, value, len, Qnil);
}

static int put_line(ab_lines *lines, VALUE name, const char *value, size_t len) {
  if (!inspect(lines, name, value, len)) return lines->problem ? ST_STOP : ST_CONTINUE;
  return put_checked(lines, RSTRING_PTR(name), (size_t)RSTRING_LEN(name), value, len, name);
}

static const char not_a_string[] = "this field's value is not a String";

/* A String; in Rack 2 its lines are field lines of their own. */
static int put_value(ab_lines *lines, VALUE name, VALUE value) {
  if (AB_UNLIKELY(!RB_TYPE_P(value, T_STRING))) return refuse_odd(lines, not_a_string, name);
  const char *ptr = RSTRING_PTR(value);
  size_t len = (size_t)RSTRING_LEN(value);
  if (!lines->newlines) return put_line(lines, name, ptr, len);
  while (len > 0 && ptr[len - 1] == '\n') len--; /* as Puma does: no empty lines at the end */
  for (;;) {
    const char *newline = memchr(ptr, '\n', len);
    size_t line = newline ? (size_t)(newline - ptr) : len;
    int result = put_line(lines, name, ptr, line);
    if (result != ST_CONTINUE || !newline) return result;
    ptr += line + 1;
    len -= line + 1;
  }
}

/* Keys for the server's eyes (Rack SPEC, "The Headers"), which are never sent. */
static inline bool is_for_server(VALUE name) {
  const char *ptr = RSTRING_PTR(name);
  long len = RSTRING_LEN(name);
  return (len >= 5 && memcmp(ptr, "rack.", 5) == 0) || (len >= 6 && memcmp(ptr, "abaca.", 6) == 0);
}

static int keep_for_server(ab_lines *lines, VALUE name, VALUE value) {
  if (lines->section != AB_SECTION_FINAL || NIL_P(value)) return ST_CONTINUE;
  if (NAME_IS(name, "rack.hijack")) lines->hijack = value;
  if (NAME_IS(name, "rack.protocol")) lines->protocol = value;
  if (NAME_IS(name, "abaca.trailers")) lines->trailers = value;
  return ST_CONTINUE;
}

static int put_field(VALUE name, VALUE value, VALUE arg) {
  ab_lines *lines = (ab_lines *)arg;
  if (!RB_TYPE_P(name, T_STRING)) return refuse(lines, "a field's name is not a String", name);
  if (AB_UNLIKELY(is_for_server(name))) return keep_for_server(lines, name, value);
  if (!RB_TYPE_P(value, T_ARRAY)) return put_value(lines, name, value);
  for (long i = 0; i < RARRAY_LEN(value); i++) {
    if (put_value(lines, name, RARRAY_AREF(value, i)) != ST_CONTINUE) return ST_STOP;
  }
  return ST_CONTINUE;
}

VALUE ab_lines_hash(VALUE headers) {
  if (RB_TYPE_P(headers, T_HASH)) return headers;
  VALUE hash = Qnil;
  /* nil, which converts to a Hash too, is a forgotten value. */
  if (rb_respond_to(headers, rb_intern("each")) && rb_respond_to(headers, rb_intern("to_h"))) {
    hash = rb_funcall(headers, rb_intern("to_h"), 0);
  }
  if (!RB_TYPE_P(hash, T_HASH)) ab_response_refuse("the headers are not a Hash", headers);
  return hash;
}

static void put_all(ab_lines *lines, ab_call *call, enum ab_section section, int status,
                    VALUE headers) {
  *lines = (ab_lines){.call = call,
                      .section = (uint8_t)section,
                      .newlines = call->rack->newline_values || section == AB_SECTION_INTERIM,
                      .hijack = Qnil,
                      .protocol = Qnil,
                      .trailers = Qnil,
                      .problem_object = Qnil};
  if (status) put_status(lines, status);
  if (!lines->problem && !NIL_P(headers)) rb_hash_foreach(headers, put_field, (VALUE)lines);
}

VALUE ab_lines_fill(ab_lines *lines, enum ab_section section, int status, VALUE headers) {
  ab_call *call = lines->call;
  put_all(lines, call, section, status, headers);
  if (AB_UNLIKELY(lines->odd)) {
    VALUE handle = call->handle;
    VALUE argv[] = {headers, call->env, lines->newlines ? Qtrue : Qfalse};
    headers = rb_funcallv(call->rack->plain_fields, rb_intern("call"), 3, argv);
    Check_Type(headers, T_HASH);
    put_all(lines, ab_call_of(handle), section, status, headers);
  }
  ab_lines_check(lines);
  return headers;
}
