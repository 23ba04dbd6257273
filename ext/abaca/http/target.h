/* The request target and the authority in it or in Host (RFC 9112 3.2, RFC 3986 3.2). */
#ifndef AB_HTTP_TARGET_H
#define AB_HTTP_TARGET_H

#include "base/base.h"
#include "http/error.h"
#include "http/request.h"

/* Longer than any DNS name (253 bytes and the root's dot), and than any IPv6 literal. */
#define AB_HOST_MAX 255

typedef struct ab_authority {
  ab_view host;  /* brackets of an IPv6 literal included */
  ab_view port;  /* len 0 when there is none, or an empty one */
  ab_view whole; /* without the colon of an empty port */
} ab_authority;

/* uri-host [ ":" port ], without userinfo and percent-encoding. Returns false, with *authority
 * undefined, when `text` is anything else. */
bool ab_authority_parse(ab_view text, ab_authority *authority) AB_WARN_UNUSED;

/* Parses the target from ptr to a SP before stop. Sets target, target_form, path and query of
 * *request, whose method is set already, and *authority for the forms that have one. Returns the
 * SP, or NULL with *error AB_AGAIN (no SP before stop) or an enum ab_http_error. */
const char *ab_target_parse(const char *ptr, const char *stop, ab_request *request,
                            ab_authority *authority, int *error) AB_WARN_UNUSED;

/* The same for a target that is there whole and has no authority in it (RFC 9113 8.3.1):
 * origin-form, or asterisk-form for OPTIONS. Returns AB_OK or AB_HTTP_TARGET_SYNTAX. */
int ab_target_take(ab_view target, ab_request *request) AB_WARN_UNUSED;

#endif
