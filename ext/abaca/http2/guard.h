/* Counts what a peer does that costs it little and us more, and says when it is too much.
 *
 * A bucket holds units that leak out at a rate; one more than it can hold is too much. Frames are
 * counted against progress: requests, and DATA that carries enough. */
#ifndef AB_HTTP2_GUARD_H
#define AB_HTTP2_GUARD_H

#include "base/base.h"

/* Streams that are reset for the client's fault, and frames beyond what progress allows. */
#define AB__H2_FAULTS_BURST 200
#define AB__H2_FAULTS_RATE  20
/* Streams that the client gives up (CVE-2023-44487); each that comes to its end makes up for one.
 */
#define AB__H2_RESETS_BURST 1000
#define AB__H2_RESETS_RATE  33
/* Frames for nothing, and for each request or DATA frame with content. A reader that says after
 * each small piece that it has read it, for the stream and for the connection, stays below. */
#define AB__H2_FRAMES_FREE 100
#define AB__H2_FRAMES_EACH 20
/* DATA frames of a request with so little content that the frame's head of 9 bytes is more than
 * three times as long: max_chunk_overhead allows as many chunks. Each pays for itself alone. */
#define AB__H2_PIECE_MIN    3
#define AB__H2_PIECES_BURST 8000
#define AB__H2_PIECES_RATE  1000

typedef struct ab__h2_bucket {
  ab_nsec since;  /* up to then it has leaked */
  uint32_t level; /* units */
} ab__h2_bucket;

typedef struct ab__h2_guard {
  ab_nsec now; /* of the last bytes received */
  uint64_t allowed;
  ab__h2_bucket faults, resets, pieces;
} ab__h2_guard;

void ab__h2_guard_init(ab__h2_guard *self);
/* Each of these returns false when it is too much. */
bool ab__h2_guard_fault(ab__h2_guard *self);
bool ab__h2_guard_reset(ab__h2_guard *self);
bool ab__h2_guard_frame(ab__h2_guard *self);
/* A DATA frame has come, with `len` bytes of content. */
bool ab__h2_guard_data(ab__h2_guard *self, size_t len);

/* A request, or a DATA frame with content in either direction. */
static inline void ab__h2_guard_progress(ab__h2_guard *self) {
  self->allowed += AB__H2_FRAMES_EACH;
}

/* A stream has come to its end. */
static inline void ab__h2_guard_finished(ab__h2_guard *self) {
  if (self->resets.level > 0) self->resets.level--;
}

#endif
