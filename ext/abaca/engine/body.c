#include "engine/body.h"

#include <string.h>

#include "base/bits.h"
#include "http1/head.h"
#include "page/words.h"

/* So many bytes more are buffered, and so many bodies more of which some has to come. */
static void count(const ab_body *body, uint64_t bytes, uint32_t coming) {
  ab_body_store *store = body->store, *shown = &(*body->shown)->bodies;
  AB_PUT(shown->bytes, store->bytes += bytes);
  AB_PUT(shown->coming, store->coming += coming);
}

int ab_body_init(ab_body **result, const ab_mem *mem, const ab_limits *limits,
                 const ab_framing *framing) {
  uint64_t most = limits->max_body_size ? limits->max_body_size : AB_BODY_CEILING;
  if (framing->body == AB_BODY_LENGTH && framing->length > most) return AB_HTTP_BODY_TOO_LARGE;

  ab_body *body = ab_alloc_zero(mem, sizeof(*body));
  if (!body) return AB_HTTP_NO_MEMORY;
  body->mem = mem;
  body->chunked = framing->body == AB_BODY_CHUNKED;
  if (body->chunked) {
    ab_chunk_init(&body->chunks);
  } else {
    body->left = framing->length;
  }
  *result = body;
  return AB_OK;
}

void ab_body_fini(ab_body *body) {
  if (!body) return;
  if (body->buffering) count(body, 0, -1u);
  if (body->store) ab_body_used_up(body);
  ab_free(body->mem, body->trailers);
  ab_free(body->mem, body);
}

uint64_t ab_body_direct(const ab_body *body) {
  return body->chunked ? ab_chunk_data_left(&body->chunks) : body->left;
}

void ab_body_received(ab_body *body, uint64_t len) {
  body->size += len; /* its sum is at most AB_BODY_CEILING */
  if (body->chunked) {
    ab_chunk_take(&body->chunks, len);
  } else {
    body->left -= len;
    body->done = body->left == 0 && !body->open;
  }
}

/* max_trailer_size has been applied by the decoder. */
int ab_body_keep_trailers(ab_body *body, const char *bytes, uint32_t len) {
  if (len > UINT32_MAX / 2 - body->trailers_len) return AB_HTTP_TRAILER_TOO_LONG;
  if (len > body->trailers_capacity - body->trailers_len) {
    uint32_t capacity = ab_round_up_pow2(body->trailers_len + len);
    char *trailers = ab_realloc(body->mem, body->trailers, capacity);
    if (!trailers) return AB_HTTP_NO_MEMORY;
    body->trailers = trailers;
    body->trailers_capacity = capacity;
  }
  memcpy(body->trailers + body->trailers_len, bytes, len);
  body->trailers_len += len;
  return AB_OK;
}

/* Uses up framing at the start of buf. Returns the number of bytes; sets body->done or ->error. */
static size_t take_framing(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                           bool keep) {
  size_t used = 0;
  int result = ab_chunk_framing(&body->chunks, limits, buf, len, &used);
  uint32_t section = body->chunks.section;
  if (result >= 0 && keep && section && body->chunks.trailers) {
    int error = ab_body_keep_trailers(body, buf + used - section, section);
    if (error) result = error;
  }
  if (result < 0) body->error = result;
  if (result == AB_CHUNK_DONE) body->done = true;
  return used;
}

int64_t ab_body_decode(ab_body *body, const ab_limits *limits, const char *buf, size_t len,
                       size_t *used, char *out, size_t room) {
  size_t at = 0, got = 0;
  for (;;) {
    uint64_t take = ab_body_direct(body);
    if (take > len - at) take = len - at;
    if (take > room - got) take = room - got;
    if (take > 0) {
      if (out) memcpy(out + got, buf + at, (size_t)take);
      ab_body_received(body, take);
      at += (size_t)take;
      got += (size_t)take;
    }
    /* Also when the room is full, so that the end is seen as soon as it arrives; data stays. */
    if (!body->chunked || body->done || body->error || at == len) break;
    if (ab_body_direct(body) > 0) break;
    at += take_framing(body, limits, buf + at, len - at, out != NULL);
  }
  *used = at;
  return got > 0 ? (int64_t)got : body->error;
}

bool ab_body_ends_within(const ab_body *body, const ab_limits *limits, const char *buf,
                         size_t len) {
  if (body->done) return true;
  if (!body->chunked) return body->left <= len;
  ab_chunk_decoder decoder = body->chunks;
  int result;
  do {
    size_t used;
    ab_view data;
    result = ab_chunk_decode(&decoder, limits, buf, len, &used, &data);
    buf += used;
    len -= used;
  } while (result == AB_CHUNK_DATA);
  return result == AB_CHUNK_DONE;
}

void ab_body_buffer(ab_body *body, ab_body_store *store, ab_figures *const *shown) {
  body->store = store;
  body->shown = shown;
  body->buffering = true;
  count(body, 0, 1);
}

void ab_body_look_over(ab_body *body, const ab_limits *limits, const char *buf, size_t len) {
  size_t used = 0;
  int64_t passed = ab_body_decode(body, limits, buf, len, &used, NULL, SIZE_MAX);
  if (passed < 0) body->error = (int32_t)passed;
  body->buffered += (uint32_t)used;
  count(body, used, 0);
}

void ab_body_buffered(ab_body *body) {
  count(body, 0, -1u);
  body->buffering = false;
  body->whole = body->done;
  body->done = false;
  if (body->chunked) {
    ab_chunk_init(&body->chunks);
  } else {
    body->left += body->size;
    body->done = body->left == 0 && !body->open;
  }
  body->size = 0;
}

void ab_body_used_up(ab_body *body) {
  count(body, -(uint64_t)body->buffered, 0);
  body->store = NULL;
}

void ab_body_leave_open(ab_body *body, bool declared) {
  body->open = true;
  body->endless = !declared;
  if (body->endless) body->left = AB_BODY_CEILING;
}

void ab_body_ends_after(ab_body *body, uint64_t rest) {
  body->open = body->endless = false;
  body->left = rest;
  body->done = rest == 0;
}

void ab_body_wait(ab_body *body, ab_nsec now) {
  if (!body->waiting) body->waiting = now;
}

void ab_body_waited(ab_body *body, ab_nsec now) {
  if (body->waiting && now > body->waiting) body->waited += now - body->waiting;
  body->waiting = 0;
}

ab_nsec ab_body_deadline(const ab_body *body, const ab_limits *limits) {
  ab_nsec idle = ab_limit_nsec(limits->body_timeout);
  if (!limits->min_body_rate) return body->waiting + idle;
  ab_nsec allowed =
      ab_limit_nsec(limits->rate_grace) + ab_limit_nsec(body->size / limits->min_body_rate);
  ab_nsec rate = allowed > body->waited ? allowed - body->waited : 0;
  return body->waiting + (rate < idle ? rate : idle);
}
