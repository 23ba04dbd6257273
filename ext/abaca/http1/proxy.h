/* The PROXY protocol's header, versions 1 and 2: for whom a proxy opened the connection. The parser
 * allocates nothing and keeps nothing between calls. It may be called again with the same bytes and
 * more behind them: the verdict does not depend on the split. */
#ifndef AB_HTTP1_PROXY_H
#define AB_HTTP1_PROXY_H

#include "base/addr.h"
#include "base/limits.h"
#include "http/error.h"

/* The version-1 line at its longest, CRLF included. */
#define AB_PROXY_V1_MAX 107

/* What may stand at the beginning of a connection, as bits. */
enum ab_proxy_accept {
  AB_PROXY_V1 = 1,
  AB_PROXY_V2 = 2,
  AB_PROXY_OPTIONAL = 4 /* or no header at all */
};

/* Parses the header that starts at buf[0].
 *
 * buf, len  the bytes received so far, len > 0; borrowed
 * accept    a set of enum ab_proxy_accept
 * max       bytes of a version 2 header at most (max_proxy_header); version 1: AB_PROXY_V1_MAX
 * source    set when a complete header names an IP address; otherwise left alone, as for UNKNOWN,
 *           LOCAL and the families that have no IP address
 *
 * Returns the size of the header (> 0) when it is complete and valid; 0 when there is none and none
 * is needed; AB_AGAIN when more bytes are needed; AB_HTTP_PROXY_SYNTAX or AB_HTTP_PROXY_TOO_LONG
 * as soon as no continuation could be valid.
 *
 * The TLVs of version 2 are passed over unread, the checksum among them.
 */
int ab_proxy_parse(const char *buf, size_t len, unsigned accept, uint64_t max,
                   ab_addr *source) AB_WARN_UNUSED;

#endif
