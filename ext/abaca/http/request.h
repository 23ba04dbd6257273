/* A request, whatever protocol it came in: method, target, fields. */
#ifndef AB_HTTP_REQUEST_H
#define AB_HTTP_REQUEST_H

#include "base/base.h"

/* Fields that the server itself looks at; the others are AB_FIELD_OTHER. */
enum ab_field_id {
  AB_FIELD_OTHER = 0,
  AB_FIELD_HOST,
  AB_FIELD_CONNECTION,
  AB_FIELD_CONTENT_LENGTH,
  AB_FIELD_CONTENT_TYPE,
  AB_FIELD_TRANSFER_ENCODING,
  AB_FIELD_EXPECT,
  AB_FIELD_UPGRADE,
  AB_FIELD_COOKIE,
  AB_FIELD_REQUEST_START, /* X-Request-Start */
  AB_FIELD_TRACEPARENT
};

/* No request body may be longer, whatever the limits say: sums of sizes stay far from overflow. */
#define AB_BODY_CEILING (((uint64_t)1 << 60) - 1)

typedef struct ab_field {
  const char *name;  /* as received */
  const char *value; /* without the white space around it (RFC 9110 5.5) */
  uint32_t value_len;
  uint16_t name_len;
  uint8_t id; /* enum ab_field_id */
} ab_field;

/* The forms of a request target (RFC 9112 3.2). */
enum ab_target_form {
  AB_TARGET_ORIGIN,
  AB_TARGET_ABSOLUTE,
  AB_TARGET_AUTHORITY,
  AB_TARGET_ASTERISK
};

typedef struct ab_request {
  ab_view method;
  ab_view target;    /* as received */
  ab_view path;      /* of the target: "/" at least, "*" for the asterisk form; never empty */
  ab_view query;     /* without the "?"; ptr is NULL when the target has none */
  ab_view host;      /* effective, with an IPv6 literal's brackets; len 0: HTTP/1.0 names none */
  ab_view port;      /* digits; len 0 when none is named */
  ab_view authority; /* host and port as in a Host field, without an empty port's colon */
  ab_view protocol;  /* what an extended CONNECT asks for (RFC 8441); ptr NULL: it is none */
  ab_field *fields;  /* the caller's array */
  uint32_t field_count;
  uint16_t known;      /* bit (1 << id) for each enum ab_field_id among the fields */
  uint8_t major;       /* 1 or 2 */
  uint8_t minor;       /* 0 for HTTP/1.0, 1 for HTTP/1.1 and above, HTTP/2 included */
  uint8_t target_form; /* enum ab_target_form */
  bool is_head;        /* the method is HEAD */
  bool upgrade;        /* the peer would like another protocol (RFC 9110 7.8) */
} ab_request;

#endif
