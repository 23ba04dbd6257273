/* The client, according to Forwarded (RFC 7239) or X-Forwarded-For and X-Forwarded-Proto. Any peer
 * can send these, so they count only as far as trusted proxies have written them: from the right
 * end to the first address that is not trusted. */
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

/* What `request`, sent by `peer`, says of its client; in time linear in the size of the head.
 *
 * A peer that is not trusted is the client, and says nothing of the scheme. Otherwise the client is
 * the rightmost address that is not trusted, or the leftmost one when all are. Where a trusted
 * proxy wrote no address ("unknown", an obfuscated name, garbage), the way ends at that proxy: it
 * is the client. The scheme is the one that was noted where the way ends.
 *
 * With client_field, its first line's first word is the client if that is an address, and the
 * scheme is the rightmost one; without any trusted network all peers may send that field, but no
 * scheme. */
ab_forwarded ab_forwarded_resolve(const ab_forwarding *forwarding, const ab_addr *peer,
                                  const ab_request *request);

#endif
