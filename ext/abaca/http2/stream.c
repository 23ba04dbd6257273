/* A stream: what has come of its request, and how it ends. */
#ifdef AB_HAVE_HTTP2

#include "http2/internal.h"

ab_h2_stream *ab__h2_stream_init(ab_h2 *h2, int32_t id) {
  ab_h2_stream *stream = ab_alloc_zero(h2->mem, sizeof *stream);
  if (!stream) return NULL;
  stream->h2 = h2;
  stream->id = id;
  ab_list_append(&h2->streams, &stream->node);
  return stream;
}

void ab__h2_stream_fini(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  ab_list_remove(&stream->node);
  if (stream->told) {
    h2->open--;
    h2->calls.closed(h2->ctx, stream);
  }
  /* What nobody will read counts no longer against the connection's window. */
  if (!h2->lost) (void)nghttp2_session_consume_connection(h2->session, stream->unread);
  ab_free(h2->mem, stream->trailers);
  ab_free(h2->mem, stream->response_trailers);
  ab_free(h2->mem, stream);
}

void ab__h2_take_request(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  ab_h2_head *head = NULL;
  int error = ab__h2_block_head(&h2->block, h2->mem, h2->methods, &head);
  stream->is_head = h2->block.is_head;
  stream->refused = error != AB_OK;
  stream->told = true;
  h2->open++;
  h2->requests++;
  h2->calls.request(h2->ctx, stream, head, error, stream->ended);
}

void ab__h2_take_trailers(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  if (stream->refused || stream->reset) return;
  int error = ab__h2_block_trailers(&h2->block, h2->mem, &stream->trailers, &stream->trailers_len);
  if (error == AB_OK) {
    h2->calls.end(h2->ctx, stream);
  } else {
    ab_h2_reset(stream,
                error == AB_HTTP_NO_MEMORY ? AB_H2_INTERNAL_ERROR : AB_H2_ENHANCE_YOUR_CALM);
  }
}

void ab_h2_stream_set_app(ab_h2_stream *stream, void *app) {
  stream->app = app;
}

void *ab_h2_stream_app(const ab_h2_stream *stream) {
  return stream->app;
}

int32_t ab_h2_stream_id(const ab_h2_stream *stream) {
  return stream->id;
}

bool ab_h2_stream_is_head(const ab_h2_stream *stream) {
  return stream->is_head;
}

ab_view ab_h2_stream_trailers(const ab_h2_stream *stream) {
  return (ab_view){stream->trailers, stream->trailers_len};
}

bool ab_h2_stream_has_ended(const ab_h2_stream *stream) {
  return stream->ended;
}

bool ab_h2_stream_is_complete(const ab_h2_stream *stream) {
  return stream->ended && stream->complete;
}

void ab_h2_consume(ab_h2_stream *stream, size_t len) {
  ab_h2 *h2 = stream->h2;
  if (h2->lost) return;
  if (len > stream->unread) len = (size_t)stream->unread;
  stream->unread -= len;
  bool more = !stream->ended && !stream->reset; /* otherwise the stream needs no window */
  (void)(more ? nghttp2_session_consume(h2->session, stream->id, len)
              : nghttp2_session_consume_connection(h2->session, len));
}

void ab_h2_widen(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  uint64_t window = h2->limits->stream_window;
  if (h2->lost || window <= AB__H2_WINDOW || stream->ended || stream->reset) return;
  (void)nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                              window < INT32_MAX ? (int32_t)window : INT32_MAX);
}

static void give_up(ab_h2_stream *stream, uint32_t code) {
  ab_h2 *h2 = stream->h2;
  stream->reset = true;
  if (h2->lost) return;
  (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
}

void ab_h2_reset(ab_h2_stream *stream, uint32_t code) {
  if (stream->reset) return;
  if (code == AB_H2_NO_ERROR && stream->responded && !stream->complete) {
    stream->reset_after = true;
  } else {
    give_up(stream, code);
  }
}

void ab__h2_complete(ab_h2_stream *stream) {
  stream->complete = true;
  if (stream->reset_after && !stream->ended) give_up(stream, AB_H2_NO_ERROR);
}

#endif
