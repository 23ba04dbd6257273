/* The response writer: from the triplet that an app returns to octets (Rack SPEC, "The Response";
 * RFC 9110, RFC 9112).
 *
 * The head is put together in a scratch buffer of the server's. Between its first octet and its
 * hand-over no Ruby code runs, so that no other fiber can come in between. */
#include <ruby.h>
#include <string.h>

#include "base/bits.h"
#include "http1/write.h"
#include "rb/rb_server.h"

/* What the app's fields say about the message itself. */
typedef struct head {
  ab_exchange *exchange;
  size_t used;     /* octets in the scratch buffer */
  uint64_t length; /* Content-Length, if has_length */
  bool has_length, has_date, close, chunked;
  const char *problem; /* why the response is refused */
  VALUE problem_object;
} head;

static int refuse(head *h, const char *problem, VALUE object) {
  h->problem = problem;
  h->problem_object = object;
  return ST_STOP;
}

NORETURN(static void raise_refused(const char *problem, VALUE object));

static void raise_refused(const char *problem, VALUE object) {
  rb_raise(ab_error_class("AppError"), "invalid response: %s: %+" PRIsVALUE, problem, object);
}

/* --- the scratch buffer --- */

/* Room for `len` more octets behind `used`; NULL when memory runs out. */
static char *scratch_room(ab_server *server, size_t used, size_t len) {
  size_t needed;
  if (!ab_add_size(used, len, &needed)) return NULL;
  if (needed > server->scratch_capacity) {
    size_t capacity = server->scratch_capacity;
    while (capacity < needed) {
      if (!ab_mul_size(capacity, 2, &capacity)) return NULL;
    }
    char *grown = ab_realloc(&ab_mem_libc, server->scratch, capacity);
    if (!grown) return NULL;
    server->scratch = grown;
    server->scratch_capacity = capacity;
  }
  return server->scratch + used;
}

static bool put(head *h, const char *octets, size_t len) {
  char *dst = scratch_room(h->exchange->server, h->used, len);
  if (!dst) {
    refuse(h, "no memory for its head", Qnil);
    return false;
  }
  memcpy(dst, octets, len);
  h->used += len;
  return true;
}

#define PUT(h, literal) put(h, literal, sizeof(literal) - 1)

/* --- fields --- */

static bool name_is(VALUE name, const char *lower, size_t len) {
  return (size_t)RSTRING_LEN(name) == len && ab_equals_nocase(RSTRING_PTR(name), lower, len);
}

#define NAME_IS(name, lower) name_is(name, lower, sizeof(lower) - 1)

/* 1 to 18 digits. */
static bool parse_length(const char *ptr, size_t len, uint64_t *length) {
  *length = 0;
  if (len == 0 || len > 18) return false;
  for (size_t i = 0; i < len; i++) {
    if (ptr[i] < '0' || ptr[i] > '9') return false;
    *length = *length * 10 + (uint64_t)(ptr[i] - '0');
  }
  return true;
}

static bool contains_nocase(const char *ptr, size_t len, const char *lower) {
  size_t want = strlen(lower);
  for (size_t i = 0; i + want <= len; i++) {
    if (ab_equals_nocase(ptr + i, lower, want)) return true;
  }
  return false;
}

/* Fields that are about the message and the connection are ours to write: they are read here.
 * Returns false when the field is not passed on. */
static bool inspect_field(head *h, VALUE name, const char *value, size_t len) {
  switch (RSTRING_LEN(name)) {
  case 4:
    if (NAME_IS(name, "date")) h->has_date = true;
    return true;
  case 6: /* CGI's way to give the status, of old Rack apps */
    return !NAME_IS(name, "status");
  case 10:
    if (!NAME_IS(name, "connection")) return true;
    if (contains_nocase(value, len, "close")) h->close = true;
    /* "upgrade" is the only other option that an app can mean (RFC 9110 7.6.1). */
    return contains_nocase(value, len, "upgrade");
  case 14:
    if (!NAME_IS(name, "content-length")) return true;
    if (h->has_length || !parse_length(value, len, &h->length)) {
      refuse(h, "Content-Length is no length", rb_str_new(value, (long)len));
    }
    h->has_length = true;
    return false;
  case 17:
    if (!NAME_IS(name, "transfer-encoding")) return true;
    if (len != 7 || !ab_equals_nocase(value, "chunked", 7)) {
      refuse(h, "Transfer-Encoding is not chunked", rb_str_new(value, (long)len));
    }
    h->chunked = true; /* the app writes the chunks itself, as Rack::Chunked does */
    return false;
  default:
    return true;
  }
}

static int put_line(head *h, VALUE name, const char *value, size_t len) {
  if (!inspect_field(h, name, value, len)) return h->problem ? ST_STOP : ST_CONTINUE;
  size_t name_len = (size_t)RSTRING_LEN(name), needed;
  if (!ab_add_size(name_len, len, &needed) || !ab_add_size(needed, 4, &needed)) return ST_STOP;
  char *dst = scratch_room(h->exchange->server, h->used, needed);
  if (!dst) return refuse(h, "no memory for its head", Qnil);
  char *end = ab_write_field(dst, RSTRING_PTR(name), name_len, value, len);
  if (!end) return refuse(h, "a field has an octet that must not be there", name);
  h->used += needed;
  return ST_CONTINUE;
}

/* A String; in Rack 2 its lines are field lines of their own. */
static int put_value(head *h, VALUE name, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING)) return refuse(h, "a field's value is not a String", name);
  const char *ptr = RSTRING_PTR(value);
  size_t len = (size_t)RSTRING_LEN(value);
  if (!h->exchange->server->newline_values) return put_line(h, name, ptr, len);
  for (;;) {
    const char *newline = memchr(ptr, '\n', len);
    size_t line = newline ? (size_t)(newline - ptr) : len;
    int result = put_line(h, name, ptr, line);
    if (result != ST_CONTINUE || !newline) return result;
    ptr += line + 1;
    len -= line + 1;
  }
}

static int put_field(VALUE name, VALUE value, VALUE arg) {
  head *h = (head *)arg;
  if (!RB_TYPE_P(name, T_STRING)) return refuse(h, "a field's name is not a String", name);
  /* For the server's eyes (Rack SPEC, "The Headers"). We offer none of what they could ask for. */
  if (RSTRING_LEN(name) >= 5 && memcmp(RSTRING_PTR(name), "rack.", 5) == 0) {
    return NAME_IS(name, "rack.hijack") ? refuse(h, "rack.hijack is not offered", name)
                                        : ST_CONTINUE;
  }
  if (!RB_TYPE_P(value, T_ARRAY)) return put_value(h, name, value);
  for (long i = 0; i < RARRAY_LEN(value); i++) {
    if (put_value(h, name, RARRAY_AREF(value, i)) != ST_CONTINUE) return ST_STOP;
  }
  return ST_CONTINUE;
}

/* --- the head --- */

/* 200, "200", or what converts (Rack SPEC, "The Status"). 100 to 199 cannot be a final status (RFC
 * 9110 15.2). */
static int parse_status(VALUE status) {
  long number = 0;
  if (FIXNUM_P(status)) {
    number = FIX2LONG(status);
  } else if (RB_TYPE_P(status, T_STRING)) {
    uint64_t digits;
    if (parse_length(RSTRING_PTR(status), (size_t)RSTRING_LEN(status), &digits)) {
      number = (long)digits;
    }
  } else if (rb_respond_to(status, rb_intern("to_i"))) {
    VALUE converted = rb_funcall(status, rb_intern("to_i"), 0);
    if (FIXNUM_P(converted)) number = FIX2LONG(converted);
  }
  if (number < 200 || number > 999) raise_refused("the status is not one of 200 to 999", status);
  return (int)number;
}

/* A Hash, or what is like one; nil, which converts to one too, is a forgotten value. */
static VALUE headers_hash(VALUE headers) {
  if (RB_TYPE_P(headers, T_HASH)) return headers;
  VALUE hash = Qnil;
  if (rb_respond_to(headers, rb_intern("each")) && rb_respond_to(headers, rb_intern("to_h"))) {
    hash = rb_funcall(headers, rb_intern("to_h"), 0);
  }
  if (!RB_TYPE_P(hash, T_HASH)) raise_refused("the headers are not a Hash", headers);
  return hash;
}

static void put_length(head *h, uint64_t length) {
  char field[48] = "Content-Length: ", *end = ab_write_decimal(field + 16, length);
  *end++ = '\r';
  *end++ = '\n';
  put(h, field, (size_t)(end - field));
}

/* Decides how the content is delimited (RFC 9112 6) and writes the fields that say so. `known` is
 * its length, or UINT64_MAX. */
static void put_framing(head *h, uint64_t known) {
  ab_exchange *exchange = h->exchange;
  int status = exchange->status;
  exchange->no_content = exchange->head_request || status == 204 || status == 205 || status == 304;
  if (h->chunked && h->has_length) {
    refuse(h, "Content-Length with Transfer-Encoding", Qnil);
    return;
  }
  if (status == 204) return; /* neither field may be there (RFC 9110 8.6) */
  if (status == 205) {
    put_length(h, 0);
    return;
  }
  if (h->has_length || (known != UINT64_MAX && !h->chunked)) {
    uint64_t length = h->has_length ? h->length : known;
    /* A 304 describes what a 200 would have carried, which only the app can know. */
    if (status != 304 || h->has_length) put_length(h, length);
    exchange->has_length = true;
    exchange->body_left = length;
    return;
  }
  if (status == 304) return;
  if (exchange->http_1_0) {
    h->close = true; /* the end of the connection is the end of the content */
  } else if (!exchange->head_request || h->chunked) {
    exchange->chunked = !h->chunked;
    PUT(h, "Transfer-Encoding: chunked\r\n");
  }
}

/* Everything but the Connection field, which is decided when the head is queued. */
static void put_head(head *h, VALUE headers, uint64_t known) {
  ab_exchange *exchange = h->exchange;
  char *dst = scratch_room(exchange->server, 0, AB_STATUS_LINE_MAX);
  if (!dst) rb_memerror();
  h->used = (size_t)(ab_write_status_line(dst, exchange->status) - dst);
  rb_hash_foreach(headers, put_field, (VALUE)h);
  if (!h->problem && !h->has_date) {
    put(h, ab_engine_date(exchange->server->engine), AB_DATE_FIELD_LEN);
  }
  if (!h->problem) put_framing(h, known);
  if (h->problem) raise_refused(h->problem, h->problem_object);
}

/* Ends the head in the scratch buffer. [locked] */
static bool put_connection(head *h) {
  ab_exchange *exchange = h->exchange;
  if (h->close) ab_conn_close_after(exchange->conn);
  bool keep = ab_conn_keep_alive(exchange->conn);
  if (!keep) return PUT(h, "Connection: close\r\n\r\n");
  if (exchange->http_1_0) return PUT(h, "Connection: keep-alive\r\n\r\n");
  return PUT(h, "\r\n");
}

NORETURN(static void raise_queue_error(int error));

static void raise_queue_error(int error) {
  if (error == AB_ENOMEM) rb_memerror();
  rb_raise(ab_error_class("PeerError"), "the client has gone");
}

/* Queues the head and `small`, content that is copied behind it. */
static void queue_head(head *h, const char *small, size_t small_len) {
  ab_exchange *exchange = h->exchange;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error = put_connection(h) && put(h, small, small_len) ? AB_OK : AB_ENOMEM;
  if (!error) error = ab_conn_write(exchange->conn, exchange->server->scratch, h->used);
  ab_engine_unlock(engine);
  if (error) raise_queue_error(error);
  exchange->head_sent = true;
}

/* --- content --- */

/* Queues one String: copied when short, else borrowed and sent from where it is. */
static int queue_octets(ab_exchange *exchange, VALUE string, size_t len) {
  ab_server *server = exchange->server;
  if (len < AB_BORROW_MIN) return ab_conn_write(exchange->conn, RSTRING_PTR(string), len);
  ab_borrow *borrow = ab_server_borrow(server, string, -1);
  if (!borrow) return AB_ENOMEM;
  int error = ab_conn_borrow(exchange->conn, RSTRING_PTR(string), len, borrow);
  if (error) ab_server_return(server, borrow);
  return error;
}

static int queue_chunk(ab_exchange *exchange, VALUE string, size_t len) {
  char size[AB_CHUNK_HEAD_MAX];
  char *end = ab_write_chunk_head(size, len);
  int error = ab_conn_write(exchange->conn, size, (size_t)(end - size));
  if (!error) error = queue_octets(exchange, string, len);
  return error ? error : ab_conn_write(exchange->conn, "\r\n", 2);
}

/* A stream that was handed to another thread, or is written where no fiber can be parked: the
 * engine cannot tell, and in its own thread it cannot even send. */
static void wait_in_place(ab_exchange *exchange) {
  ab_engine *engine = exchange->server->engine;
  rb_thread_wait_for((struct timeval){0, 2000});
  ab_engine_lock(engine);
  ab_conn_flush(exchange->conn);
  ab_engine_unlock(engine);
}

static void wait_for_room(ab_exchange *exchange) {
  ab_engine *engine = exchange->server->engine;
  for (;;) {
    ab_engine_lock(engine);
    bool wait = ab_conn_want_room(exchange->conn), gone = ab_conn_gone(exchange->conn);
    ab_engine_unlock(engine);
    if (gone) raise_queue_error(AB_EPEER);
    if (!wait) return;
    if (AB_LIKELY(exchange->server->host->can_wait(exchange->server))) {
      ab_exchange_wait(exchange, AB_WAIT_RESPONSE_DRAIN);
    } else {
      wait_in_place(exchange);
    }
  }
}

/* Strings that stay as they are while they are borrowed. */
static VALUE frozen_octets(VALUE string) {
  return RSTRING_LEN(string) < AB_BORROW_MIN ? string : rb_str_new_frozen(string);
}

void ab_response_content(ab_exchange *exchange, VALUE string) {
  if (!RB_TYPE_P(string, T_STRING)) raise_refused("a body yields what is not a String", string);
  if (AB_UNLIKELY(ab_server_forked(exchange->server))) {
    rb_raise(rb_eIOError, "a forked child cannot write to its parent's connection");
  }
  VALUE octets = frozen_octets(string);
  size_t len = (size_t)RSTRING_LEN(octets);
  if (exchange->has_length && len > exchange->body_left) {
    len = (size_t)exchange->body_left; /* never more than was promised (RFC 9112 6.3) */
    exchange->overrun = true;
  }
  if (exchange->no_content || len == 0) return;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error =
      exchange->chunked ? queue_chunk(exchange, octets, len) : queue_octets(exchange, octets, len);
  if (!error) ab_conn_flush(exchange->conn);
  ab_engine_unlock(engine);
  RB_GC_GUARD(octets);
  if (error) raise_queue_error(error);
  exchange->body_sent += len;
  if (exchange->has_length) exchange->body_left -= len;
  wait_for_room(exchange);
}

/* The content is complete, as far as the app is concerned. */
static void end_content(ab_exchange *exchange) {
  ab_server *server = exchange->server;
  if (exchange->no_content) {
    exchange->complete = true;
    return;
  }
  if (exchange->chunked) {
    ab_engine_lock(server->engine);
    int error = ab_conn_write(exchange->conn, "0\r\n\r\n", 5);
    ab_engine_unlock(server->engine);
    if (error) raise_queue_error(error);
  }
  exchange->complete = !exchange->has_length || exchange->body_left == 0;
  const char *problem = exchange->overrun     ? "a body is longer than its Content-Length"
                        : !exchange->complete ? "a body is shorter than its Content-Length"
                                              : NULL;
  if (problem) rb_funcall(server->log, rb_intern("warn"), 1, rb_str_new_cstr(problem));
}

/* --- bodies --- */

/* All of the content is known: it leaves with the head. */
static void write_array(head *h, VALUE headers, VALUE body) {
  ab_exchange *exchange = h->exchange;
  uint64_t total = 0;
  long count = RARRAY_LEN(body);
  for (long i = 0; i < count; i++) {
    VALUE part = RARRAY_AREF(body, i);
    if (!RB_TYPE_P(part, T_STRING)) raise_refused("a body yields what is not a String", part);
    total += (uint64_t)RSTRING_LEN(part);
  }
  put_head(h, headers, total);
  bool small = !exchange->no_content && !exchange->chunked && total < AB_BORROW_MIN &&
               total == exchange->body_left && exchange->has_length;
  if (small && count == 1) { /* by far the most frequent case: one copy, one write */
    VALUE part = RARRAY_AREF(body, 0);
    queue_head(h, RSTRING_PTR(part), (size_t)total);
    RB_GC_GUARD(part);
    exchange->body_sent = total;
    exchange->body_left = 0;
    exchange->complete = true;
    return;
  }
  queue_head(h, "", 0);
  for (long i = 0; i < RARRAY_LEN(body); i++) ab_response_content(exchange, RARRAY_AREF(body, i));
  end_content(exchange);
}

static VALUE each_part(RB_BLOCK_CALL_FUNC_ARGLIST(part, arg)) {
  ab_response_content((ab_exchange *)arg, part);
  return Qnil;
}

/* Behind the head: each piece goes out as soon as the body yields it. */
static void enumerate(head *h, VALUE body) {
  queue_head(h, "", 0);
  if (!h->exchange->no_content) {
    rb_block_call(body, rb_intern("each"), 0, NULL, each_part, (VALUE)h->exchange);
  }
  end_content(h->exchange);
}

/* A file is sent by the kernel. Returns false when it cannot be opened, or is not what is to be
 * sent: then `each` has to do. */
static bool write_file(head *h, VALUE headers, VALUE body) {
  ab_exchange *exchange = h->exchange;
  ab_server *server = exchange->server;
  /* The path is that of the whole file, and only the body knows which part of it a 206 has. */
  if (exchange->status == 206) return false;
  VALUE path = rb_funcall(body, rb_intern("to_path"), 0);
  if (!RB_TYPE_P(path, T_STRING)) return false;
  uint64_t size;
  int fd = ab_file_open(StringValueCStr(path), &size);
  if (fd < 0) return false;
  ab_borrow *borrow = ab_server_borrow(server, Qnil, fd); /* closes fd from here on */
  if (!borrow) {
    ab_fd_close(fd);
    rb_memerror();
  }
  exchange->file = borrow;
  put_head(h, headers, size);
  if (h->chunked) { /* by the app, which only `each` can do */
    enumerate(h, body);
    return true;
  }
  queue_head(h, "", 0);
  uint64_t len = size < exchange->body_left ? size : exchange->body_left;
  if (exchange->has_length && !exchange->no_content && len > 0) {
    ab_engine_lock(server->engine);
    int error = ab_conn_file(exchange->conn, fd, 0, len, borrow);
    ab_engine_unlock(server->engine);
    if (error) raise_queue_error(error);
    exchange->file = NULL;
    exchange->body_sent = len;
    exchange->body_left -= len;
  }
  end_content(exchange);
  return true;
}

static void write_each(head *h, VALUE headers, VALUE body) {
  put_head(h, headers, UINT64_MAX);
  enumerate(h, body);
}

/* Rack 3's streaming body: it writes to a stream, perhaps from elsewhere, until it closes it. */
static void write_call(head *h, VALUE headers, VALUE body) {
  ab_exchange *exchange = h->exchange;
  put_head(h, headers, UINT64_MAX);
  queue_head(h, "", 0);
  if (!exchange->no_content) {
    ab_engine_lock(exchange->server->engine);
    ab_conn_flush(exchange->conn);
    ab_engine_unlock(exchange->server->engine);
    VALUE argv[] = {exchange->handle, rb_hash_aref(exchange->env, rb_str_new_cstr("rack.input"))};
    VALUE stream = rb_class_new_instance(2, argv, ab_error_class("Stream"));
    rb_funcall(body, rb_intern("call"), 1, stream);
    while (!exchange->closed) {
      ab_engine_lock(exchange->server->engine);
      bool gone = ab_conn_gone(exchange->conn);
      ab_engine_unlock(exchange->server->engine);
      if (gone) raise_queue_error(AB_EPEER);
      ab_exchange_wait(exchange, AB_WAIT_BLOCK);
    }
  }
  end_content(exchange);
}

static void write_body(head *h, VALUE headers, VALUE body) {
  if (RB_TYPE_P(body, T_ARRAY)) {
    write_array(h, headers, body);
  } else if (h->exchange->server->to_ary_closes && rb_respond_to(body, rb_intern("to_ary"))) {
    VALUE array = rb_check_array_type(body);
    h->exchange->body_open = false;
    if (NIL_P(array)) raise_refused("the body's to_ary gives no Array", body);
    write_array(h, headers, array);
    RB_GC_GUARD(array);
  } else if (!(rb_respond_to(body, rb_intern("to_path")) && write_file(h, headers, body))) {
    if (rb_respond_to(body, rb_intern("each"))) {
      write_each(h, headers, body);
    } else if (rb_respond_to(body, rb_intern("call"))) {
      write_call(h, headers, body);
    } else {
      raise_refused("the body has neither each nor call", body);
    }
  }
}

void ab_response_write(ab_exchange *exchange) {
  VALUE result = exchange->result;
  if (!RB_TYPE_P(result, T_ARRAY)) {
    VALUE array = rb_check_array_type(result);
    if (NIL_P(array)) raise_refused("it is not an Array", result);
    result = exchange->result = array;
  }
  if (RARRAY_LEN(result) > 2) {
    exchange->body = RARRAY_AREF(result, 2);
    exchange->body_open = !RB_TYPE_P(exchange->body, T_ARRAY);
  }
  if (RARRAY_LEN(result) != 3) raise_refused("it has not three members", result);
  exchange->status = parse_status(RARRAY_AREF(result, 0));
  VALUE headers = exchange->headers = headers_hash(RARRAY_AREF(result, 1));
  head h = {.exchange = exchange, .problem_object = Qnil};
  write_body(&h, headers, exchange->body);
  RB_GC_GUARD(headers);
  RB_GC_GUARD(result);
}

void ab_response_close_body(ab_exchange *exchange) {
  if (!exchange->body_open) return;
  exchange->body_open = false;
  if (rb_respond_to(exchange->body, rb_intern("close"))) {
    rb_funcall(exchange->body, rb_intern("close"), 0);
  }
}

void ab_response_error(ab_exchange *exchange, int status) {
  if (exchange->head_sent) return;
  ab_server *server = exchange->server;
  const char *phrase = ab_status_phrase(status);
  size_t length = strlen(phrase) + 5; /* "500 Internal Server Error\n" */
  char text[512], *p = ab_write_status_line(text, status);
  static const char type[] = "Content-Type: text/plain\r\nContent-Length: ";
  memcpy(p, type, sizeof(type) - 1);
  p = ab_write_decimal(p + sizeof(type) - 1, length);
  memcpy(p, "\r\n", 2);
  memcpy(p + 2, ab_engine_date(server->engine), AB_DATE_FIELD_LEN);
  p += 2 + AB_DATE_FIELD_LEN;

  exchange->status = status;
  exchange->headers = Qnil;
  ab_engine_lock(server->engine);
  static const char close[] = "Connection: close\r\n\r\n";
  static const char keep[] = "Connection: keep-alive\r\n\r\n";
  if (!ab_conn_keep_alive(exchange->conn)) {
    memcpy(p, close, sizeof(close) - 1);
    p += sizeof(close) - 1;
  } else if (exchange->http_1_0) {
    memcpy(p, keep, sizeof(keep) - 1);
    p += sizeof(keep) - 1;
  } else {
    memcpy(p, "\r\n", 2);
    p += 2;
  }
  if (!exchange->head_request) {
    p = ab_write_decimal(p, (uint64_t)status);
    *p++ = ' ';
    memcpy(p, phrase, length - 5);
    p += length - 5;
    *p++ = '\n';
    exchange->body_sent = length;
  }
  exchange->head_sent = exchange->complete =
      ab_conn_write(exchange->conn, text, (size_t)(p - text)) == AB_OK;
  ab_engine_unlock(server->engine);
}
