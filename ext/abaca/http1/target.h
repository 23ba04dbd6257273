/* The request target and the authority in it or in Host (RFC 9112 3.2, RFC 3986 3.2). Private to
 * this room. */
#ifndef AB_HTTP1_TARGET_H
#define AB_HTTP1_TARGET_H

#include "base/base.h"
#include "http1/head.h"

/* Longer than any DNS name (253 octets and the root's dot), and than any IPv6 literal. */
#define AB__HOST_MAX 255

typedef struct ab__authority {
  ab_view host;  /* brackets of an IPv6 literal included */
  ab_view port;  /* len 0 when there is none, or an empty one */
  ab_view whole; /* without the colon of an empty port */
} ab__authority;

/* uri-host [ ":" port ], without userinfo and percent-encoding. Returns false, with *authority
 * undefined, when `text` is anything else. */
bool ab__authority_parse(ab_view text, ab__authority *authority) AB_WARN_UNUSED;

/* Parses the target that starts at ptr and ends with a SP before stop. Sets target, target_form,
 * path and query of *request, whose method is set already, and *authority for the forms that have
 * one. Returns the SP, or NULL with *error AB_AGAIN (no SP before stop) or an enum ab_http1_error.
 */
const char *ab__target_parse(const char *ptr, const char *stop, ab_request *request,
                             ab__authority *authority, int *error) AB_WARN_UNUSED;

#endif
