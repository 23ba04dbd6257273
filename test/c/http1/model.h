/* A connection without a socket: it plays bytes through the head parser and the chunk decoder the
 * way the engine does, and records what would be answered. Bytes that have not "arrived" are
 * poisoned under ASan, so that a look at them fails the test. */
#ifndef AB_TEST_HTTP1_MODEL_H
#define AB_TEST_HTTP1_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "http1/chunk.h"
#include "http1/head.h"

#if defined(__SANITIZE_ADDRESS__)
#define MODEL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MODEL_ASAN 1
#endif
#endif

#ifdef MODEL_ASAN
#include <sanitizer/asan_interface.h>
#define MODEL_HIDE(ptr, len) __asan_poison_memory_region(ptr, len)
#define MODEL_SHOW(ptr, len) __asan_unpoison_memory_region(ptr, len)
#else
#define MODEL_HIDE(ptr, len) ((void)0)
#define MODEL_SHOW(ptr, len) ((void)0)
#endif

#define MODEL_FIELDS    128
#define MODEL_RESPONSES 32

enum model_state { MODEL_HEAD, MODEL_LENGTH, MODEL_CHUNKED, MODEL_CLOSED };

/* All that a client or an application could see; compared byte by byte between segmentations, so
 * it has no padding that is not zero. */
typedef struct model_outcome {
  uint32_t responses;
  int32_t errors[MODEL_RESPONSES]; /* 0 for a 2xx response, else the enum ab_http_error */
  uint64_t consumed;               /* of requests that were served whole */
  uint64_t body_bytes;             /* of all requests */
  uint64_t digest;                 /* of all parsed parts and bodies, in order */
  uint32_t state;                  /* enum model_state, at the end of the input */
  uint32_t awaits_continue;
  uint32_t keep_alive; /* of the last request */
  uint32_t first_body_len;
  uint32_t first_target_len;
  char first_body[256];
  char first_target[256];
} model_outcome;

typedef struct model {
  const ab_limits *limits;
  const char *bytes;
  size_t at; /* bytes used up */
  ab_head_progress progress;
  ab_head head;
  ab_field fields[MODEL_FIELDS];
  ab_chunk_decoder chunks;
  uint64_t left; /* of an AB_BODY_LENGTH body */
  uint32_t requests;
  model_outcome out;
} model;

static inline void model_digest(model *self, const char *ptr, size_t len) {
  for (size_t i = 0; i < len; i++) {
    self->out.digest = (self->out.digest ^ (unsigned char)ptr[i]) * UINT64_C(0x100000001b3);
  }
}

static inline void model_digest_view(model *self, ab_view view) {
  uint64_t len = view.len;
  model_digest(self, (const char *)&len, sizeof(len));
  if (view.len) model_digest(self, view.ptr, view.len);
}

static inline void model_respond(model *self, int error) {
  if (self->out.responses < MODEL_RESPONSES) self->out.errors[self->out.responses] = error;
  self->out.responses++;
  self->out.state = error ? MODEL_CLOSED : MODEL_HEAD;
}

static inline void model_end_request(model *self) {
  model_respond(self, 0);
  self->out.consumed = self->at;
  if (!self->head.framing.keep_alive) self->out.state = MODEL_CLOSED;
  self->progress = (ab_head_progress){0};
}

/* The one application that does not answer 200 refuses before it reads. */
static inline int model_app_refuses(const model *self) {
  ab_view path = self->head.request.path;
  return path.len == 11 && memcmp(path.ptr, "/reject-413", 11) == 0;
}

static inline void model_note_head(model *self) {
  const ab_request *request = &self->head.request;
  const ab_framing *framing = &self->head.framing;
  model_digest_view(self, request->method);
  model_digest_view(self, request->target);
  model_digest_view(self, request->path);
  model_digest_view(self, request->query);
  model_digest_view(self, request->host);
  model_digest_view(self, request->port);
  model_digest_view(self, request->authority);
  for (uint32_t i = 0; i < request->field_count; i++) {
    const ab_field *field = &request->fields[i];
    model_digest_view(self, (ab_view){field->name, field->name_len});
    model_digest_view(self, (ab_view){field->value, field->value_len});
    model_digest(self, (const char *)&field->id, 1);
  }
  char rest[] = {(char)request->minor,   (char)request->target_form,     (char)request->is_head,
                 (char)framing->body,    (char)framing->keep_alive,      (char)framing->has_length,
                 (char)request->upgrade, (char)framing->expect_continue, (char)(self->head.size),
                 (char)(request->known)};
  model_digest(self, rest, sizeof(rest));
  self->out.keep_alive = framing->keep_alive;
  if (self->requests++ == 0) {
    size_t len = request->target.len < 256 ? request->target.len : 256;
    memcpy(self->out.first_target, request->target.ptr, len);
    self->out.first_target_len = (uint32_t)len;
  }
}

static inline void model_note_body(model *self, ab_view data) {
  model_digest(self, data.ptr, data.len);
  self->out.body_bytes += data.len;
  if (self->requests > 1) return;
  size_t room = sizeof(self->out.first_body) - self->out.first_body_len;
  size_t len = data.len < room ? data.len : room;
  memcpy(self->out.first_body + self->out.first_body_len, data.ptr, len);
  self->out.first_body_len += (uint32_t)len;
}

/* Each step returns whether another one may get further with the same bytes. */
static inline bool model_head(model *self, size_t len) {
  int size = ab_head_parse(self->bytes + self->at, len - self->at, self->limits, NULL,
                           &self->progress, &self->head, self->fields);
  if (size == AB_AGAIN) return false;
  if (size < 0) {
    model_respond(self, size);
    return false;
  }
  self->at += (size_t)size;
  model_note_head(self);
  const ab_framing *framing = &self->head.framing;
  self->left = framing->length;
  self->out.awaits_continue = framing->expect_continue;
  ab_chunk_init(&self->chunks);
  if (model_app_refuses(self)) {
    model_respond(self, AB_HTTP_BODY_TOO_LARGE);
    return false;
  }
  if (framing->body == AB_BODY_NONE) {
    model_end_request(self);
  } else {
    self->out.state = framing->body == AB_BODY_LENGTH ? MODEL_LENGTH : MODEL_CHUNKED;
  }
  return true;
}

static inline bool model_length(model *self, size_t len) {
  size_t here = len - self->at;
  if (here > self->left) here = (size_t)self->left;
  if (here == 0) return false;
  model_note_body(self, (ab_view){self->bytes + self->at, here});
  self->at += here;
  self->left -= here;
  self->out.awaits_continue = 0;
  if (self->left == 0) model_end_request(self);
  return self->left == 0;
}

static inline bool model_chunked(model *self, size_t len) {
  size_t used;
  ab_view data = {0};
  int result = ab_chunk_decode(&self->chunks, self->limits, self->bytes + self->at, len - self->at,
                               &used, &data);
  self->at += used;
  if (used) self->out.awaits_continue = 0;
  if (result < 0) {
    model_respond(self, result);
    return false;
  }
  if (result == AB_CHUNK_DATA) model_note_body(self, data);
  if (result == AB_CHUNK_DONE) model_end_request(self);
  return result != AB_CHUNK_MORE;
}

/* The bytes before `len` have arrived. */
static inline void model_feed(model *self, size_t len) {
  bool more = true;
  while (more && self->out.state != MODEL_CLOSED && self->at < len) {
    switch (self->out.state) {
    case MODEL_HEAD:
      more = model_head(self, len);
      break;
    case MODEL_LENGTH:
      more = model_length(self, len);
      break;
    default:
      more = model_chunked(self, len);
      break;
    }
  }
}

/* Plays bytes[0 .. len - 1]. `next` returns the size of the segment that starts at the given
 * offset, from 1 on; NULL plays all at once. */
static inline model_outcome model_play(const char *bytes, size_t len, const ab_limits *limits,
                                       size_t (*next)(void *ctx, size_t at), void *ctx) {
  size_t room = (len + 64) & ~(size_t)15;
  char *copy = calloc(1, room);
  model *self = calloc(1, sizeof(*self));
  if (!copy || !self) abort();
  if (len) memcpy(copy, bytes, len);
  MODEL_HIDE(copy, room);
  self->bytes = copy;
  self->limits = limits;
  for (size_t here = 0; here < len;) {
    size_t step = next ? next(ctx, here) : len;
    here += step < len - here ? step : len - here;
    MODEL_SHOW(copy, here);
    model_feed(self, here);
  }
  model_outcome outcome = self->out;
  MODEL_SHOW(copy, room);
  free(copy);
  free(self);
  return outcome;
}

static inline size_t model_next_one(void *ctx, size_t at) {
  (void)ctx, (void)at;
  return 1;
}

/* Two segments; *ctx is the size of the first. */
static inline size_t model_next_two(void *ctx, size_t at) {
  return at == 0 ? *(size_t *)ctx : SIZE_MAX;
}

/* Segments of 1 to 24 bytes, now and then of up to 512, from the seed in *ctx. */
static inline size_t model_next_random(void *ctx, size_t at) {
  uint64_t *seed = ctx;
  (void)at;
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed >> 60 == 0 ? 1 + (*seed >> 8) % 512 : 1 + (*seed >> 8) % 24;
}

static inline bool model_same(const model_outcome *a, const model_outcome *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
