/* Connections that leave HTTP: full hijack (Rack SPEC, "Full Hijack") and protocol upgrades (RFC
 * 9110 7.8). In both cases the engine lets go of the socket, which becomes an ordinary Ruby Socket
 * of the app's: the server neither reads, writes, times nor closes it any more. */
#include <string.h>

#include "http1/write.h"
#include "rb/server/rb_response.h"

/* --- giving the socket away --- */

typedef struct handover {
  int fd;
  bool tcp;
  VALUE ahead; /* a String: octets that were read from it already */
  VALUE io;
} handover;

static VALUE make_io(VALUE arg) {
  handover *h = (handover *)arg;
  VALUE klass = rb_path2class(h->tcp ? "TCPSocket" : "UNIXSocket");
  h->io = rb_funcall(klass, rb_intern("for_fd"), 1, INT2NUM(h->fd));
  h->fd = -1;
  if (RSTRING_LEN(h->ahead) > 0) rb_funcall(h->io, rb_intern("ungetbyte"), 1, h->ahead);
  return Qnil;
}

/* Waits until what was queued has left, and takes the socket. Raises PeerError. */
static VALUE detach(ab_exchange *exchange) {
  exchange = ab_response_wait(exchange, ab_conn_want_sent);
  if (exchange->hijacked) return exchange->io; /* somebody else was faster */
  ab_engine *engine = exchange->server->engine;
  /* Made before, since Ruby must not be called with the lock held. */
  size_t room = ab_conn_input_len(exchange->conn), len;
  handover h = {.io = Qnil, .ahead = rb_str_new(NULL, (long)room)};
  const char *ahead;
  h.tcp = ab_listener_family(ab_conn_listener(exchange->conn)) == AB_LISTEN_TCP;
  ab_engine_lock(engine);
  h.fd = ab_conn_detach(exchange->conn, &ahead, &len);
  if (len > room) len = room; /* there is no more: only the application reads */
  if (len > 0) memcpy(RSTRING_PTR(h.ahead), ahead, len);
  ab_engine_unlock(engine);
  rb_str_set_len(h.ahead, (long)len);
  exchange->hijacked = exchange->head_sent = true;
  int state = 0;
  rb_protect(make_io, (VALUE)&h, &state);
  if (h.fd >= 0) ab_fd_close(h.fd);
  RB_GC_GUARD(h.ahead);
  if (state) rb_jump_tag(state);
  exchange->io = h.io;
  return h.io;
}

/* call-seq: call -> TCPSocket or UNIXSocket
 *
 * Full hijack: the connection is the app's from here on, and whatever it returns for this request
 * is ignored. What the client has sent beyond this request's head can be read from the socket; it
 * is also in env["rack.hijack_io"]. A second call returns the same object.
 *
 * Raises IOError when the response has begun or the request is over, PeerError when the client has
 * gone. */
VALUE ab_exchange_hijack(VALUE self) {
  ab_exchange *exchange = ab_exchange_of(self);
  if (exchange->hijacked) return exchange->io;
  if (exchange->head_sent) rb_raise(rb_eIOError, "the response has begun");
  if (AB_UNLIKELY(ab_server_forked(exchange->server))) {
    rb_raise(rb_eIOError, "a forked child cannot take its parent's connection");
  }
  VALUE env = exchange->env;
  VALUE io = detach(exchange);
  rb_hash_aset(env, rb_str_new_cstr("rack.hijack_io"), io);
  return io;
}

/* --- upgrades --- */

bool ab_upgrade_wanted(const ab_lines *head) {
  return head->exchange->status == 101 || !NIL_P(head->protocol);
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

/* The client must have offered it; over HTTP/1.0 nobody can (RFC 9110 7.8). */
static void check_offered(const ab_lines *head) {
  VALUE offered = rb_hash_aref(head->exchange->env, rb_str_new_cstr("rack.protocol"));
  if (!RB_TYPE_P(offered, T_ARRAY)) {
    ab_response_refuse("an upgrade that the client has not offered", head->protocol);
  }
  if (NIL_P(head->protocol) ? head->has_upgrade : is_among(offered, head->protocol)) return;
  ab_response_refuse("the protocol is not one that the client has offered", head->protocol);
}

/* The other protocol begins behind the whole request (RFC 9110 7.8): what is left of its body is no
 * octet of that protocol's, and for a body in chunks not even the body's. */
static void check_read(const ab_lines *head) {
  const ab_body *body = ab_conn_body(head->exchange->conn);
  if (!body || body->done) return;
  ab_response_refuse("an upgrade before the request's body was read", head->protocol);
}

static void put(ab_lines *head, const char *octets) {
  ab_lines_put(head, octets, strlen(octets));
}

static void put_upgrade(ab_lines *head) {
  if (!head->has_upgrade) {
    put(head, "Upgrade: ");
    ab_lines_put(head, RSTRING_PTR(head->protocol), (size_t)RSTRING_LEN(head->protocol));
    put(head, "\r\n");
  }
  if (!head->upgrade) put(head, "Connection: upgrade\r\n");
  put(head, "\r\n");
}

static void queue_upgrade(ab_lines *head) {
  ab_exchange *exchange = head->exchange;
  ab_engine *engine = exchange->server->engine;
  put_upgrade(head);
  ab_lines_check(head);
  ab_engine_lock(engine);
  int error = ab_conn_write(exchange->conn, exchange->runner->scratch, head->used);
  ab_engine_unlock(engine);
  if (error) ab_response_raise(error);
  exchange->head_sent = true;
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

/* An upgrade whose receiver has failed is nobody's. */
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

void ab_upgrade_write(ab_lines *head, VALUE headers, VALUE body) {
  ab_exchange *exchange = head->exchange;
  if (exchange->status != 101 && exchange->status != 200) {
    ab_response_refuse("rack.protocol with a status that is not 101 or 200",
                       INT2FIX(exchange->status));
  }
  if (head->has_length || head->chunked) {
    ab_response_refuse("an upgrade has no content", headers); /* RFC 9110 8.6, RFC 9112 6.1 */
  }
  check_offered(head);
  check_read(head);
  VALUE callable = receiver(head, body);
  exchange->status = 101; /* 200 is how HTTP/2 says the same */
  ab_head_put(head, headers);
  queue_upgrade(head);
  VALUE io = detach(exchange);
  exchange->complete = true;
  run_or_close(callable, io);
}
