/* Connections that leave HTTP: full hijack (Rack SPEC, "Full Hijack") and upgrades (RFC 9110 7.8).
 * The app owns the socket: the server neither reads, writes nor closes it. The engine counts it
 * until it is closed, and a stop ends its stream (engine/taken_over.c). */
#include <string.h>

#include "http/char.h"
#include "rb/rack/rb_response.h"

/* The app's socket is made of a duplicate, or over TLS of one end of a pair, before the engine lets
 * go of its own: from then on no Ruby code runs until it is the call's, so that a connection always
 * has an owner. */
typedef struct handover {
  VALUE handle, io;
  ab_handover ends; /* its descriptor, which `io` owns if there is one, and the engine's */
  bool tcp, taken;
} handover;

static void make_io(handover *h) {
  VALUE klass = rb_path2class(h->tcp ? "TCPSocket" : "UNIXSocket");
  h->io = rb_funcall(klass, rb_intern("for_fd"), 1, INT2NUM(h->ends.fd));
}

/* What was read from the socket already is the first that the app reads. */
static void take_socket(handover *h, ab_call *call) {
  ab_engine *engine = call->rack->engine;
  /* Made before, since Ruby must not be called with the lock held. */
  ab_engine_lock(engine);
  size_t room = ab_exchange_input_len(call->exchange), len = 0;
  ab_engine_unlock(engine);
  VALUE bytes = rb_str_new(NULL, (long)room);
  const char *ahead;
  ab_engine_lock(engine);
  int error = ab_exchange_detach(call->exchange, &h->ends, &ahead, &len);
  if (len > room) len = room; /* there is no more: only the application reads */
  if (len > 0) memcpy(RSTRING_PTR(bytes), ahead, len);
  ab_engine_unlock(engine);
  if (error) rb_memerror();
  h->taken = call->hijacked = call->head_sent = true;
  call->io = h->io;
  ab_rack_tell_leader(call->rack); /* which looks at it from time to time */
  rb_str_set_len(bytes, (long)len);
  if (len > 0) rb_io_ungetbyte(h->io, bytes);
}

static VALUE hand_over(VALUE arg) {
  handover *h = (handover *)arg;
  make_io(h);
  ab_call *call = ab_response_wait(ab_call_of(h->handle), ab_exchange_want_sent);
  if (call->hijacked) return call->io; /* another caller was faster */
  take_socket(h, call);
  return h->io;
}

static VALUE drop_duplicate(VALUE arg) {
  handover *h = (handover *)arg;
  if (!h->taken) ab_fd_close(h->ends.own);
  if (NIL_P(h->io)) {
    ab_fd_close(h->ends.fd);
  } else if (!h->taken) {
    rb_io_close(h->io);
  }
  return Qnil;
}

/* Waits until what was queued has left, and takes the socket. Raises PeerError, and SystemCallError
 * for want of a descriptor. */
static VALUE detach(ab_call *call) {
  ab_engine *engine = call->rack->engine;
  handover h = {.handle = call->handle, .io = Qnil};
  h.tcp = ab_listener_family(ab_exchange_listener(call->exchange)) == AB_LISTEN_TCP &&
          !ab_exchange_is_secure(call->exchange);
  ab_engine_lock(engine);
  bool gone = ab_exchange_gone(call->exchange);
  int error = gone ? AB_EPEER : ab_exchange_prepare_handover(call->exchange, &h.ends);
  ab_engine_unlock(engine);
  if (gone) ab_response_raise(AB_EPEER);
  if (error) rb_sys_fail("cannot take the connection's socket");
  return rb_ensure(hand_over, (VALUE)&h, drop_duplicate, (VALUE)&h);
}

/* call-seq: call -> TCPSocket or UNIXSocket
 *
 * Full hijack: the connection is the app's from here on, and whatever it returns for this
 * request is ignored. What the client has sent beyond this request's head can be read from the
 * socket, which is also env["rack.hijack_io"]. A second call returns the same object. Raises
 * IOError when the response has begun or the request is over, PeerError when the client has
 * gone. */
VALUE ab_call_hijack(VALUE self) {
  ab_call *call = ab_call_of(self);
  if (call->hijacked) return call->io;
  if (call->head_sent) rb_raise(rb_eIOError, "the response has begun");
  if (ab_exchange_is_stream(call->exchange)) {
    rb_raise(rb_eIOError, "over HTTP/2 there is no connection of this request's own to take over");
  }
  VALUE env = call->env;
  VALUE io = detach(call);
  rb_hash_aset(env, rb_str_new_cstr("rack.hijack_io"), io);
  return io;
}

bool ab_upgrade_wanted(const ab_lines *head) {
  return head->call->status == 101 || !NIL_P(head->protocol);
}

/* What gets the socket: the partial hijack's callable, or a streaming body. */
static VALUE receiver(const ab_lines *head, VALUE body) {
  ID call = rb_intern("call");
  if (!NIL_P(head->hijack) && rb_respond_to(head->hijack, call)) return head->hijack;
  bool streaming = !rb_respond_to(body, rb_intern("each")) && rb_respond_to(body, call);
  if (!streaming) ab_response_refuse("an upgrade needs a body that responds to call", body);
  return body;
}

/* What equals one of the names need not be a String, and the app may have changed the list. */
static bool is_among(VALUE offered, VALUE protocol) {
  return RB_TYPE_P(protocol, T_STRING) && RSTRING_LEN(protocol) > 0 &&
         ab_is_field_value(RSTRING_PTR(protocol), (size_t)RSTRING_LEN(protocol)) &&
         RTEST(rb_ary_includes(offered, protocol));
}

/* The client must have offered it, which is impossible over HTTP/1.0 (RFC 9110 7.8). */
static void check_offered(const ab_lines *head) {
  VALUE offered = rb_hash_aref(head->call->env, rb_str_new_cstr("rack.protocol"));
  if (!RB_TYPE_P(offered, T_ARRAY)) {
    ab_response_refuse("an upgrade that the client has not offered", head->protocol);
  }
  if (NIL_P(head->protocol) ? head->has_upgrade : is_among(offered, head->protocol)) return;
  ab_response_refuse("the protocol is not one that the client has offered", head->protocol);
}

/* The other protocol begins behind the whole request (RFC 9110 7.8): what is left of its body is no
 * byte of that protocol's, and for a body in chunks not even the body's. */
static void check_read(const ab_lines *head) {
  ab_call *call = head->call;
  ab_engine_lock(call->rack->engine);
  const ab_body *body = ab_exchange_body(call->exchange);
  bool read = !body || body->done;
  ab_engine_unlock(call->rack->engine);
  if (read) return;
  ab_response_refuse("an upgrade before the request's body was read", head->protocol);
}

static void put_upgrade(ab_lines *head) {
  VALUE protocol = head->protocol;
  if (!head->has_upgrade) {
    ab_lines_put_field(head, "Upgrade", 7, RSTRING_PTR(protocol), (size_t)RSTRING_LEN(protocol));
  }
  if (!head->upgrade) ab_lines_put_field(head, "Connection", 10, "upgrade", 7);
  ab_lines_room(head, AB_HEAD_END_MAX);
}

static void queue_upgrade(ab_lines *head) {
  ab_call *call = head->call;
  ab_engine *engine = call->rack->engine;
  put_upgrade(head);
  ab_lines_check(head);
  ab_engine_lock(engine);
  int error = ab_exchange_switch(call->exchange, call->runner->scratch, head->used);
  ab_engine_unlock(engine);
  if (error) ab_response_raise(error);
  call->head_sent = true;
}

typedef struct switched {
  VALUE callable, io;
} switched;

static VALUE run_protocol(VALUE arg) {
  const switched *s = (const switched *)arg;
  return rb_funcall(s->callable, rb_intern("call"), 1, s->io);
}

static VALUE close_io(VALUE io) {
  return rb_io_close(io);
}

/* An upgrade whose receiver has failed has no owner. */
static void run_or_close(VALUE callable, VALUE io) {
  switched s = {callable, io};
  int state = 0, ignored = 0;
  rb_protect(run_protocol, (VALUE)&s, &state);
  if (!state) return;
  VALUE exception = rb_errinfo();
  bool is_exception = RTEST(rb_obj_is_kind_of(exception, rb_eException));
  rb_protect(close_io, io, &ignored);
  if (is_exception) rb_set_errinfo(exception);
  rb_jump_tag(state);
}

/* The stream itself becomes the tunnel (RFC 8441 5). */
static void write_tunnel(ab_lines *head, VALUE headers, VALUE body) {
  ab_call *call = head->call;
  if (NIL_P(head->protocol)) {
    ab_response_refuse("101 over HTTP/2, where rack.protocol is the way", headers);
  }
  check_offered(head);
  VALUE callable = receiver(head, body);
  call->status = 200;
  ab_body_write_call(head, headers, callable);
}

void ab_upgrade_write(ab_lines *head, VALUE headers, VALUE body) {
  ab_call *call = head->call;
  if (call->status != 101 && call->status != 200) {
    ab_response_refuse("rack.protocol with a status that is not 101 or 200", INT2FIX(call->status));
  }
  if (head->content.declared || head->content.coded) {
    ab_response_refuse("an upgrade has no content", headers); /* RFC 9110 8.6, RFC 9112 6.1 */
  }
  if (ab_exchange_is_stream(call->exchange)) {
    write_tunnel(head, headers, body);
    return;
  }
  check_offered(head);
  check_read(head);
  VALUE callable = receiver(head, body);
  call->status = 101; /* 200 is how HTTP/2 says the same */
  ab_head_put(head, headers);
  queue_upgrade(head);
  VALUE io = detach(call);
  call->complete = true;
  run_or_close(callable, io);
}
