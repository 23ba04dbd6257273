/* A request body while it is received: decoded from its framing, kept in memory up to a limit and
 * in an unlinked temporary file above it. */
#ifndef AB_ENGINE_BODY_H
#define AB_ENGINE_BODY_H

#include "base/limits.h"
#include "base/mem.h"
#include "http1/chunk.h"
#include "http1/framing.h"

typedef struct ab_body {
  const ab_mem *mem;
  char *octets; /* the body, while it is in memory */
  size_t capacity;
  int fd;        /* of the temporary file, or -1 */
  uint64_t size; /* octets received, framing removed */
  uint64_t left; /* octets to come, for a body with Content-Length */
  ab_nsec started, progress;
  ab_chunk_decoder chunks;
  bool chunked;
} ab_body;

/* Prepares for the body that `framing` announces, which must not be AB_BODY_NONE. Returns AB_OK,
 * AB_HTTP1_BODY_TOO_LARGE before anything was read, or AB_HTTP1_NO_MEMORY. */
int ab_body_init(ab_body **body, const ab_mem *mem, const ab_limits *limits,
                 const ab_framing *framing, ab_nsec now) AB_WARN_UNUSED;
/* Frees the memory, and closes the file unless ab_body_take_file took it. NULL is allowed. */
void ab_body_fini(ab_body *body);

/* Takes in received octets. *consumed says how many belonged to the body. Returns 1 when the body
 * is complete, 0 when more is to come, or a negative enum ab_http1_error. */
int ab_body_feed(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                 size_t *consumed) AB_WARN_UNUSED;

/* The time by which the next octets must have come: after body_timeout without progress, or when
 * min_body_rate is no longer held. */
ab_nsec ab_body_deadline(const ab_body *body, const ab_limits *limits);

/* Hands over the descriptor of the temporary file, positioned at its start; -1 when the body is in
 * memory. */
int ab_body_take_file(ab_body *body);

#endif
