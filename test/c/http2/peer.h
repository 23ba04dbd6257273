/* A client, the library's own, and what it has seen; and the way between it and a server. */
#ifndef AB_TEST_HTTP2_PEER_H
#define AB_TEST_HTTP2_PEER_H

#include "server.h"

#define PEER_TEXT    8192
#define PEER_STREAMS 512

typedef struct peer_stream {
  char heads[PEER_TEXT]; /* "name=value;" for each field, "|" behind each block */
  size_t heads_len;
  uint64_t body_len;
  char first; /* byte of the body */
  bool ended, closed;
  uint32_t code;
} peer_stream;

typedef struct peer {
  nghttp2_session *session;
  peer_stream *streams; /* by id */
  uint32_t goaway_code;
  int32_t goaway_last;
  int goaways, resets, settings;
  const char *upload; /* what its requests carry; those submitted later may have another one */
} peer;

static AB_UNUSED int peer_on_header(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame,
                                    const uint8_t *name, size_t name_len, const uint8_t *value,
                                    size_t value_len, uint8_t flags AB_UNUSED, void *user) {
  peer_stream *one = &((peer *)user)->streams[frame->hd.stream_id];
  if (one->heads_len + name_len + value_len + 3 > PEER_TEXT) return 0;
  one->heads_len += (size_t)sprintf(one->heads + one->heads_len, "%.*s=%.*s;", (int)name_len, name,
                                    (int)value_len, value);
  return 0;
}

static AB_UNUSED int peer_on_frame(nghttp2_session *session AB_UNUSED, const nghttp2_frame *frame,
                                   void *user) {
  peer *self = user;
  peer_stream *one = &self->streams[frame->hd.stream_id];
  if (frame->hd.type == NGHTTP2_HEADERS && one->heads_len + 2 < PEER_TEXT) {
    one->heads[one->heads_len++] = '|';
  }
  if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
    one->ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  }
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    self->goaways++;
    self->goaway_code = frame->goaway.error_code;
    self->goaway_last = frame->goaway.last_stream_id;
  }
  self->resets += frame->hd.type == NGHTTP2_RST_STREAM;
  self->settings += frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
  return 0;
}

static AB_UNUSED int peer_on_chunk(nghttp2_session *session AB_UNUSED, uint8_t flags AB_UNUSED,
                                   int32_t id, const uint8_t *ptr, size_t len, void *user) {
  peer_stream *one = &((peer *)user)->streams[id];
  if (one->body_len == 0) one->first = (char)*ptr;
  for (size_t i = 0; i < len; i++) {
    /* Only the server's errors are texts. */
    if (ptr[i] != (uint8_t)one->first) CHECK(strstr(one->heads, ":status=5"));
  }
  one->body_len += len;
  return 0;
}

static AB_UNUSED int peer_on_close(nghttp2_session *session AB_UNUSED, int32_t id, uint32_t code,
                                   void *user) {
  peer_stream *one = &((peer *)user)->streams[id];
  one->closed = true;
  one->code = code;
  return 0;
}

static AB_UNUSED void peer_init_with(peer *self, const nghttp2_settings_entry *entries,
                                     size_t count, bool consumes) {
  memset(self, 0, sizeof *self);
  self->streams = calloc(PEER_STREAMS, sizeof *self->streams);
  if (!self->streams) abort();
  nghttp2_session_callbacks *calls;
  nghttp2_option *option;
  if (nghttp2_session_callbacks_new(&calls) != 0 || nghttp2_option_new(&option) != 0) abort();
  nghttp2_session_callbacks_set_on_header_callback(calls, peer_on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, peer_on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, peer_on_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, peer_on_close);
  nghttp2_option_set_no_auto_window_update(option, !consumes);
  /* What is wrong on purpose shall get out. */
  nghttp2_option_set_no_http_messaging(option, 1);
  if (nghttp2_session_client_new2(&self->session, calls, self, option) != 0) abort();
  nghttp2_session_callbacks_del(calls);
  nghttp2_option_del(option);
  CHECK_INT(0, nghttp2_submit_settings(self->session, NGHTTP2_FLAG_NONE, entries, count));
}

static AB_UNUSED void peer_init(peer *self) {
  peer_init_with(self, NULL, 0, true);
}

static AB_UNUSED void peer_fini(peer *self) {
  nghttp2_session_del(self->session);
  free(self->streams);
}

static AB_UNUSED nghttp2_nv peer_pair(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                      NGHTTP2_NV_FLAG_NONE};
}

static AB_UNUSED ssize_t peer_read(nghttp2_session *session AB_UNUSED, int32_t id AB_UNUSED,
                                   uint8_t *buf, size_t most, uint32_t *flags,
                                   nghttp2_data_source *source, void *user AB_UNUSED) {
  const char **left = source->ptr;
  size_t len = strlen(*left);
  if (len > most) len = most;
  memcpy(buf, *left, len);
  *left += len;
  if (**left == 0) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return (ssize_t)len;
}

/* A request with these pairs of names and values, which NULL ends, and the upload as its body. */
static AB_UNUSED int32_t peer_request(peer *self, const char *const *pairs, bool body) {
  nghttp2_nv fields[256];
  size_t count = 0;
  for (; pairs[2 * count]; count++) {
    fields[count] = peer_pair(pairs[2 * count], pairs[2 * count + 1]);
  }
  nghttp2_data_provider provider = {.source.ptr = (void *)&self->upload,
                                    .read_callback = peer_read};
  return nghttp2_submit_request(self->session, NULL, fields, count, body ? &provider : NULL, NULL);
}

#define PAIRS(...)                                                                                 \
  (const char *const[]) {                                                                          \
    __VA_ARGS__, NULL, NULL                                                                        \
  }
#define PAIRS_OF(method, path)                                                                     \
  ":method", method, ":scheme", "https", ":path", path, ":authority", "a.test"

static AB_UNUSED int32_t peer_get(peer *self, const char *path) {
  return peer_request(self, PAIRS(PAIRS_OF("GET", path)), false);
}

static AB_UNUSED int32_t peer_post(peer *self, const char *body) {
  self->upload = body;
  return peer_request(self, PAIRS(PAIRS_OF("POST", "/")), true);
}

/* What the client has to say, to the server, `step` bytes at a time (0: all). True if there was
 * anything. */
static AB_UNUSED bool peer_to_server(peer *self, server *server, size_t step) {
  const uint8_t *bytes;
  bool any = false;
  for (ssize_t len; (len = nghttp2_session_mem_send(self->session, &bytes)) > 0; any = true) {
    for (size_t at = 0, rest = (size_t)len; rest > 0;) {
      size_t now = step && step < rest ? step : rest;
      (void)server_receive(server, bytes + at, now);
      at += now;
      rest -= now;
    }
  }
  return any;
}

static AB_UNUSED bool server_to_peer(server *server, peer *self, uint64_t most) {
  size_t len;
  char *bytes = server_send(server, &len, most);
  if (len) CHECK_INT((ssize_t)len, nghttp2_session_mem_recv(self->session, (uint8_t *)bytes, len));
  free(bytes);
  return len > 0;
}

/* Until both are silent. */
static AB_UNUSED void play_with(server *server, peer *self, size_t step, uint64_t most) {
  for (bool any = true; any;) {
    any = peer_to_server(self, server, step);
    any |= server_to_peer(server, self, most);
  }
}

static AB_UNUSED void play(server *server, peer *self) {
  play_with(server, self, 0, UINT64_MAX);
}

#endif
