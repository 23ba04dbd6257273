/* Abaca::TLSContext: what a listener's TLS is, made of texts; the engine holds it as long as
 * connections have it. And where a master leaves such texts for its workers. */
#include "rb/server/rb_tls.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "os/bytes.h"
#include "os/nameless.h"
#include "rb/rack/rb_lookup.h"

/* --- the object --- */

static void context_free(void *context) {
  ab_tls_context_release(context);
}

/* OpenSSL does not tell; measured with one certificate. */
static size_t context_size(const void *context AB_UNUSED) {
  return 16384;
}

static const rb_data_type_t context_type = {
    .wrap_struct_name = "Abaca::TLSContext",
    .function = {.dfree = context_free, .dsize = context_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE context_alloc(VALUE klass) {
  return TypedData_Wrap_Struct(klass, &context_type, NULL);
}

ab_tls_context *ab_tls_context_of(VALUE self) {
  ab_tls_context *context = rb_check_typeddata(self, &context_type);
  if (!context) rb_raise(rb_eRuntimeError, "the context has not been initialized");
  return context;
}

/* --- what it is made of --- */

/* An option's text, or NULL. It lives as long as the options. */
static const char *tls_text_of(VALUE options, const char *name, size_t *len) {
  VALUE text = ab_option(options, name);
  if (NIL_P(text)) return NULL;
  Check_Type(text, T_STRING);
  if (!len) return StringValueCStr(text);
  *len = (size_t)RSTRING_LEN(text);
  return RSTRING_PTR(text);
}

/* One of [chain, key, password or nil, label]. */
static ab_tls_identity identity_of(VALUE parts) {
  Check_Type(parts, T_ARRAY);
  VALUE chain = rb_ary_entry(parts, 0), key = rb_ary_entry(parts, 1);
  VALUE password = rb_ary_entry(parts, 2), label = rb_ary_entry(parts, 3);
  Check_Type(chain, T_STRING);
  Check_Type(key, T_STRING);
  return (ab_tls_identity){
      .chain = RSTRING_PTR(chain),
      .chain_len = (size_t)RSTRING_LEN(chain),
      .key = RSTRING_PTR(key),
      .key_len = (size_t)RSTRING_LEN(key),
      .password = NIL_P(password) ? NULL : StringValueCStr(password),
      .label = StringValueCStr(label),
  };
}

static enum ab_tls_verify verify_of(VALUE mode) {
  if (mode == ID2SYM(rb_intern("force_peer"))) return AB_TLS_VERIFY_FORCE_PEER;
  return mode == ID2SYM(rb_intern("peer")) ? AB_TLS_VERIFY_PEER : AB_TLS_VERIFY_NONE;
}

static void take_secret(ab_tls_options *terms, VALUE options) {
  size_t len = 0;
  const char *secret = tls_text_of(options, "ticket_secret", &len);
  if (!secret) return;
  if (len != sizeof(terms->ticket_secret)) rb_raise(rb_eArgError, "ticket_secret: 32 bytes");
  memcpy(terms->ticket_secret, secret, len);
  terms->tickets = true;
}

static ab_tls_options tls_options_of(VALUE options) {
  VALUE flags = ab_option(options, "verification_flags"), least = ab_option(options, "min_version");
  ab_tls_options terms = {
      .verify = verify_of(ab_option(options, "verify")),
      .verification_flags = NIL_P(flags) ? 0 : NUM2ULONG(flags),
      .ciphers = tls_text_of(options, "ciphers", NULL),
      .ciphersuites = tls_text_of(options, "ciphersuites", NULL),
      .min_version = NIL_P(least) ? 0 : NUM2INT(least),
      .http2 = RTEST(ab_option(options, "http2")),
      .name = tls_text_of(options, "name", NULL),
  };
  terms.ca = tls_text_of(options, "ca", &terms.ca_len);
  terms.crl = tls_text_of(options, "crl", &terms.crl_len);
  if (!terms.name) terms.name = "";
  take_secret(&terms, options);
  return terms;
}

/* A text that was too long may end within a character. */
static void raise_problem(const ab_tls_problem *problem) {
  VALUE text = rb_utf8_str_new_cstr(problem->text);
  VALUE whole = rb_funcall(text, rb_intern("scrub"), 1, rb_str_new_cstr("?"));
  rb_exc_raise(rb_exc_new_str(ab_class("ConfigError"), whole));
}

/* call-seq: new(options) -> TLSContext
 *
 * identities: Array of [certificates, key, password or nil, label], texts in PEM, the first one for
 * clients that name no host; ca, crl: PEM or nil; verify: :none, :peer or :force_peer;
 * verification_flags: Integer; ciphers, ciphersuites: as OpenSSL writes them, or nil; min_version:
 * 0x0303, 0x0304 or nil; http2: whether ALPN offers it; ticket_secret: 32 bytes, or nil for no
 * tickets; name: the listener's.
 *
 * Raises ConfigError, whose message names a label and its fault. */
static VALUE context_initialize(VALUE self, VALUE options) {
  Check_Type(options, T_HASH);
  if (DATA_PTR(self)) rb_raise(rb_eRuntimeError, "already initialized");
  VALUE list = ab_option(options, "identities");
  Check_Type(list, T_ARRAY);
  long count = RARRAY_LEN(list);
  VALUE memory;
  ab_tls_identity *identities = ALLOCV_N(ab_tls_identity, memory, count > 0 ? count : 1);
  for (long i = 0; i < count; i++) identities[i] = identity_of(rb_ary_entry(list, i));
  ab_tls_options terms = tls_options_of(options);
  terms.identities = identities;
  terms.identity_count = (size_t)count;
  ab_tls_problem problem = {""};
  ab_tls_context *context = ab_tls_context_new(&ab_mem_libc, &terms, (int64_t)time(NULL), &problem);
  ab_os_wipe(terms.ticket_secret, sizeof(terms.ticket_secret));
  ALLOCV_END(memory);
  RB_GC_GUARD(options);
  if (!context) raise_problem(&problem);
  DATA_PTR(self) = context;
  return self;
}

static VALUE names_of(const ab_tls_certificate *certificate) {
  VALUE names = rb_ary_new_capa((long)certificate->name_count);
  for (size_t i = 0; i < certificate->name_count; i++) {
    rb_ary_push(names, rb_utf8_str_new_cstr(certificate->names[i]));
  }
  return rb_obj_freeze(names);
}

static VALUE tls_time_of(int64_t seconds) {
  return rb_time_num_new(LL2NUM(seconds), Qnil);
}

static VALUE tls_describe(const ab_tls_certificate *certificate) {
  VALUE hash = rb_hash_new();
  ab_put(hash, "label", rb_utf8_str_new_cstr(certificate->label));
  ab_put(hash, "subject", rb_utf8_str_new_cstr(certificate->subject));
  ab_put(hash, "serial", rb_utf8_str_new_cstr(certificate->serial));
  ab_put(hash, "key", rb_utf8_str_new_cstr(certificate->key));
  ab_put(hash, "names", names_of(certificate));
  ab_put(hash, "not_before", tls_time_of(certificate->not_before));
  ab_put(hash, "not_after", tls_time_of(certificate->not_after));
  return rb_obj_freeze(hash);
}

/* call-seq: certificates -> Array of Hashes
 *
 * label, subject, serial, key ("ECDSA 256"), names, not_before, not_after of each, in order. */
static VALUE context_certificates(VALUE self) {
  const ab_tls_context *context = ab_tls_context_of(self);
  VALUE result = rb_ary_new();
  for (size_t i = 0; i < ab_tls_context_certificates(context); i++) {
    rb_ary_push(result, tls_describe(ab_tls_context_certificate(context, i)));
  }
  RB_GC_GUARD(self);
  return result;
}

/* call-seq: name?(name) -> true or false
 *
 * Whether a certificate was made for this host. */
static VALUE context_name_p(VALUE self, VALUE name) {
  VALUE small = rb_funcall(StringValue(name), rb_intern("downcase"), 0);
  bool found = ab_tls_context_has_name(ab_tls_context_of(self), RSTRING_PTR(small),
                                       (size_t)RSTRING_LEN(small));
  RB_GC_GUARD(small);
  return found ? Qtrue : Qfalse;
}

/* --- memory that a master shares with its workers --- */

/* call-seq: TLSContext.memory -> Integer
 *
 * A descriptor of memory that is a file for reading and writing: its caller's. Only where a system
 * has no file system in memory, it is on a disk. Raises SystemCallError. */
static VALUE context_memory(VALUE klass AB_UNUSED) {
  int fd = ab_nameless_memory("abaca-tls");
  if (fd < 0) fd = ab_nameless_file("/dev/shm", "abaca-tls");
  if (fd < 0 && errno == ENOENT) fd = ab_nameless_file("/tmp", "abaca-tls");
  if (fd < 0) rb_sys_fail("no memory to share");
  return INT2NUM(fd);
}

void ab_init_tls(VALUE mAbaca) {
  const char *library = ab_tls_library();
  VALUE name = library ? rb_obj_freeze(rb_str_new_cstr(library)) : Qnil;
  /* Name and version of the library, or nil in a build without it. */
  rb_define_const(mAbaca, "TLS_LIBRARY", name);
  VALUE cContext = rb_define_class_under(mAbaca, "TLSContext", rb_cObject);
  rb_define_alloc_func(cContext, context_alloc);
  rb_define_method(cContext, "initialize", context_initialize, 1);
  rb_undef_method(cContext, "initialize_copy");
  rb_define_method(cContext, "certificates", context_certificates, 0);
  rb_define_method(cContext, "name?", context_name_p, 1);
  rb_define_singleton_method(cContext, "memory", context_memory, 0);
}
