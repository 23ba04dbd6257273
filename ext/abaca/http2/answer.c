/* What a stream answers: heads, content, trailers. */
#ifdef AB_HAVE_HTTP2

#include <string.h>

#include "http/char.h"
#include "http/trailer.h"
#include "http2/internal.h"

/* A list of this many fields needs no memory of its own. */
#define FIELDS_FEW 32

typedef struct field_list {
  const ab_mem *mem;
  nghttp2_nv *fields;
  size_t count;
  uint8_t status[3];
  nghttp2_nv few[FIELDS_FEW];
} field_list;

static nghttp2_nv pair(ab_view name, ab_view value) {
  return (nghttp2_nv){(uint8_t *)name.ptr, (uint8_t *)value.ptr, name.len, value.len,
                      NGHTTP2_NV_FLAG_NONE};
}

/* Fields of a connection, which HTTP/2 has no place for (RFC 9113 8.2.2). */
static bool is_of_connection(ab_view name) {
  static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                      "transfer-encoding", "upgrade"};
  for (size_t i = 0; i < AB_ARRAY_LEN(names); i++) {
    if (ab_view_spells(name, names[i], strlen(names[i]))) return true;
  }
  return false;
}

static size_t count_lines(ab_view lines) {
  size_t count = 0;
  for (const char *p = lines.ptr, *end = p + lines.len; p < end; p++) count += *p == '\n';
  return count;
}

static void add_status(field_list *list, int status) {
  list->status[0] = (uint8_t)('0' + status / 100 % 10);
  list->status[1] = (uint8_t)('0' + status / 10 % 10);
  list->status[2] = (uint8_t)('0' + status % 10);
  list->fields[list->count++] =
      pair((ab_view){":status", 7}, (ab_view){(const char *)list->status, 3});
}

/* The fields point into the lines; status 0: none, for trailers. False without memory. */
static bool list_init(field_list *list, const ab_mem *mem, int status, ab_view lines) {
  size_t most = lines.len ? count_lines(lines) + 1 : 1;
  list->mem = mem;
  list->count = 0;
  list->fields = most <= FIELDS_FEW ? list->few : ab_alloc(mem, most * sizeof(nghttp2_nv));
  if (!list->fields) return false;
  if (status) add_status(list, status);
  ab_view name, value;
  while (ab_trailer_next(&lines, &name, &value)) {
    if (!is_of_connection(name)) list->fields[list->count++] = pair(name, value);
  }
  return true;
}

static void list_fini(field_list *list) {
  if (list->fields != list->few) ab_free(list->mem, list->fields);
}

/* What a submission returned, as ours. */
static int submitted(int result) {
  if (result >= 0) return AB_OK;
  return result == NGHTTP2_ERR_NOMEM ? AB_ENOMEM : AB_EINVAL;
}

int ab_h2_inform(ab_h2_stream *stream, int status, const char *lines, size_t len) {
  ab_h2 *h2 = stream->h2;
  field_list list;
  if (stream->responded || stream->reset) return AB_OK;
  if (h2->lost || !list_init(&list, h2->mem, status, (ab_view){lines, len})) return AB_ENOMEM;
  int result = nghttp2_submit_headers(h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, list.fields,
                                      list.count, NULL);
  list_fini(&list);
  return submitted(result);
}

int ab_h2_respond(ab_h2_stream *stream, int status, const char *lines, size_t len, bool content) {
  ab_h2 *h2 = stream->h2;
  field_list list;
  if (stream->responded) return AB_EINVAL;
  if (stream->reset) return AB_OK;
  if (h2->lost || !list_init(&list, h2->mem, status, (ab_view){lines, len})) return AB_ENOMEM;
  const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = ab__h2_offer};
  int result = nghttp2_submit_response(h2->session, stream->id, list.fields, list.count,
                                       content ? &provider : NULL);
  list_fini(&list);
  if (result == 0) stream->responded = true;
  return submitted(result);
}

int ab_h2_set_trailers(ab_h2_stream *stream, const char *lines, size_t len) {
  ab_h2 *h2 = stream->h2;
  char *copy = NULL;
  if (len > 0) {
    copy = ab_alloc(h2->mem, len);
    if (!copy) return AB_ENOMEM;
    memcpy(copy, lines, len);
  }
  ab_free(h2->mem, stream->response_trailers);
  stream->response_trailers = copy;
  stream->response_trailers_len = len;
  return AB_OK;
}

void ab_h2_resume(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  if (!h2->lost) (void)nghttp2_session_resume_data(h2->session, stream->id);
}

/* False without memory. */
static bool submit_trailers(ab_h2_stream *stream) {
  ab_h2 *h2 = stream->h2;
  ab_view lines = {stream->response_trailers, stream->response_trailers_len};
  field_list list;
  if (!list_init(&list, h2->mem, 0, lines)) return false;
  int result = nghttp2_submit_trailer(h2->session, stream->id, list.fields, list.count);
  list_fini(&list);
  return result == 0;
}

ssize_t ab__h2_offer(nghttp2_session *session AB_UNUSED, int32_t id AB_UNUSED,
                     uint8_t *buf AB_UNUSED, size_t most, uint32_t *flags,
                     nghttp2_data_source *source, void *user) {
  ab_h2 *h2 = user;
  ab_h2_stream *stream = source->ptr;
  bool last = false;
  size_t len = h2->calls.available(h2->ctx, stream, most, &last);
  if (len == 0 && !last) return NGHTTP2_ERR_DEFERRED;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (last) *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (last && stream->response_trailers_len > 0) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (!submit_trailers(stream)) {
      h2->lost = true;
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }
  return (ssize_t)len;
}

int ab__h2_put(nghttp2_session *session AB_UNUSED, nghttp2_frame *frame AB_UNUSED,
               const uint8_t *head, size_t len, nghttp2_data_source *source, void *user) {
  ab_h2 *h2 = user;
  if (ab_outbox_write(h2->out, (const char *)head, 9) != AB_OK ||
      (len > 0 && h2->calls.take(h2->ctx, source->ptr, h2->out, len) != AB_OK)) {
    h2->lost = true;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  h2->paused = ab_outbox_pending(h2->out) >= h2->most;
  return h2->paused ? NGHTTP2_ERR_PAUSE : 0;
}

#endif
