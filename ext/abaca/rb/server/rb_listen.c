/* Abaca::Listener, which may be opened before a fork, and the listeners of Abaca::Engine. */
#include "http/status.h"
#include "http2/session.h"
#include "rb/server/rb_server.h"

#include <errno.h>

#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_proxies.h"
#include "rb/server/rb_tls.h"

static VALUE keyword(VALUE keywords, const char *name) {
  return NIL_P(keywords) ? Qnil : ab_option(keywords, name);
}

/* --- Abaca::Listener --- */

static void listener_free(void *listener) {
  ab_listener_fini(listener);
}

/* NULL once it is closed, or an engine has it. */
static const rb_data_type_t listener_type = {
    .wrap_struct_name = "Abaca::Listener",
    .function = {.dfree = listener_free},
};

static VALUE listener_new(VALUE klass) {
  return TypedData_Wrap_Struct(klass, &listener_type, NULL);
}

/* Gives `self` what was opened; the object is made before, since that may raise. */
static VALUE listener_give(VALUE self, ab_listener *listener, VALUE what) {
  if (!listener) rb_syserr_fail_str(errno, what);
  DATA_PTR(self) = listener;
  return self;
}

static ab_listener *listener_of(VALUE self) {
  ab_listener *listener = rb_check_typeddata(self, &listener_type);
  if (!listener) rb_raise(rb_eIOError, "the listener is closed, or belongs to an engine");
  return listener;
}

static ab_listener_options listen_options_of(VALUE keywords) {
  VALUE backlog = keyword(keywords, "backlog"), dead_after = keyword(keywords, "dead_after"),
        umask = keyword(keywords, "umask"), mode = keyword(keywords, "mode");
  uint64_t dead = NIL_P(dead_after) ? 0 : NUM2ULL(dead_after);
  return (ab_listener_options){
      .backlog = NIL_P(backlog) ? 0 : NUM2INT(backlog),
      .defer_accept = RTEST(keyword(keywords, "defer_accept")),
      .reuse_port = RTEST(keyword(keywords, "reuse_port")),
      .dead_after = dead < UINT32_MAX ? (uint32_t)dead : UINT32_MAX,
      .umask = NIL_P(umask) ? -1 : NUM2INT(umask),
      .mode = NIL_P(mode) ? -1 : NUM2INT(mode),
  };
}

/* call-seq: tcp(address, port, backlog:, defer_accept:, reuse_port:, dead_after:) -> Listener
 *
 * Listens on a numeric address. dead_after: seconds. Raises SystemCallError, ArgumentError. */
static VALUE listener_tcp(int argc, VALUE *argv, VALUE klass) {
  VALUE address, port, keywords;
  rb_scan_args(argc, argv, "2:", &address, &port, &keywords);
  int number = NUM2INT(port);
  if (number < 0 || number > 65535) rb_raise(rb_eArgError, "port %d is not in 0..65535", number);
  ab_listener_options options = listen_options_of(keywords);
  VALUE self = listener_new(klass);
  VALUE what = rb_sprintf("%" PRIsVALUE ":%d", address, number);
  const char *text = StringValueCStr(address);
  return listener_give(self, ab_listener_tcp(&ab_mem_libc, text, (uint16_t)number, &options), what);
}

/* call-seq: unix(path, backlog:, umask:, mode:) -> Listener
 *
 * Listens on a unix socket. Raises SystemCallError, ArgumentError. */
static VALUE listener_unix(int argc, VALUE *argv, VALUE klass) {
  VALUE path, keywords;
  rb_scan_args(argc, argv, "1:", &path, &keywords);
  ab_listener_options options = listen_options_of(keywords);
  VALUE self = listener_new(klass);
  const char *text = StringValueCStr(path);
  return listener_give(self, ab_listener_unix(&ab_mem_libc, text, &options), path);
}

/* call-seq: adopt(fd) -> Listener
 *
 * Takes a descriptor that listens. Raises SystemCallError; then it stays the caller's. */
static VALUE listener_adopt(VALUE klass, VALUE fd) {
  int number = NUM2INT(fd);
  VALUE self = listener_new(klass);
  VALUE what = rb_sprintf("fd %d", number);
  return listener_give(self, ab_listener_adopt(&ab_mem_libc, number), what);
}

/* call-seq: inherit(fd, owns_path, backlog:, defer_accept:, dead_after:, mode:) -> Listener
 *
 * Takes a descriptor that an earlier program has opened; removes its socket file at the end if
 * owns_path. dead_after: seconds. Raises SystemCallError; then it stays the caller's. */
static VALUE listener_inherit(int argc, VALUE *argv, VALUE klass) {
  VALUE fd, owns, keywords;
  rb_scan_args(argc, argv, "2:", &fd, &owns, &keywords);
  int number = NUM2INT(fd);
  ab_listener_options options = listen_options_of(keywords);
  VALUE self = listener_new(klass);
  VALUE what = rb_sprintf("fd %d", number);
  return listener_give(self, ab_listener_inherit(&ab_mem_libc, number, &options, RTEST(owns)),
                       what);
}

/* call-seq: keep -> nil
 *
 * Another process continues with the socket: its socket file stays. */
static VALUE listener_keep(VALUE self) {
  ab_listener_keep(listener_of(self));
  return Qnil;
}

/* call-seq: port -> Integer */
static VALUE listener_port(VALUE self) {
  return INT2FIX(ab_listener_port(listener_of(self)));
}

/* call-seq: fileno -> Integer */
static VALUE listener_fileno(VALUE self) {
  return INT2FIX(ab_listener_fd(listener_of(self)));
}

static VALUE place_of(const ab_listener *listener) {
  bool tcp = ab_listener_family(listener) == AB_LISTEN_TCP;
  return rb_ary_new_from_args(3, ID2SYM(rb_intern(tcp ? "tcp" : "unix")),
                              rb_str_new_cstr(ab_listener_name(listener)),
                              tcp ? INT2FIX(ab_listener_port(listener)) : Qnil);
}

/* call-seq: place -> [:tcp, "127.0.0.1", 9292] or [:unix, "/path", nil] */
static VALUE listener_place(VALUE self) {
  return place_of(listener_of(self));
}

/* call-seq: close -> nil
 *
 * Closes it, unless an engine has it. Idempotent. */
static VALUE listener_close(VALUE self) {
  ab_listener_fini(rb_check_typeddata(self, &listener_type));
  DATA_PTR(self) = NULL;
  return Qnil;
}

/* --- Abaca::Engine --- */

/* Where a listener redirects to, if it does. `memory` keeps the list of hosts. */
static ab_redirect_terms redirect_of(VALUE given, VALUE *memory) {
  VALUE hosts = ab_option(given, "hosts"), port = ab_option(given, "port");
  if (!NIL_P(hosts)) Check_Type(hosts, T_ARRAY);
  long count = NIL_P(hosts) ? 0 : RARRAY_LEN(hosts);
  ab_view *views = rb_alloc_tmp_buffer2(memory, count > 0 ? count : 1, sizeof(*views));
  for (long i = 0; i < count; i++) {
    VALUE host = rb_ary_entry(hosts, i);
    Check_Type(host, T_STRING);
    views[i] = (ab_view){RSTRING_PTR(host), (size_t)RSTRING_LEN(host)};
  }
  int number = NIL_P(port) ? 0 : NUM2INT(port);
  if (number < 0 || number > 65535) rb_raise(rb_eArgError, "port %d is not in 0..65535", number);
  return (ab_redirect_terms){
      .hosts = views,
      .host_count = (size_t)count,
      .port = (uint16_t)(number == 443 ? 0 : number),
  };
}

/* call-seq: listen(listener, limits:, proxy_protocol:, proxy_from:, h2c:, tls:, plain_http:,
 * redirect:) -> nil
 *
 * Takes the listener. limits: Hash of those that differ from the server's; proxy_protocol: :v1,
 * :v2, :any, :v1_if_sent or nil; proxy_from: Array of networks; h2c: whether a client may begin
 * with HTTP/2; tls: a TLSContext or nil; plain_http: :redirect or nil, to HTTP without TLS;
 * redirect: nil or a Hash: hosts, an Array of those that are known, by default those that
 * certificates name, and port. Raises ArgumentError, IOError. */
static VALUE server_listen(int argc, VALUE *argv, VALUE self) {
  ab_engine *engine = ab_server_own(self)->run.rack.engine;
  VALUE given, keywords;
  rb_scan_args(argc, argv, "1:", &given, &keywords);
  ab_limits limits = *ab_engine_limits(engine);
  ab_server_set_limits(&limits, keyword(keywords, "limits"));
  VALUE proxies = ab_nets_of(keyword(keywords, "proxy_from"));
  VALUE tls = keyword(keywords, "tls"), redirect = keyword(keywords, "redirect"), memory = Qnil;
  ab_redirect_terms elsewhere = {0};
  if (!NIL_P(redirect)) elsewhere = redirect_of(redirect, &memory);
  const ab_listener_terms terms = {
      .limits = &limits,
      .proxy_accept = ab_proxy_accept_of(keyword(keywords, "proxy_protocol")),
      .proxies = ab_nets_ptr(proxies),
      .proxy_count = ab_nets_count(proxies),
      .http2 = RTEST(keyword(keywords, "h2c")),
      .tls = NIL_P(tls) ? NULL : ab_tls_context_of(tls),
      .redirects_clear = keyword(keywords, "plain_http") == ID2SYM(rb_intern("redirect")),
      .redirect = NIL_P(redirect) ? NULL : &elsewhere,
  };
  if (ab_engine_add_listener(engine, listener_of(given), &terms) != AB_OK) rb_memerror();
  DATA_PTR(given) = NULL;
  RB_GC_GUARD(proxies);
  RB_GC_GUARD(tls);
  RB_GC_GUARD(redirect);
  RB_GC_GUARD(memory);
  return Qnil;
}

/* call-seq: replace_tls(index, context) -> true or false
 *
 * New connections of this listener get another TLSContext. False if it has none, or is closed. Any
 * thread may call it. */
static VALUE server_replace_tls(VALUE self, VALUE index, VALUE context) {
  ab_engine *engine = ab_server_own(self)->run.rack.engine;
  bool done = ab_engine_replace_tls(engine, NUM2SIZET(index), ab_tls_context_of(context));
  RB_GC_GUARD(context);
  return done ? Qtrue : Qfalse;
}

/* call-seq: listeners -> an Array of Listener#place */
static VALUE server_listeners(VALUE self) {
  ab_server *server = ab_server_own(self);
  VALUE result = rb_ary_new();
  const ab_listener *listener;
  for (size_t i = 0; (listener = ab_engine_listener(server->run.rack.engine, i)); i++)
    rb_ary_push(result, place_of(listener));
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

/* call-seq: Engine.status_phrase(status) -> "OK", or "" for a status without one */
static VALUE engine_status_phrase(VALUE klass AB_UNUSED, VALUE status) {
  return rb_str_new_cstr(ab_status_phrase(NUM2INT(status)));
}

/* Abaca::HTTP2_LIBRARY: its name and version, or nil in a build without it. */
static void define_http2(VALUE mAbaca) {
  const char *library = ab_h2_library();
  VALUE name = library ? rb_obj_freeze(rb_str_new_cstr(library)) : Qnil;
  rb_define_const(mAbaca, "HTTP2_LIBRARY", name);
}

void ab_init_listen(VALUE mAbaca, VALUE cEngine) {
  define_http2(mAbaca);
  VALUE cListener = rb_define_class_under(mAbaca, "Listener", rb_cObject);
  rb_undef_alloc_func(cListener);
  rb_define_singleton_method(cListener, "tcp", listener_tcp, -1);
  rb_define_singleton_method(cListener, "unix", listener_unix, -1);
  rb_define_singleton_method(cListener, "adopt", listener_adopt, 1);
  rb_define_singleton_method(cListener, "inherit", listener_inherit, -1);
  rb_define_method(cListener, "keep", listener_keep, 0);
  rb_define_method(cListener, "port", listener_port, 0);
  rb_define_method(cListener, "fileno", listener_fileno, 0);
  rb_define_method(cListener, "place", listener_place, 0);
  rb_define_method(cListener, "close", listener_close, 0);
  rb_define_singleton_method(cEngine, "status_phrase", engine_status_phrase, 1);
  rb_define_method(cEngine, "listen", server_listen, -1);
  rb_define_method(cEngine, "replace_tls", server_replace_tls, 2);
  rb_define_method(cEngine, "listeners", server_listeners, 0);
  rb_define_method(cEngine, "close", server_close, 0);
}
