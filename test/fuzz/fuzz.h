/* What the fuzz targets share: how an input says where it is cut and under which limits it is
 * played, and how a broken property is told. Each target defines LLVMFuzzerTestOneInput, which
 * libFuzzer calls with bytes of its own invention, and replay.c with those of files.
 *
 * The first byte of an input is a choice: bit 0 takes tight limits, bits 1 to 3 say how many of
 * the next bytes are sizes of segments. The rest is what a peer sends. */
#ifndef AB_TEST_FUZZ_H
#define AB_TEST_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_input {
  const char *bytes;
  size_t len;
  ab_limits limits;
  const uint8_t *cuts; /* sizes of segments less one, used in turn */
  size_t cut_count;    /* 0: all bytes are one segment */
  size_t next_cut;
} fuzz_input;

/* Small ones, so that a short input gets past them. */
static inline ab_limits fuzz_tight_limits(void) {
  ab_limits limits = ab_limits_default();
  limits.max_request_line = 40;
  limits.max_header_line = 30;
  limits.max_header_count = 4;
  limits.max_head_size = 120;
  limits.max_trailer_count = 2;
  limits.max_trailer_size = 24;
  limits.max_chunk_line = 12;
  limits.max_chunk_extensions = 20;
  limits.max_body_size = 32;
  return limits;
}

/* False when the input is too short to be one. */
static inline bool fuzz_open(const uint8_t *data, size_t size, fuzz_input *input) {
  if (size == 0) return false;
  size_t cuts = data[0] >> 1 & 7;
  if (size < 1 + cuts) return false;
  *input = (fuzz_input){.bytes = (const char *)data + 1 + cuts,
                        .len = size - 1 - cuts,
                        .limits = data[0] & 1 ? fuzz_tight_limits() : ab_limits_default(),
                        .cuts = data + 1,
                        .cut_count = cuts};
  return true;
}

/* The size of the segment that starts at `at`, at least 1; `ctx` is a fuzz_input. */
static inline size_t fuzz_next_segment(void *ctx, size_t at) {
  fuzz_input *input = ctx;
  if (input->cut_count == 0) return SIZE_MAX;
  if (at == 0) input->next_cut = 0;
  return 1 + (size_t)input->cuts[input->next_cut++ % input->cut_count];
}

/* Reports what is broken and ends the process, so that the input is kept. */
static inline void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "broken: %s\n", what);
  abort();
}

/* Bytes in a block of exactly their size, so that ASan sees a look behind them. To be freed. */
static inline char *fuzz_copy(const char *bytes, size_t len) {
  char *copy = malloc(len ? len : 1);
  if (!copy) abort();
  if (len) memcpy(copy, bytes, len);
  return copy;
}

/* True when the view lies in bytes[0 .. len - 1]; an empty one may be anywhere. */
static inline bool inside(const char *bytes, size_t len, ab_view view) {
  return view.len == 0 || (view.ptr >= bytes && view.ptr + view.len <= bytes + len);
}

#endif
