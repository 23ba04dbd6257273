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

/* Keys that the builder sets itself. */
#define AB_ENV_KEYS(X)                                                                             \
  X(REQUEST_METHOD)                                                                                \
  X(PATH_INFO)                                                                                     \
  X(QUERY_STRING)                                                                                  \
  X(REQUEST_URI)                                                                                   \
  X(SERVER_NAME)                                                                                   \
  X(SERVER_PORT)                                                                                   \
  X(SERVER_PROTOCOL)                                                                               \
  X(HTTPS)                                                                                         \
  X(REMOTE_ADDR)                                                                                   \
  X(CONTENT_LENGTH)                                                                                \
  X(CONTENT_TYPE)                                                                                  \
  X(HTTP_HOST)                                                                                     \
  X(HTTP_COOKIE)

enum ab_env_key {
#define AB_ENV_KEY_MEMBER(name) AB_ENV_##name,
  AB_ENV_KEYS(AB_ENV_KEY_MEMBER)
#undef AB_ENV_KEY_MEMBER
      AB_ENV_KEY_COUNT
};

/* Keys that every request sets. */
enum ab_env_usual {
  AB_USUAL_PATH_INFO,
  AB_USUAL_REQUEST_PATH,
  AB_USUAL_REQUEST_URI,
  AB_USUAL_CLIENT,
  AB_USUAL_HIJACK,
  AB_USUAL_DEADLINE,
  AB_USUAL_FINISHED,
  AB_USUAL_REPLIED,
  AB_USUAL_QUEUE_TIME,
  AB_USUAL_COUNT
};

/* What the env of a request is a copy of. */
typedef struct ab_env_template {
  VALUE hash; /* every key that all requests have, with the usual values */
  ab_env_memo memo;
  size_t bound;                   /* of the entries of a copy; 0: the places are not known */
  uint8_t places[AB_USUAL_COUNT]; /* where the usual keys stand in a copy */
} ab_env_template;

typedef struct ab_env_builder {
  ab_env_template narrow, wide; /* for a few fields and for many, without making the copy grow */
  size_t few;                   /* the number of fields in `narrow` */
  VALUE keys[AB_ENV_KEY_COUNT];
  VALUE rack_input, trailers, http_1_0, url_scheme, on;
  VALUE schemes[3], ports[3]; /* by enum ab_scheme, a scheme's name and default port */
  VALUE nets, client_field;   /* the memory of `forwarding` */
  ab_forwarding forwarding;
  VALUE usual[AB_USUAL_COUNT]; /* by enum ab_env_usual */
  ab_names *names;             /* of fields, with their env keys */
  uint8_t scheme;              /* enum ab_scheme: what requests have when no proxy says otherwise */
  bool direct;                 /* keys may be set without rb_hash_aset */
  bool forwards;               /* proxies' fields are looked at */
  bool fixed_peer;             /* REMOTE_ADDR is that of the templates */
} ab_env_builder;

/* `template` is a Hash with the keys that do not depend on the request; it is copied. Raises
 * NoMemoryError, TypeError. */
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
} ab_env_own;

/* The environment of `request` on `exchange` (Rack SPEC, "The Environment"). rack.input is left at
 * the template's empty input. Without `own`, which may be NULL, ab_env_set_own is still to be
 * called. Raises NoMemoryError only. */
VALUE ab_env_build(ab_env_builder *builder, ab_exchange *exchange, const ab_request *request,
                   const ab_env_own *own);
void ab_env_set_own(const ab_env_builder *builder, VALUE env, const ab_env_own *own);

/* Set rack.input, and abaca.trailers for a body in chunks. */
void ab_env_set_input(const ab_env_builder *builder, VALUE env, VALUE input);
void ab_env_set_trailers(const ab_env_builder *builder, VALUE env, VALUE trailers);

#endif
