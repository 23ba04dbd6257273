/* A build without the library: there is no session, so that nothing else here is ever called. */
#ifndef AB_HAVE_HTTP2

#include "http2/session.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *ab_h2_library(void) {
  return NULL;
}

ab_h2 *ab_h2_init(const ab_mem *mem, const ab_limits *limits, const ab_methods *methods,
                  const ab_h2_calls *calls, void *ctx) {
  return NULL;
}

void ab_h2_fini(ab_h2 *h2) {}

int ab_h2_receive(ab_h2 *h2, const char *ptr, size_t len, ab_nsec now) {
  return AB_EINVAL;
}

int ab_h2_fill(ab_h2 *h2, ab_outbox *out, uint64_t most) {
  return AB_EINVAL;
}

bool ab_h2_owes(const ab_h2 *h2) {
  return false;
}

bool ab_h2_is_over(const ab_h2 *h2) {
  return true;
}

uint32_t ab_h2_streams(const ab_h2 *h2) {
  return 0;
}

uint64_t ab_h2_requests(const ab_h2 *h2) {
  return 0;
}

uint64_t ab_h2_frames(const ab_h2 *h2) {
  return 0;
}

bool ab_h2_is_amid(const ab_h2 *h2) {
  return false;
}

int ab_h2_warn_of_end(ab_h2 *h2) {
  return AB_EINVAL;
}

int ab_h2_end_session(ab_h2 *h2) {
  return AB_EINVAL;
}

int ab_h2_break(ab_h2 *h2, uint32_t code) {
  return AB_EINVAL;
}

void ab_h2_stream_set_app(ab_h2_stream *stream, void *app) {}

void *ab_h2_stream_app(const ab_h2_stream *stream) {
  return NULL;
}

int32_t ab_h2_stream_id(const ab_h2_stream *stream) {
  return 0;
}

bool ab_h2_stream_is_head(const ab_h2_stream *stream) {
  return false;
}

ab_view ab_h2_stream_trailers(const ab_h2_stream *stream) {
  return (ab_view){NULL, 0};
}

bool ab_h2_stream_has_ended(const ab_h2_stream *stream) {
  return true;
}

bool ab_h2_stream_is_complete(const ab_h2_stream *stream) {
  return true;
}

void ab_h2_consume(ab_h2_stream *stream, size_t len) {}

void ab_h2_widen(ab_h2_stream *stream) {}

int ab_h2_inform(ab_h2_stream *stream, int status, const char *lines, size_t len) {
  return AB_EINVAL;
}

int ab_h2_respond(ab_h2_stream *stream, int status, const char *lines, size_t len, bool content) {
  return AB_EINVAL;
}

int ab_h2_set_trailers(ab_h2_stream *stream, const char *lines, size_t len) {
  return AB_EINVAL;
}

void ab_h2_resume(ab_h2_stream *stream) {}

void ab_h2_reset(ab_h2_stream *stream, uint32_t code) {}

#endif
