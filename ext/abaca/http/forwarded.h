/* Who the client is, according to the fields that proxies have written (RFC 7239, and the older
 * X-Forwarded-For and X-Forwarded-Proto). Pure: it looks at the parsed request only.
 *
 * Anybody can send these fields, so they count only as far as trusted proxies have written them.
 * They are read from the right end, where the nearest proxy has added what it knows, and nothing to
 * the left of an address that is not trusted is looked at.
 */
#ifndef AB_HTTP_FORWARDED_H
#define AB_HTTP_FORWARDED_H

#include "base/addr.h"
#include "http/request.h"

/* More proxies than these in a row are not followed. */
#define AB_FORWARDED_HOPS 32

/* The peers whose fields are trusted, and which fields. Borrowed memory throughout. */
typedef struct ab_forwarding {
  const ab_net *trusted;
  size_t trusted_count;
  ab_view client_field; /* in lower case: the one field that names the client; len 0: none does */
  bool rfc7239;         /* Forwarded in place of X-Forwarded-For and X-Forwarded-Proto */
} ab_forwarding;

enum ab_scheme { AB_SCHEME_UNSAID, AB_SCHEME_HTTP, AB_SCHEME_HTTPS };

typedef struct ab_forwarded {
  ab_addr client; /* with port 0, unless it is the peer */
  uint8_t scheme; /* enum ab_scheme */
} ab_forwarded;

/* What `request`, sent by `peer`, says of its client.
 *
 * A peer that is not trusted is the client, and says nothing of the scheme. Otherwise the client is
 * the rightmost address that is not trusted, or the leftmost one when all are. Where a trusted
 * proxy wrote something that is no address ("unknown", an obfuscated name, garbage), the way ends
 * at that proxy: it is the client. The scheme is the one that was noted where the way ends.
 *
 * With client_field, its first line's first word is the client if that is an address, and the
 * scheme is the rightmost one; without any trusted network everybody may send that field, but no
 * scheme.
 *
 * The time is linear in the size of the head.
 */
ab_forwarded ab_forwarded_resolve(const ab_forwarding *forwarding, const ab_addr *peer,
                                  const ab_request *request);

#endif
