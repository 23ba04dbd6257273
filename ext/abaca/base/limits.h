/* Every limit of the server: the table that configuration, documentation and tests come from.
 * X(name, default, unit, what is refused and how). `name` is a member of `ab_limits` and the name
 * of the setting. 0 is "no limit" where the text says so. A listener may have values of its own. */
#ifndef AB_BASE_LIMITS_H
#define AB_BASE_LIMITS_H

#include <stdint.h>

#include "base/base.h"

#define AB_LIMITS(X)                                                                               \
  X(max_request_line, 16384, "bytes", "a longer request line: 414; a longer method: 501")          \
  X(max_header_line, 16384, "bytes", "a longer field line: 431")                                   \
  X(max_header_count, 128, "fields", "more field lines: 431")                                      \
  X(max_head_size, 65536, "bytes", "a longer head: 431")                                           \
  X(max_proxy_header, 4096, "bytes", "a longer PROXY header of version 2: 400")                    \
  X(max_trailer_count, 32, "fields", "more trailer fields: 431")                                   \
  X(max_trailer_size, 8192, "bytes", "a longer trailer section: 431")                              \
  X(max_chunk_line, 256, "bytes", "a longer chunk-size line: 400")                                 \
  X(max_chunk_extensions, 16384, "bytes", "more chunk extensions in one body: 400")                \
  X(max_chunk_overhead, 65536, "bytes", "more chunk framing, if over 3 x the data: 400")           \
  X(max_body_size, 0, "bytes", "a longer request body: 413; 0 is no limit")                        \
  X(body_window, 65536, "bytes", "more of a body is received only when the app reads")             \
  X(max_unread_body, 65536, "bytes", "more left unread by the app: the connection is closed")      \
  X(max_body_memory, 65536, "bytes",                                                               \
    "a longer body streams to the app; a rewindable one goes to a file")                           \
  X(request_timeout, 0, "seconds", "a longer request: 504; 0 is no limit")                         \
  X(queue_timeout, 25, "seconds", "a longer wait for a place: 503; 0 is no limit")                 \
  X(max_requests_per_connection, 1000, "requests", "then the connection is closed; 0 is no limit") \
  X(header_timeout, 10, "seconds", "a longer head, from its first byte: 408")                      \
  X(body_timeout, 30, "seconds", "a body without progress for longer: 408")                        \
  X(min_body_rate, 512, "bytes/s", "a slower body after rate_grace: 408; 0 is no limit")           \
  X(write_timeout, 30, "seconds", "a peer that reads nothing for longer: closed")                  \
  X(min_send_rate, 512, "bytes/s", "a slower reader after rate_grace: closed; 0 is no limit")      \
  X(rate_grace, 10, "seconds", "no minimum rate applies before this")                              \
  X(persistent_timeout, 65, "seconds", "a connection idle for longer: closed")                     \
  X(linger_timeout, 2, "seconds", "a peer that keeps sending after an error: closed")              \
  X(dead_peer_timeout, 120, "seconds", "a machine silent for longer: closed; 0 is no limit")       \
  X(max_slow_clients, 256, "clients",                                                              \
    "further ones keep their places, and the slowest is closed; 0 is off")                         \
  X(max_streams, 100, "streams", "more at once on one HTTP/2 connection: refused")                 \
  X(stream_window, 262144, "bytes",                                                                \
    "more of an HTTP/2 body that is being read comes only as the app reads")                       \
  X(connection_window, 1048576, "bytes",                                                           \
    "more of all bodies of an HTTP/2 connection comes only as the app reads")                      \
  X(max_pending_output, 262144, "bytes", "the writer of a response waits until the peer has read") \
  X(max_pending_files, 16, "files", "more for one peer: its next request waits")                   \
  X(max_pending_files_total, 0, "files",                                                           \
    "more in all: the slowest reader is closed; 0 is half of what connections leave")              \
  X(http2_max_requests, 10000, "requests",                                                         \
    "then the client of an HTTP/2 connection is told to open another; 0 is no limit")              \
  X(http2_max_age, 3600, "seconds",                                                                \
    "the same for an HTTP/2 connection that is older, a tenth more or less; 0 is no limit")        \
  X(tls_handshake_timeout, 10, "seconds",                                                          \
    "a TLS connection on which no request has begun for longer: closed")                           \
  X(max_tls_handshakes, 1000, "handshakes",                                                        \
    "more at once: one that waits for its client is closed, or new connections wait")              \
  X(max_tls_connections, 10000, "connections",                                                     \
    "new TLS connections wait in the kernel's queue; 0 is no limit")                               \
  X(tls_handshake_rate, 0, "handshakes/s", "new TLS connections wait; 0 is no limit")

/* A time limit in seconds, as nanoseconds; more than 136 years is capped. */
static inline ab_nsec ab_limit_nsec(uint64_t seconds) {
  return (seconds < UINT32_MAX ? seconds : UINT32_MAX) * AB_NSEC_PER_SEC;
}

/* The values in force. All are uint64_t so that one loop can set them by name. */
typedef struct ab_limits {
#define AB_LIMIT_MEMBER(name, value, unit, text) uint64_t name;
  AB_LIMITS(AB_LIMIT_MEMBER)
#undef AB_LIMIT_MEMBER
} ab_limits;

/* The defaults of the table. */
static inline ab_limits ab_limits_default(void) {
  return (ab_limits){
#define AB_LIMIT_DEFAULT(name, value, unit, text) .name = (value),
      AB_LIMITS(AB_LIMIT_DEFAULT)
#undef AB_LIMIT_DEFAULT
  };
}

#endif
