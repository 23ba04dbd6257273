/* Abaca::TLSInfo: see rb_tls_info.h. There is one for a connection. The server keeps them all, so
 * that the next request of the connection finds the same one; since the engine does not tell when a
 * connection ends, whoever makes a new one looks at two old ones. */
#include "rb/rack/rb_tls_info.h"

#include "rb/rack/rb_lookup.h"
#include "tls/facts.h"

#define LOOKS 2

struct ab_tls_info {
  ab_list link; /* in rack->tls_infos, or by itself */
  ab_tls_facts *facts;
  VALUE self;
  VALUE certificate; /* OpenSSL::X509::Certificate or nil; Qundef until somebody asks */
};

static void info_mark(void *ptr) {
  const ab_tls_info *info = ptr;
  if (info->certificate != Qundef) rb_gc_mark(info->certificate);
}

static void info_free(void *ptr) {
  ab_tls_info *info = ptr;
  ab_list_remove(&info->link);
  ab_tls_facts_release(info->facts);
  xfree(info);
}

static size_t info_size(const void *ptr AB_UNUSED) {
  return sizeof(ab_tls_info);
}

static const rb_data_type_t info_type = {
    .wrap_struct_name = "Abaca::TLSInfo",
    .function = {.dmark = info_mark, .dfree = info_free, .dsize = info_size},
};

/* --- those of a server --- */

void ab_tls_info_mark(const ab_list *infos) {
  for (const ab_list *node = infos->next; node != infos; node = node->next) {
    rb_gc_mark(AB_CONTAINER_OF(node, ab_tls_info, link)->self);
  }
}

void ab_tls_info_let_go(ab_list *infos) {
  while (ab_list_shift(infos)) continue;
}

/* Twice as many as there are connections is the most that stay. */
static void look_at_old_ones(ab_list *infos) {
  for (int i = 0; i < LOOKS && !ab_list_empty(infos); i++) {
    ab_tls_info *info = AB_CONTAINER_OF(ab_list_shift(infos), ab_tls_info, link);
    if (!ab_tls_facts_alone(info->facts)) ab_list_append(infos, &info->link);
  }
}

/* Takes the count of the facts. */
static VALUE info_make(ab_rack *rack, ab_tls_facts *facts) {
  ab_tls_info *info;
  VALUE self = TypedData_Make_Struct(rack->tls_info_class, ab_tls_info, &info_type, info);
  ab_list_init(&info->link);
  info->facts = facts;
  info->self = self;
  info->certificate = Qundef;
  look_at_old_ones(&rack->tls_infos);
  ab_list_append(&rack->tls_infos, &info->link);
  *ab_tls_facts_slot(facts) = info;
  return self;
}

/* One count for the caller; NULL if the client has gone, or without memory. */
static ab_tls_facts *facts_of(ab_call *call) {
  ab_engine *engine = call->rack->engine;
  ab_engine_lock(engine);
  const ab_tls *tls = ab_exchange_tls(call->exchange);
  ab_tls_facts *facts = tls ? ab_tls_facts_hold(tls) : NULL;
  ab_engine_unlock(engine);
  return facts;
}

static VALUE info_of(ab_call *call) {
  ab_tls_facts *facts = facts_of(call);
  if (!facts) return Qnil;
  ab_tls_info *info = *ab_tls_facts_slot(facts);
  if (!info) return info_make(call->rack, facts);
  ab_tls_facts_release(facts);
  return info->self;
}

/* --- the certificate --- */

static VALUE text_or_nil(ab_view view) {
  return view.ptr ? rb_utf8_str_new(view.ptr, (long)view.len) : Qnil;
}

/* The library is there already, unless somebody has made the context by hand. */
static VALUE make_certificate(VALUE der) {
  rb_require("openssl");
  return rb_class_new_instance(1, &der, rb_path2class("OpenSSL::X509::Certificate"));
}

static VALUE certificate_of(ab_tls_info *info) {
  if (info->certificate != Qundef) return info->certificate;
  ab_view der = ab_tls_facts_certificate(info->facts);
  VALUE self = info->self, certificate = Qnil;
  int state = 0;
  if (der.ptr) {
    certificate = rb_protect(make_certificate, rb_str_new(der.ptr, (long)der.len), &state);
  }
  if (state) {
    rb_set_errinfo(Qnil);
    certificate = Qnil;
  }
  /* Another request of the connection may have been faster. */
  if (info->certificate == Qundef) info->certificate = certificate;
  certificate = info->certificate;
  RB_GC_GUARD(self);
  return certificate;
}

void ab_tls_info_add(ab_call *call) {
  const VALUE *strings = call->rack->env.strings;
  VALUE env = call->env, self = info_of(call), certificate = Qnil;
  if (!NIL_P(self)) certificate = certificate_of(RTYPEDDATA_DATA(self));
  rb_hash_aset(env, strings[AB_ENV_TLS], self);
  rb_hash_aset(env, strings[AB_ENV_PEERCERT], certificate);
}

/* --- what the app asks --- */

static ab_tls_info *get(VALUE self) {
  return rb_check_typeddata(self, &info_type);
}

static VALUE static_text(const char *text) {
  return text ? rb_interned_str_cstr(text) : Qnil;
}

/* call-seq: version -> "TLSv1.3" */
static VALUE info_version(VALUE self) {
  return static_text(ab_tls_facts_version(get(self)->facts));
}

/* call-seq: cipher -> "TLS_AES_128_GCM_SHA256" */
static VALUE info_cipher(VALUE self) {
  return static_text(ab_tls_facts_cipher(get(self)->facts));
}

/* call-seq: bits -> 128 */
static VALUE info_bits(VALUE self) {
  return INT2NUM(ab_tls_facts_bits(get(self)->facts));
}

/* call-seq: alpn -> "h2", "http/1.1" or nil */
static VALUE info_alpn(VALUE self) {
  return static_text(ab_tls_facts_protocol(get(self)->facts));
}

/* call-seq: sni -> the host that the client has asked for, in lower case, or nil */
static VALUE info_sni(VALUE self) {
  const char *name = ab_tls_facts_server_name(get(self)->facts);
  return name ? rb_utf8_str_new_cstr(name) : Qnil;
}

/* call-seq: resumed? -> true or false */
static VALUE info_resumed_p(VALUE self) {
  return ab_tls_facts_resumed(get(self)->facts) ? Qtrue : Qfalse;
}

/* call-seq: client_dn -> the subject of the client's certificate, "CN=a,O=b", or nil */
static VALUE info_client_dn(VALUE self) {
  return text_or_nil(ab_tls_facts_subject(get(self)->facts));
}

/* call-seq: client_certificate -> OpenSSL::X509::Certificate or nil */
static VALUE info_client_certificate(VALUE self) {
  return certificate_of(get(self));
}

void ab_init_tls_info(VALUE mAbaca) {
  VALUE cInfo = rb_define_class_under(mAbaca, "TLSInfo", rb_cObject);
  rb_undef_alloc_func(cInfo);
  rb_define_method(cInfo, "version", info_version, 0);
  rb_define_method(cInfo, "cipher", info_cipher, 0);
  rb_define_method(cInfo, "bits", info_bits, 0);
  rb_define_method(cInfo, "alpn", info_alpn, 0);
  rb_define_method(cInfo, "sni", info_sni, 0);
  rb_define_method(cInfo, "resumed?", info_resumed_p, 0);
  rb_define_method(cInfo, "client_dn", info_client_dn, 0);
  rb_define_method(cInfo, "client_certificate", info_client_certificate, 0);
}
