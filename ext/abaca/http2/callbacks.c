/* What the library calls while it takes bytes and makes frames. */
#ifdef AB_HAVE_HTTP2

#include "http2/internal.h"

/* Lets the library return at once when the session has been broken meanwhile. */
static int go_on(const ab_h2 *h2) {
  return h2->broken || h2->lost ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int too_much(ab_h2 *h2) {
  (void)ab_h2_break(h2, AB_H2_ENHANCE_YOUR_CALM);
  return go_on(h2);
}

/* --- what comes --- */

/* A stream that was left out is closed when a higher one begins (RFC 9113 5.1.1). The library takes
 * it for one that has been open. */
static bool is_left_out(ab_h2 *h2, int32_t id) {
  if (id <= h2->last_id) return id >= h2->gap_from && id <= h2->gap_to;
  if (id > h2->last_id + 2) {
    h2->gap_from = h2->last_id + 1;
    h2->gap_to = id - 1;
  }
  h2->last_id = id;
  return false;
}

/* What the library lets pass. */
static bool is_misplaced(ab_h2 *h2, const nghttp2_frame_hd *hd) {
  if (hd->type == NGHTTP2_PRIORITY) return hd->stream_id == 0; /* RFC 9113 6.3 */
  return hd->type == NGHTTP2_HEADERS && is_left_out(h2, hd->stream_id);
}

/* Each frame that comes, unless its header is refused already. */
static int begin_frame(nghttp2_session *session AB_UNUSED, const nghttp2_frame_hd *hd, void *user) {
  ab_h2 *h2 = user;
  h2->frames++;
  h2->continuations = hd->type == NGHTTP2_CONTINUATION ? h2->continuations + 1 : 0;
  h2->continued = (hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_CONTINUATION) &&
                  !(hd->flags & NGHTTP2_FLAG_END_HEADERS);
  if (h2->continuations > AB__H2_CONTINUATIONS_MAX) return too_much(h2);
  if (!ab__h2_guard_frame(&h2->guard)) return too_much(h2);
  if (is_misplaced(h2, hd)) (void)ab_h2_break(h2, AB_H2_PROTOCOL_ERROR);
  return go_on(h2);
}

static int ignore_extension(nghttp2_session *session AB_UNUSED, void **payload AB_UNUSED,
                            const nghttp2_frame_hd *hd AB_UNUSED, void *user AB_UNUSED) {
  return NGHTTP2_ERR_CANCEL;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  ab_h2 *h2 = user;
  bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
  ab__h2_block_begin(&h2->block, !is_request);
  if (is_request) {
    ab_h2_stream *stream = ab__h2_stream_init(h2, frame->hd.stream_id);
    if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    ab__h2_guard_progress(&h2->guard);
  }
  h2->in_block = true;
  return 0;
}

static int header(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame AB_UNUSED,
                  const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len,
                  uint8_t flags AB_UNUSED, void *user) {
  ab_h2 *h2 = user;
  ab__h2_block_add(&h2->block, h2->mem, h2->limits, (ab_view){(const char *)name, name_len},
                   (ab_view){(const char *)value, value_len});
  return h2->block.size / AB__H2_HEAD_EXCESS > h2->limits->max_head_size ? too_much(h2) : 0;
}

/* The library would leave the field out and go on (RFC 9113 8.2.1 forbids that). */
static int invalid_header(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame AB_UNUSED,
                          const uint8_t *name AB_UNUSED, size_t name_len AB_UNUSED,
                          const uint8_t *value AB_UNUSED, size_t value_len AB_UNUSED,
                          uint8_t flags AB_UNUSED, void *user AB_UNUSED) {
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void end_block(ab_h2 *h2) {
  h2->in_block = false;
  ab__h2_block_end(&h2->block, h2->mem);
}

static int invalid_frame(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame,
                         int error AB_UNUSED, void *user) {
  if (frame->hd.type == NGHTTP2_HEADERS) end_block(user);
  return 0;
}

static void take_headers(ab_h2 *h2, const nghttp2_frame *frame) {
  ab_h2_stream *stream = ab__h2_find(h2, frame->hd.stream_id);
  if (stream) {
    stream->ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      ab__h2_take_request(stream);
    } else {
      ab__h2_take_trailers(stream);
    }
  }
  end_block(h2);
}

static void take_data_end(ab_h2 *h2, const nghttp2_frame *frame) {
  ab_h2_stream *stream = ab__h2_find(h2, frame->hd.stream_id);
  if (!stream || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return;
  stream->ended = true;
  if (!stream->refused && !stream->reset) h2->calls.end(h2->ctx, stream);
}

static int frame_received(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame,
                          void *user) {
  ab_h2 *h2 = user;
  switch (frame->hd.type) {
  case NGHTTP2_HEADERS:
    take_headers(h2, frame);
    break;
  case NGHTTP2_DATA:
    /* The library has refused padding that is longer than the frame. */
    if (!ab__h2_guard_data(&h2->guard, frame->hd.length - frame->data.padlen)) return too_much(h2);
    take_data_end(h2, frame);
    break;
  case NGHTTP2_SETTINGS:
    h2->greeted = true;
    break;
  case NGHTTP2_RST_STREAM:
    if (!ab__h2_guard_reset(&h2->guard)) return too_much(h2);
    break;
  default:
    break;
  }
  return go_on(h2);
}

static int data_chunk(nghttp2_session *session, uint8_t flags AB_UNUSED, int32_t id,
                      const uint8_t *ptr, size_t len, void *user) {
  ab_h2 *h2 = user;
  ab_h2_stream *stream = ab__h2_find(h2, id);
  if (!stream || stream->refused || stream->reset) {
    (void)nghttp2_session_consume_connection(session, len);
  } else {
    stream->unread += len;
    h2->calls.data(h2->ctx, stream, (const char *)ptr, len);
  }
  return go_on(h2);
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t code AB_UNUSED,
                         void *user) {
  ab_h2 *h2 = user;
  ab_h2_stream *stream = ab__h2_find(h2, id);
  if (!stream) return 0;
  if (stream->ended && stream->complete) ab__h2_guard_finished(&h2->guard);
  nghttp2_session_set_stream_user_data(session, id, NULL);
  ab__h2_stream_fini(stream);
  return h2->receiving ? go_on(h2) : 0;
}

/* --- what goes --- */

/* RST_STREAM with these is not for what the client did. */
static bool blames_client(uint32_t code) {
  return code != NGHTTP2_NO_ERROR && code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_CANCEL;
}

static int frame_sent(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame, void *user) {
  ab_h2 *h2 = user;
  bool ends = (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
              (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
  ab_h2_stream *stream = ends ? ab__h2_find(h2, frame->hd.stream_id) : NULL;
  if (stream) ab__h2_complete(stream);
  if (frame->hd.type == NGHTTP2_DATA && frame->hd.length > 0) ab__h2_guard_progress(&h2->guard);
  if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
    h2->broken = true;
  }
  if (frame->hd.type == NGHTTP2_RST_STREAM && blames_client(frame->rst_stream.error_code) &&
      !ab__h2_guard_fault(&h2->guard)) {
    (void)ab_h2_break(h2, AB_H2_ENHANCE_YOUR_CALM);
  }
  return 0;
}

/* A head that cannot be sent, of a stream that is still there. */
static int frame_not_sent(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame, int error,
                          void *user) {
  ab_h2_stream *stream = NULL;
  if (frame->hd.type == NGHTTP2_HEADERS && error != NGHTTP2_ERR_STREAM_CLOSING) {
    stream = ab__h2_find(user, frame->hd.stream_id);
  }
  if (stream) ab_h2_reset(stream, AB_H2_INTERNAL_ERROR);
  return 0;
}

nghttp2_session_callbacks *ab__h2_callbacks_init(void) {
  nghttp2_session_callbacks *calls;
  if (nghttp2_session_callbacks_new(&calls) != 0) return NULL;
  nghttp2_session_callbacks_set_on_begin_frame_callback(calls, begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(calls, begin_headers);
  nghttp2_session_callbacks_set_unpack_extension_callback(calls, ignore_extension);
  nghttp2_session_callbacks_set_on_header_callback(calls, header);
  nghttp2_session_callbacks_set_on_invalid_header_callback(calls, invalid_header);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, invalid_frame);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, data_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, stream_closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(calls, frame_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, frame_not_sent);
  nghttp2_session_callbacks_set_send_data_callback(calls, ab__h2_put);
  return calls;
}

#endif
