/* What was spoken to an HTTP port that is no HTTP/1: for a word in the log, where "400" alone would
 * leave the reader guessing why nothing works. */
#ifndef AB_HTTP1_SNIFF_H
#define AB_HTTP1_SNIFF_H

#include <stddef.h>

/* "a TLS handshake", in static memory, by the first bytes of a connection; NULL when they are
 * nothing that we know. */
const char *ab_sniff_protocol(const char *buf, size_t len);

#endif
