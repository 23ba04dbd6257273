/* Decoder of the chunked transfer coding (RFC 9112 7.1): a small structure of explicit state, fed
 * with bytes as they come. Trailer fields are validated; http/trailer.h reads them. */
#ifndef AB_HTTP1_CHUNK_H
#define AB_HTTP1_CHUNK_H

#include "base/base.h"
#include "base/limits.h"

typedef struct ab_chunk_decoder {
  uint64_t left;       /* of the current chunk's data */
  uint64_t total;      /* body bytes announced so far */
  uint64_t overhead;   /* framing bytes so far, for the guard against tiny chunks */
  uint32_t extensions; /* bytes of chunk extensions so far */
  uint32_t line;       /* bytes of the current size or trailer line, or of the trailer section */
  uint32_t section;    /* bytes of the trailer section among those that the last call consumed */
  uint16_t trailers;   /* trailer fields so far */
  uint8_t state;       /* private to chunk.c */
  uint8_t digits;      /* of the current size */
} ab_chunk_decoder;

enum ab_chunk_result {
  AB_CHUNK_MORE = 0, /* all bytes consumed, the body goes on */
  AB_CHUNK_DATA = 1, /* *data is set: a part of the body; call again with the rest */
  AB_CHUNK_DONE = 2  /* the body, trailers included, has ended */
};

void ab_chunk_init(ab_chunk_decoder *decoder);

/* Decodes from buf[0]. *consumed says how many bytes were used up, whatever the result. *data
 * points into buf. Returns an enum ab_chunk_result or a negative enum ab_http_error: the body may
 * not be longer than limits->max_body_size (0: AB_BODY_CEILING). */
int ab_chunk_decode(ab_chunk_decoder *decoder, const ab_limits *limits, const char *buf, size_t len,
                    size_t *consumed, ab_view *data) AB_WARN_UNUSED;

/* The same for a caller that moves the data itself: takes framing alone, up to the data of a chunk.
 * Returns AB_CHUNK_DATA when data is next, whether or not it is there already; *consumed as above,
 * and the last decoder->section of these bytes belong to the trailer section. */
int ab_chunk_framing(ab_chunk_decoder *decoder, const ab_limits *limits, const char *buf,
                     size_t len, size_t *consumed) AB_WARN_UNUSED;
/* Bytes of data that come next, without framing in between. */
uint64_t ab_chunk_data_left(const ab_chunk_decoder *decoder);
/* `len` of them were taken. */
void ab_chunk_take(ab_chunk_decoder *decoder, uint64_t len);

#endif
