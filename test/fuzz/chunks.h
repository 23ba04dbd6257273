/* Plays bytes through the chunk decoder: whole and in the segments that the input asks for. */
#ifndef AB_TEST_FUZZ_CHUNKS_H
#define AB_TEST_FUZZ_CHUNKS_H

#include "fuzz.h"

#include "http1/chunk.h"
#include "http1/framing.h"
#include "http1/head.h"

/* What a body has come to. */
typedef struct chunks_outcome {
  int result;      /* AB_CHUNK_MORE, AB_CHUNK_DONE or an error */
  size_t consumed; /* bytes, up to the end or the error */
  uint64_t body;   /* bytes of data */
  uint64_t digest; /* of them */
} chunks_outcome;

static inline void chunks_note(chunks_outcome *outcome, ab_view data) {
  outcome->body += data.len;
  for (size_t i = 0; i < data.len; i++) {
    outcome->digest = (outcome->digest ^ (unsigned char)data.ptr[i]) * UINT64_C(0x100000001b3);
  }
}

/* One segment, in as many calls as it takes. */
static inline void chunks_feed(ab_chunk_decoder *decoder, const ab_limits *limits,
                               const char *bytes, size_t len, chunks_outcome *outcome) {
  size_t at = 0;
  do {
    size_t used = 0;
    ab_view data = {0};
    outcome->result = ab_chunk_decode(decoder, limits, bytes + at, len - at, &used, &data);
    require(used <= len - at, "no more is used than came");
    at += used;
    if (outcome->result == AB_CHUNK_DATA) {
      require(data.len > 0 && used >= data.len, "each piece of data is used up");
      require(inside(bytes, len, data), "the data is inside");
      chunks_note(outcome, data);
    } else if (outcome->result == AB_CHUNK_MORE) {
      require(at == len, "all is used when more is asked for");
    }
  } while (outcome->result == AB_CHUNK_DATA && at < len);
  outcome->consumed += at;
}

/* `decoder` has decoded the part of the body that comes before the input. */
static inline chunks_outcome chunks_play(ab_chunk_decoder decoder, fuzz_input *input) {
  chunks_outcome outcome = {.result = AB_CHUNK_MORE};
  for (size_t here = 0;
       here < input->len && outcome.result >= 0 && outcome.result != AB_CHUNK_DONE;) {
    size_t step = fuzz_next_segment(input, here), rest = input->len - here;
    if (step > rest) step = rest;
    char *bytes = fuzz_copy(input->bytes + here, step);
    chunks_feed(&decoder, &input->limits, bytes, step, &outcome);
    free(bytes);
    here += step;
  }
  if (outcome.result == AB_CHUNK_DATA) outcome.result = AB_CHUNK_MORE;
  return outcome;
}

/* The same by the engine's way, which takes the framing alone and moves the data itself. */
static inline chunks_outcome chunks_play_framing(ab_chunk_decoder decoder,
                                                 const fuzz_input *input) {
  chunks_outcome outcome = {.result = AB_CHUNK_DATA};
  const char *bytes = input->bytes;
  while (outcome.result == AB_CHUNK_DATA && outcome.consumed < input->len) {
    size_t used = 0, here = input->len - outcome.consumed;
    outcome.result =
        ab_chunk_framing(&decoder, &input->limits, bytes + outcome.consumed, here, &used);
    require(used <= here && decoder.section <= used, "no more is used than came");
    outcome.consumed += used;
    uint64_t left = outcome.result == AB_CHUNK_DATA ? ab_chunk_data_left(&decoder) : 0;
    size_t taken = left < here - used ? (size_t)left : here - used;
    chunks_note(&outcome, (ab_view){bytes + outcome.consumed, taken});
    ab_chunk_take(&decoder, taken);
    outcome.consumed += taken;
  }
  if (outcome.result == AB_CHUNK_DATA) outcome.result = AB_CHUNK_MORE;
  return outcome;
}

static inline bool chunks_same(const chunks_outcome *a, const chunks_outcome *b) {
  return a->result == b->result && a->consumed == b->consumed && a->body == b->body &&
         a->digest == b->digest;
}

/* Plays the input cut and whole, and compares. Returns the outcome. */
static inline chunks_outcome chunks_check(ab_chunk_decoder decoder, fuzz_input *input) {
  chunks_outcome cut = chunks_play(decoder, input);
  input->cut_count = 0;
  chunks_outcome whole = chunks_play(decoder, input);
  require(chunks_same(&cut, &whole), "segments are as the whole");
  chunks_outcome framing = chunks_play_framing(decoder, input);
  require(chunks_same(&framing, &whole), "framing and data are as the whole");
  require(whole.result >= 0 || ab_http_error_status(whole.result) != 500, "a known error");
  uint64_t most = input->limits.max_body_size;
  require(whole.body <= (most ? most : AB_BODY_CEILING), "the body is in bounds");
  require(whole.body <= input->len, "no data but what came");
  return whole;
}

#endif
