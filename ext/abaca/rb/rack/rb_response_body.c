/* The content of a response, from a body of any kind (Rack SPEC, "The Body"). */
#include "rb/outbox/rb_outbox.h"
#include "rb/rack/rb_borrow.h"
#include "rb/rack/rb_process.h"
#include "rb/rack/rb_response.h"
#include "rb/rack/rb_timing.h"

#define GATHER_TIME AB_NSEC_PER_MS /* pieces that follow within it go out together ... */
#define GATHER_SIZE 32768          /* ... while fewer bytes than these are waiting */
#define COPY_MAX    262144         /* the longest piece whose rest is copied */

void ab_response_raise(int error) {
  if (error == AB_ENOMEM) rb_memerror();
  rb_raise(ab_class("PeerError"), "the client has gone");
}

/* A stream that was handed to another thread, or is written where no fiber can be parked: the
 * engine cannot tell, and in its own thread it cannot even send. */
static void body_wait_in_place(ab_call *call) {
  ab_call_flush(call);
  rb_thread_wait_for((struct timeval){0, 2000});
}

ab_call *ab_response_wait(ab_call *call, ab_response_pause pending) {
  VALUE handle = call->handle;
  for (;;) {
    ab_engine *engine = call->rack->engine;
    ab_engine_lock(engine);
    bool wait = pending(call->exchange), gone = ab_exchange_gone(call->exchange);
    ab_engine_unlock(engine);
    if (call->hijacked) return call;
    if (gone) ab_response_raise(AB_EPEER);
    if (!wait) return call;
    if (AB_LIKELY(call->runner->executor->can_wait(call->runner))) {
      ab_call_wait(call, AB_WAIT_RESPONSE_DRAIN);
    } else {
      body_wait_in_place(call);
    }
    /* A writer on another fiber or thread may have outlived the request. */
    call = ab_call_of(handle);
  }
}

/* Queues all of a String or nothing: copied when short, else borrowed from where it is. */
static int queue_bytes(ab_call *call, VALUE string, size_t len) {
  ab_rack *rack = call->rack;
  ab_exchange *exchange = call->exchange;
  const char *ptr = RSTRING_PTR(string);
  if (len < AB_BORROW_MIN) return ab_exchange_write(exchange, ptr, len);
  ab_borrow *borrow = ab_borrow_make(rack, string, -1);
  if (!borrow) return AB_ENOMEM;
  int error = ab_exchange_borrow(exchange, ptr, len, borrow);
  if (error) ab_borrow_return(rack, borrow);
  return error;
}

/* It waits until the fiber parks or a few more have buffered, which spares most of the system calls
 * of a fast writer. Where the app computes on the standby sends it. */
void ab_body_soon(ab_call *call) {
  const ab_runner *runner = call->runner;
  if (ab_runner_in_turn(runner) && runner->executor->can_wait(runner)) {
    ab_nsec now = ab_clock_monotonic();
    if (now - call->flushed < GATHER_TIME && ab_exchange_pending(call->exchange) < GATHER_SIZE &&
        ab_exchange_flush_later(call->exchange)) {
      if (call->rack->standby) ab_standby_soon(call->rack->standby);
      return;
    }
    call->flushed = now;
  }
  ab_exchange_flush(call->exchange);
}

/* A long piece in a String that the app may fill again, as an app that relays a stream does:
 * borrowed, it would have to be another one each time, and of each the collector would learn late.
 * So it goes from where it is, as far as the socket takes it, and only the rest is copied. What an
 * Array holds has been given away for good. */
static bool may_be_filled_again(const ab_call *call, VALUE string) {
  size_t len = (size_t)RSTRING_LEN(string);
  return (call->yields || call->streams) && !RB_OBJ_FROZEN(string) && len >= AB_BORROW_MIN &&
         len <= COPY_MAX;
}

static VALUE frozen_bytes(VALUE string) {
  return RSTRING_LEN(string) < AB_BORROW_MIN ? string : rb_str_new_frozen(string);
}

void ab_response_content(ab_call *call, VALUE string) {
  if (!RB_TYPE_P(string, T_STRING)) {
    ab_response_refuse("a body yields what is not a String", string);
  }
  bool now = may_be_filled_again(call, string);
  VALUE bytes = now ? string : frozen_bytes(string);
  size_t len = (size_t)RSTRING_LEN(bytes);
  if (call->has_length && len > call->body_left) {
    len = (size_t)call->body_left; /* never more than was promised (RFC 9112 6.3) */
    call->overrun = true;
  }
  if (call->no_content || len == 0) return;
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  int error = now ? ab_exchange_send(call->exchange, RSTRING_PTR(bytes), len)
                  : queue_bytes(call, bytes, len);
  if (!error && !now) ab_body_soon(call);
  /* Behind a rest nothing is queued, so that the next piece need not be copied. */
  ab_response_pause full = now ? ab_exchange_want_sent : ab_exchange_want_room, pause = NULL;
  if (AB_LIKELY(!error)) {
    bool written = call->yields || call->streams; /* an Array is all here */
    pause = written ? ab_response_pause_for(call, full) : full(call->exchange) ? full : NULL;
  }
  bool gone = ab_exchange_gone(call->exchange);
  ab_engine_unlock(engine);
  RB_GC_GUARD(bytes);
  if (error || gone) ab_response_raise(error ? error : AB_EPEER);
  call->body_sent += len;
  if (call->has_length) call->body_left -= len;
  if (pause) ab_response_wait(call, pause);
}

/* Ends chunks, with trailers behind them: a callable is asked now, when it can know. */
static void end_content(ab_lines *head) {
  ab_call *call = head->call;
  VALUE trailers = head->trailers;
  if (!NIL_P(trailers) && rb_respond_to(trailers, rb_intern("call"))) {
    trailers = rb_funcall(trailers, rb_intern("call"), 0);
  }
  ab_lines lines = {.call = call};
  VALUE fields = NIL_P(trailers) ? Qnil : ab_lines_hash(trailers);
  fields = ab_lines_fill(&lines, AB_SECTION_TRAILER, 0, fields);
  call = lines.call;
  if (AB_UNLIKELY(call->timing != NULL)) ab_timing_put_rest(&lines);
  ab_engine_lock(call->rack->engine);
  int error = ab_exchange_end(call->exchange, call->runner->scratch, lines.used);
  ab_engine_unlock(call->rack->engine);
  RB_GC_GUARD(fields);
  if (error) ab_response_raise(error);
}

static VALUE warn_of_length(VALUE arg) {
  const ab_call *call = (const ab_call *)arg;
  return rb_funcall(call->rack->log, rb_intern("wrong_length"), 2, call->overrun ? Qtrue : Qfalse,
                    call->env);
}

void ab_body_end(ab_lines *head) {
  ab_call *call = head->call;
  if (call->no_content) {
    call->complete = true;
    return;
  }
  if (call->chunked) end_content(head);
  call->complete = !call->has_length || call->body_left == 0;
  if (AB_UNLIKELY(call->overrun || !call->complete)) {
    ab_quietly(warn_of_length, (VALUE)call);
  }
}

void ab_body_begin(ab_lines *head) {
  ab_call *call = head->call;
  ab_engine *engine = call->rack->engine;
  ab_head_put_framing(head, UINT64_MAX);
  /* The body may read the request's, for which the client cannot be asked behind the head. */
  if (call->status < 300 && !call->no_content) {
    ab_engine_lock(engine);
    ab_exchange_continue(call->exchange);
    ab_engine_unlock(engine);
  }
  ab_head_queue(head, NULL, 0);
  ab_engine_lock(engine);
  bool later = ab_runner_in_turn(call->runner) && ab_exchange_flush_later(call->exchange);
  if (!later) ab_exchange_flush(call->exchange);
  ab_engine_unlock(engine);
}

/* All of the content is known: it leaves with the head, which has been put already or, when
 * `headers` is not nil, is put now. */
static void write_array(ab_lines *head, VALUE headers, VALUE body) {
  ab_call *call = head->call;
  uint64_t total = 0;
  long count = RARRAY_LEN(body);
  for (long i = 0; i < count; i++) {
    VALUE part = RARRAY_AREF(body, i);
    if (!RB_TYPE_P(part, T_STRING)) ab_response_refuse("a body yields what is not a String", part);
    total += (uint64_t)RSTRING_LEN(part);
  }
  if (!NIL_P(headers)) ab_head_put(head, headers);
  ab_head_put_framing(head, total);
  bool small = !call->no_content && !call->chunked && total < AB_BORROW_MIN &&
               total == call->body_left && call->has_length;
  if (small && count == 1) { /* by far the most frequent case: one copy, one write */
    VALUE part = RARRAY_AREF(body, 0);
    ab_head_queue(head, RSTRING_PTR(part), (size_t)total);
    RB_GC_GUARD(part);
    return;
  }
  ab_head_queue(head, NULL, 0);
  for (long i = 0; i < RARRAY_LEN(body); i++) ab_response_content(call, RARRAY_AREF(body, i));
  ab_body_end(head);
}

/* The body may keep the block and call it when `each` has returned, or the request is over. */
static VALUE each_part(RB_BLOCK_CALL_FUNC_ARGLIST(part, handle)) {
  ab_call *call = ab_call_of(handle);
  if (!call->yields) rb_raise(rb_eIOError, "the body's each is over");
  ab_response_content(call, part);
  return Qnil;
}

/* Behind the head: each piece goes out as soon as the body yields it. */
static void write_each(ab_lines *head, VALUE headers, VALUE body) {
  ab_call *call = head->call;
  ab_head_put(head, headers);
  ab_body_begin(head);
  if (!call->no_content) {
    call->yields = true;
    rb_block_call(body, rb_intern("each"), 0, NULL, each_part, call->handle);
    call->yields = false;
  }
  ab_body_end(head);
}

/* A file is sent by the kernel. Returns false when it cannot be opened, or is not what is to be
 * sent: then `each` has to do. */
static bool write_file(ab_lines *head, VALUE headers, VALUE body) {
  ab_call *call = head->call;
  ab_rack *rack = call->rack;
  /* The path is that of the whole file, and only the body knows which part of it a 206 has. */
  if (call->status == 206) return false;
  VALUE path = rb_funcall(body, rb_intern("to_path"), 0);
  if (!RB_TYPE_P(path, T_STRING)) return false;
  uint64_t size;
  int fd = ab_file_open(StringValueCStr(path), &size);
  if (fd < 0) return false;
  ab_borrow *borrow = ab_borrow_make(rack, Qnil, fd); /* closes fd from here on */
  if (!borrow) {
    ab_fd_close(fd);
    rb_memerror();
  }
  call->file = borrow;
  ab_head_put(head, headers);
  ab_head_put_framing(head, size);
  if (!call->has_length && !call->no_content) { /* chunks, which only `each` can fill */
    write_each(head, headers, body);
    return true;
  }
  ab_head_queue(head, NULL, 0);
  uint64_t len = size < call->body_left ? size : call->body_left;
  if (call->has_length && !call->no_content && len > 0) {
    ab_engine_lock(rack->engine);
    int error = ab_exchange_file(call->exchange, fd, 0, len, borrow);
    ab_engine_unlock(rack->engine);
    if (error) ab_response_raise(error);
    call->file = NULL;
    call->body_sent = len;
    call->body_left -= len;
  }
  ab_body_end(head);
  return true;
}

/* Rack 3's streaming body, and partial hijack: the callable writes to a stream, perhaps from
 * elsewhere, until it closes it. */
void ab_body_write_call(ab_lines *head, VALUE headers, VALUE callable) {
  ab_call *call = head->call;
  ab_head_put(head, headers);
  ab_body_begin(head);
  if (!call->no_content) {
    VALUE argv[] = {call->handle, rb_hash_aref(call->env, rb_str_new_cstr("rack.input"))};
    VALUE stream = rb_class_new_instance(2, argv, ab_class("Stream"));
    call->streams = true;
    rb_funcall(callable, rb_intern("call"), 1, stream);
    while (!call->closed) {
      if (ab_call_gone(call)) ab_response_raise(AB_EPEER);
      ab_call_wait(call, AB_WAIT_STREAM);
    }
    call->streams = false;
  }
  ab_body_end(head);
}

static void write_object(ab_lines *head, VALUE headers, VALUE body) {
  if (head->call->rack->to_ary_closes && rb_respond_to(body, rb_intern("to_ary"))) {
    VALUE array = rb_check_array_type(body);
    head->call->body_open = false;
    if (NIL_P(array)) ab_response_refuse("the body's to_ary gives no Array", body);
    write_array(head, headers, array);
    RB_GC_GUARD(array);
  } else if (!(rb_respond_to(body, rb_intern("to_path")) && write_file(head, headers, body))) {
    if (rb_respond_to(body, rb_intern("each"))) {
      write_each(head, headers, body);
    } else if (rb_respond_to(body, rb_intern("call"))) {
      ab_body_write_call(head, headers, body);
    } else {
      ab_response_refuse("the body has neither each nor call", body);
    }
  }
}

void ab_body_write(ab_call *call, VALUE headers, VALUE body) {
  ab_lines head;
  head.call = call;
  headers = ab_head_put(&head, headers);
  if (AB_UNLIKELY(ab_upgrade_wanted(&head))) {
    ab_upgrade_write(&head, headers, body);
  } else if (AB_UNLIKELY(!NIL_P(head.hijack))) {
    if (!rb_respond_to(head.hijack, rb_intern("call"))) {
      ab_response_refuse("rack.hijack does not respond to call", head.hijack);
    }
    ab_body_write_call(&head, headers, head.hijack);
  } else if (RB_TYPE_P(body, T_ARRAY)) {
    write_array(&head, Qnil, body);
  } else if (ab_box_is(body)) {
    ab_body_write_outbox(&head, body);
  } else {
    write_object(&head, headers, body);
  }
  RB_GC_GUARD(headers);
}
