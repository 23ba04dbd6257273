/* From a parsed request to a Rack environment. */
#ifndef AB_RB_ENV_H
#define AB_RB_ENV_H

#include <ruby.h>

#include "engine/engine.h"
#include "http/forwarded.h"
#include "http/names.h"

/* Whose Host, peer and scheme a template shows now. */
typedef struct ab_env_memo {
  char authority[64];
  uint8_t authority_len;
  uint8_t addr[16];
  uint8_t addr_family; /* 0xff: none yet */
  uint8_t scheme;      /* enum ab_scheme */
} ab_env_memo;

/* Interned strings: the keys that every request sets, then other keys, then values. */
#define AB_ENV_STRINGS(X)                                                                          \
  X(PATH_INFO, "PATH_INFO")                                                                        \
  X(REQUEST_PATH, "REQUEST_PATH")                                                                  \
  X(REQUEST_URI, "REQUEST_URI")                                                                    \
  X(CLIENT, "abaca.client")                                                                        \
  X(HIJACK, "rack.hijack")                                                                         \
  X(DEADLINE, "abaca.deadline")                                                                    \
  X(FINISHED, "rack.response_finished")                                                            \
  X(REPLIED, "rack.after_reply")                                                                   \
  X(QUEUE_TIME, "abaca.queue_time")                                                                \
  X(REQUEST_METHOD, "REQUEST_METHOD")                                                              \
  X(QUERY_STRING, "QUERY_STRING")                                                                  \
  X(SERVER_NAME, "SERVER_NAME")                                                                    \
  X(SERVER_PORT, "SERVER_PORT")                                                                    \
  X(SERVER_PROTOCOL, "SERVER_PROTOCOL")                                                            \
  X(HTTPS, "HTTPS")                                                                                \
  X(REMOTE_ADDR, "REMOTE_ADDR")                                                                    \
  X(CONTENT_LENGTH, "CONTENT_LENGTH")                                                              \
  X(CONTENT_TYPE, "CONTENT_TYPE")                                                                  \
  X(HTTP_HOST, "HTTP_HOST")                                                                        \
  X(HTTP_COOKIE, "HTTP_COOKIE")                                                                    \
  X(INPUT, "rack.input")                                                                           \
  X(REQUEST_START, "HTTP_X_REQUEST_START")                                                         \
  X(TE, "HTTP_TE")                                                                                 \
  X(TIMING, "HTTP_ABACA_TIMING")                                                                   \
  X(TRACEPARENT, "HTTP_TRACEPARENT")                                                               \
  X(TRAILERS, "abaca.trailers")                                                                    \
  X(URL_SCHEME, "rack.url_scheme")                                                                 \
  X(HTTP_1_0, "HTTP/1.0")                                                                          \
  X(HTTP_2, "HTTP/2")                                                                              \
  X(MAY_HIJACK, "rack.hijack?")                                                                    \
  X(PROTOCOL, "rack.protocol")                                                                     \
  X(TLS, "abaca.tls")                                                                              \
  X(PEERCERT, "puma.peercert")                                                                     \
  X(ON, "on")                                                                                      \
  X(SCHEME_HTTP, "http")                                                                           \
  X(SCHEME_HTTPS, "https")                                                                         \
  X(PORT_HTTP, "80")                                                                               \
  X(PORT_HTTPS, "443")

enum ab_env_string {
#define AB_ENV_MEMBER(name, text) AB_ENV_##name,
  AB_ENV_STRINGS(AB_ENV_MEMBER)
#undef AB_ENV_MEMBER
      AB_ENV_COUNT
};
#define AB_ENV_USUAL_COUNT (AB_ENV_QUEUE_TIME + 1)

/* What the env of a request is a copy of. */
typedef struct ab_env_template {
  VALUE hash; /* every key that all requests have, with the usual values */
  ab_env_memo memo;
  size_t bound;                       /* of the entries of a copy; 0: the places are not known */
  uint8_t places[AB_ENV_USUAL_COUNT]; /* where the usual keys stand in a copy */
} ab_env_template;

typedef struct ab_env_builder {
  ab_env_template narrow, wide; /* for a few fields and for many, without making the copy grow */
  size_t few;                   /* the number of fields in `narrow` */
  VALUE strings[AB_ENV_COUNT];  /* by enum ab_env_string */
  VALUE nets, client_field;     /* the memory of `forwarding` */
  ab_forwarding forwarding;
  ab_names *names; /* of fields, with their env keys */
  uint8_t scheme;  /* enum ab_scheme: what requests have when no proxy says otherwise */
  bool direct;     /* keys may be set without rb_hash_aset */
  bool forwards;   /* proxies' fields are looked at */
  bool fixed_peer; /* REMOTE_ADDR is that of the templates */
} ab_env_builder;

/* Copies `template`, a Hash of what no request changes. Raises NoMemoryError, TypeError. */
void ab_env_init(ab_env_builder *builder, VALUE template);
void ab_env_fini(ab_env_builder *builder);
void ab_env_mark(const ab_env_builder *builder);

/* From now on proxies in `nets` (a String of ab_nets) are believed what their fields say, and
 * `client_field` (a String in lower case, or nil) is the one that names the client. */
void ab_env_trust(ab_env_builder *builder, VALUE nets, VALUE client_field, bool rfc7239);
/* From now on REMOTE_ADDR is this String for every peer. */
void ab_env_fix_peer(ab_env_builder *builder, VALUE text);

/* What each request has of its own beside its bytes. */
typedef struct ab_env_own {
  VALUE client;                /* its handle: abaca.client, abaca.deadline and rack.hijack */
  VALUE finished, after_reply; /* the lists that the app puts its callbacks into */
  ab_nsec now;                 /* when the request was taken */
  bool stream;                 /* of HTTP/2: there is no rack.hijack */
} ab_env_own;

/* The env of `request` on `exchange` (Rack SPEC), with the template's empty rack.input. If `own` is
 * NULL, ab_env_set_own is still to be called. PATH_INFO, which is in it, is told as well, unless
 * `path` is NULL. Raises NoMemoryError only. */
VALUE ab_env_build(ab_env_builder *builder, ab_exchange *exchange, const ab_request *request,
                   const ab_env_own *own, VALUE *path);
void ab_env_set_own(const ab_env_builder *builder, VALUE env, const ab_env_own *own);
/* The value of that key in an env, while that is there; empty: it is not a String. */
ab_view ab_env_text(const ab_env_builder *builder, VALUE env, enum ab_env_string key);

#endif
