/* The env builder duplicates a template Hash and sets what differs, with interned keys. */
#include "rb/rack/rb_env.h"

#include <ruby/encoding.h>
#include <ruby/version.h>
#include <string.h>

#include "base/bits.h"
#include "http/request_start.h"
#include "http/char.h"
#include "io/timer.h"
#include "os/bytes.h"
#include "rb/rack/rb_proxies.h"

enum name_flag {
  NAME_UNDERSCORE = 1, /* spelled with "_": yields to the same name spelled with "-" */
  NAME_DROPPED = 2     /* never reaches the application */
};

static VALUE interned(const char *ptr, size_t len) {
  return rb_enc_interned_str(ptr, (long)len, rb_utf8_encoding());
}

static VALUE bytes(ab_view view) {
  return rb_str_new(view.ptr, (long)view.len);
}

typedef struct filling {
  VALUE env;
  st_table *table;       /* of env, or NULL: then the keys are set in the ordinary way */
  const uint8_t *places; /* by enum ab_env_string, in that table; NULL: not known */
} filling;

/* Setting interned keys in the Hash's own table spares asking each time whether they are: that
 * makes a request 0.2 us cheaper. It is not the same in every version of Ruby: it is compiled in
 * where the function exists, and used when try_direct found that it works. The Hash is taken out of
 * the write barrier's protection, so that none is needed for each of the values. */
static filling fill(const ab_env_builder *builder, VALUE env) {
#ifdef HAVE_RB_HASH_TBL
  if (builder->direct) {
    RB_OBJ_WB_UNPROTECT(env);
    return (filling){env, RHASH_TBL(env), NULL};
  }
#endif
  (void)builder;
  return (filling){env, NULL, NULL};
}

/* The key is an interned String. */
static inline void set(filling into, VALUE key, VALUE value) {
#ifdef HAVE_RB_HASH_TBL
  if (AB_LIKELY(into.table != NULL)) {
    st_insert(into.table, key, value);
    return;
  }
#endif
  rb_hash_aset(into.env, key, value);
}

#if defined HAVE_RB_HASH_TBL && RUBY_API_VERSION_MAJOR == 3
/* A copy has its entries where the template has them, so that usual keys need no search: another
 * 0.1 us. So it is in st.c of Ruby 3; find_places checks it. */
typedef struct entry {
  st_index_t hash;
  st_data_t key, record;
} entry;

/* `env` is a new copy of the template. */
static filling fill_copy(const ab_env_builder *builder, VALUE env,
                         const ab_env_template *template) {
  filling into = fill(builder, env);
  const st_table *table = into.table;
  bool known = template->bound > 0 && table && table->entries_start == 0 &&
               table->entries_bound == template->bound;
  if (AB_LIKELY(known)) into.places = template->places;
  return into;
}

static inline void set_usual(const ab_env_builder *builder, filling into, enum ab_env_string which,
                             VALUE value) {
  VALUE key = builder->strings[which];
  if (AB_LIKELY(into.places != NULL)) {
    entry *found = (entry *)(void *)into.table->entries + into.places[which];
    if (AB_LIKELY(found->key == key)) {
      found->record = value;
      return;
    }
  }
  set(into, key, value);
}

/* Where the key is; 0 if it is not there, and then what is set in that place is not found. */
static uint8_t find_place(const st_table *table, VALUE key) {
  const entry *entries = (const entry *)(const void *)table->entries;
  for (size_t place = 0; place < table->entries_bound && place <= UINT8_MAX; place++) {
    if (entries[place].key == key && entries[place].hash != ~(st_index_t)0) return (uint8_t)place;
  }
  return 0;
}

/* What is set in its place must be what a search by the key's contents finds. */
static bool places_hold(const ab_env_builder *builder, const ab_env_template *template) {
  VALUE env = rb_hash_dup(template->hash);
  filling into = fill_copy(builder, env, template);
  if (!into.places) return false;
  for (int i = 0; i < AB_ENV_USUAL_COUNT; i++) {
    const entry *found = (const entry *)(const void *)into.table->entries + into.places[i];
    if (found->key != builder->strings[i]) return false;
    set_usual(builder, into, i, INT2FIX(i));
    if (rb_hash_aref(env, rb_str_dup(builder->strings[i])) != INT2FIX(i)) return false;
  }
  return rb_hash_size(env) == rb_hash_size(template->hash);
}

static void find_places(const ab_env_builder *builder, ab_env_template *template) {
  template->bound = 0;
  if (!builder->direct) return;
  const st_table *table = RHASH_TBL(template->hash);
  for (int i = 0; i < AB_ENV_USUAL_COUNT; i++) {
    template->places[i] = find_place(table, builder->strings[i]);
  }
  template->bound = table->entries_bound;
  if (!places_hold(builder, template)) template->bound = 0;
}
#else
#define fill_copy(builder, env, template)      fill(builder, env)
#define set_usual(builder, into, which, value) set(into, (builder)->strings[which], value)
#define find_places(builder, template)         ((void)(template))
#endif

/* Whether a key that was set directly is found by its contents, and an old one replaced. */
static bool try_direct(ab_env_builder *builder) {
  builder->direct = true;
  VALUE env = rb_hash_dup(builder->narrow.hash), size = rb_hash_size(env);
  VALUE old_key = builder->strings[AB_ENV_PATH_INFO],
        new_key = builder->strings[AB_ENV_HTTP_COOKIE];
  filling into = fill(builder, env);
  set(into, old_key, INT2FIX(1));
  set(into, new_key, INT2FIX(2));
  return rb_hash_aref(env, rb_str_dup(old_key)) == INT2FIX(1) &&
         rb_hash_aref(env, rb_str_dup(new_key)) == INT2FIX(2) &&
         FIX2LONG(rb_hash_size(env)) == FIX2LONG(size) + 1;
}

static void fill_template(ab_env_builder *builder, VALUE template) {
  static const struct {
    enum ab_env_string key;
    const char *value;
  } usual[] = {
      {AB_ENV_REQUEST_METHOD, "GET"}, {AB_ENV_PATH_INFO, "/"},
      {AB_ENV_QUERY_STRING, ""},      {AB_ENV_REQUEST_URI, "/"},
      {AB_ENV_SERVER_NAME, ""},       {AB_ENV_SERVER_PORT, ""},
      {AB_ENV_REMOTE_ADDR, ""},       {AB_ENV_SERVER_PROTOCOL, "HTTP/1.1"},
      {AB_ENV_HTTP_HOST, ""},
  };
  VALUE scheme = rb_hash_aref(template, builder->strings[AB_ENV_URL_SCHEME]);
  if (!NIL_P(scheme) && rb_str_equal(scheme, builder->strings[AB_ENV_SCHEME_HTTPS]) == Qtrue) {
    builder->scheme = AB_SCHEME_HTTPS;
    rb_hash_aset(template, builder->strings[AB_ENV_HTTPS], builder->strings[AB_ENV_ON]);
  }
  for (size_t i = 0; i < AB_ARRAY_LEN(usual); i++) {
    rb_hash_aset(template, builder->strings[usual[i].key],
                 interned(usual[i].value, strlen(usual[i].value)));
  }
  /* Their places are taken here, so that setting them never makes the table grow. */
  rb_hash_aset(template, builder->strings[AB_ENV_REQUEST_PATH], Qnil);
  for (size_t i = AB_ENV_CLIENT; i < AB_ENV_USUAL_COUNT; i++) {
    rb_hash_aset(template, builder->strings[i], Qnil);
  }
  rb_hash_aset(template, builder->strings[AB_ENV_QUEUE_TIME], DBL2NUM(0));
}

static int copy_pair(VALUE key, VALUE value, VALUE hash) {
  rb_hash_aset(hash, key, value);
  return ST_CONTINUE;
}

/* A Hash that is full places all its entries anew, which costs as much as all else that is done for
 * the env. What comes with many fields is a copy of a Hash that was fuller before. */
static VALUE make_wide(VALUE narrow, size_t room) {
  VALUE wide = rb_hash_new();
  rb_hash_foreach(narrow, copy_pair, wide);
  size_t size = RHASH_SIZE(narrow);
  for (size_t i = size; i <= room; i++) rb_hash_aset(wide, SIZET2NUM(i), Qnil);
  for (size_t i = size; i <= room; i++) rb_hash_delete(wide, SIZET2NUM(i));
  return wide;
}

static void make_templates(ab_env_builder *builder, VALUE given) {
  VALUE narrow = builder->narrow.hash = rb_hash_dup(given);
  fill_template(builder, narrow);
  size_t size = RHASH_SIZE(narrow), room = ab_round_up_pow2((uint32_t)size);
  builder->few = room - size;
  builder->wide.hash = make_wide(narrow, room);
  builder->direct = try_direct(builder);
  builder->narrow.memo = (ab_env_memo){.addr_family = 0xff, .scheme = builder->scheme};
  builder->wide.memo = builder->narrow.memo;
  find_places(builder, &builder->narrow);
  find_places(builder, &builder->wide);
}

static ab_names *make_names(void) {
  uint64_t key[2];
  if (!ab_os_random(key, sizeof key, true)) rb_sys_fail("no random bytes");
  ab_names *names = ALLOC(ab_names);
  ab_names_init(names, key);
  return names;
}

void ab_env_init(ab_env_builder *builder, VALUE template) {
  static const char *const texts[] = {
#define AB_ENV_TEXT(name, text) text,
      AB_ENV_STRINGS(AB_ENV_TEXT)
#undef AB_ENV_TEXT
  };
  Check_Type(template, T_HASH);
  for (size_t i = 0; i < AB_ENV_COUNT; i++) {
    builder->strings[i] = interned(texts[i], strlen(texts[i]));
  }
  builder->scheme = AB_SCHEME_HTTP;
  builder->nets = builder->client_field = Qnil;
  make_templates(builder, template);
  builder->names = make_names();
}

void ab_env_fini(ab_env_builder *builder) {
  xfree(builder->names);
  builder->names = NULL;
}

void ab_env_mark(const ab_env_builder *builder) {
  rb_gc_mark(builder->narrow.hash);
  rb_gc_mark(builder->wide.hash);
  for (size_t i = 0; i < AB_ENV_COUNT; i++) rb_gc_mark(builder->strings[i]);
  /* Marked so, they do not move, and `forwarding` may point into them. */
  rb_gc_mark(builder->nets);
  rb_gc_mark(builder->client_field);
  if (!builder->names) return;
  const ab_name *name = builder->names->places[0];
  for (size_t i = 0; i < AB_NAME_PLACES * AB_NAME_ROOM; i++) {
    if (name[i].len) rb_gc_mark((VALUE)name[i].value);
  }
}

/* --- field names --- */

/* "HTTP_" and the name in upper case, with "_" for "-" (RFC 3875 4.1.18). */
static VALUE env_key(const char *name, size_t len) {
  VALUE key = rb_str_buf_new((long)len + 5);
  rb_str_cat(key, "HTTP_", 5);
  rb_str_cat(key, name, (long)len);
  char *p = RSTRING_PTR(key) + 5;
  for (size_t i = 0; i < len; i++) {
    if (p[i] >= 'a' && p[i] <= 'z') {
      p[i] = (char)(p[i] - 'a' + 'A');
    } else if (p[i] == '-') {
      p[i] = '_';
    }
  }
  VALUE fstring = interned(RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
  RB_GC_GUARD(key);
  return fstring;
}

/* Spellings that would pass for a field which decides on framing, and "Proxy", which CGI-minded
 * libraries take for the HTTP_PROXY of the process's environment (CVE-2016-5385). */
static bool dropped(const char *name, size_t len) {
  static const char *const names[] = {"content_length", "content_type", "transfer_encoding",
                                      "proxy"};
  for (size_t i = 0; i < AB_ARRAY_LEN(names); i++) {
    if (ab_view_spells((ab_view){name, len}, names[i], strlen(names[i]))) return true;
  }
  return false;
}

static uint8_t name_flags(const char *name, size_t len) {
  uint8_t flags = memchr(name, '_', len) ? NAME_UNDERSCORE : 0;
  return dropped(name, len) ? flags | NAME_DROPPED : flags;
}

static VALUE key_of(ab_env_builder *builder, const ab_field *field, uint8_t *flags) {
  const ab_name *seen = ab_names_find(builder->names, field->name, field->name_len);
  if (AB_LIKELY(seen != NULL)) {
    *flags = seen->flags;
    return (VALUE)seen->value;
  }
  *flags = name_flags(field->name, field->name_len);
  VALUE key = env_key(field->name, field->name_len);
  ab_names_add(builder->names, field->name, field->name_len, (uintptr_t)key, *flags);
  return key;
}

/* --- fields --- */

/* Sets the field, or joins it with an earlier line of the same name (RFC 9110 5.3; cookies as in
 * RFC 6265 5.4). `seen` holds the keys of the lines before. */
static void add_field(const ab_env_builder *builder, filling into, VALUE key, ab_view value,
                      VALUE *seen, uint32_t *seen_count) {
  for (uint32_t i = 0; i < *seen_count; i++) {
    if (seen[i] != key) continue;
    VALUE joined = rb_hash_aref(into.env, key);
    rb_str_cat(joined, key == builder->strings[AB_ENV_HTTP_COOKIE] ? "; " : ", ", 2);
    rb_str_cat(joined, value.ptr, (long)value.len);
    return;
  }
  seen[(*seen_count)++] = key;
  set(into, key, bytes(value));
}

/* Fields spelled with "_" come last and only where the real name was not sent: a client must not be
 * able to pass for a proxy that sets X-Forwarded-For (CVE-2024-45614). */
static void add_underscored(ab_env_builder *builder, filling into, const ab_request *request,
                            VALUE *seen, uint32_t *seen_count) {
  uint32_t real = *seen_count;
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (field->id != AB_FIELD_OTHER) continue;
    uint8_t flags;
    VALUE key = key_of(builder, field, &flags);
    if (!(flags & NAME_UNDERSCORE) || flags & NAME_DROPPED) continue;
    bool collides = false;
    for (uint32_t k = 0; k < real; k++) collides = collides || seen[k] == key;
    ab_view value = {field->value, field->value_len};
    if (!collides) add_field(builder, into, key, value, seen, seen_count);
  }
}

/* rack.protocol: what the client would switch to (Rack SPEC; RFC 9110 5.6.1, 7.8). */
static void add_protocols(VALUE env, const ab_request *request) {
  VALUE list = rb_ary_new();
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (field->id != AB_FIELD_UPGRADE) continue;
    ab_view rest = {field->value, field->value_len}, protocol;
    while (ab_next_element(&rest, &protocol)) {
      if (protocol.len > 0) rb_ary_push(list, bytes(protocol));
    }
  }
  rb_hash_aset(env, rb_str_new_cstr("rack.protocol"), list);
}

/* A stream has no socket that an app could take over; an extended CONNECT names what it would
 * become (RFC 8441 4). */
static void describe_stream(const ab_env_builder *builder, VALUE env, ab_view protocol) {
  const VALUE *strings = builder->strings;
  rb_hash_aset(env, strings[AB_ENV_SERVER_PROTOCOL], strings[AB_ENV_HTTP_2]);
  rb_hash_delete(env, strings[AB_ENV_MAY_HIJACK]);
  rb_hash_delete(env, strings[AB_ENV_HIJACK]);
  if (protocol.ptr)
    rb_hash_aset(env, strings[AB_ENV_PROTOCOL], rb_ary_new_from_args(1, bytes(protocol)));
}

static void add_fields(ab_env_builder *builder, filling into, const ab_request *request) {
  const VALUE *strings = builder->strings;
  VALUE *seen = ALLOCA_N(VALUE, request->field_count + 1);
  uint32_t seen_count = 0;
  bool underscored = false;
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    ab_view value = {field->value, field->value_len};
    uint8_t flags = 0;
    if (field->id == AB_FIELD_HOST) continue; /* set with the server's name */
    VALUE key = field->id == AB_FIELD_CONTENT_LENGTH ? strings[AB_ENV_CONTENT_LENGTH]
                : field->id == AB_FIELD_CONTENT_TYPE ? strings[AB_ENV_CONTENT_TYPE]
                                                     : key_of(builder, field, &flags);
    if (flags & NAME_UNDERSCORE) underscored = true;
    if (flags) continue;
    add_field(builder, into, key, value, seen, &seen_count);
  }
  if (underscored) add_underscored(builder, into, request, seen, &seen_count);
}

/* --- addresses and schemes --- */

/* Host, peer and scheme are mostly those of the request before: the template keeps them. */
static void recall_scheme(const ab_env_builder *builder, ab_env_template *template,
                          uint8_t scheme) {
  if (AB_LIKELY(template->memo.scheme == scheme)) return;
  const VALUE *strings = builder->strings;
  VALUE hash = template->hash;
  if (scheme == AB_SCHEME_HTTPS) {
    rb_hash_aset(hash, strings[AB_ENV_URL_SCHEME], strings[AB_ENV_SCHEME_HTTPS]);
    rb_hash_aset(hash, strings[AB_ENV_HTTPS], strings[AB_ENV_ON]);
  } else {
    rb_hash_aset(hash, strings[AB_ENV_URL_SCHEME], strings[AB_ENV_SCHEME_HTTP]);
    rb_hash_delete(hash, strings[AB_ENV_HTTPS]);
  }
  find_places(builder, template); /* the table may have been made anew */
  template->memo.scheme = scheme;
  template->memo.authority_len = 0; /* the default port is another one */
}

static void recall_host(const ab_env_builder *builder, ab_env_template *template,
                        const ab_request *request) {
  const VALUE *strings = builder->strings;
  ab_env_memo *memo = &template->memo;
  ab_view authority = request->authority;
  if (memo->authority_len == authority.len &&
      memcmp(memo->authority, authority.ptr, authority.len) == 0) {
    return;
  }
  VALUE port = strings[memo->scheme == AB_SCHEME_HTTPS ? AB_ENV_PORT_HTTPS : AB_ENV_PORT_HTTP];
  if (request->port.len > 0) port = rb_obj_freeze(bytes(request->port));
  rb_hash_aset(template->hash, strings[AB_ENV_HTTP_HOST], rb_obj_freeze(bytes(authority)));
  rb_hash_aset(template->hash, strings[AB_ENV_SERVER_NAME], rb_obj_freeze(bytes(request->host)));
  rb_hash_aset(template->hash, strings[AB_ENV_SERVER_PORT], port);
  memo->authority_len = 0; /* one that is too long is not remembered */
  if (authority.len <= sizeof(memo->authority)) {
    memo->authority_len = (uint8_t)authority.len;
    memcpy(memo->authority, authority.ptr, authority.len);
  }
}

static void recall_peer(const ab_env_builder *builder, ab_env_template *template,
                        const ab_addr *peer) {
  ab_env_memo *memo = &template->memo;
  if (peer->family == memo->addr_family && memcmp(peer->bytes, memo->addr, 16) == 0) return;
  if (builder->fixed_peer) return;
  char text[AB_ADDR_TEXT_MAX];
  size_t len = ab_addr_text(peer, text);
  /* A unix socket's peer is on this machine. */
  VALUE value = len ? interned(text, len) : interned("127.0.0.1", 9);
  rb_hash_aset(template->hash, builder->strings[AB_ENV_REMOTE_ADDR], value);
  memo->addr_family = peer->family;
  memcpy(memo->addr, peer->bytes, 16);
}

static const ab_env_template *recall(ab_env_builder *builder, const ab_exchange *exchange,
                                     const ab_request *request) {
  /* Host is among the fields, and among the template's keys. */
  ab_env_template *template =
      request->field_count > builder->few + 1 ? &builder->wide : &builder->narrow;
  uint8_t scheme = ab_exchange_is_secure(exchange) ? AB_SCHEME_HTTPS : builder->scheme;
  if (AB_UNLIKELY(builder->forwards)) {
    ab_forwarded from =
        ab_forwarded_resolve(&builder->forwarding, ab_exchange_peer(exchange), request);
    recall_peer(builder, template, &from.client);
    if (from.scheme != AB_SCHEME_UNSAID) scheme = from.scheme;
  } else {
    recall_peer(builder, template, ab_exchange_peer(exchange));
  }
  recall_scheme(builder, template, scheme);
  if (request->authority.len > 0) recall_host(builder, template, request);
  return template;
}

/* HTTP/1.0 without Host: the socket's own name has to do. */
static void name_by_socket(const ab_env_builder *builder, VALUE env, ab_exchange *exchange) {
  const VALUE *strings = builder->strings;
  const ab_listener *listener = ab_exchange_listener(exchange);
  bool tcp = ab_listener_family(listener) == AB_LISTEN_TCP;
  const char *name = tcp ? ab_listener_name(listener) : "localhost";
  rb_hash_delete(env, strings[AB_ENV_HTTP_HOST]);
  rb_hash_aset(env, strings[AB_ENV_SERVER_NAME],
               strchr(name, ':') ? rb_sprintf("[%s]", name) : rb_str_new_cstr(name));
  rb_hash_aset(env, strings[AB_ENV_SERVER_PORT],
               tcp ? rb_sprintf("%u", ab_listener_port(listener)) : rb_str_new_cstr("80"));
}

void ab_env_trust(ab_env_builder *builder, VALUE nets, VALUE client_field, bool rfc7239) {
  builder->nets = nets;
  builder->client_field = client_field;
  builder->forwarding = (ab_forwarding){
      .trusted = ab_nets_ptr(nets),
      .trusted_count = ab_nets_count(nets),
      .rfc7239 = rfc7239,
  };
  if (!NIL_P(client_field)) {
    builder->forwarding.client_field =
        (ab_view){RSTRING_PTR(client_field), (size_t)RSTRING_LEN(client_field)};
  }
  builder->forwards =
      builder->forwarding.trusted_count > 0 || builder->forwarding.client_field.len > 0;
}

void ab_env_fix_peer(ab_env_builder *builder, VALUE text) {
  VALUE key = builder->strings[AB_ENV_REMOTE_ADDR], peer = rb_str_new_frozen(text);
  builder->fixed_peer = true;
  rb_hash_aset(builder->narrow.hash, key, peer);
  rb_hash_aset(builder->wide.hash, key, peer);
}

/* Of several proxies the first has got it first. */
static ab_nsec age_by_proxy(const ab_request *request) {
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    if (field->id != AB_FIELD_REQUEST_START) continue;
    return ab_request_start_age(field->value, field->value_len, ab_clock_unix_nsec());
  }
  return 0;
}

/* Seconds waited here or since a proxy got it; without a wait the template's 0.0 stays. */
static void add_queue_time(const ab_env_builder *builder, filling into, const ab_exchange *exchange,
                           const ab_request *request, ab_nsec now) {
  ab_nsec arrived = ab_exchange_arrived(exchange);
  ab_nsec waited = now > arrived ? now - arrived : 0;
  if (AB_UNLIKELY(request->known & 1u << AB_FIELD_REQUEST_START)) {
    ab_nsec before = age_by_proxy(request), sending = ab_exchange_buffered_for(exchange);
    before = before > sending ? before - sending : 0; /* its client's time, not ours */
    if (before > waited) waited = before;
  }
  if (AB_LIKELY(waited < AB_NSEC_PER_MS)) return;
  set_usual(builder, into, AB_ENV_QUEUE_TIME, DBL2NUM((double)waited / (double)AB_NSEC_PER_SEC));
}

static void set_own(const ab_env_builder *builder, filling into, const ab_env_own *own) {
  set_usual(builder, into, AB_ENV_CLIENT, own->client);
  if (!own->stream) set_usual(builder, into, AB_ENV_HIJACK, own->client);
  set_usual(builder, into, AB_ENV_DEADLINE, own->client);
  set_usual(builder, into, AB_ENV_FINISHED, own->finished);
  set_usual(builder, into, AB_ENV_REPLIED, own->after_reply);
}

VALUE ab_env_build(ab_env_builder *builder, ab_exchange *exchange, const ab_request *request,
                   const ab_env_own *own, VALUE *told) {
  const VALUE *strings = builder->strings;
  const ab_env_template *template = recall(builder, exchange, request);
  VALUE env = rb_hash_dup(template->hash);
  if (request->authority.len == 0) name_by_socket(builder, env, exchange);
  filling into = fill_copy(builder, env, template);
  if (!ab_view_is(request->method, "GET", 3)) {
    set(into, strings[AB_ENV_REQUEST_METHOD], interned(request->method.ptr, request->method.len));
  }
  VALUE path = bytes(request->path);
  if (told) *told = path;
  set_usual(builder, into, AB_ENV_PATH_INFO, path);
  set_usual(builder, into, AB_ENV_REQUEST_PATH, path); /* Puma's; the same object there, too */
  set_usual(builder, into, AB_ENV_REQUEST_URI, bytes(request->target));
  if (own) set_own(builder, into, own);
  add_queue_time(builder, into, exchange, request, own ? own->now : ab_clock_monotonic());
  if (request->query.len) set(into, strings[AB_ENV_QUERY_STRING], bytes(request->query));
  if (request->minor == 0)
    set(into, strings[AB_ENV_SERVER_PROTOCOL], builder->strings[AB_ENV_HTTP_1_0]);
  add_fields(builder, into, request);
  if (request->upgrade && request->minor > 0) add_protocols(env, request);
  if (AB_UNLIKELY(ab_exchange_is_stream(exchange))) {
    describe_stream(builder, env, request->protocol);
  }
  RB_GC_GUARD(env);
  return env;
}

void ab_env_set_own(const ab_env_builder *builder, VALUE env, const ab_env_own *own) {
  set_own(builder, fill(builder, env), own);
}

ab_view ab_env_text(const ab_env_builder *builder, VALUE env, enum ab_env_string key) {
  VALUE text = rb_hash_lookup(env, builder->strings[key]);
  if (!RB_TYPE_P(text, T_STRING)) return (ab_view){"", 0};
  return (ab_view){RSTRING_PTR(text), (size_t)RSTRING_LEN(text)};
}
