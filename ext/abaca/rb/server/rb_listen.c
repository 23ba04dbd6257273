/* The listeners of Abaca::Engine: what it is told to listen on, and on what terms. */
#include "rb/server/rb_listen.h"

#include <errno.h>

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_proxies.h"
#include "rb/server/rb_server.h"

static VALUE keyword(VALUE keywords, const char *name) {
  return NIL_P(keywords) ? Qnil : ab_option(keywords, name);
}

static ab_listener_options listener_options(VALUE keywords, const ab_limits *limits) {
  /* A peer that has time to read has time to answer. */
  uint64_t dead = limits->dead_peer_timeout, slow = limits->write_timeout;
  if (dead > 0 && dead < slow) dead = slow;
  VALUE backlog = keyword(keywords, "backlog"), umask = keyword(keywords, "umask"),
        mode = keyword(keywords, "mode");
  return (ab_listener_options){
      .backlog = NIL_P(backlog) ? 1024 : NUM2INT(backlog),
      .defer_accept = RTEST(keyword(keywords, "defer_accept")),
      .reuse_port = RTEST(keyword(keywords, "reuse_port")),
      .dead_after = dead < UINT32_MAX ? (uint32_t)dead : UINT32_MAX,
      .umask = NIL_P(umask) ? -1 : NUM2INT(umask),
      .mode = NIL_P(mode) ? -1 : NUM2INT(mode),
  };
}

/* What an app says of a listener, asked for before there is one, because it raises. */
typedef struct said_terms {
  ab_limits limits; /* the server's, but for those that the listener has of its own */
  unsigned proxy_accept;
  VALUE proxies;
} said_terms;

static said_terms said_terms_of(const ab_server *server, VALUE keywords) {
  said_terms said = {
      .limits = *ab_engine_limits(server->run.rack.engine),
      .proxy_accept = ab_proxy_accept_of(keyword(keywords, "proxy_protocol")),
      .proxies = ab_nets_of(keyword(keywords, "proxy_from")),
  };
  ab_server_set_limits(&said.limits, keyword(keywords, "limits"));
  return said;
}

static void add_listener(ab_server *server, ab_listener *listener, const said_terms *said,
                         VALUE what) {
  if (!listener) rb_syserr_fail_str(errno, what);
  const ab_listener_terms terms = {
      .limits = &said->limits,
      .proxy_accept = said->proxy_accept,
      .proxies = ab_nets_ptr(said->proxies),
      .proxy_count = ab_nets_count(said->proxies),
  };
  if (ab_engine_add_listener(server->run.rack.engine, listener, &terms) == AB_OK) return;
  ab_listener_fini(listener);
  rb_memerror();
}

/* call-seq: add_tcp(address, port, backlog:, defer_accept:, reuse_port:, limits:, proxy_protocol:,
 *                   proxy_from:) -> Integer
 *
 * Listens on a numeric address. Returns the port. limits: Hash of those that differ from the
 * server's; proxy_protocol: :v1, :v2, :any, :v1_if_sent or nil; proxy_from: Array of networks.
 * Raises SystemCallError, ArgumentError. */
static VALUE server_add_tcp(int argc, VALUE *argv, VALUE self) {
  ab_server *server = ab_server_own(self);
  VALUE address, port, keywords;
  rb_scan_args(argc, argv, "2:", &address, &port, &keywords);
  int number = NUM2INT(port);
  if (number < 0 || number > 65535) rb_raise(rb_eArgError, "port %d is not in 0..65535", number);
  said_terms said = said_terms_of(server, keywords);
  ab_listener_options options = listener_options(keywords, &said.limits);
  ab_listener *listener =
      ab_listener_tcp(&ab_mem_libc, StringValueCStr(address), (uint16_t)number, &options);
  add_listener(server, listener, &said, rb_sprintf("%" PRIsVALUE ":%d", address, number));
  RB_GC_GUARD(said.proxies);
  return INT2FIX(ab_listener_port(listener));
}

/* call-seq: add_unix(path, backlog:, umask:, mode:, limits:, proxy_protocol:, proxy_from:) -> nil
 *
 * Listens on a unix socket. Raises SystemCallError, ArgumentError. */
static VALUE server_add_unix(int argc, VALUE *argv, VALUE self) {
  ab_server *server = ab_server_own(self);
  VALUE path, keywords;
  rb_scan_args(argc, argv, "1:", &path, &keywords);
  said_terms said = said_terms_of(server, keywords);
  ab_listener_options options = listener_options(keywords, &said.limits);
  ab_listener *listener = ab_listener_unix(&ab_mem_libc, StringValueCStr(path), &options);
  add_listener(server, listener, &said, path);
  RB_GC_GUARD(said.proxies);
  return Qnil;
}

/* call-seq: add_fd(fd, limits:, proxy_protocol:, proxy_from:) -> nil
 *
 * Takes a descriptor that listens. Raises SystemCallError, ArgumentError. */
static VALUE server_add_fd(int argc, VALUE *argv, VALUE self) {
  ab_server *server = ab_server_own(self);
  VALUE fd, keywords;
  rb_scan_args(argc, argv, "1:", &fd, &keywords);
  said_terms said = said_terms_of(server, keywords);
  ab_listener *listener = ab_listener_adopt(&ab_mem_libc, NUM2INT(fd));
  add_listener(server, listener, &said, rb_sprintf("fd %" PRIsVALUE, fd));
  RB_GC_GUARD(said.proxies);
  return Qnil;
}

/* call-seq: listeners -> [[:tcp, "127.0.0.1", 9292], [:unix, "/path", nil]] */
static VALUE server_listeners(VALUE self) {
  ab_server *server = ab_server_own(self);
  VALUE result = rb_ary_new();
  const ab_listener *listener;
  for (size_t i = 0; (listener = ab_engine_listener(server->run.rack.engine, i)); i++) {
    bool tcp = ab_listener_family(listener) == AB_LISTEN_TCP;
    rb_ary_push(result, rb_ary_new_from_args(3, ID2SYM(rb_intern(tcp ? "tcp" : "unix")),
                                             rb_str_new_cstr(ab_listener_name(listener)),
                                             tcp ? INT2FIX(ab_listener_port(listener)) : Qnil));
  }
  return result;
}

/* call-seq: close -> nil
 *
 * Closes the listeners. Idempotent. */
static VALUE server_close(VALUE self) {
  ab_server *server = ab_server_own_or_null(self);
  if (server) ab_engine_close_listeners(server->run.rack.engine);
  return Qnil;
}

void ab_init_listen(VALUE cEngine) {
  rb_define_method(cEngine, "add_tcp", server_add_tcp, -1);
  rb_define_method(cEngine, "add_unix", server_add_unix, -1);
  rb_define_method(cEngine, "add_fd", server_add_fd, -1);
  rb_define_method(cEngine, "listeners", server_listeners, 0);
  rb_define_method(cEngine, "close", server_close, 0);
}
