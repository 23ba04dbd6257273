/* The content of a response, from a body of any kind (Rack SPEC, "The Body"): queueing it, waiting
 * for a slow client, and ending it. */
#include "http1/write.h"
#include "rb/outbox/rb_outbox.h"
#include "rb/server/rb_response.h"

/* Pieces that follow each other within this time go out together ... */
#define GATHER_TIME AB_NSEC_PER_MS
/* ... as long as no more octets than these are waiting. */
#define GATHER_SIZE 32768
/* The longest piece that is copied, as far as the socket does not take it. */
#define COPY_MAX 262144

void ab_response_raise(int error) {
  if (error == AB_ENOMEM) rb_memerror();
  rb_raise(ab_error_class("PeerError"), "the client has gone");
}

/* --- waiting --- */

/* A stream that was handed to another thread, or is written where no fiber can be parked: the
 * engine cannot tell, and in its own thread it cannot even send. */
static void wait_in_place(ab_exchange *exchange) {
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  ab_conn_flush(exchange->conn);
  ab_engine_unlock(engine);
  rb_thread_wait_for((struct timeval){0, 2000});
}

ab_exchange *ab_response_wait(ab_exchange *exchange, bool (*pending)(ab_conn *conn)) {
  VALUE handle = exchange->handle;
  for (;;) {
    ab_engine *engine = exchange->server->engine;
    ab_engine_lock(engine);
    bool wait = pending(exchange->conn), gone = ab_conn_gone(exchange->conn);
    ab_engine_unlock(engine);
    if (exchange->hijacked) return exchange;
    if (gone) ab_response_raise(AB_EPEER);
    if (!wait) return exchange;
    if (AB_LIKELY(exchange->runner->host->can_wait(exchange->runner))) {
      ab_exchange_wait(exchange, AB_WAIT_RESPONSE_DRAIN);
    } else {
      wait_in_place(exchange);
    }
    /* Whoever wrote from elsewhere may have outlived the request. */
    exchange = ab_exchange_of(handle);
  }
}

/* --- queueing --- */

/* Queues one String, all of it or nothing: copied when short, else borrowed and sent from where it
 * is. */
static int queue_octets(ab_exchange *exchange, VALUE string, size_t len) {
  ab_server *server = exchange->server;
  ab_conn *conn = exchange->conn;
  const char *ptr = RSTRING_PTR(string);
  if (len < AB_BORROW_MIN) {
    return exchange->chunked ? ab_conn_write_chunk(conn, ptr, len) : ab_conn_write(conn, ptr, len);
  }
  ab_borrow *borrow = ab_server_borrow(server, string, -1);
  if (!borrow) return AB_ENOMEM;
  int error = exchange->chunked ? ab_conn_borrow_chunk(conn, ptr, len, borrow)
                                : ab_conn_borrow(conn, ptr, len, borrow);
  if (error) ab_server_return(server, borrow);
  return error;
}

/* It waits until the fiber parks or a few more have gathered, which spares most of the system calls
 * of a fast writer. Where the app computes on the standby sends it. */
void ab_body_soon(ab_exchange *exchange) {
  const ab_runner *runner = exchange->runner;
  if (ab_server_in_turn(runner) && runner->host->can_wait(runner)) {
    ab_nsec now = ab_clock_monotonic();
    if (now - exchange->flushed < GATHER_TIME && ab_conn_pending(exchange->conn) < GATHER_SIZE &&
        ab_conn_flush_later(exchange->conn)) {
      if (exchange->server->standby) ab_standby_soon(exchange->server->standby);
      return;
    }
    exchange->flushed = now;
  }
  ab_conn_flush(exchange->conn);
}

/* A long piece in a String that the app may fill again, as who relays a stream does: borrowed, it
 * would have to be another one each time, and of each the collector would learn late. So it goes
 * from where it is, as far as the socket takes it, and only the rest is copied. [locked] */
static int send_now(ab_exchange *exchange, VALUE string, size_t len) {
  char size[AB_CHUNK_HEAD_MAX];
  struct iovec iov[3];
  int count = 0;
  if (exchange->chunked) {
    iov[count++] = (struct iovec){size, (size_t)(ab_write_chunk_head(size, len) - size)};
  }
  iov[count++] = (struct iovec){RSTRING_PTR(string), len};
  if (exchange->chunked) iov[count++] = (struct iovec){(char *)"\r\n", 2};
  return ab_conn_send(exchange->conn, iov, count);
}

/* What an Array holds has been given away for good. */
static bool may_be_filled_again(const ab_exchange *exchange, VALUE string) {
  size_t len = (size_t)RSTRING_LEN(string);
  return (exchange->yields || exchange->streams) && !RB_OBJ_FROZEN(string) &&
         len >= AB_BORROW_MIN && len <= COPY_MAX;
}

/* Strings that stay as they are while they are borrowed. */
static VALUE frozen_octets(VALUE string) {
  return RSTRING_LEN(string) < AB_BORROW_MIN ? string : rb_str_new_frozen(string);
}

void ab_response_content(ab_exchange *exchange, VALUE string) {
  if (!RB_TYPE_P(string, T_STRING)) {
    ab_response_refuse("a body yields what is not a String", string);
  }
  bool now = may_be_filled_again(exchange, string);
  VALUE octets = now ? string : frozen_octets(string);
  size_t len = (size_t)RSTRING_LEN(octets);
  if (exchange->has_length && len > exchange->body_left) {
    len = (size_t)exchange->body_left; /* never more than was promised (RFC 9112 6.3) */
    exchange->overrun = true;
  }
  if (exchange->no_content || len == 0) return;
  ab_engine *engine = exchange->server->engine;
  ab_engine_lock(engine);
  int error = now ? send_now(exchange, octets, len) : queue_octets(exchange, octets, len);
  if (!error && !now) ab_body_soon(exchange);
  /* Behind a rest nothing is queued, so that the next piece need not be copied. */
  bool (*pending)(ab_conn *) = now ? ab_conn_want_sent : ab_conn_want_room;
  bool wait = !error && pending(exchange->conn), gone = ab_conn_gone(exchange->conn);
  ab_engine_unlock(engine);
  RB_GC_GUARD(octets);
  if (error || gone) ab_response_raise(error ? error : AB_EPEER);
  exchange->body_sent += len;
  if (exchange->has_length) exchange->body_left -= len;
  if (wait) ab_response_wait(exchange, pending);
}

/* --- the end --- */

/* The last chunk, with the trailer section that the app may want behind the content (RFC 9112 7.1).
 * A callable is asked now, when it can know. */
static void end_chunks(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  VALUE trailers = head->trailers;
  if (!NIL_P(trailers) && rb_respond_to(trailers, rb_intern("call"))) {
    trailers = rb_funcall(trailers, rb_intern("call"), 0);
  }
  VALUE fields = Qnil;
  if (!NIL_P(trailers)) fields = ab_lines_plain_hash(exchange, AB_SECTION_TRAILER, trailers);
  ab_lines lines = ab_lines_begin(exchange, AB_SECTION_TRAILER);
  ab_lines_put(&lines, "0\r\n", 3);
  if (!NIL_P(fields)) ab_lines_put_fields(&lines, fields);
  if (!lines.problem) ab_lines_put(&lines, "\r\n", 2);
  ab_lines_check(&lines);
  ab_engine_lock(exchange->server->engine);
  int error = ab_conn_write(exchange->conn, exchange->runner->scratch, lines.used);
  ab_engine_unlock(exchange->server->engine);
  RB_GC_GUARD(fields);
  if (error) ab_response_raise(error);
}

static VALUE warn_of_length(VALUE arg) {
  const ab_exchange *exchange = (const ab_exchange *)arg;
  return rb_funcall(exchange->server->log, rb_intern("wrong_length"), 2,
                    exchange->overrun ? Qtrue : Qfalse, exchange->env);
}

void ab_body_end(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  if (exchange->no_content) {
    exchange->complete = true;
    return;
  }
  if (exchange->chunked) end_chunks(head);
  exchange->complete = !exchange->has_length || exchange->body_left == 0;
  if (AB_UNLIKELY(exchange->overrun || !exchange->complete)) {
    ab_server_quietly(warn_of_length, (VALUE)exchange);
  }
}

/* --- bodies --- */

void ab_body_begin(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  ab_head_queue(head);
  ab_engine_lock(exchange->server->engine);
  bool later = ab_server_in_turn(exchange->runner) && ab_conn_flush_later(exchange->conn);
  if (!later) ab_conn_flush(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
}

/* All of the content is known: it leaves with the head, which has been put already or, when
 * `headers` is not nil, is put now. */
static void write_array(ab_lines *head, VALUE headers, VALUE body) {
  ab_exchange *exchange = head->exchange;
  uint64_t total = 0;
  long count = RARRAY_LEN(body);
  for (long i = 0; i < count; i++) {
    VALUE part = RARRAY_AREF(body, i);
    if (!RB_TYPE_P(part, T_STRING)) ab_response_refuse("a body yields what is not a String", part);
    total += (uint64_t)RSTRING_LEN(part);
  }
  if (!NIL_P(headers)) ab_head_put(head, headers);
  ab_head_put_framing(head, total);
  bool small = !exchange->no_content && !exchange->chunked && total < AB_BORROW_MIN &&
               total == exchange->body_left && exchange->has_length;
  if (small && count == 1) { /* by far the most frequent case: one copy, one write */
    VALUE part = RARRAY_AREF(body, 0);
    ab_head_answer(head, RSTRING_PTR(part), (size_t)total);
    RB_GC_GUARD(part);
    exchange->body_sent = total;
    exchange->body_left = 0;
    exchange->complete = true;
    return;
  }
  ab_head_queue(head);
  for (long i = 0; i < RARRAY_LEN(body); i++) ab_response_content(exchange, RARRAY_AREF(body, i));
  ab_body_end(head);
}

/* The body may keep the block and call it when `each` has returned, or the request is over. */
static VALUE each_part(RB_BLOCK_CALL_FUNC_ARGLIST(part, handle)) {
  ab_exchange *exchange = ab_exchange_of(handle);
  if (!exchange->yields) rb_raise(rb_eIOError, "the body's each is over");
  ab_response_content(exchange, part);
  return Qnil;
}

/* Behind the head: each piece goes out as soon as the body yields it. */
static void enumerate(ab_lines *head, VALUE body) {
  ab_body_begin(head);
  ab_exchange *exchange = head->exchange;
  if (!exchange->no_content) {
    exchange->yields = true;
    rb_block_call(body, rb_intern("each"), 0, NULL, each_part, exchange->handle);
    exchange->yields = false;
  }
  ab_body_end(head);
}

/* A file is sent by the kernel. Returns false when it cannot be opened, or is not what is to be
 * sent: then `each` has to do. */
static bool write_file(ab_lines *head, VALUE headers, VALUE body) {
  ab_exchange *exchange = head->exchange;
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
  ab_head_put(head, headers);
  ab_head_put_framing(head, size);
  if (!exchange->has_length && !exchange->no_content) { /* chunks, which only `each` can fill */
    enumerate(head, body);
    return true;
  }
  ab_head_queue(head);
  uint64_t len = size < exchange->body_left ? size : exchange->body_left;
  if (exchange->has_length && !exchange->no_content && len > 0) {
    ab_engine_lock(server->engine);
    int error = ab_conn_file(exchange->conn, fd, 0, len, borrow);
    ab_engine_unlock(server->engine);
    if (error) ab_response_raise(error);
    exchange->file = NULL;
    exchange->body_sent = len;
    exchange->body_left -= len;
  }
  ab_body_end(head);
  return true;
}

void ab_body_ask_for_input(ab_exchange *exchange) {
  if (exchange->status >= 300 || exchange->no_content) return;
  ab_engine_lock(exchange->server->engine);
  ab_conn_continue(exchange->conn);
  ab_engine_unlock(exchange->server->engine);
}

static void write_each(ab_lines *head, VALUE headers, VALUE body) {
  ab_head_put(head, headers);
  ab_head_put_framing(head, UINT64_MAX);
  ab_body_ask_for_input(head->exchange);
  enumerate(head, body);
}

/* Rack 3's streaming body, and partial hijack: the callable writes to a stream, perhaps from
 * elsewhere, until it closes it. */
static void write_call(ab_lines *head, VALUE headers, VALUE callable) {
  ab_exchange *exchange = head->exchange;
  ab_head_put(head, headers);
  ab_head_put_framing(head, UINT64_MAX);
  ab_body_ask_for_input(exchange);
  ab_body_begin(head);
  if (!exchange->no_content) {
    VALUE argv[] = {exchange->handle, rb_hash_aref(exchange->env, rb_str_new_cstr("rack.input"))};
    VALUE stream = rb_class_new_instance(2, argv, ab_error_class("Stream"));
    exchange->streams = true;
    rb_funcall(callable, rb_intern("call"), 1, stream);
    while (!exchange->closed) {
      ab_engine_lock(exchange->server->engine);
      bool gone = ab_conn_gone(exchange->conn);
      ab_engine_unlock(exchange->server->engine);
      if (gone) ab_response_raise(AB_EPEER);
      ab_exchange_wait(exchange, AB_WAIT_BLOCK);
    }
    exchange->streams = false;
  }
  ab_body_end(head);
}

static void write_object(ab_lines *head, VALUE headers, VALUE body) {
  if (head->exchange->server->to_ary_closes && rb_respond_to(body, rb_intern("to_ary"))) {
    VALUE array = rb_check_array_type(body);
    head->exchange->body_open = false;
    if (NIL_P(array)) ab_response_refuse("the body's to_ary gives no Array", body);
    write_array(head, headers, array);
    RB_GC_GUARD(array);
  } else if (!(rb_respond_to(body, rb_intern("to_path")) && write_file(head, headers, body))) {
    if (rb_respond_to(body, rb_intern("each"))) {
      write_each(head, headers, body);
    } else if (rb_respond_to(body, rb_intern("call"))) {
      write_call(head, headers, body);
    } else {
      ab_response_refuse("the body has neither each nor call", body);
    }
  }
}

void ab_body_write(ab_lines *head, VALUE headers, VALUE body) {
  headers = ab_head_put(head, headers);
  if (AB_UNLIKELY(ab_upgrade_wanted(head))) {
    ab_upgrade_write(head, headers, body);
  } else if (AB_UNLIKELY(!NIL_P(head->hijack))) {
    if (!rb_respond_to(head->hijack, rb_intern("call"))) {
      ab_response_refuse("rack.hijack does not respond to call", head->hijack);
    }
    write_call(head, headers, head->hijack);
  } else if (RB_TYPE_P(body, T_ARRAY)) {
    write_array(head, Qnil, body);
  } else if (ab_box_is(body)) {
    ab_body_write_outbox(head, body);
  } else {
    write_object(head, headers, body);
  }
  RB_GC_GUARD(headers);
}
