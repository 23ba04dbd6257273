/* Names in the log for what is no HTTP/1, where "400" alone would explain nothing. */
#ifndef AB_HTTP1_SNIFF_H
#define AB_HTTP1_SNIFF_H

#include <stddef.h>

/* Such as "a TLS handshake", in static memory, by a connection's first bytes; NULL: unknown. */
const char *ab_sniff_protocol(const char *buf, size_t len);

#endif
